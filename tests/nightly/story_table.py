"""Stories of small clusters: each function returns one with random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from tests.domains.pods.importers.cluster_objects import PLATFORM_LABELS
from tests.domains.pods.importers.security_pods import list_security_pods
from tests.nightly.live_cluster import Body, LiveCluster
from tests.nightly.pod_stories import ENFORCE, Story
from tests.nightly.pod_worlds import NODE_INFO

Draw = random.Random
_HOST = "kubernetes.io/hostname"
_NOT_READY = "node.kubernetes.io/not-ready"
_POLICY_API = "admissionregistration.k8s.io/v1beta1"
_OLD = "app:1"
_NEW = "app:2"
_BAD = "bad:1"


def build_nodes(
    draw: Draw, low: int = 3, high: int = 4, cpus: tuple[int, ...] = (4, 6, 9, 13)
) -> list[Body]:
    """Return nodes of random sizes, to make most choices certain."""
    return [
        _build_node(f"n{number}", draw.choice(cpus)) for number in range(draw.randint(low, high))
    ]


def _build_unequal_nodes(draw: Draw) -> list[Body]:
    """Return three nodes without two of one size."""
    cpus = draw.sample((4, 7, 12, 20, 33), 3)
    return [_build_node(f"n{number}", cpu) for number, cpu in enumerate(cpus)]


def _build_node(name: str, cpu: int) -> Body:
    amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {_HOST: name, **PLATFORM_LABELS}},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
            ],
            "nodeInfo": dict(NODE_INFO),
        },
    }


def build_pod_spec(image: str = _OLD, cpu: int | None = 1000, **more: Any) -> Body:
    resources = {"requests": {"cpu": f"{cpu}m", "memory": "64Mi"}} if cpu else {}
    return {"containers": [{"name": "c", "image": image, "resources": resources}], **more}


def build_pod(name: str, app: str, node: str = "", **more: Any) -> Body:
    spec = {**build_pod_spec(**more), **({"nodeName": node} if node else {})}
    metadata = {"name": name, "namespace": "default", "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def build_workload(kind: str, name: str, pod: Body, **spec: Any) -> Body:
    """Return a workload of the API group apps."""
    labels = {"app": name}
    body = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        **spec,
    }
    if kind == "StatefulSet":
        body.setdefault("serviceName", name)
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


def _build_object(version: str, kind: str, name: str, **fields: Any) -> Body:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        **fields,
    }


def _build_rolling(draw: Draw) -> Body:
    surge, unavailable = draw.choice(
        ((1, 0), (0, 1), (2, 1), ("25%", "25%"), ("50%", 0), (0, "50%"), (1, 1))
    )
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


def _list_pods(cluster: LiveCluster, app: str) -> list[Body]:
    pods = [
        pod
        for pod in cluster.list_all("Pod")
        if pod["metadata"].get("labels", {}).get("app") == app
    ]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))


def set_unready(
    cluster: LiveCluster, pod: Body, reason: str = "CrashLoopBackOff", restarts: int = 3
) -> None:
    status = {
        "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ],
        "containerStatuses": [
            {
                "name": "c",
                "ready": False,
                "restartCount": restarts,
                "state": {"waiting": {"reason": reason}},
                "image": "",
                "imageID": "",
            }
        ],
    }
    cluster.patch("Pod", pod["metadata"]["name"], {"status": status}, "status")


# --- replicas of other managers
# ---------------------------------------------------------------------


def _build_autoscaler(name: str, minimum: int, maximum: int) -> Body:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    spec = {"scaleTargetRef": target, "minReplicas": minimum, "maxReplicas": maximum}
    return _build_object("autoscaling/v2", "HorizontalPodAutoscaler", name, spec=spec)


def keep_autoscaled_replicas(draw: Draw) -> Story:
    """A manifest without replicas, an autoscaler with more replicas, and a new image."""
    count = draw.randint(3, 5)
    rolling = _build_rolling(draw)
    before = build_workload("Deployment", "web", build_pod_spec(), strategy=rolling)
    after = build_workload(
        "Deployment", "web", build_pod_spec(draw.choice((_OLD, _NEW))), strategy=rolling
    )
    return Story(
        build_nodes(draw),
        [after],
        [before, _build_autoscaler("web", count, count + 3)],
        _wait_for_scaling,
    )


def apply_below_autoscaler(draw: Draw) -> Story:
    """A manifest with replicas outside the bounds of the autoscaler."""
    low = draw.randint(2, 4)
    before = build_workload("Deployment", "web", build_pod_spec(), replicas=low)
    after = build_workload(
        "Deployment", "web", build_pod_spec(), replicas=draw.choice((1, low + 1, low + 4))
    )
    return Story(
        build_nodes(draw),
        [after],
        [before, _build_autoscaler("web", low, low + 2)],
        _wait_for_scaling,
    )


def _wait_for_scaling(cluster: LiveCluster) -> None:
    cluster.wait_until_settled(3)


# --- admission
# --------------------------------------------------------------------------------------


def _build_policy(expression: str) -> list[Body]:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    policy = {
        "apiVersion": _POLICY_API,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": spec,
    }
    binding = {
        "apiVersion": _POLICY_API,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "p"},
        "spec": {"policyName": "p"},
    }
    return [policy, binding]


def _build_sidecar_policy(cpu: int) -> list[Body]:
    value = (
        '{"name": dyn("mesh"), "image": dyn("mesh:1"), "resources": dyn({"requests": {"cpu": '
        f'"{cpu}m"}}}})}}'
    )
    return _build_policy(f'[JSONPatch{{op: "add", path: "/spec/containers/-", value: {value}}}]')


def _build_mirror_policy() -> list[Body]:
    value = '"mirror.example/" + object.spec.containers[0].image'
    return _build_policy(
        f'[JSONPatch{{op: "replace", path: "/spec/containers/0/image", value: {value}}}]'
    )


def scale_with_sidecar(draw: Draw) -> Story:
    """Pods with an injected sidecar; more of them, or a new template."""
    replicas = draw.randint(2, 3)
    policy = _build_sidecar_policy(draw.choice((500, 1500)))
    before = build_workload("Deployment", "web", build_pod_spec(), replicas=replicas)
    image = draw.choice((_OLD, _NEW))
    after = build_workload(
        "Deployment", "web", build_pod_spec(image), replicas=replicas + draw.randint(0, 3)
    )
    return Story(build_nodes(draw), [after], [before], _prepare_policy(policy, restart="web"))


def create_with_sidecar(draw: Draw) -> Story:
    """A new workload under a policy adding a sidecar."""
    after = build_workload("Deployment", "web", build_pod_spec(), replicas=draw.randint(2, 5))
    policy = _build_sidecar_policy(draw.choice((500, 3000)))
    return Story(build_nodes(draw), [after], [], _prepare_policy(policy))


def scale_with_mirror(draw: Draw) -> Story:
    """Images rewritten by a policy, and more replicas."""
    replicas = draw.randint(2, 4)
    before = build_workload(
        "Deployment", "web", build_pod_spec("reg.example/app:1"), replicas=replicas
    )
    after = build_workload(
        "Deployment", "web", build_pod_spec("reg.example/app:1"), replicas=replicas + 2
    )
    return Story(
        build_nodes(draw), [after], [before], _prepare_policy(_build_mirror_policy(), restart="web")
    )


def _prepare_policy(policy: list[Body], restart: str = "") -> Callable[[LiveCluster], None]:
    """Return a function that creates a policy and re-creates the pods of an app.

    It waits until the policy is active before it re-creates them.
    """

    def prepare(cluster: LiveCluster) -> None:
        for body in policy:
            answer = cluster.create(body)
            assert "error" not in answer, answer
        for number in range(100):
            name = f"probe-{number}"
            created = cluster.create(build_pod(name, "probe", cpu=None) | {})
            cluster.delete("Pod", f"{name}?gracePeriodSeconds=0")
            if created["spec"]["containers"] != _default_containers(created):
                break
        for pod in _list_pods(cluster, restart) if restart else ():
            cluster.delete("Pod", pod["metadata"]["name"])
        if restart:
            cluster.wait_until_settled(2)

    return prepare


def _default_containers(created: Body) -> Any:
    containers = created["spec"]["containers"]
    is_default = len(containers) == 1 and containers[0]["image"] == _OLD
    return containers if is_default else None


def fill_quota(draw: Draw) -> Story:
    """A quota for only some of the new pods; with a new image, its surge counts too."""
    replicas = draw.randint(1, 3)
    quota = draw.randint(3, 6)
    hard = {draw.choice(("requests.cpu", "cpu")): f"{quota * 1000 + draw.choice((0, 500))}m"}
    objects = [_build_object("v1", "ResourceQuota", "q", spec={"hard": hard})]
    rolling = _build_rolling(draw)
    image = draw.choice((_OLD, _NEW))
    before = build_workload(
        "Deployment", "web", build_pod_spec(), replicas=replicas, strategy=rolling
    )
    more = replicas + draw.randint(1, 5)
    after = build_workload(
        "Deployment", "web", build_pod_spec(image), replicas=more, strategy=rolling
    )
    return Story(build_nodes(draw), [after], [*objects, before], _wait_for_scaling, quiet_seconds=8)


def fill_count_quota(draw: Draw) -> Story:
    """A quota on the number of pods."""
    hard = {draw.choice(("pods", "count/pods")): str(draw.randint(2, 4))}
    quota = _build_object("v1", "ResourceQuota", "q", spec={"hard": hard})
    after = build_workload("Deployment", "web", build_pod_spec(), replicas=draw.randint(3, 6))
    return Story(build_nodes(draw), [after], [quota], _wait_for_scaling)


def apply_limit_range(draw: Draw) -> Story:
    """Default requests of a LimitRange, for new pods or further ones."""
    item = {
        "type": "Container",
        "defaultRequest": {"cpu": draw.choice(("500m", "1500m")), "memory": "64Mi"},
    }
    if draw.random() < 0.4:
        item["max"] = {"cpu": "2"}
        item["default"] = {"cpu": item["defaultRequest"]["cpu"], "memory": "128Mi"}
    limits = _build_object("v1", "LimitRange", "l", spec={"limits": [item]})
    pod = build_pod_spec(cpu=draw.choice((None, 1500)))
    replicas = draw.randint(2, 5)
    before = [build_workload("Deployment", "web", pod, replicas=1)] if draw.random() < 0.5 else []
    after = build_workload("Deployment", "web", pod, replicas=replicas)
    return Story(build_nodes(draw), [after], [limits, *before])


# --- readiness
# --------------------------------------------------------------------------------------


def scale_ordered_set(draw: Draw) -> Story:
    """An ordered StatefulSet with an unready pod: scaled, or with a new image."""
    replicas = draw.randint(2, 4)
    policy = draw.choice(("OrderedReady", "OrderedReady", "Parallel"))
    before = build_workload(
        "StatefulSet", "db", build_pod_spec(), replicas=replicas, podManagementPolicy=policy
    )
    image = draw.choice((_OLD, _OLD, _NEW))
    count = max(1, replicas + draw.choice((-1, 1, 2, 0)))
    after = build_workload(
        "StatefulSet", "db", build_pod_spec(image), replicas=count, podManagementPolicy=policy
    )
    broken = draw.randrange(replicas)

    def prepare(cluster: LiveCluster) -> None:
        set_unready(cluster, _list_pods(cluster, "db")[broken])

    return Story(build_nodes(draw), [after], [before], prepare)


def update_partition(draw: Draw) -> Story:
    """A StatefulSet updated down to an ordinal, and possibly scaled.

    It is scaled to below or above its partition.
    """
    replicas = draw.randint(2, 4)
    strategy = draw.choice(
        (
            {"type": "OnDelete"},
            {"type": "RollingUpdate", "rollingUpdate": {"partition": draw.randint(1, replicas)}},
            {
                "type": "RollingUpdate",
                "rollingUpdate": {"partition": replicas + draw.randint(0, 2)},
            },
            {"type": "RollingUpdate"},
        )
    )
    policy = draw.choice(("OrderedReady", "Parallel"))
    ordinals = {"start": draw.choice((0, 0, 3))}
    more = {"podManagementPolicy": policy, "updateStrategy": strategy, "ordinals": ordinals}
    before = build_workload("StatefulSet", "db", build_pod_spec(), replicas=replicas, **more)
    count = max(1, replicas + draw.randint(-1, 2))
    after = build_workload("StatefulSet", "db", build_pod_spec(_NEW, 1500), replicas=count, **more)
    return Story(build_nodes(draw), [after], [before])


def leave_bad_image(draw: Draw) -> Story:
    """A rollout blocked by its image: unchanged, scaled, or given a valid image."""
    replicas = draw.randint(2, 5)
    rolling = _build_rolling(draw)
    kind = draw.choice(("Deployment", "Deployment", "Deployment", "StatefulSet", "DaemonSet"))
    more: Body = {} if kind == "DaemonSet" else {"replicas": replicas}
    more |= {"strategy": rolling} if kind == "Deployment" else {}
    before = build_workload(kind, "web", build_pod_spec(), **more)
    hanging = build_workload(kind, "web", build_pod_spec(_BAD), **more)
    image = draw.choice((_BAD, _BAD, _NEW, _OLD))
    if kind != "DaemonSet":
        more["replicas"] = max(1, replicas + draw.choice((0, 0, 1, -1)))
    after = build_workload(kind, "web", build_pod_spec(image), **more)

    def prepare(cluster: LiveCluster) -> None:
        cluster.apply(hanging)
        cluster.wait_until_settled(2)

    return Story(build_nodes(draw), [after], [before], prepare)


def scale_in_by_rank(draw: Draw) -> Story:
    """Pods with deletion costs, restarts, or not ready, and fewer replicas."""
    replicas = draw.randint(4, 6)
    before = build_workload("Deployment", "web", build_pod_spec(cpu=500), replicas=replicas)
    after = build_workload(
        "Deployment", "web", build_pod_spec(cpu=500), replicas=draw.randint(1, replicas - 1)
    )
    seed = draw.random()

    def prepare(cluster: LiveCluster) -> None:
        own = random.Random(seed)
        for pod in _list_pods(cluster, "web"):
            name = pod["metadata"]["name"]
            kind = own.random()
            if kind < 0.3:
                cost = {"controller.kubernetes.io/pod-deletion-cost": str(own.choice((-5, 5, 100)))}
                cluster.patch("Pod", name, {"metadata": {"annotations": cost}})
            elif kind < 0.5:
                set_unready(cluster, pod, restarts=own.randint(1, 9))
            elif kind < 0.8:
                time = f"2026-0{own.randint(1, 9)}-01T00:00:00Z"
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": time}
                cluster.patch("Pod", name, {"status": {"conditions": [ready]}}, "status")

    return Story(build_nodes(draw), [after], [before], prepare)


def roll_with_sick_pods(draw: Draw) -> Story:
    """A Deployment with unready pods, and a new template."""
    replicas = draw.randint(2, 5)
    rolling = _build_rolling(draw)
    before = build_workload(
        "Deployment", "web", build_pod_spec(), replicas=replicas, strategy=rolling
    )
    count = max(1, replicas + draw.choice((0, 0, 1, -1)))
    after = build_workload(
        "Deployment", "web", build_pod_spec(_NEW, 1500), replicas=count, strategy=rolling
    )
    sick = draw.sample(range(replicas), draw.randint(1, replicas))

    def prepare(cluster: LiveCluster) -> None:
        for number, pod in enumerate(_list_pods(cluster, "web")):
            if number in sick:
                set_unready(cluster, pod)

    return Story(build_nodes(draw), [after], [before], prepare)


# --- other controllers
# ------------------------------------------------------------------------------


def run_job_with_failures(draw: Draw) -> Story:
    """A Job with a failed or finished pod, and another parallelism."""
    pod = build_pod_spec(restartPolicy="Never")
    spec: Body = {
        "completions": draw.randint(2, 5),
        "parallelism": draw.randint(1, 3),
        "backoffLimit": 4,
    }
    labels = {"app": "job"}
    template = {"metadata": {"labels": labels}, "spec": pod}

    def build(parallelism: int) -> Body:
        body = {**spec, "parallelism": parallelism, "template": template}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "job", "namespace": "default"},
            "spec": body,
        }

    phases = [draw.choice(("Failed", "Succeeded")) for _ in range(draw.randint(1, 2))]

    def prepare(cluster: LiveCluster) -> None:
        for pod, phase in zip(_list_pods(cluster, "job"), phases, strict=False):
            cluster.patch("Pod", pod["metadata"]["name"], {"status": {"phase": phase}}, "status")
        cluster.wait_until_settled(2)

    change = build(draw.randint(1, 4))
    # The controller waits 10 s after the first failed pod, then twice as long.
    quiet = 22 if "Failed" in phases else 2.5
    return Story(
        build_nodes(draw), [change], [build(spec["parallelism"])], prepare, quiet_seconds=quiet
    )


def run_daemons_on_unready_nodes(draw: Draw) -> Story:
    """A DaemonSet, new or updated, with an unready or cordoned node."""
    nodes = build_nodes(draw, 3, 5)
    kind = draw.choice(("not ready", "cordoned", "NoExecute"))
    strategy = draw.choice(
        (
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": draw.choice((1, 2))}},
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            {"type": "OnDelete"},
        )
    )
    before = build_workload("DaemonSet", "agent", build_pod_spec(cpu=500), updateStrategy=strategy)
    after = build_workload("DaemonSet", "agent", build_pod_spec(_NEW, 500), updateStrategy=strategy)
    sick = draw.random() < 0.5

    def prepare(cluster: LiveCluster) -> None:
        if kind == "cordoned":
            cluster.patch("Node", "n0", {"spec": {"unschedulable": True}})
        else:
            effects = ("NoSchedule", "NoExecute") if kind == "not ready" else ("NoExecute",)
            key = _NOT_READY if kind == "not ready" else "maintenance"
            cluster.patch(
                "Node",
                "n0",
                {"spec": {"taints": [{"key": key, "effect": effect} for effect in effects]}},
            )
        pods = _list_pods(cluster, "agent")
        if sick and pods:
            set_unready(cluster, pods[0])

    return Story(nodes, [after], [before] if draw.random() < 0.7 else [], prepare)


def evict_by_taint(draw: Draw) -> Story:
    """A node with a new NoExecute taint, and a scaled workload."""
    replicas = draw.randint(3, 5)
    before = build_workload("Deployment", "web", build_pod_spec(), replicas=replicas)
    after = build_workload(
        "Deployment", "web", build_pod_spec(), replicas=replicas + draw.randint(0, 2)
    )
    other = build_workload("Deployment", "other", build_pod_spec(cpu=500), replicas=2)
    key = draw.choice((_NOT_READY, "maintenance"))
    effects = ("NoSchedule", "NoExecute") if key == _NOT_READY else ("NoExecute",)

    def prepare(cluster: LiveCluster) -> None:
        cluster.patch(
            "Node",
            "n1",
            {"spec": {"taints": [{"key": key, "effect": effect} for effect in effects]}},
        )

    return Story(build_nodes(draw), [after], [before, other], prepare)


def wait_for_taint(draw: Draw) -> Story:
    """A node without a taint although it stopped reporting."""
    replicas = draw.randint(2, 4)
    before = build_workload("Deployment", "web", build_pod_spec(), replicas=replicas)
    after = build_workload(
        "Deployment", "web", build_pod_spec(), replicas=replicas + draw.randint(1, 3)
    )

    def prepare(cluster: LiveCluster) -> None:
        condition = {"type": "Ready", "status": "Unknown"}
        cluster.patch("Node", "n0", {"status": {"conditions": [condition]}}, "status")

    def finish(cluster: LiveCluster) -> None:
        key = "node.kubernetes.io/unreachable"
        taints = [{"key": key, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        cluster.patch("Node", "n0", {"spec": {"taints": taints}})

    return Story(build_nodes(draw), [after], [before], prepare, finish)


def schedule_behind_pending_pods(draw: Draw) -> Story:
    """Pending pods of other workloads, and a change that frees capacity."""
    nodes = [_build_node(f"n{number}", 4) for number in range(2)]
    replicas = draw.randint(3, 5)
    before = build_workload("Deployment", "web", build_pod_spec(), replicas=replicas)
    waiting = build_workload(
        "Deployment", "other", build_pod_spec(cpu=draw.choice((2500, 3500))), replicas=2
    )
    smaller = build_workload(
        "Deployment", "web", build_pod_spec(), replicas=draw.randint(1, replicas - 1)
    )
    extra = build_workload("Deployment", "extra", build_pod_spec(cpu=1500), replicas=1)
    return Story(nodes, [smaller, extra] if draw.random() < 0.6 else [extra], [before, waiting])


def place_beside_terminating_pods(draw: Draw) -> Story:
    """Pods staying in Terminating, and a new or scaled workload."""
    nodes = build_nodes(draw, 2, 3, (4, 5))
    leaving = [
        build_pod(f"leaving-{number}", "leaving", cpu=1500) for number in range(draw.randint(1, 3))
    ]
    replicas = draw.randint(1, 2)
    before = build_workload("Deployment", "web", build_pod_spec(), replicas=replicas)
    after = build_workload(
        "Deployment", "web", build_pod_spec(), replicas=replicas + draw.randint(1, 4)
    )

    def prepare(cluster: LiveCluster) -> None:
        for pod in _list_pods(cluster, "leaving"):
            cluster.delete("Pod", f"{pod['metadata']['name']}?gracePeriodSeconds=600")

    return Story(nodes, [after], [*leaving, before], prepare, lingering="leaving")


def scale_beside_own_terminating_pods(draw: Draw) -> Story:
    """Own pods staying in Terminating while the workload is scaled or gets a new image."""
    replicas = draw.randint(2, 4)
    rolling = _build_rolling(draw)
    before = build_workload(
        "Deployment", "web", build_pod_spec(), replicas=replicas, strategy=rolling
    )
    image = draw.choice((_OLD, _NEW))
    count = replicas + draw.randint(0, 2)
    after = build_workload(
        "Deployment", "web", build_pod_spec(image), replicas=count, strategy=rolling
    )

    def prepare(cluster: LiveCluster) -> None:
        pod = _list_pods(cluster, "web")[0]
        cluster.delete("Pod", f"{pod['metadata']['name']}?gracePeriodSeconds=600")
        cluster.wait_until_settled(1)

    return Story(build_nodes(draw, 2, 3), [after], [before], prepare, lingering="web")


def preempt(draw: Draw) -> Story:
    """High-priority pods on full nodes, with a disruption budget for the low-priority pods."""
    nodes = build_nodes(draw, 2, 3, (3, 4))
    total = sum(int(node["status"]["capacity"]["cpu"]) for node in nodes)
    low = build_workload(
        "Deployment", "low", build_pod_spec(priorityClassName="low"), replicas=total
    )
    high = build_workload(
        "Deployment",
        "high",
        build_pod_spec(cpu=draw.choice((1000, 2000)), priorityClassName="high"),
        replicas=draw.randint(1, 2),
    )
    budget = {"selector": {"matchLabels": {"app": "low"}}, "maxUnavailable": draw.randint(0, 2)}
    budgets = (
        [_build_object("policy/v1", "PodDisruptionBudget", "low", spec=budget)]
        if draw.random() < 0.5
        else []
    )
    return Story(nodes, [high, low] if draw.random() < 0.5 else [high], [*budgets, low])


def change_paused(draw: Draw) -> Story:
    """A paused or resumed Deployment with a new image and other replicas."""
    replicas = draw.randint(2, 4)
    before = build_workload("Deployment", "web", build_pod_spec(), replicas=replicas, paused=True)
    count = max(1, replicas + draw.randint(-1, 2))
    after = build_workload(
        "Deployment",
        "web",
        build_pod_spec(_NEW),
        replicas=count,
        paused=draw.choice((True, True, False)),
    )
    first = build_workload("Deployment", "web", build_pod_spec(), replicas=replicas, paused=False)

    def prepare(cluster: LiveCluster) -> None:
        cluster.apply(before)

    return Story(build_nodes(draw), [after], [first], prepare)


def roll_on_tight_nodes(draw: Draw) -> Story:
    """A new template with larger pods or with pod anti-affinity, on nearly full nodes."""
    nodes = build_nodes(draw, 2, 3, (2, 3, 4))
    rolling = _build_rolling(draw)
    total = sum(int(node["status"]["capacity"]["cpu"]) for node in nodes)
    replicas = min(total, draw.randint(2, 6))
    apart = {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": _HOST}
                ]
            }
        }
    }
    more: Body = {"strategy": draw.choice((rolling, rolling, {"type": "Recreate"}))}
    is_apart = draw.random() < 0.4
    if is_apart:
        replicas = min(replicas, len(nodes))
    before = build_workload(
        "Deployment",
        "web",
        build_pod_spec(**(apart if is_apart else {})),
        replicas=replicas,
        **more,
    )
    after = build_workload(
        "Deployment",
        "web",
        build_pod_spec(_NEW, draw.choice((1000, 1500)), **(apart if is_apart else {})),
        replicas=replicas,
        **more,
    )
    return Story(nodes, [after], [before])


def scale_during_rollout(draw: Draw) -> Story:
    """A rollout blocked by missing capacity, and other replicas."""
    nodes = build_nodes(draw, 2, 3, (3, 4))
    rolling = _build_rolling(draw)
    replicas = draw.randint(3, 5)
    before = build_workload(
        "Deployment", "web", build_pod_spec(), replicas=replicas, strategy=rolling
    )
    hanging = build_workload(
        "Deployment", "web", build_pod_spec(_NEW, 9000), replicas=replicas, strategy=rolling
    )
    count = max(1, replicas + draw.choice((-2, -1, 1, 2, 3)))
    image, cpu = draw.choice(((_NEW, 9000), (_NEW, 9000), ("app:3", 1000), (_OLD, 1000)))
    after = build_workload(
        "Deployment", "web", build_pod_spec(image, cpu), replicas=count, strategy=rolling
    )

    def prepare(cluster: LiveCluster) -> None:
        cluster.apply(hanging)
        cluster.wait_until_settled(2)

    return Story(nodes, [after], [before], prepare)


def adopt_orphans(draw: Draw) -> Story:
    """Pods without a controller, adopted by a ReplicaSet or a DaemonSet."""
    kind = draw.choice(("ReplicaSet", "ReplicaSet", "StatefulSet", "Deployment", "DaemonSet"))
    prefix = "web" if kind == "StatefulSet" else "orphan"
    orphans = [build_pod(f"{prefix}-{number}", "web") for number in range(draw.randint(1, 3))]
    more = {} if kind == "DaemonSet" else {"replicas": draw.randint(1, 5)}
    return Story(
        build_nodes(draw), [build_workload(kind, "web", build_pod_spec(), **more)], orphans
    )


# --- what a pod needs
# -------------------------------------------------------------------------------


def enforce_security(draw: Draw) -> Story:
    """A namespace with a level of Pod Security, and pods that it may reject."""
    level = draw.choice(("privileged", "baseline", "baseline", "restricted", "restricted"))
    pods = [pod for pod, _ in list_security_pods()]
    spec = draw.choice(pods)["spec"]
    resources = {"requests": {"cpu": "1", "memory": "64Mi"}}
    spec = {**spec, "containers": [{**item, "resources": resources} for item in spec["containers"]]}
    if draw.random() < 0.3:
        spec = {**spec, "hostNetwork": True}
    spec = {key: value for key, value in spec.items() if key not in _NOT_IN_TEMPLATES}
    kind = draw.choice(("Deployment", "StatefulSet", "DaemonSet"))
    more = {} if kind == "DaemonSet" else {"replicas": draw.randint(1, 3)}
    change = [build_workload(kind, "web", spec, **more)]
    if draw.random() < 0.3:
        change = [build_workload("Deployment", "plain", build_pod_spec(), replicas=2)]
    return Story(
        build_nodes(draw), change, prepare=lambda cluster: cluster.label_namespace(ENFORCE, level)
    )


_NOT_IN_TEMPLATES = ("ephemeralContainers", "activeDeadlineSeconds", "restartPolicy")


def miss_needs(draw: Draw) -> Story:
    """Pods that name objects of several kinds, some of which are not there."""
    kinds = ("ConfigMap", "Secret", "RuntimeClass", "PriorityClass", "PersistentVolumeClaim")
    return _build_needs(draw, (draw.choice(kinds), draw.choice(kinds)))


def miss_account(draw: Draw) -> Story:
    """Pods that name a ServiceAccount, and those of a ReplicaSet with a RuntimeClass."""
    return _build_needs(draw, ("ServiceAccount", "RuntimeClass"), "ReplicaSet")


def _build_needs(draw: Draw, kinds: tuple[str, ...], last_controller: str = "") -> Story:
    """Return a story with a workload for each kind of named object."""
    objects = {
        "ServiceAccount": _build_object("v1", "ServiceAccount", "runner"),
        "ConfigMap": _build_object("v1", "ConfigMap", "settings", data={"port": "1"}),
        "Secret": _build_object("v1", "Secret", "login", stringData={"user": "a"}),
        "RuntimeClass": {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "kata"},
            "handler": "kata",
            **draw.choice(({}, {"overhead": {"podFixed": {"cpu": "500m"}}})),
        },
    }
    change = []
    for name, kind in zip("ab", kinds[: draw.choice((1, 2))], strict=False):
        pod = build_pod_spec(cpu=draw.choice((500, 1000, 1500)))
        _name_object(draw, pod, kind)
        controller = draw.choice(("Deployment", "StatefulSet", "Deployment"))
        if name == "b" and last_controller:
            controller = last_controller
        workload = build_workload(controller, name, pod, replicas=draw.randint(1, 3))
        if controller == "StatefulSet":
            workload["spec"]["podManagementPolicy"] = "Parallel"
        change.append(workload)
    return Story(
        _build_unequal_nodes(draw),
        change,
        [build_pod("old", "old"), *(body for body in objects.values() if draw.random() < 0.6)],
        quiet_seconds=6,
    )


def _name_object(draw: Draw, pod: Body, kind: str) -> None:
    """Let a pod name an object of a kind; sometimes another key or class, or as optional."""
    container = pod["containers"][0]
    match kind:
        case "ServiceAccount":
            pod["serviceAccountName"] = "runner"
        case "ConfigMap":
            container["envFrom"] = [{"configMapRef": {"name": "settings"}}]
        case "Secret":
            reference: Body = {"name": "login", "key": draw.choice(("user", "password"))}
            if draw.random() < 0.2:
                reference["optional"] = True
            container["env"] = [{"name": "A", "valueFrom": {"secretKeyRef": reference}}]
        case "RuntimeClass":
            pod["runtimeClassName"] = "kata"
        case "PriorityClass":
            pod["priorityClassName"] = draw.choice(("high", "low", "unknown"))
        case _:
            claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
            pod["volumes"] = [claim]


def lose_node(draw: Draw) -> Story:
    """A node that takes no pods any more leaves with its pods between the dump and the apply."""
    nodes = build_nodes(draw)
    leaving = _build_node("leaving", 32)
    leaving["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
    }
    own = build_pod("last", "last", "leaving")
    kind = draw.choice(("Deployment", "StatefulSet", "Deployment"))
    pod = build_pod_spec(cpu=draw.choice((500, 1500)))
    if draw.random() < 0.5:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": _HOST,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ]

    def finish(cluster: LiveCluster) -> None:
        cluster.delete("Pod", "last?gracePeriodSeconds=0")
        cluster.delete("Node", "leaving")

    return Story(
        [*nodes, leaving],
        [build_workload(kind, "web", pod, replicas=draw.randint(1, 5))],
        [own],
        finish=finish,
    )


def lose_node_in_use(draw: Draw) -> Story:
    """A node leaves with pods of two workloads between the dump and the apply."""
    nodes = _build_unequal_nodes(draw)
    leaving = _build_node("leaving", draw.choice((6, 10)))
    pod = build_pod_spec(cpu=draw.choice((500, 1500)))
    web = build_workload("Deployment", "web", pod, replicas=draw.randint(2, 4))
    before = [build_workload("Deployment", "old", pod, replicas=draw.randint(2, 4)), web]
    image = draw.choice((_OLD, _NEW))
    change = build_workload(
        "Deployment",
        "web",
        build_pod_spec(image, draw.choice((500, 1500))),
        replicas=draw.randint(2, 6),
    )
    added = build_workload("StatefulSet", "new", build_pod_spec(cpu=1000), replicas=1)

    def outdate(cluster: LiveCluster) -> None:
        for item in cluster.list_all("Pod"):
            if item["spec"].get("nodeName") == "leaving":
                cluster.delete("Pod", f"{item['metadata']['name']}?gracePeriodSeconds=0")
        cluster.delete("Node", "leaving")

    return Story(
        [*nodes, leaving],
        draw.choice(([change], [added], [change, added])),
        before,
        outdate=outdate,
    )


def scale_replication_controller(draw: Draw) -> Story:
    """A ReplicationController with other replicas, or a new one beside a Deployment."""
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": build_pod_spec(cpu=draw.choice((500, 1500)))}

    def build_controller(replicas: int) -> Body:
        spec = {"replicas": replicas, "selector": labels, "template": pod}
        return _build_object("v1", "ReplicationController", "web", spec=spec)

    other = build_workload("Deployment", "other", build_pod_spec(), replicas=draw.randint(1, 2))
    existing = draw.choice((build_controller(draw.randint(1, 4)), other))
    return Story(
        _build_unequal_nodes(draw), [build_controller(draw.randint(1, 5))], before=[existing]
    )


def create_ephemeral_claims(draw: Draw) -> Story:
    """Pods with a local volume each, by an ephemeral claim."""
    nodes = _build_unequal_nodes(draw)
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    volumes = []
    for node in nodes:
        name = node["metadata"]["name"]
        requirement = {"key": _HOST, "operator": "In", "values": [name]}
        terms = [{"matchExpressions": [requirement]}]
        volumes += [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"{name}-{number}"},
                "spec": {
                    "capacity": {"storage": f"{draw.choice((5, 20))}Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "local",
                    "local": {"path": "/x"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                },
            }
            for number in range(draw.choice((0, 1, 3)))
        ]
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": f"{draw.choice((2, 10))}Gi"}},
    }
    pod = build_pod_spec(cpu=draw.choice((500, 1500)))
    pod["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
    change = build_workload("Deployment", "web", pod, replicas=draw.randint(1, 2))
    before = [storage_class, *volumes, build_pod("old", "old")]
    return Story(nodes, [change], before, quiet_seconds=4)


STORIES: Final[dict[str, Callable[[Draw], Story]]] = {
    "keep autoscaled replicas": keep_autoscaled_replicas,
    "apply below autoscaler": apply_below_autoscaler,
    "scale with sidecar": scale_with_sidecar,
    "create with sidecar": create_with_sidecar,
    "scale with mirror": scale_with_mirror,
    "fill quota": fill_quota,
    "fill count quota": fill_count_quota,
    "apply limit range": apply_limit_range,
    "scale ordered set": scale_ordered_set,
    "update partition": update_partition,
    "leave bad image": leave_bad_image,
    "scale in by rank": scale_in_by_rank,
    "roll with sick pods": roll_with_sick_pods,
    "job with failures": run_job_with_failures,
    "daemons on unready nodes": run_daemons_on_unready_nodes,
    "evict by taint": evict_by_taint,
    "wait for taint": wait_for_taint,
    "behind pending pods": schedule_behind_pending_pods,
    "beside terminating pods": place_beside_terminating_pods,
    "own terminating pods": scale_beside_own_terminating_pods,
    "preempt": preempt,
    "change paused": change_paused,
    "roll on tight nodes": roll_on_tight_nodes,
    "scale during rollout": scale_during_rollout,
    "adopt orphans": adopt_orphans,
    "enforce security": enforce_security,
    "miss needs": miss_needs,
    "lose node": lose_node,
    "miss account": miss_account,
    "lose a used node": lose_node_in_use,
    "scale replication controller": scale_replication_controller,
    "create ephemeral claims": create_ephemeral_claims,
}
