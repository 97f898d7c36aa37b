"""Tests of the progress of single workloads."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, PodCondition
from nexusform.domains.pods.scheduling.workload_progress import has_stuck_template
from tests.domains.pods.scheduling.test_pod_prediction import build_workload

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
