"""Tests of pre-existing findings: the plan does not cause them.

A warning is also given without its changes.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import build_error, build_warning
from nexusform.domains.pods.pod_kind import PodLocation
from nexusform.planning.conclusion.existing_findings import mark_existing_findings
from nexusform.plans.plan import (
    Action,
    Change,
    ObjectLocation,
    PlacementAction,
    PlacementChange,
    Plan,
    PlanStart,
)
from nexusform.resources.address import parse_address
from nexusform.scheduling.racks.vms import Placement

WEB = parse_address("fleet_cluster_resource_placement.web")
OTHER = parse_address("fleet_cluster_resource_placement.other")
HERE = Placement("rack1-bm01", "rack1", "1", (0,))
NODE = PodLocation("east", "east-np1-0", "rack1-bm01", "1")
PENDING = PodLocation("east", state="Pending")

KINDS = (
    "corrected-manifest",
    "object-owned-by-another",
    "rollout-deadlock",
    "pending-pods",
    "unsatisfiable-pod-anti-affinity",
    "pods-share-machine",
)


def _row(
    kind: str, action: str, source: ObjectLocation | None, target: ObjectLocation | None
) -> PlacementChange:
    return PlacementChange(WEB, kind, "x", PlacementAction(action), source, target, "new")


def _list_caused_warnings(plan: Plan) -> set[str]:
    """Return the kinds of warnings about `web` caused by a plan."""
    known = replace(
        plan,
        start=replace(plan.start, serial=3),
        diagnostics=tuple(build_warning(kind, address=str(WEB)) for kind in KINDS),
    )
    return {kind for kind, held in zip(KINDS, _list_preexisting(known), strict=True) if not held}


def _list_preexisting(plan: Plan) -> tuple[bool, ...]:
    return tuple(
        diagnostic.is_preexisting for diagnostic in mark_existing_findings(plan).diagnostics
    )


@pytest.mark.parametrize(
    ("row", "caused"),
    [
        (_row("pod", "keep", PENDING, PENDING), set()),
        (_row("pod", "move", PENDING, PENDING), {"rollout-deadlock"}),
        (_row("pod", "place", None, NODE), {"rollout-deadlock", "pods-share-machine"}),
        (
            _row("pod", "place", None, PENDING),
            {"rollout-deadlock", "pending-pods", "unsatisfiable-pod-anti-affinity"},
        ),
        (
            _row("pod", "move", NODE, PENDING),
            {"rollout-deadlock", "pending-pods", "unsatisfiable-pod-anti-affinity"},
        ),
        (_row("vm", "place", None, HERE), {"rollout-deadlock", "pods-share-machine"}),
        (_row("vm", "remove", HERE, None), {"rollout-deadlock"}),
    ],
)
def test_warning_is_caused_by_relevant_changes_only(row: PlacementChange, caused: set[str]) -> None:
    assert _list_caused_warnings(Plan(placements=(row,))) == caused


def test_warning_about_pods_is_caused_by_their_own_nodes_only() -> None:
    kept = replace(_row("pod", "keep", NODE, NODE), pool="east/default/Deployment/web", site_id="s")
    added = replace(_row("vm", "place", None, HERE), address=OTHER, cluster="west", site_id="s")
    assert _list_caused_warnings(Plan(placements=(kept, added))) == set()
    own = replace(added, cluster="east")
    assert _list_caused_warnings(Plan(placements=(kept, own))) == {
        "rollout-deadlock",
        "pods-share-machine",
    }
    other_site = replace(own, site_id="t")
    assert _list_caused_warnings(Plan(placements=(kept, other_site))) == set()


def test_block_warnings_are_caused_by_their_own_block() -> None:
    change = Change(OTHER, Action.UPDATE, {}, {}, "simulated", 1, 1)
    assert not _list_caused_warnings(Plan(changes=(change,)))
    own = {"object-owned-by-another", "rollout-deadlock"}
    assert _list_caused_warnings(Plan(changes=(replace(change, address=WEB),))) == own
    moved = replace(change, address=WEB, action=Action.NO_OP, previous_address=OTHER)
    assert _list_caused_warnings(Plan(changes=(moved,))) == own


def test_manifest_warnings_are_caused_by_changed_text() -> None:
    followed = Change(
        WEB,
        Action.UPDATE,
        {"manifest": "a", "bindings": {}},
        {"manifest": "a", "bindings": {"b": {}}},
        "",
        1,
        1,
    )
    assert "corrected-manifest" not in _list_caused_warnings(Plan(changes=(followed,)))
    rewritten = replace(followed, after={"manifest": "b"})
    assert "corrected-manifest" in _list_caused_warnings(Plan(changes=(rewritten,)))
    created = replace(followed, action=Action.CREATE, before=None)
    assert "corrected-manifest" in _list_caused_warnings(Plan(changes=(created,)))


def test_first_plan_and_errors_have_no_preexisting_findings() -> None:
    corrected = build_warning("corrected-manifest", "One slip.", address=str(WEB))
    assert _list_preexisting(Plan(start=PlanStart(serial=1), diagnostics=(corrected,))) == (True,)
    assert _list_preexisting(Plan(diagnostics=(corrected,))) == (False,)
    refused = build_error("corrected-manifest", "One slip.", address=str(WEB))
    assert _list_preexisting(Plan(start=PlanStart(serial=1), diagnostics=(refused,))) == (False,)
