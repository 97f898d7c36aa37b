"""`plan -check-with=kube-scheduler=DIR`.

The predicted decisions on pods, repeated by a running kube-scheduler.

Each decision is repeated in its predicted situation: nodes and running pods are created in a real
API server as nexusform reads them. If the program chooses another of equally good nodes, the pod is
moved to the predicted one before the next decision.
"""

import itertools
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from msgspec import json

from nexusform.domains.conformance.workflow.kubernetes_objects import (
    Body,
    UnsupportedPodError,
    build_default_service,
    build_node,
    build_pod_manifest,
    check_pod_support,
)
from nexusform.domains.conformance.workflow.loopback_programs import (
    LoopbackPrograms,
    ProgramProblem,
    open_programs,
    read_version,
)
from nexusform.domains.fleet.planning.fleet_phases import find_planned_fleet
from nexusform.domains.pods.planning.object_pods import PredictionInput
from nexusform.domains.pods.scheduling.cluster_records import Cluster, PodSpec
from nexusform.domains.pods.scheduling.pod_explanation import run_prediction
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.domains.pods.scheduling.pod_spec_scheduler import PodSpecScheduler
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan_checks import DecisionDifference, ProgramCheck
from nexusform.workflow.program_checks import ProgramCheckOutcome, ProgramCheckProblem

PROGRAM: Final = "kube-scheduler"
_DECISION_SECONDS: Final = 20.0
# Until the scheduler has seen new nodes.
_SETTLE_SECONDS: Final = 0.5
_MAX_DIFFERENCES: Final = 100
# Of a different decision.
_REPETITIONS: Final = 12
_PENDING: Final = ""

PodKey = tuple[str, int]


class CheckTimeExceeded(Exception):
    """End of the time for the check."""


def check_with_scheduler(result: PlanResult, programs: str, seconds: float) -> ProgramCheckOutcome:
    """Compare the nodes planned for pods with the decisions of kube-scheduler.

    Raises ProgramCheckProblem.
    """
    fleet = find_planned_fleet(result)
    predictions = list(fleet.pods.list_inputs_and_outcomes()) if fleet is not None else []
    has_timed_out = False
    # A pod without a trigger has no decision in this plan.
    total = sum(bool(outcome.trigger) for _, pods in predictions for _, outcome in pods.values())
    try:
        version = read_version(Path(programs, PROGRAM), "--version")
        with open_programs(programs) as running:
            start_scheduler(running)
            check = KubeSchedulerCheck(running, version, time.monotonic() + seconds)
            for inputs, pods in predictions:
                check.check_prediction(inputs, pods)
    except CheckTimeExceeded:
        # By check_prediction: its results so far count.
        has_timed_out = True
    except ProgramProblem as problem:
        raise ProgramCheckProblem(str(problem)) from None
    summary = ProgramCheck(
        PROGRAM, version, len(check.checked), total, "pod", tuple(check.differences)
    )
    return ProgramCheckOutcome(summary, tuple(check.cases), has_timed_out)


def start_scheduler(running: LoopbackPrograms, *flags: str) -> None:
    """Start kube-scheduler with an API server.

    Raises ProgramProblem.
    """
    running.start_api_server()
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(running.kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
    }
    path = running.kubeconfig.with_name("scheduler.json")
    path.write_bytes(json.encode(configuration))
    names = ("authentication", "authorization")
    kubeconfigs = (f"--{name}-kubeconfig={running.kubeconfig}" for name in names)
    running.start(PROGRAM, f"--config={path}", *kubeconfigs, "--secure-port=0", *flags)


class KubeSchedulerCheck:
    """Situation in the API server, and the results so far.

    `pods` are the running ones by spec and node.
    """

    def __init__(self, running: LoopbackPrograms, version: str, ends_at: float) -> None:
        """Prepare a check with running programs, without a cluster yet.

        It ends at `ends_at` (time.monotonic).
        """
        # number of the prediction, and pod.
        self.checked: set[tuple[int, PodKey]] = set()
        self.differences: list[DecisionDifference] = []
        # One per difference, to repeat it.
        self.cases: list[Body] = []
        self._running = running
        self._version = version
        self._ends_at = ends_at
        self._names = (f"p{number}" for number in itertools.count())
        self._cluster: Cluster | None = None
        self._nodes: list[Body] = []
        # names of running pods by spec and node.
        self._pods: dict[tuple[PodSpec, str], list[str]] = {}
        self._namespaces: set[str] = set()
        # The current Service, for the default spreading of the last pod.
        self._service: Body | None = None
        # Of the prediction being checked, from 1.
        self._prediction_number = 0

    def check_prediction(
        self, inputs: PredictionInput, pods: dict[PodKey, tuple[str, PodOutcome]]
    ) -> None:
        """Run one prediction again, and compare its decisions on `pods`.

        Address of the object, and outcome. Raises ProgramProblem, CheckTimeExceeded.
        """
        self._prediction_number += 1
        # Their nominations are not re-created.
        if inputs.cluster.nominated_pods:
            return
        self._replace_cluster(inputs.cluster)

        def compare_decision_with_scheduler(
            workload: str, number: int, scheduler: PodSpecScheduler
        ) -> None:
            """Compare the next decision of the prediction.

            On the pod `number` of a workload, if it is supported.
            """
            address, outcome = pods.get((workload, number), ("", None))
            if outcome is None or not outcome.trigger or outcome.victims or scheduler.volume_needs:
                # No decision of this plan, or one with evictions or volumes: beyond the check.
                return
            try:
                check_pod_support(scheduler.group.spec)
                self._sync_running_pods_with_prediction(scheduler)
                self._compare_decision(address, outcome, scheduler)
            except UnsupportedPodError:
                # Not counted as checked.
                return
            self.checked.add((self._prediction_number, (workload, number)))

        run_prediction(
            inputs.cluster,
            inputs.existing_pods,
            inputs.workloads,
            compare_decision_with_scheduler,
            seed=inputs.seed,
            lost_pods=inputs.lost_pods,
        )

    def _replace_cluster(self, cluster: Cluster) -> None:
        """Create the missing namespaces of a cluster, and replace the nodes by its nodes.

        The replaced nodes are those of the previous cluster.
        """
        for name, labels in cluster.namespaces.items():
            self._ensure_namespace(name, dict(labels))
        if self._cluster is not None and self._cluster.nodes == cluster.nodes:
            # The nodes exist; pods are synchronized before each decision.
            return
        for (spec, _), names in self._pods.items():
            for name in names:
                self._delete_pod(spec.namespace, name)
        self._pods.clear()
        for node in self._nodes:
            self._running.call("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")
        self._cluster = cluster
        kubelet_version = f"v{self._version}"
        # nodes with each image.
        image_counts = Counter(name for node in cluster.nodes for name in node.images or ())
        self._nodes = [
            build_node(node, kubelet_version, image_counts, len(cluster.nodes))
            for node in cluster.nodes
        ]
        for node in self._nodes:
            self._check_time_limit()
            self._running.call("POST", "/api/v1/nodes", {**node, "status": {}})
            path = f"/api/v1/nodes/{node['metadata']['name']}/status"
            self._running.call("PATCH", path, {"status": node["status"]}, "strategic-merge-patch")
        time.sleep(_SETTLE_SECONDS)

    def _ensure_namespace(self, name: str, labels: dict[str, str]) -> None:
        """Create a namespace with these labels, or label an existing one.

        This is done only once for each name.
        """
        if name in self._namespaces:
            return
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }
        if self._running.call("GET", f"/api/v1/namespaces/{name}"):
            self._running.call("PATCH", f"/api/v1/namespaces/{name}", body, "strategic-merge-patch")
        else:
            self._running.call("POST", "/api/v1/namespaces", body)
        self._namespaces.add(name)

    def _sync_running_pods_with_prediction(self, scheduler: PodSpecScheduler) -> None:
        """Create and delete pods until the running ones are those of the prediction.

        Raises UnsupportedPodError.
        """
        cache = scheduler.cache
        # number of pods by spec and node.
        required: dict[tuple[PodSpec, str], int] = {}
        for group in cache.list_groups():
            required |= {
                (group.spec, cache.nodes[index].name): count for index, count in group.nodes.items()
            }
        if any(spec.is_terminating for spec, _ in required):
            raise UnsupportedPodError("terminating pods")
        for key in self._pods.keys() - required.keys():
            # All of these are deleted below.
            required[key] = 0
        for (spec, node), count in required.items():
            names = self._pods.setdefault((spec, node), [])
            while len(names) > count:
                self._delete_pod(spec.namespace, names.pop())
            while len(names) < count:
                self._check_time_limit()
                name = next(self._names)
                self._create_pod(build_pod_manifest(spec, name, node))
                names.append(name)
        self._pods = {key: names for key, names in self._pods.items() if names}

    def _replace_spreading_service(self, service: Body | None) -> None:
        """Replace the Service used for default spreading by the one of the next pod.

        None: no Service.
        """
        if service == self._service:
            return
        if self._service is not None:
            metadata = self._service["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/services/{metadata['name']}"
            self._running.call("DELETE", path)
        if service is not None:
            namespace = service["metadata"]["namespace"]
            self._ensure_namespace(namespace, labels={})
            self._running.call("POST", f"/api/v1/namespaces/{namespace}/services", service)
        self._service = service
        # The scheduler has to notice it.
        time.sleep(_SETTLE_SECONDS)

    def _create_pod(self, body: Body) -> None:
        namespace = body["metadata"]["namespace"]
        self._ensure_namespace(namespace, labels={})
        self._running.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    def _delete_pod(self, namespace: str, name: str) -> None:
        self._running.call(
            "DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0"
        )

    def _check_time_limit(self) -> None:
        if time.monotonic() > self._ends_at:
            raise CheckTimeExceeded

    def _compare_decision(
        self, address: str, outcome: PodOutcome, scheduler: PodSpecScheduler
    ) -> None:
        """Compare a predicted decision with kube-scheduler, and record a difference.

        A different decision is repeated first: kube-scheduler may have chosen among equal nodes, or
        missed an event.
        """
        spec = scheduler.group.spec
        is_daemon = outcome.workload.split("/")[1] == "DaemonSet"  # NAMESPACE/KIND/NAME
        if is_daemon and not outcome.node:
            raise UnsupportedPodError("a daemon without a node")
        self._replace_spreading_service(build_default_service(spec))
        only_node = outcome.node if is_daemon else ""
        expected = {outcome.node}
        # Any of the best nodes is right.
        if not is_daemon:
            # None: no node is feasible.
            choice = scheduler.choose_nodes()
            tied_nodes = choice.tied_nodes if choice is not None else ()
            expected = {scheduler.cache.nodes[node].name for node in tied_nodes} or {_PENDING}
        body = build_pod_manifest(spec, next(self._names), only_node=only_node)
        # The node of each attempt, "" for none.
        answers = [self._decide(body)]
        while answers[-1] not in expected and len(answers) < _REPETITIONS:
            self._delete_pod(spec.namespace, body["metadata"]["name"])
            if len(answers) == 1:
                # The scheduler may have missed an event.
                time.sleep(_SETTLE_SECONDS)
            body["metadata"]["name"] = next(self._names)
            answers.append(self._decide(body))
        if answers[-1]:
            self._pods.setdefault((spec, answers[-1]), []).append(body["metadata"]["name"])
        else:
            self._delete_pod(spec.namespace, body["metadata"]["name"])
        if answers[-1] not in expected and len(self.differences) < _MAX_DIFFERENCES:
            predicted = outcome.node if outcome.node in expected else min(expected)
            self.differences.append(
                DecisionDifference(address, outcome.name, predicted, answers[-1])
            )
            # Without the answer before the pause.
            self.cases.append(self._build_case(body, answers[1:]))

    def _decide(self, body: Body) -> str:
        """Create a pod; return the node of the decision, "" for none.

        Raises ProgramProblem, CheckTimeExceeded.
        """
        self._check_time_limit()
        self._create_pod(body)
        path = f"/api/v1/namespaces/{body['metadata']['namespace']}/pods/{body['metadata']['name']}"
        answers: list[str] = []

        def is_decided() -> bool:
            pod = self._running.call("GET", path)
            node = pod.get("spec", {}).get("nodeName", "")
            conditions = pod.get("status", {}).get("conditions", ())
            reasons = [(condition.get("type"), condition.get("reason")) for condition in conditions]
            if node or ("PodScheduled", "Unschedulable") in reasons:
                answers.append(node)  # "": unschedulable
            return bool(answers)

        self._running.wait_for(PROGRAM, is_decided, _DECISION_SECONDS)
        return answers[0]

    def _build_case(self, pod: Body, answers: list[str]) -> Body:
        """Build the case of `nexusform conformance`.

        The last of `answers` (node, "" for none) is the decision.
        """
        pods = [
            build_pod_manifest(spec, name, node)
            for (spec, node), names in self._pods.items()
            for name in names
        ]
        own_name = pod["metadata"]["name"]
        # A finished pod marks the snapshot as one with pods, even if none is running.
        finished = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "finished", "namespace": "default"},
        }
        finished |= {
            "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Succeeded"},
        }
        objects: list[Any] = [
            *self._nodes,
            *(item for item in pods if item["metadata"]["name"] != own_name),
            finished,
        ]
        return {
            "system": PROGRAM,
            "version": self._version,
            "snapshot": {"objects": objects},
            "request": {"objects": [*filter(None, (self._service,)), pod]},
            "decision": {"node": answers[-1] or None},
            "equivalent": [{"node": name or None} for name in sorted({*answers} - {answers[-1]})],
        }
