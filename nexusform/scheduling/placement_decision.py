"""Result types shared by all schedulers."""

from msgspec import Struct


class ObjectLocation(Struct, frozen=True):
    """Location of one VM, or of one object of a domain's own kind.

    placement_kinds/ lists the kinds.
    """


class Rejection(Struct, frozen=True):
    """One candidate rejected by a rule.

    `candidate` is a machine, cluster or node name, `rule` the name of the rule ("fits"), and
    `reason` a sentence for people.
    """

    candidate: str
    rule: str
    reason: str


class PlacementCertainty(Struct, frozen=True):
    """Shares (0..1) of the repeated runs with this rack and this machine of the object.

    `rack_count` is the share of runs with the same number of VMs of its pool on the rack. `tied`
    gives, for the same three, the number of different results. `measured` are the three shares
    before a reduction by the accuracy of earlier predictions; None without a reduction.
    """

    rack: float
    machine: float
    rack_count: float = 0.0
    tied: tuple[int, int, int] = (1, 1, 1)
    measured: tuple[float, float, float] | None = None

    def get_shares_by_name(self) -> dict[str, float]:
        """Return the three shares by name."""
        return {"rack": self.rack, "machine": self.machine, "rack_count": self.rack_count}
