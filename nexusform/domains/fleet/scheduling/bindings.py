"""Types of fleet placement, frozen and with KubeFleet's names.

Policies are hashable: equal ones are evaluated once.
"""

from collections.abc import Container, Iterable, Mapping
from enum import StrEnum
from itertools import islice

from msgspec import Struct, field

from nexusform.kubernetes.matching import LabelSelector, Taint, Toleration
from nexusform.kubernetes.quantity import Quantity
from nexusform.scheduling.placement_decision import ObjectLocation


class BindingState(StrEnum):
    """State of a binding.

    A Scheduled binding is picked, but not rolled out. A Bound one is rolled out, an Unscheduled one
    is to be removed.
    """

    SCHEDULED = "Scheduled"
    BOUND = "Bound"
    UNSCHEDULED = "Unscheduled"


class Binding(ObjectLocation, frozen=True):
    """Binding of a placement to a cluster; a location like a VM's `Placement`.

    `previous_state` is set for Unscheduled only. The scores are those of the batch that picked the
    cluster, None for PickFixed. `policy_snapshot` is the index at that time, `resource_snapshot`
    the index of the resources rolled out (None: not yet). `is_deleting` means that it is evicted
    or in deletion.
    """

    cluster: str
    state: BindingState
    policy_snapshot: int
    affinity_score: int | None = None
    topology_spread_score: int | None = None
    previous_state: BindingState | None = None
    resource_snapshot: int | None = None
    is_deleting: bool = False

    @property
    def has_resources(self) -> bool:
        """Whether the cluster has the objects: it is bound, or unscheduled after it was bound."""
        state = self.previous_state if self.state is BindingState.UNSCHEDULED else self.state
        return state is BindingState.BOUND


def collect_clusters(bindings: Iterable[Binding]) -> set[str]:
    """Return the clusters of the bindings, in any state."""
    return {binding.cluster for binding in bindings}


def collect_clusters_with_resources(bindings: Iterable[Binding]) -> set[str]:
    """Return the clusters that have the objects of the bindings."""
    return {binding.cluster for binding in bindings if binding.has_resources}


def select_scheduled_bindings(bindings: Iterable[Binding]) -> list[Binding]:
    """Return the bindings picked by the scheduler, rolled out or not.

    Unscheduled ones are omitted.
    """
    return [binding for binding in bindings if binding.state is not BindingState.UNSCHEDULED]


def list_active_bindings(bindings: Iterable[Binding]) -> list[Binding]:
    """Return the bindings not in deletion, in the order of cluster names."""
    active = [binding for binding in bindings if not binding.is_deleting]
    return sorted(active, key=lambda binding: binding.cluster)


def collect_lasting_clusters(bindings: Iterable[Binding]) -> set[str]:
    """Return the clusters with a binding neither Unscheduled nor in deletion."""
    return collect_clusters(select_scheduled_bindings(list_active_bindings(bindings)))


def split_clusters(
    clusters: Iterable[str], group: Container[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the clusters in a group, and those outside of it, both in the order of `clusters`."""
    inside: list[str] = []
    outside: list[str] = []
    for name in clusters:
        if name in group:
            inside.append(name)
        else:
            outside.append(name)
    return tuple(inside), tuple(outside)


def index_by_cluster(bindings: Iterable[Binding]) -> dict[str, Binding]:
    """Return the bindings by cluster."""
    return {binding.cluster: binding for binding in bindings}


class PlacementType(StrEnum):
    """Selection of clusters: all eligible ones, a list of names, or the best N."""

    PICK_ALL = "PickAll"
    PICK_FIXED = "PickFixed"
    PICK_N = "PickN"


class Health(StrEnum):
    """Health of a member as reported by its agent; six values make it ineligible."""

    HEALTHY = "Healthy"
    RECENTLY_UNHEALTHY = "RecentlyUnhealthy"
    UNHEALTHY = "Unhealthy"
    NOT_JOINED = "NotJoined"
    NO_HEARTBEAT = "NoHeartbeat"
    NO_AGENT = "NoAgent"
    NO_HEALTH = "NoHealth"
    LEAVING = "Leaving"


class ResourceUsage(Struct, frozen=True):
    """Sums over a cluster's nodes by resource name ("cpu", "memory").

    They are capacity, allocatable and available amounts.
    """

    total: Mapping[str, Quantity] = field(default_factory=dict)
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    available: Mapping[str, Quantity] = field(default_factory=dict)


class Member(Struct, frozen=True):
    """Member cluster as reported by the hub.

    Names are unique in a fleet. `properties` holds non-resource properties as text. `namespaces`
    are None if not collected, so placements do not require them. They are an empty set if collected
    and none is known.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    resources: ResourceUsage = field(default_factory=ResourceUsage)
    health: Health = Health.HEALTHY
    namespaces: frozenset[str] | None = None

    @property
    def is_leaving(self) -> bool:
        """Whether the member is being deleted: still listed, out of normal operation."""
        return self.health is Health.LEAVING


class PropertyRequirement(Struct, frozen=True):
    """Comparison of a property with one quantity: operator Gt, Ge, Lt, Le, Eq or Ne."""

    name: str
    operator: str
    values: tuple[str, ...]


class PropertySorter(Struct, frozen=True):
    """Sort order of clusters by a property, "Ascending" or "Descending"."""

    name: str
    sort_order: str


class ClusterSelectorTerm(Struct, frozen=True):
    """Required or preferred term about a cluster.

    `property_selector` is None if not configured. Required terms may not have a sorter, preferred
    ones no property selector; validation rejects them.
    """

    label_selector: LabelSelector | None = None
    property_selector: tuple[PropertyRequirement, ...] | None = None
    property_sorter: PropertySorter | None = None


class PreferredTerm(Struct, frozen=True):
    """Preference with its weight, -100 to 100."""

    weight: int
    preference: ClusterSelectorTerm


class TopologySpreadConstraint(Struct, frozen=True):
    """Spread of picks over the values of a label; "DoNotSchedule" or "ScheduleAnyway"."""

    topology_key: str
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"


class Policy(Struct, frozen=True):
    """Placement policy.

    `required_terms` are None without such a block; an empty tuple restricts nothing either. A
    placement without a policy is PickAll; its hash differs from an explicit PickAll's
    (policy_snapshots.py). `number_of_clusters` None in a PickN selects every eligible cluster.
    """

    placement_type: PlacementType = PlacementType.PICK_ALL
    number_of_clusters: int | None = None
    cluster_names: tuple[str, ...] = ()
    required_terms: tuple[ClusterSelectorTerm, ...] | None = None
    preferred_terms: tuple[PreferredTerm, ...] = ()
    spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def count_requested_clusters(self, number: int | None) -> int | None:
        """Return the number of requested clusters; None for all eligible ones.

        `number` is N of the policy snapshot.
        """
        if self.placement_type is PlacementType.PICK_FIXED:
            return len(self.cluster_names)
        return number if self.placement_type is PlacementType.PICK_N else None


class PolicySnapshot(Struct, frozen=True):
    """Latest policy of a placement: index (from 0), hash of the policy, and N."""

    index: int
    hash: str
    number_of_clusters: int | None = None


class PlacementRequest(Struct, frozen=True):
    """Requirements of a placement for every cluster.

    `namespace` is set for a namespaced placement only.
    """

    policy: Policy
    namespace: str = ""


class Decision(Struct, frozen=True):
    """Scheduler's decision on one cluster; scores are None if not computed."""

    cluster: str
    is_selected: bool
    reason: str
    affinity_score: int | None = None
    topology_spread_score: int | None = None


class Condition(Struct, frozen=True):
    """Kubernetes condition: status "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str
    message: str


class CycleAbort(Struct, frozen=True):
    """Error that stops a whole cycle: a cluster's value unreadable for a rule (plugin)."""

    cluster: str
    message: str


class BindingAction(StrEnum):
    """Action of a cycle on a binding."""

    CREATED = "created"
    REPOINTED = "repointed"
    RECOVERED = "recovered"
    UNSCHEDULED = "unscheduled"
    DROPPED = "dropped"


class ChangeCause(StrEnum):
    """Cause of a binding change.

    The causes are, in order: picked, cluster missing or leaving, not picked any
    more, downscale, deleted.
    """

    PICKED = "picked"
    CLUSTER_LEFT = "cluster_left"
    POLICY = "policy"
    DOWNSCALE = "downscale"
    DELETED = "deleted"


class BindingChange(Struct, frozen=True):
    """One change of one binding, in scheduler order."""

    cluster: str
    action: BindingAction
    cause: ChangeCause


# Decisions per cluster and the Scheduled condition have KubeFleet's exact texts.
MAX_UNSELECTED = 20
MAX_DECISIONS = 1000
SCHEDULED = "Scheduled"
FULFILLED = "SchedulingPolicyFulfilled"
UNFULFILLED = "SchedulingPolicyUnfulfilled"


class SchedulingStatus(Struct, frozen=True):
    """Status written by a cycle.

    It has the Scheduled condition, bindings of selected clusters (created, patched, then existing
    ones) and decisions on unselected ones.
    """

    condition: Condition
    selected_bindings: tuple[Binding, ...]
    unselected_decisions: tuple[Decision, ...]

    @property
    def is_fulfilled(self) -> bool:
        """Whether all clusters needed by the policy were found."""
        return self.condition.status == "True"

    def list_decisions(self) -> tuple[Decision, ...]:
        """Return all decisions, selected clusters first, at most 1000."""
        return (
            *map(build_selected_decision, self.selected_bindings[:MAX_DECISIONS]),
            *self.unselected_decisions,
        )


def build_selected_decision(binding: Binding) -> Decision:
    """Build the decision recorded in a binding."""
    affinity = binding.affinity_score
    spread = binding.topology_spread_score
    start = f'Successfully scheduled resources for placement in "{binding.cluster}"'
    if affinity is None or spread is None:  # PickFixed
        return Decision(
            binding.cluster, is_selected=True, reason=f"{start}: picked by scheduling policy"
        )
    scores = f"(affinity score: {affinity}, topology spread score: {spread})"
    return Decision(
        binding.cluster, True, f"{start} {scores}: picked by scheduling policy", affinity, spread
    )


def build_outscored_decision(cluster: str, affinity: int, spread: int) -> Decision:
    """Build the decision on an eligible cluster with too low a score."""
    reason = (
        f'Cluster "{cluster}" does not score high enough (affinity score: {affinity}, topology '
        f"spread score: {spread})"
    )
    return Decision(cluster, False, reason, affinity, spread)


def build_scheduled_condition(count: int, is_fulfilled: bool) -> Condition:
    """Build the Scheduled condition of a policy snapshot.

    `count` is the number of selected clusters.
    """
    if is_fulfilled:
        text = (
            f"found all cluster needed as specified by the scheduling policy, found {count} "
            "cluster(s)"
        )
        return Condition(SCHEDULED, "True", FULFILLED, text)
    text = (
        f"could not find all clusters needed as specified by the scheduling policy, found {count} "
        "cluster(s) instead"
    )
    return Condition(SCHEDULED, "False", UNFULFILLED, text)


def list_unselected_clusters(
    selected: Iterable[Binding], outscored: Iterable[Decision], rejected: Iterable[Decision]
) -> tuple[Decision, ...]:
    """Return at most 20 decisions on unselected clusters, outscored ones first.

    Together with the selected clusters, there are at most 1000. Selected clusters in `rejected` use
    up this limit, but are left out, as on a real hub. Inputs are read only up to the limit.
    """
    selected_clusters = collect_clusters(selected)
    maximum = max(0, min(MAX_UNSELECTED, MAX_DECISIONS - len(selected_clusters)))
    unselected_outscored = (
        decision for decision in outscored if decision.cluster not in selected_clusters
    )
    decisions = list(islice(unselected_outscored, maximum))
    listed_rejections = islice(rejected, maximum - len(decisions))
    return (
        *decisions,
        *(decision for decision in listed_rejections if decision.cluster not in selected_clusters),
    )
