"""Assembly of the plan from planned instances.

Changes, placements, tables, steps and diagnostics.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from nexusform import __version__
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Severity,
    has_errors,
    locate_line_in_text,
    select_errors,
)
from nexusform.domain_table import collect_diagnostic_traits
from nexusform.doubts.doubt import Doubt
from nexusform.doubts.findings import build_finding_doubts
from nexusform.doubts.ledger import DoubtLedger, build_ledger
from nexusform.interfaces.plugins import PlanningKind, ResourceType
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.placements.prediction_scores import (
    NOT_VERIFIED_KEY,
    PredictionRecord,
    compute_score,
    parse_record,
)
from nexusform.placements.vm_demands import index_pools
from nexusform.planning.conclusion.changes import (
    build_changes,
    collect_drifted_objects,
    find_lost_forgotten_vms,
)
from nexusform.planning.conclusion.placement_accounting import (
    build_imbalance_error,
    compute_totals,
    mark_waiting_pods,
)
from nexusform.planning.conclusion.plan_result import PlanResult, has_existing_objects
from nexusform.planning.conclusion.steps import build_plan_steps
from nexusform.planning.conclusion.vm_placement_rows import (
    build_placement_changes,
    build_placement_tables,
    collect_explanations,
    list_placed_pools,
)
from nexusform.planning.instances.block_planner import BlockPlanner
from nexusform.planning.instances.instance import UNKNOWN_PLACEMENT
from nexusform.planning.modules import root_outputs
from nexusform.planning.name_resolution.name_evaluation import UNKNOWN_REPETITION, Evaluation
from nexusform.planning.phases import DomainPhasesResult, ScheduledPod, load_used_phases
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.preparation.planning_order import PlanningOrder
from nexusform.planning.preparation.prior_state import PriorState
from nexusform.planning.preparation.target_selection import PARTIAL
from nexusform.planning.verdicts import placement_fit
from nexusform.planning.vm_planning.site_plans import (
    ResourceTypeContext,
    SitePlan,
    get_catalogue_version,
)
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.impact.object_effects import Effect, compute_effect
from nexusform.plans.maintenance import PlannedMachineAction, Upgrade
from nexusform.plans.numa_sampling import NumaSampling
from nexusform.plans.plan import (
    PREDICTION_KEY,
    Action,
    Change,
    CheckResult,
    Mode,
    Observations,
    PlacementAction,
    PlacementChange,
    PlacementFigures,
    Plan,
    SeparationVerdict,
    SitePredictionAccuracy,
    Step,
    WorkloadResults,
)
from nexusform.resources.address import (
    Address,
    ConfigAddress,
    compute_address_order,
    parse_address,
    parse_pattern,
)
from nexusform.resources.graph import find_reachable
from nexusform.scheduling.listing.site_listing import ListedSite
from nexusform.scheduling.racks.rule import CountFilter
from nexusform.scheduling.racks.uncertainty.certainty import SamplingResult
from nexusform.scheduling.racks.vms import RackSpread
from nexusform.state.objects import State, get_current_object

if TYPE_CHECKING:
    from nexusform.planning.verdicts.separation_rules import UnsatisfiedRule
    from nexusform.scheduling.racks.uncertainty.splits import SplitChoice

T = TypeVar("T")

# Possible consequences of another error: racks cannot find a site with errors.
_CONSEQUENCES = frozenset(
    {
        "unknown-site",
        "unknown-rack",
        "unknown-cluster",
        "unknown-availability-zone",
        UNKNOWN_PLACEMENT,
    }
)

# Possible consequences of a rejected value, which everything else reads as unknown.
_UNKNOWN_VALUES = frozenset(
    {*UNKNOWN_REPETITION.values(), "data-source-argument-unknown", "unknown-vm-sku"}
)

# Advice on placements is dropped if the plan has errors.
_PLACEMENT_ADVICE = frozenset(
    kind for kind, remark in collect_diagnostic_traits().items() if remark.is_placement_advice
)


# Its records have no content.
_EMPTY: Final = Plan()


class PlacementPhasesResult(Struct, frozen=True):
    """Outcome of all placement phases.

    `prior_context` is the context to read the arguments of VMs in state. `diagnostics` are about
    prior objects, `phase_diagnostics` those of the phases, which may be consequences of others.
    `contributions` are the results of domain phases.
    """

    evaluation: Evaluation
    sites: Mapping[str, SitePlan]
    objects: Mapping[Address, VmObject]
    prior_context: ResourceTypeContext
    contributions: tuple[DomainPhasesResult, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    phase_diagnostics: tuple[Diagnostic, ...] = ()


class PlanValidation(Struct, frozen=True):
    """Diagnostics of an outcome, pools without capacity, and verdicts of separation rules.

    `open_rules` are the unsatisfied rules.
    """

    diagnostics: list[Diagnostic]
    unplaced: tuple[placement_fit.PoolShortage, ...] = ()
    separation_verdicts: tuple[SeparationVerdict, ...] = ()
    open_rules: tuple[UnsatisfiedRule, ...] = ()


def build_plan(
    blocks: BlockPlanner,
    outcome: PlacementPhasesResult,
    checks: Sequence[CheckResult],
    outputs: root_outputs.RootOutputChanges,
    diagnostics: Sequence[Diagnostic],
) -> PlanResult:
    """Build the plan from the planned instances and the results of the phases, and validate it.

    Each domain, such as fleet or pods, contributes its own rows, steps and findings.
    """
    request = blocks.request
    prior = blocks.prior
    domain_results = outcome.contributions
    types = request.registries.resource_types
    objects = outcome.objects.values()
    lost_addresses, lost_vm_warnings = find_lost_forgotten_vms(blocks, outcome.sites)
    changes, change_problems = build_changes(
        blocks, outcome.evaluation, has_earlier_errors=has_errors(diagnostics)
    )
    has_separation_rules = request.mode is Mode.NORMAL and _has_planning_kind(
        blocks, PlanningKind.SEPARATION_RULE
    )
    samples, certainty = _measure_certainty(
        outcome, request, prior, has_separation_rules=has_separation_rules
    )
    machine_actions, action_order, order_problems = _order_machine_actions(blocks, outcome)
    all_diagnostics = [*diagnostics, *change_problems, *lost_vm_warnings, *order_problems]
    listed = _compare_listed_sites(outcome.sites, request.state)
    recorded_facts = request.state.unread if request.keeps_objects else ()
    ledger = _build_ledger(outcome, listed, recorded_facts, request.doubts)
    validation = _validate_plan(
        blocks, outcome, all_diagnostics, certainty if has_separation_rules else None, ledger
    )
    network_warnings: Iterable[Diagnostic] = ()
    if has_existing_objects(changes):
        from nexusform.planning.conclusion.cluster_findings import warn_missing_networks

        network_warnings = tuple(warn_missing_networks(changes, outcome.objects))
    # The validation finds VMs without a machine, and what real systems reject or lack.
    findings = [*validation.diagnostics, *network_warnings]
    doubts = (*request.doubts, *build_finding_doubts(findings))
    ledger = _build_ledger(outcome, listed, recorded_facts, doubts)
    numa_sampling, numa_warnings = _sample_numa_cells(
        outcome, certainty, request.split_choice, samples
    )
    domain_rows = mark_waiting_pods(
        list(chain.from_iterable(result.rows for result in domain_results)), changes, types
    )
    content_addresses = dict(
        chain.from_iterable(result.content_addresses.items() for result in domain_results)
    )
    listing_warnings: Iterable[Diagnostic] = ()
    if listed:
        from nexusform.planning.conclusion.listed_sites import build_maintenance_warnings

        listing_warnings = build_maintenance_warnings(listed, changes)
    rows = (
        *build_placement_changes(
            objects,
            certainty,
            ledger,
            everything=request.includes_rejections,
            has_unplaced=request.allows_shortage,
        ),
        *(_add_doubt(row, ledger, content_addresses) for row in domain_rows),
    )
    observed_attributes = dict(
        chain.from_iterable(result.observed_attributes.items() for result in domain_results)
    )
    known_sites = outcome.sites if request.mode is Mode.NORMAL else None
    placement_totals = compute_totals(changes, rows, types, known_sites, observed_attributes)
    upgrades, upgrade_warnings = _collect_upgrades_and_warnings(objects, outcome)
    combined = _combine_diagnostics(
        [
            *validation.diagnostics,
            *upgrade_warnings,
            *_suggest_probable_renames(blocks, rows),
            *listing_warnings,
            *network_warnings,
        ],
        numa_warnings,
        build_imbalance_error(placement_totals.mistakes),
    )
    plan = Plan(
        changes=tuple(changes),
        steps=tuple(_build_steps(changes, outcome, prior, types, action_order)),
        observed=Observations(
            drift=collect_drifted_objects(request.state, request.refreshed_objects),
            inventories=root_outputs.list_inventories_read(outcome.evaluation, request.now),
            observed_attributes=observed_attributes,
            unread=ledger.unread,
            listed=listed,
        ),
        root_values=replace(
            _EMPTY.root_values,
            outputs=outputs.changes,
            planned_outputs=outputs.after,
            refined_outputs=outputs.refined,
        ),
        placements=rows,
        figures=PlacementFigures(
            placement_totals=placement_totals.totals,
            placement_tables=tuple(
                build_placement_tables(objects, outcome.sites, certainty, ledger)
            ),
            unchanged_count=_count_unchanged_objects(objects, domain_rows),
            samples=samples,
            numa_sampling=numa_sampling,
            prediction_scores=tuple(_collect_prediction_scores(prior)),
        ),
        address_moves=tuple((old, new) for new, old in prior.previous.items()),
        verdicts=replace(
            _EMPTY.verdicts,
            checks=(*checks, *blocks.checks),
            separation_verdicts=validation.separation_verdicts,
        ),
        basis=outcome.evaluation.settings.reads.build_inputs(request.commit),
        impact=replace(_EMPTY.impact, upgrades=upgrades, machine_actions=machine_actions),
        workloads=WorkloadResults(
            rollouts=tuple(chain.from_iterable(result.rollouts for result in domain_results)),
            rejected_clusters=tuple(
                chain.from_iterable(result.rejected_clusters for result in domain_results)
            ),
            content_changes=tuple(
                chain.from_iterable(result.content_changes for result in domain_results)
            ),
            feasibility=tuple(chain.from_iterable(result.feasibility for result in domain_results)),
        ),
    )
    machine_classes = {
        site_id: site_certainty.machine_classes for site_id, site_certainty in certainty.items()
    }
    plan = _add_inputs_and_diagnostics_to_plan(
        plan.add_site_ties(machine_classes), request, combined
    )
    return _build_result(plan, blocks, outcome, validation, lost_addresses)


def _add_doubt(
    row: PlacementChange,
    ledger: DoubtLedger,
    content_addresses: Mapping[Address, Sequence[Address]],
) -> PlacementChange:
    """Return the row of a domain's object, uncertain if a finding about its resource is a doubt.

    So is a finding about the content that the resource places (`content_addresses`).
    A row that is uncertain already keeps its reason, and one without a change or figure stays.
    """
    addresses = (row.address, *content_addresses.get(row.address, ()))
    doubts = (ledger.find_doubt_of_object(str(address)) for address in addresses)
    doubt = next((doubt for doubt in doubts if doubt is not None), None)
    is_decided = row.action is not PlacementAction.KEEP or bool(row.scores.get("certain"))
    return row if doubt is None or not is_decided or row.doubt else row.add_doubt(doubt)


def _compare_listed_sites(sites: Mapping[str, SitePlan], state: State) -> tuple[ListedSite, ...]:
    """Return the sites that differ from what their platform lists."""
    # Providers of real sites record what these list.
    if not any(site.listing is not None for site in sites.values()):
        return ()
    from nexusform.planning.conclusion.listed_sites import compare_listed_sites

    return compare_listed_sites(sites, state)


def _build_ledger(
    outcome: PlacementPhasesResult,
    listed: Sequence[ListedSite],
    recorded_facts: Iterable[Doubt],
    doubts: Iterable[Doubt],
) -> DoubtLedger:
    """Build the ledger of a plan: unread facts about its sites and VMs, and other `doubts`."""
    objects = outcome.objects.values()
    facts_of_sites = chain.from_iterable(site.unread for site in outcome.sites.values())
    facts_of_vms = chain.from_iterable(vm_object.request.demand.unread for vm_object in objects)
    # Blocks with the values of a data source may be on any site. A plan that keeps the objects of a
    # state reads none again.
    facts_of_data = [*outcome.evaluation.settings.reads.unread, *recorded_facts]
    facts = [*facts_of_sites, *facts_of_vms, *facts_of_data]
    doubts_of_listing = chain.from_iterable(site.list_doubts() for site in listed)
    return build_ledger(facts, list_placed_pools(objects), (*doubts_of_listing, *doubts))


def _sample_numa_cells(
    outcome: PlacementPhasesResult,
    certainty: Mapping[str, SamplingResult],
    split_choice: SplitChoice,
    samples: int,
) -> tuple[NumaSampling | None, Iterable[Diagnostic]]:
    """Return how the plan depends on unknown NUMA cells, and the warning about it.

    Return None and no warning if all cells are known.
    """
    # All cells are known.
    if not any(site.base.is_sampled for site in outcome.sites.values()):
        return None, ()
    from nexusform.planning.verdicts.numa_samples import check_uncertain_fit, compute_numa_sampling

    sampling = compute_numa_sampling(outcome.sites, certainty, split_choice, samples)
    return sampling, check_uncertain_fit(outcome.sites, outcome.objects.values(), sampling)


def _has_planning_kind(blocks: BlockPlanner, *kinds: PlanningKind) -> bool:
    return any(instance.type.kind in kinds for instance in blocks.instances.values())


def _order_machine_actions(
    blocks: BlockPlanner, outcome: PlacementPhasesResult
) -> tuple[
    tuple[PlannedMachineAction, ...], Mapping[Address, Sequence[Address]], Sequence[Diagnostic]
]:
    """Return the machine actions in order, the awaited addresses, and the problems.

    An address maps to those to complete before its step.

    Without actions and machines to switch off, all are empty, and no module is loaded for them.
    """
    if not _has_planning_kind(blocks, PlanningKind.MACHINE_ACTION, PlanningKind.MACHINE):
        return (), {}, ()
    from nexusform.planning.verdicts.machine_action_order import order_machine_actions

    find_disruptions = [domain.find_disruptions for domain in outcome.contributions]
    order = order_machine_actions(
        blocks.instances, outcome.objects, outcome.sites, find_disruptions
    )
    return order.actions, order.step_order, order.diagnostics


def _build_steps(
    changes: Sequence[Change],
    outcome: PlacementPhasesResult,
    prior: PriorState,
    types: Mapping[str, ResourceType],
    action_order: Mapping[Address, Sequence[Address]],
) -> list[Step]:
    """Build the steps of a plan, in the order of all domains and machine actions."""
    domain_order = dict(
        chain.from_iterable(domain.step_order.items() for domain in outcome.contributions)
    )
    step_order = {**domain_order, **action_order}
    return build_plan_steps(
        changes, outcome.objects, outcome.sites, prior, outcome.prior_context, types, step_order
    )


def _build_result(
    plan: Plan,
    blocks: BlockPlanner,
    outcome: PlacementPhasesResult,
    validation: PlanValidation,
    lost_addresses: Iterable[Address],
) -> PlanResult:
    """Build the result: the plan, and data needed for display only.

    `lost_addresses` are the racks and machines that lose unmanaged VMs in this plan: their notes
    before it still list these VMs.
    """
    # A block, and a block needed by it.
    edges: list[tuple[str, str]] = []
    for block, needs in blocks.order.needs.items():
        edges += [(str(block), str(need)) for need in needs]
    return PlanResult(
        plan=plan,
        edges=tuple(edges),
        nodes=tuple(str(block.address) for block in blocks.order.blocks),
        explanations=collect_explanations(outcome.objects.values()),
        unplaced=validation.unplaced,
        objects=outcome.objects,
        sites=outcome.sites,
        open_rules=validation.open_rules,
        contributions=outcome.contributions,
        prior_notes={address: blocks.instances[address].prior_note for address in lost_addresses},
    )


def _suggest_probable_renames(
    blocks: BlockPlanner, rows: Iterable[PlacementChange]
) -> Iterable[Diagnostic]:
    """Return advice on probable renames, only for normal plans that remove objects or VMs."""
    instances = blocks.instances.values()
    if blocks.request.mode is not Mode.NORMAL:
        return ()
    rows = list(rows)
    has_deletions = any(instance.action is Action.DELETE for instance in instances)
    if not (has_deletions or any(row.action is PlacementAction.REMOVE for row in rows)):
        return ()
    from nexusform.planning.conclusion.rename_advice import build_rename_diagnostics

    removed: dict[Address, Counter[str]] = {}
    for row in rows:
        if row.action is PlacementAction.REMOVE:
            removed.setdefault(row.address, Counter())[row.kind] += 1
    return build_rename_diagnostics(instances, removed)


def _combine_diagnostics(
    first: Sequence[Diagnostic], *further: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """Return the groups of diagnostics up to the first one with errors.

    Later groups, if lazy, are not computed.
    """
    combined = list(first)
    for diagnostics in further:
        if has_errors(combined):
            break
        combined += diagnostics
    return combined


def _count_unchanged_objects(
    objects: Iterable[VmObject], other_rows: Iterable[PlacementChange]
) -> int:
    """Count the VMs, bindings and pods without changes, or still waiting.

    Most of these VMs have no row.
    """
    all_actions = [vm_object.request.actions for vm_object in objects]
    unchanged_vms = sum(len(actions.unchanged) + len(actions.waiting) for actions in all_actions)
    return unchanged_vms + sum(
        compute_effect(row) in (Effect.UNCHANGED, Effect.STILL_WAITING) for row in other_rows
    )


def build_unchanged_plan(request: PlanRequest, diagnostics: Iterable[Diagnostic]) -> PlanResult:
    """Build a plan with errors only: all objects in state stay unchanged."""
    from nexusform.planning.conclusion import refresh_changes

    changes = refresh_changes.build_unchanged_changes(request.state.instances)
    totals = compute_totals(changes, rows=(), types=request.registries.resource_types).totals
    unchanged_count = sum(total.unchanged for total in totals)
    plan = Plan(figures=PlacementFigures(placement_totals=totals, unchanged_count=unchanged_count))
    return PlanResult(_add_inputs_and_diagnostics_to_plan(plan, request, diagnostics))


def build_refresh_plan(
    request: PlanRequest,
    prior: PriorState,
    diagnostics: Iterable[Diagnostic],
    evaluation: Evaluation,
) -> PlanResult:
    """Build a refresh-only plan.

    It records the refreshed objects, new addresses and the resulting outputs. Objects stay
    unchanged, except VMs on missing machines. `evaluation` uses the current objects.
    """
    from nexusform.planning.conclusion import refresh_changes
    from nexusform.planning.modules.module_conditions import (
        ConditionResults,
        check_current_conditions,
        check_variable_validations,
    )

    types = request.registries.resource_types
    sites = refresh_changes.build_observed_sites(prior, types)
    rows = [*refresh_changes.list_observed_rows(prior, types, sites)]
    for phases in load_used_phases(prior.instances):
        # Objects that lost their host outside nexusform.
        rows += phases.list_lost_rows(prior, request.registries)
    placement_totals = compute_totals(
        refresh_changes.build_unchanged_changes(prior.instances), rows, types, sites
    )
    outputs = root_outputs.plan_current_outputs(request, evaluation)
    variable_results = check_variable_validations(request.configuration, evaluation)
    # Check all other conditions. Their problems, also those added to `evaluation`
    # meanwhile, become warnings.
    earlier_problem_count = len(evaluation.diagnostics)
    condition_results = ConditionResults()
    condition_results.add_all(check_current_conditions(request, evaluation))
    condition_problems = [
        *condition_results.problems,
        *evaluation.diagnostics[earlier_problem_count:],
    ]
    facts_of_sites = chain.from_iterable(site.unread for site in sites.values())
    # Outputs read data blocks.
    unread = dict.fromkeys((*facts_of_sites, *evaluation.settings.reads.unread))
    plan = Plan(
        changes=tuple(refresh_changes.build_moved_changes(prior)),
        observed=Observations(
            drift=collect_drifted_objects(request.state, request.refreshed_objects),
            unread=tuple(unread),
            listed=_compare_listed_sites(sites, request.state),
        ),
        root_values=replace(
            _EMPTY.root_values, outputs=outputs.changes, planned_outputs=outputs.after
        ),
        placements=tuple(rows),
        figures=PlacementFigures(
            placement_totals=placement_totals.totals,
            unchanged_count=sum(total.unchanged for total in placement_totals.totals),
        ),
        address_moves=tuple((old, new) for new, old in prior.previous.items()),
        verdicts=replace(
            _EMPTY.verdicts, checks=(*variable_results.checks, *condition_results.checks)
        ),
        basis=evaluation.settings.reads.build_inputs(request.commit),
    )
    all_diagnostics = [
        *diagnostics,
        *refresh_changes.check_unfinished_changes(prior),
        *variable_results.problems,
        *outputs.diagnostics,
        *(replace(problem, severity=Severity.WARNING) for problem in condition_problems),
    ]
    combined = _combine_diagnostics(
        all_diagnostics, build_imbalance_error(placement_totals.mistakes)
    )
    return PlanResult(_add_inputs_and_diagnostics_to_plan(plan, request, combined))


def _collect_upgrades_and_warnings(
    objects: Iterable[VmObject], outcome: PlacementPhasesResult
) -> tuple[tuple[Upgrade, ...], tuple[Diagnostic, ...]]:
    """Return the pools to re-create, and the warnings about blocked upgrades.

    PodDisruptionBudgets block them.
    """
    objects = list(objects)
    # No pool is re-created.
    if not any(vm_object.request.actions.recreations for vm_object in objects):
        return (), ()
    from nexusform.planning.conclusion.pool_recreations import (
        build_upgrades,
        check_blocked_upgrades,
    )

    upgrades = tuple(
        build_upgrades(objects, [domain.find_disruptions for domain in outcome.contributions])
    )
    return upgrades, tuple(check_blocked_upgrades(upgrades, objects))


def _measure_certainty(
    outcome: PlacementPhasesResult,
    request: PlanRequest,
    prior: PriorState,
    *,
    has_separation_rules: bool,
) -> tuple[int, dict[str, SamplingResult]]:
    """Return the number of samples run, and the certainty of placements by site id.

    The certainty is lowered to the accuracy of earlier predictions. Separation rules need the
    placements of each sample (`keep_outcomes`). A plan with VMs without capacity is not applied, so
    its certainty is not measured; unknown cells may be the cause, and are sampled.
    """
    if (
        not (has_separation_rules or request.allows_shortage)
        and any(vm_object.placements.failures for vm_object in outcome.objects.values())
        and not any(site.base.is_sampled for site in outcome.sites.values())
    ):
        return 0, {}
    samples, certainties = placement_fit.measure_site_certainties(
        outcome.sites,
        request.samples,
        first=request.first_sample,
        keep_outcomes=has_separation_rules,
        progress=request.progress,
    )
    _record_arrival_doubts(outcome, certainties)
    # By site id: verified predictions of earlier plans, from its note.
    records: dict[str, PredictionRecord] = {}
    for current in prior.objects.values():
        record = parse_record(current.private)
        if record:
            records[str(current.attributes.get("id"))] = record
    # New VMs depend on the choice of the platform.
    for vm_object in outcome.objects.values():
        site_id = vm_object.prior.site_id
        if site_id in certainties and vm_object.list_chosen_removals():
            certainties[site_id] = replace(certainties[site_id], vms={}, pools={})
    return samples, placement_fit.lower_certainty_to_accuracy(certainties, records)


def _record_arrival_doubts(
    outcome: PlacementPhasesResult, certainties: Mapping[str, SamplingResult]
) -> None:
    """Record for the pools of a site which orders of arrival were not tried.

    Pools with VMs that exist already have no doubt.
    """
    for vm_object in outcome.objects.values():
        site_certainty = certainties.get(vm_object.request.demand.site_id)
        if site_certainty is None or not site_certainty.untried:
            continue
        for pool_name, _ in vm_object.placements.new_handles:
            vm_object.placements.doubts[pool_name] = site_certainty.untried


def _collect_prediction_scores(prior: PriorState) -> Iterator[SitePredictionAccuracy]:
    """Yield the prediction accuracy per site: of earlier plans, and of its last replay.

    A replay places the VMs of the site again, and compares their machines with the real ones. Its
    results are recorded by `rack_spread`.
    """
    objects = prior.objects
    for address in sorted(objects, key=compute_address_order):
        attributes = objects[address].attributes
        note = objects[address].private
        predictions = compute_score(parse_record(note))
        not_verified = get_text(note, NOT_VERIFIED_KEY)
        rack_spread = get_text(attributes, "scheduler", "rack_spread") or RackSpread.POOL.value
        replay_scores = get_mapping(note, PREDICTION_KEY, rack_spread)
        # No site, or one without predictions.
        if not (replay_scores or predictions or not_verified):
            continue
        name_parts = [attributes.get("namespace"), attributes.get("name")]
        yield SitePredictionAccuracy(
            site="/".join(str(part) for part in name_parts if part),
            hits=replay_scores.get("hits", 0),
            # States of earlier versions have the second names.
            verified_count=replay_scores.get("verified", replay_scores.get("judged", 0)),
            unverified_count=replay_scores.get("unverified", replay_scores.get("not_judged", 0)),
            certain_hits=replay_scores.get("certain_hits", replay_scores.get("sure")),
            random_hits=replay_scores.get("chance"),
            predictions=predictions,
            not_verified=not_verified,
            date=get_text(replay_scores, "date"),
        )


def _check_vms(blocks: BlockPlanner, outcome: PlacementPhasesResult) -> Iterator[Diagnostic]:
    """Yield the problems of VMs and their machines, except missing capacity."""
    objects = outcome.objects.values()
    instances = blocks.instances
    types = blocks.request.registries.resource_types
    removed_cells = list(
        placement_fit.check_removed_cells(instances, types, outcome.sites, objects)
    )
    # With errors about removed cells, warnings about other machines smaller than their
    # VMs can wait.
    yield from removed_cells or placement_fit.check_overcommitted_machines(
        instances, outcome.sites, objects
    )
    yield from placement_fit.check_changed_sku_cells(instances.values(), objects)
    yield from placement_fit.check_vf_capacity(objects)
    yield from placement_fit.check_unlocated_vms(objects)
    yield from placement_fit.check_placement_groups(objects)
    yield from _check_existing_vms(blocks, outcome)


def _validate_plan(
    blocks: BlockPlanner,
    outcome: PlacementPhasesResult,
    diagnostics: Sequence[Diagnostic],
    certainty: Mapping[str, SamplingResult] | None,
    ledger: DoubtLedger,
) -> PlanValidation:
    """Validate the outcome.

    With other errors, missing capacity and violated separation rules are not reported: fixing those
    errors may change them. `certainty` is None without separation rules. The `ledger` has the facts
    that are not read.
    """
    objects = outcome.objects.values()
    instances = blocks.instances
    all_diagnostics = [*diagnostics, *_check_vms(blocks, outcome)]
    forgotten = [instance for instance in instances.values() if instance.action is Action.FORGET]
    forgotten_hosts = [
        str(instance.address)
        for instance in forgotten
        if instance.type.add_to_inventory is not None
    ]
    allows_shortage = blocks.request.allows_shortage
    failures = placement_fit.collect_fit_failures(
        objects,
        blocks.outside_targets,
        forgotten_hosts,
        has_targets=bool(blocks.selection.targets),
        severity=Severity.WARNING if allows_shortage else Severity.ERROR,
    )
    lacks_capacity = has_errors(failures.diagnostics)
    # A VM without capacity makes values unknown: an error about one is only a consequence.
    has_other_errors = has_errors(
        diagnostic
        for diagnostic in all_diagnostics
        if diagnostic.id != UNKNOWN_PLACEMENT or not lacks_capacity
    )
    # Else risks of running pods are not known.
    is_complete = not has_other_errors and not lacks_capacity
    domain_findings = [
        domain.collect_findings(instances, risks=is_complete) for domain in outcome.contributions
    ]
    findings = list(chain.from_iterable(domain_findings))
    if has_other_errors:
        return PlanValidation([*all_diagnostics, *findings])
    all_diagnostics = [*failures.diagnostics, *all_diagnostics, *findings]
    if certainty is None:
        return PlanValidation(all_diagnostics, failures.unplaced)
    from nexusform.planning.verdicts.separation_rules import evaluate_rules

    def list_pods() -> Iterator[ScheduledPod]:
        """Yield the pods after the plan."""
        return chain.from_iterable(domain.list_workloads() for domain in outcome.contributions)

    rules = evaluate_rules(
        instances.values(), outcome.objects, outcome.sites, certainty, list_pods, ledger
    )
    all_diagnostics += rules.diagnostics
    return PlanValidation(
        all_diagnostics, failures.unplaced, tuple(rules.verdicts), tuple(rules.open_rules)
    )


def _check_existing_vms(
    blocks: BlockPlanner, outcome: PlacementPhasesResult
) -> Iterator[Diagnostic]:
    """Yield the findings about existing VMs.

    Violated rules, lost machines, and names in use by other VMs.
    """
    objects = outcome.objects.values()
    suspects = [vm_object for vm_object in objects if _may_violate_rules(vm_object)]
    if suspects:
        from nexusform.planning.verdicts.rule_violations import check_existing_vms

        yield from check_existing_vms(suspects)
    has_losses = any(vm_object.request.actions.losses for vm_object in objects)
    if has_losses or any(site.observed_unmanaged for site in outcome.sites.values()):
        from nexusform.planning.verdicts.stranded_vms import (
            check_duplicate_names,
            check_stranded_vms,
        )

        types = blocks.request.registries.resource_types
        mode = blocks.request.mode
        yield from check_stranded_vms(
            objects, blocks.instances, types, blocks.selection, mode, outcome.sites
        )
        yield from check_duplicate_names(objects)


def _may_violate_rules(vm_object: VmObject) -> bool:
    """Return whether an object's unchanged VMs may violate placement rules.

    They then need a detailed check.

    Such rules are the zones of a pool (checked here), its hints and groups, and the site's filters
    on VMs (CountFilter).
    """
    site = vm_object.request.site
    pools = index_pools(vm_object.pools)
    # It is removed, or unknown.
    if site is None:
        return False
    has_count_rules = any(isinstance(rule, CountFilter) for rule in site.scheduler.profile.filters)
    constrained = {
        name for name, pool in pools.items() if has_count_rules or pool.has_further_constraints
    }
    for name, number in vm_object.request.actions.unchanged:
        if name in constrained:
            return True
        # An unselected object may have VMs of a missing pool.
        if name not in pools:
            continue
        zone = vm_object.placements.vms[name, number].placement.availability_zone
        if not pools[name].is_zone_allowed(zone):
            return True
    return False


def _add_inputs_and_diagnostics_to_plan(
    plan: Plan, request: PlanRequest, diagnostics: Iterable[Diagnostic]
) -> Plan:
    """Return the plan with its inputs, and each diagnostic once.

    With errors, advice on placements is dropped.
    """
    files = request.configuration.files
    unique = [
        locate_line_in_text(diagnostic, files)
        for diagnostic in remove_duplicate_diagnostics(diagnostics)
    ]
    is_errored = has_errors(unique)
    # PARTIAL suggests a further plan after the apply, but this one cannot be applied.
    if is_errored:
        unique = [
            problem
            for problem in unique
            if problem.id != PARTIAL and problem.id not in _PLACEMENT_ADVICE
        ]
    state = request.state
    # Only those different from the state.
    refreshed_objects = {
        address: observed
        for address, observed in request.refreshed_objects.items()
        if get_current_object(state.instances.get(address)) != observed
    }
    return replace(
        plan,
        diagnostics=tuple(unique),
        root_values=replace(
            plan.root_values, variables=root_outputs.collect_variable_values(request)
        ),
        basis=replace(
            plan.basis, ephemeral_variables=root_outputs.list_ephemeral_variables(request)
        ),
        observed=replace(plan.observed, refreshed_objects=refreshed_objects),
        start=replace(
            plan.start,
            lineage=state.lineage,
            serial=state.serial,
            prior_digest=request.prior_digest,
            catalogue=get_catalogue_version(request),
            timestamp=request.now,
            nexusform_version=__version__,
        ),
        options=replace(
            plan.options,
            mode=request.mode,
            workspace=request.workspace,
            targets=request.targets,
            excludes=request.excludes,
            replaces=request.replaces,
        ),
        errored=is_errored,
    )


def remove_consequential_errors(
    diagnostics: Sequence[Diagnostic],
    order: PlanningOrder,
    *,
    has_earlier_errors: bool,
    has_rejected_values: bool = False,
) -> list[Diagnostic]:
    """Return the diagnostics of the phases, without those that only follow from another error.

    Errors from before the phases (`has_earlier_errors`) may cause missing sites, racks and
    clusters. A rejected value (`has_rejected_values`) may also cause unknown values, because
    expressions read it as unknown.
    """
    if has_rejected_values:
        has_earlier_errors = True
        diagnostics = [
            diagnostic for diagnostic in diagnostics if diagnostic.id not in _UNKNOWN_VALUES
        ]
    remaining = _remove_dependents_of_errors(diagnostics, order)
    if has_earlier_errors:
        consequences = _CONSEQUENCES
    elif any(diagnostic.id == UNKNOWN_PLACEMENT for diagnostic in remaining):
        # A site or rack with an unknown argument is missing.
        consequences = _CONSEQUENCES - {UNKNOWN_PLACEMENT}
    else:
        return _remove_errors_after_earlier_phases(remaining, order)
    return [diagnostic for diagnostic in remaining if diagnostic.id not in consequences]


def _remove_errors_after_earlier_phases(
    diagnostics: Sequence[Diagnostic], order: PlanningOrder
) -> list[Diagnostic]:
    """Return the diagnostics without missing objects that blocks of earlier phases may declare.

    A rack with an error, for example, is missing: its zone is no zone of the site.
    """

    def get_phase(diagnostic: Diagnostic) -> int:
        # Without a block, or about a module: after all phases.
        block = _find_block(diagnostic)
        return order.phases.get(block, sys.maxsize) if block else sys.maxsize

    kinds = _CONSEQUENCES - {UNKNOWN_PLACEMENT}
    causes = [error for error in select_errors(diagnostics) if error.id not in kinds]
    first_phase = min(map(get_phase, causes), default=sys.maxsize)
    return [
        diagnostic
        for diagnostic in diagnostics
        if diagnostic.id not in kinds or get_phase(diagnostic) <= first_phase
    ]


def _remove_dependents_of_errors(
    diagnostics: Sequence[Diagnostic], order: PlanningOrder
) -> list[Diagnostic]:
    """Return the diagnostics without those that follow from another error.

    These are about unknown placement arguments.

    They follow if the block of the argument, or a block it depends on, has an error
    of another kind.
    """
    blocks_with_errors = {
        block
        for diagnostic in select_errors(diagnostics)
        if diagnostic.id != UNKNOWN_PLACEMENT and (block := _find_block(diagnostic))
    }
    remaining = []
    for diagnostic in diagnostics:
        block = _find_block(diagnostic)
        if diagnostic.id == UNKNOWN_PLACEMENT and block is not None:
            # The result includes the block.
            needs = find_reachable([block], order.get_direct_dependencies)
            if not blocks_with_errors.isdisjoint(needs):
                continue
        remaining.append(diagnostic)
    return remaining


def _find_block(diagnostic: Diagnostic) -> ConfigAddress | None:
    """Return the resource block of a diagnostic; None without one, or for a module."""
    pattern = parse_pattern(diagnostic.address) if diagnostic.address else None
    if pattern is None or not pattern.type:
        return None
    return parse_address(diagnostic.address).config_address


def remove_duplicate_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return each diagnostic once, errors first, otherwise in order.

    If a data source has errors, diagnostics about unknown repetitions and arguments are dropped,
    because everything derived from its data is unknown.
    """
    listed = list(diagnostics)
    if not listed:
        return []
    from nexusform.planning.instances.condition_checks import ID_OF_CONDITION

    unique: dict[tuple[object, ...], Diagnostic] = {}
    for diagnostic in listed:
        # Instances share diagnostics of one location, except for conditions, which apply
        # to every instance.
        is_per_instance = diagnostic.subject is None or diagnostic.id in ID_OF_CONDITION.values()
        identity_key = (
            diagnostic.severity,
            diagnostic.id,
            diagnostic.summary,
            diagnostic.detail,
            diagnostic.subject,
            diagnostic.address if is_per_instance else "",
        )
        unique.setdefault(identity_key, diagnostic)
    errors_first = sorted(
        unique.values(), key=lambda diagnostic: diagnostic.severity is not Severity.ERROR
    )
    is_data_missing = any(
        diagnostic.address.startswith("data.") or ".data." in diagnostic.address
        for diagnostic in select_errors(errors_first)
    )
    if not is_data_missing:
        return errors_first
    consequences = (UNKNOWN_PLACEMENT, *UNKNOWN_REPETITION.values())
    return [diagnostic for diagnostic in errors_first if diagnostic.id not in consequences]
