"""The plan: everything apply needs and everything a reviewer sees. Frozen data, no behaviour
beyond counting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, has_errors
from nexusform.forecasts import Score
from nexusform.plain_data import Path, Refined
from nexusform.plans.room.occupancy import SiteRoom, SiteVms
from nexusform.plans.room.other_room import OtherRoom
from nexusform.scheduling.decision import Certainty, Place, Refusal
from nexusform.source import Span
from nexusform.state.objects import ObjectState, OutputState
from nexusform.value_types import Type


class Action(StrEnum):
    """What happens to one object."""

    NO_OP = "no-op"
    CREATE = "create"
    READ = "read"
    UPDATE = "update"
    DELETE = "delete"
    REPLACE = "delete-create"
    REPLACE_CREATE_FIRST = "create-delete"
    FORGET = "forget"


class Mode(StrEnum):
    """What kind of plan it is."""

    NORMAL = "normal"
    DESTROY = "destroy"
    REFRESH_ONLY = "refresh-only"


class Change(Struct, frozen=True):
    """One object's change; every instance has one, no-ops too.

    `before`/`after` are plain data (None: does not exist; UNKNOWN leaves in `after`).
    `refined_after` says what is known of unknown parts of `after`.
    `reason` is OpenTofu's action_reason vocabulary ("replace_because_cannot_update",
    "delete_because_no_resource_config", ...), "" when there is none; `replace_paths` are the
    attributes that force a replacement: of the object, or under `update` of the pool they stand in.
    `prior_creation`/`creation` are the creation numbers of the old and the new object (equal when
    kept, 0 when there is none). `dependencies` is what state will record.
    `deposed` is the key of a deposed object that is deleted. `source` is the
    block in the configuration (None when it is gone); `block` its header. `ignored` are the paths that
    ignore_changes leaves to others. `written` are the places that the block writes out, in the order of the
    text, where an object changes: so its differences are told.
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
    refined_after: Refined = ()
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
    ignored: tuple[Path, ...] = ()
    written: tuple[Path, ...] = ()

    @property
    def id(self) -> str:
        """The object's id, from whichever side exists."""
        return str((self.after or self.before or {}).get("id", ""))


class StepKind(StrEnum):
    """What a step asks of the provider. `release` updates a kept object to its remaining VMs
    before anything takes the room they leave; `forget` touches state only; `gate` does nothing:
    it stands for all the steps it waits for.
    """

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RELEASE = "release"
    FORGET = "forget"
    GATE = "gate"


class Step(Struct, frozen=True):
    """One thing apply does: `change` indexes Plan.changes; `waits_for` are ids of steps.

    `prior` and `planned` are what the provider is given (None: does not exist). `main` marks the
    steps that count in the `Apply complete!` line.
    """

    id: int
    kind: StepKind
    change: int
    waits_for: tuple[int, ...]
    prior: Mapping[str, Any] | None
    planned: Mapping[str, Any] | None
    main: bool = True


class PlacementAction(StrEnum):
    """What happens to one VM, binding or pod.

    `lose_machine`: nothing is asked of it, and what it stands on goes. `forget`: it runs on where it is,
    and nobody manages it any more.
    """

    PLACE = "place"
    MOVE = "move"
    REMOVE = "remove"
    KEEP = "keep"
    UPDATE = "update"
    LOSE = "lose_machine"
    FORGET = "forget"


# The reason of such rows, whatever triggers them.
FORGOTTEN: Final = "it runs on, and nobody manages it any more"


class PlacementChange(Struct, frozen=True):
    """One thing that is placed (a VM, or of a domain's kind) and where it goes.

    `source` and `target` are where it is before and after: of a VM its placement, of a binding the binding
    itself. `cluster` and `pool` group rows; `number` orders them. `reason` is a sentence,
    `scores` what decided (ordered names to values), `rejected` the refused candidates (filled
    only on request). Bindings of rollouts say when it is their turn: the stage of a staged run, the group in
    it (of a rolling update the wave; from 1, 0: none), and what is waited for before that. `platform_name` is
    the platform's own name of the VM that stands, "" where it told none.
    """

    address: Address
    kind: str
    object: str
    action: PlacementAction
    source: Place | None
    target: Place | None
    trigger: str
    cluster: str = ""
    pool: str = ""
    number: int | str = 0
    sku: str = ""
    site_id: str = ""
    reason: str = ""
    scores: Mapping[str, Any] = field(default_factory=dict)
    certainty: Certainty | None = None
    provenance: str = "predicted"
    rejected: tuple[Refusal, ...] = ()
    stage: str = ""
    group: int = 0
    waits_for: str = ""
    platform_name: str = ""


class PlacementTotal(Struct, frozen=True):
    """What becomes of all objects of a kind: each of `before` is in exactly one of
    the next six. `after` is what stands somewhere and is managed: stays, moves, recreated and comes.
    """

    kind: str
    before: int = 0
    stays: int = 0
    moves: int = 0
    recreated: int = 0
    leaves: int = 0
    loses_machine: int = 0
    forgotten: int = 0
    comes: int = 0
    after: int = 0


class PoolUpgrade(Struct, frozen=True):
    """How the nodes of one pool are made anew: `at_once` of `vms` in a batch, new ones first where it surges.

    `fewest_up` is the least number of the pool's nodes that are up at any time. `stops_at` is the batch that
    finds no room (from 1, 0: none does), `reason` why. `batch` is how many go together; with nodes that are
    away for another reason `at_once` is more. `hangs_on` are the pools of whose VMs a scale-in of this plan
    takes some: with others than expected gone there may be no room.
    """

    pool: str
    sku: str
    vms: int
    at_once: int
    batches: int
    surges: bool
    fewest_up: int
    stops_at: int = 0
    reason: str = ""
    batch: int = 0
    hangs_on: tuple[str, ...] = ()


class Disruptions(Struct, frozen=True):
    """What draining nodes meets: `budgets` that allow no eviction, workloads of which one pod runs, and those
    of which a budget keeps a pod up.
    """

    budgets: tuple[str, ...] = ()
    single_replicas: tuple[str, ...] = ()
    kept_up: tuple[str, ...] = ()


class Upgrade(Struct, frozen=True):
    """Pools of one cluster whose nodes are made anew: to another version of Kubernetes batch by batch
    (`before` and `after`), or at once because an argument of the pools changed (`trigger` says which).

    `budgets` are PodDisruptionBudgets that allow no eviction and so hold up drains, `single_replicas` the
    workloads that are down while their only pod moves, `kept_up` those that a budget keeps up.
    """

    address: Address
    cluster: str
    site_id: str
    before: str
    after: str
    pools: tuple[PoolUpgrade, ...]
    budgets: tuple[str, ...] = ()
    single_replicas: tuple[str, ...] = ()
    trigger: str = "kubernetes_version_changed"
    kept_up: tuple[str, ...] = ()

    @property
    def rolls(self) -> bool:
        """Whether it goes batch by batch."""
        return self.trigger == "kubernetes_version_changed"

    @property
    def vms(self) -> int:
        """How many nodes are made anew."""
        return sum(pool.vms for pool in self.pools)

    @property
    def goes_through(self) -> bool:
        """Whether every batch finds room for sure, and every drain may evict."""
        return not self.budgets and not any(pool.stops_at or pool.hangs_on for pool in self.pools)


class RolloutStep(Struct, frozen=True):
    """A step of a rollout: clusters that are updated or deleted at once, an approval, or a wait.

    `kind` is "update", "delete", "approval" or "wait"; `group` counts from 1 in its stage (0: none).
    `begins` are seconds after the beginning, at the earliest: as far as waits tell. `waits_for` is the
    approval itself, and of clusters what comes between them and those before. `status`: "done" before this
    plan, "planned" in it, "waiting" for somebody's approval, "stuck" as a cluster of it fails, or "later".
    """

    kind: str
    stage: str
    group: int
    clusters: tuple[str, ...] = ()
    begins: float = 0
    wait_seconds: float = 0
    waits_for: str = ""
    status: str = "planned"


class Rollout(Struct, frozen=True):
    """How the clusters of a placement get a resource snapshot; `cause` is what does it, in words."""

    address: Address
    cause: str
    resource_snapshot: int | None
    steps: tuple[RolloutStep, ...]


class PassedOver(Struct, frozen=True):
    """A cluster that a placement does not pick, and why, as the scheduler says it."""

    address: Address
    cluster: str
    reason: str


class PlacementTable(Struct, frozen=True):
    """One row of the document's tables: a pool and how it is spread.

    `expected_vms_per_rack` is (floor, ceiling) of count / expected racks; `actual_vms_per_rack`
    maps rack name to count, racks with at least one VM, by name. `racks_certain` and
    `machines_certain` count the VMs placed by this plan (`placed`) whose rack / machine holds
    in every repeated tie-break; `counts_certain` are the racks whose count holds in all of them. What is
    `decided` here (VNFs) hangs on no tie-break.
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
    counts_certain: tuple[str, ...] = ()
    fewest_left_on_a_rack: int | None = None
    provenance: str = "predicted"


def all_decided(tables: Iterable[PlacementTable]) -> bool:
    """Whether every VM that a plan places is told where to go, so that nothing is predicted."""
    provenances = {table.provenance for table in tables if table.placed}
    return provenances == {"decided"}


class Drift(Struct, frozen=True):
    """An object that changed outside nexusform; `after` None: it is gone."""

    address: Address
    before: Mapping[str, Any]
    after: Mapping[str, Any] | None
    sensitive: tuple[Path, ...] = ()
    relevant: bool = True


class OutputChange(Struct, frozen=True):
    """A root output before and after; `after` None with action delete."""

    name: str
    action: Action
    before: Any
    after: Any
    type: Type
    sensitive: bool


class VariableValue(Struct, frozen=True):
    """A root variable as the plan saw it."""

    value: Any
    type: Type
    sensitive: bool = False
    given: bool = True


class CheckResult(Struct, frozen=True):
    """The verdict of a condition: kind (resource, output_value, check, input_variable), address,
    status (pass, fail, error, unknown) and messages.
    """

    kind: str
    address: str
    status: str
    problems: tuple[str, ...] = ()


class InventoryRead(Struct, frozen=True):
    """An inventory that the plan stands on: the data source's address, or the provider's and the site, and
    when it says its figures were taken (RFC 3339, "" when nothing tells). `is_old`: when the plan was made it
    was older than its `max_age`, by default a day, or of unknown age.
    """

    address: str
    exported_at: str
    is_old: bool = False


class Basis(Struct, frozen=True):
    """What a plan stands on beside its configuration's text and its state.

    `commit` is that of the work tree, "" when nothing tells. `files` are those that functions read and
    `data_files` those that data sources read: SHA-256 by path. `states` are the states of other
    configurations: lineage and serial by the address of the data block. `answers` are what servers said to
    data sources, by question: the plan is made again of the same. `confined` is "yes" or "no", "" where
    nothing tells, and `allowed` how addresses might begin: what evaluates the plan again is confined alike.
    """

    commit: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    data_files: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    confined: str = ""
    allowed: tuple[str, ...] = ()


class SeparationViolation(Struct, frozen=True):
    """One piece of hardware that two groups of a separation rule share.

    `rack` and `machine` are "" where the rule's scope is wider. `members` are the VMs and pods there,
    in the order in which they came; `joined_by` is the one that came as the first of a second
    group, `trigger` why it was placed ("" = it stands there already) and `reason` what brought it to
    this place. `tie_break` is the seed of the repetition it was found in, None = the plan itself.
    """

    site_id: str
    rack: str
    machine: str
    members: tuple[str, ...]
    joined_by: str
    trigger: str
    reason: str
    tie_break: int | None = None


class SeparationVerdict(Struct, frozen=True):
    """Whether a separation rule holds: `holds` is "always", "sometimes" or "never" over the plan and
    `runs` repeated tie-breaks, in `held` of which (the plan left out) it does. `violations` are those of
    the plan, or of the first repetition in which it does not hold.
    """

    address: Address
    scope: str
    enforcement: str
    holds: str
    violations: tuple[SeparationViolation, ...] = ()
    runs: int = 0
    held: int = 0


class Draws(Struct, frozen=True):
    """How much of a plan hangs on NUMA cells that nobody told, of VMs on so many `machines`.

    The plan shows the draw `shown`, or the way of that name in which they may lie; in `fitting` of `runs`
    draws everything fits (0 of 0: none repeated). `packed` and `spread`, which count in no share, tell
    whether it fits where they lie as the platform's own rule packs them, or as far apart as can be.
    """

    machines: int
    shown: int | str
    fitting: int = 0
    runs: int = 0
    packed: bool = False
    spread: bool = False


# Under which key a site's private note holds its scores, by rack_spread.
PREDICTION: Final = "prediction"


class PredictionScore(Struct, frozen=True):
    """How many of the VMs of a site stand where the rule puts them, of those that could be judged, when its
    history was last replayed. `sure` of the hits are so however VMs lie in cells that nobody told; None where
    that was not counted. `chance` is how many hits to expect of a platform that draws. `claims` are what
    became of the claims of earlier plans.
    """

    site: str
    hits: int
    judged: int
    not_judged: int
    sure: int | None = None
    chance: float | None = None
    claims: Score | None = None


class Plan(Struct, frozen=True):
    """A whole plan.

    `kept` counts what stays, with and without a row. `placement_totals` account for every object of the state
    before, by kind; none of a plan that did not come to its end.

    `lineage` is "" for a first plan; `serial` the prior state's. `refreshed` holds objects as
    the providers found them where that differs from state (None: gone). `tie_breaks` is how many
    repetitions the certainty stands on (0: none), `draws` what hangs on unknown NUMA cells (None:
    nothing). `planned_outputs` are the root outputs after, `refined_outputs` what is known of unknown parts
    of them.
    `catalogue` is the SKU catalogue's version. `errored` plans cannot be applied. `targets`,
    `excludes` and `replaces` are the options that shaped it, for the checks at apply. `inventories`
    are those that data sources read, `basis` what may be another by the time of apply. `moved` are pairs
    of an old address and a new one. `sites`, `room` and `room_other` are who stands where and what is left:
    empty until `planning.conclusion.room_left` has told them, which is the last that happens to a plan.
    `shown` are attributes of objects that data sources show: of these the plan goes on from there, whatever
    state holds.
    `judgements` are what those that the plan will be sent to make of it, a sentence each. `rules_at_rest` are
    the lint rules that the configuration switches off.
    """

    mode: Mode = Mode.NORMAL
    changes: tuple[Change, ...] = ()
    steps: tuple[Step, ...] = ()
    drift: tuple[Drift, ...] = ()
    outputs: tuple[OutputChange, ...] = ()
    planned_outputs: Mapping[str, OutputState] = field(default_factory=dict)
    refined_outputs: Mapping[str, Refined] = field(default_factory=dict)
    placements: tuple[PlacementChange, ...] = ()
    placement_tables: tuple[PlacementTable, ...] = ()
    kept: int = 0
    placement_totals: tuple[PlacementTotal, ...] = ()
    tie_breaks: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    variables: Mapping[str, VariableValue] = field(default_factory=dict)
    refreshed: Mapping[Address, ObjectState | None] = field(default_factory=dict)
    lineage: str = ""
    serial: int = 0
    prior_digest: str = ""
    catalogue: str = ""
    timestamp: str = ""
    nexusform_version: str = ""
    workspace: str = "default"
    targets: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    errored: bool = False
    moved: tuple[tuple[Address, Address], ...] = ()
    inventories: tuple[InventoryRead, ...] = ()
    separation_rules: tuple[SeparationVerdict, ...] = ()
    sites: tuple[SiteVms, ...] = ()
    room: tuple[SiteRoom, ...] = ()
    room_other: tuple[OtherRoom, ...] = ()
    draws: Draws | None = None
    basis: Basis = field(default_factory=Basis)
    rollouts: tuple[Rollout, ...] = ()
    upgrades: tuple[Upgrade, ...] = ()
    scores: tuple[PredictionScore, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    shown: Mapping[Address, Mapping[str, Any]] = field(default_factory=dict)
    judgements: tuple[str, ...] = ()
    rules_at_rest: tuple[str, ...] = ()

    def count(self, *actions: Action) -> int:
        """How many changes have one of these actions."""
        return sum(1 for change in self.changes if change.action in actions)

    @property
    def to_add(self) -> int:
        """The A of the `Plan:` line."""
        return self.count(Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)

    @property
    def to_change(self) -> int:
        """The C of the `Plan:` line."""
        return self.count(Action.UPDATE)

    @property
    def to_destroy(self) -> int:
        """The D of the `Plan:` line."""
        return self.count(Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)

    @property
    def forgotten_and_lost(self) -> int:
        """How many VMs lose their machine that nobody manages any more: no row tells of them."""
        return sum(site.lost_outsiders for site in self.sites)

    @property
    def denied(self) -> bool:
        """Whether it may not be applied: it is in error, or whole and beyond a guard rail."""
        return self.errored or has_errors(self.diagnostics)

    @property
    def has_changes(self) -> bool:
        """Whether applying would change an object, an output or an address, or what is shown to stand is
        still to become what state holds.
        """
        for change in self.changes:
            if change.action is not Action.NO_OP or change.previous_address or change.importing:
                return True
        if any(output.action is not Action.NO_OP for output in self.outputs):
            return True
        if self.shown and any(
            row.address in self.shown and row.action is not PlacementAction.KEEP for row in self.placements
        ):
            return True
        return self.mode is Mode.REFRESH_ONLY and bool(self.refreshed)
