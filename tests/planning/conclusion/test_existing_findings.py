"""Tests of existing findings.

A warning the plan would give without its changes is not caused by it.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import build_warning
from nexusform.planning.conclusion.existing_findings import mark_existing_findings
from nexusform.plans.plan import Action, Change, Plan, PlanStart
from nexusform.resources.address import parse_address

WEB = parse_address("nexus_kubernetes_cluster.web")


def _list_preexisting(plan: Plan) -> tuple[bool, ...]:
    return tuple(
        diagnostic.is_preexisting for diagnostic in mark_existing_findings(plan).diagnostics
    )


def test_missing_export_data_may_be_new() -> None:
    lacking = build_warning("not-captured", "No file lists virtual machines.")
    assert _list_preexisting(Plan(start=PlanStart(serial=1), diagnostics=(lacking,))) == (False,)


def test_findings_of_unknown_cause_count_as_caused() -> None:
    unheard = build_warning("zones-pinned", address=str(WEB))
    assert _list_preexisting(Plan(start=PlanStart(serial=1), diagnostics=(unheard,))) == (False,)


def test_even_control_plane_is_new_only_if_its_cluster_changes() -> None:
    even = build_warning("even-control-plane", "Text.", None, address=str(WEB))
    plan = Plan(start=PlanStart(serial=1), diagnostics=(even,))
    assert _list_preexisting(plan) == (True,)
    change = Change(WEB, Action.UPDATE, {}, {}, "simulated", 1, 1)
    assert _list_preexisting(replace(plan, changes=(change,))) == (False,)


@pytest.mark.parametrize(
    "changed", ["WEB[0]", 'WEB["a"]', "module.m[0].WEB", 'module.m["a"].WEB[1]']
)
def test_finding_about_a_block_is_caused_by_each_of_its_objects(changed: str) -> None:
    module = "module.m." if changed.startswith("module") else ""
    even = build_warning("even-control-plane", "Text.", None, address=f"{module}{WEB}")
    address = parse_address(changed.replace("WEB", str(WEB)))
    change = Change(address, Action.UPDATE, {}, {}, "simulated", 1, 1)
    plan = Plan(start=PlanStart(serial=1), diagnostics=(even,), changes=(change,))
    assert _list_preexisting(plan) == (False,)
