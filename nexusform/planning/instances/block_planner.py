"""Planning of blocks: expansion, arguments, ordinary resources.

Instances without a block are planned here, too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import ResourceBlock
from nexusform.configuration.declarations.limits import build_limit_error
from nexusform.configuration.reference_checks import format_wrong_type
from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity, build_error
from nexusform.diagnostics.phrases import group_by
from nexusform.domain_table import explain_absent_domain
from nexusform.interfaces.plugins import PlanningKind, get_unfinished_message
from nexusform.json_data.plain_data import get_mapping, get_part
from nexusform.planning.instances import argument_evaluation
from nexusform.planning.instances.attribute_differences import (
    check_triggers,
    decide_action,
    is_replacement_triggered,
)
from nexusform.planning.instances.instance import (
    REPLACED_WITH_HOST,
    ActionDecision,
    EvaluatedArguments,
    Instance,
)
from nexusform.planning.name_resolution.evaluation_settings import PreparedBodyCache
from nexusform.planning.name_resolution.instance_scope import ModuleInstance
from nexusform.planning.name_resolution.name_evaluation import (
    Evaluation,
    ResourceKey,
    build_resource_key,
)
from nexusform.planning.name_resolution.repetition import (
    DISABLED,
    INVALID_EXPANSION,
    SINGLE,
    BlockExpansion,
    InstanceView,
    RepetitionData,
    ResourceView,
)
from nexusform.planning.plan_request import PlanningStage, PlanRequest
from nexusform.planning.preparation.planning_order import PlanningOrder
from nexusform.planning.preparation.prior_state import PriorState
from nexusform.planning.preparation.target_selection import Selection
from nexusform.plans.plan import Action, CheckResult
from nexusform.plans.site_capacity.occupancy import add_recorded_vms, add_unread_facts
from nexusform.resources.address import (
    Address,
    ConfigAddress,
    Key,
    ModulePath,
    compute_address_order,
    compute_key_sort_key,
    parse_address,
)
from nexusform.resources.graph import find_reachable
from nexusform.scheduling.racks.vms import Machine
from nexusform.scheduling.site_inventory import PlanInventory, add_observed_facts
from nexusform.schemas.block_schema import UNFINISHED_KEY
from nexusform.state.objects import ObjectState


class BlockInstances(Struct, frozen=True):
    """Instances of a block in planning order, including prior instances to delete."""

    instances: list[Instance]
    diagnostics: list[Diagnostic]


class BlockPlanner:
    """Planner of the blocks of one plan, in order.

    Collects `instances` in planning order, the `inventory` that they offer, `checks`,
    `diagnostics`, the instances with a decided action (`decided_instances`, for
    replace_triggered_by), the racks and machines outside the selection that would be new or
    different (`outside_targets`), all new objects outside the selection (`unselected_addresses`),
    and the blocks with unknown instances (`unexpanded_blocks`).
    """

    def __init__(
        self,
        request: PlanRequest,
        prior: PriorState,
        order: PlanningOrder,
        selection: Selection,
        bodies: PreparedBodyCache,
    ) -> None:
        """Create a planner without instances.

        `bodies` are the parsed arguments of the blocks.
        """
        self.request = request
        self.prior = prior
        self.order = order
        self.selection = selection
        self.bodies = bodies
        self.instances: dict[Address, Instance] = {}
        self.inventory = PlanInventory()
        # The number of instances, by block in its module instance.
        self._expanded: dict[ResourceKey, int] = {}
        # By the name of a limit.
        self._counts = {"instances": 0, "machines": 0}
        # Evaluations so far, for the progress display.
        self._evaluated = 0
        # Results of preconditions and postconditions.
        self.checks: list[CheckResult] = []
        self.diagnostics: list[Diagnostic] = []
        # By module, type and name, then by the key of count or for_each.
        self.decided_instances: dict[tuple[ModulePath, str, str], dict[Key, Instance]] = {}
        # Racks and machines left out by -target or -exclude, with changes.
        self.outside_targets: list[Instance] = []
        # New objects left out by -target or -exclude.
        self.unselected_addresses: list[Address] = []
        # Blocks with an invalid count, for_each or type.
        self.unexpanded_blocks: list[ConfigAddress] = []
        # Ids of sites, racks and machines.
        self._replaced_hosts: set[str] = set()
        # Blocks under create_before_destroy: explicit ones, and all they depend on.
        explicit_blocks = [
            block.address for block in order.blocks if block.lifecycle.create_before_destroy
        ]
        self._created_first = find_reachable(explicit_blocks, order.get_direct_dependencies)
        # Edits of a hypothetical plan.
        self._edits = group_by(request.adjustments, lambda adjustment: adjustment.address)

    def expand(
        self, block: ResourceBlock, evaluation: Evaluation, *, may_wait: bool = False
    ) -> BlockInstances | None:
        """Expand a block into its instances, in all instances of its module.

        Then add the prior instances to remove, with keys no longer configured. If count or for_each
        is invalid, prior instances stay unchanged. If it is unknown, return None with `may_wait`
        (the caller expands the block again later), else add an error.
        """
        prepared = self.bodies.get_body(block)
        diagnostics: list[Diagnostic] = []
        instances: list[Instance] = []
        modules = evaluation.list_module_instances(block.address.module)
        for module in modules:
            expansion, problems = evaluation.expand_block(block, evaluation.build_scope(module))
            diagnostics += problems
            if expansion.unknown:
                if may_wait:
                    return None
                diagnostics.append(
                    evaluation.build_unknown_repetition_error(expansion.unknown, block, module)
                )
                expansion = INVALID_EXPANSION
            expansion = self._remove_instances(block, module, expansion)
            key = build_resource_key(block.address, module.path)
            # Its count, for_each or type is invalid.
            if not expansion.shape or prepared is None:
                # References to it are unknown.
                evaluation.resources[key] = ResourceView("")
                self.unexpanded_blocks.append(block.address)
                addresses = self.prior.by_block.get(block.address, ())
                instances += [
                    self.build_unchanged(address)
                    for address in addresses
                    if address.module == module.path
                ]
            else:
                evaluation.resources[key] = ResourceView(expansion.shape)
                # A block may be expanded in both passes: it counts once.
                self._count_toward_limit(
                    "instances", len(expansion.repetitions) - self._expanded.get(key, 0)
                )
                self._expanded[key] = len(expansion.repetitions)
                instances += self._build_instances(block, module, expansion.repetitions, evaluation)
        present = {instance.address for instance in instances}
        instances += self._build_removed_instances(
            block, present, {module.path for module in modules}
        )
        return BlockInstances(instances, diagnostics)

    def _remove_instances(
        self, block: ResourceBlock, module: ModuleInstance, expansion: BlockExpansion
    ) -> BlockExpansion:
        """Return the expansion without the instances removed by a hypothetical plan."""
        removed_keys = {
            address.key
            for address in self.request.removed_addresses
            if address.config_address == block.address and address.module == module.path
        }
        if not removed_keys:
            return expansion
        repetitions = [item for item in expansion.repetitions if item.key not in removed_keys]
        shape = DISABLED if expansion.shape == SINGLE else expansion.shape
        return replace(expansion, shape=shape, repetitions=tuple(repetitions))

    def _build_instances(
        self,
        block: ResourceBlock,
        module: ModuleInstance,
        repetitions: Iterable[RepetitionData],
        evaluation: Evaluation,
    ) -> Iterator[Instance]:
        """Yield the configured instances selected by -target or -exclude.

        Record the others as not planned.
        """
        resource_type = self.request.registries.resource_types[block.type]
        dependencies = tuple(sorted(map(str, self.order.get_direct_dependencies(block.address))))
        for repetition in repetitions:
            address = Address(module.path, "managed", block.type, block.name, repetition.key)
            imported = self.prior.imports.get(address)
            instance = Instance(
                address=address,
                type=resource_type,
                prior=self.prior.get_object(address),
                block=block,
                module=module,
                repetition=repetition,
                prepared=self.bodies.get_body(block),
                dependencies=dependencies,
                create_first=block.address in self._created_first,
                is_invalid=block.address in self.bodies.invalid_blocks,
                importing=imported.id if imported is not None else "",
                deposed=self.prior.get_deposed(address),
                previous_address=self.prior.previous.get(address),
            )
            if self.selection.has(address):
                yield instance
            else:
                self._record_instance_outside_selection(instance, evaluation)

    def _record_instance_outside_selection(
        self, instance: Instance, evaluation: Evaluation
    ) -> None:
        """Record an instance that is configured, but not planned because of -target or -exclude.

        References to a new instance are unknown, not invalid. The capacity of a new or changed rack
        or machine is not used, so errors of missing capacity name it (`outside_targets`).
        """
        if instance.prior is None:
            resource_view = evaluation.get_resource_view(instance.address)
            resource_view.items[instance.address.key] = InstanceView(
                None, (), instance.type.schema
            )  # unknown
            self.unselected_addresses.append(instance.address)
        if (
            instance.type.kind in (PlanningKind.RACK, PlanningKind.MACHINE)
            and not instance.is_invalid
        ):
            argument_evaluation.evaluate_arguments(instance, evaluation.create_reporting_copy())
            before = instance.before
            configured = get_mapping(instance.config)
            # An unset argument changes nothing.
            set_values = {name: value for name, value in configured.items() if value}
            if before is None or any(
                before.get(name) != value for name, value in set_values.items()
            ):
                self.outside_targets.append(instance)

    def _build_removed_instances(
        self, block: ResourceBlock, present: Collection[Address], modules: Collection[ModulePath]
    ) -> Iterator[Instance]:
        """Yield the prior instances of a block not in `present`, to delete.

        Unselected ones are unchanged.
        """
        prior_addresses = self.prior.by_block.get(block.address, ())
        removed = [address for address in prior_addresses if address not in present]
        removed.sort(
            key=lambda address: (
                compute_address_order(address.resource),
                compute_key_sort_key(address.key),
            )
        )
        for address in removed:
            if not self.selection.has(address):
                yield self.build_unchanged(address)
                continue
            # A missing module is no reason for deposed objects: they are deleted anyway.
            is_without_module = (
                address.module not in modules and self.prior.get_object(address) is not None
            )
            reason = (
                "delete_because_no_module"
                if is_without_module
                else _find_deletion_reason(block, address.key)
            )
            yield self.build_removed_instance(address, reason, block)

    def build_unchanged(self, address: Address, block: ResourceBlock | None = None) -> Instance:
        """Build an instance that this plan does not change.

        `block` is its configuration, if it has one.
        """
        prior = self.prior.get_object(address)
        planned = dict(prior.attributes) if prior is not None else None
        # NO_OP by default.
        return self._build_prior_instance(address, block, ActionDecision(planned=planned))

    def build_kept_instance(self, address: Address) -> Instance:
        """Build an instance without a block that stays, with the edits of a hypothetical plan."""
        instance = self.build_unchanged(address)
        edits = self._edits.get(address)
        if edits and instance.planned is not None:
            planned = argument_evaluation.edit_arguments(instance.planned, edits)
            instance.decision = ActionDecision(Action.UPDATE, planned)
        return instance

    def build_deleted_instance(self, address: Address, reason: str) -> Instance:
        """Build an instance to delete.

        With deposed objects only, it is a no-op. A machine action only leaves the state, because it
        is no object on the site.
        """
        prior = self.prior.get_object(address)
        is_action = (
            self.request.registries.resource_types[address.type].kind is PlanningKind.MACHINE_ACTION
        )
        action = Action.FORGET if is_action else Action.DELETE
        decision = ActionDecision(Action.NO_OP if prior is None else action, reason=reason)
        # None: no block.
        return self._build_prior_instance(address, None, decision, self.prior.get_deposed(address))

    def build_removed_instance(
        self, address: Address, reason: str, block: ResourceBlock | None
    ) -> Instance:
        """Build an instance without a configuration.

        It is deleted, or with `destroy = false` in its `block` or in the state only forgotten: its
        object keeps running.
        """
        prior = self.prior.get_object(address)
        # It has deposed objects only.
        if prior is None:
            return self.build_deleted_instance(address, reason)
        keeps_object = prior.skip_destroy
        forget_reason = "forgot_because_lifecycle_destroy_in_state"
        if block is not None:
            keeps_object = block.lifecycle.keeps_object
            forget_reason = "forgot_because_lifecycle_destroy_in_config"
        if keeps_object:
            return self.build_forgotten_instance(address, forget_reason)
        return self.build_deleted_instance(address, reason)

    def build_forgotten_instance(self, address: Address, reason: str) -> Instance:
        """Build an instance that leaves the state while its object keeps running."""
        decision = ActionDecision(Action.FORGET, reason=reason)
        # None: no block.
        return self._build_prior_instance(address, None, decision, self.prior.get_deposed(address))

    def _build_prior_instance(
        self,
        address: Address,
        block: ResourceBlock | None,
        decision: ActionDecision,
        deposed: Mapping[str, ObjectState] = MappingProxyType({}),
    ) -> Instance:
        """Build an instance with this decision from its prior object alone.

        Arguments are not evaluated.
        """
        prior = self.prior.get_object(address)
        return Instance(
            address=address,
            type=self.request.registries.resource_types[address.type],
            prior=prior,
            block=block,
            dependencies=self.prior.get_dependencies(address),
            deposed=deposed,
            previous_address=self.prior.previous.get(address),
            arguments=EvaluatedArguments(sensitive=prior.sensitive if prior is not None else ()),
            decision=decision,
        )

    def evaluate(self, instance: Instance, evaluation: Evaluation) -> list[Diagnostic]:
        """Evaluate an instance's arguments, with those changed by an edit.

        As in Terraform, a failed precondition hides the problems of the arguments. References to
        the instance are then unknown.
        """
        edits = self._edits.get(instance.address, ())
        problems = argument_evaluation.evaluate_arguments(instance, evaluation, edits)
        assert instance.module is not None
        assert instance.repetition is not None
        scope = evaluation.build_scope(instance.module, instance.repetition)
        if not evaluation.is_every_condition_met(instance.lifecycle.preconditions, scope):
            instance.is_invalid = instance.is_rejected = True
            problems = []
        wrong_sites = list(self._check_site_type(instance))
        problems += wrong_sites
        instance.is_invalid |= bool(wrong_sites)
        self._evaluated += 1
        expected = self._estimate_total_object_count()
        # Some are evaluated again after placement.
        self.request.progress(PlanningStage.ARGUMENTS, min(self._evaluated, expected), expected)
        return problems

    def evaluate_known(self, instance: Instance, evaluation: Evaluation) -> list[Diagnostic]:
        """Evaluate an instance's arguments.

        Unknown arguments for placement are errors, and make it invalid.
        """
        problems = self.evaluate(instance, evaluation)
        unknown = argument_evaluation.find_unknown_placement_arguments(instance)
        problems += [
            argument_evaluation.build_unknown_placement_error(instance, path) for path in unknown
        ]
        instance.is_invalid |= bool(unknown)
        return problems

    def _check_site_type(self, instance: Instance) -> Iterator[Diagnostic]:
        """Yield an error for each argument with the id of a site of a wrong type.

        Racks and clusters of Nexus are on no OpenStack: its scheduler knows only its hosts.
        """
        if instance.is_invalid:
            return
        for name, attribute in instance.type.schema.attributes.items():
            reference = attribute.refers_to
            site_id = get_mapping(instance.config).get(name) if reference is not None else None
            if reference is None or not isinstance(site_id, str):
                continue
            site_address = self.inventory.addresses_by_name.get(("site", "", site_id))
            site_type = parse_address(site_address).type if site_address is not None else ""
            accepts_sites = any(name.endswith("_site") for name in reference.types)
            if accepts_sites and site_type and site_type not in reference.types:
                detail = format_wrong_type(name, site_type, reference.types)
                yield instance.build_diagnostic(Problem((name,), "wrong-reference", detail))

    def plan_block(self, block: ResourceBlock, evaluation: Evaluation) -> None:
        """Evaluate, decide and add the instances of a block of a type without VMs.

        Its keys must be known at once.
        """
        expanded = self.expand(block, evaluation)
        assert expanded is not None, "only a waiting block has no instances"
        self.diagnostics += expanded.diagnostics
        for instance in expanded.instances:
            if instance.is_configured:
                self.diagnostics += self.evaluate_known(instance, evaluation)
                self.decide_action(instance, computed={}, evaluation=evaluation)
            self.add_instance(instance, evaluation)

    def set_predicted_action(self, instance: Instance, evaluation: Evaluation) -> None:
        """Decide replace, update or no-op before placement.

        `decide_action` decides again, with all computed values.
        """
        self._apply_replacement_triggers(instance, evaluation)
        assert instance.config is not None
        identity = {"id": instance.type.build_id(instance.config)}
        is_requested = self.selection.is_replacement_requested(instance.address)
        instance.decision = decide_action(instance, identity, is_requested=is_requested)

    def decide_action(
        self,
        instance: Instance,
        computed: Mapping[str, object],
        evaluation: Evaluation,
        unresolved: frozenset[str] = frozenset(),
    ) -> None:
        """Decide the action, and check conditions.

        `computed` are computed attributes. Expressions read `unresolved` ones as unknown, because a
        VM without capacity is missing in them.
        """
        self._apply_replacement_triggers(instance, evaluation)
        assert instance.config is not None
        derived_values: dict[str, object] = {}
        if not instance.is_invalid:
            derived_values["id"] = instance.type.build_id(instance.config)
            derived_values |= instance.type.derive(instance.config)
        # Overrides of a test replace them.
        computed = {**computed, **self._find_value_overrides(instance)}
        is_requested = self.selection.is_replacement_requested(instance.address)
        decision = decide_action(
            instance, {**derived_values, **computed}, is_requested=is_requested
        )
        instance.decision = replace(decision, unresolved=unresolved) if unresolved else decision
        self.diagnostics += check_unfinished_change(instance)
        # Unselected instances are missing in `decided_instances`.
        if not self.selection.is_partial:
            self.diagnostics += check_triggers(instance, self.decided_instances, evaluation)
        lifecycle = instance.lifecycle
        # With `is_rejected`, a failed precondition makes it invalid.
        can_check = instance.is_rejected or not instance.is_invalid
        if can_check and (lifecycle.preconditions or lifecycle.postconditions):
            from nexusform.planning.instances.condition_checks import check_conditions

            problems, checks = check_conditions(instance, evaluation)
            self.diagnostics += problems
            self.checks += checks

    def _find_value_overrides(self, instance: Instance) -> dict[str, object]:
        """Return the values set by the first matching override of a test.

        Predicted attributes (placements) are excepted.
        """
        overrides = self.request.object_overrides
        values = next(
            (override.values for override in overrides if override.is_for(instance.address)), {}
        )
        attributes = instance.type.schema.attributes
        return {
            name: value
            for name, value in values.items()
            if name in attributes and not attributes[name].predicted
        }

    def _apply_replacement_triggers(self, instance: Instance, evaluation: Evaluation) -> None:
        """Force the replacements of replace_triggered_by, and of parts of replaced objects.

        These are racks and machines in a replaced site or rack.
        """
        # The reason is that of an earlier pass.
        if instance.forced_reason:
            return
        if is_replacement_triggered(instance, self.decided_instances, evaluation):
            instance.forced_reason = "replace_by_triggers"
        elif self._is_in_replaced_site_or_rack(instance):
            instance.forced_reason = REPLACED_WITH_HOST

    def _is_in_replaced_site_or_rack(self, instance: Instance) -> bool:
        """Return whether an existing rack or machine refers to a replaced site or rack."""
        if instance.prior is None or instance.type.kind not in (
            PlanningKind.RACK,
            PlanningKind.MACHINE,
        ):
            return False
        config = get_mapping(instance.config)
        # Ids of the site or rack.
        hosts = []
        for name, attribute in instance.type.schema.attributes.items():
            if attribute.refers_to is not None:
                hosts.append(config.get(name))
        return not self._replaced_hosts.isdisjoint(hosts)

    def record_decision(self, instance: Instance) -> None:
        """Record a decided instance for replace_triggered_by."""
        address = instance.address
        self.decided_instances.setdefault((address.module, address.type, address.name), {})[
            address.key
        ] = instance

    def _estimate_total_object_count(self) -> int:
        """Estimate the number of objects.

        It is the number of instances of expanded blocks, plus one for each other block.
        """
        return self._counts["instances"] + max(len(self.order.blocks) - len(self._expanded), 0)

    def add_instance(self, instance: Instance, evaluation: Evaluation) -> None:
        """Add an instance to the plan.

        An instance that is not removed is visible to expressions. A valid one is added
        to the inventory.
        """
        self.instances[instance.address] = instance
        self.record_decision(instance)
        done = len(self.instances)
        self.request.progress(
            PlanningStage.OBJECTS, done, max(done, self._estimate_total_object_count())
        )
        if instance.is_replaced and instance.type.add_to_inventory is not None:
            # A site, rack or machine.
            self._replaced_hosts.add(str(get_part(instance.before, ("id",))))
        if instance.is_removed or (instance.planned is None and not instance.is_invalid):
            # Nothing exists after the plan.
            return
        # References to an invalid one are unknown.
        expose_instance(instance, evaluation)
        if not instance.is_invalid:
            self._add_to_inventory(instance)

    def _get_observed_note(self, instance: Instance) -> Mapping[str, Any]:
        """Return the private note of the prior object, or the observed facts of a new site."""
        if instance.prior is not None or instance.planned is None or instance.block is None:
            return instance.prior_note
        key = (instance.block.provider or "", str(instance.planned.get("id")))
        return self.request.site_notes.get(key, {})

    def _add_to_inventory(self, instance: Instance) -> None:
        """Add the machines of a rack or machine, and its recorded VMs, to the inventory.

        Check the limits of the configuration for them: the number of all machines, and the size of
        a NUMA cell.
        """
        if instance.type.add_to_inventory is None or instance.planned is None:
            return
        note = self._get_observed_note(instance)
        observed = add_observed_facts(instance.planned, note)
        problems = instance.type.add_to_inventory(observed, str(instance.address), self.inventory)
        add_recorded_vms(self.inventory, instance.type, instance.planned, instance.prior_note)
        add_unread_facts(self.inventory, instance.planned, note)
        self.diagnostics += instance.build_diagnostics(problems)
        address = str(instance.address)
        machines: Sequence[Machine] = ()
        if address in self.inventory.racks:
            machines = self.inventory.racks[address].machines
        elif address in self.inventory.machines:
            machines = [self.inventory.machines[address].machine]
        self._count_toward_limit("machines", len(machines))
        limits = self.request.limits
        # Those of a rack are alike: checking the first one is enough.
        if machines:
            cpus = machines[0].cpus_per_cell
            memory_gib = machines[0].memory_gib_per_cell
            self._check_cell_limit(instance, "cpus_per_cell", cpus, limits.cpus_per_cell)
            self._check_cell_limit(
                instance, "memory_gib_per_cell", memory_gib, limits.memory_gib_per_cell
            )

    def _check_cell_limit(self, instance: Instance, name: str, figure: float, maximum: int) -> None:
        """Report a figure in the `machine` block above its limit (-limit).

        `name` is the argument.
        """
        if figure > maximum:
            detail = (
                f'"{name}" must be between 1 and {maximum}, not {figure} (-limit={name}=N raises '
                "it)."
            )
            problem = Problem(("machine", name), "invalid-value-for-argument", detail)
            self.diagnostics.append(instance.build_diagnostic(problem))

    def _count_toward_limit(self, limit_name: str, count: int) -> None:
        """Count objects toward a limit.

        Raises DiagnosticsError if it is exceeded.
        """
        self._counts[limit_name] += count
        maximum = getattr(self.request.limits, limit_name)
        if self._counts[limit_name] > maximum:
            # Arguments: the noun of the message, and the limit.
            raise build_limit_error(limit_name, limit_name, maximum)


def check_unfinished_change(instance: Instance) -> Iterator[Diagnostic]:
    """Yield a warning for a change that failed and is retried, or is in progress."""
    unfinished = instance.prior_note.get(UNFINISHED_KEY)
    # Other actions do not continue the change.
    if not unfinished or instance.action is not Action.UPDATE:
        return
    if unfinished.get("in_progress"):
        detail = f"{get_unfinished_message(unfinished)} It is pending: apply continues it."
        summary = str(unfinished.get("brief", ""))
        yield instance.build_diagnostic(
            Problem((), "change-in-progress", detail, Severity.WARNING, brief=summary)
        )
    else:
        detail = f"{get_unfinished_message(unfinished)} It is pending: apply sends it again."
        yield instance.build_diagnostic(
            Problem((), "change-failed-before", detail, Severity.WARNING)
        )


def expose_instance(instance: Instance, evaluation: Evaluation) -> None:
    """Let expressions refer to an instance as planned so far."""
    view = evaluation.get_resource_view(instance.address)
    view.items[instance.address.key] = instance.view


def _find_deletion_reason(block: ResourceBlock, key: Key) -> str:
    """Return the reason (OpenTofu's action_reason) to delete an instance of an existing block.

    Its key is missing.
    """
    if block.count is not None and isinstance(key, int):
        return "delete_because_count_index"
    if block.for_each is not None and isinstance(key, str):
        return "delete_because_each_key"
    if block.enabled is not None and key is None:
        return "delete_because_enabled_false"
    # The block gained, lost or changed its count or for_each.
    return "delete_because_wrong_repetition"


class InstancesWithoutBlock(Struct, frozen=True):
    """Instances without a block in order of creation: those with VMs, and all others."""

    with_vms: list[Instance]
    without_vms: list[Instance]
    diagnostics: list[Diagnostic]


def find_instances_without_block(blocks: BlockPlanner) -> InstancesWithoutBlock:
    """Return the prior instances without a block, and errors for unknown types.

    Instances are in order of creation.

    They are removed, or stay unchanged outside of -target or -exclude.
    """
    configured = {block.address for block in blocks.order.blocks}
    types = blocks.request.registries.resource_types
    instances: list[Instance] = []
    diagnostics: list[Diagnostic] = []
    # The address of a block has no keys.
    for block, addresses in blocks.prior.by_block.items():
        if block in configured or block.mode == "data":
            continue
        if block.type not in types:
            absent_hint = explain_absent_domain(block.type, "resource_types")
            hint = absent_hint or " Use the version that created it."
            diagnostics.append(
                build_error(
                    "unknown-resource-type-in-state",
                    f"The state contains {block}, but this version of nexusform does not know the "
                    f'type "{block.type}".{hint} To forget the object: `nexusform state rm '
                    f"{block}`.",
                )
            )
            continue
        instances += [_build_instance_without_block(blocks, address) for address in addresses]
    instances.sort(
        key=lambda instance: (instance.prior_creation, compute_address_order(instance.address))
    )
    with_vms = [instance for instance in instances if instance.type.vms is not None]
    without_vms = [instance for instance in instances if instance.type.vms is None]
    return InstancesWithoutBlock(with_vms, without_vms, diagnostics)


def _build_instance_without_block(blocks: BlockPlanner, address: Address) -> Instance:
    """Build a prior instance without a block.

    It is unchanged if it is not selected, or if the request keeps all objects. Else it is deleted,
    or forgotten: its object keeps running.
    """
    from nexusform.planning.preparation.moves import is_object_kept

    if blocks.request.keeps_objects:
        return blocks.build_kept_instance(address)
    if not blocks.selection.has(address):
        return blocks.build_unchanged(address)
    is_moved = address in blocks.prior.previous
    reason = "delete_because_no_move_target" if is_moved else "delete_because_no_resource_config"
    # None without a `removed` block.
    keeps_object = is_object_kept(blocks.request.configuration, address)
    # False: only deposed ones.
    has_current_object = blocks.prior.get_object(address) is not None
    if keeps_object is None or not has_current_object:
        return blocks.build_removed_instance(address, reason, block=None)
    return (blocks.build_forgotten_instance if keeps_object else blocks.build_deleted_instance)(
        address, reason
    )
