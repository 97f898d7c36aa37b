"""What the plan without its changes would warn of as well is not caused by it."""

from __future__ import annotations

from msgspec.structs import replace

from nexusform.address import parse_address
from nexusform.diagnostics import warning
from nexusform.planning.conclusion.held_before import with_held_before
from nexusform.plans.plan import Action, Change, Plan

WEB = parse_address("nexus_kubernetes_cluster.web")


def _held(plan: Plan) -> tuple[bool, ...]:
    return tuple(diagnostic.held_before for diagnostic in with_held_before(plan).diagnostics)


def test_what_an_export_lacks_may_be_new() -> None:
    lacking = warning("not-captured", "No file lists virtual machines.")
    assert _held(Plan(serial=1, diagnostics=(lacking,))) == (False,)


def test_kinds_of_which_nobody_knows_the_cause_count_as_caused() -> None:
    unheard = warning("zones-pinned", address=str(WEB))
    assert _held(Plan(serial=1, diagnostics=(unheard,))) == (False,)


def test_an_even_control_plane_is_news_only_where_its_cluster_changes() -> None:
    even = warning("even-control-plane", "Text.", None, address=str(WEB))
    plan = Plan(serial=1, diagnostics=(even,))
    assert _held(plan) == (True,)
    change = Change(WEB, Action.UPDATE, {}, {}, "simulated", 1, 1)
    assert _held(replace(plan, changes=(change,))) == (False,)
