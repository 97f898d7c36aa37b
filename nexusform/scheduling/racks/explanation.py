"""The answer to "why there?": every step, its candidates and its keys. Data only."""

from __future__ import annotations

from msgspec import Struct

from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.racks.model import Demand, Placement
from nexusform.scheduling.racks.rule import KeyPart
from nexusform.scheduling.racks.shortage import Shortage


class Left(Struct, frozen=True):
    """How many machines a filter (its rule's name) left.

    `text` says it for people ("" = not worth saying), on the line called `line`; filters that share a
    line stand one after the other.
    """

    rule: str
    machines: int
    line: str = ""
    text: str = ""


class Ranked(Struct, frozen=True):
    """A rack or machine with its keys and, where it ties with the best, its tie-break digest (hex)."""

    name: str
    keys: tuple[KeyPart, ...]
    digest: str = ""


class Explanation(Struct, frozen=True):
    """One decision, step by step.

    `filters` follow the profile's order. `racks` and `machines` (of the chosen rack) are ranked best
    first; those that tie with the best carry a digest. `fitting_cells` are the cells of the
    chosen machine in the order of step 5. `refusals` name every machine that a filter refused.
    Without a candidate `placement` is None, `shortage` says why, and the rankings are empty.
    """

    demand: Demand
    seed: int
    total_machines: int
    filters: tuple[Left, ...]
    racks: tuple[Ranked, ...]
    machines: tuple[Ranked, ...]
    fitting_cells: tuple[int, ...]
    refusals: tuple[Refusal, ...]
    placement: Placement | None
    shortage: Shortage | None = None

    @property
    def tied_racks(self) -> tuple[Ranked, ...]:
        """The racks among which the tie-break chose; empty when there was no tie."""
        return tuple(rack for rack in self.racks if rack.digest)

    @property
    def tied_machines(self) -> tuple[Ranked, ...]:
        """The machines among which the tie-break chose; empty when there was no tie."""
        return tuple(machine for machine in self.machines if machine.digest)

    @property
    def next_best(self) -> Ranked | None:
        """The machine of the chosen rack that would have been next; None when there is no other."""
        return self.machines[1] if len(self.machines) > 1 else None
