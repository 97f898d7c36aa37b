"""Classes of machines that differ by name only: if one of them is tied for a pool, all may be.

A sample selects among tied candidates by a drawn number. So it may select any machine of a class
where it selects one: the samples with one of them are as likely as those with another.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nexusform.scheduling.racks.profile import NEXUS
from nexusform.scheduling.racks.vms import Demand

if TYPE_CHECKING:
    from nexusform.scheduling.racks.ledger import Ledger
    from nexusform.scheduling.racks.rack_scheduler import RackScheduler


def is_independent_of_names(base: RackScheduler, demands: Iterable[Demand]) -> bool:
    """Return whether no name of a machine or rack has an effect on the placement of VMs.

    Names have one in other profiles, in hints, for a machine of last resort, and for VMs
    in unknown cells.
    """
    return (
        base.profile is NEXUS
        and not base.is_sampled
        and all(demand.last_resort is None and not demand.constraints.hints for demand in demands)
    )


class MachineClasses:
    """Classes of the machines of a site before a plan."""

    def __init__(self, base: RackScheduler, demands: Iterable[Demand] | None) -> None:
        """Classify the machines by all that decides about these demands.

        Without demands each machine is a class.
        """
        names = [machine.name for machine in base.machines]
        self._classes = list(range(len(names))) if demands is None else _classify(base, demands)
        # By name, in site order.
        self.class_by_machine = dict(zip(names, self._classes, strict=True))
        # By class: its machines as bits, those of the first rack are the lowest.
        self._bits: dict[int, int] = {}
        machines = chain.from_iterable(base.copy_ledger().site.machines_by_rack)
        for position, machine in enumerate(machines):
            number = self._classes[machine]
            self._bits[number] = self._bits.get(number, 0) | 1 << position

    def select_classes(self, machines: Iterable[int]) -> int:
        """Return the classes of these machines, as bits."""
        classes = 0
        for number in {self._classes[machine] for machine in machines}:
            classes |= 1 << number
        return classes

    def select_classes_of_bits(self, machines: int) -> int:
        """Return the same for machines that are bits, rack by rack."""
        classes = 0
        for number, bits in self._bits.items():
            if machines & bits:
                classes |= 1 << number
        return classes


def _classify(base: RackScheduler, demands: Iterable[Demand]) -> list[int]:
    """Return the number of the class of each machine."""
    ledger = base.copy_ledger()
    site = ledger.site
    own_vms = _count_vms_of_owners(ledger, {demand.vm.owner for demand in demands})
    traits = _number_equal_values(
        (
            replace(machine, name="", rack="", slot=0),
            ledger.capacities[number],
            ledger.memory[number],
            ledger.extra_large[number],
            tuple(own_vms.get(number, ())),
        )
        for number, machine in enumerate(site.machines)
    )
    racks = _number_equal_values(
        (
            ledger.rack_vms[rack],
            ledger.rack_memory[rack],
            tuple(sorted(traits[machine] for machine in machines)),
        )
        for rack, machines in enumerate(site.machines_by_rack)
    )
    return _number_equal_values(
        (racks[rack], trait) for rack, trait in zip(site.rack_by_machine, traits, strict=True)
    )


def _count_vms_of_owners(ledger: Ledger, owners: Iterable[str]) -> dict[int, list[Hashable]]:
    """Return the existing VMs of clusters by machine: numbers per cluster, pool and large size."""
    counts: dict[int, list[Hashable]] = {}
    clusters = {owner: ledger.clusters[owner] for owner in owners if owner in ledger.clusters}
    for owner, cluster in sorted(clusters.items()):
        for machine, number in cluster.machines.items():
            row = (owner, number, cluster.extra_large.get(machine, 0))
            counts.setdefault(machine, []).append(row)
    for (owner, name), pool in sorted(ledger.pools.items()):
        if owner in clusters:
            for machine, number in pool.machines.items():
                counts.setdefault(machine, []).append((owner, name, number))
    return counts


def _number_equal_values(values: Iterable[Hashable]) -> list[int]:
    """Return a number for each value, equal for equal values."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]
