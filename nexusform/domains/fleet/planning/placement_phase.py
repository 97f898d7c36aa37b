"""Placement phase of a plan.

Evictions, iterations over all placements, staged runs, rollouts, final attributes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import ResourceBlock
from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity, has_errors
from nexusform.diagnostics.phrases import format_list, select_word_form
from nexusform.domains.fleet.importers.fleet_records import FleetPlacement
from nexusform.domains.fleet.importers.selector_kinds import check_selector_kinds
from nexusform.domains.fleet.planning.binding_rows import (
    UNREAD_MEMBERS,
    add_doubt_about_hub,
    add_doubt_about_members,
    build_binding_rows,
    build_removed_rows,
    build_rolling_timeline,
    find_unread_members,
)
from nexusform.domains.fleet.planning.cluster_contents import (
    ClusterContent,
    MemberEnds,
    list_direct_contents,
    list_placement_contents,
    list_unplanned_contents,
)
from nexusform.domains.fleet.planning.excluded_placements import find_missing_members
from nexusform.domains.fleet.planning.fleet_outcome import (
    FleetOutcome,
    build_observed_bindings,
    build_placement_warnings,
    compute_final_attributes,
    find_rejected_clusters,
    warn_abandon_policy,
)
from nexusform.domains.fleet.planning.fleet_snapshot import (
    FleetMemberState,
    FleetPodPredictor,
    ObservedHub,
    add_bound_members,
    build_member_clusters,
    find_several_hubs,
    read_observed_hub,
    select_instances,
)
from nexusform.domains.fleet.planning.foreign_field_merge import (
    TOLERATIONS,
    build_merged_placement,
    find_field_owner,
)
from nexusform.domains.fleet.planning.hub_content_warnings import (
    warn_missing_definitions,
    warn_objects_without_namespace,
    warn_unknown_kinds,
)
from nexusform.domains.fleet.planning.left_objects import warn_leaving_members
from nexusform.domains.fleet.planning.override_changes import find_override_changes
from nexusform.domains.fleet.planning.placement_iterations import (
    plan_after_staged_runs,
    run_iterations,
)
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan, create_placement_plan
from nexusform.domains.fleet.planning.placement_records import read_bindings
from nexusform.domains.fleet.planning.placement_spec import PlacementSpec, build_placement_spec
from nexusform.domains.fleet.planning.planned_hub import PlannedHub, build_planned_hub
from nexusform.domains.fleet.planning.planned_members import build_members, record_processed_members
from nexusform.domains.fleet.planning.selected_resources import (
    record_cluster_resources,
    select_placement_resources,
)
from nexusform.domains.fleet.planning.staged_runs import execute_runs
from nexusform.domains.fleet.planning.step_order import check_step_order, compute_step_order
from nexusform.domains.fleet.planning.uncleared_members import (
    collect_destroyed_clusters,
    collect_member_clusters,
    find_unreachable_in_state,
    record_uncleared_placements,
)
from nexusform.domains.fleet.planning.unmanaged_objects import warn_unmanaged_objects
from nexusform.domains.fleet.planning.unreached_records import warn_unreached_records
from nexusform.domains.fleet.scheduling.bindings import (
    BindingState,
    PlacementType,
    collect_clusters,
    split_clusters,
)
from nexusform.domains.fleet.scheduling.eviction import (
    PREDICTED_EVICTION,
    EvictionResult,
    EvictionTarget,
    PlacementDisruptionBudget,
    apply_eviction,
    evaluate_eviction,
)
from nexusform.domains.fleet.scheduling.fleet_api_validation import (
    build_violations,
    check_disruption_budget,
    check_policy_change,
    check_strategy_change,
    format_sentence,
)
from nexusform.domains.fleet.scheduling.rolling_update import BlockedRollout
from nexusform.domains.fleet.scheduling.staged_update import RunStepKind
from nexusform.domains.fleet.scheduling.watcher import Trigger
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.pod_kind import UNREACHABLE_MEMBERS
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import Path, get_mapping, get_value_at_path
from nexusform.planning.instances.argument_evaluation import (
    build_unknown_placement_error,
    find_unknown_placement_arguments,
)
from nexusform.planning.instances.attribute_differences import plan_attributes
from nexusform.planning.instances.block_planner import BlockPlanner, expose_instance
from nexusform.planning.instances.instance import ActionDecision, Instance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.preparation.planning_order import PLACEMENT_PHASE
from nexusform.plans.plan import Action, PlacementAction, PlacementChange, Rollout, RolloutStep
from nexusform.resources.address import Address
from nexusform.scheduling.placement_decision import Rejection


def plan_placements(
    blocks: BlockPlanner,
    evaluation: Evaluation,
    clusters: Mapping[str, NodeCluster],
    pods: FleetPodPredictor,
) -> FleetOutcome:
    """Plan members, hub objects, bindings, staged runs and rollouts.

    `clusters` are those with known nodes, by id.
    """
    observed = read_observed_hub(blocks.request, evaluation)
    # Of an unread hub.
    observed = add_bound_members(observed, blocks.prior.instances.values())
    instances, problems = _evaluate_placement_blocks(blocks, evaluation, pods)
    # Not found by a provider.
    missing_members = find_missing_members(blocks.prior, blocks.request.registries)
    members, diagnostics = build_members(
        blocks.instances.values(), clusters, pods, observed.members, missing_members
    )
    hub = build_planned_hub(blocks.instances.values(), observed)
    diagnostics += hub.diagnostics
    diagnostics += find_several_hubs(blocks.request, evaluation)
    diagnostics += problems
    specs, problems = _build_specs(instances, blocks, evaluation, observed)
    diagnostics += problems
    for spec in specs:
        diagnostics += _check_custom_kinds(spec, hub)
    member_clusters = build_member_clusters(
        members, find_unreachable_in_state(blocks.instances.values())
    )
    recreated_workloads = hub.recreated_workloads
    placements: list[PlacementPlan] = []
    for spec in specs:
        placements.append(
            create_placement_plan(spec, select_placement_resources(spec, hub, member_clusters))
        )
        # With staged runs, a run distributes hub changes.
        if recreated_workloads and not spec.is_external:
            pods.recreate_workloads(spec.address, recreated_workloads)
    by_key = {placement.key: placement for placement in placements}
    diagnostics += execute_evictions(by_key, hub)
    iterations = run_iterations(
        placements, members, pods, hub.collect_direct_objects(members), blocks.request.progress
    )
    diagnostics += execute_runs(placements, hub, iterations.member_list)
    iterations = plan_after_staged_runs(placements, members, pods, iterations)
    diagnostics += plan_rollouts(placements)
    by_address = {placement.spec.instance.address: placement for placement in placements}
    for instance in instances:
        _finish_instance(instance, by_address.get(instance.address), blocks, evaluation)
    record_processed_members(members.values(), blocks.instances)
    diagnostics += build_placement_warnings(
        placements, members, iterations, observed, blocks.unselected_addresses
    )
    diagnostics += record_uncleared_placements(
        list(blocks.instances.values()), member_clusters.all_unreachable
    )
    diagnostics += warn_leaving_members(list(blocks.instances.values()))
    diagnostics += warn_objects_without_namespace(hub, placements)
    diagnostics += warn_unknown_kinds(hub, placements)
    diagnostics += warn_missing_definitions(placements, iterations.shared_objects.direct, pods)
    is_partial = bool(blocks.request.targets or blocks.request.excludes)
    # A record may belong to a placement that this plan leaves out.
    if not is_partial:
        diagnostics += warn_unreached_records(
            hub, by_key, iterations.member_list, member_clusters.labels
        )
    diagnostics += warn_unmanaged_objects(hub, by_key)
    diagnostics += warn_abandon_policy(blocks.instances.values())
    rejections = (
        iterations.list_rejections(placements) if blocks.request.includes_rejections else {}
    )
    rows = tuple(
        _build_all_binding_rows(
            blocks.instances.values(),
            by_address,
            members,
            rejections,
            member_clusters.all_unreachable,
        )
    )
    unread_members = find_unread_members(rows, members.keys())
    ends = _find_member_ends(blocks)
    rows = tuple(_add_doubts(rows, observed, unread_members, ends.forgotten))
    rows = tuple(_mark_left_objects(rows, by_address, ends))
    step_order, late_override_warnings = compute_step_order(blocks.instances.values(), by_key, hub)
    diagnostics += late_override_warnings
    diagnostics += check_step_order(step_order, blocks.instances, blocks.order)
    if _has_incomplete_blocks(blocks):
        # Warnings compare placements with the whole fleet, so they could be wrong.
        diagnostics = [item for item in diagnostics if item.severity is Severity.ERROR]
    return FleetOutcome(
        rows=rows,
        placements=by_address,
        member_list=iterations.member_list,
        diagnostics=tuple(diagnostics),
        rollouts=tuple(_list_rollouts(placements, ends)),
        rejected_clusters=tuple(find_rejected_clusters(placements)),
        observed_attributes=dict(build_observed_bindings(placements)),
        step_order=step_order,
        content_addresses=_map_content(by_address, hub),
        clusters={
            name: state.cluster for name, state in members.items() if state.cluster is not None
        },
        members_in_doubt={
            **dict.fromkeys(unread_members, UNREAD_MEMBERS),
            **dict.fromkeys(member_clusters.all_unreachable, UNREACHABLE_MEMBERS),
        },
        contents=tuple(_list_contents(blocks, placements, ends, recreated_workloads)),
        # Rows of an unreachable member have the present pods, without the pending changes.
        unreachable_members=frozenset(member_clusters.unreachable),
        content_changes=tuple(find_override_changes(placements, hub)),
    )


def _find_forgotten_members(blocks: BlockPlanner) -> set[str]:
    """Return the names of the members that are only removed from state."""
    members = select_instances(blocks.instances.values(), PlanningKind.MEMBER)
    return {
        str(get_value_at_path(member.before, "name"))
        for member in members
        if member.action is Action.FORGET
    }


def _mark_left_objects(
    rows: Iterable[PlacementChange], placements: Mapping[Address, PlacementPlan], ends: MemberEnds
) -> Iterator[PlacementChange]:
    """Yield the rows, with a mark on removed bindings whose objects stay on the cluster."""
    for row in rows:
        placement = placements.get(row.address)
        # The rows of a replaced one are those of its predecessor.
        if placement is not None and placement.spec.is_new:
            placement = None
        is_removed = row.action is PlacementAction.REMOVE
        if placement is not None and is_removed and ends.keeps_objects(placement, row.object):
            reason = f"{row.reason}; its objects stay, unmanaged".removeprefix("; ")
            yield replace(row, leaves_objects=True, reason=reason)
        else:
            yield row


def _map_content(
    placements: Mapping[Address, PlacementPlan], hub: PlannedHub
) -> dict[Address, tuple[Address, ...]]:
    """Return the addresses of the blocks with the objects of each placement, by its address."""
    owners = {
        manifest.identity: instance.address
        for instance, manifests in hub.configured_objects
        for manifest in manifests
    }
    content: dict[Address, tuple[Address, ...]] = {}
    for address, placement in placements.items():
        snapshots = placement.snapshot_store.snapshots
        objects = snapshots[-1].objects if snapshots else ()
        addresses = dict.fromkeys(owners.get(item.identity) for item in objects)
        content[address] = tuple(filter(None, addresses))
    return content


def _list_contents(
    blocks: BlockPlanner,
    placements: Sequence[PlacementPlan],
    ends: MemberEnds,
    recreated_workloads: frozenset[str],
) -> Iterator[ClusterContent]:
    """Yield the contents of clusters: of placements, of those outside of the plan, of manifests."""
    instances = blocks.instances.values()
    cluster_ids = collect_member_clusters(instances)
    for placement in placements:
        yield from list_placement_contents(placement, cluster_ids, ends, recreated_workloads)
    planned = {placement.spec.instance.address for placement in placements}
    yield from list_unplanned_contents(instances, planned, cluster_ids)
    yield from list_direct_contents(instances)


def _find_member_ends(blocks: BlockPlanner) -> MemberEnds:
    """Return the members that the state forgets, and those whose cluster is destroyed."""
    cluster_ids = collect_member_clusters(blocks.instances.values())
    destroyed_clusters = collect_destroyed_clusters(blocks.instances.values())
    destroyed = {name for name, item in cluster_ids.items() if item in destroyed_clusters}
    return MemberEnds(frozenset(_find_forgotten_members(blocks)), frozenset(destroyed))


def _list_rollouts(placements: Iterable[PlacementPlan], ends: MemberEnds) -> Iterator[Rollout]:
    """Yield the rollouts; where the objects of a placement stay, nothing is deleted."""
    for placement in placements:
        for rollout in placement.rollout.timelines:
            steps: list[RolloutStep] = []
            for step in rollout.steps:
                clusters = step.clusters
                if step.kind == RunStepKind.DELETE:
                    clusters = tuple(
                        name for name in clusters if not ends.keeps_objects(placement, name)
                    )
                if clusters or not step.clusters:
                    steps.append(replace(step, clusters=clusters))
            if steps:
                yield replace(rollout, steps=tuple(steps))


def _add_doubts(
    rows: Sequence[PlacementChange],
    observed: ObservedHub,
    unread_members: AbstractSet[str],
    forgotten_members: AbstractSet[str],
) -> Iterator[PlacementChange]:
    """Yield the rows, uncertain where members or other data of the hub were not read.

    A member that is only missing in the state, such as a forgotten one, may be in the fleet. The
    scheduler then replaces none of its bindings, so all changes of these placements are uncertain.
    """
    missing_members = unread_members | forgotten_members
    placements_in_doubt = {
        row.address
        for row in rows
        if row.trigger == Trigger.CLUSTER_LEFT and row.object in missing_members
    }
    for row in rows:
        is_forgotten = row.object in forgotten_members and row.action is PlacementAction.REMOVE
        is_in_doubt = row.address in placements_in_doubt and not is_forgotten
        row_with_doubt = (
            add_doubt_about_hub(row, UNREAD_MEMBERS)
            if is_in_doubt
            else add_doubt_about_members(row, unread_members)
        )
        yield add_doubt_about_hub(row_with_doubt) if observed.is_incomplete else row_with_doubt


def _has_incomplete_blocks(blocks: BlockPlanner) -> bool:
    """Return whether a fleet block has errors, so that its objects are not known to the plan."""
    types = blocks.request.registries.resource_types
    invalid_types = [
        *(instance.type for instance in blocks.instances.values() if instance.is_invalid),
        *(types[address.type] for address in blocks.unexpanded_blocks),
    ]
    return any(isinstance(resource_type, FleetObjectType) for resource_type in invalid_types)


def _evaluate_placement_blocks(
    blocks: BlockPlanner, evaluation: Evaluation, pods: FleetPodPredictor
) -> tuple[list[Instance], list[Diagnostic]]:
    """Return the instances of all placement blocks with evaluated arguments, and the problems.

    Remove the pods of those that count or for_each no longer has.
    """
    instances: list[Instance] = []
    diagnostics: list[Diagnostic] = []
    types = blocks.request.registries.resource_types
    for block in blocks.order.list_phase(PLACEMENT_PHASE):
        # Else a type of another domain.
        if isinstance(types[block.type], FleetObjectType):
            evaluated, problems = _evaluate_placement_block(block, blocks, evaluation)
            instances += evaluated
            diagnostics += problems
    for instance in instances:
        if instance.is_removed:
            for member in get_mapping(instance.before, "workloads"):
                keeps_running = instance.action is Action.FORGET
                pods.remove_pods(str(instance.address), member, keeps_running=keeps_running)
    return instances, diagnostics


def _evaluate_placement_block(
    block: ResourceBlock, blocks: BlockPlanner, evaluation: Evaluation
) -> tuple[Sequence[Instance], list[Diagnostic]]:
    """Return the instances of a block with evaluated arguments, and the problems.

    Instances with an argument known only after the apply are invalid. Computed values other than
    the id are unknown.
    """
    expanded = blocks.expand(block, evaluation)
    assert expanded is not None
    blocks.diagnostics += expanded.diagnostics
    needs = blocks.order.get_direct_dependencies(block.address)
    other_placements = [need for need in needs if blocks.order.phases[need] == PLACEMENT_PHASE]
    diagnostics: list[Diagnostic] = []
    for instance in expanded.instances:
        if not instance.is_configured:
            # removed, so without arguments.
            continue
        diagnostics += blocks.evaluate(instance, evaluation)
        for path in find_unknown_placement_arguments(instance):
            instance.is_invalid = True
            if other_placements:
                text = (
                    f"All placements are decided together, so an argument of {instance.address} "
                    "cannot depend "
                    f"on the result of {other_placements[0]}. Use a literal value, or derive both "
                    "from the same "
                    "variable."
                )
                diagnostics.append(instance.build_error("placement-dependency-cycle", text, path))
            else:
                diagnostics.append(build_unknown_placement_error(instance, path))
        assert instance.config is not None
        # Later blocks may use its id; its other computed values are unknown.
        computed = {} if instance.is_invalid else {"id": instance.type.build_id(instance.config)}
        planned = plan_attributes(
            instance.type.schema, instance.config, prior=None, computed=computed
        )
        instance.decision = ActionDecision(planned=planned)
        expose_instance(instance, evaluation)
    return expanded.instances, diagnostics


def _build_specs(
    instances: Iterable[Instance],
    blocks: BlockPlanner,
    evaluation: Evaluation,
    observed: ObservedHub,
) -> tuple[list[PlacementSpec], list[Diagnostic]]:
    """Build the specs of the instances, except removed and invalid ones.

    A change forbidden by a hub is an error.
    """
    specs: list[PlacementSpec] = []
    diagnostics: list[Diagnostic] = []
    for instance in instances:
        if instance.is_invalid or instance.config is None:
            continue
        configuration = build_merged_placement(instance, instance.config)
        blocks.set_predicted_action(instance, evaluation)
        spec = build_placement_spec(instance, configuration, observed.get_placement(instance))
        # In state before the refresh.
        recorded = blocks.request.state.instances.get(instance.address)
        if recorded is not None and recorded.current is not None:
            spec = replace(spec, recorded_bindings=read_bindings(recorded.current.attributes))
        problems = list(_check_immutable_changes(spec))
        instance.is_invalid = has_errors(problems)
        if not instance.is_invalid:
            specs.append(spec)
        diagnostics += problems
    return specs, diagnostics


def _check_immutable_changes(spec: PlacementSpec) -> Iterator[Diagnostic]:
    """Yield errors for changes of an existing placement rejected by its hub."""
    previous = spec.previous_configuration
    configuration = spec.configuration
    instance = spec.instance
    # A new placement.
    if previous is None:
        return
    changes = check_policy_change(previous.policy, configuration.policy)
    changes += check_strategy_change(previous.strategy, configuration.strategy)
    has_other_scope = previous.status_reporting_scope != configuration.status_reporting_scope
    changes += build_violations(
        (has_other_scope, ("status_reporting_scope",), "statusReportingScope is immutable")
    )
    in_manifest = bool(get_value_at_path(instance.config, "manifest"))
    for change in changes:
        path: Path = ("manifest",) if in_manifest else change.path
        if path == ("policy",) and configuration.policy is None:
            # The block is removed: report the placement.
            path = ()
        remedy = (
            "To re-create the placement and every binding, plan with "
            f"-replace='{instance.address}'."
        )
        if instance.before is None:
            name = instance.type.build_id(get_mapping(instance.config))
            advice = (
                f'Import it with an import block (to = {instance.address}, id = "{name}"), or '
                "choose another name."
            )
            remedy = f"The placement exists on the hub but not in state. {advice}"
        # The first text is for tolerations owned by another manager, and "" for others.
        detail = (
            _explain_foreign_list(spec, previous, change.path)
            or f"{format_sentence(change.detail)} {remedy}"
        )
        yield instance.build_diagnostic(Problem(path, "change-not-allowed", detail))


def _check_custom_kinds(spec: PlacementSpec, hub: PlannedHub) -> Iterator[Diagnostic]:
    """Yield the errors about custom kinds that selectors name, by the definitions on the hub.

    Errors about built-in kinds are those of the placement's type.
    """
    if not hub.api_kinds.custom_kinds:
        return
    in_blocks = bool(get_value_at_path(spec.instance.config, "resource_selector"))
    is_namespaced = bool(spec.configuration.namespace)
    for problem in check_selector_kinds(
        spec.configuration, hub.api_kinds, is_namespaced=is_namespaced
    ):
        path = problem.path if in_blocks else ("manifest",)
        text = f"{spec.configuration.key}: {format_sentence(problem.detail)}"
        yield spec.instance.build_error(problem.id, text, path)


def _explain_foreign_list(spec: PlacementSpec, previous: FleetPlacement, path: Path) -> str:
    """Return why tolerations owned by another manager cannot change, with the remedy.

    The result is "" for other arguments.
    """
    owner = find_field_owner(spec.instance, TOLERATIONS) if path == ("policy", "toleration") else ""
    if not owner:
        return ""
    configured = spec.configuration.effective_policy.tolerations
    earlier = previous.effective_policy.tolerations
    foreign = [toleration.title for toleration in earlier if toleration not in configured]
    pronoun = select_word_form(len(foreign), "it", "them")
    verb = select_word_form(len(foreign), "is", "are")
    return (
        f"{owner} set {TOLERATIONS} on the hub. {format_list(foreign, 4)} {verb} missing here, "
        f"and a hub allows only additions to tolerations. Add {pronoun} here, or leave the list "
        f"to {owner}: lifecycle {{ ignore_changes = [policy.toleration] }}. Only "
        f"-replace='{spec.instance.address}' removes {pronoun}; it re-creates the placement and "
        "every binding."
    )


def _finish_instance(
    instance: Instance,
    placement: PlacementPlan | None,
    blocks: BlockPlanner,
    evaluation: Evaluation,
) -> None:
    """Set the final values of an instance after all iterations.

    `placement` is None if it is removed or has errors.
    """
    if placement is not None:
        record_cluster_resources(placement, serial=blocks.request.state.serial + 1)
        blocks.decide_action(instance, compute_final_attributes(placement), evaluation)
    elif instance.is_configured:
        # With errors: computed values are not predicted.
        blocks.decide_action(instance, {}, evaluation)
    blocks.add_instance(instance, evaluation)


def _build_all_binding_rows(
    instances: Iterable[Instance],
    placements: Mapping[Address, PlacementPlan],
    members: Mapping[str, FleetMemberState],
    rejections: Mapping[Address, tuple[Rejection, ...]],
    unreachable: Mapping[str, str],
) -> Iterator[PlacementChange]:
    """Build the rows of all bindings.

    `rejections` are the reasons against members not picked, by placement; `unreachable` are the
    reasons by member.
    """
    for instance in select_instances(instances, PlanningKind.PLACEMENT):
        if instance.loses_prior_object:
            yield from build_removed_rows(instance, unreachable)
        # None if removed or with errors.
        placement = placements.get(instance.address)
        if placement is not None:
            yield from build_binding_rows(placement, members, rejections.get(instance.address, ()))


def execute_evictions(placements: Mapping[str, PlacementPlan], hub: PlannedHub) -> list[Diagnostic]:
    """Execute the evictions of this plan in planning order.

    Return problems of budgets and evictions. Record each outcome in `private` of its instance and
    in `evictions` of its placement. `placements` are by key.
    """
    problems = list(_check_pick_all_budgets(placements, hub))
    for instance, eviction in hub.evictions:
        placement = placements.get(eviction.placement)
        # Before the next eviction, a provider waits for the replacement of the
        # binding evicted last.
        is_replaced = instance.block is not None and bool(instance.block.provider)
        outcome = _predict_eviction(
            eviction.cluster,
            placement,
            hub.find_budget(eviction.placement),
            is_replaced=is_replaced,
        )
        # An earlier one leaves the hub in an uncertain state.
        is_first = placement is None or not placement.evictions
        instance.private = {
            PREDICTED_EVICTION: {
                "executed": outcome.is_executed,
                "message": outcome.message,
                "certain": outcome.is_certain and is_first,
            }
        }
        if placement is not None:
            placement.evictions = (*placement.evictions, (eviction.name, outcome))
        if not outcome.is_executed:
            text = (
                f"{outcome.message} (placement {eviction.placement}, cluster {eviction.cluster})."
            )
            kind = "eviction-not-executed" if outcome.is_valid else "invalid-eviction"
            problems.append(instance.build_diagnostic(Problem((), kind, text, Severity.WARNING)))
    return problems


def _predict_eviction(
    cluster: str,
    placement: PlacementPlan | None,
    budget: PlacementDisruptionBudget | None,
    *,
    is_replaced: bool,
) -> EvictionResult:
    """Predict an eviction from a cluster; `placement` is None if the plan has none of that name.

    Readiness of waiting clusters is a condition: the prediction is certain if it makes no
    difference. With `is_replaced`, earlier evicted bindings are replaced.
    """
    if placement is None:
        return evaluate_eviction(cluster, None, budget)
    target = _build_eviction_target(placement, is_replaced=is_replaced)
    outcome = evaluate_eviction(cluster, target, budget)
    waiting = placement.waiting_clusters
    if_ready = evaluate_eviction(
        cluster,
        replace(
            target,
            available_clusters=target.available_clusters | waiting,
            failed_clusters=target.failed_clusters - waiting,
        ),
        budget,
    )
    return replace(outcome, is_certain=outcome.is_executed == if_ready.is_executed)


def _build_eviction_target(placement: PlacementPlan, *, is_replaced: bool) -> EvictionTarget:
    """Build the input to decide an eviction.

    Earlier evicted bindings are in deletion; with `is_replaced`, replaced.
    """
    bindings = placement.bindings
    if not is_replaced:
        for _name, eviction in placement.evictions:
            bindings = apply_eviction(eviction, bindings)
    failed = placement.find_clusters_failed_for_hub() | placement.reporting_clusters
    unavailable = failed | placement.unready_clusters
    available = frozenset(
        binding.cluster
        for binding in bindings
        if binding.has_resources and not binding.is_deleting and binding.cluster not in unavailable
    )
    return EvictionTarget(
        placement_type=placement.spec.configuration.placement_type,
        bindings=bindings,
        number=placement.spec.configuration.number_of_clusters,
        available_clusters=available,
        failed_clusters=failed,
        is_deleting=placement.spec.is_being_deleted,
    )


def _check_pick_all_budgets(
    placements: Mapping[str, PlacementPlan], hub: PlannedHub
) -> Iterator[Diagnostic]:
    """Yield problems of budgets specific to placements of type PickAll."""
    for placement_key, (instance, budget) in hub.budgets.items():
        placement = placements.get(placement_key)
        if (
            placement is None
            or placement.spec.configuration.placement_type is not PlacementType.PICK_ALL
        ):
            # Not of this plan, or without special rules.
            continue
        known_problems = check_disruption_budget(budget.budget, placement_type=None)
        for problem in check_disruption_budget(budget.budget, PlacementType.PICK_ALL):
            # Else reported by the validation of the budget alone.
            if problem not in known_problems:
                text = format_sentence(problem.detail)
                yield instance.build_diagnostic(
                    Problem(problem.path, "invalid-disruption-budget", text)
                )


def plan_rollouts(placements: Sequence[PlacementPlan]) -> Iterator[Diagnostic]:
    """Plan the rolling updates of placements wave by wave, and record the results in them.

    Also warn about blocked updates.
    """
    for placement in placements:
        # rolled out by staged runs.
        if placement.spec.is_external:
            continue
        outcome = placement.project_rollout()
        rollout = placement.rollout
        placement.bindings = outcome.bindings
        clusters = rollout.clusters | outcome.reached_clusters
        blocked_clusters = outcome.blocked_clusters
        placement.rollout = replace(
            rollout,
            clusters=clusters,
            waves=outcome.waves,
            blocked_clusters=blocked_clusters,
            conditional_clusters=outcome.conditional_clusters,
        )
        timeline = build_rolling_timeline(placement)
        if timeline is not None:
            placement.rollout = replace(placement.rollout, timelines=(*rollout.timelines, timeline))
        departed, blocked = split_clusters(blocked_clusters, placement.departed_clusters)
        # left the fleet.
        if departed:
            yield from _warn_bindings_of_departed_members(placement, departed)
        if blocked:
            bound = collect_clusters(placement.bindings)
            # They count as unavailable, too.
            failing = sorted((placement.failing_clusters & bound) - {*blocked})
            in_manifest = get_value_at_path(placement.spec.instance.config, "manifest")
            path = () if in_manifest else ("strategy",)
            stop = BlockedRollout(
                placement.key, placement.spec.configuration.rolling_update, blocked
            )
            unreachable = sorted((placement.clusters_applied_later & bound) - {*blocked})
            waiting = sorted(placement.waiting_clusters) if outcome.conditional_clusters else ()
            yield placement.spec.instance.build_diagnostic(
                stop.build_problem(path, failing, unreachable, waiting)
            )


def _warn_bindings_of_departed_members(
    placement: PlacementPlan, departed: Sequence[str]
) -> Iterator[Diagnostic]:
    """Warn about bindings on departed members not removed by a rollout.

    They became Unscheduled in this plan.
    """
    prior_states = {binding.cluster: binding.state for binding in placement.spec.prior_bindings}
    staying = [
        cluster for cluster in departed if prior_states.get(cluster) is not BindingState.UNSCHEDULED
    ]
    if not staying:
        # Unscheduled before this plan.
        return
    key = placement.key
    rolling = placement.spec.configuration.rolling_update
    noun = select_word_form(len(staying), "binding", "bindings")
    verb = select_word_form(len(staying), "stays", "stay")
    text = (
        f"{format_list(staying, 4)} left the fleet, and the {noun} of {key} there {verb} "
        "Unscheduled. Each removal counts as an unavailable cluster, and max_unavailable = "
        f"{rolling.max_unavailable} allows none. The plan assumes that nothing runs there any "
        "more. Raise max_unavailable, or wait until another cluster is ready."
    )
    summary = (
        f"{key}: {format_list(staying, 4)} left the fleet, but the {noun} there {verb} Unscheduled"
    )
    problem = Problem((), "orphaned-binding", text, Severity.WARNING, brief=summary)
    yield placement.spec.instance.build_diagnostic(problem)
