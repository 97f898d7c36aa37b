"""Configured fleet objects as frozen records: members, placements, and objects that act on them."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field, json

from nexusform.domains.fleet.scheduling.bindings import Health, PlacementType, Policy, ResourceUsage
from nexusform.domains.fleet.scheduling.eviction import PlacementDisruptionBudget
from nexusform.domains.fleet.scheduling.rolling_update import RollingUpdate
from nexusform.domains.fleet.scheduling.staged_update import RunState, Stage
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.kubernetes.matching import LabelSelector, Taint

ROLLING_UPDATE = "RollingUpdate"
EXTERNAL = "External"
SERVER_SIDE_APPLY = "ServerSideApply"
REPORT_DIFF = "ReportDiff"
IF_NO_DIFF = "IfNoDiff"
NEVER = "Never"
CLUSTER_SCOPE_ONLY = "ClusterScopeOnly"
NAMESPACE_ACCESSIBLE = "NamespaceAccessible"
DELETE = "Delete"
ABANDON = "Abandon"
WITH_RESOURCES = "NamespaceWithResources"
NAMESPACE_ONLY = "NamespaceOnly"
WITH_SELECTED = "NamespaceWithResourceSelectors"


def format_object_key(namespace: str, name: str) -> str:
    """Return the key of an object on a hub: `<name>`, or `<namespace>/<name>`."""
    return f"{namespace}/{name}" if namespace else name


class KeyedObject:
    """Base of records with a name and a namespace, "" for a cluster-scoped object."""

    __slots__ = ()
    name: str
    namespace: str

    @property
    def key(self) -> str:
        """Id: `<name>` or `<namespace>/<name>`."""
        return format_object_key(self.namespace, self.name)


class FleetMember(Struct, frozen=True):
    """Configured member cluster.

    With `cluster_id` its figures derive from that cluster's nodes, plus `properties` (including its
    costs). Without it, `properties` and `resources` are configured. `apply_fails` means that
    resources fail to apply there.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    health: Health = Health.HEALTHY
    namespaces: frozenset[str] | None = None
    cluster_id: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    resources: ResourceUsage = field(default_factory=ResourceUsage)
    apply_fails: bool = False


class ObjectSelector(Struct, frozen=True):
    """Selector of objects of one kind: by name, by labels, or all ("" and None)."""

    group: str
    version: str
    kind: str
    name: str = ""
    labels: LabelSelector | None = None
    scope: str = WITH_RESOURCES

    @property
    def title(self) -> str:
        """Display name: version, kind and name."""
        version = f"{self.group}/{self.version}" if self.group else self.version
        return f"{version} {self.kind} {self.name}".rstrip()

    @property
    def is_namespace(self) -> bool:
        """Whether namespaces are selected."""
        return (self.group, self.kind) == ("", "Namespace")


class ApplyStrategy(Struct, frozen=True):
    """Apply strategy, with the API's terms."""

    type: str = "ClientSideApply"
    comparison_option: str = "PartialComparison"
    when_to_apply: str = "Always"
    when_to_take_over: str = "Always"
    allow_co_ownership: bool = False
    force: bool = False


class FleetPlacement(Struct, KeyedObject, frozen=True):
    """Configured placement.

    `namespace` is "" for a cluster resource placement; `policy` is None if not set (PickAll).
    `accepts_old_names` means that kubernetes.azure.com/node-count counts as the current name.
    """

    name: str
    namespace: str = ""
    policy: Policy | None = None
    selectors: tuple[ObjectSelector, ...] = ()
    strategy: str = ROLLING_UPDATE
    rolling_update: RollingUpdate = field(default_factory=RollingUpdate)
    apply: ApplyStrategy = ApplyStrategy()
    revision_history_limit: int = 10
    status_reporting_scope: str = CLUSTER_SCOPE_ONLY
    propagation_policy: str = DELETE
    accepts_old_names: bool = True

    @property
    def kind(self) -> str:
        """Kind in the API."""
        return "ResourcePlacement" if self.namespace else "ClusterResourcePlacement"

    @property
    def is_report_only(self) -> bool:
        """Whether differences are reported and nothing is applied."""
        return self.apply.type == REPORT_DIFF

    @property
    def effective_policy(self) -> Policy:
        """Policy; without one, all clusters are picked."""
        return self.policy or Policy()

    @property
    def placement_type(self) -> PlacementType:
        """Way to select clusters: PickAll, PickN or PickFixed."""
        return self.effective_policy.placement_type

    @property
    def number_of_clusters(self) -> int | None:
        """Number of clusters requested by a PickN; None if not set."""
        return self.effective_policy.number_of_clusters


class HubObjects(Struct, frozen=True):
    """Hub objects in text order.

    With `cluster_id` they are applied to that cluster directly.
    """

    manifests: tuple[Manifest, ...]
    cluster_id: str = ""


class JsonPatch(Struct, frozen=True):
    """Operation (add, remove or replace) at a JSON pointer; `value` is plain data."""

    operation: str
    path: str
    value: Any = None


class OverrideRule(Struct, frozen=True):
    """Changes for the clusters selected by any of `clusters`.

    An empty tuple selects every cluster, None none. `delete` means that the object
    is omitted there.
    """

    clusters: tuple[LabelSelector | None, ...] | None
    patches: tuple[JsonPatch, ...] = ()
    delete: bool = False


class FleetOverride(Struct, KeyedObject, frozen=True):
    """Override.

    `namespace` is "" for cluster objects; `placement` is the key of a placement ("": all).
    `snapshot` is the number of its snapshot on a hub.
    """

    name: str
    namespace: str
    placement: str
    selectors: tuple[ObjectSelector, ...]
    rules: tuple[OverrideRule, ...]
    snapshot: int = 0

    @property
    def kind(self) -> str:
        """Kind in the API."""
        return "ResourceOverride" if self.namespace else "ClusterResourceOverride"


class FleetDisruptionBudget(Struct, frozen=True):
    """Disruption budget; `placement` is the placement of the same name."""

    placement: str
    budget: PlacementDisruptionBudget


class FleetEviction(Struct, frozen=True):
    """Request to evict a placement from a cluster, once."""

    name: str
    placement: str
    cluster: str


class FleetUpdateStrategy(Struct, KeyedObject, frozen=True):
    """Staged update strategy; `namespace` is "" for those of cluster resource placements."""

    name: str
    stages: tuple[Stage, ...]
    namespace: str = ""


class FleetUpdateRun(Struct, frozen=True):
    """Staged update run.

    With `resource_index` None it uses the latest snapshot. `approvals` are the granted approval
    requests (`<run>-before-<stage>`, `<run>-after-<stage>`). Placement and strategy are in its
    `namespace` ("": cluster-scoped).
    """

    name: str
    placement: str
    strategy: str
    resource_index: int | None = None
    state: RunState = RunState.INITIALIZE
    approvals: frozenset[str] = frozenset()
    namespace: str = ""

    def build_key(self, name: str) -> str:
        """Return the key of an object in the run's namespace."""
        return format_object_key(self.namespace, name)


class RunRecord(Struct, frozen=True, omit_defaults=True):
    """Values fixed at the start of a run, recorded in state or read from a hub.

    A value is None if it is missing in older records. `picked` maps a cluster to positions in
    `overrides`. `done` are its finished clusters. `ended` means that it does not continue, with
    `failure` as the reason if it failed. `is_waiting` means that it waits for an unreachable
    member. `objects` are the titles of its objects.

    Source: KubeFleet pkg/controllers/updaterun/initialization.go.
    """

    policy_snapshot: int | None = None
    cluster_count: int | None = None
    resource_snapshot: int | None = None
    strategy: tuple[Stage, ...] | None = None
    stages: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    apply: ApplyStrategy | None = None
    overrides: tuple[FleetOverride, ...] | None = None
    picked: dict[str, tuple[int, ...]] | None = None
    done: tuple[str, ...] = ()
    ended: bool = False
    failure: str = ""
    is_waiting: bool = False
    objects: tuple[str, ...] = ()

    def build_note(self) -> dict[str, Any]:
        """Return the record as plain data.

        Fields with their default value are omitted.
        """
        fields: dict[str, Any] = json.decode(json.encode(self))
        return fields


class FleetApprovalRequest(Struct, frozen=True):
    """Approval request for a stage of a run."""

    name: str
    namespace: str
    run: str
    stage: str
    is_approved: bool = True

    @property
    def run_key(self) -> str:
        """Key of the run."""
        return format_object_key(self.namespace, self.run)


FleetObject: TypeAlias = (
    FleetMember
    | FleetPlacement
    | HubObjects
    | FleetOverride
    | FleetDisruptionBudget
    | FleetEviction
    | FleetUpdateStrategy
    | FleetUpdateRun
    | FleetApprovalRequest
)
