"""Tests of the originals that a check sends: what is changed, and what a server has dropped."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.pods.scheduling.cluster_records import PodSpec
from nexusform.domains.program_checks.workflow.original_objects import (
    add_template_claims,
    build_original_pod,
    is_sent_whole,
    pin_to_node,
)

SPEC = PodSpec(namespace="shop", labels=(("app", "a"), ("pod-template-hash", "h")), priority=7)


@pytest.mark.parametrize(
    ("sent", "received", "is_whole"),
    [
        ({"spec": {"cpu": "1000m"}}, {"spec": {"cpu": "1"}, "status": {}}, True),
        ({"spec": {"labels": {}, "list": [], "text": ""}}, {"spec": {}}, True),
        ({"spec": {"group": {"name": "g"}}}, {"spec": {}}, False),
        ({"spec": {"items": [{"a": 1, "b": 2}]}}, {"spec": {"items": [{"a": 1}]}}, False),
        ({"spec": {"items": [{"a": 1}]}}, {"spec": {"items": []}}, False),
        ({"spec": {"items": [{"a": 1}]}}, {"spec": {"items": [{"a": 1}, {"b": 2}]}}, True),
    ],
)
def test_dropped_field_is_noticed(sent: Any, received: Any, is_whole: bool) -> None:
    assert is_sent_whole(sent, received) is is_whole


def test_original_pod_keeps_its_fields() -> None:
    original = {
        "metadata": {
            "name": "web-1",
            "labels": {"app": "a", "pod-template-hash": "real"},
            "uid": "u",
        },
        "spec": {"nodeName": "n9", "future": {"field": 1}, "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    }
    pod = build_original_pod(original, SPEC, "p3", "n1")
    assert pod == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p3",
            "namespace": "shop",
            "labels": {"app": "a", "pod-template-hash": "h"},
        },
        "spec": {
            "nodeName": "n1",
            "future": {"field": 1},
            "containers": [{"name": "c"}],
            "priority": 7,
            "preemptionPolicy": "Never",
        },
    }
    assert "nodeName" not in build_original_pod(original, SPEC, "p3")["spec"]


def test_pod_of_a_daemon_set_is_pinned_to_its_node() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {required: {"nodeSelectorTerms": [term]}}}
    own = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    for original, expected in (({}, own), ({"affinity": affinity}, {**term, **own})):
        pod = build_original_pod({"spec": original}, SPEC, "p0")
        pin_to_node(pod, "n1")
        terms = pod["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
        assert terms == [expected]


def test_claims_of_a_stateful_set_have_the_names_of_its_pods() -> None:
    templates = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "local"}}]
    pod = build_original_pod({"spec": {"volumes": [{"name": "data"}, {"name": "x"}]}}, SPEC, "p0")
    (claim,) = add_template_claims(pod, "shop/StatefulSet/db", 3, templates)
    assert claim["metadata"] == {"name": "data-db-3", "namespace": "shop"}
    assert claim["spec"] == {"storageClassName": "local"}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-3"}}
    assert pod["spec"]["volumes"] == [{"name": "x"}, volume]
