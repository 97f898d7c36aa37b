"""NUMA cells that nobody told: the ways in which VMs may lie, and in which of them a plan fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.planning.verdicts.fit import MOST_NAMED, SiteCertainty, Unplaced
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_object import VmObject
from nexusform.plans.plan import Draws
from nexusform.scheduling.racks.uncertainty.certainty import VmPlaced, replay
from nexusform.scheduling.racks.uncertainty.splits import PACKED, RULES, SPREAD, Roomiest, Way, name_of
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku
from nexusform.words import counted, first_of

FITS_BY_LUCK: Final = "fits-in-some-draws"

MOST_DRAWS: Final = 100


def draws_of(
    sites: Mapping[str, SitePlan], certainty: Mapping[str, SiteCertainty], way: Way, runs: int
) -> Draws | None:
    """What hangs on cells that nobody told, where VMs are placed; None where nothing does."""
    drawn = _drawn_sites(sites)
    if not drawn:
        return None
    machines = sum(len(site.base.loose_machines()) for site in drawn.values() if site.base is not None)
    per_run = zip(*(certainty[site_id].fits for site_id in drawn if site_id in certainty), strict=True)
    packed, spread = (all(_fits(site, rule) for site in drawn.values()) for rule in (PACKED, SPREAD))
    return Draws(machines, name_of(way), sum(all(fits) for fits in per_run), runs, packed, spread)


def draws_in_words(draws: Draws) -> str:
    """`in 48 of 100 draws of the NUMA cells that nobody told (128 machines)`."""
    machines = counted(draws.machines, "machine")
    rule = RULES.get(str(draws.shown))
    if not draws.runs:
        where = rule or "in one draw at least"
        return f"{where}, of the NUMA cells that nobody told ({machines}); no others were tried"
    share = f"{draws.fitting:,} of {draws.runs:,}"
    if rule is None:
        return f"in {share} draws of the NUMA cells that nobody told ({machines})"
    return f"{rule}, and in {share} draws of the NUMA cells that nobody told ({machines})"


def surely_fit(sites: Mapping[str, SitePlan]) -> bool:
    """Whether the VMs that the plan places fit however those lie whose cells nobody told. That is counted
    exactly where all of a site ask for the same and none leaves; otherwise it is not sure.
    """
    return all(_surely_fits(site) for site in _drawn_sites(sites).values())


def _surely_fits(site: SitePlan) -> bool:
    counted_alike = _counted_alike(site)
    return counted_alike is not None and counted_alike[0] <= counted_alike[1].least


def _is_too_much(site: SitePlan) -> bool:
    """Whether more VMs are placed than fit in any way, as far as that is counted."""
    counted_alike = _counted_alike(site)
    return counted_alike is not None and counted_alike[0] > counted_alike[1].most


def _counted_alike(site: SitePlan) -> tuple[int, Interval] | None:
    """How many VMs are placed and how many fit, where all ask for the same and none leaves."""
    assert site.base is not None
    demands = [operation.demand for operation in site.operations if isinstance(operation, VmPlaced)]
    alike = len({(demand.sku, demand.terms) for demand in demands}) == 1
    # Hints are about who is near, and room is counted as it is before anybody comes.
    if not alike or demands[0].hints or len(demands) < len(site.operations):
        return None
    return len(demands), site.base.count_free(demands[0])


def may_not_fit(draws: Draws) -> bool:
    """Whether there are ways in which VMs may lie so that not everything fits."""
    if not draws.runs:
        return draws.shown != 0  # it is shown as the first that fits
    return draws.fitting < draws.runs


def fits_by_luck(
    sites: Mapping[str, SitePlan], objects: Iterable[VmObject], draws: Draws | None
) -> Iterator[Diagnostic]:
    """A warning, at the first object that takes part in it, where not everything fits in every draw."""
    if draws is None or not may_not_fit(draws):
        return
    placing = [vms for vms in objects if vms.housing.tokens and _on_drawn_site(vms)]
    detail = (
        f"Everything fits {draws_in_words(draws)}. Azure does not tell the cells of VMs that stand: on the "
        f"site some of the new VMs may find no room. {_ends(sites)} Lower counts are more certain, and "
        "`nexusform simulate capacity` says how many of a SKU are."
    )
    if placing:
        share = f"in {draws.fitting:,} of {draws.runs:,} draws of NUMA cells"
        where = share if draws.runs else "for some ways in which VMs that stand may lie"
        brief = f"{_names(placing)}: everything fits {where}"
        yield placing[0].instance.problem(Problem((), FITS_BY_LUCK, detail, Severity.WARNING, brief=brief))


def _ends(sites: Mapping[str, SitePlan]) -> str:
    """How many VMs of each SKU the sites take before this plan, however those lie that stand."""
    clauses: list[str] = []
    for site_id, site in _drawn_sites(sites).items():
        clauses += (
            f"{site_id} takes {site.base.count_free(demand)} x {demand.sku.name}"
            for demand in _first_of_each_sku(site)
            if site.base is not None
        )
    return f"Before this plan {first_of(clauses, MOST_NAMED)}, each SKU alone."


def _first_of_each_sku(site: SitePlan) -> Iterable[Demand]:
    """A demand per SKU that is placed there, in their order."""
    placed = [operation.demand for operation in site.operations if isinstance(operation, VmPlaced)]
    first: dict[VmSku, Demand] = {}
    for demand in placed:
        first.setdefault(demand.sku, demand)
    return first.values()


def _on_drawn_site(vms: VmObject) -> bool:
    return vms.asked.site is not None and _places_hang_on_drawn_splits(vms.asked.site)


def _names(placing: Sequence[VmObject]) -> str:
    clusters = dict.fromkeys(vms.asked.demand.cluster for vms in placing if vms.asked.demand is not None)
    return first_of(list(clusters), MOST_NAMED)


def _drawn_sites(sites: Mapping[str, SitePlan]) -> dict[str, SitePlan]:
    """The sites on which places that this plan gives hang on drawn splits."""
    return {site_id: site for site_id, site in sites.items() if _places_hang_on_drawn_splits(site)}


def _places_hang_on_drawn_splits(site: SitePlan) -> bool:
    if site.base is None or not site.base.is_drawn:
        return False
    return any(isinstance(operation, VmPlaced) for operation in site.operations)


def fitting_draws(
    sites: Mapping[str, SitePlan], unplaced: Iterable[Unplaced], runs: int | None
) -> Iterator[Way]:
    """The ways in which VMs may lie so that every VM of this plan finds a place, as far as taking the same
    steps again tells: draws first, then the two rules, then where each machine has most room for what comes.
    """
    drawn = _drawn_sites(sites)
    if not {pool.site_id for pool in unplaced} <= drawn.keys():
        return
    if any(_is_too_much(site) for site in drawn.values()):
        return
    draws: Iterable[Way] = range(runs or MOST_DRAWS)
    for way in chain(draws, (PACKED, SPREAD), roomiest(sites)):
        if all(_fits(site, way) for site in drawn.values()):
            yield way


def roomiest(sites: Mapping[str, SitePlan]) -> list[Way]:
    """The ways in which machines have most room for what this plan places: one for each SKU of which most are
    to fit; none where all cells are known.
    """
    demands = chain.from_iterable(map(_first_of_each_sku, _drawn_sites(sites).values()))
    skus = list(dict.fromkeys(demand.sku for demand in demands))
    return [Roomiest(each) for each in _each_first(skus)]


def _each_first(skus: Sequence[VmSku]) -> Iterator[tuple[VmSku, ...]]:
    """The same once for each of the SKUs, that one first."""
    for at in range(len(skus)):
        yield (*skus[at:], *skus[:at])


def _fits(site: SitePlan, way: Way) -> bool:
    assert site.base is not None
    return None not in replay(site.base, site.operations, split_seed=way).values()
