"""Members, policies, bindings and decisions: the words of fleet placement.

Frozen; the names are KubeFleet's. What a policy holds is hashable, so that what follows from it can be
worked out once for all placements that share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from nexusform.kubernetes.matching import LabelSelector, Taint, Toleration
from nexusform.kubernetes.quantity import Quantity
from nexusform.scheduling.decision import Place


class BindingState(StrEnum):
    """Scheduled: picked, not yet rolled out. Bound: rolled out. Unscheduled: to be removed."""

    SCHEDULED = "Scheduled"
    BOUND = "Bound"
    UNSCHEDULED = "Unscheduled"


class Binding(Place, frozen=True):
    """A placement's hold on a cluster: the place of a fleet placement, as `Placement` is that of a VM.

    `previous_state` stands only beside Unscheduled. The scores are those of the batch that picked it,
    None for PickFixed. `policy_snapshot` is the index under which it was picked, `resource_snapshot` the
    resources it rolled out (None: not yet). `deleting`: evicted or being removed.
    """

    cluster: str
    state: BindingState
    policy_snapshot: int
    affinity_score: int | None = None
    topology_spread_score: int | None = None
    previous_state: BindingState | None = None
    resource_snapshot: int | None = None
    deleting: bool = False


class PlacementType(StrEnum):
    """How clusters are picked: all that pass, those named, or the best N."""

    PICK_ALL = "PickAll"
    PICK_FIXED = "PickFixed"
    PICK_N = "PickN"


class Health(StrEnum):
    """A member's standing, as its agent reports it; six of them make it ineligible."""

    HEALTHY = "Healthy"
    RECENTLY_UNHEALTHY = "RecentlyUnhealthy"
    UNHEALTHY = "Unhealthy"
    NOT_JOINED = "NotJoined"
    NO_HEARTBEAT = "NoHeartbeat"
    NO_AGENT = "NoAgent"
    NO_HEALTH = "NoHealth"
    LEAVING = "Leaving"


class ResourceUsage(Struct, frozen=True):
    """Sums over a cluster's nodes by resource name ("cpu", "memory"): capacity, what pods may take of
    it, and what is left.
    """

    total: Mapping[str, Quantity] = field(default_factory=dict)
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    available: Mapping[str, Quantity] = field(default_factory=dict)


class Member(Struct, frozen=True):
    """A member cluster as the hub sees it. Names are unique in a fleet.

    `properties` holds non-resource properties as texts. `namespaces` None = not collected (then no
    placement asks for them); an empty set = collected, nothing known.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    resources: ResourceUsage = field(default_factory=ResourceUsage)
    health: Health = Health.HEALTHY
    namespaces: frozenset[str] | None = None

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted: still listed, no longer in normal operation."""
        return self.health is Health.LEAVING


class PropertyRequirement(Struct, frozen=True):
    """A comparison of a property with one quantity: operator Gt, Ge, Lt, Le, Eq or Ne."""

    name: str
    operator: str
    values: tuple[str, ...]


class PropertySorter(Struct, frozen=True):
    """Ranks clusters by a property, "Ascending" or "Descending"."""

    name: str
    sort_order: str


class ClusterTerm(Struct, frozen=True):
    """What a cluster must be (in a required term) or had better be (in a preferred one).

    `property_selector` None = none written. A required term may not have a sorter, a preferred one no
    property selector; both fields are here so that validation can say so.
    """

    label_selector: LabelSelector | None = None
    property_selector: tuple[PropertyRequirement, ...] | None = None
    property_sorter: PropertySorter | None = None


class PreferredTerm(Struct, frozen=True):
    """A preference and its weight, -100 to 100."""

    weight: int
    preference: ClusterTerm


class SpreadConstraint(Struct, frozen=True):
    """Picks are spread over the values of a label; "DoNotSchedule" or "ScheduleAnyway"."""

    topology_key: str
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"


class Policy(Struct, frozen=True):
    """A placement policy. `required` None = no such block; an empty tuple restricts nothing either.

    A placement without a policy is PickAll; its hash differs from an explicit PickAll's (snapshots.py).
    `number_of_clusters` None in a PickN: every eligible cluster is wanted.
    """

    placement_type: PlacementType = PlacementType.PICK_ALL
    number_of_clusters: int | None = None
    cluster_names: tuple[str, ...] = ()
    required: tuple[ClusterTerm, ...] | None = None
    preferred: tuple[PreferredTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class PolicySnapshot(Struct, frozen=True):
    """The latest policy of a placement: its number (from 0), the policy's hash, and N."""

    index: int
    hash: str
    number_of_clusters: int | None = None


class Ask(Struct, frozen=True):
    """What a placement asks of every cluster. `namespace` is set for a namespaced placement only."""

    policy: Policy
    namespace: str = ""


class Decision(Struct, frozen=True):
    """What the scheduler says about one cluster; scores None where none were given."""

    cluster: str
    selected: bool
    reason: str
    affinity_score: int | None = None
    topology_spread_score: int | None = None


class Condition(Struct, frozen=True):
    """A Kubernetes condition: status "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str
    message: str


class Abort(Struct, frozen=True):
    """Why a whole cycle stopped: one cluster's value that the rule (a plugin) cannot read."""

    cluster: str
    message: str


class BindingAction(StrEnum):
    """What a cycle did to a binding."""

    CREATED = "created"
    REPOINTED = "repointed"
    RECOVERED = "recovered"
    UNSCHEDULED = "unscheduled"
    DROPPED = "dropped"


class Cause(StrEnum):
    """Why: picked; its cluster is gone or leaving; not picked under the new policy; too many; deleted."""

    PICKED = "picked"
    CLUSTER_LEFT = "cluster_left"
    POLICY = "policy"
    DOWNSCALE = "downscale"
    DELETED = "deleted"


class BindingChange(Struct, frozen=True):
    """One change to one binding, in the order in which the scheduler made them."""

    cluster: str
    change: BindingAction
    cause: Cause
