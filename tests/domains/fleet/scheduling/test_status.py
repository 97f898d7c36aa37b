"""Tests of a placement's status: current conditions, also per cluster, and those of 2023."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import Condition, Policy
from nexusform.domains.fleet.scheduling.placement_status import (
    NAMESPACED,
    ClusterProgress,
    PlacementStatus,
    build_placement_status,
    build_placement_status_2023,
    compute_rollout_progress,
)
from nexusform.domains.fleet.scheduling.rolling_update import RollingUpdate, simulate_rollout
from tests.domains.fleet.scheduling.samples import FIXED, build_pick_n, fleet, schedule

TWO = build_pick_n(2)
PLACED = schedule(fleet("aks-member-1", "aks-member-2"), TWO)
ROLLED = simulate_rollout(PLACED.bindings, RollingUpdate(), 2, 0)
DONE = compute_rollout_progress(ROLLED.bindings, 0)


def build_status(**fields: object) -> PlacementStatus:
    progress = {name: replace(state, **fields) for name, state in DONE.items()}  # type: ignore[arg-type]
    return build_placement_status(PLACED.status, TWO, 2, progress)


def list_short_conditions(status: PlacementStatus) -> list[tuple[str, str, str]]:
    start = "ClusterResourcePlacement"
    return [(c.type.removeprefix(start), c.status, c.reason) for c in status.conditions]


def test_completed_placement() -> None:
    status = build_status()
    assert [(c.type, c.status, c.reason, c.message) for c in status.conditions] == [
        (
            "ClusterResourcePlacementScheduled",
            "True",
            "SchedulingPolicyFulfilled",
            "found all cluster needed as specified by the scheduling policy, found 2 cluster(s)",
        ),
        (
            "ClusterResourcePlacementRolloutStarted",
            "True",
            "RolloutStarted",
            "All 2 cluster(s) start rolling out the latest resource",
        ),
        (
            "ClusterResourcePlacementOverridden",
            "True",
            "NoOverrideSpecified",
            "No override rules are configured for the selected resources",
        ),
        (
            "ClusterResourcePlacementWorkSynchronized",
            "True",
            "WorkSynchronized",
            "Work(s) are successfully created or updated in 2 target cluster(s)' namespaces",
        ),
        (
            "ClusterResourcePlacementApplied",
            "True",
            "ApplySucceeded",
            "The selected resources are successfully applied to 2 cluster(s)",
        ),
        (
            "ClusterResourcePlacementAvailable",
            "True",
            "ResourceAvailable",
            "The selected resources in 2 cluster(s) are available now",
        ),
    ]
    assert [c.cluster for c in status.clusters] == ["aks-member-2", "aks-member-1"]
    assert [(c.type, c.reason) for c in status.clusters[0].conditions] == [
        ("Scheduled", "Scheduled"),
        ("RolloutStarted", "RolloutStarted"),
        ("Overridden", "NoOverrideSpecified"),
        ("WorkSynchronized", "AllWorkSynced"),
        ("Applied", "AllWorkHaveBeenApplied"),
        ("Available", "AllWorkAreAvailable"),
    ]
    assert status.clusters[0].conditions[0].message == (
        'Successfully scheduled resources for placement in "aks-member-2" (affinity score: 0,'
        " topology spread score: 0): picked by scheduling policy"
    )


@pytest.mark.parametrize(
    ("fields", "last"),
    [
        ({"rollout_started": "False"}, ("RolloutStarted", "False", "RolloutNotStartedYet")),
        ({"rollout_started": "Unknown"}, ("RolloutStarted", "Unknown", "RolloutStartedUnknown")),
        (
            {"overridden": "False", "has_overrides": True},
            ("Overridden", "False", "OverriddenFailed"),
        ),
        ({"overridden": "Unknown"}, ("Overridden", "Unknown", "OverriddenPending")),
        ({"work_synchronized": "False"}, ("WorkSynchronized", "False", "WorkNotSynchronizedYet")),
        (
            {"work_synchronized": "Unknown"},
            ("WorkSynchronized", "Unknown", "WorkSynchronizedUnknown"),
        ),
        ({"applied": "False"}, ("Applied", "False", "ApplyFailed")),
        ({"applied": "Unknown"}, ("Applied", "Unknown", "ApplyPending")),
        ({"available": "False"}, ("Available", "False", "ResourceNotAvailableYet")),
        ({"available": "Unknown"}, ("Available", "Unknown", "ResourceAvailableUnknown")),
        ({"diff_reported": "True"}, ("DiffReported", "True", "DiffReportingCompleted")),
        ({"diff_reported": "False"}, ("DiffReported", "False", "DiffReportingIncompleteOrFailed")),
        ({"has_overrides": True}, ("Available", "True", "ResourceAvailable")),
    ],
)
def test_conditions_end_at_first_untrue_one(fields: dict, last: tuple[str, str, str]) -> None:
    status = list_short_conditions(build_status(**fields))
    assert status[-1] == last
    assert all(state == "True" for _, state, _ in status[:-1])


def test_condition_counts_clusters_with_its_status() -> None:
    progress = {**DONE, "aks-member-1": ClusterProgress(applied="False", resource_snapshot=0)}
    status = build_placement_status(PLACED.status, TWO, 2, progress)
    assert status.conditions[-1] == Condition(
        "ClusterResourcePlacementApplied",
        "False",
        "ApplyFailed",
        "Failed to apply resources to 1 cluster(s), please check the `failedPlacements` status",
    )
    assert [len(c.conditions) for c in status.clusters] == [6, 5]


def test_overrides_and_untracked_availability() -> None:
    status = build_status(has_overrides=True, is_trackable=False)
    assert ("Overridden", "True", "OverriddenSucceeded") in list_short_conditions(status)
    assert status.clusters[0].conditions[-1].reason == "NotAllWorkAreAvailabilityTrackable"


def test_missing_clusters_have_no_name() -> None:
    policy = Policy(FIXED, cluster_names=("a", "b", "c"))
    placed = schedule(fleet("a"), policy)
    status = build_placement_status(
        placed.status, policy, None, compute_rollout_progress(placed.bindings, 0)
    )
    assert [
        (c.cluster, c.conditions[0].reason, c.conditions[0].message) for c in status.clusters[1:]
    ] == [
        ("", "ScheduleFailed", 'Specified cluster "b" is not found'),
        ("", "ScheduleFailed", 'Specified cluster "c" is not found'),
    ]
    three = build_pick_n(3)
    few = schedule(fleet(*"ab"), three)
    assert [c.cluster for c in build_placement_status(few.status, three, 3, {}).clusters] == [
        "b",
        "a",
    ]


def test_no_cluster_selected_leaves_one_condition() -> None:
    placed = schedule([], Policy())
    assert len(build_placement_status(placed.status, Policy(), None, {}).conditions) == 1


def test_status_before_scheduling() -> None:
    status = build_placement_status(None, TWO, 2, {}, prefix=NAMESPACED)
    assert status.conditions == (
        Condition(
            "ResourcePlacementScheduled",
            "Unknown",
            "SchedulePending",
            "Scheduling has not completed",
        ),
    )


def test_external_rollouts_name_their_controller() -> None:
    waiting = build_placement_status(
        PLACED.status, TWO, 2, compute_rollout_progress(PLACED.bindings, 0), is_external=True
    )
    assert list_short_conditions(waiting)[-1] == (
        "RolloutStarted",
        "Unknown",
        "RolloutControlledByExternalController",
    )
    assert "no resource snapshot name is observed" in waiting.conditions[-1].message
    mixed = {**DONE, "aks-member-1": ClusterProgress(resource_snapshot=3)}
    half = build_placement_status(PLACED.status, TWO, 2, mixed, is_external=True)
    assert "different resource snapshot versions" in half.conditions[-1].message
    assert (
        list_short_conditions(
            build_placement_status(PLACED.status, TWO, 2, DONE, is_external=True)
        )[-1][0]
        == "Available"
    )


def test_document_sample() -> None:
    status = build_placement_status_2023(PLACED.status, DONE)
    assert [(c.type, c.status, c.reason, c.message) for c in status.conditions] == [
        (
            "ClusterResourcePlacementScheduled",
            "True",
            "SchedulingPolicyFulfilled",
            "found all the clusters needed as specified by the scheduling policy",
        ),
        (
            "ClusterResourcePlacementSynchronized",
            "True",
            "SynchronizeSucceeded",
            "All 2 cluster(s) are synchronized to the latest resources on the hub cluster",
        ),
        (
            "ClusterResourcePlacementApplied",
            "True",
            "ApplySucceeded",
            "Successfully applied resources to 2 member clusters",
        ),
    ]
    one = next(c for c in status.clusters if c.cluster == "aks-member-1")
    assert [(c.type, c.reason, c.message) for c in one.conditions] == [
        (
            "ResourceScheduled",
            "ScheduleSucceeded",
            (
                "Successfully scheduled resources for placement in aks-member-1 (affinity score: 0,"
                " topology spread score: 0): picked by scheduling policy"
            ),
        ),
        (
            "WorkSynchronized",
            "WorkSynchronizeSucceeded",
            "Successfully Synchronized work(s) for placement",
        ),
        ("ResourceApplied", "ApplySucceeded", "Successfully applied resources"),
    ]


def test_messages_of_2023_for_unfinished_states() -> None:
    blocked = build_placement_status_2023(
        PLACED.status, compute_rollout_progress(PLACED.bindings, 0)
    )
    assert list_short_conditions(blocked)[-1] == ("Synchronized", "False", "SynchronizePending")
    failed = {name: replace(state, applied="False") for name, state in DONE.items()}
    assert list_short_conditions(build_placement_status_2023(PLACED.status, failed))[-1] == (
        "Applied",
        "False",
        "ApplyFailed",
    )
