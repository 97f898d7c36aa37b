"""Tests of certainty: it needs figures of the members unchanged since the plan.

Otherwise a prediction does not count as certain.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nexusform.domains.fleet.planning.override_rendering import ObjectIdentity, RenderedResources
from nexusform.domains.fleet.planning.placement_records import AppliedResources, ResourceSnapshot
from nexusform.domains.hub.providers.content_verification import (
    find_wrong_works,
    select_reached_clusters,
    verify_run,
)
from nexusform.domains.hub.providers.prediction_verification import (
    CHANGED_FIGURES,
    PredictionVerifier,
    VerificationResult,
)
from nexusform.domains.hub.providers.rollout_progress import (
    ObservedPlacementObjects,
    PlacementProgress,
    check_placement_progress,
    list_predicted_failures,
)
from nexusform.domains.pods.importers.manifest_parser import build_manifest

BOUND = {"state": "Bound", "affinity_score": 10, "topology_spread_score": 0}
FIGURES = {"par1": {"available cpu": "8"}, "lon1": {"available cpu": "4"}}


def test_predictions_are_certain_with_the_figures_of_the_plan() -> None:
    verifier = PredictionVerifier(FIGURES, FIGURES, open_clusters=dict.fromkeys(FIGURES, 0.5))
    result = verifier.verify_bindings("web", {"par1": BOUND}, {"par1": BOUND})
    # The picks of the clusters; the score comes after them.
    picks = result.predictions[:2]
    assert [pick.chance for pick in picks] == [0.5, 0.5]
    assert [(pick.is_certain, pick.was_correct) for pick in picks] == [(True, True), (True, True)]


def test_no_prediction_is_certain_after_changed_figures() -> None:
    changed = {**FIGURES, "lon1": {"available cpu": "64"}}
    verifier = PredictionVerifier(FIGURES, changed)
    result = verifier.verify_bindings("web", {"par1": BOUND}, {"lon1": BOUND})
    assert not any(prediction.is_certain for prediction in result.predictions)
    assert {wrong.kind for wrong in result.wrong_predictions} == {CHANGED_FIGURES}
    assert result.wrong_predictions[0].changes == ("lon1: available cpu 4 -> 64",)


def test_note_in_state_has_the_first_wrong_predictions_and_changes() -> None:
    figures = {name: {"available cpu": "4"} for name in "abcdefghijklmnop"}
    changed = {name: {"available cpu": "8"} for name in figures}
    predicted = dict.fromkeys("abcdefgh", BOUND)
    observed = dict.fromkeys("ijklmnop", BOUND)
    records = (
        PredictionVerifier(figures, changed)
        .verify_bindings("web", predicted, observed)
        .build_note()["wrong_predictions"]
    )
    # 12 of 16.
    assert [record["cluster"] for record in records] == list("abcdefghijkl")
    # Its own one first.
    assert records[3]["changed"] == [f"{name}: available cpu 4 -> 8" for name in "dab"]


def test_no_prediction_is_certain_with_unknown_figures() -> None:
    result = PredictionVerifier({}, FIGURES).verify_bindings(
        "web", {"par1": BOUND}, {"par1": BOUND}
    )
    assert not any(prediction.is_certain for prediction in result.predictions)


def test_prediction_without_open_decision_does_not_count() -> None:
    verifier = PredictionVerifier(FIGURES, FIGURES)
    assert verifier.verify_bindings("web", {"par1": BOUND}, {"par1": BOUND}).predictions == ()
    wrong = verifier.verify_bindings("web", {"par1": BOUND}, {"lon1": BOUND})
    assert [prediction.was_correct for prediction in wrong.predictions] == [False, False]


def test_other_content_is_a_wrong_prediction() -> None:
    result = VerificationResult().add_wrong_content(
        ["par1"], 1, "its resource snapshot 1 differs from the plan in x"
    )
    assert [(each.subject, each.was_correct) for each in result.predictions] == [("content", False)]
    assert result.wrong_predictions[0].message == (
        "par1 was predicted as at resource snapshot 1, but is there with other content: its "
        "resource snapshot 1 "
        "differs from the plan in x"
    )


def test_foreign_objects_on_a_cluster_are_not_compared() -> None:
    names = {"apiVersion": "v1", "kind": "ConfigMap"}
    bodies = [
        names | {"metadata": {"name": name, "namespace": "web"}, "data": {"a": "1"}}
        for name in ("ours", "theirs")
    ]
    work = {
        "metadata": {"namespace": "fleet-member-lon1"},
        "spec": {"workload": {"manifests": bodies}},
    }
    leaving = {
        "metadata": {"namespace": "fleet-member-lon1", "deletionTimestamp": "2026-11-21T02:08:00Z"}
    }
    leaving["spec"] = {"workload": {"manifests": [bodies[0] | {"data": {"a": "0"}}]}}
    manifest = build_manifest(dict(bodies[0]))
    other = ObjectIdentity("", "ConfigMap", "web", "theirs")
    assert manifest is not None
    for conflicts, wrong in (((other,), []), ((), ["lon1"])):
        rendered = RenderedResources((manifest,), "changed", conflicting_objects=conflicts)
        found = find_wrong_works(AppliedResources((), {"lon1": rendered}), [work, leaving])
        assert [cluster for cluster, _ in found] == wrong


def test_clusters_that_wait_for_a_member_are_not_compared() -> None:
    """Of an unreachable member and of later waves, the plan has the objects from before."""
    snapshots = (ResourceSnapshot(0, "", ()), ResourceSnapshot(1, "", ()))
    rendered = RenderedResources((), "changed", overrides=("o-1",))
    waiting = {"lon1": replace(rendered, is_pending=True)}
    on_cluster = dict.fromkeys(("ams1", "fra1", "par1"), rendered) | waiting
    indexes = {"ams1": 1, "fra1": 0, "lon1": 1, "par1": 1}
    bindings = {cluster: {"resource_snapshot": index} for cluster, index in indexes.items()}
    # The rollout continued, and brought par1 a later override.
    overrides = dict.fromkeys(indexes, frozenset({"o-1"})) | {"par1": frozenset({"o-2"})}
    final = PlacementProgress(is_done=True, overrides=overrides)
    planned = AppliedResources(snapshots, on_cluster)
    assert list(select_reached_clusters(planned, bindings, final).on_cluster) == ["ams1"]
    certain = AppliedResources(snapshots, {"ams1": rendered, "fra1": rendered})
    assert select_reached_clusters(certain, bindings, final) is certain
    # Nor are clusters that get the content once others are available.
    reached = select_reached_clusters(certain, bindings, final, {"fra1"})
    assert list(reached.on_cluster) == ["ams1"]


def build_run(*kinds: str, **clusters: tuple[str, ...]) -> dict[str, Any]:
    """Return a run with these conditions; its clusters have a start and other conditions."""
    entries = [
        {
            "clusterName": name,
            "conditions": [
                {
                    "type": "Started",
                    "status": "True",
                    "lastTransitionTime": f"2026-11-21T02:08:{start}Z",
                }
            ]
            + [{"type": kind, "status": "True"} for kind in ends],
        }
        for name, (start, *ends) in clusters.items()
    ]
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": "first"},
        "status": {
            "conditions": [{"type": kind, "status": "True"} for kind in ("Initialized", *kinds)],
            "stagesStatus": [{"stageName": "all", "clusters": entries}],
        },
    }


def test_run_end_and_cluster_order_are_verified() -> None:
    run = build_run("Succeeded", par1=("20", "Succeeded"), lon1=("10", "Succeeded"))
    note = {"stages": [["all", ["lon1", "par1"]]], "ended": True, "done": ["lon1", "par1"]}
    assert [
        (each.subject, each.was_correct, each.chance) for each in verify_run("first", note, run)
    ] == [("run_end", True, 0.5), ("run_order", True, 0.5), ("run_order", True, 0.5)]
    other = {"stages": [["all", ["par1", "lon1"]]], "ended": True, "done": ["lon1", "par1"]}
    assert [each.text for each in verify_run("first", other, run) if not each.was_correct] == [
        "first: par1: predicted: 1 of 2 in stage all; observed: 2 of 2 in stage all",
        "first: lon1: predicted: 2 of 2 in stage all; observed: 1 of 2 in stage all",
    ]


def test_clusters_of_a_stopped_run_are_verified() -> None:
    run = build_run("Progressing", lon1=("10", "Succeeded"), par1=("20",))
    note = {"stages": [["all", ["lon1", "par1"]], ["rest", ["ams1"]]], "done": ["lon1", "par1"]}
    # For how long a member is unreachable is no prediction.
    assert verify_run("first", {**note, "is_waiting": True}, run) == ()
    assert [(each.text, each.was_correct) for each in verify_run("first", note, run)] == [
        ("first: predicted: it stops; observed: it stops", True),
        ("first: lon1: predicted: updated; observed: updated", True),
        ("first: lon1: predicted: 1 of 2 in stage all; observed: 1 of 2 in stage all", True),
        ("first: par1: predicted: updated; observed: not updated", False),
        ("first: par1: predicted: 2 of 2 in stage all; observed: 2 of 2 in stage all", True),
        ("first: ams1: predicted: not updated; observed: not updated", True),
    ]


def test_predicted_failure_has_the_predicted_reason() -> None:
    def build_binding(reason: str) -> dict[str, Any]:
        condition = {"type": "Applied", "status": "False", "reason": reason}
        metadata = {"name": "b", "labels": {"kubernetes-fleet.io/parent-CRP": "web"}}
        spec = {"targetCluster": "lon1", "state": "Bound", "resourceSnapshotName": "web-0-snapshot"}
        names = {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourceBinding",
        }
        return {**names, "metadata": metadata, "spec": spec, "status": {"conditions": [condition]}}

    placement = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web"},
        "status": {
            "observedResourceIndex": "0",
            "conditions": [{"type": "ClusterResourcePlacementScheduled", "status": "True"}],
        },
    }
    failed = {"type": "Applied", "status": "False", "reason": "NotAllWorkHaveBeenApplied"}
    failing = list_predicted_failures(
        {"placement_statuses": [{"cluster_name": "lon1", "conditions": [failed]}]}
    )
    results = [
        check_placement_progress(
            ObservedPlacementObjects(placement, [build_binding(reason)], is_partial=True),
            {},
            is_external=False,
            failing=failing,
        )
        for reason in ("NotAllWorkHaveBeenApplied", "ApplyInProgress")
    ]
    assert [result.is_done for result in results] == [True, False]
    assert results[0].message == "as predicted, lon1: Applied False, NotAllWorkHaveBeenApplied"


def test_picks_without_known_figures_have_no_prediction() -> None:
    verifier = PredictionVerifier({}, FIGURES)
    assert verifier.verify_bindings("web", {}, {"par1": BOUND}).predictions == ()
    wrong = verifier.verify_bindings("web", {"par1": BOUND}, {"lon1": BOUND})
    assert [(each.subject, each.was_correct) for each in wrong.predictions] == [("cluster", False)]
