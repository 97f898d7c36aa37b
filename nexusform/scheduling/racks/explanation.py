"""Explanations of placements and shortages, rule by rule.

They have the rejected machines with reasons, and the ranking of the others. The module uses the
same opened rules as placement, and adds only text.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.scheduling.placement_decision import Rejection
from nexusform.scheduling.racks import demand_rules
from nexusform.scheduling.racks.demand_rules import OpenKey
from nexusform.scheduling.racks.layout import FreeCapacity, Share
from nexusform.scheduling.racks.ledger import Ledger
from nexusform.scheduling.racks.rule import (
    CapacityFilter,
    Filter,
    MachineVm,
    RankingFigure,
    RejectionCheck,
)
from nexusform.scheduling.racks.rules.tie_break import compute_digest
from nexusform.scheduling.racks.site import SiteTables, rank_cells
from nexusform.scheduling.racks.vms import Demand, Interval, NoFitReason, Placement, RackSpread

NO_MACHINE: Final = "no_machine"


class _ShortageContext:
    """Implementation of rule.ShortageContext; `machines` shrinks with each filter."""

    def __init__(self, ledger: Ledger, demand: Demand) -> None:
        """Start with all machines of the site, and the capacity steps of the demand's SKU.

        No filter has rejected any of them yet.
        """
        self.demand = demand
        # All machines at first; `find_shortage` narrows both lists.
        self.machines_in_requested_racks = list(range(len(ledger.site.machines)))
        self.machines = self.machines_in_requested_racks
        self._ledger = ledger
        self._steps = ledger.site.get_shape(demand.sku).steps

    @property
    def layout(self) -> SiteTables:
        return self._ledger.site

    def get_free_capacity(self, machine: int) -> FreeCapacity:
        return self._ledger.site.capacity_table.free_capacities[self._ledger.capacities[machine]]

    def can_host_when_empty(self, machine: int) -> bool:
        site = self._ledger.site
        # A step is the effect of one more VM on a capacity, None if it does not fit.
        return site.is_open[machine] and self._steps[site.start_capacities[machine]] is not None

    def list_vms(self) -> Iterator[MachineVm]:
        site = self._ledger.site
        for _, record in self._ledger.list_vms():
            sku = site.shapes[record.shape].sku
            yield MachineVm(
                site.pools[record.pool],
                sku,
                record.machine,
                site.capacity_table.cells[record.cells],
            )


def find_shortage(ledger: Ledger, demand: Demand) -> NoFitReason:
    """Find out why no machine fits.

    Apply the filters again, and return the reason of the first one that leaves none. Filters that
    select racks are first, so that reasons refer to the racks allowed by the demand.
    """
    context = _ShortageContext(ledger, demand)
    rack_filters: list[tuple[Filter, RejectionCheck]] = []
    other_filters: list[tuple[Filter, RejectionCheck]] = []
    for rule, find_rejection in demand_rules.list_rejecting_checks(ledger, demand):
        group = rack_filters if demand_rules.is_rack_selection(rule) else other_filters
        group.append((rule, find_rejection))
    shortage = _find_exhausting_filter(context, rack_filters)
    if shortage is not None:
        return shortage
    context.machines_in_requested_racks = context.machines
    if not context.machines_in_requested_racks:
        return NoFitReason(NO_MACHINE, "There is no machine on the site.")
    shortage = _find_exhausting_filter(context, other_filters)
    assert shortage is not None, "a machine passes every filter"
    return shortage


def _find_exhausting_filter(
    context: _ShortageContext, filters: list[tuple[Filter, RejectionCheck]]
) -> NoFitReason | None:
    """Apply the filters one after another; each reduces `context.machines`.

    Return the reason of the first filter that leaves no machine, or None if some
    machine passes all.
    """
    for rule, find_rejection in filters:
        passing = [machine for machine in context.machines if find_rejection(machine) is None]
        # `binding` names the shortage for programs, "" means by the name of the filter.
        if not passing:
            return NoFitReason(rule.binding or rule.name, rule.describe_shortage(context))
        context.machines = passing
    return None


_LAST_RESORT = "last_resort"


class FilterCount(Struct, frozen=True):
    """Number of machines passing a filter (its rule's name).

    With unknown cells, `machines` are those in the chosen split, and `interval` covers all splits.
    `text` is for people ("" = not shown), on the line called `line`; filters with a common line
    follow one another.
    """

    rule: str
    machines: int
    interval: Interval
    line: str = ""
    text: str = ""


class RankedCandidate(Struct, frozen=True):
    """Rack or machine with its keys and, if it ties with the best, its tie-break digest (hex)."""

    name: str
    keys: tuple[RankingFigure, ...]
    digest: str = ""

    @property
    def values(self) -> tuple[float, ...]:
        """Values of the keys; lower ones are better."""
        return tuple(figure.value for figure in self.keys)


class DecisionExplanation(Struct, frozen=True):
    """One decision, step by step.

    `filters` follow the profile's order. `racks` and `machines` (of the chosen rack) are ranked
    best first; those tied with the best have a digest. `fitting_cells` are the cells of the chosen
    machine, best first, none if the cells of its VMs are unknown. `rejections` name every machine
    rejected by a filter, `rack_machines` all those of the chosen rack. Without a candidate
    `placement` is None, and the rankings are empty.
    """

    demand: Demand
    seed: int
    total_machines: int
    filters: tuple[FilterCount, ...]
    rejections: tuple[Rejection, ...]
    racks: tuple[RankedCandidate, ...] = ()
    machines: tuple[RankedCandidate, ...] = ()
    fitting_cells: tuple[int, ...] = ()
    placement: Placement | None = None
    rack_machines: frozenset[str] = frozenset()

    @property
    def tied_racks(self) -> tuple[RankedCandidate, ...]:
        """Racks tied for the choice; empty without a tie."""
        # Only tied ones have a digest.
        return tuple(rack for rack in self.racks if rack.digest)

    @property
    def tied_machines(self) -> tuple[RankedCandidate, ...]:
        """Machines tied for the choice; empty without a tie."""
        # Only tied ones have a digest.
        return tuple(machine for machine in self.machines if machine.digest)


def explain_placement(
    ledger: Ledger, demand: Demand, spread: RackSpread, seed: int
) -> DecisionExplanation:
    """Explain the placement of one VM: filters, ranked racks and machines, and NUMA cells.

    Nothing is placed.
    """
    site = ledger.site
    candidates, filters, rejections = _apply_filters(ledger, demand)
    explanation = DecisionExplanation(demand, seed, len(site.machines), filters, rejections)
    if not candidates:
        # Without a placement.
        return explanation
    if site.profile.weigh is not None:
        racks, machines = _rank_by_weight(ledger, demand, candidates, seed)
    else:
        racks, machines = _rank_by_keys(ledger, demand, candidates, spread, seed)
    chosen = site.machine_index[machines[0].name]
    free_capacity = site.capacity_table.free_capacities[ledger.capacities[chosen]]
    fitting_cells = rank_cells(Share.compute(demand.sku), free_capacity)  # best first
    cells = tuple(sorted(fitting_cells[: demand.sku.numa_cells]))
    # Next to VMs in unknown cells, the free cells are only assumed.
    if chosen in ledger.unknown_cells:
        fitting_cells = []
        cells = ()
    placement = site.get_placement(chosen, site.capacity_table.add_cells(cells))
    return replace(
        explanation,
        racks=racks,
        machines=machines,
        fitting_cells=tuple(fitting_cells),
        placement=placement,
        rack_machines=frozenset(
            machine.name for machine in site.machines if machine.rack == racks[0].name
        ),
    )


_Ranking = tuple[tuple["RankedCandidate", ...], tuple["RankedCandidate", ...]]


def _rank_by_keys(
    ledger: Ledger, demand: Demand, candidates: list[int], spread: RackSpread, seed: int
) -> _Ranking:
    """Rank the racks of the candidate machines, and the candidates in the best rack.

    Return both, best first.
    """
    site = ledger.site
    usage = ledger.get_pool_usage(demand.vm.owner, demand.vm.pool)
    rack_numbers = dict.fromkeys(site.rack_by_machine[machine] for machine in candidates)
    rack_keys = demand_rules.prepare_sort_keys(site.profile.rack_keys[spread], usage, demand)
    racks = _rank_candidates(rack_numbers, site.rack_name, rack_keys, demand, seed)
    rack = site.rack_index[racks[0].name]
    rack_machines = [machine for machine in candidates if site.rack_by_machine[machine] == rack]
    machine_names = [machine.name for machine in site.machines]
    machine_keys = demand_rules.prepare_sort_keys(site.profile.machine_keys, usage, demand)
    return racks, _rank_candidates(rack_machines, machine_names, machine_keys, demand, seed)


def _rank_by_weight(ledger: Ledger, demand: Demand, candidates: list[int], seed: int) -> _Ranking:
    """Rank machines by weight.

    Return the rack of the best one alone, and all machines, best first. The heaviest machines tie:
    their digests decide among them, and are shown only if there are several.
    """
    weights = demand_rules.weigh_machines(ledger, demand, candidates)
    names = [machine.name for machine in ledger.site.machines]
    tied = set(demand_rules.select_heaviest_machines(ledger, demand, candidates))
    digests = {machine: compute_digest(seed, demand.vm, names[machine]) for machine in candidates}
    ranked = sorted(tied, key=lambda machine: digests[machine])
    others = [machine for machine in candidates if machine not in tied]
    ranked += sorted(others, key=lambda machine: (-weights[machine], digests[machine]))
    shows_digests = len(tied) > 1
    machines: list[RankedCandidate] = []
    for machine in ranked:
        weight = weights[machine]
        # The figure is negative, because lower figures are better.
        figure = RankingFigure("weight", -weight, f"weight {weight:g}")
        digest = digests[machine].hex() if shows_digests and machine in tied else ""
        machines.append(RankedCandidate(names[machine], (figure,), digest))
    best_rack = RankedCandidate(ledger.site.machines[ranked[0]].rack, machines[0].keys)
    return (best_rack,), tuple(machines)


class TiedMachines(Struct, frozen=True):
    """Names of the tied machines, for the random choice.

    They are the best machines of every best rack, and none if nothing fits. `in_some_splits` are
    best in at least one split (possible cells of VMs in unknown cells), `in_all_splits` in all.
    """

    in_some_splits: frozenset[str]
    in_all_splits: frozenset[str]


class MachineRanking:
    """Ranking of all machines for one VM on the current site, computed once.

    Machines may be excluded.

    Excluded machines (cordons) are rejected, and rank nothing. The splits of machines are
    independent. A machine is best in some of them if it fits in one, and every better machine fails
    to fit in another.
    """

    def __init__(self, ledger: Ledger, demand: Demand, spread: RackSpread) -> None:
        """Find the machines that fit in some and in all NUMA layouts.

        Prepare the keys to rank them.
        """
        self._site = ledger.site
        self._ledger = ledger
        self._demand = demand
        self._fitting, self._always_fitting = _find_fitting_machines(ledger, demand)
        usage = ledger.get_pool_usage(demand.vm.owner, demand.vm.pool)
        self._racks = _FigureCache(
            demand_rules.prepare_sort_keys(self._site.profile.rack_keys[spread], usage, demand)
        )
        self._machines = _FigureCache(
            demand_rules.prepare_sort_keys(self._site.profile.machine_keys, usage, demand)
        )

    def find_best_excluding(self, excluded: Collection[str] = ()) -> TiedMachines:
        """Return the best machines except the excluded ones.

        A split is a possible NUMA layout of existing VMs. A machine is best in some split if no
        machine that fits in every split outranks it. It is best in all splits if it fits in each of
        them, and no machine that may fit outranks it.
        """
        fitting = self._remove_excluded_machines(self._fitting, excluded)
        # No machine depends on its split.
        if len(self._always_fitting) == len(self._fitting):
            best = self._select_first(fitting, fitting)
            return TiedMachines(best, best)
        always_fitting = self._remove_excluded_machines(self._always_fitting, excluded)
        return TiedMachines(
            self._select_first(fitting, always_fitting), self._select_first(always_fitting, fitting)
        )

    def _remove_excluded_machines(
        self, numbers: Sequence[int], excluded: Collection[str]
    ) -> Sequence[int]:
        """Return the machines (by number) that are not excluded by name."""
        machines = self._site.machines
        return [number for number in numbers if machines[number].name not in excluded]

    def _select_first(self, candidates: Iterable[int], rivals: Iterable[int]) -> frozenset[str]:
        """Return the names of the candidates not outranked by a rival.

        These are the best of their rack, if no rack is better.
        """
        # Weights rank all machines at once, without racks and rivals.
        if self._site.profile.weigh is not None:
            heaviest = demand_rules.select_heaviest_machines(self._ledger, self._demand, candidates)
            return frozenset(self._site.machines[machine].name for machine in heaviest)
        rivals_by_rack: dict[int, list[int]] = {}
        for machine in rivals:
            rivals_by_rack.setdefault(self._site.rack_by_machine[machine], []).append(machine)
        # None without rivals.
        lowest_rack_figures = min(map(self._racks.compute, rivals_by_rack), default=None)
        lowest_machine_figures: dict[int, tuple[int, ...] | None] = {}
        first_machines: set[str] = set()
        for machine in candidates:
            rack = self._site.rack_by_machine[machine]
            if not _is_ranked_first(self._racks.compute(rack), lowest_rack_figures):
                continue
            if rack not in lowest_machine_figures:
                rivals_on_rack = rivals_by_rack.get(rack, ())
                lowest_machine_figures[rack] = min(
                    map(self._machines.compute, rivals_on_rack), default=None
                )
            if _is_ranked_first(self._machines.compute(machine), lowest_machine_figures[rack]):
                first_machines.add(self._site.machines[machine].name)
        return frozenset(first_machines)


def _is_ranked_first(figures: tuple[int, ...], lowest: tuple[int, ...] | None) -> bool:
    """Return whether no other item is ranked before these figures.

    `lowest` are the lowest figures of other items, or None if there are no others.
    """
    return lowest is None or figures <= lowest


class _FigureCache:
    """Ranking figures of racks or machines, each computed once."""

    def __init__(self, keys: Sequence[OpenKey]) -> None:
        # None: 0 for every item.
        self._keys = [figure for _, figure in keys if figure is not None]
        self._known: dict[int, tuple[int, ...]] = {}

    def compute(self, item: int) -> tuple[int, ...]:
        """Return the figures of one item."""
        figures = self._known.get(item)
        if figures is None:
            figures = self._known[item] = tuple(figure(item) for figure in self._keys)
        return figures


def _find_fitting_machines(ledger: Ledger, demand: Demand) -> tuple[list[int], list[int]]:
    """Return two lists of machines.

    The first has the machines with capacity for the VM in some layout, the second those with it in
    every layout. The layouts differ in the NUMA cells of existing VMs, if their cells are unknown.
    Most machines have one layout.
    """
    passing = list(range(len(ledger.site.machines)))
    for rule, find_rejection in demand_rules.list_rejecting_checks(ledger, demand):
        # Machines with VMs in unknown cells have several possible capacities: all of them
        # are checked below.
        checked_below = ledger.unknown_cells if isinstance(rule, CapacityFilter) else ()
        passing = [
            machine
            for machine in passing
            if machine in checked_below or find_rejection(machine) is None
        ]
    shape = ledger.site.get_shape(demand.sku)
    fitting: list[int] = []
    always_fitting: list[int] = []
    for machine in passing:
        # With one layout, the filters above are exact.
        fitting_vms = Interval(1, 1)
        if machine in ledger.unknown_cells:
            # Fewest and most over all layouts.
            fitting_vms = ledger.find_split_capacities(machine).count(shape)
        if fitting_vms.maximum:
            fitting.append(machine)
        if fitting_vms.minimum:
            always_fitting.append(machine)
    return fitting, always_fitting


def list_rejections(ledger: Ledger, demand: Demand, machine: int) -> Iterator[tuple[Filter, str]]:
    """Yield the filters rejecting the machine, with the reason."""
    for rule, find_rejection in demand_rules.list_rejecting_checks(ledger, demand):
        reason = find_rejection(machine)
        if reason is not None:
            yield rule, reason


def _apply_filters(
    ledger: Ledger, demand: Demand
) -> tuple[list[int], tuple[FilterCount, ...], tuple[Rejection, ...]]:
    """Return the machines passing all filters, the result of each filter, and the rejections."""
    machines = ledger.site.machines
    passing = list(range(len(machines)))
    filter_results: list[FilterCount] = []
    rejections: list[Rejection] = []
    # Of machines with VMs in unknown cells.
    possible_capacities = _PossibleCapacities(ledger)
    before = Interval(len(passing), len(passing))
    for rule, find_rejection in demand_rules.build_machine_checks(ledger, demand):
        # The filter applies to this demand.
        if find_rejection is not None:
            not_rejected: list[int] = []
            for machine in passing:
                reason = find_rejection(machine)
                if reason is None:
                    not_rejected.append(machine)
                else:
                    rejections.append(Rejection(machines[machine].name, rule.name, reason))
            passing = not_rejected
            possible_capacities.apply_filter(rule, find_rejection, demand)
        # The fewest and the most over all NUMA layouts.
        remaining = possible_capacities.count_remaining(passing)
        text = rule.describe_remaining(demand, remaining, before)
        filter_results.append(
            FilterCount(rule.name, len(passing), remaining, rule.line or f"  {rule.name}", text)
        )
        before = remaining
    candidates = demand_rules.exclude_last_resort(ledger, demand, passing)
    # The last resort is not needed.
    if len(candidates) < len(passing):
        rejections.append(
            Rejection(
                demand.last_resort or "",
                _LAST_RESORT,
                "the current machine is used only as a last resort",
            )
        )
        fewer = len(passing) - len(candidates)
        filter_results.append(
            FilterCount(
                _LAST_RESORT,
                len(candidates),
                Interval(before.minimum - fewer, before.maximum - fewer),
            )
        )
    return candidates, tuple(filter_results), tuple(rejections)


class _PossibleCapacities:
    """Machines with VMs in unknown cells.

    Each has the possible capacities that no filter has rejected so far.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._capacity_table = ledger.site.capacity_table
        # By machine with unknown cells: the numbers of its possible capacities, and those that
        # passed all filters.
        self._all = {
            machine: ledger.find_split_capacities(machine).list_possible()
            for machine in ledger.unknown_cells
        }
        self._remaining = {machine: list(capacities) for machine, capacities in self._all.items()}

    def apply_filter(self, rule: Filter, find_rejection: RejectionCheck, demand: Demand) -> None:
        """Remove the capacities rejected by a filter.

        A capacity filter rejects single capacities of a machine, every other filter the machine
        with all its capacities.
        """
        if not isinstance(rule, CapacityFilter):
            for machine in self._remaining:
                if find_rejection(machine) is not None:
                    self._remaining[machine] = []
            return
        check_capacity = rule.build_check(demand.sku)
        for machine, capacities in self._remaining.items():
            self._remaining[machine] = [
                capacity
                for capacity in capacities
                if check_capacity(self._capacity_table.free_capacities[capacity]) is None
            ]

    def count_remaining(self, sampled: Iterable[int]) -> Interval:
        """Return the minimum and maximum number of machines that passed all filters.

        The bounds are those over all NUMA layouts. `sampled` are the machines that passed in
        the assumed layout.
        """
        with_known_cells = sum(machine not in self._all for machine in sampled)
        # Of the machines with unknown cells, some remain in all splits, more in at least one.
        certain = sum(
            len(capacities) == len(self._all[machine])
            for machine, capacities in self._remaining.items()
        )
        possible = sum(bool(capacities) for capacities in self._remaining.values())
        return Interval(with_known_cells + certain, with_known_cells + possible)


def _rank_candidates(
    numbers: Iterable[int], names: Sequence[str], keys: Sequence[OpenKey], demand: Demand, seed: int
) -> tuple[RankedCandidate, ...]:
    """Rank racks or machines (`numbers`, at least one) by their keys, then by digest, best first.

    Only those tied with the best keep their digest: for others it decides nothing.
    """
    ranked: list[RankedCandidate] = []
    for number in numbers:
        figures: list[RankingFigure] = []
        for key, figure in keys:
            value = figure(number) if figure is not None else 0
            figures.append(
                RankingFigure(key.rule, key.convert_figure(value), key.describe(demand, value))
            )
        digest = compute_digest(seed, demand.vm, names[number]).hex()
        ranked.append(RankedCandidate(names[number], tuple(figures), digest))
    ranked.sort(key=lambda candidate: (candidate.values, candidate.digest))
    tied_count = sum(candidate.values == ranked[0].values for candidate in ranked)
    # A single best candidate needs no tie-break.
    digest_count = tied_count if tied_count > 1 else 0
    others = [replace(candidate, digest="") for candidate in ranked[digest_count:]]
    return (*ranked[:digest_count], *others)
