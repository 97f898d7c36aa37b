"""Workers, what a pod asks for, workloads and the pods that stand: the frozen words of this room.

CPU is in milli-CPUs, memory in bytes, other resources in their own units. Source of the rules that
read these: kube-scheduler (default profile); see profile.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from nexusform.kubernetes.matching import LabelSelector, Requirement, Taint, Toleration
from nexusform.scheduling.kubelet import TopologyPolicy

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
DEFAULT_PODS: Final = 110
DEFAULT_SEED: Final = 8

Pairs = tuple[tuple[str, str], ...]
# What one container wants of the same NUMA cells: whole CPUs of its own, hugepages, devices.
Aligned = tuple[tuple[str, int], ...]


class PodState(StrEnum):
    """Where a pod is in its life. Only a scheduled one has a node and holds anything of it.

    Pending: no node takes it. SchedulingGated: nobody looks for a node yet. Failed: kubelet refused it.
    """

    SCHEDULED = "Scheduled"
    PENDING = "Pending"
    GATED = "SchedulingGated"
    FAILED = "Failed"


class Node(Struct, frozen=True):
    """A worker: its labels and taints, what pods may use of it, and the hardware below it.

    `others` are further resources (`nvidia.com/gpu`, `ephemeral-storage`); machine, rack and zone are ""
    where nobody knows. `cells` are what its NUMA cells offer, where its topology manager (`policy`) may
    refuse pods for it. `images` are those that are on it, each with what it is worth there (its bytes times
    the share of the nodes that have it), None where nobody knows.
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
    others: Mapping[str, int] = field(default_factory=dict)
    policy: TopologyPolicy = TopologyPolicy.NONE
    cells: tuple[Mapping[str, int], ...] = ()
    images: Mapping[str, int] | None = None


class Requests(Struct, frozen=True):
    """What a pod asks of a node: max(sum of containers, init containers) + overhead."""

    cpu: int = 0
    memory: int = 0
    others: tuple[tuple[str, int], ...] = ()


class NodeTerm(Struct, frozen=True):
    """Expressions over a node's labels and over its fields (only metadata.name); all must hold.

    A term without any matches no node.
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class VolumeNeed(Struct, frozen=True):
    """Nodes that reach a volume (any of the terms, None = all). `bound`: it stands, or (without terms) should
    do so before its pod is scheduled; else it is found or made there. `zones` are what its labels ask of
    nodes that have any label of a zone or region. `wrong`: why no node is looked for with its claim.
    """

    terms: tuple[NodeTerm, ...] | None
    bound: bool
    zones: tuple[Requirement, ...] = ()
    wrong: str = ""


class Disk(Struct, frozen=True):
    """A disk that a pod names without a claim. Pods with disks of one name share a node only if all read."""

    name: str
    read_only: bool = False


class Claim(Struct, frozen=True):
    """A claim whose volume is found, or made, once it or its pod is there.

    `name` is `namespace/name`, with {} in the place of the pod's number where each pod has its own. `size` is
    in bytes, `block` its volumeMode. `waits` for its pod to be scheduled (WaitForFirstConsumer), else it is
    bound at once. `made`: the nodes where its class makes a volume (any of the terms, None = all).
    """

    name: str
    size: int = 0
    storage_class: str = ""
    modes: tuple[str, ...] = ()
    block: bool = False
    selector: LabelSelector | None = None
    waits: bool = False
    made: tuple[NodeTerm, ...] | None = ()

    def of(self, number: int) -> str:
        """Its name for the pod with this number."""
        return self.name.replace("{}", str(number))


class Volume(Struct, frozen=True):
    """A PersistentVolume: the nodes that reach it (any of the terms, None = all), what its labels ask of
    nodes with zones, and the claim that it waits for (`namespace/name`), "" where it is for anybody.
    """

    name: str
    size: int = 0
    storage_class: str = ""
    modes: tuple[str, ...] = ()
    block: bool = False
    labels: Pairs = ()
    terms: tuple[NodeTerm, ...] | None = None
    claim: str = ""
    zones: tuple[Requirement, ...] = ()


class PodTerm(Struct, frozen=True):
    """One term of pod affinity or anti-affinity, matchLabelKeys already merged into the selector.

    A selector of None matches nothing; an empty one everything. `namespaces` is never empty unless
    `namespace_selector` stands. `weight` is 0 in required terms.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    weight: int = 0


class Container(Struct, frozen=True):
    """What one container of a pod is made from: its image as nodes write it ("" where nobody tells), and what
    it asks for, cpu in milli-CPUs.
    """

    name: str
    image: str = ""
    requests: tuple[tuple[str, int], ...] = ()


class Seen(Struct, frozen=True):
    """What kubectl showed of how a pod was made: by which revision of its workload's template ("" where no
    label tells), and its containers.
    """

    revision: str = ""
    containers: tuple[Container, ...] = ()


class SpreadConstraint(Struct, frozen=True):
    """One topologySpreadConstraint, matchLabelKeys already merged into the selector.

    `hard` is DoNotSchedule. `honor_affinity` and `honor_taints` are the two node inclusion policies.
    """

    topology_key: str
    max_skew: int
    hard: bool
    selector: LabelSelector | None
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


class HostPort(Struct, frozen=True):
    """A port of the node that a pod claims."""

    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"  # noqa: S104 - Kubernetes' word for every address; nothing listens here


class QuotaFigures(Struct, frozen=True):
    """What quotas read of a pod beside its requests: its limits, of which of requests.cpu, requests.memory,
    limits.cpu and limits.memory some container says nothing, whether it has a deadline, its PriorityClass.
    """

    limits: tuple[tuple[str, int], ...] = ()
    left_out: tuple[str, ...] = ()
    finite: bool = False
    priority_class: str = ""


class PodSpec(Struct, frozen=True):
    """What the scheduler reads of a pod; equal for all pods of one workload's template.

    `scored` are the requests with 100m and 200 MiB for containers that name none. `node_terms` None means
    no required node affinity. `default_spread` selects the pods that the cluster's default spreading
    counts (None = none); it is used only without `spread`. `template` is the hash of the pod template.
    `aligned`: per container what has to lie in the same NUMA cells. A `terminating` pod keeps what it holds
    and is not counted by spread constraints. `gates` keep the scheduler from looking at it. `exclusive` are
    claims that one pod alone may use (`namespace/name`). `preempts`: its preemptionPolicy is not Never.
    `disks` are on one node once. `volumes` stand for themselves; claims.py says what `claims` ask. `claimed`
    counts its claims, those that ask nothing of the node too. `images` are those of its containers, one each.
    `unmet` says what is not there without which no node is looked for. `scored_apart` is what its containers
    alone would score as, where something is asked for the whole pod. `unforeseen`: another scheduler, or
    devices that nobody counts here, decide about it, too.
    """

    namespace: str = "default"
    labels: Pairs = ()
    requests: Requests = Requests()
    scored: Requests = Requests()
    node_name: str = ""
    node_selector: Pairs = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    preferred_nodes: tuple[tuple[int, NodeTerm], ...] = ()
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
    aligned: tuple[Aligned, ...] = ()
    terminating: bool = False
    gates: tuple[str, ...] = ()
    quota_figures: QuotaFigures = QuotaFigures()
    volumes: tuple[VolumeNeed, ...] = ()
    exclusive: tuple[str, ...] = ()
    preempts: bool = True
    claims: tuple[Claim, ...] = ()
    disks: tuple[Disk, ...] = ()
    claimed: int = 0
    images: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    scored_apart: Requests | None = None
    unforeseen: bool = False


class Strategy(StrEnum):
    """How a workload replaces its pods when the template changes."""

    ROLLING = "RollingUpdate"
    RECREATE = "Recreate"
    ON_DELETE = "OnDelete"


class Workload(Struct, frozen=True):
    """A controller and its pods. A DaemonSet's replicas are its nodes; a bare Pod has one.

    `max_surge` and `max_unavailable` are pods (percentages resolved as Kubernetes rounds them);
    `unavailable_written` is the user's text ("25%"). `first` is a StatefulSet's first ordinal, `partition`
    the lowest ordinal that a rolling update touches, `ordered` whether it waits for each pod.
    `surge_written` is what a DaemonSet's maxSurge says; a `paused` Deployment makes and replaces
    nothing, but is scaled. `most_before`: how many pods a Deployment that is scaled might have before, surge
    and all (0: it is not scaled). `forbidden`: why the API server makes no pod of it,
    "" where it does.
    """

    kind: str
    namespace: str
    name: str
    replicas: int
    pod: PodSpec
    strategy: Strategy = Strategy.ROLLING
    max_surge: int = 1
    max_unavailable: int = 0
    unavailable_written: str = "25%"
    first: int = 0
    partition: int = 0
    ordered: bool = False
    line: int = 0
    forbidden: str = ""
    surge_written: str = "0"
    paused: bool = False
    containers: tuple[Container, ...] = ()
    most_before: int = 0

    @property
    def key(self) -> str:
        """`<namespace>/<kind>/<name>`, by which pods and maps name it."""
        return f"{self.namespace}/{self.kind}/{self.name}"

    def pod_name(self, number: int) -> str:
        """The name of its pod with this number: ours, not what Kubernetes will make up."""
        return pod_name(self.key, number)


def pod_name(workload: str, number: int) -> str:
    """The name of a pod of a workload (key): ours, not what Kubernetes will make up."""
    _, kind, name = workload.split("/", 2)
    return name if kind in ("Pod", "Terminating") else f"{name}-{number}"


def is_made_anew(workload: str) -> bool:
    """Whether somebody makes another pod in place of one of this workload (key) that is lost or Failed."""
    return workload.split("/", 2)[1] not in ("Pod", "Terminating")


class StandingPod(Struct, frozen=True):
    """A pod that exists: of which workload (key), its number, its node ("" = none).

    `spec` is what it was made from; `age` orders pods by their start (larger is newer; 0 where nobody knows),
    equal ages by number. `refused`: why kubelet has refused it for good, "" where it runs or waits.
    `volumes`: claims of it that have a volume, each with its name, as far as that is remembered. One that
    `stays` is not evicted for anybody. `seen`: how it was made, where kubectl showed it. `let_go`: the
    budgets (of its namespace, by name) that have let it go already, though it is still there.
    """

    workload: str
    number: int
    node: str
    spec: PodSpec
    age: int = 0
    refused: str = ""
    volumes: Pairs = ()
    stays: bool = False
    seen: Seen | None = None
    let_go: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name, as `pod_name` makes it."""
        return pod_name(self.workload, self.number)


class QuotaScope(Struct, frozen=True):
    """Of which pods a quota speaks: BestEffort, NotTerminating, ..., or PriorityClass with an operator."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class Quota(Struct, frozen=True):
    """A ResourceQuota: the most that pods of a namespace may ask for together (cpu in milli-CPUs)."""

    namespace: str
    name: str
    hard: tuple[tuple[str, int], ...]
    scopes: tuple[QuotaScope, ...] = ()


class Budget(Struct, frozen=True):
    """A PodDisruptionBudget: one of the two amounts stands, as written ("1", "50%"). `withheld`: by how many
    fewer pods it lets go than would follow from them, as its controller has said (below 0: by how many more).
    """

    namespace: str
    name: str
    selector: LabelSelector
    min_available: str = ""
    max_unavailable: str = ""
    withheld: int = 0


class Cluster(Struct, frozen=True):
    """The nodes that pods of one cluster can use, labels of its namespaces (their name is implied), its
    quotas and its budgets; its volumes that claims may take, and the claims that wait for no pod. `wrong` are
    claims (`namespace/name`) with which no pod gets a node, and why.
    """

    name: str
    nodes: tuple[Node, ...]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quotas: tuple[Quota, ...] = ()
    budgets: tuple[Budget, ...] = ()
    volumes: tuple[Volume, ...] = ()
    claims: tuple[Claim, ...] = ()
    wrong: Pairs = ()
    promised: tuple[StandingPod, ...] = ()
    version: tuple[int, ...] = ()
