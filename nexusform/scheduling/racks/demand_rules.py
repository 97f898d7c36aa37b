"""Rules of the profile opened for one demand, and placement by a scan of machines.

`choose_placement` scans every machine. The scan is for demands with a machine of last resort, and
for demands with a rule without the promises of rule.py. Explanations and shortages are built from
it. Its time is proportional to the number of machines.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from nexusform.scheduling.racks.layout import NO_COUNTS, Figure, Figures, Usage, VmCounts
from nexusform.scheduling.racks.ledger import Ledger, VmRecord
from nexusform.scheduling.racks.rule import (
    CapacityFilter,
    CountFilter,
    DemandFilter,
    Filter,
    KeyDependence,
    MachineFilter,
    MachineLoad,
    RankedItemKind,
    RankingKey,
    RejectionCheck,
)
from nexusform.scheduling.racks.rules import tie_break
from nexusform.scheduling.racks.vms import Demand, RackSpread

Passes = Callable[[int], bool]
# None: 0 everywhere.
OpenKey = tuple[RankingKey, Figure | None]
OpenFilter = tuple[DemandFilter | CountFilter, RejectionCheck]


class PackedSortKeys(NamedTuple):
    """Keys in one whole number, the first in the highest bits.

    `dependence` is the widest of all keys; `active_keys` has one bit per key, set if the key
    applies to the demand.
    """

    figure: Figure
    dependence: KeyDependence
    active_keys: int

    def select_counts(self, cluster: VmCounts, pool: VmCounts) -> VmCounts:
        """Return the VM counts that the keys depend on: of the pool, of the cluster, or none.

        Only items (racks or machines) with such VMs can have other keys than for a
        cluster without VMs.
        """
        if self.dependence is KeyDependence.NONE:
            return NO_COUNTS
        return pool if self.dependence is KeyDependence.POOL else cluster


def prepare_sort_keys(keys: Iterable[RankingKey], usage: Usage, demand: Demand) -> list[OpenKey]:
    """Return each key with the function from an item number to its figure for a demand.

    The function is None if all figures are 0.
    """
    opened_keys: list[OpenKey] = []
    for key in keys:
        figures = key.build_figures(usage, demand)
        opened_keys.append((key, None if figures is None else _convert_figures(figures)))
    return opened_keys


def prepare_packed_sort_keys(
    keys: Iterable[RankingKey], usage: Usage, demand: Demand
) -> PackedSortKeys:
    """Build the figures of each key for a demand and pack them into one whole number.

    Numbers compare like the keys. Each key has a fixed number of bits, the first key the highest
    ones. With keys of 4 bits, the figures 3 and 1 become 3 << 4 | 1. A key without figures is
    inactive: its bits are 0.
    """
    columns: list[Figures] = []
    # By figure: the bits of all keys after its own, up to the next figure.
    shifts: list[int] = []
    # Bits of active keys, the lowest for the last key.
    active_keys = 0
    dependence = KeyDependence.NONE
    for key in keys:
        figures = key.build_figures(usage, demand)
        active_keys <<= 1
        if shifts:
            shifts[-1] += key.bits
        # Other figures are 0 everywhere: only their bits count.
        if figures is not None and figures is not NO_COUNTS:
            active_keys |= 1
            columns.append(figures)
            shifts.append(0)
            dependence = max(dependence, key.dependence)
    return PackedSortKeys(_pack_columns(columns, shifts), dependence, active_keys)


def _pack_columns(columns: list[Figures], shifts: list[int]) -> Figure:
    """Return a function from an item to one whole number with its figures.

    The first figure is in the highest bits; the number is 0 without any figure. After each figure,
    the number moves up by its shift: figures 3 and 1 with shifts 4 and 2 give (3 << 4 | 1) << 2.
    """
    # The usual case, called several times per VM: three lists or counts need no
    # further function calls.
    if len(columns) == 3:
        first, second, third = columns
        shift_1, shift_2, shift_3 = shifts
        if not (callable(first) or callable(second) or callable(third)):
            return lambda item: (
                ((first[item] << shift_1 | second[item]) << shift_2 | third[item]) << shift_3
            )
    if not columns:
        return lambda _item: 0
    packed = _convert_figures(columns[0])
    shift = shifts[0]
    for figures, next_shift in zip(columns[1:], shifts[1:], strict=True):
        packed = _combine_two_figures(packed, shift, _convert_figures(figures))
        shift = next_shift
    return (lambda item: packed(item) << shift) if shift else packed


def _convert_figures(figures: Figures) -> Figure:
    """Return figures as a function of the item number.

    `figures` is such a function, a list or counts.
    """
    return figures if callable(figures) else figures.__getitem__


def _combine_two_figures(upper: Figure, shift: int, lower: Figure) -> Figure:
    """Combine two figures in one number, the lower one in the lowest `shift` bits."""
    return lambda item: upper(item) << shift | lower(item)


def prepare_filters(ledger: Ledger, usage: Usage, demand: Demand) -> list[OpenFilter]:
    """Return the filters that affect this demand, each with its check by number, in profile order.

    Only filters on demands (such as zones) and on counts of other VMs are returned.
    """
    active_filters: list[OpenFilter] = []
    for rule in ledger.site.demand_filters:
        if isinstance(rule, DemandFilter):
            # Such as its zones.
            if rule.select_input(demand) is not None:
                active_filters.append((rule, rule.build_check(usage.layout, demand)))
        else:
            # A count filter depends on other VMs, too.
            find_rejection = rule.build_check(usage, demand)
            if find_rejection is not None:
                active_filters.append((rule, find_rejection))
    return active_filters


def is_rack_selection(rule: Filter) -> bool:
    """Return whether the filter selects racks by the demand alone, not by existing VMs.

    An example is the filter of zones.
    """
    return isinstance(rule, DemandFilter) and rule.item is RankedItemKind.RACK


def list_rejecting_checks(
    ledger: Ledger, demand: Demand
) -> Iterator[tuple[Filter, RejectionCheck]]:
    """Yield the filters that apply to the demand, in profile order.

    Each comes with its check by machine number.
    """
    for rule, find_rejection in build_machine_checks(ledger, demand):
        if find_rejection is not None:
            yield rule, find_rejection


def build_machine_checks(
    ledger: Ledger, demand: Demand
) -> list[tuple[Filter, RejectionCheck | None]]:
    """Build the check of every filter by machine number, in profile order.

    The check is None if the filter does not apply to the demand.
    """
    usage = ledger.get_pool_usage(demand.vm.owner, demand.vm.pool)
    by_rule = {
        id(rule): find_rejection for rule, find_rejection in prepare_filters(ledger, usage, demand)
    }
    filters: list[tuple[Filter, RejectionCheck | None]] = []
    for rule in ledger.site.profile.filters:
        find_rejection: RejectionCheck | None = None
        if isinstance(rule, MachineFilter):
            find_rejection = _build_machine_check(ledger, rule)
        elif isinstance(rule, CapacityFilter):
            find_rejection = _build_capacity_check(ledger, rule, demand)
        elif isinstance(rule, DemandFilter | CountFilter) and id(rule) in by_rule:
            find_rejection = by_rule[id(rule)]
            if rule.item is RankedItemKind.RACK:
                find_rejection = _build_rack_check(ledger, find_rejection)
        filters.append((rule, find_rejection))
    return filters


def _build_machine_check(ledger: Ledger, rule: MachineFilter) -> RejectionCheck:
    """Build the check of a filter on machine descriptions, by machine number."""
    machines = ledger.site.machines
    return lambda number: rule.find_rejection(machines[number])


def _build_capacity_check(ledger: Ledger, rule: CapacityFilter, demand: Demand) -> RejectionCheck:
    """Build the check of a capacity filter by machine number, evaluated once per capacity."""
    reasons: dict[int, str | None] = {}
    capacity_table = ledger.site.capacity_table
    check_capacity = rule.build_check(demand.sku)

    def find_rejection(number: int) -> str | None:
        capacity = ledger.capacities[number]
        if capacity not in reasons:
            reasons[capacity] = check_capacity(capacity_table.free_capacities[capacity])
        return reasons[capacity]

    return find_rejection


def _build_rack_check(ledger: Ledger, find_rejection: RejectionCheck) -> RejectionCheck:
    """Convert a check by rack number to one by machine number."""
    rack_of = ledger.site.rack_by_machine
    return lambda number: find_rejection(rack_of[number])


class DemandRules:
    """Ranking keys, and filters on demands and counts of VMs, for one demand.

    They count later VMs if `usage` does.
    """

    def __init__(self, ledger: Ledger, usage: Usage, demand: Demand, spread: RackSpread) -> None:
        """Prepare the filters and ranking keys of the site for one demand.

        `usage` are the VMs that they count.
        """
        self.demand = demand
        self.usage = usage
        self.filters = prepare_filters(ledger, usage, demand)
        profile = ledger.site.profile
        self.rack_keys = prepare_packed_sort_keys(profile.rack_keys[spread], usage, demand)
        self.machine_keys = prepare_packed_sort_keys(profile.machine_keys, usage, demand)

    def may_use_session(self) -> bool:
        """Return whether VMs may be placed in a session, which keeps rankings.

        For this, a new VM may make filters reject more, never less, and may change only the keys of
        racks and machines with VMs of its cluster or pool.
        """
        if any(isinstance(rule, CountFilter) and not rule.is_monotonic for rule, _ in self.filters):
            return False
        return (
            max(self.rack_keys.dependence, self.machine_keys.dependence)
            is not KeyDependence.UNBOUNDED
        )


def split_filters(
    filters: Sequence[OpenFilter],
) -> tuple[list[OpenFilter], list[RejectionCheck], list[RejectionCheck]]:
    """Return three groups: filters of racks, checks of racks, and checks of machines.

    Filters select racks by the demand alone.
    """
    rack_selections: list[OpenFilter] = []
    rack_checks: list[RejectionCheck] = []
    machine_checks: list[RejectionCheck] = []
    for rule, find_rejection in filters:
        if is_rack_selection(rule):
            rack_selections.append((rule, find_rejection))
        else:
            (rack_checks if rule.item is RankedItemKind.RACK else machine_checks).append(
                find_rejection
            )
    return rack_selections, rack_checks, machine_checks


def build_combined_check(checks: Sequence[RejectionCheck]) -> Passes | None:
    """Build a function to check whether no filter rejects an item; None without filters."""
    if not checks:
        return None
    return lambda item: all(find_rejection(item) is None for find_rejection in checks)


def exclude_last_resort(ledger: Ledger, demand: Demand, machines: list[int]) -> list[int]:
    """Return the machines without the last resort of a demand, or this one if it is alone.

    The last resort is the name of a machine.
    """
    if demand.last_resort is None:
        return machines
    last_resort = ledger.site.machine_index.get(demand.last_resort)
    return [machine for machine in machines if machine != last_resort] or machines


def list_fitting_machines(ledger: Ledger, demand: Demand) -> list[int]:
    """Return the numbers of the machines that no filter rejects, in site order."""
    machines = list(range(len(ledger.site.machines)))
    for _, find_rejection in list_rejecting_checks(ledger, demand):
        machines = [machine for machine in machines if find_rejection(machine) is None]
    return exclude_last_resort(ledger, demand, machines)


def _select_machines_by_keys(
    ledger: Ledger,
    demand: Demand,
    spread: RackSpread,
    machines: list[int],
    vm_text: blake2b,
    *,
    is_sample: bool,
) -> list[int]:
    """Choose the rack with the lowest keys, then its `machines` with the lowest keys.

    `vm_text` is the unfinished digest of the VM, for a tie of racks.
    """
    site = ledger.site
    usage = ledger.get_pool_usage(demand.vm.owner, demand.vm.pool)
    rack_key = prepare_packed_sort_keys(site.profile.rack_keys[spread], usage, demand).figure
    tied_racks = _find_lowest_items(
        {site.rack_by_machine[machine] for machine in machines}, rack_key
    )
    position = tie_break.break_rack_tie(
        vm_text, site.encoded_rack_names, tied_racks, is_sample=is_sample
    )
    rack_machines = [
        machine for machine in machines if site.rack_by_machine[machine] == tied_racks[position]
    ]
    machine_key = prepare_packed_sort_keys(site.profile.machine_keys, usage, demand).figure
    return _find_lowest_items(rack_machines, machine_key)


def choose_placement(
    ledger: Ledger,
    demand: Demand,
    spread: RackSpread,
    seed: int,
    *,
    is_sample: bool,
    pool_ties: set[int] | None,
) -> VmRecord | None:
    """Choose the machine of a VM, and return its record (not yet counted); None if it fits nowhere.

    The lowest digest decides ties. A sample repeats the plan with other ties: there `seed` is its
    number, and a number drawn from it decides. All machines tied with the chosen one are added to
    `pool_ties`, if given, for the report of the pool.
    """
    site = ledger.site
    machines = list_fitting_machines(ledger, demand)
    if not machines:
        return None
    vm_text = tie_break.build_vm_digest(seed, demand.vm)
    # Weights rank all machines; racks do not matter.
    if site.profile.weigh is not None:
        tied_machines = select_heaviest_machines(ledger, demand, machines)
    else:
        tied_machines = _select_machines_by_keys(
            ledger, demand, spread, machines, vm_text, is_sample=is_sample
        )
    if pool_ties is not None:
        pool_ties.update(tied_machines)
    position = tie_break.break_machine_tie(
        vm_text, site.encoded_machine_names, tied_machines, is_sample=is_sample
    )
    machine = tied_machines[position]
    shape = site.get_shape(demand.sku)
    step = shape.steps[ledger.capacities[machine]]
    assert step is not None, "a machine without capacity passes every filter"
    return VmRecord(site.add_pool(demand.vm), shape.number, machine, step.cells, demand.vm.number)


def _find_lowest_items(items: Iterable[int], key_of: Figure) -> list[int]:
    """Return the items of the lowest key, in site order."""
    keys = {item: key_of(item) for item in items}
    lowest = min(keys.values())
    return sorted(item for item, key in keys.items() if key == lowest)


# Sums in another order differ in the last digits of a float.
_DIGITS = 9


def weigh_machines(ledger: Ledger, demand: Demand, machines: Sequence[int]) -> dict[int, float]:
    """Return the weights of these machines by number.

    They are computed together, because weights may be relative.
    """
    weigh = ledger.site.profile.weigh
    assert weigh is not None, "the profile has keys instead of weights"
    weights = weigh(demand, [_build_machine_load(ledger, machine) for machine in machines])
    return {
        machine: round(weight, _DIGITS) for machine, weight in zip(machines, weights, strict=True)
    }


def select_heaviest_machines(ledger: Ledger, demand: Demand, machines: Iterable[int]) -> list[int]:
    """Return the numbers of the machines tied for a VM by their weights; [] without machines.

    The `subset_size` heaviest machines of the profile tie, and all others of the same weight as the
    last of them.
    """
    weights = weigh_machines(ledger, demand, list(machines))
    ranked = sorted(weights.values(), reverse=True)
    if not ranked:
        return []
    lowest = ranked[min(ledger.site.profile.subset_size, len(ranked)) - 1]
    return [machine for machine, weight in weights.items() if weight >= lowest]


def _build_machine_load(ledger: Ledger, machine: int) -> MachineLoad:
    """Build the load of a machine for weighers.

    It has the resources taken by its VMs, and the numbers of VMs.
    """
    site = ledger.site
    empty = site.capacity_table.capacities[site.start_capacities[machine]]
    free = site.capacity_table.capacities[ledger.capacities[machine]]
    return MachineLoad(
        machine=site.machines[machine],
        vcpus=sum(empty.cpus) - sum(free.cpus),
        memory_mib=ledger.memory[machine],
        disk_gib=empty.disk - free.disk,
        vms=ledger.machine_vms.get(machine, 0),
        new_vms=ledger.new_vms.get(machine, 0),
        records=free.records,
    )
