"""Two passes over phase 4, and the pass of a destroy plan.

Pass one, with unknown placements: the demand of every block, so that all removals happen and all
VMs without machine are placed before new ones. Pass two, block by block: the new VMs, each with the
previous placements known.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import ResourceBlock
from nexusform.configuration.declarations.limits import build_limit_error
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import group_by
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_mapping, has_unknown_part
from nexusform.placements.vm_demands import NO_DEMAND, VmDemand
from nexusform.planning.instances.argument_evaluation import find_unknown_placement_arguments
from nexusform.planning.instances.attribute_differences import has_equal_values, plan_attributes
from nexusform.planning.instances.block_planner import BlockPlanner, expose_instance
from nexusform.planning.instances.instance import REPLACED_WITH_HOST, ActionDecision, Instance
from nexusform.planning.name_resolution.name_evaluation import Evaluation, build_resource_key
from nexusform.planning.name_resolution.repetition import ResourceView
from nexusform.planning.plan_request import PlanningStage
from nexusform.planning.preparation.planning_order import index_owners
from nexusform.planning.preparation.prior_state import PriorState
from nexusform.planning.preparation.target_selection import Selection
from nexusform.planning.vm_planning import vm_context, vm_placement_steps
from nexusform.planning.vm_planning.site_plans import (
    ResourceTypeContext,
    build_object_inventory,
    build_sites,
    place_unmanaged_vms,
)
from nexusform.planning.vm_planning.vm_object import (
    VmObject,
    record_previous_machines,
    record_vm_placements,
)
from nexusform.plans.plan import Action
from nexusform.resources.address import Address, ConfigAddress, compute_address_order
from nexusform.resources.graph import find_reachable
from nexusform.scheduling.racks.uncertainty.arrivals import Stage
from nexusform.schemas.block_schema import BlockSchema


class PlannedVms(Struct, frozen=True):
    """VMs of a plan by the address of their object, and the evaluation with known placements."""

    objects: Mapping[Address, VmObject]
    evaluation: Evaluation
    diagnostics: list[Diagnostic]


def plan_vms(
    vm_blocks: Sequence[ResourceBlock],
    orphans: Sequence[Instance],
    context: vm_context.VmContext,
    blocks: BlockPlanner,
    evaluation: Evaluation,
) -> PlannedVms:
    """Plan the blocks of clusters, pools, VMs and VNFs.

    `orphans` are instances in state without a block. Pass one decides the actions on VMs, and
    re-places existing ones. Pass two places new VMs, and evaluates arguments again.
    """
    planner = _VmPlanner(blocks, context)
    first = evaluation.create_tentative_copy()
    instances_by_block = planner.run_first_pass(vm_blocks, first)
    # Blocks missing in `instances_by_block` wait for pass two: their instances or demands
    # depend on placements.
    early = [*chain.from_iterable(instances_by_block.values()), *orphans]
    all_instances = list(early)
    for block in vm_blocks:
        # Its instances in state.
        if block.address not in instances_by_block:
            prior_addresses = blocks.prior.by_block.get(block.address, ())
            all_instances += [blocks.build_unchanged(address) for address in prior_addresses]
    planner.add_prior_vms(all_instances)
    planner.decide_actions(early, first)
    planner.release_and_replace_vms(early)
    second = evaluation.create_tentative_copy()
    for block in vm_blocks:
        if block.address in instances_by_block:
            _expose_invalid_instances(block, first, second)
            planner.run_second_pass(
                instances_by_block[block.address], second, needs_evaluation=True
            )
        else:
            planner.run_second_pass(planner.plan_waiting_block(block, second), second)
    planner.run_second_pass_without_blocks(orphans, second)
    if any(vm_object.request.actions.forgets for vm_object in planner.objects.values()):
        from nexusform.planning.vm_planning.forgotten_vms import record_forgotten_vms

        record_forgotten_vms(planner.objects.values(), blocks, context)
    placed_evaluation = second.create_reporting_copy([*second.diagnostics, *evaluation.diagnostics])
    return PlannedVms(planner.objects, placed_evaluation, planner.diagnostics)


def _expose_invalid_instances(block: ResourceBlock, first: Evaluation, second: Evaluation) -> None:
    """Let expressions of the second pass read the invalid instances as unknown.

    It adds the valid ones again.
    """
    for module in second.list_module_instances(block.address.module):
        block_key = build_resource_key(block.address, module.path)
        first_view = first.resources[block_key]
        unknown_items = {
            key: item for key, item in first_view.items.items() if item.attributes is None
        }
        second.resources[block_key] = ResourceView(first_view.shape, unknown_items)


class _VmPlanner:
    """Planner of the blocks with VMs: collects their VM objects, and the diagnostics."""

    def __init__(self, blocks: BlockPlanner, context: vm_context.VmContext) -> None:
        """Start without VMs; demands are counted to enforce the limit and to report progress."""
        self.blocks = blocks
        self.context = context
        # The VMs of each instance.
        self.objects: dict[Address, VmObject] = {}
        self.diagnostics: list[Diagnostic] = []
        # The objects by block, and their number then.
        self._objects_by_block: tuple[int, Mapping[ConfigAddress, list[VmObject]]] = (0, {})
        # VMs of all demands so far, for the limit.
        self._demand_count = 0
        # New VMs, and those processed so far.
        self._new_count = self._placed_count = 0

    def _list_vm_objects(self, instances: Sequence[Instance]) -> list[VmObject]:
        return [self.objects[instance.address] for instance in instances]

    def run_first_pass(
        self, vm_blocks: Sequence[ResourceBlock], evaluation: Evaluation
    ) -> dict[ConfigAddress, list[Instance]]:
        """Return the instances of blocks independent of placements, by block.

        The others wait for pass two; their problems are not reported yet, because
        they may disappear.
        """
        early_instances: dict[ConfigAddress, list[Instance]] = {}
        for block in vm_blocks:
            # The `count` or `for_each` of a module is unknown.
            if not evaluation.has_known_modules(block.address.module):
                continue
            # Pass two evaluates modules again, and reports their problems, but not the block's own
            # count or for_each.
            expansion_evaluation = evaluation.create_reporting_copy()
            expanded = self.blocks.expand(block, expansion_evaluation, may_wait=True)
            # Its `count` or `for_each` depends on a placement.
            if expanded is None:
                continue
            problems = self._evaluate_arguments(expanded.instances, evaluation)
            # None: an argument for placement is unknown.
            if problems is not None:
                early_instances[block.address] = expanded.instances
                self.blocks.diagnostics += expanded.diagnostics
                self.diagnostics += [*expansion_evaluation.diagnostics, *problems]
        return early_instances

    def _evaluate_arguments(
        self, instances: Sequence[Instance], evaluation: Evaluation
    ) -> list[Diagnostic] | None:
        """Return the problems of the arguments, None if one for placement is unknown.

        The arguments become visible to later blocks.
        """
        diagnostics: list[Diagnostic] = []
        for instance in instances:
            if instance.is_configured:
                diagnostics += self.blocks.evaluate(instance, evaluation)
                # The block waits for pass two.
                if find_unknown_placement_arguments(instance):
                    return None
                assert instance.config is not None
                # Other computed attributes depend on placements.
                computed = (
                    {} if instance.is_invalid else {"id": instance.type.build_id(instance.config)}
                )
                instance.decision = ActionDecision(
                    planned=plan_attributes(
                        instance.type.schema, instance.config, prior=None, computed=computed
                    )
                )
            if not instance.is_removed and (instance.planned is not None or instance.is_invalid):
                # It exists after the plan.
                expose_instance(instance, evaluation)
        return diagnostics

    def add_prior_vms(self, instances: Iterable[Instance]) -> None:
        """Build the VMs of the instances, and reserve capacity.

        VMs in state come first, then VMs managed elsewhere.
        """
        for instance in instances:
            recorded = self.blocks.prior.get_recorded_object(instance.address)
            self.objects[instance.address] = vm_placement_steps.build_vm_object(
                instance, self.context, recorded
            )
        managed = set(
            chain.from_iterable(
                vm_object.existing_identities for vm_object in self.objects.values()
            )
        )
        for site in self.context.sites.values():
            # Those observed under a managed name or id are left out.
            place_unmanaged_vms(site, managed)

    def decide_actions(self, instances: Sequence[Instance], evaluation: Evaluation) -> None:
        """Decide the actions on the VMs of all instances, such as to keep, create or remove them.

        Pools with a resource of their own come last, since the replacement of their cluster
        replaces them, too.
        """
        # Possible targets of placement hints.
        self.context.hints.add_objects(self.objects.values())
        clusters = [
            item
            for item in instances
            if item.type.kind is PlanningKind.CLUSTER and not item.is_removed
        ]
        for cluster in clusters:
            attributes = cluster.argument_values
            # An invalid cluster has no usable id.
            if attributes is not None and not cluster.is_invalid:
                # Pools with a resource of their own refer to it.
                self.context.current_context.clusters[cluster.type.build_id(attributes)] = (
                    attributes
                )
        # Pools in resources of their own.
        followers: list[tuple[VmObject, VmDemand]] = []
        for vm_object in self._list_vm_objects(instances):
            demand, problems = vm_context.compute_demand(vm_object, self.context)
            self._demand_count += sum(len(pool.numbers) for pool in demand.pools)
            maximum = self.blocks.request.limits.vms
            if self._demand_count > maximum:
                raise build_limit_error("VMs", "vms", maximum)
            self.diagnostics += problems
            # It is decided after its cluster, which may be replaced.
            if demand.parent_id:
                followers.append((vm_object, demand))
            else:
                self._decide_object_actions(vm_object, demand, evaluation)
        # Now it is known which clusters are replaced: their pools are deleted with them,
        # and created again.
        replaced_ids = {
            cluster.type.build_id(get_mapping(cluster.config))
            for cluster in clusters
            if cluster.is_replaced
        }
        for vm_object, demand in followers:
            instance = vm_object.instance
            if (
                demand.parent_id in replaced_ids
                and instance.prior is not None
                and instance.block is not None
            ):
                instance.forced_reason = REPLACED_WITH_HOST
            self._decide_object_actions(vm_object, demand, evaluation)
        self.diagnostics += vm_context.check_system_pools(self._list_vm_objects(instances))

    def _decide_object_actions(
        self, vm_object: VmObject, demand: VmDemand, evaluation: Evaluation
    ) -> None:
        """Decide the action on an instance and on its VMs.

        The decision is as far as known before placement.
        """
        instance = vm_object.instance
        if instance.is_configured:
            self.blocks.set_predicted_action(instance, evaluation)
            self.blocks.record_decision(instance)
        is_demand_unknown = demand is NO_DEMAND and not instance.is_removed
        if instance.is_invalid or is_demand_unknown:
            # It keeps its VMs, so that their capacity is not allocated to others.
            vm_object.keep_all_vms(vm_object.prior.demand)
            return
        # A new object counts from the lowest number.
        if not (instance.is_removed or instance.is_replaced):
            pools = [
                vm_context.keep_existing_numbers(pool, demand.cluster, vm_object)
                for pool in demand.pools
            ]
            demand = replace(demand, pools=tuple(pools))
        vm_placement_steps.decide_actions(vm_object, demand, self.context)
        self._new_count += len(vm_object.request.actions.additions)
        if instance.block is None and not instance.is_removed:
            # Outside the selection, or without a configuration: it keeps its VMs
            # at their locations.
            vm_object.keep_unselected_vms(
                vm_placement_steps.build_machine_trigger_finder(self.context, vm_object),
                is_maintained=(
                    self.blocks.request.keeps_objects and demand.is_recreated_by_platform
                ),
                heals_vms=self.blocks.request.keeps_objects,
            )

    def release_and_replace_vms(self, instances: Sequence[Instance]) -> None:
        """Release the capacity of removed VMs.

        Then restore or place all VMs to re-create, oldest object first.
        """
        objects = self._list_vm_objects(instances)
        for vm_object in objects:
            vm_placement_steps.release_vm_capacity(vm_object)
        for site in self.context.sites.values():
            # The placements are repeated with samples.
            site.start_recording()
        objects_to_place = [
            vm_object for vm_object in objects if vm_object.request.actions.recreations
        ]
        objects_to_place.sort(
            key=lambda vm_object: vm_object.instance.prior_creation
        )  # oldest first
        for vm_object in objects_to_place:
            vm_placement_steps.restore_vm_locations(vm_object)
        for vm_object in objects_to_place:
            self._update_hint_targets(vm_object)
            vm_object.awaited = self._find_awaited_stages(vm_object)
            vm_placement_steps.place_recreated_vms(vm_object, self.context)
            self.context.hints.add_objects([vm_object])

    def _find_awaited_stages(self, vm_object: VmObject) -> frozenset[Stage]:
        """Return the stages of other objects that are applied before an object.

        Only a platform that places VMs in an order of its own needs them. Blocks of modules with
        several instances need those of their own instance only, so references in modules do not
        count.
        """
        site = vm_object.request.site
        block = vm_object.instance.address.config_address
        if site is None or not site.scheduler.profile.platform or block.module:
            return frozenset()

        def list_new_objects(address: ConfigAddress) -> list[VmObject]:
            return [
                other
                for other in self._index_objects().get(address, ())
                if other.placements.new_handles and other.request.site is site
            ]

        def list_next(address: ConfigAddress) -> Iterable[ConfigAddress]:
            # Objects of a block with new VMs wait for those that it needs itself.
            is_end = address != block and list_new_objects(address)
            return () if is_end else self.blocks.order.get_direct_dependencies(address)

        needed = find_reachable([block], list_next) - {block}
        return frozenset(
            (str(other.instance.address), pool)
            for address in needed
            for other in list_new_objects(address)
            for pool, _ in other.placements.new_handles
        )

    def _index_objects(self) -> Mapping[ConfigAddress, list[VmObject]]:
        """Return the objects so far by their block, indexed again only if there are more."""
        count, index = self._objects_by_block
        if count != len(self.objects):
            index = group_by(
                self.objects.values(), lambda item: item.instance.address.config_address
            )
            self._objects_by_block = (len(self.objects), index)
        return index

    def _update_hint_targets(self, vm_object: VmObject) -> None:
        """Compute the demand of an object with hints again.

        It takes the current locations of the VMs named by hints.
        """
        instance = vm_object.instance
        handlers = vm_object.instance.type.vms
        assert handlers is not None
        arguments = get_mapping(instance.config)
        # The pools lack a hint about a VM that had no location yet: the argument shows that
        # there is one.
        has_hints = any(pool.hints for pool in vm_object.pools) or "placement_hint" in arguments
        if has_hints:
            demand, _ = handlers.build_demand(
                arguments, self.context.current_context, instance.address
            )
            request = vm_object.request
            # None: invalid, reported before.
            if demand is not None:
                former = request.demand
                demand = replace(demand, provenance=former.provenance, unread=former.unread)
                vm_object.request = replace(request, demand=demand)

    def plan_waiting_block(
        self, block: ResourceBlock, evaluation: Evaluation
    ) -> Sequence[Instance]:
        """Plan the removals and re-creations of a block with arguments unknown in pass one.

        Return its instances.
        """
        expanded = self.blocks.expand(block, evaluation)
        assert expanded is not None
        self.blocks.diagnostics += expanded.diagnostics
        instances = expanded.instances
        for instance in instances:
            if instance.is_configured:
                self.diagnostics += self.blocks.evaluate_known(instance, evaluation)
            # With its prior VMs.
            self.objects.setdefault(instance.address, VmObject(instance)).instance = instance
        self.decide_actions(instances, evaluation)
        objects = self._list_vm_objects(instances)
        # Every release comes before the first placement, every restored location before a new one.
        for vm_object in objects:
            vm_placement_steps.release_vm_capacity(vm_object)
        for vm_object in objects:
            vm_placement_steps.restore_vm_locations(vm_object)
        for vm_object in objects:
            vm_placement_steps.place_recreated_vms(vm_object, self.context)
        return instances

    def run_second_pass(
        self,
        instances: Sequence[Instance],
        evaluation: Evaluation,
        *,
        needs_evaluation: bool = False,
    ) -> None:
        """Place the new VMs of a block and decide its final actions.

        With `needs_evaluation`, arguments still unknown are evaluated again, with known placements
        (none of these arguments determines a placement).
        """
        for vm_object in self._list_vm_objects(instances):
            instance = vm_object.instance
            if instance.is_configured:
                if needs_evaluation and has_unknown_part(instance.config):
                    self.blocks.evaluate(instance, evaluation)
                if not instance.is_invalid:
                    self._update_hint_targets(vm_object)
                    vm_object.awaited = self._find_awaited_stages(vm_object)
                    vm_placement_steps.place_new_vms(vm_object, self.context)
                    self.context.hints.add_objects([vm_object])
                    self._placed_count += len(vm_object.request.actions.additions)
                    self.blocks.request.progress(
                        PlanningStage.VMS, self._placed_count, self._new_count
                    )
                self._decide_final_action(vm_object, evaluation)
            self.blocks.add_instance(instance, evaluation)

    def run_second_pass_without_blocks(
        self, instances: Sequence[Instance], evaluation: Evaluation
    ) -> None:
        """Add the instances without a block, with the locations of their re-created VMs."""
        for vm_object in self._list_vm_objects(instances):
            instance = vm_object.instance
            if vm_object.request.actions.recreations:
                attributes = dict(get_mapping(instance.planned))
                handlers = instance.type.vms
                assert handlers is not None
                computed = handlers.build_computed_attributes(
                    attributes,
                    self.context.current_context,
                    vm_object.list_recorded_vms(),
                    vm_object.waiting_vms,
                )
                instance.decision = ActionDecision(Action.UPDATE, {**attributes, **computed})
            self.blocks.add_instance(instance, evaluation)

    def _decide_final_action(self, vm_object: VmObject, evaluation: Evaluation) -> None:
        """Decide the action of an instance after placement of its VMs."""
        instance = vm_object.instance
        computed = self._compute_attributes_with_placements(vm_object)
        # With missing VMs the computed attributes are incomplete: references to them are unknown.
        # A hypothetical plan has the VMs that fit.
        is_incomplete = vm_object.placements.failures and not self.blocks.request.allows_shortage
        unresolved = frozenset(computed) if is_incomplete else frozenset()
        self.blocks.decide_action(instance, computed, evaluation, unresolved)
        if instance.action is Action.NO_OP and vm_object.placements.new_handles:
            # Re-created at the same location: the values are unchanged, but a step is needed.
            instance.decision = replace(instance.decision, action=Action.UPDATE)
        if not vm_object.is_unchanged:
            placed_vms = vm_object.list_newly_placed()
            present = vm_object.list_names()
            note = record_vm_placements(
                instance.prior_note, placed_vms, present, self.blocks.request.state.serial + 1
            )
            placed_names = {name for name, _ in placed_vms}
            instance.private = record_previous_machines(
                note, vm_object.get_left_machines(), placed_names, present
            )

    def _compute_attributes_with_placements(self, vm_object: VmObject) -> dict[str, Any]:
        """Return the computed attributes with the placements.

        Return {} for unchanged (as in state) or invalid objects.
        """
        instance = vm_object.instance
        handlers = vm_object.instance.type.vms
        assert handlers is not None
        assert instance.config is not None
        if instance.is_invalid:
            # Nothing can be computed.
            return {}
        before = instance.before
        is_changed = before is None or _has_changed_argument(
            instance.type.schema, instance.config, before
        )
        # Declared SKUs may change.
        inventory = self.blocks.inventory
        has_own_skus = bool(inventory.skus or inventory.site_skus)
        if vm_object.is_unchanged and not is_changed and not has_own_skus:
            return {}
        # The values of attributes that cannot be configured stay, unless a new object replaces
        # the old one.
        kept_values = {} if instance.is_replaced else get_mapping(before)
        prior_computed = {
            name: kept_values[name]
            for name, attribute in instance.type.schema.attributes.items()
            if name in kept_values and not attribute.is_configurable
        }
        arguments = {**prior_computed, **instance.config}
        context = self.context.current_context
        placed_vms = vm_object.list_recorded_vms()
        return handlers.build_computed_attributes(
            arguments, context, placed_vms, vm_object.waiting_vms
        )


def _has_changed_argument(
    schema: BlockSchema, config: Mapping[str, Any], before: Mapping[str, Any]
) -> bool:
    """Return whether a configured argument differs from the prior object.

    An unset optional computed argument does not.
    """
    arguments = dict(config)
    for name, attribute in schema.attributes.items():
        # A provider sets it.
        if attribute.computed and arguments.get(name) is None:
            arguments.pop(name, None)
    return not has_equal_values(schema, arguments, before)


def plan_destroy(blocks: BlockPlanner) -> tuple[dict[Address, VmObject], ResourceTypeContext]:
    """Plan the removal of the selection and its dependents in `blocks`.

    Return objects with VMs, and prior context.
    """
    configured_blocks = {block.address: block for block in blocks.order.blocks}
    destroyed = _select_instances_to_destroy(blocks.selection, blocks.prior)
    for address in sorted(blocks.prior.instances, key=compute_address_order):
        # An unknown type.
        if address.type not in blocks.request.registries.resource_types:
            continue
        block = configured_blocks.get(address.config_address)
        if address in destroyed:
            blocks.instances[address] = blocks.build_removed_instance(
                address, reason="", block=block
            )
        else:
            blocks.instances[address] = blocks.build_unchanged(address, block)
    context = vm_context.build_destroy_context(blocks)
    # After the destroy.
    remaining_context = context
    # Objects outside the selection lose VMs on destroyed machines.
    if blocks.selection.is_partial:
        instances = blocks.instances.values()
        remaining = [
            (instance.address, instance.prior) for instance in instances if not instance.is_removed
        ]
        sites, _ = build_sites(
            build_object_inventory(remaining, blocks.request.registries.resource_types)
        )
        remaining_context = replace(context, sites=sites)
    objects: dict[Address, VmObject] = {}
    for address, instance in blocks.instances.items():
        # A type without VMs, or only deposed objects.
        if instance.type.vms is None or instance.prior is None:
            continue
        vm_object = objects[address] = vm_placement_steps.build_vm_object(instance, context)
        if instance.is_removed:
            vm_placement_steps.decide_actions(vm_object, NO_DEMAND, context)
        else:
            vm_object.keep_unselected_vms(
                vm_placement_steps.build_machine_trigger_finder(remaining_context, vm_object)
            )
    return objects, context.prior_context


def _select_instances_to_destroy(selection: Selection, prior: PriorState) -> AbstractSet[Address]:
    """Return the instances to destroy.

    These are the selected ones and their dependents, but no dependency of a kept one. With
    -target, these are the targets, and everything that depends on them directly or indirectly.
    Otherwise they are all instances, except the excluded ones and everything that those need. A
    recorded dependency names only a block: its instances in another instance of the same module
    call do not count.
    """
    if selection.targets:
        targets = [address for address in prior.instances if selection.is_direct_target(address)]
        dependents_by_block = index_owners(
            (address, prior.get_dependencies(address)) for address in prior.instances
        )
        return find_reachable(
            targets,
            lambda address: [
                dependent
                for dependent in dependents_by_block.get(str(address.config_address), ())
                if _may_depend_on_object(address, dependent)
            ],
        )
    excluded = [address for address in prior.instances if not selection.has(address)]
    addresses_by_block = {str(block): addresses for block, addresses in prior.by_block.items()}
    needed = find_reachable(
        excluded,
        lambda address: [
            dependency
            for block in prior.get_dependencies(address)
            for dependency in addresses_by_block.get(block, ())
            if _may_depend_on_object(address, dependency)
        ],
    )
    return prior.instances.keys() - needed


def _may_depend_on_object(address: Address, dependency: Address) -> bool:
    """Return whether one object may depend on the other.

    In two instances of one module call, they never do.
    """
    for step, other_step in zip(address.module, dependency.module, strict=False):
        # The steps are different module calls.
        if step.name != other_step.name:
            return True
        # In two instances of one call.
        if step.key != other_step.key:
            return False
    return True
