"""What a configuration says of a fleet: members, placements and what acts on them, as frozen records.

Read by domains/fleet/types/fleet_reading.py, planned by domains/fleet/planning/phase.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field, json

from nexusform.domains.fleet.scheduling.bindings import Health, PlacementType, Policy, ResourceUsage
from nexusform.domains.fleet.scheduling.eviction import DisruptionBudget
from nexusform.domains.fleet.scheduling.rollout import RollingUpdate
from nexusform.domains.fleet.scheduling.staged import RunState, Stage
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.kubernetes.matching import LabelSelector, Taint

ROLLING_UPDATE, EXTERNAL = "RollingUpdate", "External"
SERVER_SIDE_APPLY = "ServerSideApply"
REPORT_DIFF = "ReportDiff"
IF_NO_DIFF, NEVER = "IfNoDiff", "Never"
CLUSTER_SCOPE_ONLY, NAMESPACE_ACCESSIBLE = "ClusterScopeOnly", "NamespaceAccessible"
DELETE, ABANDON = "Delete", "Abandon"
MIRROR = "Mirror"
WITH_RESOURCES = "NamespaceWithResources"
ONLY_NAMESPACE = "NamespaceOnly"
WITH_SELECTED = "NamespaceWithResourceSelectors"


class FleetMember(Struct, frozen=True):
    """A member cluster as written. With `cluster_id` its figures follow from that cluster's nodes, and
    `properties` (its costs among them) are added; without, `properties` and `resources` are given.
    `apply_fails`: what placements bring is not applied there.
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
    """Objects of one kind: by name, by labels, or all of them ("" and None)."""

    group: str
    version: str
    kind: str
    name: str = ""
    labels: LabelSelector | None = None
    scope: str = WITH_RESOURCES

    @property
    def title(self) -> str:
        """The kind and what is asked of it, for people."""
        version = f"{self.group}/{self.version}" if self.group else self.version
        return f"{version} {self.kind} {self.name}".rstrip()


class ApplyStrategy(Struct, frozen=True):
    """How objects are applied, in the words of the API."""

    type: str = "ClientSideApply"
    comparison_option: str = "PartialComparison"
    when_to_apply: str = "Always"
    when_to_take_over: str = "Always"
    allow_co_ownership: bool = False
    force: bool = False


class FleetPlacement(Struct, frozen=True):
    """A placement as written. `namespace` is "" for a cluster resource placement; `policy` None = none
    written (PickAll). `report_back_to`: where the status of objects is mirrored ("" = nowhere).
    `old_names`: whether kubernetes.azure.com/node-count may stand for today's name.
    """

    name: str
    namespace: str = ""
    policy: Policy | None = None
    selectors: tuple[ObjectSelector, ...] = ()
    strategy: str = ROLLING_UPDATE
    rolling: RollingUpdate = field(default_factory=RollingUpdate)
    apply: ApplyStrategy = ApplyStrategy()
    revision_history_limit: int = 10
    status_reporting_scope: str = CLUSTER_SCOPE_ONLY
    propagation_policy: str = DELETE
    report_back_to: str = ""
    old_names: bool = True

    @property
    def report_diff(self) -> bool:
        """Whether differences are reported and nothing is applied."""
        return self.apply.type == REPORT_DIFF

    @property
    def key(self) -> str:
        """`<name>`, or `<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def kind(self) -> PlacementType:
        """How clusters are picked."""
        return self.policy.placement_type if self.policy else PlacementType.PICK_ALL

    @property
    def number(self) -> int | None:
        """N of a PickN."""
        return self.policy.number_of_clusters if self.policy else None


class HubObjects(Struct, frozen=True):
    """Objects on the hub, in the order of the text. With `cluster_id` they go to that cluster directly."""

    manifests: tuple[Manifest, ...]
    cluster_id: str = ""


class JsonPatch(Struct, frozen=True):
    """One operation (add, remove or replace) at a JSON pointer; `value` is plain data."""

    operation: str
    path: str
    value: Any = None


class OverrideRule(Struct, frozen=True):
    """Changes for the clusters that any of `clusters` selects; an empty tuple selects every cluster,
    None none. `delete`: the object is left out there.
    """

    clusters: tuple[LabelSelector | None, ...] | None
    patches: tuple[JsonPatch, ...] = ()
    delete: bool = False


class FleetOverride(Struct, frozen=True):
    """An override. `namespace` is "" for cluster objects; `placement` is the key of a placement ("" = every
    placement). `snapshot` is the number of the snapshot that a hub makes of it as it is written.
    """

    name: str
    namespace: str
    placement: str
    selectors: tuple[ObjectSelector, ...]
    rules: tuple[OverrideRule, ...]
    snapshot: int = 0

    @property
    def kind(self) -> str:
        """Its kind in the API."""
        return "ResourceOverride" if self.namespace else "ClusterResourceOverride"

    @property
    def key(self) -> str:
        """`<name>`, or `<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def snapshot_name(self) -> str:
        """The snapshot as bindings name it, a namespaced one after its namespace."""
        return f"{self.key}-{self.snapshot}"

    @property
    def snapshot_title(self) -> str:
        """The snapshot as a hub names it in a message."""
        return f'{self.kind}Snapshot "{self.name}-{self.snapshot}"'


class FleetBudget(Struct, frozen=True):
    """A disruption budget; `placement` is the placement of the same name."""

    placement: str
    budget: DisruptionBudget


class FleetEviction(Struct, frozen=True):
    """The wish to evict a placement from a cluster, once."""

    name: str
    placement: str
    cluster: str


class FleetStrategy(Struct, frozen=True):
    """A staged update strategy; `namespace` is "" for those of cluster resource placements."""

    name: str
    stages: tuple[Stage, ...]
    namespace: str = ""

    @property
    def key(self) -> str:
        """`<name>`, or `<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class FleetRun(Struct, frozen=True):
    """A staged update run. `resource_index` None = the latest. `approvals` are the approval requests that
    are granted (`<run>-before-<stage>`, `<run>-after-<stage>`). Placement and strategy are those of its
    `namespace` ("" = those of the cluster).
    """

    name: str
    placement: str
    strategy: str
    resource_index: int | None = None
    state: RunState = RunState.INITIALIZE
    approvals: frozenset[str] = frozenset()
    namespace: str = ""

    def key_of(self, name: str) -> str:
        """The key of an object of the run's namespace."""
        return f"{self.namespace}/{name}" if self.namespace else name


class BegunRun(Struct, frozen=True):
    """What a run fixed when it began, as state notes it and a hub shows it; what neither tells is
    None. `overrides` are by position those that each cluster of `picked` gets. `done` are the clusters that
    it has finished, `ended`: it goes no further.

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

    def note(self) -> dict[str, Any]:
        """As plain data, without what nothing tells."""
        fields: dict[str, Any] = json.decode(json.encode(self))
        # What is empty says something of what a run took along, and nothing of how far it is.
        silent = {"done": [], "ended": False}
        said = (item for item in fields.items() if item[1] is not None)
        return {name: value for name, value in said if name not in silent or value != silent[name]}


class FleetApproval(Struct, frozen=True):
    """An approval request: whether a stage of a run goes on."""

    name: str
    namespace: str
    run: str
    stage: str
    approved: bool = True

    @property
    def run_key(self) -> str:
        """The key of the run."""
        return f"{self.namespace}/{self.run}" if self.namespace else self.run


FleetObject: TypeAlias = (
    FleetMember
    | FleetPlacement
    | HubObjects
    | FleetOverride
    | FleetBudget
    | FleetEviction
    | FleetStrategy
    | FleetRun
    | FleetApproval
)
