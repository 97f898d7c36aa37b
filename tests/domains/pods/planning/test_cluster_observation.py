"""Plans over clusters as kubectl printed them: real nodes, and what runs there already."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import ValueOverride
from nexusform.state.objects import EMPTY, State
from tests.domains.pods.importers.cluster_objects import node, pod, printed
from tests.domains.pods.planning.test_pods import deployment, manifest, pods, standing, workers
from tests.planning.harness import RACKS, applied, errors, good, is_empty, plan, warnings

pytestmark = pytest.mark.of_domains("fleet")
DATA = 'data "kubernetes_nodes" "a" {{\n  files = ["n.json"]\n  cluster_id = {of}\n}}\n'
OF_A = DATA.format(of="nexus_kubernetes_cluster.a.id")
NODES = (node("a-np-0"), node("a-np-1"))
WEB = {"pod-template-hash": "5d", "app": "web"}


def seen(text: str, *objects: dict[str, Any], state: State = EMPTY) -> PlanResult:
    """A plan in which kubectl printed these objects."""
    # A cluster without any pod was listed without its pods.
    objects = (*objects, pod("setup", "", phase="Succeeded"))
    reading = parse_kubectl_files([("n.json", printed(*objects))])
    values = ValueOverride(None, "kubernetes_nodes", {"objects": reading.encode()})
    return plan(text, state, data_overrides=(values,))


def web(count: int, cpu: str = "1", **more: Any) -> str:
    return RACKS + workers(2) + OF_A + manifest("m", deployment("web", count, cpu=cpu, **more))


def places(result: PlanResult) -> dict[str, str | None]:
    return {name: place["node"] for name, place in standing(applied(result)).items()}


def test_what_runs_already_takes_room() -> None:
    other = pod("coredns", "a-np-0", "7500m", owner=("ReplicaSet", "coredns-1"))
    assert places(good(seen(web(1), *NODES, other))) == {"web-0": "a-np-1"}
    over = pod("coredns", "a-np-0", "7500m", phase="Succeeded")
    assert set(places(good(seen(web(16), *NODES, over))).values()) == {"a-np-0", "a-np-1"}


def test_the_pods_of_a_workload_are_where_they_were_seen() -> None:
    there = [pod(f"web-5d-{name}", "a-np-1", owner=("ReplicaSet", "web-5d"), labels=WEB) for name in "xy"]
    result = good(seen(web(3), *NODES, *there))
    state = applied(result)
    assert pods(result) == {"web-2": ("place", "scale_out")}
    observed = standing(state)
    assert [observed[f"web-{n}"]["provenance"] for n in range(3)] == ["observed", "observed", "predicted"]
    assert (observed["web-0"]["node"], observed["web-2"]["node"]) == ("a-np-1", "a-np-0")
    # What state knows beyond the files came after kubectl looked.
    assert is_empty(good(seen(web(3), *NODES, *there, state=state)))


def test_real_labels_and_figures_stand_in_for_derived_ones() -> None:
    ssd = {"nodeSelector": {"disk": "ssd"}}
    objects = (node("a-np-0", labels={"disk": "ssd"}), node("a-np-1"))
    assert places(good(seen(web(1, spec=ssd), *objects))) == {"web-0": "a-np-0"}
    assert places(good(seen(web(1, cpu="15"), node("a-np-0"), node("a-np-1", "16")))) == {"web-0": "a-np-1"}


def test_nodes_are_bound_by_provider_id_and_others_are_named() -> None:
    result = good(seen(web(1, cpu="15"), node("real", "16", provider_id="x:///vm/a-np-1"), node("b", "16")))
    (told,) = [each for each in warnings(result) if each.id == "node-without-vm"]
    assert "(b)" in told.detail
    assert set(places(result).values()) <= {"a-np-1", "b"}


def test_a_terminating_pod_keeps_its_room_and_its_ports() -> None:
    going = pod("web-5d-x", "a-np-0", "8", owner=("ReplicaSet", "web-5d"), labels=WEB, terminating=True)
    result = good(seen(web(1), *NODES, going))
    assert places(result) == {"web-0": "a-np-1"}
    assert pods(result) == {"web-0": ("place", "new")}


def test_the_pod_that_started_last_is_evicted() -> None:
    times = ("2026-01-01T10:00:00Z", "2026-01-02T09:00:00Z", "")
    for first, second in [(0, 1), (1, 0), (0, 2), (2, 0)]:
        there = [
            pod(name, f"a-np-{at}", "8", started=times[time], priority=0)
            for at, (name, time) in enumerate((("one", first), ("two", second)))
        ]
        result = good(seen(web(1, cpu="2", spec={"priority": 9}), *NODES, *there))
        # Of equals the one is evicted that runs for the shortest time; without any start it has just begun.
        newest = 0 if first > second else 1
        assert places(result) == {"web-0": f"a-np-{newest}"}
        assert standing(applied(result))["web-0"]["certain"]


def test_daemons_come_to_nodes_that_were_not_there() -> None:
    daemon = pod("agent-x", "a-np-0", "3500m", owner=("DaemonSet", "agent"))
    # Without its pod on a-np-1, two pods of two CPUs would fit there.
    result = good(seen(web(1, cpu="2"), node("a-np-0", "3500m"), daemon))
    assert places(result) == {"web-0": None}


def test_a_node_that_the_plan_removes_goes_with_its_pods() -> None:
    state = applied(good(plan(RACKS + workers(2))))
    there = pod("other", "a-np-1", "1")
    text = RACKS + workers(1) + OF_A + manifest("m", deployment("web", 1))
    result = good(seen(text, *NODES, there, state=state))
    assert places(result) == {"web-0": "a-np-0"}
    assert "pods-on-lost-nodes" in {each.id for each in warnings(result)}


def test_a_cluster_that_nobody_knows_is_refused_at_its_line() -> None:
    text = web(1).replace(OF_A, DATA.format(of='"s/b"'))
    (problem,) = errors(seen(text, *NODES))
    assert (problem.id, problem.subject is not None) == ("unknown-cluster", True)
    twice = web(1) + OF_A.replace('"a" {', '"b" {')
    assert [each.id for each in errors(seen(twice, *NODES))] == ["duplicate-observed-cluster"]


def test_members_with_given_figures_get_nodes() -> None:
    text = (
        'resource "fleet_member_cluster" "m1" {\n  resources {\n    total = { cpu = "16" }\n  }\n}\n'
        + DATA.format(of='"m1"')
        + manifest("m", deployment("web", 1), of='"m1"')
    )
    labels = {"topology.kubernetes.io/baremetalmachine": "bm1"}
    state = applied(good(seen(text, node("n1", labels=labels))))
    place = standing(state)["web-0"]
    assert (place["node"], place["machine"], place["state"]) == ("n1", "bm1", "Scheduled")


def whole(*objects: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """These objects with what every cluster has."""
    always = (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 1000},
    )
    return (*always, *objects)


def with_images(body: dict[str, Any], **images: int) -> dict[str, Any]:
    listed = [{"names": [f"{name}:latest"], "sizeBytes": size} for name, size in images.items()]
    return {**body, "status": {**body["status"], "images": listed}}


def test_a_pod_goes_where_its_image_is_and_is_certain_of_it() -> None:
    there = with_images(node("a-np-1"), web=600 << 20)
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}
    text = web(1, spec={"containers": [container]})
    control = node("a-control-plane-0", unschedulable=True)
    place = standing(applied(good(seen(text, node("a-np-0"), there, control))))["web-0"]
    assert (place["node"], place["certain"]) == ("a-np-1", True)


def test_room_that_is_promised_to_a_pod_is_kept_for_it() -> None:
    waiting = pod("vip", "", "6", priority=5)
    waiting["status"] = {"phase": "Pending", "nominatedNodeName": "a-np-0"}
    assert places(good(seen(web(1, cpu="4"), node("a-np-0"), node("a-np-1", "4"), waiting))) == {"web-0": "a-np-1"}
    # A more important pod does not mind.
    above = web(1, cpu="5", spec={"priority": 9})
    assert places(good(seen(above, node("a-np-0"), node("a-np-1", "4"), waiting))) == {"web-0": "a-np-0"}


def test_a_pod_that_is_being_resized_holds_the_larger_amount() -> None:
    smaller = pod("other", "a-np-0", "1")
    smaller["status"]["containerStatuses"] = [{"name": "c", "allocatedResources": {"cpu": "7500m"}, "resources": {}}]
    assert places(good(seen(web(1), *NODES, smaller))) == {"web-0": "a-np-1"}


def test_an_allocation_without_actual_resources_does_not_count() -> None:
    """kube-scheduler reads the spec of such a container."""
    smaller = pod("other", "a-np-0", "1")
    without = places(good(seen(web(1), *NODES, smaller)))
    smaller["status"]["containerStatuses"] = [{"name": "c", "allocatedResources": {"cpu": "7500m"}}]
    assert places(good(seen(web(1), *NODES, smaller))) == without


def test_quotas_and_priorities_of_the_cluster_count() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "2"}},
    }
    text = web(3, spec={"priorityClassName": "gold"})
    result = good(seen(text, *whole(*NODES, quota)))
    assert len(places(result)) == 2
    assert {each.id for each in warnings(result)} & {"pods-not-created"}


def test_what_a_whole_dump_does_not_show_is_not_there() -> None:
    """A claim or a PriorityClass that nobody brings: in a dump of nodes and pods alone it may be there."""
    claim = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    told = standing(applied(good(seen(web(1, spec=claim), *whole(*NODES)))))["web-0"]
    assert told["state"] == "Pending"
    assert 'available: persistentvolumeclaim "data" not found.' in told["reason"]
    assert places(good(seen(web(1, spec=claim), *NODES)))["web-0"]
    urgent = {"priorityClassName": "urgent"}
    assert not places(good(seen(web(1, spec=urgent), *whole(*NODES))))
    assert places(good(seen(web(1, spec=urgent), *NODES)))


def test_a_request_above_the_limit_that_the_cluster_fills_in_makes_no_pod() -> None:
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "default"},
        "spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"}}]},
    }
    result = good(seen(web(1, cpu="1"), *whole(*NODES, limits)))
    assert not places(result)
    assert any("must be less than or equal to the limit of 500m" in each.detail for each in warnings(result))


def test_pods_that_name_a_priority_class_that_is_not_there_are_rejected_and_not_made() -> None:
    text = web(2, spec={"priorityClassName": "urgent"})
    result = good(seen(text, *whole(*NODES)))
    rows = [row for row in result.plan.placements if row.kind == "pod"]
    assert [(row.object, row.action, row.trigger) for row in rows] == [
        ("web-0", "keep", "rejected"),
        ("web-1", "keep", "rejected"),
    ]
    assert {row.reason for row in rows} == {"no PriorityClass with name urgent was found"}
    assert {(row.source, row.target) for row in rows} == {(None, None)}
    assert "pod" not in {total.kind for total in result.plan.placement_totals}
    state = applied(result)
    assert not places(result)
    again = good(seen(text, *whole(*NODES), state=state))
    assert is_empty(again)
    assert [row.trigger for row in again.plan.placements] == ["rejected", "rejected"]


def test_a_rollout_to_pods_that_nobody_makes_keeps_the_old_ones() -> None:
    state = applied(good(seen(web(2), *whole(*NODES))))
    result = good(seen(web(2, spec={"priorityClassName": "urgent"}), *whole(*NODES), state=state))
    told = {(row.object, str(row.action), row.trigger) for row in result.plan.placements if row.kind == "pod"}
    assert told == {("web-0", "keep", ""), ("web-1", "keep", ""), ("web-2", "keep", "rejected")}


def test_a_daemon_set_loses_no_more_pods_than_it_may_to_ones_that_nobody_makes() -> None:
    daemons = [deployment("d", 0, cpu="1", kind="DaemonSet", spec=spec) for spec in ({}, {"priorityClassName": "x"})]
    base = RACKS + workers(2) + OF_A
    state = applied(good(seen(base + manifest("m", daemons[0]), *whole(*NODES))))
    after = good(seen(base + manifest("m", daemons[1]), *whole(*NODES), state=state))
    actions = sorted((str(row.action), row.trigger) for row in after.plan.placements if row.kind == "pod")
    assert actions.count(("remove", "template_changed")) == 1
    assert actions.count(("keep", "rejected")) == 1
    kept = applied(after)
    again = good(seen(base + manifest("m", daemons[1]), *whole(*NODES), state=kept))
    assert is_empty(again)


def of_template(revision: str, image: str, cpu: str, on: str, name: str) -> dict[str, Any]:
    """A pod of Deployment web that one of its templates made."""
    labels = {"pod-template-hash": revision, "app": "web"}
    made = pod(name, on, cpu, owner=("ReplicaSet", f"web-{revision}"), labels=labels)
    made["spec"]["containers"][0]["image"] = image
    return made


def test_pods_of_another_image_or_request_are_rolled_out_by_the_first_plan() -> None:
    text = web(2, image="web:2")
    for image, cpu, outcome in (
        ("web:2", "1", {}),
        ("web:1", "1", {"web-0": ("move", "template_changed"), "web-1": ("move", "template_changed")}),
        # Requests that differ in all pods may have been changed on admission, or by a VerticalPodAutoscaler.
        ("web:2", "2", {}),
    ):
        there = [of_template("5d", image, cpu, f"a-np-{at}", f"web-5d-{at}") for at in range(2)]
        result = good(seen(text, *whole(*NODES, *there)))
        assert pods(result) == outcome
        # The files are older than what was applied: nothing is to be done again.
        state = applied(result)
        assert is_empty(good(seen(text, *whole(*NODES, *there), state=state)))
        # Printed anew after the rollout, they show what state has foretold.
        new = [of_template("6f", "web:2", "1", place["node"], name) for name, place in standing(state).items()]
        assert not pods(good(seen(text, *whole(*NODES, *new), state=state)))


def test_of_two_hashes_the_one_that_is_the_manifests_stays() -> None:
    """A rollout on its way: where all that can be compared is equal, the newer one is the template."""
    for old_image in ("web:1", "web:2"):
        old = of_template("5d", old_image, "1", "a-np-0", "web-5d-x")
        new = of_template("6f", "web:2", "1", "a-np-1", "web-6f-x")
        old["status"]["startTime"], new["status"]["startTime"] = ("2026-01-01T10:00:00Z", "2026-01-02T10:00:00Z")
        result = good(seen(web(2, image="web:2"), *whole(*NODES, old, new)))
        assert pods(result) == {"web-0": ("move", "template_changed")}


def test_a_rollout_of_what_was_seen_that_hangs_keeps_what_those_pods_hold() -> None:
    there = [of_template("5d", "web:1", "6", f"a-np-{at}", f"web-5d-{at}") for at in range(2)]
    text = web(2, image="web:2", cpu="7")
    result = good(seen(text, *whole(*NODES, *there)))
    assert pods(result) == {"web-2": ("place", "template_changed")}
    state = applied(result)
    assert [place.get("former_template") for place in standing(state).values()][:2] == ["seen-5d"] * 2
    assert is_empty(good(seen(text, *whole(*NODES, *there), state=state)))


def test_a_pod_that_was_resized_or_has_a_sidecar_of_others_is_no_rollout() -> None:
    resized = of_template("5d", "web:2", "1", "a-np-0", "web-5d-0")
    resized["status"]["containerStatuses"] = [{"name": "c", "allocatedResources": {"cpu": "7500m"}, "resources": {}}]
    sidecar = of_template("5d", "web:2", "1", "a-np-1", "web-5d-1")
    sidecar["spec"]["containers"].append({"name": "mesh", "image": "mesh:1", "resources": {"requests": {"cpu": "6"}}})
    there = [resized, sidecar]
    assert not pods(good(seen(web(2, image="web:2"), *whole(*NODES, *there))))
    # What they hold by now leaves the third one no room.
    third = good(seen(web(3, image="web:2", cpu="1"), *whole(*NODES, *there)))
    assert places(third)["web-2"] == "a-np-1"
