"""Where, why here, why not there: what every scheduler answers with."""

from __future__ import annotations

from msgspec import Struct


class Place(Struct, frozen=True):
    """Where one VM, or one thing of a domain's own kind, stands (placement_kinds/ lists the kinds)."""


class Refusal(Struct, frozen=True):
    """One candidate that a rule refused.

    Who (`candidate`, a machine, cluster or node name), which rule (its file's name, e.g. "fits"), and
    the reason as a sentence for people.
    """

    candidate: str
    rule: str
    reason: str


class Certainty(Struct, frozen=True):
    """In which share of the repeated tie-breaks the object has this rack and this machine, 0..1.

    `rack_count`: in which share the rack holds as many VMs of its pool as here, whichever of them these are.
    `tied` says of the same three how many different answers the repetitions gave. `measured` are the three
    shares as they came out, where they were lowered since to what held of earlier claims.
    """

    rack: float
    machine: float
    rack_count: float = 0.0
    tied: tuple[int, int, int] = (1, 1, 1)
    measured: tuple[float, float, float] | None = None

    def shares(self) -> dict[str, float]:
        """The three shares by name."""
        return {"rack": self.rack, "machine": self.machine, "rack_count": self.rack_count}
