"""From planned instances to the plan: changes, placements, tables, steps, and what is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from nexusform import __version__
from nexusform.address import Address, address_order, parse_address
from nexusform.diagnostics import Diagnostic, Severity, has_errors, narrowed
from nexusform.domain_table import remarks_of_domains
from nexusform.forecasts import Record, record_of, score_of
from nexusform.graph import reached
from nexusform.planning.conclusion.changes import build_changes, find_drift
from nexusform.planning.conclusion.conservation import accounts, imbalance, waiting_pods_told
from nexusform.planning.conclusion.placements import explanations, placement_changes, placement_tables
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.conclusion.steps import build_steps
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.condition_verdicts import ID_OF_CONDITION
from nexusform.planning.instances.instance import UNDECIDED, Instance
from nexusform.planning.modules.conditions import standing_verdicts
from nexusform.planning.modules.outputs import Outputs, inventories_read, standing_outputs, variable_values
from nexusform.planning.names.evaluation import UNKNOWN_REPETITION, Evaluation
from nexusform.planning.phases import Contribution, found_lost_in
from nexusform.planning.preparation.order import Order
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.preparation.selection import PARTIAL
from nexusform.planning.request import PlanRequest
from nexusform.planning.verdicts.draws import draws_of, fits_by_luck
from nexusform.planning.verdicts.fit import (
    SiteCertainty,
    Unplaced,
    as_claims_held,
    broken_groups,
    fit_failures,
    measure,
    overfull,
    too_many_vfs,
)
from nexusform.planning.verdicts.separation import Verdicts, has_rules, judge
from nexusform.planning.verdicts.stranded import forgotten_ground, lost_with_ground, namesakes, stranded
from nexusform.planning.vms.sites import PlanSurroundings, SitePlan, catalogue_version
from nexusform.planning.vms.vm_object import VmObject
from nexusform.plans.impact.effects import Effect, effect_of
from nexusform.plans.plan import (
    PREDICTION,
    Action,
    Change,
    CheckResult,
    Drift,
    Mode,
    PlacementChange,
    Plan,
    PredictionScore,
    Upgrade,
)
from nexusform.scheduling.racks.vms import RackSpread
from nexusform.state.objects import ObjectState

T = TypeVar("T")

# What may only follow from another mistake: a site that is in error cannot be found by its racks.
_CONSEQUENCES = frozenset(
    {"unknown-site", "unknown-rack", "unknown-cluster", "unknown-availability-zone", UNDECIDED}
)

# Advice on places: those of a plan in error are nobody's.
_OF_PLACES = frozenset(kind for kind, remark in remarks_of_domains().items() if remark.of_places)


class PlannedWorld(Struct, frozen=True):
    """Where everything came to be. `before` is what VMs that stand were asked for with; `diagnostics` are
    about what stands, `walked` those of the phases, which may only follow from others. `contributions`:
    what the phases of domains came to.
    """

    evaluation: Evaluation
    sites: Mapping[str, SitePlan]
    vms: Mapping[Address, VmObject]
    before: PlanSurroundings
    contributions: tuple[Contribution, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    walked: tuple[Diagnostic, ...] = ()


class Judged(Struct, frozen=True):
    """What is said of a world: all diagnostics, the pools that do not fit, and the separation rules."""

    diagnostics: list[Diagnostic]
    unplaced: tuple[Unplaced, ...]
    rules: Verdicts


def conclude(
    blocks: Blocks,
    world: PlannedWorld,
    checks: Sequence[CheckResult],
    outputs: Outputs,
    diagnostics: Sequence[Diagnostic],
) -> PlanResult:
    """The plan of everything that was worked out."""
    request, prior, order = blocks.request, blocks.prior, blocks.order
    types = request.registries.resource_types
    lost = lost_with_ground(blocks.instances, types, world.sites, request.mode)
    changes, problems = build_changes(blocks.instances, order, prior)
    ruled = request.mode is Mode.NORMAL and has_rules(blocks.instances.values())
    tie_breaks, certainty = _certainty(world, request, prior, ruled=ruled)
    told = [*diagnostics, *problems, *forgotten_ground(blocks.instances, lost)]
    judged = _judged(blocks, world, told, certainty if ruled else None)
    vms = world.vms.values()
    draws = draws_of(world.sites, certainty, request.split_seed, tie_breaks)
    other_rows = _other_rows(request, world, changes)
    rows = (*placement_changes(vms, certainty, everything=request.want_rejected), *other_rows)
    shown = dict(_gathered(each.shown.items() for each in world.contributions))
    left = accounts(changes, rows, types, world.sites if request.mode is Mode.NORMAL else None, shown)
    upgrades, delays = _upgrades(vms, world)
    every = _every(
        [*judged.diagnostics, *delays, *_renames(blocks)],
        fits_by_luck(world.sites, vms, draws),
        imbalance(left.mistakes),
    )
    plan = Plan(
        mode=request.mode,
        changes=tuple(changes),
        steps=tuple(build_steps(changes, world.vms, world.sites, prior, world.before, types)),
        drift=find_drift(request),
        outputs=outputs.changes,
        planned_outputs=outputs.after,
        refined_outputs=outputs.refined,
        placements=rows,
        placement_totals=left.totals,
        placement_tables=tuple(placement_tables(vms, world.sites, certainty)),
        moved=tuple((old, new) for new, old in prior.previous.items()),
        kept=_kept(vms, other_rows),
        tie_breaks=tie_breaks,
        draws=draws,
        checks=(*checks, *blocks.checks),
        inventories=inventories_read(world.evaluation, request.now),
        basis=world.evaluation.setting.reads.basis(request.commit),
        scores=tuple(_scores(prior)),
        upgrades=upgrades,
        separation_rules=tuple(judged.rules.verdicts),
        rollouts=tuple(_gathered(each.rollouts for each in world.contributions)),
        passed_over=tuple(_gathered(each.passed_over for each in world.contributions)),
        shown=shown,
    )
    return replace(
        _result(_signed(plan, request, every), world, order, judged), noted=_noted(blocks.instances, lost)
    )


def _result(plan: Plan, world: PlannedWorld, order: Order, judged: Judged) -> PlanResult:
    """The plan with what only displays need."""
    return PlanResult(
        plan=plan,
        edges=tuple(_edges(order)),
        nodes=tuple(str(block.address) for block in order.blocks),
        explained=explanations(world.vms.values()),
        unplaced=judged.unplaced,
        objects=world.vms,
        sites=world.sites,
        separations=tuple(judged.rules.open_rules),
        contributions=world.contributions,
    )


def _noted(
    instances: Mapping[Address, Instance], addresses: Iterable[Address]
) -> dict[Address, Mapping[str, Any]]:
    """What these remembered before the plan."""
    priors = {address: instances[address].prior for address in addresses}
    return {address: prior.private or {} for address, prior in priors.items() if prior is not None}


def _renames(blocks: Blocks) -> Iterable[Diagnostic]:
    """Advice on objects that most likely were renamed."""
    instances = blocks.instances.values()
    if blocks.request.mode is not Mode.NORMAL or all(each.action is not Action.DELETE for each in instances):
        return ()
    from nexusform.planning.conclusion.renames import looks_renamed

    return looks_renamed(instances)


def _every(first: Sequence[Diagnostic], *further: Iterable[Diagnostic]) -> list[Diagnostic]:
    """All that is told: what further looks found only while nothing is in error."""
    every = list(first)
    for diagnostics in further:
        every += [] if has_errors(every) else diagnostics
    return every


def _kept(vms: Iterable[VmObject], other_rows: Iterable[PlacementChange]) -> int:
    """How many VMs, bindings and pods stay as they are; of VMs most have no row."""
    kept_vms = sum(len(each.asked.moves.stay) + len(each.asked.moves.wait) for each in vms)
    return kept_vms + sum(effect_of(row) in (Effect.KEPT, Effect.STILL_WAITING) for row in other_rows)


def _edges(order: Order) -> Iterator[tuple[str, str]]:
    """Which block needs which, as text."""
    for block, needs in order.needs.items():
        for need in needs:
            yield str(block), str(need)


def without_changes(
    request: PlanRequest, diagnostics: Iterable[Diagnostic], drift: tuple[Drift, ...] = ()
) -> PlanResult:
    """A plan that changes nothing: only drift is looked for, or something is wrong with the request. All that
    state has stays.
    """
    from nexusform.planning.conclusion.found_standing import unchanged

    totals = accounts(unchanged(request.state.instances), (), request.registries.resource_types).totals
    kept = sum(total.stays for total in totals)
    plan = Plan(mode=request.mode, drift=drift, placement_totals=totals, kept=kept)
    return PlanResult(_signed(plan, request, diagnostics))


def refreshed_only(
    request: PlanRequest, prior: Prior, diagnostics: Iterable[Diagnostic], evaluation: Evaluation
) -> PlanResult:
    """A plan that takes over what the providers found, new addresses and the outputs that follow, and changes
    nothing: what stands stays, but for VMs whose machine was found to be gone. `evaluation` is over what
    stands.
    """
    from nexusform.planning.conclusion.found_standing import lost_rows, moved, not_done, sites_of, unchanged

    types = request.registries.resource_types
    sites = sites_of(prior, types)
    rows = (*lost_rows(prior, types, sites), *found_lost_in(prior, request.registries))
    left = accounts(unchanged(prior.instances), rows, types, sites)
    outputs = standing_outputs(request, evaluation)
    checked = standing_verdicts(request, evaluation)
    plan = Plan(
        mode=request.mode,
        changes=tuple(moved(prior)),
        drift=find_drift(request),
        outputs=outputs.changes,
        planned_outputs=outputs.after,
        placements=rows,
        placement_totals=left.totals,
        kept=sum(total.stays for total in left.totals),
        moved=tuple((old, new) for new, old in prior.previous.items()),
        checks=tuple(checked.checks),
        basis=evaluation.setting.reads.basis(request.commit),
    )
    said = [*diagnostics, *not_done(prior), *outputs.diagnostics, *checked.problems]
    return PlanResult(_signed(plan, request, _every(said, imbalance(left.mistakes))))


def _upgrades(
    vms: Iterable[VmObject], world: PlannedWorld
) -> tuple[tuple[Upgrade, ...], tuple[Diagnostic, ...]]:
    """The pools that are made anew, and what holds that up."""
    vms = list(vms)
    if not any(each.asked.moves.again for each in vms):
        return (), ()
    from nexusform.planning.conclusion.upgrades import held_up, upgrades_of

    upgrades = tuple(upgrades_of(vms, [each.disruptions for each in world.contributions], world.sites))
    return upgrades, tuple(held_up(upgrades, vms))


def _certainty(
    world: PlannedWorld, request: PlanRequest, prior: Prior, *, ruled: bool
) -> tuple[int, dict[str, SiteCertainty]]:
    """How many tie-breaks were tried, and in which shares VMs have their places, as earlier claims held."""
    tie_breaks, measured = measure(
        world.sites,
        request.tie_breaks,
        first=request.first_tie_break,
        keep_outcomes=ruled,
        progress=request.progress,
    )
    return tie_breaks, as_claims_held(measured, _records(prior))


def _records(prior: Prior) -> dict[str, Record]:
    """By the id of a site, what became of the claims of earlier plans there."""
    records: dict[str, Record] = {}
    for address in prior.instances:
        current = prior.object(address)
        record = record_of(current.private) if current is not None else {}
        if current is not None and record:
            records[str(current.attributes.get("id"))] = record
    return records


def _scores(prior: Prior) -> Iterator[PredictionScore]:
    """What replays of the sites came to, under the rack_spread that each site has now, and what became of the
    claims that earlier plans made there.
    """
    for address in sorted(prior.instances, key=address_order):
        current = prior.object(address)
        claims = score_of(record_of(current.private)) if current is not None else None
        scores = ((current.private or {}).get(PREDICTION) or {}) if current is not None else {}
        if current is None or not (scores or claims):
            continue
        scheduler = current.attributes.get("scheduler") or {}
        noted = scores.get(scheduler.get("rack_spread") or RackSpread.POOL.value)
        name = _full_name(current.attributes)
        if noted:
            figures = (noted["hits"], noted["judged"], noted["not_judged"], noted.get("sure"))
            yield PredictionScore(name, *figures, chance=noted.get("chance"), claims=claims)
        elif claims:
            yield PredictionScore(name, 0, 0, 0, claims=claims)


def _full_name(attributes: Mapping[str, Any]) -> str:
    """The name of an object, behind its namespace where it stands in one."""
    return "/".join(str(attributes[each]) for each in ("namespace", "name") if attributes.get(each))


def _judged(
    blocks: Blocks,
    world: PlannedWorld,
    diagnostics: Sequence[Diagnostic],
    certainty: Mapping[str, SiteCertainty] | None,
) -> Judged:
    """What is to be told. While anything else is in error, nothing is said of what fits and which rules
    hold: it would change with the mistake. `certainty` is given where there are rules to judge.
    """
    vms = world.vms.values()
    instances = blocks.instances
    all_diagnostics = [
        *diagnostics,
        *overfull(instances, world.sites, vms),
        *too_many_vfs(vms),
        *broken_groups(vms),
    ]
    types = blocks.request.registries.resource_types
    all_diagnostics += stranded(vms, instances, types, blocks.selection, blocks.request.mode, world.sites)
    all_diagnostics += namesakes(vms)
    failures = fit_failures(vms, blocks.left_out, _forgotten_ground(instances))
    # What depends on a VM that does not fit is undecided because of that.
    flawed = has_errors(
        diagnostic for diagnostic in all_diagnostics if diagnostic.id != UNDECIDED or not failures.unplaced
    )
    if flawed:
        all_diagnostics += _findings(world, instances, risks=False)
        return Judged(all_diagnostics, (), Verdicts())
    pod_problems = _findings(world, instances, risks=not failures.unplaced)
    pod_problems += _less_spread(list(vms))
    rules = Verdicts()
    if certainty is not None:
        hosted = list(_gathered(each.hosted() for each in world.contributions))
        rules = judge(instances.values(), world.vms, world.sites, certainty, hosted)
    all_diagnostics = [*failures.diagnostics, *all_diagnostics, *pod_problems, *rules.diagnostics]
    return Judged(all_diagnostics, failures.unplaced, rules)


def _forgotten_ground(instances: Mapping[Address, Instance]) -> list[str]:
    """What makes machines and is forgotten in this plan."""
    return [
        str(address)
        for address, each in instances.items()
        if each.action is Action.FORGET and each.type.offer is not None
    ]


def _less_spread(vms: Iterable[VmObject]) -> list[Diagnostic]:
    """What is to be said of clusters that come to stand on a single rack."""
    touched = (each.asked.moves.again or each.asked.moves.leave for each in vms)
    if not any(touched):
        return []
    from nexusform.planning.verdicts.one_rack import on_one_rack

    return list(on_one_rack(vms))


def _findings(world: PlannedWorld, instances: Mapping[Address, Instance], *, risks: bool) -> list[Diagnostic]:
    return list(_gathered(each.findings(instances, risks=risks) for each in world.contributions))


def _gathered(parts: Iterable[Iterable[T]]) -> Iterator[T]:
    return chain.from_iterable(parts)


def _other_rows(
    request: PlanRequest, world: PlannedWorld, changes: Sequence[Change]
) -> tuple[PlacementChange, ...]:
    """The rows of what domains place: bindings and pods."""
    rows = tuple(_gathered(each.rows for each in world.contributions))
    return waiting_pods_told(rows, changes, request.registries.resource_types)


def _signed(plan: Plan, request: PlanRequest, diagnostics: Iterable[Diagnostic]) -> Plan:
    """The plan with what it was made from, and everything that is to be told."""
    files = request.configuration.files
    unique = [narrowed(each, files) for each in each_once(diagnostics)]
    failed = has_errors(unique)
    if failed:  # nothing was left out of what cannot be applied
        unique = [problem for problem in unique if problem.id != PARTIAL and problem.id not in _OF_PLACES]
    state = request.state
    return replace(
        plan,
        diagnostics=tuple(unique),
        variables=variable_values(request),
        refreshed=_differing(request),
        lineage=state.lineage,
        serial=state.serial,
        prior_digest=request.prior_digest,
        catalogue=catalogue_version(request),
        timestamp=request.now,
        nexusform_version=__version__,
        workspace=request.workspace,
        targets=request.targets,
        excludes=request.excludes,
        replaces=request.replaces,
        errored=failed,
    )


def _differing(request: PlanRequest) -> dict[Address, ObjectState | None]:
    """What the providers found otherwise than state has it."""
    instances = request.state.instances
    return {
        address: observed
        for address, observed in request.refreshed.items()
        if address not in instances or instances[address].current != observed
    }


# --- what is told of many diagnostics ----------------------------------------------------------


def causes(
    diagnostics: Sequence[Diagnostic],
    order: Order,
    *,
    flawed: bool,
) -> list[Diagnostic]:
    """The diagnostics of a walk without those that only follow from something else: from a block in error
    that theirs depends on, from what was wrong before the walk (`flawed`), or from an unknown
    value where a rack or site is described.
    """
    kept = _without_dependents_of_errors(diagnostics, order)
    undecided = any(diagnostic.id == UNDECIDED for diagnostic in kept)
    if not flawed and not undecided:
        return kept
    consequences = _CONSEQUENCES if flawed else _CONSEQUENCES - {UNDECIDED}
    return [diagnostic for diagnostic in kept if diagnostic.id not in consequences]


def _without_dependents_of_errors(diagnostics: Sequence[Diagnostic], order: Order) -> list[Diagnostic]:
    """The diagnostics without arguments that are unknown only because what they refer to is in error."""
    in_error = {
        parse_address(diagnostic.address).config
        for diagnostic in diagnostics
        if diagnostic.severity is Severity.ERROR and diagnostic.id != UNDECIDED and diagnostic.address
    }
    if not in_error:
        return list(diagnostics)

    def follows(diagnostic: Diagnostic) -> bool:
        if diagnostic.id != UNDECIDED or not diagnostic.address:
            return False
        block = parse_address(diagnostic.address).config
        needs = reached(order.direct_needs(block), order.direct_needs)
        return not in_error.isdisjoint(needs)

    return [diagnostic for diagnostic in diagnostics if not follows(diagnostic)]


def each_once(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Each problem once, errors first, otherwise as they came; nothing of repetitions and arguments that
    are unknown because data could not be read: then everything that is made of the data is.
    """
    once: dict[tuple[object, ...], Diagnostic] = {}
    for diagnostic in diagnostics:
        once.setdefault(_sameness(diagnostic), diagnostic)
    errors_first = sorted(once.values(), key=lambda diagnostic: diagnostic.severity is not Severity.ERROR)
    if any(
        diagnostic.severity is Severity.ERROR and _is_data(diagnostic.address) for diagnostic in errors_first
    ):
        return [diagnostic for diagnostic in errors_first if not _needs_data(diagnostic)]
    return errors_first


def _sameness(diagnostic: Diagnostic) -> tuple[object, ...]:
    """Diagnostics with the same are one. What stands at a place is told once for all instances, but for
    conditions: these are said of every instance.
    """
    of_each = diagnostic.subject is None or diagnostic.id in ID_OF_CONDITION.values()
    return (
        diagnostic.severity,
        diagnostic.id,
        diagnostic.summary,
        diagnostic.detail,
        diagnostic.subject,
        diagnostic.address if of_each else "",
    )


def _is_data(address: str) -> bool:
    return address.startswith("data.") or ".data." in address


def _needs_data(diagnostic: Diagnostic) -> bool:
    return diagnostic.id == UNDECIDED or diagnostic.id in UNKNOWN_REPETITION.values()
