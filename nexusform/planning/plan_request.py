"""Input of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.configuration.declarations.limits import DEFAULT, PlanSizeLimits
from nexusform.diagnostics.diagnostic import Span
from nexusform.doubts.doubt import Doubt
from nexusform.interfaces.plugins import Files, PluginRegistries, ServerReader, StateReader
from nexusform.json_data.plain_data import Path
from nexusform.plans.plan import Mode
from nexusform.resources.address import Address, AddressPattern
from nexusform.state.objects import ObjectState, State
from nexusform.values.typed_value import Value

if TYPE_CHECKING:
    from nexusform.scheduling.racks.uncertainty.splits import SplitChoice


class ArgumentAdjustment(Struct, frozen=True):
    """Replacement of one argument of one instance, in a hypothetical plan or to test a remedy."""

    address: Address
    path: Path
    value: Any


class ImportedObject(Struct, frozen=True):
    """Object to import: its id, the provider's attributes, and the source of the request."""

    id: str
    object: ObjectState
    span: Span


class ValueOverride(Struct, frozen=True):
    """Values that replace reading data, or the computed values of objects.

    For the blocks matched by a pattern, or (None) for all of a type. Attributes of data without a
    value are as configured, or null.
    """

    pattern: AddressPattern | None
    type: str
    values: Mapping[str, Any]

    def is_for(self, address: Address) -> bool:
        """Return whether the override applies to this instance.

        Its pattern decides, or without one its type.
        """
        return address.type == self.type if self.pattern is None else self.pattern.is_match(address)


class PlanningStage(StrEnum):
    """Stage of planning."""

    ARGUMENTS = "arguments"
    OBJECTS = "objects"
    VMS = "VMs"
    PLACEMENTS = "placements"
    SAMPLES = "samples"


# (stage, completed count, total count: 0 if unknown).
Progress: TypeAlias = Callable[[PlanningStage, int, int], None]


class PlanRequest(Struct, frozen=True):
    """Everything that a plan depends on.

    `now` is RFC 3339, UTC. `refreshed_objects` holds objects as read by observing providers (None:
    missing); the others are as in `state`. `replaces` are ADDR or ADDR:OBJECT. `samples` None = the
    default of the certainty rule, `first_sample` is the seed of the first; `split_choice` seeds or
    names the layout of VMs in unknown NUMA cells; with `is_layout_fixed` no other one is tried if
    VMs do not fit. `is_applying` lets timestamp() and uuid() return values, the latter random ones
    from `new_uuid`. `progress` receives the progress of planning. `includes_rejections` adds the
    reasons of rejected machines, `includes_losses` the pods of placements with one machine or rack
    down, and on rejected clusters. `explain` are (address, object) pairs to explain. `adjustments`
    and `first_addresses` (new VMs to place before all others) are for testing remedies.
    `lost_machines` (site id, name) are down in a hypothetical plan: their VMs are re-created
    elsewhere. Blocks do not create `removed_addresses` there. With `keeps_objects` every object of
    the state stays without a block. Only nodes that the platform re-creates are placed again: lost
    ones, and those of a cluster with another version. `recorded_machines` (site id, name) exist
    before the plan (None: those of active racks in `state`). With `allows_shortage`, VMs without
    capacity are findings of the plan and no errors, as in every hypothetical plan. `imports` are
    the objects to import, by their new address. `data_overrides` replace data sources,
    `object_overrides` computed values; the first match wins. `read_state` reads the states of other
    configurations, `query` queries servers for data sources. `site_notes` are the observed facts of
    sites without a record, by provider and site id. `commit` is that of the work tree.
    `doubts` are those by findings before the plan. `limits` are the maximums of the plan.
    Without `verifies_certainty` every pod counts as
    certain, and nodes that pods lack are not counted: trials need neither. `systems` are the
    identities read now, by provider.
    """

    configuration: Configuration
    variables: Mapping[str, Value]
    state: State
    registries: PluginRegistries
    files: Files
    now: str
    mode: Mode = Mode.NORMAL
    targets: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    refreshed_objects: Mapping[Address, ObjectState | None] = field(default_factory=dict)
    samples: int | None = None
    first_sample: int = 0
    split_choice: SplitChoice = 0
    is_layout_fixed: bool = False
    includes_rejections: bool = False
    includes_losses: bool = False
    explain: tuple[tuple[str, str], ...] = ()
    workspace: str = "default"
    working_directory: str = "."
    prior_digest: str = ""
    includes_remedies: bool = True
    verifies_certainty: bool = True
    is_applying: bool = False
    new_uuid: Callable[[], str] | None = None
    progress: Progress = lambda _stage, _done, _of: None
    adjustments: tuple[ArgumentAdjustment, ...] = ()
    first_addresses: tuple[Address, ...] = ()
    lost_machines: frozenset[tuple[str, str]] = frozenset()
    removed_addresses: frozenset[Address] = frozenset()
    keeps_objects: bool = False
    allows_shortage: bool = False
    recorded_machines: frozenset[tuple[str, str]] | None = None
    imports: Mapping[Address, ImportedObject] = field(default_factory=dict)
    data_overrides: tuple[ValueOverride, ...] = ()
    object_overrides: tuple[ValueOverride, ...] = ()
    limits: PlanSizeLimits = DEFAULT
    systems: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    site_notes: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    read_state: StateReader | None = None
    query: ServerReader | None = None
    commit: str = ""
    doubts: tuple[Doubt, ...] = ()


def build_trial_request(request: PlanRequest) -> PlanRequest:
    """Return the request of a plan to test a remedy.

    The plan has no remedies, findings and explanations. It fails if VMs lack capacity.
    """
    return replace(
        request,
        allows_shortage=False,
        includes_remedies=False,
        includes_rejections=False,
        includes_losses=False,
        explain=(),
    )
