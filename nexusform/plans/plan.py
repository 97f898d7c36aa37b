"""The plan: everything apply needs and everything a reviewer sees.

It is frozen data, without behaviour beyond counting.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import chain
from typing import Any, Final, Self

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Span, has_errors, select_errors
from nexusform.doubts.doubt import Doubt
from nexusform.doubts.findings import build_finding_doubts
from nexusform.doubts.ledger import DoubtLedger, PlacedPool, build_ledger
from nexusform.json_data.plain_data import Path, Refinements
from nexusform.placements.consequence_record import Consequence
from nexusform.placements.consequences import ConsequenceSeverity, DataFate
from nexusform.placements.prediction_scores import PredictionRecordScore
from nexusform.plans.machine_losses import MachineLoss
from nexusform.plans.maintenance import PlannedMachineAction, Upgrade
from nexusform.plans.numa_sampling import NumaSampling
from nexusform.plans.plan_checks import (
    EvaluationEnvironment,
    GuardRailResult,
    PlanOrigin,
    PreviousPlanDifferences,
    ProgramCheck,
)
from nexusform.plans.site_capacity.occupancy import Outage, SiteSkuCapacity, SiteVms
from nexusform.plans.site_capacity.site_resource_capacity import SiteResourceCapacity
from nexusform.resources.address import Address
from nexusform.scheduling.listing.site_listing import ListedSite
from nexusform.scheduling.placement_decision import ObjectLocation, PlacementCertainty, Rejection
from nexusform.schemas.value_types import DYNAMIC, Type
from nexusform.state.objects import ObjectState, OutputState


class Action(StrEnum):
    """Action on one object."""

    NO_OP = "no-op"
    CREATE = "create"
    READ = "read"
    UPDATE = "update"
    DELETE = "delete"
    REPLACE = "delete-create"
    REPLACE_CREATE_FIRST = "create-delete"
    FORGET = "forget"


class Mode(StrEnum):
    """Mode of a plan."""

    NORMAL = "normal"
    DESTROY = "destroy"
    REFRESH_ONLY = "refresh-only"


class Change(Struct, frozen=True):
    """Change of one object; every instance has one, no-ops too.

    `before`/`after` are plain data (None: does not exist; UNKNOWN scalars in `after`).
    `refined_after` holds the refinements of unknown parts of `after`. `reason` is OpenTofu's
    action_reason vocabulary ("replace_because_cannot_update", "delete_because_no_resource_config",
    ...), "" for none. `replace_paths` are the attributes that force a replacement: of the object,
    or under `update` of their pool. `prior_creation`/`creation` are the creation numbers of the old
    and the new object (equal if unchanged, 0 for none). `dependencies` is recorded in state.
    `deposed` is the key of a deposed object to delete. `source` is the block in the configuration
    (None if removed); `block` its header. `ignored_paths` are the paths of ignore_changes.
    `configured_paths` are the attributes set in the block, in text order, for changed objects; they
    only affect how differences are displayed. The state records `skip_destroy`, which stands for
    `destroy = false`.
    """

    address: Address
    action: Action
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    provider: str
    creation: int
    prior_creation: int
    sensitive_before: tuple[Path, ...] = ()
    sensitive_after: tuple[Path, ...] = ()
    refined_after: Refinements = ()
    replace_paths: tuple[Path, ...] = ()
    reason: str = ""
    previous_address: Address | None = None
    importing: str = ""
    deposed: str = ""
    dependencies: tuple[str, ...] = ()
    create_before_destroy: bool = False
    tainted_before: bool = False
    private: Mapping[str, Any] | None = None
    source: Span | None = None
    block: str = ""
    ignored_paths: tuple[Path, ...] = ()
    configured_paths: tuple[Path, ...] = ()
    skip_destroy: bool = False

    @property
    def id(self) -> str:
        """Id of the object, from the side that exists."""
        return str((self.after or self.before or {}).get("id", ""))

    @property
    def note(self) -> Mapping[str, Any]:
        """Private data of the object in state; empty without any."""
        return self.private or {}

    @property
    def is_unchanged(self) -> bool:
        """Whether apply leaves the object and its address as they are."""
        return self.action is Action.NO_OP and not self.previous_address and not self.importing


class StepKind(StrEnum):
    """Operation requested from the provider.

    `release` updates an unchanged object to its remaining VMs before other steps use
    their capacity; `forget` changes state only; `gate` does nothing and represents all
    steps it waits for.
    """

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RELEASE = "release"
    FORGET = "forget"
    GATE = "gate"


class Step(Struct, frozen=True):
    """One step of apply: `change` indexes Plan.changes; `waits_for` are ids of steps.

    `prior` and `planned` are the provider's input (None: does not exist). `follows` are ids of
    steps to end first, with any result.
    """

    id: int
    kind: StepKind
    change: int
    waits_for: tuple[int, ...]
    prior: Mapping[str, Any] | None
    planned: Mapping[str, Any] | None
    follows: tuple[int, ...] = ()

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes of the object after the step, or before its removal.

        They are empty for a step without an object (gate).
        """
        return (self.prior or {}) if self.planned is None else self.planned


class PlacementAction(StrEnum):
    """Action on a VM, binding or pod.

    `host_lost`: its host is removed. `forget`: it runs on, unmanaged.
    """

    PLACE = "place"
    MOVE = "move"
    REMOVE = "remove"
    KEEP = "keep"
    UPDATE = "update"
    LOSE = "host_lost"
    FORGET = "forget"


# The reason of `forget` rows, for any trigger.
# Score of a row with the reason of its doubt.
_DOUBT: Final = "depends_on"
FORGOTTEN_REASON: Final = "it keeps running, unmanaged"


class PlacementChange(Struct, frozen=True):
    """Placement change of one object (a VM, or an object of a domain's kind).

    `source` and `target` are its locations before and after: of a VM its placement, of a binding
    the binding itself. `cluster` and `pool` group rows; `number` orders them. `reason` is a
    sentence, `scores` the deciding figures (ordered names to values), `rejections` the rejected
    candidates (filled only on request). Bindings of rollouts have their `stage` in a staged run,
    their `group` in it (of a rolling update the wave; from 1, 0: none) and the `waits_for`
    condition. `platform_name` is the platform's own name of an existing VM, "" if unknown.
    `chosen_by` is the platform that chooses which VMs of a pool to remove, "" if the configuration
    names them: this VM is then one possibility. A VM that is kept has it, too, if the platform may
    remove it instead. A removed binding that `leaves_objects` deletes nothing on its cluster.
    """

    address: Address
    kind: str
    object: str
    action: PlacementAction
    source: ObjectLocation | None
    target: ObjectLocation | None
    trigger: str
    cluster: str = ""
    pool: str = ""
    number: int | str = 0
    sku: str = ""
    site_id: str = ""
    reason: str = ""
    scores: Mapping[str, Any] = field(default_factory=dict)
    certainty: PlacementCertainty | None = None
    provenance: str = "predicted"
    rejections: tuple[Rejection, ...] = ()
    stage: str = ""
    group: int = 0
    waits_for: str = ""
    platform_name: str = ""
    chosen_by: str = ""
    leaves_objects: bool = False

    @property
    def origin(self) -> ObjectLocation | None:
        """Location before the plan for reports; None if the platform chooses the removed VM."""
        return None if self.is_chosen_removal else self.source

    @property
    def doubt(self) -> str:
        """What its result depends on, "" if it is certain or not known to be uncertain."""
        return str(self.scores.get(_DOUBT) or "")

    def add_doubt(self, doubt: Doubt) -> Self:
        """Return the row as an uncertain one, for the reason of a doubt."""
        return replace(self, scores={**self.scores, "certain": False, _DOUBT: doubt.reason})

    @property
    def is_chosen_removal(self) -> bool:
        """Whether it stands for a VM to remove that the platform chooses."""
        return bool(self.chosen_by) and self.target is None


class PlacementTotal(Struct, frozen=True):
    """Totals of all objects of a kind.

    Every object of `before` counts in exactly one of the next six fields. `after` is the number of
    managed objects with a location: unchanged, moved, recreated and added.
    """

    kind: str
    before: int = 0
    unchanged: int = 0
    moved: int = 0
    recreated: int = 0
    removed: int = 0
    host_lost: int = 0
    forgotten: int = 0
    added: int = 0
    after: int = 0


class RolloutStep(Struct, frozen=True):
    """Step of a rollout: clusters updated or deleted together, an approval, or a wait.

    `kind` is "update", "delete", "approval" or "wait"; `group` counts from 1 in its stage (0:
    none). `start_seconds` is the earliest start in seconds after the beginning, as far as waits
    determine it. `waits_for` is the approval itself, and of clusters the condition between them and
    the previous ones. `status` is "done" before this plan, "planned" in it, "waiting" for an
    approval, "stuck" because a cluster of it fails, or "later".
    """

    kind: str
    stage: str
    group: int
    clusters: tuple[str, ...] = ()
    start_seconds: float = 0
    wait_seconds: float = 0
    waits_for: str = ""
    status: str = "planned"


class Rollout(Struct, frozen=True):
    """Distribution of a resource snapshot to the clusters of a placement.

    `cause` describes the trigger. `previous_snapshot` is one that the hub may distribute instead,
    or None if the snapshot is certain.
    """

    address: Address
    cause: str
    resource_snapshot: int | None
    steps: tuple[RolloutStep, ...]
    previous_snapshot: int | None = None


class FeasibilityResult(StrEnum):
    """Whether the pods of a binding run on its cluster.

    They run now, after more nodes, once a missing object exists, not as the API server rejects
    them, never, or it is not known.
    """

    RUNS = "runs"
    RUNS_AFTER = "runs_after"
    WAITS = "waits"
    REJECTED = "rejected"
    CANNOT_RUN = "cannot_run"
    UNKNOWN = "unknown"


class LossEffect(Struct, frozen=True):
    """Effect of the worst loss of one machine or rack.

    `waiting_pods` of the binding have no node then. `lost` is that machine or rack, "" if no loss
    leaves a pod waiting.
    """

    lost: str = ""
    waiting_pods: int = 0


class MissingObject(Struct, frozen=True):
    """Object that pods of a binding name and its cluster lacks, or one `key` of it.

    `namespace` is "" for a cluster-scoped kind, `key` for the whole object.
    """

    kind: str
    namespace: str
    name: str
    key: str = ""


class Feasibility(Struct, frozen=True):
    """Feasibility of one binding: all pods of the plan on its cluster, existing ones included.

    `missing_nodes` of `pool` are needed for `runs_after`, else None; if of several pools, `pool`
    is "" and `missing_by_pool` has each. `site_capacity` is "yes" if the site has capacity for
    them, else "no" or "unknown". `replicas_max` is the number of pods of the placement's
    workloads able to run (None: not known). `one_machine_down` and `one_rack_down` are None if
    not computed, or if the machines are not known. `is_selected` is False for a cluster rejected
    by the placement, counted as if it alone were added. `suggested_fixes` are tested, with kind,
    text and edits. `missing` are the objects for which pods wait, and `by` is the admission
    plugin that rejects pods.
    """

    placement: Address
    cluster: str
    result: FeasibilityResult
    missing_nodes: int | None = None
    pool: str = ""
    missing_by_pool: Mapping[str, int] = {}
    site_capacity: str = "unknown"
    reason: str = ""
    replicas_requested: int = 0
    replicas_max: int | None = None
    is_certain: bool = False
    one_machine_down: LossEffect | None = None
    one_rack_down: LossEffect | None = None
    is_selected: bool = True
    suggested_fixes: tuple[Mapping[str, Any], ...] = ()
    missing: tuple[MissingObject, ...] = ()
    by: str = ""

    @property
    def is_waiting(self) -> bool:
        """Whether the placement selects the cluster and some of its pods do not run there.

        Such pods are known even with the result UNKNOWN if `replicas_max` is known: then only the
        number of missing nodes is unknown.
        """
        is_known = self.result is not FeasibilityResult.UNKNOWN or self.replicas_max is not None
        return self.is_selected and self.result is not FeasibilityResult.RUNS and is_known

    @property
    def missing_pools(self) -> Mapping[str, int]:
        """Number of missing nodes by pool, {} for none.

        `missing_nodes` is the number for the only pool.
        """
        return self.missing_by_pool or (
            {self.pool: self.missing_nodes} if self.missing_nodes else {}
        )


class RejectedCluster(Struct, frozen=True):
    """Cluster rejected by a placement, with the scheduler's reason."""

    address: Address
    cluster: str
    reason: str


class ContentEffect(StrEnum):
    """Effect of a plan on an object of a cluster.

    `stopped`: the workload stays, without pods. `scaled_in`: it has fewer pods. `rolled_out`: its
    pods are re-created. `left`: its placement ends or leaves the cluster, and the object is deleted
    there. `stays`: its placement ends or leaves the cluster, and the object stays, unmanaged.
    `overridden`: a changed override gives it another value. `loses_data`: its local volume is on a
    node that is re-created or removed.
    """

    REMOVED = "removed"
    STOPPED = "stopped"
    SCALED_IN = "scaled_in"
    ROLLED_OUT = "rolled_out"
    LEFT = "left"
    STAYS = "stays"
    OVERRIDDEN = "overridden"
    LOSES_DATA = "loses_data"
    WEAKENED = "weakened"


class ContentChange(Struct, frozen=True):
    """Object on a cluster that a plan removes, or whose pods it ends or re-creates.

    `object` is its title: `Deployment web/api`. `pods` counts the affected pods, of the placement
    kind `pod_kind`; "" for an object without pods. A DaemonSet has 0, because its nodes may be
    unknown. `has_rows` means that its pods have placement rows, too. Their pool is `workload`, the
    cluster and the workload: `a/web/Deployment/api`; their site is `site_id`. `severity` and `data`
    are those of the object's end, by its kind and by what uses it. `extent` is what ends with it:
    `everything in it`; of lost data, what happens to the node; of a weakened limit, its
    change. `remaining` pods of a smaller
    workload stay. An overridden value has the key of its override, the JSON pointer in the object
    ("": the object itself), and the value before and after (None: absent).
    """

    address: Address
    cluster: str
    object: str
    effect: ContentEffect
    pod_kind: str = ""
    pods: int = 0
    has_rows: bool = False
    override: str = ""
    path: str = ""
    before: Any = None
    after: Any = None
    workload: str = ""
    site_id: str = ""
    severity: ConsequenceSeverity = ConsequenceSeverity.LASTING
    data: DataFate | None = None
    extent: str = ""
    remaining: int = 0

    @property
    def is_loss(self) -> bool:
        """Whether the object, or everything it runs, ends."""
        return self.effect in (ContentEffect.REMOVED, ContentEffect.STOPPED)

    @property
    def leaves_cluster(self) -> bool:
        """Whether its placement ends or leaves the cluster."""
        return self.effect in (ContentEffect.LEFT, ContentEffect.STAYS)

    @property
    def is_end(self) -> bool:
        """Whether the object, or a part of its pods, ends or leaves: its severity is known."""
        return self.is_loss or self.leaves_cluster or self.effect is ContentEffect.SCALED_IN

    @property
    def ends_workload(self) -> bool:
        """Whether a workload has no pods afterwards."""
        return bool(self.pod_kind) and self.is_loss


class PlacementTable(Struct, frozen=True):
    """One row of the Nexus document's tables: a pool and its distribution over racks.

    `expected_vms_per_rack` is (floor, ceiling) of placed / expected racks; `actual_vms_per_rack`
    maps rack name to count, racks with at least one VM, by name. `racks_certain` and
    `machines_certain` count the VMs placed by this plan (`placed`) with the same rack / machine in
    every sample; `certain_racks` are the racks with the same count in all samples. `tied_set` is
    the number of the set of machines in `SiteTies` that the rule allows for VMs of the pool, -1 for
    none. A plan that was not saved has `tied_classes` instead, a hexadecimal number with a bit per
    class. Plan files of earlier versions have these or the names, `tied_machines`. Placements with
    provenance `decided` (VNFs) depend on no sample. `possible_vms_per_rack` has the fewest and
    the most VMs of each rack after a scale-in, if the platform chooses the VMs to remove.
    `drain_timeout` is the maximum drain time of a node in seconds; 0 for a control plane and for
    VMs that are no nodes. `platform` chooses the machines, "" for Azure. `doubt` is a clause on
    orders of arrival there that were not tried, "" if all were.
    """

    address: Address
    site_id: str
    cluster: str
    pool: str
    vm_sku_name: str
    total_count: int
    expected_racks: int
    actual_racks: int
    expected_vms_per_rack: tuple[int, int]
    actual_vms_per_rack: Mapping[str, int]
    placed: int = 0
    racks_certain: int = 0
    machines_certain: int = 0
    certain_racks: tuple[str, ...] = ()
    tied_set: int = -1
    tied_classes: str = ""
    tied_machines: tuple[str, ...] = ()
    is_tie_certain: bool = False
    minimum_remaining_on_rack: int | None = None
    possible_vms_per_rack: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    provenance: str = "predicted"
    drain_timeout: int = 0
    platform: str = ""
    doubt: str = ""

    @property
    def rack_names(self) -> Iterable[str]:
        """Racks that have a VM of the pool after the plan, or may have one."""
        return self.possible_vms_per_rack or self.actual_vms_per_rack

    @property
    def rack_counts(self) -> Mapping[str, tuple[int, int]]:
        """The fewest and the most VMs of each rack."""
        return self.possible_vms_per_rack or {
            rack: (count, count) for rack, count in self.actual_vms_per_rack.items()
        }

    @property
    def placed_pool(self) -> PlacedPool:
        """Pool for the ledger of doubts."""
        is_decided = self.provenance == "decided"
        return PlacedPool(
            self.site_id, str(self.address), self.pool, is_decided=is_decided, untried=self.doubt
        )


class SiteTies(Struct, frozen=True):
    """Machines of a site that the rule allows for some pool, in site order.

    `classes` has the class of each machine. Machines of one class are tied for the same pools.
    `sets` are the different sets of classes, each as its difference to an earlier one
    (saved/tied_machines.py). A plan that was not saved has none, and all machines of the site.
    """

    site_id: str
    machines: tuple[str, ...]
    classes: tuple[int, ...]
    sets: tuple[str, ...] = ()

    @property
    def class_count(self) -> int:
        """Number of classes."""
        return max(self.classes, default=-1) + 1


def is_fully_decided(tables: Iterable[PlacementTable]) -> bool:
    """Return whether nexusform decides the location of every placed VM, and predicts none.

    Return False without placed VMs.
    """
    return {table.provenance for table in tables if table.placed} == {"decided"}


class Drift(Struct, frozen=True):
    """Object changed outside nexusform; `after` None: it was deleted."""

    address: Address
    before: Mapping[str, Any]
    after: Mapping[str, Any] | None
    sensitive: tuple[Path, ...] = ()
    relevant: bool = True


class Reversal(StrEnum):
    """What a plan does to a change made outside: create the object again, or set it back."""

    CREATES = "creates"
    SETS_BACK = "sets_back"


class OutsideChange(Struct, frozen=True):
    """Object changed outside of nexusform that a plan reverts.

    `arguments` are its changed arguments: `kubernetes_version 1.30.3 -> 1.31.5`; none for a deleted
    object.
    """

    address: Address
    name: str
    reversal: Reversal
    arguments: tuple[str, ...] = ()


class OutputChange(Struct, frozen=True):
    """Root output before and after; `after` is None with action delete.

    `type` is that of the value after, or of a deleted one; `before_type` is that in state.
    """

    name: str
    action: Action
    before: Any
    after: Any
    type: Type
    sensitive: bool
    before_type: Type = DYNAMIC


class VariableValue(Struct, frozen=True):
    """Root variable as used by the plan."""

    value: Any
    type: Type
    sensitive: bool = False
    is_set: bool = True


class CheckResult(Struct, frozen=True):
    """Worst status (pass, fail, error, unknown) of conditions.

    `messages` and `positions` are those of conditions that do not hold.
    """

    kind: str
    address: str
    status: str
    messages: tuple[str, ...] = ()
    positions: tuple[Span, ...] = ()


class InventoryRead(Struct, frozen=True):
    """Inventory used by the plan.

    `address` is that of the data source, or the provider and the site; `exported_at` the time of
    its figures (RFC 3339, "" if unknown). `is_stale` means that at planning time it was older than
    its `max_age` (default: a day), or of unknown age. `is_newest_change` means that the export has
    no time, and this is that of its newest change.
    """

    address: str
    exported_at: str
    is_stale: bool = False
    is_newest_change: bool = False


class PlanInputs(Struct, frozen=True):
    """Inputs of a plan besides its configuration text and state.

    `commit` is that of the work tree, "" if unknown. `files` are those read by functions and
    `data_files` those read by data sources: SHA-256 by path. `states` are the versions of the
    states of other configurations, by the address of the data block. `answers` are server responses
    to data sources, by question: re-planning uses the same. `evaluation` is None if unknown, and
    `allowed_prefixes` are the allowed address prefixes: re-evaluation has the same.
    `ephemeral_variables` were set; apply needs them again. `variable_files` are the files with
    values of variables, SHA-256 by path (None: not recorded). `origin` is None in plans of earlier
    versions. `max_age` is the maximum age at apply in seconds, 0 for none. `allows_older_export`
    means that an inventory may be older than that of the last apply. `after_merge` is what a merge
    of the change does, as the pipeline says: `apply`, `wave:N`, `none`, "" if it does not say.
    `is_external` means that another tool applies the change. `searches` are digests of the results
    of `fileexists` and `fileset`, by the call.
    """

    commit: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    data_files: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    evaluation: EvaluationEnvironment | None = None
    allowed_prefixes: tuple[str, ...] = ()
    ephemeral_variables: tuple[str, ...] = ()
    variable_files: Mapping[str, str] | None = None
    origin: PlanOrigin | None = None
    max_age: float = 0
    allows_older_export: bool = False
    after_merge: str = ""
    is_external: bool = False
    searches: Mapping[str, str] = field(default_factory=dict)


class SeparationViolation(Struct, frozen=True):
    """Hardware shared by two groups of a separation rule; `rack`, `machine` may be "".

    `members` are the VMs and pods there, in placement order; `violating_member` is the first of a
    second group, `trigger` that of its placement ("": it exists already), `reason` the one for this
    location. `sample` is the seed of the violated sample, None for the plan.
    """

    site_id: str
    rack: str
    machine: str
    members: tuple[str, ...]
    violating_member: str
    trigger: str
    reason: str
    sample: int | None = None


class SeparationVerdict(Struct, frozen=True):
    """Verdict on a separation rule.

    `satisfied` is "always", "sometimes" or "never" over the plan and `sample_count` samples, of
    which `satisfied_count` meet it. `violations` are those of the plan, or of the first sample with
    one. Without any, it is "unknown" if there are `unchecked` members: a reason for each kind.
    """

    address: Address
    scope: str
    enforcement: str
    satisfied: str
    violations: tuple[SeparationViolation, ...] = ()
    sample_count: int = 0
    satisfied_count: int = 0
    unchecked: tuple[str, ...] = ()


# In a site's private note: the prediction scores by rack_spread.
PREDICTION_KEY: Final = "prediction"
# A hub, a site.
NOT_READ_IDS: Final = frozenset({"plan-from-state", "site-not-captured"})
# Objects planned as recorded in the state.
NOT_REFRESHED_IDS: Final = NOT_READ_IDS | {"state-not-refreshed"}


class SitePredictionAccuracy(Struct, frozen=True):
    """Prediction accuracy of a site, from the last replay of its history.

    `hits` is the number of VMs predicted correctly, of the `verified_count` VMs that could be
    verified. `certain_hits` of them are independent of unknown NUMA cells; None if not counted.
    `random_hits` is the number of hits expected of a random platform. `predictions` are the
    verified predictions of earlier plans, `not_verified` describes results the last apply could not
    read. `date` is that of the replay, "" in states of earlier versions.
    """

    site: str
    hits: int
    verified_count: int
    unverified_count: int
    certain_hits: int | None = None
    random_hits: float | None = None
    predictions: PredictionRecordScore | None = None
    not_verified: str = ""
    date: str = ""


class PlannedOptions(Struct, frozen=True):
    """Options of the plan, for the checks at apply."""

    mode: Mode = Mode.NORMAL
    workspace: str = "default"
    targets: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()


class PlanStart(Struct, frozen=True):
    """State version from which a plan starts, and when and by which version it was made.

    `lineage` is "" for a first plan; `serial` is the prior state's. `catalogue` is the SKU
    catalogue's version.
    """

    lineage: str = ""
    serial: int = 0
    prior_digest: str = ""
    catalogue: str = ""
    timestamp: str = ""
    nexusform_version: str = ""


class Observations(Struct, frozen=True):
    """What was read of the real systems, and what was not.

    `refreshed_objects` holds objects as read by the providers if they differ from state (None:
    missing). `observed_attributes` are attributes of objects shown by data sources, which replace
    those in state. `start_values` are what providers read for the changes, by address, in their own
    formats: apply compares them before each write. `site_facts` are what providers read of whole
    sites besides attributes, such as creation times: by provider and fact. `providers` holds the
    identity of the systems behind the providers, `provider_titles` describe them. `inventories` are
    those read by data sources. `listed` are the sites that differ from what their platform lists.
    `unread` are the doubts of documents that nexusform does not read in full. `missing_data` names
    facts outside of an export for changed objects.
    """

    refreshed_objects: Mapping[Address, ObjectState | None] = field(default_factory=dict)
    drift: tuple[Drift, ...] = ()
    observed_attributes: Mapping[Address, Mapping[str, Any]] = field(default_factory=dict)
    start_values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    site_facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    provider_titles: tuple[str, ...] = ()
    inventories: tuple[InventoryRead, ...] = ()
    listed: tuple[ListedSite, ...] = ()
    unread: tuple[Doubt, ...] = ()
    missing_data: tuple[str, ...] = ()


class RootValues(Struct, frozen=True):
    """Variables and outputs of the root module.

    `planned_outputs` are the outputs after, `refined_outputs` the refinements of unknown parts of
    them.
    """

    variables: Mapping[str, VariableValue] = field(default_factory=dict)
    outputs: tuple[OutputChange, ...] = ()
    planned_outputs: Mapping[str, OutputState] = field(default_factory=dict)
    refined_outputs: Mapping[str, Refinements] = field(default_factory=dict)


class PlacementFigures(Struct, frozen=True):
    """Figures of the placements: totals, and how certain they are.

    `placement_totals` cover every object of the prior state, by kind. `unchanged_count` counts
    unchanged objects, with and without a row. `samples` is the number of samples behind the
    certainty (0: none), `numa_sampling` the dependency on unknown NUMA cells (None: none).
    `site_ties` hold the machines of `tied_set`.
    """

    placement_tables: tuple[PlacementTable, ...] = ()
    placement_totals: tuple[PlacementTotal, ...] = ()
    unchanged_count: int = 0
    samples: int = 0
    numa_sampling: NumaSampling | None = None
    site_ties: tuple[SiteTies, ...] = ()
    prediction_scores: tuple[SitePredictionAccuracy, ...] = ()


class SiteRecords(Struct, frozen=True):
    """VM locations and spare capacity.

    They are empty until `planning.conclusion.site_records` fills them, the last stage of planning.
    """

    sites: tuple[SiteVms, ...] = ()
    capacity: tuple[SiteSkuCapacity, ...] = ()
    other_capacity: tuple[SiteResourceCapacity, ...] = ()


class PlanImpact(Struct, frozen=True):
    """What a plan interrupts, ends or reverts.

    `consequences` are filled with the sites, and so are the `outside_changes` that it reverts.
    """

    upgrades: tuple[Upgrade, ...] = ()
    machine_actions: tuple[PlannedMachineAction, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    outside_changes: tuple[OutsideChange, ...] = ()


class WorkloadResults(Struct, frozen=True):
    """Rollouts of placements, and what becomes of the workloads on clusters.

    `content_changes` are objects that placements remove from clusters, or whose pods they change.
    `feasibility` has a row per binding of a placement with pods; for `untested_bindings` of a large
    plan, no fix was tested.
    """

    rollouts: tuple[Rollout, ...] = ()
    rejected_clusters: tuple[RejectedCluster, ...] = ()
    content_changes: tuple[ContentChange, ...] = ()
    feasibility: tuple[Feasibility, ...] = ()
    untested_bindings: int = 0


class PlanVerdicts(Struct, frozen=True):
    """Results of checks of the plan.

    `guard_rails` are the results of the limits of `-fail-on`, `checks_by` the checks by real
    programs. `disabled_rules` are lint rules disabled by the configuration; the others ran if
    `is_linted`. `dry_run_messages` are the results of server-side dry runs. `since` compares with
    an earlier plan (None: none). `rejected` are the addresses of changes rejected by their
    provider, if a plan has no other error.
    """

    checks: tuple[CheckResult, ...] = ()
    separation_verdicts: tuple[SeparationVerdict, ...] = ()
    guard_rails: tuple[GuardRailResult, ...] = ()
    checks_by: tuple[ProgramCheck, ...] = ()
    disabled_rules: tuple[str, ...] = ()
    is_linted: bool = False
    dry_run_messages: tuple[str, ...] = ()
    since: PreviousPlanDifferences | None = None
    rejected: tuple[str, ...] = ()


class Plan(Struct, frozen=True):
    """A complete plan: what changes and where, and a record per further subject.

    `address_moves` are pairs of an old address and a new one. `basis` has the inputs that may
    change until apply.
    """

    changes: tuple[Change, ...] = ()
    steps: tuple[Step, ...] = ()
    placements: tuple[PlacementChange, ...] = ()
    address_moves: tuple[tuple[Address, Address], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    errored: bool = False
    basis: PlanInputs = PlanInputs()
    options: PlannedOptions = PlannedOptions()
    start: PlanStart = PlanStart()
    observed: Observations = Observations()
    root_values: RootValues = RootValues()
    figures: PlacementFigures = PlacementFigures()
    site_records: SiteRecords = SiteRecords()
    impact: PlanImpact = PlanImpact()
    workloads: WorkloadResults = WorkloadResults()
    verdicts: PlanVerdicts = PlanVerdicts()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of a hypothetical plan; () for every other plan."""
        return ()

    @property
    def outages(self) -> tuple[Outage, ...]:
        """Outages of machines in a hypothetical plan; () for every other plan."""
        return ()

    @property
    def losses(self) -> tuple[MachineLoss, ...]:
        """Losses of machines in a hypothetical plan, by site; () for every other plan."""
        return ()

    @property
    def is_hypothetical(self) -> bool:
        """Whether it is a HypotheticalPlan."""
        return isinstance(self, HypotheticalPlan)

    def add_site_ties(self, classes: Mapping[str, Mapping[str, int]]) -> Self:
        """Return the plan with the class of each machine, by site and name in site order."""
        site_ties = tuple(
            SiteTies(site_id, tuple(class_by_machine), tuple(class_by_machine.values()))
            for site_id, class_by_machine in classes.items()
            if class_by_machine
        )
        return replace(self, figures=replace(self.figures, site_ties=site_ties))

    def reject_assumptions(self) -> None:
        """Raise TypeError for a hypothetical plan, before it would be saved or applied."""
        if self.is_hypothetical:
            raise TypeError("A hypothetical plan cannot be saved or applied.")

    @property
    def ledger(self) -> DoubtLedger:
        """Ledger of the doubts, which decides what is certain."""
        pools = (table.placed_pool for table in self.figures.placement_tables if table.placed)
        listed = chain.from_iterable(site.list_doubts() for site in self.observed.listed)
        return build_ledger(
            self.observed.unread, pools, (*listed, *build_finding_doubts(self.diagnostics))
        )

    @property
    def shrunk_pools(self) -> frozenset[tuple[str, str]]:
        """Pools (address, name) of which the platform chooses the VMs to remove."""
        return frozenset((str(row.address), row.pool) for row in self.placements if row.chosen_by)

    @property
    def uncertain_vms(self) -> int:
        """Number of placed VMs whose hosts an unread fact may change."""
        ledger = self.ledger
        return sum(
            table.placed
            for table in self.figures.placement_tables
            if not ledger.has_certain_hosts(table.placed_pool)
        )

    @property
    def is_failed(self) -> bool:
        """Whether planning itself failed.

        A plan with changes rejected by a provider (`rejected`) is complete.
        """
        return self.errored and not self.verdicts.rejected

    def count(self, *actions: Action) -> int:
        """Count the changes with one of these actions."""
        return sum(change.action in actions for change in self.changes)

    @property
    def reported_changes(self) -> tuple[Change, ...]:
        """Changes in reports: those with an action, an import or a move."""
        return tuple(change for change in self.changes if not change.is_unchanged)

    @property
    def to_add(self) -> int:
        """Number of objects to add, for the `Plan:` line."""
        return self.count(Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)

    @property
    def to_change(self) -> int:
        """Number of objects to change, for the `Plan:` line."""
        return self.count(Action.UPDATE)

    @property
    def to_destroy(self) -> int:
        """Number of objects to destroy, for the `Plan:` line."""
        return self.count(Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)

    @property
    def placed_vms(self) -> int:
        """Number of VMs with a new location."""
        return sum(table.placed for table in self.figures.placement_tables)

    @property
    def lost_unmanaged_count(self) -> int:
        """Number of unmanaged VMs that lose their machine; they have no row."""
        return sum(site.lost_unmanaged_count for site in self.site_records.sites)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """Errors among the diagnostics."""
        return tuple(select_errors(self.diagnostics))

    @property
    def is_rejected(self) -> bool:
        """Whether the plan may not be applied: it has errors, or breaks a guard rail."""
        return self.errored or has_errors(self.diagnostics)

    @property
    def is_from_state(self) -> bool:
        """Whether nothing was read of the hub or of a site: changes made there are unknown."""
        return any(diagnostic.id in NOT_READ_IDS for diagnostic in self.diagnostics)

    @property
    def has_unread_objects(self) -> bool:
        """Whether objects are planned as recorded in the state because nothing was read of them."""
        return any(diagnostic.id in NOT_REFRESHED_IDS for diagnostic in self.diagnostics)

    @property
    def has_changes(self) -> bool:
        """Whether applying would change anything.

        A change is one of an object, address, output, placement of observed objects,
        or recorded fact.
        """
        output_actions = {output.action for output in self.root_values.outputs}
        if self.reported_changes or output_actions - {Action.NO_OP}:
            return True
        changed_addresses = {
            row.address for row in self.placements if row.action is not PlacementAction.KEEP
        }
        if not changed_addresses.isdisjoint(self.observed.observed_attributes):
            return True
        # Objects changed outside are to be recorded.
        return self.options.mode is Mode.REFRESH_ONLY and bool(self.observed.refreshed_objects)


# Records of a plan by field: a plan file has the fields of all of them side by side.
PLAN_PARTS: Final[Mapping[str, type[Struct]]] = {
    "options": PlannedOptions,
    "start": PlanStart,
    "observed": Observations,
    "root_values": RootValues,
    "figures": PlacementFigures,
    "site_records": SiteRecords,
    "impact": PlanImpact,
    "workloads": WorkloadResults,
    "verdicts": PlanVerdicts,
}


class HypotheticalPlan(Plan, frozen=True):
    """Plan under assumptions, only for display: it is never saved, signed or applied.

    `outages` are those of machines that return with their VMs, `losses` those of lost machines.
    """

    assumptions: tuple[str, ...] = ()
    outages: tuple[Outage, ...] = ()
    losses: tuple[MachineLoss, ...] = ()


def build_hypothetical_plan(
    plan: Plan, assumptions: Iterable[str], outages: Iterable[Outage] = ()
) -> HypotheticalPlan:
    """Return a plan as a hypothetical one with these assumptions and outages."""
    fields = {name: getattr(plan, name) for name in Plan.__struct_fields__}
    return HypotheticalPlan(**fields, assumptions=tuple(assumptions), outages=tuple(outages))
