"""Devices, nodes, pod specs, workloads and existing pods: the immutable records of this package.

CPU is in milli-CPUs, memory in bytes, other resources in their own units. Sources:
kube-scheduler (default profile; see profile.py), and for devices its plugin
DynamicResources (kubernetes staging/src/k8s.io/api/resource/v1/types.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.kubernetes.matching import (
    LabelSelector,
    NodeSelectorTerm,
    Requirement,
    Taint,
    Toleration,
)
from nexusform.scheduling.kubelet import TopologyPolicy

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
DEFAULT_PODS: Final = 110
DEFAULT_SEED: Final = 8
# In place of a revision label: that of the pods created last.
NEWEST_REVISION: Final = "newest"

Pairs = tuple[tuple[str, str], ...]
# Workload (key) and number of a pod.
PodKey = tuple[str, int]
# Workload, number and template of a pod.
PodIdentity = tuple[str, int, str]
# Requests of one container from the same NUMA cells: exclusive CPUs, hugepages, devices.
AlignedRequests = tuple[tuple[str, int], ...]

# An attribute: the name of its type ("string", "int", "bool", "version") and its value.
Attribute = tuple[str, str | int | bool]
# Driver, pool and name of a device.
DeviceId = tuple[str, str, str]
ALL_DEVICES: Final = 0


class AllocatedDevice(Struct, frozen=True):
    """Device of an allocated claim.

    With admin access, others may still get the device.
    """

    device: DeviceId
    has_admin_access: bool = False


# Claims of a pod (`namespace/name`), each with its devices.
ClaimedUses = tuple[tuple[str, tuple[AllocatedDevice, ...]], ...]


class Device(Struct, frozen=True):
    """Device of a slice.

    Capacities are in thousandths. `counters` are consumed amounts by counter set and counter.
    `terms` select the nodes of the device in a slice with a selection per device, None for all.
    """

    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    terms: tuple[NodeSelectorTerm, ...] | None = None


class ResourceSlice(Struct, frozen=True):
    """ResourceSlice.

    `terms` select the nodes with its devices (None: all nodes). `has_own_nodes` means that each
    device has its own.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    devices: tuple[Device, ...]
    terms: tuple[NodeSelectorTerm, ...] | None = None
    has_own_nodes: bool = False
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def is_gated(self) -> bool:
        """Whether it uses features off by default before Kubernetes 1.36.

        These are taints, counters and nodes per device.
        """
        has_fields = any(device.taints or device.counters for device in self.devices)
        return has_fields or self.has_own_nodes or bool(self.counters)

    def get_device_id(self, device: Device) -> DeviceId:
        """Return the id of a device of the slice."""
        return self.driver, self.pool, device.name

    def get_own_counters(
        self, counters: Mapping[tuple[str, str], int]
    ) -> dict[tuple[str, str, str, str], int]:
        """Return amounts of the slice or of a device, by driver, pool, counter set and counter."""
        return {(self.driver, self.pool, *key): amount for key, amount in counters.items()}


class DeviceSubRequest(Struct, frozen=True):
    """One way to satisfy a request.

    It requests a number of devices (ALL_DEVICES: all) that all of the CEL expressions select.
    """

    name: str
    selectors: tuple[str, ...]
    count: int = 1
    has_admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()


class DeviceRequest(Struct, frozen=True):
    """Request of a claim: the first satisfiable alternative counts.

    `is_prioritized` is True for firstAvailable.
    """

    name: str
    alternatives: tuple[DeviceSubRequest, ...]
    is_prioritized: bool = False


class DeviceMatchConstraint(Struct, frozen=True):
    """Attribute with one value in all devices of the requests (all requests if empty)."""

    attribute: str
    requests: tuple[str, ...] = ()


class DeviceClaim(Struct, frozen=True):
    """ResourceClaim of a pod.

    `name` is `namespace/name`. With `is_own` it is the name in the pod, as each pod gets its own
    claim from a template.

    `error` is the reason why no pod with it gets a node.
    """

    name: str
    is_own: bool = False
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceMatchConstraint, ...] = ()
    error: str = ""


class DeviceInventory(Struct, frozen=True):
    """Slices of a cluster, and its allocated claims with their devices."""

    slices: tuple[ResourceSlice, ...] = ()
    allocations: Mapping[str, tuple[AllocatedDevice, ...]] = field(default_factory=dict)


class PodState(StrEnum):
    """Lifecycle state of a pod.

    Only a scheduled pod has a node and uses its resources. Pending: no feasible node.
    SchedulingGated: not considered by the scheduler yet. Failed: rejected by kubelet. Removed: no
    pod any more.
    """

    SCHEDULED = "Scheduled"
    PENDING = "Pending"
    GATED = "SchedulingGated"
    FAILED = "Failed"
    REMOVED = "Removed"


class Node(Struct, frozen=True):
    """Worker: its labels and taints, its allocatable resources, and its hardware.

    `other_resources` are further resources (`nvidia.com/gpu`, `ephemeral-storage`); machine, rack
    and zone are "" if unknown. `cells` are the capacities of its NUMA cells, if its topology
    manager (`policy`) can reject pods. `images` are those present, each with its value (bytes times
    the share of nodes with the image), None if unknown. `declared_features` are those of its
    kubelet, None if unknown.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    cpu: int = 0
    memory: int = 0
    pods: int = DEFAULT_PODS
    unschedulable: bool = False
    machine: str = ""
    rack: str = ""
    zone: str = ""
    other_resources: Mapping[str, int] = field(default_factory=dict)
    policy: TopologyPolicy = TopologyPolicy.NONE
    cells: tuple[Mapping[str, int], ...] = ()
    images: Mapping[str, int] | None = None
    declared_features: tuple[str, ...] | None = None


class Requests(Struct, frozen=True):
    """Requests of a pod: max(sum of containers, init containers) + overhead."""

    cpu: int = 0
    memory: int = 0
    other_resources: tuple[tuple[str, int], ...] = ()


class VolumeNeed(Struct, frozen=True):
    """Nodes from which a volume is reachable (any of the terms, None = all).

    `is_bound` means that the volume exists, or (without terms) must exist before its pod is
    scheduled; else it is found or provisioned there. `zones` are the zone requirements for nodes
    with a zone or region label. `error` is the reason why no node is checked with its claim.
    `reason` is the scheduler's reason for other nodes, "" if the volume is missing there. `points`
    are the score of nodes by the storage left on them, by name; nodes without an entry have 0.
    """

    terms: tuple[NodeSelectorTerm, ...] | None
    is_bound: bool
    zones: tuple[Requirement, ...] = ()
    error: str = ""
    reason: str = ""
    points: tuple[tuple[str, int], ...] = ()


class FreeStorage(Struct, frozen=True):
    """CSIStorageCapacity with enough storage for a claim: its nodes (None = all), its bytes.

    The bytes are None if it only has the size of the largest volume.
    """

    term: NodeSelectorTerm | None
    size: int | None


class InlineVolume(Struct, frozen=True):
    """Disk named by a pod without a claim.

    Pods with disks of one name share a node only if all read.
    """

    name: str
    is_read_only: bool = False


class Claim(Struct, frozen=True):
    """PersistentVolumeClaim; its volume is found or provisioned once the claim or its pod exists.

    `name` is `namespace/name`, with {} for the pod's number if each pod has its own. `size` is in
    bytes, `is_block` its volumeMode. `waits_for_pod` is True for WaitForFirstConsumer, else it is
    bound at once. `provisioning_terms` are the nodes for provisioned volumes (any of the terms,
    None = all); `storage_terms` are those of them with enough free storage (None = unlimited),
    `free_storage` their amounts. `driver` is the CSI driver of its class, `attributes_class` its
    VolumeAttributesClass. `is_ephemeral` means that a controller creates it with its pod.
    """

    name: str
    size: int = 0
    storage_class: str = ""
    modes: tuple[str, ...] = ()
    is_block: bool = False
    selector: LabelSelector | None = None
    waits_for_pod: bool = False
    provisioning_terms: tuple[NodeSelectorTerm, ...] | None = ()
    storage_terms: tuple[NodeSelectorTerm, ...] | None = None
    driver: str = ""
    free_storage: tuple[FreeStorage, ...] = ()
    attributes_class: str = ""
    is_ephemeral: bool = False


class Volume(Struct, frozen=True):
    """PersistentVolume: the nodes that reach it, its zones, and its reserved claim.

    A node reaches it by any of the terms; without terms (None), all nodes reach it. The claim is
    `namespace/name`, "" if it is unreserved.

    `driver` is its CSI driver, `attributes_class` its VolumeAttributesClass.
    """

    name: str
    size: int = 0
    storage_class: str = ""
    modes: tuple[str, ...] = ()
    is_block: bool = False
    labels: Pairs = ()
    terms: tuple[NodeSelectorTerm, ...] | None = None
    claim: str = ""
    zones: tuple[Requirement, ...] = ()
    driver: str = ""
    attributes_class: str = ""


class PodTerm(Struct, frozen=True):
    """One term of pod affinity or anti-affinity, with matchLabelKeys merged into the selector.

    A selector of None matches nothing; an empty one everything. `namespaces` is never empty without
    a `namespace_selector`. `weight` is 0 in required terms.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    weight: int = 0


class Container(Struct, frozen=True):
    """Container of a pod: its image as listed on nodes, and its requests, CPU in milli."""

    name: str
    image: str = ""
    requests: tuple[tuple[str, int], ...] = ()


class PodCondition(Struct, frozen=True):
    """Observed condition of a pod.

    Times are in seconds since 1970, 0 if unknown. `name` and `uid` are those of
    Kubernetes. `stuck_reason` is why it is not ready and does not start
    ("ImagePullBackOff"), since `stuck_since`.
    """

    name: str = ""
    uid: str = ""
    phase: str = "Running"
    is_ready: bool = True
    ready_time: int = 0
    restarts: int = 0
    deletion_cost: int = 0
    creation_time: int = 0
    stuck_reason: str = ""
    stuck_since: str = ""


class ObservedPodTemplate(Struct, frozen=True):
    """Template of a pod from kubectl: the revision label of its workload and its containers."""

    revision: str = ""
    containers: tuple[Container, ...] = ()


class SpreadConstraint(Struct, frozen=True):
    """One topologySpreadConstraint, with matchLabelKeys merged into the selector.

    `is_hard` is DoNotSchedule. `honor_affinity` and `honor_taints` are the two node inclusion
    policies. `counts_own_node` means that the pod's affinity names its node (DaemonSets) and is
    honored, so only this node counts.
    """

    topology_key: str
    max_skew: int
    is_hard: bool
    selector: LabelSelector | None
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False
    counts_own_node: bool = False


class HostPort(Struct, frozen=True):
    """Host port used by a pod."""

    port: int
    protocol: str = "TCP"
    # Kubernetes' word for every address; nothing listens here.
    address: str = "0.0.0.0"  # noqa: S104


class PodQuotaFields(Struct, frozen=True):
    """Pod figures read by quotas besides its requests.

    Its limits, the names of requests.cpu, requests.memory, limits.cpu and limits.memory unspecified
    in some container, whether it has a deadline, and its PriorityClass.
    """

    limits: tuple[tuple[str, int], ...] = ()
    unspecified: tuple[str, ...] = ()
    has_deadline: bool = False
    priority_class: str = ""


class PodSpec(Struct, frozen=True):
    """Pod as read by the scheduler; equal for all pods of one workload's template.

    `scored_requests` have 100m and 200 MiB for containers without requests. `node_terms` None means
    no required node affinity. `default_spread` selects the pods counted by the cluster's default
    spreading (None = none); it is used only without `spread`. `template` is the hash of the pod
    template. `aligned_requests` are, per container, requests from the same NUMA cells. A pod that
    `is_terminating` keeps its resources and is not counted by spread constraints. `gates` are
    scheduling gates. `exclusive_claims` can be used by one pod only (`namespace/name`).
    `can_preempt` means that its preemptionPolicy is not Never. `disks` are on one node once.
    `volumes` are bound independently of claims; `claims` are bound in volume_binder.py.
    `bound_claims` have a volume, each with its CSI driver. `claim_count` counts all its claims.
    `images` are those of its containers, one each. `missing_objects` are reasons why no node is
    checked. `container_scored_requests` are the scored requests of the containers alone, if the pod
    has requests of its own. `has_unknown_rules` means that another scheduler, uncounted devices or
    doubtful admission also decide. `compares_balance` means that BalancedAllocation scores a node
    before the pod. `device_claims` are its ResourceClaims. `container_requests` are CPU and memory
    of its containers, without others. `single_node_claims` have volumes that can be attached to one
    node at a time (`namespace/name`). `required_features` are those that its node must declare.
    `scores_storage` means that the storage left on a node counts for its score. `image_volumes` are
    the images of its volumes.
    """

    namespace: str = "default"
    labels: Pairs = ()
    requests: Requests = Requests()
    scored_requests: Requests = Requests()
    node_name: str = ""
    node_selector: Pairs = ()
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    preferred_nodes: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_affinity: tuple[PodTerm, ...] = ()
    preferred_anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    default_spread: LabelSelector | None = None
    host_ports: tuple[HostPort, ...] = ()
    priority: int = 0
    template: str = ""
    aligned_requests: tuple[AlignedRequests, ...] = ()
    is_terminating: bool = False
    gates: tuple[str, ...] = ()
    quota_figures: PodQuotaFields = PodQuotaFields()
    volumes: tuple[VolumeNeed, ...] = ()
    exclusive_claims: tuple[str, ...] = ()
    can_preempt: bool = True
    claims: tuple[Claim, ...] = ()
    disks: tuple[InlineVolume, ...] = ()
    bound_claims: Pairs = ()
    claim_count: int = 0
    images: tuple[str, ...] = ()
    missing_objects: tuple[str, ...] = ()
    container_scored_requests: Requests | None = None
    has_unknown_rules: bool = False
    compares_balance: bool = False
    device_claims: tuple[DeviceClaim, ...] = ()
    container_requests: tuple[int, int] = (0, 0)
    single_node_claims: tuple[str, ...] = ()
    required_features: tuple[str, ...] = ()
    scores_storage: bool = False
    image_volumes: tuple[str, ...] = ()

    @property
    def has_own_claims(self) -> bool:
        """Whether pods of this spec have claims of their own, for volumes or devices.

        Then each pod may need other nodes.
        """
        return bool(self.claims or self.device_claims)

    @property
    def affinity_terms(self) -> tuple[PodTerm, ...]:
        """All its terms about other pods, required and preferred ones."""
        return (
            self.affinity
            + self.anti_affinity
            + self.preferred_affinity
            + self.preferred_anti_affinity
        )

    def list_claims(self, number: int) -> list[Claim]:
        """Return its claims for the pod with this number: it replaces `{}` in their names."""
        return [replace(claim, name=claim.name.replace("{}", str(number))) for claim in self.claims]


class Strategy(StrEnum):
    """Update strategy of a workload after a template change."""

    ROLLING = "RollingUpdate"
    RECREATE = "Recreate"
    ON_DELETE = "OnDelete"


class NeedEffect(StrEnum):
    """Effect of an absent object on the pods that name it.

    The API server creates no pod, kubelet starts no container, or it pulls
    images without credentials.
    """

    CREATION = "creation"
    START = "start"
    IMAGES = "images"


class ObjectNeed(Struct, frozen=True):
    """Object of a cluster that a pod names, or one `key` of it.

    `namespace` is "" for a cluster-scoped kind, `key` for a whole object.
    """

    kind: str
    namespace: str
    name: str
    key: str = ""
    effect: NeedEffect = NeedEffect.START

    @property
    def title(self) -> str:
        """Display name: `Secret web/db (key password)`."""
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}{f' (key {self.key})' if self.key else ''}"


class Workload(Struct, frozen=True):
    """Controller and its pods.

    A DaemonSet's replicas are its nodes; a bare Pod has one. `max_surge` and `max_unavailable` are
    pods (percentages resolved as Kubernetes rounds them); `max_unavailable_text` is the configured
    text ("25%"). `first_ordinal` is a StatefulSet's first ordinal. A rolling update keeps the
    template of `partition` pods from it on. `is_ordered` means that it waits for each pod.
    `max_surge_text` is a DaemonSet's maxSurge. A Deployment that `is_paused` creates and replaces
    nothing, but is scaled. `previous_max_pods` is the maximum of pods of a scaled Deployment
    before, surge included (0: it is not scaled). `admission_error` is why the API server creates no
    pod of it, "" if it does; `rejected_by` is the admission plugin. `needs` are objects that its
    pods name. `current_revisions` are the revision labels of its pods with the current template,
    None if unknown. `keeps_replicas` means that its manifest sets no replicas, so those of the
    cluster are kept. `is_rewritten` means that its pods differ from the manifest as if changed on
    admission. `is_admission_known` means that existing pods show the additions of admission.
    `configured_replicas` are those before an autoscaler, None without one. `replaced_revision` is
    the live revision of a set with another template, so an earlier one may be the current one
    again. `is_stuck` means that no observed pod of its template can start. `has_orphans` means that
    pods adopted from no controller exceed its replicas.
    """

    kind: str
    namespace: str
    name: str
    replicas: int
    pod: PodSpec
    strategy: Strategy = Strategy.ROLLING
    max_surge: int = 1
    max_unavailable: int = 0
    max_unavailable_text: str = "25%"
    first_ordinal: int = 0
    partition: int = 0
    is_ordered: bool = False
    line: int = 0
    admission_error: str = ""
    rejected_by: str = ""
    needs: tuple[ObjectNeed, ...] = ()
    max_surge_text: str = "0"
    is_paused: bool = False
    containers: tuple[Container, ...] = ()
    previous_max_pods: int = 0
    current_revisions: tuple[str, ...] | None = None
    keeps_replicas: bool = False
    is_rewritten: bool = False
    is_admission_known: bool = False
    configured_replicas: int | None = None
    replaced_revision: str = ""
    is_stuck: bool = False
    has_orphans: bool = False

    @property
    def key(self) -> str:
        """Key of the workload: `<namespace>/<kind>/<name>`."""
        return f"{self.namespace}/{self.kind}/{self.name}"

    def is_current(self, spec: PodSpec) -> bool:
        """Return whether a pod of this spec has the current template."""
        return spec.template == self.pod.template

    def select_current_pods(self, pods: Iterable[ExistingPod]) -> list[ExistingPod]:
        """Return the pods with the current template."""
        return [pod for pod in pods if self.is_current(pod.spec)]

    def is_below_partition(self, number: int) -> bool:
        """Return whether a pod of a StatefulSet keeps its former template in a rolling update."""
        return number < self.first_ordinal + self.partition

    @property
    def allows_daemon_surge(self) -> bool:
        """Whether a DaemonSet may add a new pod to a node before the old one stops."""
        return self.max_surge_text not in ("0", "0%")

    @property
    def has_rolling_update(self) -> bool:
        """Whether it is a Deployment with gradual updates, within max surge and max unavailable."""
        return self.kind == "Deployment" and self.strategy is Strategy.ROLLING

    def format_pod_name(self, number: int) -> str:
        """Return the name of its pod with this number: a generated one, not that of Kubernetes."""
        return format_pod_name(self.key, number)


def format_pod_name(workload: str, number: int) -> str:
    """Return the generated name of a pod of a workload (key), not that of Kubernetes."""
    _, kind, name = workload.split("/", 2)
    # These kinds have one pod per key.
    return name if kind in ("Pod", "Terminating") else f"{name}-{number}"


def is_recreated(workload: str) -> bool:
    """Return whether a controller re-creates lost or Failed pods of this workload (key)."""
    # The kind: a bare pod, or one in deletion.
    return workload.split("/", 2)[1] not in ("Pod", "Terminating")


class ExistingPod(Struct, frozen=True):
    """Existing pod: its workload (key), number and node ("" = none).

    `spec` is that of its template; `age` orders pods by their start (larger is newer; 0 if
    unknown), equal ages by number. `rejection` is why kubelet rejects it permanently, "" if it runs
    or waits. `volumes` are its recorded claims with the names of their volumes. A pod that
    `is_protected` is never evicted. `observed_template` is its template as listed by kubectl.
    `charged_budgets` are the budgets (of its namespace, by name) already charged for its eviction,
    though it still exists. `condition` is the observed one, or the default of a pod predicted to
    run. `devices` are its ResourceClaims with their devices.
    """

    workload: str
    number: int
    node: str
    spec: PodSpec
    age: int = 0
    rejection: str = ""
    volumes: Pairs = ()
    is_protected: bool = False
    observed_template: ObservedPodTemplate | None = None
    charged_budgets: tuple[str, ...] = ()
    condition: PodCondition = PodCondition()
    devices: ClaimedUses = ()

    @property
    def name(self) -> str:
        """Generated name of the pod."""
        return format_pod_name(self.workload, self.number)

    @property
    def identity(self) -> PodIdentity:
        """Workload, number and template.

        Old and new pods of one number coexist during a template change.
        """
        return self.workload, self.number, self.spec.template

    @property
    def key(self) -> PodKey:
        """Workload and number."""
        return self.workload, self.number

    @property
    def is_observed(self) -> bool:
        """Whether kubectl has listed the pod; its condition has at least a name then."""
        return self.condition != PodCondition()

    @property
    def is_stuck(self) -> bool:
        """Whether the pod is not ready, without any sign of a start."""
        return bool(self.condition.stuck_reason)


class ResourceQuotaScope(Struct, frozen=True):
    """Scope of a quota: BestEffort, NotTerminating, ..., or PriorityClass with an operator."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class ResourceQuota(Struct, frozen=True):
    """ResourceQuota: maximum total of requests in a namespace (CPU in milli-CPUs).

    `used` is the observed usage; in a prediction, it is the usage by pods outside
    of the prediction.
    """

    namespace: str
    name: str
    hard: tuple[tuple[str, int], ...]
    scopes: tuple[ResourceQuotaScope, ...] = ()
    used: tuple[tuple[str, int], ...] = ()


class PodDisruptionBudget(Struct, frozen=True):
    """PodDisruptionBudget with one of the two amounts as configured ("1", "50%").

    `withheld_disruptions` is by how many fewer disruptions its controller reported than follow
    from the amounts (negative: by how many more). `is_met` means that enough pods are ready by
    its controller; it is None if not reported. `evicts_unready` means that unready pods may
    always be evicted.
    """

    namespace: str
    name: str
    selector: LabelSelector
    min_available: str = ""
    max_unavailable: str = ""
    withheld_disruptions: int = 0
    is_met: bool | None = None
    evicts_unready: bool = False


class AttachLimits(Struct, frozen=True):
    """Volumes of each CSI driver on the nodes.

    The limits by node and driver (CSINode), and the attached volumes by node, driver and claim, or
    volume without a claim (VolumeAttachment). Volumes of `required_drivers` need a node among their
    `installations` (node, driver).
    """

    maximums: Mapping[tuple[str, str], int] = field(default_factory=dict)
    attachments: tuple[tuple[str, str, str], ...] = ()
    required_drivers: frozenset[str] = frozenset()
    installations: frozenset[tuple[str, str]] = frozenset()


class Cluster(Struct, frozen=True):
    """Nodes of one cluster, labels of its namespaces (names are implied), its quotas and budgets.

    Its claimable volumes, and the claims that wait for no pod. `invalid_claims` (`namespace/name`)
    prevent pods from getting a node, each with the reason. `observation_time` is the newest
    heartbeat of a node in seconds since 1970, 0 if unknown. `devices` are those of ResourceSlices.
    `extreme_image_values` are explained in image_locality. `limits_unavailable_pods` means that
    StatefulSets are replaced within maxUnavailable (gate MaxUnavailableStatefulSet).
    """

    name: str
    nodes: tuple[Node, ...]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quotas: tuple[ResourceQuota, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    volumes: tuple[Volume, ...] = ()
    claims: tuple[Claim, ...] = ()
    invalid_claims: Pairs = ()
    nominated_pods: tuple[ExistingPod, ...] = ()
    version: tuple[int, ...] = ()
    observation_time: int = 0
    attach_limits: AttachLimits = AttachLimits()
    devices: DeviceInventory = DeviceInventory()
    extreme_image_values: tuple[Mapping[str, int], ...] = ()
    limits_unavailable_pods: bool = False

    @property
    def node_by_name(self) -> dict[str, Node]:
        """Its nodes by name, in their order."""
        return {node.name: node for node in self.nodes}
