"""Samples of unknown NUMA cells: the possible layouts of VMs, and those in which a plan fits."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import format_count, format_first_items
from nexusform.planning.verdicts.placement_fit import MAXIMUM_NAMED, PoolShortage
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.numa_sampling import NumaSampling
from nexusform.scheduling.racks.uncertainty.certainty import SamplingResult, run_operations
from nexusform.scheduling.racks.uncertainty.operations import PlaceOperation
from nexusform.scheduling.racks.uncertainty.splits import (
    PACKED,
    RULE_DESCRIPTIONS,
    SPREAD,
    LargestSplit,
    SplitChoice,
    format_split_choice,
)
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku

UNCERTAIN_FIT: Final = "uncertain-capacity"

MAXIMUM_SAMPLES: Final = 100


def compute_numa_sampling(
    sites: Mapping[str, SitePlan],
    certainty: Mapping[str, SamplingResult],
    split_choice: SplitChoice,
    sample_count: int,
) -> NumaSampling | None:
    """Count the samples of unknown NUMA cells with capacity for all VMs.

    Return None if no placed VM depends on unknown cells. Two fixed layouts are checked, too. PACKED
    has existing VMs in the fullest cells, SPREAD in the emptiest ones.
    """
    sampled_sites = _select_sampled_sites(sites)
    if not sampled_sites:
        return None
    machines = sum(
        len(site.base.list_machines_with_unknown_cells()) for site in sampled_sites.values()
    )
    # For each sample, whether everything fits on each site.
    fits_per_sample = zip(
        *(certainty[site_id].fits for site_id in sampled_sites if site_id in certainty), strict=True
    )
    fits_packed = all(_has_sample_capacity_for_all(site, PACKED) for site in sampled_sites.values())
    fits_spread = all(_has_sample_capacity_for_all(site, SPREAD) for site in sampled_sites.values())
    return NumaSampling(
        machines=machines,
        displayed_sample=format_split_choice(split_choice),
        fitting_count=sum(all(fits) for fits in fits_per_sample),
        sample_count=sample_count,
        fits_packed=fits_packed,
        fits_spread=fits_spread,
    )


def format_numa_sampling(numa_sampling: NumaSampling) -> str:
    """Format the number of fitting samples and of machines with unknown cells.

    With a single layout, format that one.
    """
    machines = format_count(numa_sampling.machines, "machine")
    # None: a random layout is displayed.
    layout = RULE_DESCRIPTIONS.get(str(numa_sampling.displayed_sample))
    unknown_cells = f"of the unknown NUMA cells ({machines})"
    # Only the displayed layout was tested.
    if not numa_sampling.sample_count:
        return f"{layout or 'in at least one sample'} {unknown_cells}; no others were tested"
    share = (
        f"in {numa_sampling.fitting_count:,} of {numa_sampling.sample_count:,} samples "
        f"{unknown_cells}"
    )
    return share if layout is None else f"{layout}, and {share}"


def is_certain_fit(sites: Mapping[str, SitePlan]) -> bool:
    """Return whether the placed VMs fit in every layout of the VMs in unknown NUMA cells.

    Return False if a site has VMs with different demands, with hints, or released or pinned ones:
    their layouts cannot be counted.
    """
    for site in _select_sampled_sites(sites).values():
        placed_count, capacity = _count_identical_vms(site)
        if capacity is None or placed_count > capacity.minimum:
            return False
    return True


def count_missing_vms(site: SitePlan, split_choice: SplitChoice) -> Counter[tuple[str, str]]:
    """Return the VMs of the plan without capacity by (owner, pool).

    `split_choice` is the layout of the existing VMs in NUMA cells.
    """
    vms = {
        operation.token: operation.demand.vm
        for operation in site.operations
        if isinstance(operation, PlaceOperation)
    }
    placements = run_operations(site.base, site.operations, split_choice=split_choice)
    missing_vms = [vms[token] for token, placement in placements.items() if placement is None]
    return Counter((vm.owner, vm.pool) for vm in missing_vms)


def bound_missing_vms(site: SitePlan) -> Interval | None:
    """Return exact bounds of the VMs of the plan without capacity, over all layouts.

    Return None if layouts cannot be counted, as in `is_certain_fit`.
    """
    placed_count, capacity = _count_identical_vms(site)
    if capacity is None:
        return None
    return Interval(
        max(0, placed_count - capacity.maximum), max(0, placed_count - capacity.minimum)
    )


def _count_identical_vms(site: SitePlan) -> tuple[int, Interval | None]:
    """Return the number of VMs placed on a site, and its capacity for such VMs before that.

    The capacity is None unless they all have one demand without hints, and no other operation
    changes the site.
    """
    demands = site.placed_demands
    is_uniform = len({(demand.sku, demand.constraints) for demand in demands}) == 1
    # Hints depend on other VMs, and other operations (releases, pinned VMs) change the capacity.
    if not is_uniform or demands[0].hints or len(demands) < len(site.operations):
        return len(demands), None
    # All are equal.
    return len(demands), site.base.count_free_slots(demands[0])


def check_uncertain_fit(
    sites: Mapping[str, SitePlan], objects: Iterable[VmObject], numa_sampling: NumaSampling | None
) -> Iterator[Diagnostic]:
    """Yield a warning if the new VMs do not fit in every sample of unknown NUMA cells.

    The cells are those of existing VMs. The address of the warning is that of the first object with
    new VMs on such a site.
    """
    # No cells are unknown.
    if numa_sampling is None:
        return
    fits_everywhere = numa_sampling.fitting_count == numa_sampling.sample_count
    # No samples: layouts were only tried until one fits, from number 0 on.
    if not numa_sampling.sample_count:
        fits_everywhere = numa_sampling.displayed_sample == 0
    if fits_everywhere:
        return
    sampled_sites = _select_sampled_sites(sites)
    placing_objects = [
        vm_object
        for vm_object in objects
        if vm_object.placements.new_handles and vm_object.request.demand.site_id in sampled_sites
    ]
    # The VMs of each SKU accepted by the sites before this plan, in any layout of existing VMs.
    clauses: list[str] = []
    for site_id, site in sampled_sites.items():
        demands = _list_first_demand_per_sku(site)
        clauses += (
            f"{site_id} takes {site.base.count_free_slots(demand)} x {demand.sku.name}"
            for demand in demands
        )
    site_capacity_per_sku = (
        f"Before this plan {format_first_items(clauses, MAXIMUM_NAMED)}, each SKU alone."
    )
    detail = (
        f"Everything fits {format_numa_sampling(numa_sampling)}. Azure does not report the cells "
        f"of existing VMs: some of the new VMs may not fit on the site. {site_capacity_per_sku} "
        "Lower counts are more certain; `nexusform simulate capacity` shows the certain count of a "
        "SKU."
    )
    if placing_objects:
        share = (
            f"in {numa_sampling.fitting_count:,} of {numa_sampling.sample_count:,} samples of NUMA "
            "cells"
        )
        condition = share if numa_sampling.sample_count else "for some layouts of the existing VMs"
        clusters = dict.fromkeys(vm_object.request.demand.cluster for vm_object in placing_objects)
        summary = (
            f"{format_first_items(list(clusters), MAXIMUM_NAMED)}: everything fits {condition}"
        )
        problem = Problem((), UNCERTAIN_FIT, detail, Severity.WARNING, brief=summary)
        yield placing_objects[0].instance.build_diagnostic(problem)


def _list_first_demand_per_sku(site: SitePlan) -> Iterable[Demand]:
    """Return the first demand of each SKU placed on the site, in order of placement."""
    demand_by_sku: dict[VmSku, Demand] = {}
    for demand in site.placed_demands:
        demand_by_sku.setdefault(demand.sku, demand)
    return demand_by_sku.values()


def _select_sampled_sites(sites: Mapping[str, SitePlan]) -> dict[str, SitePlan]:
    """Return the sites with placements and with unknown NUMA cells of existing VMs.

    Sites are by id, and placements are of this plan.
    """
    return {
        site_id: site
        for site_id, site in sites.items()
        if site.base.is_sampled and site.placed_demands
    }


def iterate_fitting_samples(
    sites: Mapping[str, SitePlan], unplaced: Iterable[PoolShortage], sample_count: int | None
) -> Iterator[SplitChoice]:
    """Yield the samples with capacity for every VM of this plan.

    A sample is a layout of existing VMs in NUMA cells. Random samples (numbers) come first, then
    the two fixed rules PACKED and SPREAD. The layouts with maximum capacity per machine come last.
    """
    sampled_sites = _select_sampled_sites(sites)
    if not {pool.site_id for pool in unplaced} <= sampled_sites.keys():
        # A site without unknown cells lacks capacity in every sample.
        return
    for site in sampled_sites.values():
        placed_count, capacity = _count_identical_vms(site)
        # None: the layouts cannot be counted.
        if capacity is not None and placed_count > capacity.maximum:
            # No layout has enough capacity.
            return
    samples: Iterable[SplitChoice] = range(sample_count or MAXIMUM_SAMPLES)
    for split_choice in chain(samples, (PACKED, SPREAD), list_maximum_capacity_samples(sites)):
        if all(_has_sample_capacity_for_all(site, split_choice) for site in sampled_sites.values()):
            yield split_choice


def list_maximum_capacity_samples(sites: Mapping[str, SitePlan]) -> list[SplitChoice]:
    """Return layouts of existing VMs in NUMA cells with maximum capacity left on each machine.

    There is one per SKU of new VMs, with most capacity for this SKU. Return no layout if all
    cells are known.
    """
    demands = chain.from_iterable(
        map(_list_first_demand_per_sku, _select_sampled_sites(sites).values())
    )
    skus = list(dict.fromkeys(demand.sku for demand in demands))
    # Each SKU first once.
    return [LargestSplit((*skus[index:], *skus[:index])) for index in range(len(skus))]


def _has_sample_capacity_for_all(site: SitePlan, split_choice: SplitChoice) -> bool:
    """Return whether all VMs of the plan fit in a layout of the existing VMs in NUMA cells."""
    placements = run_operations(site.base, site.operations, split_choice=split_choice)
    # None: a VM without capacity.
    return None not in placements.values()
