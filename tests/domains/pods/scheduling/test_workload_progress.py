"""Tests of the progress of single workloads."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, PodCondition
from nexusform.domains.pods.scheduling.pod_outcomes import PlaceablePodRange
from nexusform.domains.pods.scheduling.workload_progress import (
    WorkloadProgress,
    build_forecast,
    has_stuck_template,
)
from tests.domains.pods.scheduling.test_pod_prediction import build_workload
from tests.domains.pods.scheduling.test_preemption import build_node

STUCK = PodCondition(is_ready=False, stuck_reason="ImagePullBackOff")
READY = PodCondition("web-5d-a")
PREDICTED = PodCondition()


@pytest.mark.parametrize(
    ("pods", "is_stuck"),
    [
        ([], False),
        ([("new", "n1", STUCK)], True),
        ([("new", "n1", STUCK), ("new", "n2", READY)], False),
        ([("new", "n1", STUCK), ("old", "n2", READY)], True),
        # The predicted one is no evidence.
        ([("new", "n1", STUCK), ("new", "n2", PREDICTED)], True),
        ([("new", "n1", READY), ("old", "n2", STUCK)], False),
        # Pending, not on a node.
        ([("new", "", STUCK)], False),
    ],
)
def test_template_is_stuck_if_all_its_pods_on_nodes_are(
    pods: list[tuple[str, str, PodCondition]], *, is_stuck: bool
) -> None:
    work = build_workload(template="new")
    existing_pods = [
        ExistingPod(
            work.key, number, node, replace(work.pod, template=template), condition=condition
        )
        for number, (template, node, condition) in enumerate(pods)
    ]
    assert has_stuck_template(work, existing_pods) is is_stuck


@pytest.mark.parametrize(
    ("computed", "running", "stated"),
    [
        ((1, 2), 2, PlaceablePodRange(1, 2, is_exact=True)),
        # Another workload freed capacity after the range was computed, or took it.
        ((1, 2), 4, PlaceablePodRange(1, 4, is_exact=False)),
        ((3, 4), 2, PlaceablePodRange(2, 4, is_exact=False)),
    ],
)
def test_range_of_placeable_pods_includes_the_running_ones(
    computed: tuple[int, int], running: int, stated: PlaceablePodRange
) -> None:
    work = build_workload(replicas=4)
    progress = WorkloadProgress(work, had_pods=True)
    progress.kept_pods = [
        ExistingPod(work.key, number, "n1", work.pod) for number in range(running)
    ]
    progress.placeable_range = PlaceablePodRange(*computed, is_exact=True)
    forecast = build_forecast(progress, {"n1": build_node("n1")})
    assert forecast.placeable_range == stated
