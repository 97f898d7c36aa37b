"""Choice of a machine by weights, for profiles with `weigh`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nexusform.scheduling.racks.ledger import Ledger
from nexusform.scheduling.racks.rule import MachineLoad
from nexusform.scheduling.racks.vms import Demand

_DIGITS = 9  # sums in another order differ in the last digits of a float


def weigh_machines(ledger: Ledger, demand: Demand, machines: Sequence[int]) -> dict[int, float]:
    """Return the weights of these machines by number; the weight of one may depend on the others."""
    weigh = ledger.site.profile.weigh
    assert weigh is not None, "the profile has keys instead of weights"
    weights = weigh(demand, [_build_machine_load(ledger, machine) for machine in machines])
    return {machine: round(weight, _DIGITS) for machine, weight in zip(machines, weights, strict=True)}


def select_heaviest_machines(ledger: Ledger, demand: Demand, machines: Iterable[int]) -> list[int]:
    """Return the tied machines: the heaviest ones, as many as the profile's subset."""
    weights = weigh_machines(ledger, demand, list(machines))
    ranked = sorted(weights.values(), reverse=True)
    if not ranked:
        return []
    lowest = ranked[min(ledger.site.profile.subset_size, len(ranked)) - 1]
    return [machine for machine, weight in weights.items() if weight >= lowest]


def _build_machine_load(ledger: Ledger, machine: int) -> MachineLoad:
    site = ledger.site
    empty = site.capacity_table.get_capacity(site.start_capacities[machine])
    free = site.capacity_table.get_capacity(ledger.capacities[machine])
    return MachineLoad(
        site.machines[machine],
        sum(empty.cpus) - sum(free.cpus),
        ledger.memory[machine],
        empty.disk - free.disk,
        ledger.machine_vms.get(machine, 0),
        ledger.new_vms.get(machine, 0),
        free.records,
    )
