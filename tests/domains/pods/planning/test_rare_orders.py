"""Certain pods of small clusters: results of rare orders of arrival, as seen on a running kube-scheduler."""

from __future__ import annotations

import pytest

from tests.nightly.live_cluster import build_priority_classes
from tests.nightly.pod_worlds import build_world, predict_world

pytestmark = pytest.mark.of_domains("fleet")


def test_a_node_of_one_run_in_thirty_is_not_certain() -> None:
    """In most runs two pods of the Job ran on n1; in one, pods of two other workloads were there before the second."""
    world = build_world(795434609)
    for body in world.nodes + world.pods:
        body.setdefault("status", {}).setdefault("phase", "Running")
    predicted = predict_world(
        [*build_priority_classes({"low": -10, "high": 1000}), *world.nodes, *world.pods], world.workloads
    )
    certain_nodes = sorted(node for _, node, is_certain, _ in predicted["default/Job/c"] if is_certain)
    assert certain_nodes == ["n0", "n1"]
