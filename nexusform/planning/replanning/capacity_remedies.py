"""Remedies for VMs that do not fit: each is tested as a whole plan before it is suggested.

An upgrade that removes VMs before adding new ones is tried first. The others follow in the order of
the Nexus document's advice: fewer VMs of the same SKU, more zones, a planned rack, larger clusters
first, other hints if hard hints block, and a smaller SKU last.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, combinations, islice
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_list
from nexusform.interfaces.plugins import PlanningKind
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import Edit, PlacementOrder, VmReplacement
from nexusform.planning.plan_request import ArgumentAdjustment, PlanRequest
from nexusform.planning.replanning.remedies import (
    Remedy,
    RemedyPricing,
    build_remedy_document,
    format_numbered_remedies,
    sort_by_price,
)
from nexusform.planning.replanning.trials import plan_trial
from nexusform.planning.verdicts.numa_samples import is_certain_fit
from nexusform.planning.verdicts.placement_fit import DOES_NOT_FIT, PoolShortage
from nexusform.planning.vm_planning.vm_object import HardHint
from nexusform.plans.numa_sampling import NumaSampling
from nexusform.plans.plan import Action, Plan
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import CONTROL_PLANE, HintScope, VmSku
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

_Item = TypeVar("_Item")

# Each trial is a whole plan with samples; bisection finds one of a thousand counts.
MAXIMUM_TRIALS: Final = 10


def is_remedy_uncertain(numa_sampling: NumaSampling | None) -> bool:
    """Return whether a fit depends on unknown NUMA cells, and not all samples of them fit.

    `numa_sampling` is None if the fit depends on none.
    """
    if numa_sampling is None:
        return False
    # No sample was computed.
    if not numa_sampling.sample_count:
        return True
    return numa_sampling.fitting_count < numa_sampling.sample_count


def format_certain_count_note(
    outcome: PlanResult, count: int, existing_count: int, plan_count: Callable[[int], PlanResult]
) -> str:
    """Format a note with the largest number of VMs of a pool that fits in every sample.

    These are samples of unknown NUMA cells. The note is "" if the plan `outcome` with `count` VMs
    fits in every sample. `plan_count` plans with another number.
    """
    if not is_remedy_uncertain(outcome.plan.figures.numa_sampling):
        return ""
    lower = existing_count
    upper = count - 1
    best: PlanResult | None = None
    # `lower` fits in every sample: the existing VMs, or the plan in `best`.
    for _ in range(MAXIMUM_TRIALS):
        if lower >= upper:
            break
        middle = (lower + upper + 1) // 2
        smaller = plan_count(middle)
        if smaller.plan.errored or is_remedy_uncertain(smaller.plan.figures.numa_sampling):
            upper = middle - 1
        else:
            lower = middle
            best = smaller
    if not lower:
        return "No count fits in every sample."
    # None: only the existing VMs are certain.
    if best is None or is_certain_fit(best.sites):
        return f"{lower} is certain."
    # In all samples, but perhaps not in every possible layout.
    return f"{lower} fits in all of them."


# Each trial is a whole plan: enough for the zones of the largest sites one by one and in pairs.
MAXIMUM_ZONE_TRIALS = 40
MAXIMUM_COUNT_TRIALS = 12
MAXIMUM_HINTS = 5


# Function that plans again with edits.
TrialPlanner: TypeAlias = Callable[[Sequence[Edit]], PlanResult]


class _PlanShortage(Struct, frozen=True):
    # The plan that does not fit, its pools without capacity, and its current racks.
    plan: Plan
    pools: tuple[PoolShortage, ...]
    racks: tuple[tuple[Address, Mapping[str, Any]], ...]


def add_remedies(
    request: PlanRequest, result: PlanResult, make_plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """Return the result with remedies for missing capacity added to its errors.

    Trial plans test each remedy.
    """
    if any(diagnostic.id != DOES_NOT_FIT for diagnostic in result.plan.errors):
        # Another error would reject every trial, too.
        return result
    plan_edits: TrialPlanner = partial(plan_trial, request, make_plan)
    get_kind = request.registries.get_kind
    racks = [
        (change.address, change.after)
        for change in result.plan.changes
        if change.after is not None and get_kind(change.address.type) is PlanningKind.RACK
    ]
    failure = _PlanShortage(result.plan, result.unplaced, tuple(racks))
    remedies: list[Remedy] = []
    for search in (
        _try_without_surge,
        _try_fewer_vms,
        _try_more_zones,
        _try_planned_racks,
        _try_other_creation_order,
        _try_other_placement_hints,
        _try_smaller_skus,
    ):
        remedies += search(failure, plan_edits)
    remedies = sort_by_price(map(RemedyPricing(request, result).add_price, remedies))
    has_hints = any(shortage.binding_hints for shortage in result.unplaced)
    trial_summary = _TRIAL_SUMMARY_WITH_HINTS if has_hints else _TRIAL_SUMMARY
    return replace(
        result,
        plan=_add_advice(
            result.plan,
            remedies,
            trial_summary,
            _format_repack_hint(request, result)
            # A hypothetical plan shows the changes.
            + ("" if request.allows_shortage else "\nNo changes were made."),
        ),
    )


def _format_repack_hint(request: PlanRequest, result: PlanResult) -> str:
    """Format a hint to free capacity for the first pool by re-creating VMs elsewhere.

    Return "" if this cannot help. It needs existing VMs, and new ones in the pool; an upgrade gains
    nothing. The hint names a command: no solver runs here. The command reads the state, so the hint
    needs a VM SKU of the catalogue or of the state: a plain VM has a size without a name.
    """
    pools = [shortage for shortage in result.unplaced if not shortage.surge]
    has_existing_vms = any(
        vm_object.request.actions.unchanged for vm_object in result.objects.values()
    )
    if not pools or not has_existing_vms:
        return ""
    pool = pools[0].pool
    new_count = len(pool.numbers) - pools[0].existing_count
    # Only existing VMs to re-create do not fit.
    if new_count < 1 or pool.sku.name not in _list_sku_names_in_state(request):
        return ""
    command = f"nexusform simulate repack -sku={pool.sku.name} -want={new_count}"
    # None: all zones are allowed.
    if pool.zones is not None:
        command += f" -zones={','.join(sorted(pool.zones, key=str.encode))}"
    return f"\nTo check whether re-creating a few VMs elsewhere frees capacity: `{command}`"


def _list_sku_names_in_state(request: PlanRequest) -> set[str]:
    """Return the names of the VM SKUs of the state and of its catalogue."""
    catalogue = CATALOGUES.get(request.state.catalogue or NEWEST, CATALOGUES[NEWEST])
    declared_names = {
        str(current.attributes.get("name"))
        for address, current in request.state.list_current_objects()
        if request.registries.get_kind(address.type) is PlanningKind.VM_SKU
    }
    return {*catalogue.vm_skus, *declared_names}


def _add_advice(
    plan: Plan, remedies: Sequence[Remedy], trial_summary: str, further_text: str
) -> Plan:
    """Add the remedies as data to every capacity error; the first also gets their text."""
    advice = f"No fix was found. Tested: {trial_summary}"
    if remedies:
        advice = format_numbered_remedies("Suggested fixes (tested):", remedies)
    data = [build_remedy_document(remedy) for remedy in remedies]
    closing = f"\n\n{advice}{further_text}"
    diagnostics: list[Diagnostic] = []
    for diagnostic in plan.diagnostics:
        if diagnostic.id != DOES_NOT_FIT:
            diagnostics.append(diagnostic)
            continue
        fit = {**diagnostic.extra.get("fit", {}), "suggested_fixes": data}
        detail = diagnostic.detail + closing
        diagnostics.append(
            replace(diagnostic, detail=detail, extra={**diagnostic.extra, "fit": fit})
        )
        # The other errors get the data only.
        closing = ""
    return replace(plan, diagnostics=tuple(diagnostics))


_TRIAL_SUMMARY = "fewer VMs, more zones, planned racks, another order and smaller SKUs."
_TRIAL_SUMMARY_WITH_HINTS = (
    "fewer VMs, more zones, planned racks, another order, other hints and smaller SKUs."
)


def _try_without_surge(failure: _PlanShortage, trial: TrialPlanner) -> Iterator[Remedy]:
    """Try upgrades that remove old VMs first instead of adding surge VMs."""
    pools = failure.pools
    if not all(shortage.surge and shortage.pool.pool != CONTROL_PLANE for shortage in pools):
        # Only upgrades add surge VMs, and a control plane has no upgrade_settings.
        return
    settings = (("max_surge", "0"), ("max_unavailable", "1"))
    adjustments: list[ArgumentAdjustment] = []
    names = []
    data = []
    for shortage in pools:
        path = (*shortage.pool.path, "upgrade_settings")
        adjustments += [
            ArgumentAdjustment(shortage.address, (*path, name), value) for name, value in settings
        ]
        names.append(f"{shortage.cluster}/{shortage.pool.pool}")
        data.append(
            {"address": str(shortage.address), "pool": shortage.pool.pool, **dict(settings)}
        )
    outcome = trial(adjustments)
    if not outcome.plan.errored:
        scope = f" for {format_list(names)}" if len(names) > 1 else ""
        text = (
            f'upgrade_settings {{ max_surge = "0", max_unavailable = "1" }}{scope}: the upgrade '
            "removes a VM before it adds the next, and fits."
        )
        yield Remedy("upgrade", text, outcome, {"upgrade_settings": data}, tuple(adjustments))


def _try_fewer_vms(failure: _PlanShortage, trial: TrialPlanner) -> Iterator[Remedy]:
    """Try smaller counts of VMs with the same SKUs, and yield the first one with capacity for all.

    Start with the number of VMs placed by the plan without capacity. Pools failing in a trial get
    smaller counts in the next one.
    """
    # To try, by object and pool.
    counts: dict[tuple[Address, str], int] = {}
    # All that failed so far.
    pools: dict[tuple[Address, str], PoolShortage] = {}
    failed_pools: Sequence[PoolShortage] = failure.pools
    for _ in range(MAXIMUM_COUNT_TRIALS):
        for shortage in failed_pools:
            key = (shortage.address, shortage.pool.pool)
            pools.setdefault(key, shortage)
            # A count that did not fit is followed by a smaller one.
            counts[key] = (
                min(shortage.placed_count, counts[key] - 1)
                if key in counts
                else shortage.placed_count
            )
        if not all(shortage.pool.count_path for shortage in pools.values()):
            # Plain VMs and VNFs have no count to lower.
            return
        adjustments = []
        for key, shortage in pools.items():
            if counts[key] < _get_minimum_count(shortage):
                # The other pools take all capacity.
                yield from _try_equal_shares(pools, trial)
                return
            adjustments.append(
                ArgumentAdjustment(shortage.address, shortage.pool.count_path, counts[key])
            )
        outcome = trial(adjustments)
        if not outcome.plan.errored:
            remark = _format_certain_count(outcome, adjustments, pools.values(), trial)
            yield _build_count_remedy(pools, counts, outcome, adjustments, remark)
            return
        if not outcome.unplaced:
            # Smaller counts do not help with errors other than capacity.
            return
        failed_pools = outcome.unplaced


def _get_minimum_count(shortage: PoolShortage) -> int:
    """Return the minimum count of a pool: no existing VM is removed, and one VM remains."""
    return max(shortage.existing_count, 1)


def _try_equal_shares(
    pools: dict[tuple[Address, str], PoolShortage], trial: TrialPlanner
) -> Iterator[Remedy]:
    """Try smaller counts for several pools, each with the same share of its requested VMs.

    Yield the largest share with capacity for all.
    """
    requested_counts = {key: len(shortage.pool.numbers) for key, shortage in pools.items()}
    requested_total = sum(requested_counts.values())
    minimum_total = sum(map(_get_minimum_count, pools.values()))
    if len(pools) < 2:
        return
    best: tuple[dict[tuple[Address, str], int], list[ArgumentAdjustment], PlanResult] | None = None
    # A smaller total has the same counts. Without smaller counts nothing is tried.
    lower = minimum_total
    upper = requested_total - 1
    # First the smallest: if it does not fit either, no other has to be tried.
    total = minimum_total
    for _ in range(1 + MAXIMUM_COUNT_TRIALS):
        if lower > upper:
            break
        counts = {
            key: max(_get_minimum_count(shortage), requested_counts[key] * total // requested_total)
            for key, shortage in pools.items()
        }
        # The first pools get what remains of the total.
        rest = total - sum(counts.values())
        for key, requested_count in requested_counts.items():
            if rest > 0 and counts[key] < requested_count:
                counts[key] += 1
                rest -= 1
        adjustments = [
            ArgumentAdjustment(shortage.address, shortage.pool.count_path, counts[key])
            for key, shortage in pools.items()
        ]
        outcome = trial(adjustments)
        if outcome.plan.errored:
            upper = total - 1
        else:
            best = (counts, adjustments, outcome)
            lower = total + 1
        total = (lower + upper + 1) // 2
    if best is not None:
        counts, adjustments, outcome = best
        yield _build_count_remedy(pools, counts, outcome, adjustments)


def _format_certain_count(
    outcome: PlanResult,
    adjustments: Sequence[ArgumentAdjustment],
    pools: Iterable[PoolShortage],
    trial: TrialPlanner,
) -> str:
    """Format the number of VMs certain to fit in a single pool.

    Return "" for several pools, or if the tested count is certain.
    """
    if len(adjustments) > 1:
        return ""
    [adjustment], [shortage] = adjustments, pools
    return format_certain_count_note(
        outcome,
        adjustment.value,
        shortage.existing_count,
        lambda count: trial([replace(adjustment, value=count)]),
    )


def _build_count_remedy(
    pools: dict[tuple[Address, str], PoolShortage],
    counts: dict[tuple[Address, str], int],
    outcome: PlanResult,
    adjustments: Sequence[ArgumentAdjustment],
    remark: str = "",
) -> Remedy:
    """Build the remedy of fewer VMs: the `counts` with capacity.

    `pools` and `counts` have the keys (address, pool name).
    """
    texts = []
    data = []
    vcpus = 0
    for key, shortage in pools.items():
        prefix = "" if len(pools) == 1 else f"{shortage.cluster}/{shortage.pool.pool}: "
        count = counts[key]
        sku = shortage.pool.sku
        # The name of the argument.
        argument = str(shortage.pool.count_path[-1])
        texts.append(f"{prefix}{argument} = {count}")
        data.append(
            {
                "address": str(shortage.address),
                "pool": shortage.pool.pool,
                argument: count,
                "sku": sku.name,
            }
        )
        vcpus += count * sku.vcpus
    verb, sku_text = ("fits", "this SKU") if len(texts) == 1 else ("fit", "these SKUs")
    return Remedy(
        "count",
        f"{', '.join(texts)} {verb} with {sku_text} ({vcpus:,} vCPUs).",
        outcome,
        {"counts": data},
        tuple(adjustments),
        remark,
    )


def _try_more_zones(failure: _PlanShortage, trial: TrialPlanner) -> Iterator[Remedy]:
    """Try the smallest extension of availability_zones with which everything fits."""
    if not all(shortage.pool.zones and shortage.pool.count_path for shortage in failure.pools):
        # A pool without zones may use all; VMs outside of clusters have no pool with
        # zones to change.
        return
    for zones in _iterate_zone_additions(failure):
        adjustments = []
        for shortage in failure.pools:
            path = (*shortage.pool.path, "availability_zones")
            new_zones = shortage.pool.configured_zones.union(zones)
            adjustments.append(ArgumentAdjustment(shortage.address, path, sorted(new_zones)))
        outcome = trial(adjustments)
        if not outcome.plan.errored:
            yield _build_zone_remedy(failure.pools, zones, outcome, adjustments)
            return


def _iterate_zone_additions(failure: _PlanShortage) -> Iterator[Sequence[str]]:
    """Yield combinations of zones to add, the smallest first.

    After MAXIMUM_ZONE_TRIALS of them, yield all zones.
    """
    # The zones of every site, from the racks of the plan; a planned rack has no machines yet.
    zones_of_sites: dict[str, set[str]] = {}
    for _, rack in failure.racks:
        if rack.get("status") != "planned":
            zones_of_sites.setdefault(str(rack["site_id"]), set()).add(
                str(rack["availability_zone"])
            )
    zones: set[str] = set()
    # Allowed zones of each pool.
    allowed_zones: list[frozenset[str]] = []
    for shortage in failure.pools:
        zones.update(zones_of_sites.get(shortage.site_id, ()))
        allowed_zones.append(shortage.pool.configured_zones)
    common_zones = frozenset.intersection(*allowed_zones)
    # New for at least one pool.
    addable_zones = sorted(zones - common_zones, key=str.encode)
    sizes = range(1, len(addable_zones) + 1)
    additions = chain.from_iterable(combinations(addable_zones, size) for size in sizes)
    for number, added in enumerate(additions):
        if number == MAXIMUM_ZONE_TRIALS:
            yield addable_zones
            return
        yield added


def _build_zone_remedy(
    pools: Sequence[PoolShortage],
    new_zones: Sequence[str],
    outcome: PlanResult,
    adjustments: Sequence[ArgumentAdjustment],
) -> Remedy:
    """Build the remedy of more zones: each pool gets `new_zones` besides its configured ones."""
    texts = []
    data = []
    for shortage in pools:
        zones = sorted(shortage.pool.configured_zones | set(new_zones), key=str.encode)
        text = ", ".join(f'"{zone}"' for zone in zones)
        prefix = "" if len(pools) == 1 else f"{shortage.cluster}/{shortage.pool.pool}: "
        texts.append(f"{prefix}availability_zones = [{text}]")
        data.append(
            {
                "address": str(shortage.address),
                "pool": shortage.pool.pool,
                "availability_zones": zones,
            }
        )
    text = f"{'; '.join(texts)}: {_format_fit(pools)}."
    return Remedy("zones", text, outcome, {"zones": data}, tuple(adjustments))


def _try_planned_racks(failure: _PlanShortage, trial: TrialPlanner) -> Iterator[Remedy]:
    """Try to activate planned racks (described, but without machines for VMs yet).

    The racks are tried one by one, then all together.
    """
    sites = {shortage.site_id for shortage in failure.pools}
    # Address and name of each planned rack on these sites.
    planned: list[tuple[Address, str]] = []
    for address, rack in failure.racks:
        if rack.get("status") == "planned" and rack.get("site_id") in sites:
            planned.append((address, str(rack["name"])))
    for racks in _list_choices(planned):
        adjustments = []
        names = []
        data = []
        for address, name in racks:
            adjustments.append(ArgumentAdjustment(address, ("status",), "active"))
            names.append(name)
            data.append({"address": str(address), "status": "active"})
        outcome = trial(adjustments)
        if not outcome.plan.errored:
            text = f"{', '.join(names)} (planned) active: {_format_fit(failure.pools)}."
            yield Remedy("racks", text, outcome, {"racks": data}, tuple(adjustments))
            return


def _list_choices(items: list[_Item]) -> list[list[_Item]]:
    """Return lists to try: each item alone, then all of them together if there are several."""
    choices = [[item] for item in items]
    if len(items) > 1:
        choices.append(items)
    return choices


def _format_fit(pools: Sequence[PoolShortage]) -> str:
    """Format the result of a remedy for the pools without capacity."""
    if len(pools) > 1:
        return "everything fits"
    # Of the VMs of the only pool.
    count = len(pools[0].pool.numbers)
    if count == 1:
        return "it fits"
    return f"all {count:,} fit"


def _try_other_creation_order(failure: _PlanShortage, trial: TrialPlanner) -> Iterator[Remedy]:
    """Try two orders of new clusters: those without capacity first, else all by memory.

    Yield a remedy if one fits.
    """
    # Names by address, and host memory in MiB by address.
    new_clusters, memory = _measure_new_clusters(failure.plan)
    if len(new_clusters) < 2:
        # A single cluster has no other order.
        return
    failing = list(
        dict.fromkeys(
            shortage.address for shortage in failure.pools if shortage.address in new_clusters
        )
    )
    larger_first = sorted(new_clusters, key=lambda address: -memory[address])
    for order in (failing, larger_first):
        # It is the order of the plan.
        if list(new_clusters)[: len(order)] == order:
            continue
        # The clusters of `order` are placed first.
        outcome = trial([PlacementOrder(tuple(order))])
        if outcome.plan.errored:
            continue
        names = [new_clusters[address] for address in order]
        other_names = [name for address, name in new_clusters.items() if address not in order]
        fits = _format_fit(failure.pools)
        text = f"Create the clusters in the order {', '.join(names)}: {fits}."
        if order is failing and other_names:
            text = f"Create {', '.join(names)} before {', '.join(other_names)}: {fits}."
        yield Remedy("order", text, outcome, {"order": list(map(str, order))})
        return


def _measure_new_clusters(plan: Plan) -> tuple[dict[Address, str], Counter[Address]]:
    """Return the new clusters in planning order.

    Names, and host memory in MiB (1 per VM of an unknown SKU).
    """
    skus = CATALOGUES[NEWEST].vm_skus
    names: dict[Address, str] = {}
    memory: Counter[Address] = Counter()
    created_addresses = {
        change.address for change in plan.changes if change.action is Action.CREATE
    }
    for table in plan.figures.placement_tables:
        if table.address in created_addresses:
            sku = skus.get(table.vm_sku_name)
            memory[table.address] += table.total_count * (sku.memory_mib if sku is not None else 1)
            names[table.address] = table.cluster
    return names, memory


def _try_other_placement_hints(failure: _PlanShortage, trial: TrialPlanner) -> Iterator[Remedy]:
    """Try three changes of blocking hard placement hints.

    re-create the VM with the hint as well, make the hint soft, or use a weaker scope. Yield the
    first success of each: one hint at a time, then all hints.
    """
    hints = list(
        dict.fromkeys(chain.from_iterable(shortage.binding_hints for shortage in failure.pools))
    )
    choices = _list_choices(hints[:MAXIMUM_HINTS])
    for search in (_try_recreated_vms, _try_soft_hints, _try_other_hint_scope):
        remedies = (
            remedy
            for selected_hints in choices
            for remedy in search(failure, trial, selected_hints)
        )
        yield from islice(remedies, 1)


def _try_recreated_vms(
    failure: _PlanShortage, trial: TrialPlanner, hints: Sequence[HardHint]
) -> Iterator[Remedy]:
    """Try to re-create the existing VMs with the hints in the same plan."""
    vms = list(dict.fromkeys(f"{hint.address}:{hint.name}" for hint in hints))
    if not all(hint.is_existing for hint in hints):
        # This plan creates or re-creates the others already.
        return
    outcome = trial([VmReplacement(vm) for vm in vms])
    if not outcome.plan.errored:
        options = " ".join(f"-replace='{vm}'" for vm in vms)
        text = f"{options}: {_format_fit(failure.pools)}."
        yield Remedy("replace", text, outcome, {"replace": vms})


def _try_soft_hints(
    failure: _PlanShortage, trial: TrialPlanner, hints: Sequence[HardHint]
) -> Iterator[Remedy]:
    """Try the hints as soft preferences."""
    return _try_hint_argument(failure, trial, hints, "scheduling_execution", "Soft")


def _try_other_hint_scope(
    failure: _PlanShortage, trial: TrialPlanner, hints: Sequence[HardHint]
) -> Iterator[Remedy]:
    """Try a weaker scope: the machine for anti-affinity by rack, the rack for affinity by machine.

    Skip mixed hints.
    """
    kinds = {(hint.hint.scope, hint.hint.is_affinity) for hint in hints}
    if kinds == {(HintScope.RACK, False)}:
        yield from _try_hint_argument(failure, trial, hints, "scope", HintScope.MACHINE.value)
    elif kinds == {(HintScope.MACHINE, True)}:
        yield from _try_hint_argument(failure, trial, hints, "scope", HintScope.RACK.value)


def _try_hint_argument(
    failure: _PlanShortage,
    trial: TrialPlanner,
    hints: Sequence[HardHint],
    argument: str,
    value: str,
) -> Iterator[Remedy]:
    """Try another value of one argument of the hints; yield it if the plan has no errors."""
    edits = []
    data = []
    # Addresses of the VMs with the hints, each once.
    owners: dict[str, None] = {}
    for hint in hints:
        edits.append(
            ArgumentAdjustment(hint.address, ("placement_hint", hint.index, argument), value)
        )
        data.append({"address": str(hint.address), "hint": hint.index, argument: value})
        owners[str(hint.address)] = None
    outcome = trial(edits)
    # It does not help.
    if outcome.plan.errored:
        return
    subject = f"the placement_hint of {' and '.join(owners)}"
    text = f'{argument} = "{value}" in {subject}: {_format_fit(failure.pools)}.'
    yield Remedy("hint", text, outcome, {"hints": data}, tuple(edits))


def _try_smaller_skus(failure: _PlanShortage, trial: TrialPlanner) -> Iterator[Remedy]:
    """Try the largest smaller SKU of the same type with which all VMs of the failing pools fit."""
    pools = failure.pools
    sku = pools[0].pool.sku
    name = pools[0].pool.pool
    for shortage in pools:
        if shortage.pool.sku != sku or not shortage.pool.count_path:
            # One new SKU must suit all pools.
            return
        if shortage.existing_count:
            # Another SKU would re-create existing VMs.
            return
    for smaller in _list_smaller_skus(sku, is_control_plane=name == CONTROL_PLANE):
        adjustments = [
            ArgumentAdjustment(shortage.address, (*shortage.pool.path, "vm_sku_name"), smaller.name)
            for shortage in pools
        ]
        outcome = trial(adjustments)
        if not outcome.plan.errored:
            vcpus = sum(len(shortage.pool.numbers) * smaller.vcpus for shortage in pools)
            text = f'vm_sku_name = "{smaller.name}" with the same count fits ({vcpus:,} vCPUs).'
            yield Remedy("sku", text, outcome, {"vm_sku_name": smaller.name}, tuple(adjustments))
            return


def _list_smaller_skus(sku: VmSku, *, is_control_plane: bool) -> list[VmSku]:
    """Return the smaller SKUs of the same type, the largest first.

    A control plane VM must use one NUMA cell.
    """
    # Sizes are compared by CPUs, then by memory.
    size = (sku.host_vcpus, sku.memory_gib)
    smaller = []
    for candidate in CATALOGUES[NEWEST].vm_skus.values():
        if candidate.kind != sku.kind or (candidate.host_vcpus, candidate.memory_gib) >= size:
            continue
        if is_control_plane and candidate.numa_cells != 1:
            continue
        smaller.append(candidate)
    return sorted(
        smaller,
        key=lambda candidate: (-candidate.host_vcpus, -candidate.memory_gib, candidate.name),
    )
