"""What a plan is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct, field

from nexusform.address import Address, AddressPattern
from nexusform.configuration.declared.configuration import Configuration
from nexusform.configuration.declared.limits import DEFAULT, Limits
from nexusform.plain_data import Path
from nexusform.plans.plan import Mode
from nexusform.ports import Ask, Files, Registries, StateReader
from nexusform.scheduling.racks.uncertainty.splits import Way
from nexusform.source import Span
from nexusform.state.objects import ObjectState, State
from nexusform.values import Value


class Adjustment(Struct, frozen=True):
    """One argument of one instance taken as something else: how ways out are tried."""

    address: Address
    path: Path
    value: Any


class Imported(Struct, frozen=True):
    """An object that is to be taken over: its id, what the provider found, and where it was asked for."""

    id: str
    object: ObjectState
    span: Span


class DataValues(Struct, frozen=True):
    """What stands in for reading data: for the blocks that a pattern names, or (None) for all of a
    type. Attributes that are not among the values are as written, or null.
    """

    pattern: AddressPattern | None
    type: str
    values: Mapping[str, Any]

    def covers(self, address: Address) -> bool:
        """Whether it stands in for this instance of a data block."""
        return address.type == self.type if self.pattern is None else self.pattern.matches(address)


class Stage(StrEnum):
    """What planning is at."""

    ARGUMENTS = "arguments"
    OBJECTS = "objects"
    VMS = "VMs"
    PLACEMENTS = "placements"
    TIE_BREAKS = "tie-breaks"


# (stage, how many are done, of how many: 0 where that is not known)
Progress: TypeAlias = Callable[[Stage, int, int], None]


class PlanRequest(Struct, frozen=True):
    """Everything a plan depends on.

    `now` is RFC 3339, UTC. `refreshed` holds objects as the providers found them where a provider
    observes (None: gone); the others stand as in `state`. `replaces` are ADDR or ADDR:OBJECT.
    `tie_breaks` None = the default of the certainty rule, `first_tie_break` is the seed of the first;
    `split_seed` draws or names how VMs lie whose
    NUMA cells nobody told. `applying` lets timestamp() and uuid() answer,
    the latter with random ones from `new_uuid`. `progress` is told how far planning came.
    `want_rejected` fills in why other
    machines were refused. `explain` are (address, object) pairs to explain. `adjustments` and
    `first` (addresses whose new VMs are placed before all others') are for trying ways out. `imports`
    are the objects to take over, by their new address. `data_values` stand in for data sources, the
    first that covers a block winning. `read_state` reads the states of other configurations, `ask` asks
    servers for data sources.
    `commit` is that of the work tree.
    `limits` are the most that the plan may stand for.
    """

    configuration: Configuration
    variables: Mapping[str, Value]
    state: State
    registries: Registries
    files: Files
    now: str
    mode: Mode = Mode.NORMAL
    targets: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    refreshed: Mapping[Address, ObjectState | None] = field(default_factory=dict)
    tie_breaks: int | None = None
    first_tie_break: int = 0
    split_seed: Way = 0
    want_rejected: bool = False
    explain: tuple[tuple[str, str], ...] = ()
    workspace: str = "default"
    working_directory: str = "."
    prior_digest: str = ""
    ways_out: bool = True
    applying: bool = False
    new_uuid: Callable[[], str] | None = None
    progress: Progress = lambda _stage, _done, _of: None
    lint: bool = True
    adjustments: tuple[Adjustment, ...] = ()
    first: tuple[Address, ...] = ()
    imports: Mapping[Address, Imported] = field(default_factory=dict)
    data_values: tuple[DataValues, ...] = ()
    limits: Limits = DEFAULT
    read_state: StateReader | None = None
    ask: Ask | None = None
    commit: str = ""
