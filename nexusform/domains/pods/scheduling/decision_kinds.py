"""Kinds of objects and fields that decide where a pod runs, and comparisons with real programs.

The comparisons are a data file that tests/nightly writes: per kind and minor version, how many
predicted decisions were compared with kube-scheduler or Kubernetes' controllers. A pod is not
certain if a kind that decides on it was never compared with the version of its cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final

from msgspec import Struct

from nexusform.domains.pods.scheduling import pod_outcomes
from nexusform.domains.pods.scheduling.cluster_records import Cluster, PodSpec, Strategy, Workload
from nexusform.domains.pods.scheduling.feature_gates import Version
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.domains.pods.scheduling.rules.taints import NO_EXECUTE
from nexusform.domains.pods.scheduling.scheduler_versions import (
    DECLARED_FEATURES,
    IMAGE_VOLUMES,
    parse_version,
)

FILE: Final = "compared_decisions.txt"
_ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_PRIVILEGED: Final = "privileged"
_ORDERED_SET: Final = "pods of ordered StatefulSets"
# Fields of a pod without a kind of their own: every pod has them, other fields show their effect,
# they leave no decision, or a pod with them is never certain.
FIELDS_OF_EVERY_POD: Final = frozenset(
    (
        *("namespace", "labels", "requests", "scored_requests", "template", "quota_figures"),
        *("container_requests", "compares_balance", "scores_storage", "claim_count"),
        *("node_name", "is_terminating", "gates", "images", "single_node_claims"),
        "has_unknown_rules",
    )
)


class Decision(Struct, frozen=True):
    """Outcome of a pod, its cluster and its workload; None if the plan removes the workload."""

    outcome: PodOutcome
    cluster: Cluster
    workload: Workload | None

    @property
    def spec(self) -> PodSpec:
        """The pod that is decided on."""
        return self.outcome.spec


class DecisionKind(Struct, frozen=True):
    """Kind of object or field that decides on pods.

    `fields` are those of a pod spec with this kind. `since` is the first version that has it.
    `has_controller` means that a controller decides, not kube-scheduler alone.
    """

    name: str
    is_involved: Callable[[Decision], bool]
    fields: tuple[str, ...] = ()
    since: Version = ()
    has_controller: bool = False


class ComparisonCount(Struct):
    """Number of compared decisions on pods, and how many of them were certain."""

    compared: int = 0
    certain: int = 0


# By kind and minor version.
ComparisonCounts = Mapping[str, Mapping[Version, ComparisonCount]]


def _build_field_kind(name: str, field: str, since: Version = ()) -> DecisionKind:
    """Build the kind of pods with a value of a field."""
    default = getattr(PodSpec(), field)
    return DecisionKind(
        name, lambda decision: getattr(decision.spec, field) != default, (field,), since
    )


def _build_controller_kind(kind: str, name: str = "") -> DecisionKind:
    """Build the kind of pods of a controller."""
    return DecisionKind(
        name or f"pods of {kind}s",
        lambda decision: _get_controller(decision) == kind,
        has_controller=True,
    )


def _build_trigger_kind(name: str, trigger: str) -> DecisionKind:
    """Build the kind of pods that change for a reason."""
    return DecisionKind(
        name, lambda decision: decision.outcome.trigger == trigger, has_controller=True
    )


def _build_workload_kind(name: str, is_involved: Callable[[Workload], bool]) -> DecisionKind:
    """Build the kind of pods whose workload has a property."""
    return DecisionKind(
        name,
        lambda decision: decision.workload is not None and is_involved(decision.workload),
        has_controller=True,
    )


def _get_controller(decision: Decision) -> str:
    """Return the kind of the controller of a pod."""
    kind = decision.outcome.workload.split("/", 2)[1]
    if kind == "StatefulSet" and decision.workload is not None and decision.workload.is_ordered:
        return _ORDERED_SET
    return kind


def _has_image(decision: Decision) -> bool:
    """Return whether a node has an image of the pod."""
    images = decision.spec.images
    return any(node.images and any(map(node.images.get, images)) for node in decision.cluster.nodes)


def _is_scored_by_containers(decision: Decision) -> bool:
    """Return whether a pod has requests of its own, other than those of its containers."""
    spec = decision.spec
    return spec.container_scored_requests not in (None, spec.scored_requests)


def _has_unlimited_claims(decision: Decision) -> bool:
    """Return whether a pod has claims, but none that limits its nodes."""
    spec = decision.spec
    return bool(spec.claim_count) and not (spec.claims or spec.volumes or spec.bound_claims)


def _has_topology_policy(decision: Decision) -> bool:
    """Return whether a topology manager may reject the pod."""
    return bool(decision.spec.aligned_requests) and any(
        node.cells for node in decision.cluster.nodes
    )


def _has_quota(decision: Decision) -> bool:
    """Return whether a quota limits the namespace of the pod."""
    quotas = decision.cluster.quotas
    return any(quota.namespace == decision.spec.namespace for quota in quotas)


def _has_security_level(decision: Decision) -> bool:
    """Return whether the namespace of the pod enforces a level of Pod Security."""
    labels = decision.cluster.namespaces.get(decision.spec.namespace, {})
    return labels.get(_ENFORCE, _PRIVILEGED) != _PRIVILEGED


def _build_need_kind(name: str, *kinds: str, has_controller: bool = True) -> DecisionKind:
    """Build the kind of pods that name an object of these kinds."""

    def has_need(decision: Decision) -> bool:
        needs = decision.workload.needs if decision.workload is not None else ()
        return any(need.kind in kinds for need in needs)

    return DecisionKind(name, has_need, has_controller=has_controller)


def _is_preempting(decision: Decision) -> bool:
    """Return whether the pod evicts others, or is evicted."""
    return bool(decision.outcome.victims) or decision.outcome.trigger == pod_outcomes.PREEMPTED


KINDS: Final[tuple[DecisionKind, ...]] = (
    _build_field_kind("node selectors", "node_selector"),
    _build_field_kind("required node affinity", "node_terms"),
    _build_field_kind("preferred node affinity", "preferred_nodes"),
    # Others are for NoExecute, and each pod has two of these by default.
    DecisionKind(
        "tolerations of NoSchedule",
        lambda decision: any(item.effect != NO_EXECUTE for item in decision.spec.tolerations),
        ("tolerations",),
    ),
    _build_field_kind("required pod affinity", "affinity"),
    _build_field_kind("required pod anti-affinity", "anti_affinity"),
    _build_field_kind("preferred pod affinity", "preferred_affinity"),
    _build_field_kind("preferred pod anti-affinity", "preferred_anti_affinity"),
    DecisionKind(
        "namespace selectors of pod affinity",
        lambda decision: any(term.namespace_selector for term in decision.spec.affinity_terms),
    ),
    DecisionKind(
        "topology spread, DoNotSchedule",
        lambda decision: any(item.is_hard for item in decision.spec.spread),
        ("spread",),
    ),
    DecisionKind(
        "topology spread, ScheduleAnyway",
        lambda decision: any(not item.is_hard for item in decision.spec.spread),
    ),
    DecisionKind(
        "minDomains of topology spread",
        lambda decision: any(item.min_domains > 1 for item in decision.spec.spread),
    ),
    DecisionKind(
        "node policies of topology spread",
        lambda decision: any(
            item.honor_taints or not item.honor_affinity for item in decision.spec.spread
        ),
    ),
    DecisionKind(
        "default topology spread",
        lambda decision: decision.spec.default_spread is not None and not decision.spec.spread,
        ("default_spread",),
    ),
    _build_field_kind("host ports", "host_ports"),
    _build_field_kind("priorities", "priority"),
    _build_field_kind("preemptionPolicy Never", "can_preempt"),
    DecisionKind(
        "resources other than CPU and memory",
        lambda decision: bool(decision.spec.requests.other_resources),
    ),
    DecisionKind(
        "requests of a whole pod", _is_scored_by_containers, ("container_scored_requests",)
    ),
    DecisionKind(
        "claims for existing volumes",
        lambda decision: any(
            claim.waits_for_pod and claim.provisioning_terms == () for claim in decision.spec.claims
        ),
        ("claims",),
    ),
    DecisionKind(
        "claims for new volumes of CSI drivers",
        lambda decision: any(
            claim.waits_for_pod and claim.provisioning_terms != () for claim in decision.spec.claims
        ),
    ),
    DecisionKind(
        "immediate binding",
        lambda decision: any(not claim.waits_for_pod for claim in decision.spec.claims),
    ),
    DecisionKind(
        "ephemeral claims",
        lambda decision: any(claim.is_ephemeral for claim in decision.spec.claims),
    ),
    DecisionKind("claims that limit no node", _has_unlimited_claims),
    DecisionKind(
        "bound claims",
        lambda decision: bool(decision.spec.bound_claims or decision.spec.volumes),
        ("bound_claims", "volumes"),
    ),
    _build_field_kind("ReadWriteOncePod claims", "exclusive_claims"),
    _build_field_kind("missing or unusable claims", "missing_objects"),
    DecisionKind(
        "VolumeAttributesClasses",
        lambda decision: any(claim.attributes_class for claim in decision.spec.claims),
    ),
    _build_field_kind("in-tree disks", "disks"),
    _build_field_kind("devices", "device_claims"),
    _build_field_kind("declared features of nodes", "required_features", DECLARED_FEATURES),
    _build_field_kind("image volumes", "image_volumes", IMAGE_VOLUMES),
    DecisionKind("images on nodes", _has_image),
    DecisionKind("topology manager of kubelet", _has_topology_policy, ("aligned_requests",)),
    DecisionKind("nominated pods", lambda decision: bool(decision.cluster.nominated_pods)),
    DecisionKind("Pod Security levels", _has_security_level, has_controller=True),
    _build_need_kind("ServiceAccounts", "ServiceAccount"),
    _build_need_kind("PriorityClasses", "PriorityClass"),
    _build_need_kind("RuntimeClasses", "RuntimeClass"),
    _build_need_kind("ConfigMaps and Secrets", "ConfigMap", "Secret", has_controller=False),
    DecisionKind("preemption", _is_preempting, has_controller=True),
    DecisionKind("quotas", _has_quota, has_controller=True),
    _build_controller_kind("Pod", "bare pods"),
    *(
        _build_controller_kind(kind)
        for kind in ("Deployment", "ReplicaSet", "ReplicationController", "DaemonSet", "Job")
    ),
    _build_controller_kind("CronJob"),
    _build_controller_kind("StatefulSet", "pods of parallel StatefulSets"),
    _build_controller_kind(_ORDERED_SET, _ORDERED_SET),
    _build_trigger_kind("scale-out", pod_outcomes.SCALE_OUT),
    _build_trigger_kind("scale-in", pod_outcomes.SCALE_IN),
    _build_trigger_kind("new templates", pod_outcomes.TEMPLATE_CHANGED),
    # The kube-scheduler places the new pod.
    DecisionKind(
        "removed nodes", lambda decision: decision.outcome.trigger == pod_outcomes.NODE_REMOVED
    ),
    _build_trigger_kind("NoExecute taints", pod_outcomes.NO_EXECUTE),
    _build_workload_kind(
        "autoscaled workloads", lambda workload: workload.configured_replicas is not None
    ),
    _build_workload_kind("paused Deployments", lambda workload: workload.is_paused),
    _build_workload_kind("partitions", lambda workload: bool(workload.partition)),
    _build_workload_kind(
        "strategy Recreate", lambda workload: workload.strategy is Strategy.RECREATE
    ),
    _build_workload_kind(
        "strategy OnDelete", lambda workload: workload.strategy is Strategy.ON_DELETE
    ),
)


def list_decision_kinds(decision: Decision) -> Iterator[DecisionKind]:
    """Yield the kinds that decide on a pod, those that its version does not have left out."""
    version = decision.cluster.version
    for kind in KINDS:
        is_there = not version or version >= kind.since
        if is_there and kind.is_involved(decision):
            yield kind


def read_counts(text: str) -> dict[str, dict[Version, ComparisonCount]]:
    """Read the counts of the data file: a line of versions, then a line per kind."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    versions = [parse_version(word) for word in lines[0].split()[1:]] if lines else []
    counts: dict[str, dict[Version, ComparisonCount]] = {}
    for line in lines[1:]:
        name, _, values = line.partition(": ")
        counts[name] = {
            version: ComparisonCount(*map(int, value.split("/")))
            for version, value in zip(versions, values.split(), strict=True)
        }
    return counts


@cache
def load_comparisons() -> ComparisonCounts:
    """Read assets/compared_decisions.txt."""
    folder = resources.files("nexusform.domains.pods.scheduling").joinpath("assets")
    return read_counts(folder.joinpath(FILE).read_text(encoding="utf-8"))


class UncomparedKind(Struct, frozen=True):
    """Kind that was never compared with a version."""

    kind: DecisionKind
    version: Version

    @property
    def clause(self) -> str:
        """Clause for the reason of an uncertain pod."""
        version = ".".join(map(str, self.version))
        return f"{self.kind.name}, never compared on Kubernetes {version}"


def list_uncompared_kinds(version: Version, comparisons: ComparisonCounts) -> list[UncomparedKind]:
    """Return the kinds without comparisons on the version of a cluster.

    An older version counts as the first one of the file. An unknown one must have comparisons of
    every version that has the kind. On a newer one, no pod is certain anyway.
    """
    known_versions = sorted({item for counts in comparisons.values() for item in counts})
    used_versions = known_versions
    if version and known_versions:
        used_versions = [max(version, known_versions[0])]
    return [
        UncomparedKind(kind, used_version)
        for kind in KINDS
        for used_version in used_versions or [version]
        if used_version >= kind.since
        and not comparisons.get(kind.name, {}).get(used_version, ComparisonCount()).compared
    ]


def find_uncompared_kind(decision: Decision, kinds: Iterable[UncomparedKind]) -> str:
    """Return a clause about the first kind without comparisons behind a pod, "" for none."""
    return next((item.clause for item in kinds if item.kind.is_involved(decision)), "")
