"""Tests of orphaned pods: controllers adopt them.

ReplicaSets, DaemonSets and StatefulSets, as kube-controller-manager does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.domains.hub.api_programs import find_obstacle
from tests.domains.pods.importers.cluster_objects import build_pod
from tests.domains.pods.planning.test_cluster_observation import (
    NODES,
    OF_A,
    list_places,
    plan_observed,
)
from tests.domains.pods.planning.test_live_workloads import build_configuration
from tests.domains.pods.planning.test_pods import build_deployment, read_pod_changes
from tests.kill_points import long_case
from tests.nightly.live_cluster import LiveCluster, start_cluster
from tests.planning.harness import build_state_after, is_empty, plan, require_success

pytestmark = pytest.mark.of_domains("fleet")
WEB = {"app": "web"}
REVISION = {"controller-revision-hash": "5d"}


def build_controller(kind: str, replicas: int = 3, **spec: Any) -> str:
    """Return a controller of pods with the label app=web."""
    body = json.loads(build_deployment("web", replicas, cpu="1", kind=kind))
    body["spec"] |= {"serviceName": "web"} if kind == "StatefulSet" else {}
    return json.dumps(body | {"spec": body["spec"] | spec})


def build_orphan(
    name: str, node: str = "a-np-1", labels: dict[str, str] = WEB, **more: Any
) -> dict[str, Any]:
    return build_pod(name, node, labels=labels, **more)


def test_daemon_set_replaces_adopted_pods_on_their_nodes() -> None:
    text = build_configuration(build_controller("DaemonSet"))
    other = build_orphan("other", labels={"app": "other"})
    result = require_success(plan_observed(text, *NODES, build_orphan("a"), other))
    assert read_pod_changes(result) == {
        "web-0": ("move", "template_changed"),
        "web-1": ("place", "scale_out"),
    }
    assert list_places(result) == {"web-0": "a-np-1", "web-1": "a-np-0"}
    # The dump is older than the apply.
    assert is_empty(
        require_success(
            plan_observed(text, *NODES, build_orphan("a"), other, state=build_state_after(result))
        )
    )
    assert is_empty(require_success(plan(text.replace(OF_A, ""), build_state_after(result))))


def test_daemon_set_keeps_oldest_pod_of_node() -> None:
    orphans = [
        build_orphan("a-young", started="2026-11-21T02:00:00Z", labels=WEB | REVISION),
        build_orphan("old", started="2026-11-20T02:00:00Z", labels=WEB | REVISION),
    ]
    result = require_success(
        plan_observed(build_configuration(build_controller("DaemonSet")), *NODES, *orphans)
    )
    assert read_pod_changes(result) == {
        "web-0": ("remove", "scale_in"),
        "web-2": ("place", "scale_out"),
    }


@pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet"])
def test_adopted_pods_with_revision_label_are_kept(kind: str) -> None:
    # As after `kubectl delete --cascade=orphan`.
    orphans = [build_orphan(f"web-{n}", f"a-np-{n}", WEB | REVISION) for n in range(2)]
    result = require_success(
        plan_observed(build_configuration(build_controller(kind, 2)), *NODES, *orphans)
    )
    assert read_pod_changes(result) == {}
    assert list_places(result) == {"web-0": "a-np-0", "web-1": "a-np-1"}


def test_on_delete_strategy_keeps_adopted_pods() -> None:
    update = {"updateStrategy": {"type": "OnDelete"}}
    orphans = [build_orphan(f"web-{n}", f"a-np-{n}") for n in range(2)]
    for kind in ("DaemonSet", "StatefulSet"):
        assert (
            read_pod_changes(
                require_success(
                    plan_observed(
                        build_configuration(build_controller(kind, 2, **update)), *NODES, *orphans
                    )
                )
            )
            == {}
        )


def test_stateful_set_adopts_pods_with_its_names() -> None:
    orphans = [
        build_orphan("web-1"),
        build_orphan("web-7"),
        build_orphan("other-0"),
        build_orphan("web-2", labels={"app": "no"}),
    ]
    result = require_success(
        plan_observed(build_configuration(build_controller("StatefulSet", 2)), *NODES, *orphans)
    )
    assert read_pod_changes(result) == {
        "web-0": ("place", "scale_out"),
        "web-1": ("move", "template_changed"),
        "web-7": ("remove", "scale_in"),
    }
    assert is_empty(
        require_success(
            plan_observed(
                build_configuration(build_controller("StatefulSet", 2)),
                *NODES,
                *orphans[:1],
                state=build_state_after(result),
            )
        )
    )


def test_pending_pods_are_adopted() -> None:
    waiting = build_orphan("web-a", "", phase="Pending")
    result = require_success(
        plan_observed(build_configuration(build_controller("ReplicaSet", 2)), *NODES, waiting)
    )
    assert {name: action for name, (action, _) in read_pod_changes(result).items()} == {
        "web-0": "place",
        "web-1": "place",
    }
    assert len(list_places(result)) == 2


def test_replica_set_adopts_each_pod_once() -> None:
    text = build_configuration(build_controller("ReplicaSet"))
    orphans = [build_orphan("a"), build_orphan("b")]
    result = require_success(plan_observed(text, *NODES, *orphans))
    assert is_empty(
        require_success(plan_observed(text, *NODES, *orphans, state=build_state_after(result)))
    )


# --- against a running kube-controller-manager ----------------------------------------------------

_PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with start_cluster(tmp_path_factory.mktemp("cluster")) as live:
        yield live


def _create_object(cluster: LiveCluster, body: dict[str, Any]) -> str:
    body = json.loads(json.dumps(body))
    body["metadata"].pop("uid", None)
    return str(cluster.create(body)["metadata"]["uid"])


@pytest.mark.slow
@long_case
@pytest.mark.skipif(bool(find_obstacle(*_PROGRAMS)), reason=find_obstacle(*_PROGRAMS) or "-")
@pytest.mark.parametrize(
    ("kind", "spec", "names", "labels", "kept"),
    [
        ("ReplicaSet", {}, ("a", "web-1"), WEB, {"a", "web-1"}),
        ("DaemonSet", {}, ("a", "web-1"), WEB, set()),
        ("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}, ("a",), WEB, {"a"}),
        ("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}, ("a", "b"), WEB, {"a"}),
        ("StatefulSet", {}, ("a", "web-1", "web-7"), WEB, {"a"}),
        (
            "StatefulSet",
            {"updateStrategy": {"type": "OnDelete"}},
            ("a", "web-1", "web-7"),
            WEB,
            {"a", "web-1"},
        ),
    ],
)
def test_running_controller_keeps_same_orphans(
    cluster: LiveCluster,
    kind: str,
    spec: dict[str, Any],
    names: tuple[str, ...],
    labels: dict[str, str],
    kept: set[str],
) -> None:
    cluster.clear()
    for node in NODES:
        cluster.create(json.loads(json.dumps(node)))
    import time

    uids = {}
    for name in names:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
        }
        template = json.loads(build_controller(kind))["spec"]["template"]["spec"]
        uids[_create_object(cluster, body | {"spec": template | {"nodeName": "a-np-1"}})] = name
        # Creation times have a resolution of one second.
        time.sleep(1.1)
    cluster.wait_until_settled()
    text = json.loads(build_controller(kind, 2, **spec))
    text["metadata"]["namespace"] = "default"
    _create_object(cluster, text)
    left = cluster.wait_until_settled(4)
    assert {
        uids[each["metadata"]["uid"]] for each in left if each["metadata"]["uid"] in uids
    } == kept
    print(
        [
            (
                p["metadata"]["name"],
                p["spec"].get("nodeName"),
                p["metadata"].get("ownerReferences", [{}])[0].get("kind"),
            )
            for p in left
        ]
    )
