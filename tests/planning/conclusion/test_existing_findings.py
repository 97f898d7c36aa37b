"""What the plan without its changes would warn of as well is not caused by it."""

from __future__ import annotations

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import build_warning
from nexusform.planning.conclusion.existing_findings import mark_existing_findings
from nexusform.plans.plan import Action, Change, Plan
from nexusform.resources.address import parse_address

WEB = parse_address("nexus_kubernetes_cluster.web")


def _held(plan: Plan) -> tuple[bool, ...]:
    return tuple(diagnostic.is_preexisting for diagnostic in mark_existing_findings(plan).diagnostics)


def test_what_an_export_lacks_may_be_new() -> None:
    lacking = build_warning("not-captured", "No file lists virtual machines.")
    assert _held(Plan(serial=1, diagnostics=(lacking,))) == (False,)


def test_kinds_of_which_nobody_knows_the_cause_count_as_caused() -> None:
    unheard = build_warning("zones-pinned", address=str(WEB))
    assert _held(Plan(serial=1, diagnostics=(unheard,))) == (False,)


def test_an_even_control_plane_is_news_only_where_its_cluster_changes() -> None:
    even = build_warning("even-control-plane", "Text.", None, address=str(WEB))
    plan = Plan(serial=1, diagnostics=(even,))
    assert _held(plan) == (True,)
    change = Change(WEB, Action.UPDATE, {}, {}, "simulated", 1, 1)
    assert _held(replace(plan, changes=(change,))) == (False,)
