"""Tests of kubernetes_version changes.

The plan and `simulate kubernetes-upgrade` give the same verdict.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.domains.whatif.questions.kubernetes_upgrade_path import find_upgrade_path
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.plan import Action, Plan
from nexusform.plans.site_capacity.site_resource_capacity import (
    SiteResources,
    build_site_resources_note,
)
from nexusform.state.objects import State
from tests.domains.whatif.questions.failures import build_start
from tests.planning.harness import build_all_types, cluster, plan
from tests.worlds.small_worlds import build_applied_state, build_racks, get_site

RUNNING = build_racks(4) + cluster("a", arguments='kubernetes_version = "1.30.3"')


@pytest.fixture(scope="module")
def state() -> State:
    return build_applied_state(RUNNING)


def complete_state(text: str, state: State) -> Plan:
    return add_site_capacity(plan(text, state), build_all_types()).plan


def plan_version_change(state: State, line: str) -> tuple[Action, list[str]]:
    """Return the action on the cluster and the errors."""
    result = complete_state(build_racks(4) + cluster("a", arguments=line), state)
    actions = [
        item.action for item in result.changes if item.address.type == "nexus_kubernetes_cluster"
    ]
    errors = [problem.detail for problem in result.diagnostics if problem.severity.value == "error"]
    return (actions or [Action.NO_OP])[0], errors


@pytest.mark.parametrize(
    "line", ["", 'kubernetes_version = "v1.30.3"', 'kubernetes_version = "1.30"']
)
def test_running_version_is_no_change(state: State, line: str) -> None:
    assert plan_version_change(state, line) == (Action.NO_OP, [])


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.28.1", "is a downgrade"),
        ("1.30.2", "is a downgrade"),
        ("1.32.0", "set v1.31 next"),
        ("2.0.0", "changes the major version"),
        ("1", "is not a Kubernetes version"),
        ("banana", "is not a Kubernetes version"),
        ("", "is not a Kubernetes version"),
    ],
)
def test_impossible_changes_are_errors(state: State, version: str, reason: str) -> None:
    _, errors = plan_version_change(state, f'kubernetes_version = "{version}"')
    assert len(errors) == 1
    assert reason in errors[0]


def test_next_minor_version_is_an_upgrade(state: State) -> None:
    assert plan_version_change(state, 'kubernetes_version = "1.31.2"') == (Action.UPDATE, [])


CATALOGUE = SiteResources(
    versions=("v1.29.8-4.1.0", "v1.30.3-4.2.0", "v1.31.2-4.3.0"),
    available_until=(
        ("v1.29.8-4.1.0", "2026-01-31"),
        ("v1.30.3-4.2.0", "2027-01-31"),
        ("v1.31.2-4.3.0", "2028-01-31"),
    ),
)


def find_availability_ends(state: State, version: str) -> list[tuple[str, str]]:
    """Return the findings about ends of availability, for a site with the catalogue."""
    address, instance = next((a, i) for a, i in state.instances.items() if a.type == "nexus_site")
    assert instance.current is not None
    noted = replace(
        instance, current=replace(instance.current, private=build_site_resources_note(CATALOGUE))
    )
    text = build_racks(4) + cluster("a", arguments=f'kubernetes_version = "{version}"')
    result = complete_state(text, state.replace_instance(address, noted))
    return [
        (p.severity.value, p.id) for p in result.diagnostics if p.id.endswith("-kubernetes-version")
    ]


@pytest.mark.parametrize(
    ("today", "version", "found"),
    [
        ("2026-11-01", "1.30.3", []),
        ("2026-11-03", "1.30.3", [("warning", "ending-kubernetes-version")]),
        ("2027-01-31", "1.31.2", []),
        ("2027-02-01", "1.30.3", [("warning", "abandoned-kubernetes-version")]),
        ("2027-02-01", "1.31.2", [("error", "abandoned-kubernetes-version")]),
    ],
)
def test_end_of_extended_availability_is_reported(
    state: State,
    today: str,
    version: str,
    found: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.planning.harness.NOW", f"{today}T00:00:00Z")
    assert find_availability_ends(state, version) == found


def test_old_version_has_no_upgrade_path() -> None:
    state = build_applied_state(
        build_racks(4) + cluster("a", arguments='kubernetes_version = "v1.24.9"')
    )
    old = get_site(state)
    with pytest.raises(DiagnosticsError, match="Azure does not upgrade"):
        find_upgrade_path(build_start(state), old, old.clusters, "1.30", {}, "2026-11-22T00:00:00Z")
