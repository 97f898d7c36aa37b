"""`plan -check-with=kube-scheduler=DIR`.

The predicted decisions on pods are repeated by a running kube-scheduler.

Each decision is repeated in its predicted situation: nodes, pods, volumes and classes are created
in a real API server as the dump and the manifests have them (`original_objects.py`). Only what has
no original is created as nexusform reads it. If the program chooses another of equally good nodes,
the pod is moved to the predicted one before the next decision.
"""

import itertools
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import json

from nexusform.domains.fleet.planning.fleet_phases import find_planned_fleet
from nexusform.domains.pods.planning.pod_phase import CheckablePrediction
from nexusform.domains.pods.scheduling.cluster_records import Cluster, PodSpec
from nexusform.domains.pods.scheduling.pod_explanation import run_prediction
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.domains.pods.scheduling.pod_spec_scheduler import PodSpecScheduler
from nexusform.domains.program_checks.workflow.kubernetes_objects import (
    Body,
    UnsupportedPodError,
    build_default_service,
    build_node,
    build_pod_manifest,
    check_pod_support,
)
from nexusform.domains.program_checks.workflow.loopback_programs import (
    DISABLED_ADMISSION,
    LoopbackPrograms,
    ProgramProblem,
    RejectedRequestError,
    open_programs,
    read_version,
)
from nexusform.domains.program_checks.workflow.original_objects import (
    PATHS,
    ChangedDumpError,
    OriginalObjects,
    add_template_claims,
    build_original_pod,
    collect_original_objects,
    find_original_pod,
    is_sent_whole,
    pin_to_node,
)
from nexusform.domains.program_checks.workflow.volume_controller import (
    VolumeController,
    list_claim_names,
)
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan_checks import DecisionDifference, ProgramCheck
from nexusform.workflow.program_checks import ProgramCheckOutcome, ProgramCheckProblem

PROGRAM: Final = "kube-scheduler"
_DECISION_SECONDS: Final = 20.0
_MINOR_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+(?![0-9])")
# Priorities are sent as numbers; tokens, taints of new nodes and protected claims need controllers.
CHECK_ADMISSION: Final = (
    "ServiceAccount,TaintNodesByCondition,Priority,StorageObjectInUseProtection"
)
# Until the scheduler has seen new volumes or Services.
_SETTLE_SECONDS: Final = 1.0
# The label of a node, and a resource that no node has, of a pod that no node ever gets. Objects of
# the cluster do not reach its namespace.
_MARKER: Final = "scheduler-check/marker"
_MARKER_NAMESPACE: Final = "nexusform-marker"
_UNREAD_NODES: Final = f"{PROGRAM} has not read the nodes of the cluster"
_MAX_DIFFERENCES: Final = 100
_CONTROLLERS: Final = ("ReplicaSet", "ReplicationController", "StatefulSet")
# Of a different decision. After some, the scheduler gets more time to see volumes and Services.
_REPETITIONS: Final = 12
_LONG_PAUSES: Final = (1, 2, 4, 8)
_PENDING: Final = ""

PodKey = tuple[str, int]


class CheckTimeExceeded(Exception):
    """End of the time for the check."""


class IncompleteObjectsError(UnsupportedPodError):
    """Pod with objects that the API server does not take as they are."""


def check_with_scheduler(
    result: PlanResult, locations: Mapping[str, str], seconds: float
) -> ProgramCheckOutcome:
    """Compare the nodes planned for pods with the decisions of kube-scheduler.

    `locations` has the directory of its programs. Raises ProgramCheckProblem.
    """
    programs = locations[PROGRAM]
    fleet = find_planned_fleet(result)
    predictions = list(fleet.pods.list_checkable_predictions()) if fleet is not None else []
    has_timed_out = False
    # A pod without a trigger has no decision in this plan.
    total = sum(
        bool(outcome.trigger)
        for prediction in predictions
        for _, outcome in prediction.pods.values()
    )
    try:
        version = read_version(Path(programs, PROGRAM), "--version")
        _compare_versions(PROGRAM, version, predictions)
        with open_programs(programs) as running:
            start_scheduler(running, disabled_admission=CHECK_ADMISSION)
            api_version = str(running.call("GET", "/version").get("gitVersion"))
            _compare_versions("kube-apiserver", api_version.removeprefix("v"), predictions)
            check = KubeSchedulerCheck(running, version, time.monotonic() + seconds)
            for prediction in predictions:
                check.check_prediction(prediction)
    except CheckTimeExceeded:
        # By check_prediction: its results so far count.
        has_timed_out = True
    except (ProgramProblem, ChangedDumpError) as problem:
        raise ProgramCheckProblem(str(problem)) from None
    summary = ProgramCheck(
        PROGRAM, version, len(check.checked), total, "pod", tuple(check.differences)
    )
    return ProgramCheckOutcome(summary, tuple(check.cases), has_timed_out, check.incomplete_pods)


def _compare_versions(
    program: str, version: str, predictions: Sequence[CheckablePrediction]
) -> None:
    """Compare the minor version of a program with those of the clusters.

    Raises ProgramProblem if they differ, or one is unknown: the program proves nothing then.
    """
    minor_version = _MINOR_VERSION.match(version)
    for prediction in predictions:
        cluster = prediction.inputs.cluster
        cluster_version = ".".join(map(str, cluster.version))
        if not cluster_version:
            raise ProgramProblem(
                f'The Kubernetes version of the cluster "{cluster.name}" is unknown. Set '
                "kubernetes_version in its data block."
            )
        if minor_version is None or minor_version[0] != cluster_version:
            raise ProgramProblem(
                f'{program} is {version}, but the cluster "{cluster.name}" runs {cluster_version}. '
                f"Use a {program} {cluster_version}."
            )


def start_scheduler(
    running: LoopbackPrograms, *flags: str, disabled_admission: str = DISABLED_ADMISSION
) -> None:
    """Start kube-scheduler with an API server without these admission plug-ins.

    Raises ProgramProblem.
    """
    running.start_api_server(disabled_admission=disabled_admission)
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
        # Number of the prediction, and pod.
        self.checked: set[tuple[int, PodKey]] = set()
        self.differences: list[DecisionDifference] = []
        # One per difference, to repeat it.
        self.cases: list[Body] = []
        # Why the objects of a pod were not sent whole, by address of its object and its name.
        self.incomplete_pods: dict[tuple[str, str], str] = {}
        self._running = running
        self._version = version
        self._ends_at = ends_at
        self._names = (f"p{number}" for number in itertools.count())
        self._nodes: list[Body] = []
        # Names of running pods by spec and node.
        self._pods: dict[tuple[PodSpec, str], list[str]] = {}
        # As sent, by name of the pod.
        self._bodies: dict[str, Body] = {}
        self._originals = OriginalObjects()
        # Originals of running pods by spec and node, and one of each spec.
        self._pods_on_nodes: dict[tuple[PodSpec, str], list[Body]] = {}
        self._pods_by_spec: dict[PodSpec, Body] = {}
        # Why an object of the cluster could not be sent, "" if all were.
        self._obstacle = ""
        self._others: list[Body] = []
        self._volumes = VolumeController(running)
        # Whether claims of earlier pods have other volumes than in the prediction.
        self._has_other_volumes = False
        self._namespaces: set[str] = set()
        # The current Service, for the default spreading of the last pod.
        self._service: Body | None = None
        # Of the prediction being checked, from 1.
        self.prediction_number = 0

    def check_prediction(self, prediction: CheckablePrediction) -> None:
        """Run one prediction again, and compare its decisions.

        Raises ProgramProblem, CheckTimeExceeded, ChangedDumpError.
        """
        self.prediction_number += 1
        inputs = prediction.inputs
        pods = prediction.pods
        # Their nominations are not re-created.
        if inputs.cluster.nominated_pods:
            return
        self._originals = collect_original_objects(prediction)
        self._collect_original_pods(prediction)
        self._replace_cluster(inputs.cluster)

        def compare_decision_with_scheduler(
            workload: str, number: int, scheduler: PodSpecScheduler
        ) -> None:
            """Compare the next decision of the prediction.

            On the pod `number` of a workload, if it is supported.
            """
            address, outcome = pods.get((workload, number), ("", None))
            if outcome is None or not outcome.trigger or outcome.victims:
                # No decision of this plan, or one with evictions: beyond the check.
                return
            try:
                check_pod_support(scheduler.group.spec)
                self._reject_obstacle()
                self._sync_running_pods_with_prediction(scheduler)
                self._compare_decision(address, outcome, scheduler)
            except IncompleteObjectsError as problem:
                self.incomplete_pods[address, outcome.name] = str(problem)
                return
            except UnsupportedPodError:
                # It does not count as checked.
                return
            self.checked.add((self.prediction_number, (workload, number)))

        run_prediction(
            inputs.cluster,
            inputs.existing_pods,
            inputs.workloads,
            compare_decision_with_scheduler,
            seed=inputs.seed,
            lost_pods=inputs.lost_pods,
        )

    def _reject_obstacle(self) -> None:
        """Raise IncompleteObjectsError if an object of the cluster could not be sent."""
        if self._obstacle:
            raise IncompleteObjectsError(self._obstacle)

    def _replace_cluster(self, cluster: Cluster) -> None:
        """Create the missing namespaces of a cluster, and replace the nodes by its nodes.

        The replaced nodes are those of the previous cluster.
        """
        for name, labels in cluster.namespaces.items():
            self._ensure_namespace(name, dict(labels))
        self.close_cluster()
        self._obstacle = ""
        self._has_other_volumes = False
        kubelet_version = f"v{self._version}"
        # Nodes with each image.
        image_counts = Counter(name for node in cluster.nodes for name in node.images or ())
        self._nodes = [
            self._originals.nodes.get(node.name)
            or build_node(node, kubelet_version, image_counts, len(cluster.nodes))
            for node in cluster.nodes
        ]
        try:
            for node in self._nodes:
                self._check_time_limit()
                self._create_node(node)
            for body in self._originals.others:
                self._check_time_limit()
                self._create_object(body)
        except (RejectedRequestError, IncompleteObjectsError) as problem:
            self._obstacle = str(problem)
            return
        if self._originals.others:
            time.sleep(_SETTLE_SECONDS)
        self._wait_until_nodes_are_read()

    def _wait_until_nodes_are_read(self) -> None:
        """Wait until the scheduler knows the nodes and pods of the API server.

        Its watches keep the order: it counts a new label of the last node after every earlier
        change of nodes, and a new pod after every earlier pod. On a busy host this takes seconds.
        Without an answer in time, no pod of the cluster is checked.
        """
        if not self._nodes:
            return
        self._ensure_namespace(_MARKER_NAMESPACE, labels={})
        value = next(self._names)
        labels = {"metadata": {"labels": {_MARKER: value}}}
        node_path = f"/api/v1/nodes/{self._nodes[-1]['metadata']['name']}"
        self._running.call("PATCH", node_path, labels, "merge-patch")
        amounts = {_MARKER: "1"}
        container = {"name": "c", "image": "i", "resources": {"limits": amounts}}
        spec = {
            "containers": [container],
            "nodeSelector": {_MARKER: value},
            "tolerations": [{"operator": "Exists"}],
            "preemptionPolicy": "Never",
        }
        metadata = {"name": value, "namespace": _MARKER_NAMESPACE}
        folder = f"/api/v1/namespaces/{_MARKER_NAMESPACE}/pods"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self._running.call("POST", folder, pod)
        end = time.monotonic() + _DECISION_SECONDS

        def read_progress() -> str:
            """Return whether the nodes are read or late, "" for neither."""
            marker = self._running.call("GET", f"{folder}/{value}")
            conditions = marker.get("status", {}).get("conditions", ())
            messages = [str(condition.get("message")) for condition in conditions]
            if any(f"Insufficient {_MARKER}" in message for message in messages):
                return "read"
            return "late" if time.monotonic() > end else ""

        progress = self._running.wait_for(PROGRAM, read_progress, 2 * _DECISION_SECONDS)
        self._delete_pod(_MARKER_NAMESPACE, value)
        self._obstacle = "" if progress == "read" else _UNREAD_NODES

    def close_cluster(self) -> None:
        """Delete the pods, objects and nodes of the current cluster."""
        for (spec, _), names in self._pods.items():
            for name in names:
                self._delete_pod(spec.namespace, name)
        self._pods.clear()
        self._replace_spreading_service(None)
        for body in reversed(self._others):
            self._running.call("DELETE", _get_path(body, with_name=True))
        self._others = []
        self._volumes.delete_provisioned()
        for node in self._nodes:
            self._running.call("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")
        self._nodes = []

    def _create_node(self, node: Body) -> None:
        """Create a node, then its status, which its creation ignores."""
        without_status = {key: value for key, value in node.items() if key != "status"}
        self._post("/api/v1/nodes", without_status)
        path = f"/api/v1/nodes/{node['metadata']['name']}/status"
        status = {"status": node["status"]}
        answer = self._running.call("PATCH", path, status, "strategic-merge-patch")
        if not is_sent_whole(status, answer):
            raise IncompleteObjectsError(f"the status of node {node['metadata']['name']}")

    def _create_object(self, body: Body) -> None:
        """Create an object of the cluster that kube-scheduler or admission reads."""
        namespace = body["metadata"].get("namespace", "")
        if "{}" in PATHS[body["kind"]]:
            self._ensure_namespace(namespace or "default", labels={})
        self._others.append(body)
        if body["kind"] in ("PersistentVolume", "PersistentVolumeClaim"):
            self._volumes.create(body)
            return
        self._post(_get_path(body), {key: body[key] for key in body if key != "status"})

    def _post(self, path: str, body: Body) -> None:
        """Create an object as it is.

        Raises IncompleteObjectsError if the server drops a part, RejectedRequestError.
        """
        answer = self._running.call("POST", f"{path}?fieldValidation=Strict", body)
        if not is_sent_whole(body, answer):
            raise IncompleteObjectsError(f"{body['kind']} {body['metadata']['name']}")

    def _collect_original_pods(self, prediction: CheckablePrediction) -> None:
        """Collect the originals of the running pods, and a template of each spec."""
        self._pods_on_nodes.clear()
        self._pods_by_spec.clear()
        for pod in prediction.inputs.existing_pods:
            original = find_original_pod(self._originals, pod)
            if original is not None:
                self._pods_on_nodes.setdefault((pod.spec, pod.node), []).append(original)
                self._pods_by_spec[pod.spec] = original
            elif pod.workload in self._originals.templates:
                self._pods_by_spec.setdefault(pod.spec, self._originals.templates[pod.workload])
        for workload in prediction.inputs.workloads:
            template = self._originals.templates.get(workload.key)
            if template is None or workload.is_rewritten:
                continue
            self._pods_by_spec[workload.pod] = template

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
        # Number of pods by spec and node.
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
                originals = self._pods_on_nodes.get((spec, node), [])
                # Each one stands for one pod; a pod of the plan is like its template.
                original = (
                    originals[len(names)]
                    if len(names) < len(originals)
                    else self._pods_by_spec.get(spec)
                )
                body = (
                    build_original_pod(original, spec, name, node)
                    if original is not None
                    else build_pod_manifest(spec, name, node)
                )
                self._create_pod(body)
                names.append(name)
        self._pods = {key: names for key, names in self._pods.items() if names}

    def _replace_spreading_service(self, service: Body | None) -> None:
        """Replace the Service used for default spreading by the one of the next pod.

        None means that the next pod has no Service.
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
        """Create a pod as it is.

        Raises IncompleteObjectsError, and then there is no such pod.
        """
        namespace = body["metadata"]["namespace"]
        self._ensure_namespace(namespace, labels={})
        try:
            self._post(f"/api/v1/namespaces/{namespace}/pods", body)
        except RejectedRequestError as problem:
            raise IncompleteObjectsError(str(problem)) from None
        except IncompleteObjectsError:
            # The server created it without a part of it, and it would take capacity from others.
            self._delete_pod(namespace, body["metadata"]["name"])
            raise
        self._bodies[body["metadata"]["name"]] = body

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
        body = self._build_new_pod(outcome, spec, only_node)
        # The node of each attempt, "" for none.
        answers = [self._decide(body)]
        while answers[-1] not in expected and len(answers) < _REPETITIONS:
            self._delete_pod(spec.namespace, body["metadata"]["name"])
            self._volumes.reset(body)
            if len(answers) in _LONG_PAUSES:
                # The scheduler may be late.
                self._wait_until_nodes_are_read()
                self._reject_obstacle()
                time.sleep(len(answers) * _SETTLE_SECONDS)
            elif list_claim_names(body):
                time.sleep(_SETTLE_SECONDS)
            body["metadata"]["name"] = next(self._names)
            answers.append(self._decide(body))
        if answers[-1]:
            self._pods.setdefault((spec, answers[-1]), []).append(body["metadata"]["name"])
        else:
            self._delete_pod(spec.namespace, body["metadata"]["name"])
        if list_claim_names(body) and answers[-1] != outcome.node:
            # Its volumes cannot be moved, so those of the prediction are unknown from here on.
            self._has_other_volumes = True
        if answers[-1] not in expected and len(self.differences) < _MAX_DIFFERENCES:
            predicted = outcome.node if outcome.node in expected else min(expected)
            self.differences.append(
                DecisionDifference(address, outcome.name, predicted, answers[-1])
            )
            # Without the answer before the pause.
            self.cases.append(self._build_case(body, answers[1:]))

    def _build_new_pod(self, outcome: PodOutcome, spec: PodSpec, only_node: str) -> Body:
        """Build the pod of a decision from its manifest, and create its claims.

        `only_node` is the node of a pod of a DaemonSet. Raises IncompleteObjectsError.
        """
        original = self._pods_by_spec.get(spec)
        name = next(self._names)
        if original is None:
            if spec.claim_count:
                raise IncompleteObjectsError("the pod has claims, but no manifest")
            return build_pod_manifest(spec, name, only_node=only_node)
        body = build_original_pod(original, spec, name)
        if only_node:
            pin_to_node(body, only_node)
        templates = self._originals.claim_templates.get(outcome.workload, ())
        claims = add_template_claims(body, outcome.workload, outcome.number, templates)
        if any("ephemeral" in volume for volume in body["spec"].get("volumes") or ()):
            raise IncompleteObjectsError("a controller creates the claims of its volumes")
        if self._has_other_volumes and list_claim_names(body):
            raise IncompleteObjectsError("earlier pods have other volumes")
        for claim in claims:
            self._ensure_namespace(spec.namespace, labels={})
            if not self._running.call("GET", _get_path(claim, with_name=True)):
                self._others.append(claim)
                self._volumes.create(claim)
        if claims:
            time.sleep(_SETTLE_SECONDS)
        return body

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
            else:
                self._volumes.bind(body)
            return bool(answers)

        self._running.wait_for(PROGRAM, is_decided, _DECISION_SECONDS)
        return answers[0]

    def _build_case(self, pod: Body, answers: list[str]) -> Body:
        """Build the recorded case.

        The last of `answers` (node, "" for none) is the decision.
        """
        pods = [
            {**body, "spec": {**body["spec"], "nodeName": node}}
            for (_, node), names in self._pods.items()
            for body in map(self._bodies.__getitem__, names)
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
            # A Service stands for a controller: its pods have no owner here.
            *(item for item in self._others if item["kind"] not in _CONTROLLERS),
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


def _get_path(body: Body, *, with_name: bool = False) -> str:
    """Return the path of the kind of an object, or of the object itself."""
    folder = PATHS[body["kind"]].format(body["metadata"].get("namespace") or "default")
    return f"{folder}/{body['metadata']['name']}" if with_name else folder
