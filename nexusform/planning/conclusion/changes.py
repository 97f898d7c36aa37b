"""Changes built from instances: creation numbers, protections, duplicates, drift."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER, ResourceBlock
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.diagnostics.phrases import format_list
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import ConversionProblem, Path, get_text
from nexusform.language.syntax.syntax_nodes import Expression
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.placements.prediction_scores import NOT_VERIFIED_KEY, RECORD_KEY
from nexusform.planning.instances.block_planner import BlockPlanner
from nexusform.planning.instances.instance import Instance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.preparation.prior_state import (
    build_missing_configuration_error,
    build_unconfigured_object_error,
    iterate_import_blocks,
    iterate_requested_imports,
)
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.plans.plan import Action, Change, Drift, Mode
from nexusform.resources.address import Address, ConfigAddress, compute_address_order
from nexusform.resources.graph import find_cycles
from nexusform.schemas.block_schema import UNFINISHED_KEY
from nexusform.schemas.value_types import BOOL
from nexusform.state.objects import EMPTY_INSTANCE, ObjectState, State

_PRESERVED_KEYS = tuple(sorted((RECORD_KEY, NOT_VERIFIED_KEY, UNFINISHED_KEY)))
_DESTROY_ACTIONS = (Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_CHANGE_ACTIONS = (Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_CREATE_ACTIONS = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_NO_OBJECT = ObjectState(attributes={}, creation=0)


def build_changes(
    planner: BlockPlanner, evaluation: Evaluation, *, has_earlier_errors: bool
) -> tuple[list[Change], list[Diagnostic]]:
    """Return a change per instance, then one per deposed object, and the problems.

    Changes are in planning order.

    A new object gets the next creation number after the last one in state.
    """
    instances = planner.instances
    prior = planner.prior
    blocks = {block.address: block for block in planner.order.blocks}
    changes: list[Change] = []
    problems = _check_duplicate_ids(instances)
    last_number = prior.state.last_creation
    # Arguments in source order, once per block.
    configured_paths: dict[ConfigAddress, tuple[Path, ...]] = {}
    for instance in instances.values():
        # It is invalid, or has only deposed objects, which are added below.
        if instance.prior is None and instance.planned is None:
            continue
        is_created = instance.action in _CREATE_ACTIONS
        if is_created:
            last_number += 1
        block = instance.block or blocks.get(instance.address.config_address)
        problems += _check_prevent_destroy(instance, block, evaluation)
        problems += _check_kept_object(instance)
        change = _build_change_of_instance(instance, block, last_number if is_created else 0)
        if block is not None and change.action in _CHANGE_ACTIONS:
            if block.address not in configured_paths:
                configured_paths[block.address] = tuple(
                    dict.fromkeys(block.body.list_literal_paths())
                )
            change = replace(change, configured_paths=configured_paths[block.address])
        changes.append(change)
    for address in sorted(prior.instances, key=compute_address_order):
        current_instance = instances.get(address)
        # By -target or -exclude.
        if current_instance is not None and current_instance.is_unselected:
            # Its deposed objects stay.
            continue
        # Delete the objects left over from replacements.
        for key, deposed_object in sorted(prior.get_deposed(address).items()):
            changes.append(_build_change_of_deposed_object(address, key, deposed_object))
    problems += _check_imported_objects(planner, changes)
    problems += _check_exchanged_ids(instances, changes)
    # They may be the cause of an unknown `prevent_destroy`.
    if has_earlier_errors:
        problems = [problem for problem in problems if problem.id != "invalid-prevent-destroy"]
    return changes, problems


def _build_change_of_deposed_object(address: Address, key: str, deposed: ObjectState) -> Change:
    """Build the change to delete a deposed object; `key` is its deposed key."""
    return Change(
        address=address,
        action=Action.DELETE,
        before=deposed.attributes,
        after=None,
        provider=deposed.provider,
        creation=0,
        prior_creation=deposed.creation,
        sensitive_before=deposed.sensitive,
        deposed=key,
        dependencies=deposed.dependencies,
    )


def _build_change_of_instance(
    instance: Instance, block: ResourceBlock | None, creation: int
) -> Change:
    """Build the change of an instance.

    `creation` is the creation number of a new object, else 0. `block` is None for an object without
    a block in the configuration.
    """
    prior = instance.prior or _NO_OBJECT
    is_removed = instance.is_removed
    before = instance.before
    after: Mapping[str, Any] | None = instance.planned
    # Of a removed object: the one that created it.
    provider = prior.provider
    if block is not None and not is_removed:
        provider = block.provider or DEFAULT_PROVIDER
    if instance.action is Action.NO_OP and before == after:
        # Both sides share one object: it is written once, and compared fast.
        after = before
    change = Change(
        address=instance.address,
        action=instance.action,
        before=before,
        after=after,
        provider=provider,
        creation=0 if is_removed else creation or instance.prior_creation,
        prior_creation=instance.prior_creation,
        replace_paths=instance.decision.replace_paths,
        reason=instance.decision.reason if instance.loses_prior_object else "",
        previous_address=instance.previous_address,
        importing=instance.importing,
        sensitive_before=prior.sensitive,
        tainted_before=prior.tainted,
        dependencies=instance.dependencies,
        create_before_destroy=prior.create_before_destroy if is_removed else instance.create_first,
        skip_destroy=instance.lifecycle.keeps_object
        if instance.is_configured
        else prior.skip_destroy,
        private=_select_private_note_after_plan(instance),
        ignored_paths=block.lifecycle.ignore_changes
        if block is not None and instance.action in (Action.UPDATE, Action.DELETE)
        else (),
    )
    # The object exists after the plan.
    if not is_removed:
        change = replace(
            change, sensitive_after=instance.hidden_paths, refined_after=instance.arguments.refined
        )
    if block is not None:
        change = replace(change, source=block.span, block=block.header)
    return change


def _select_private_note_after_plan(instance: Instance) -> Mapping[str, Any] | None:
    """Return the note (private data in state) after the plan; None without any entry.

    Without a new note the prior one stays, but a replaced object loses it. A new note keeps the
    entries of the prior one that only providers and apply write, such as verified predictions.
    """
    prior_note = {} if instance.is_replaced else instance.prior_note
    if instance.private is None:
        return prior_note or None
    kept_entries = {key: prior_note[key] for key in _PRESERVED_KEYS if key in prior_note}
    return {**instance.private, **kept_entries} or None


def _check_prevent_destroy(
    instance: Instance, block: ResourceBlock | None, evaluation: Evaluation
) -> list[Diagnostic]:
    """Return the error for an object to destroy with prevent_destroy.

    If the value of this argument has problems, return those.
    """
    if block is None or instance.action not in _DESTROY_ACTIONS:
        return []
    problems: list[Diagnostic] = []
    condition = block.lifecycle.prevent_destroy_condition
    is_prevented = block.lifecycle.prevent_destroy
    if condition is not None:
        is_prevented, problems = _evaluate_prevent_destroy(condition, instance, block, evaluation)
    if not is_prevented:
        return problems
    return [
        build_error(
            "prevented-destroy",
            f"{instance.address} has lifecycle.prevent_destroy set, but the plan calls for this "
            "object to be destroyed. Remove prevent_destroy, or exclude the object with "
            f"-exclude={instance.address}.",
            block.header_span,
            address=str(instance.address),
            block=block.header,
        )
    ]


def _check_kept_object(instance: Instance) -> Iterator[Diagnostic]:
    """Yield a warning if the object is forgotten, or an error if a kept object is replaced.

    An object with `destroy = false` is kept.
    """
    address = instance.address
    # On a machine: it leaves no object behind.
    is_action = instance.type.kind is PlanningKind.MACHINE_ACTION
    if instance.action is Action.FORGET and not is_action:
        consequence = (
            "its objects on the site keep running, unmanaged. Plans reserve the capacity of its "
            "VMs until a provider or an inventory shows it free, or until `nexusform state rm "
            "'nexus_rack.NAME:VM'`."
        )
        summary = "removed from the state, not destroyed; it stays, unmanaged"
        if instance.type.kind is PlanningKind.MEMBER:
            consequence = (
                "it stays a member on the hub, and its workloads keep running. The plan treats it "
                "as removed: its bindings and pods are removed from the state."
            )
            summary = f"{address}: stays a member on the hub; its workloads keep running"
        text = f"{address} is removed from the state but not destroyed: {consequence}"
        yield build_warning("object-to-forget", text, address=str(address), brief=summary)
    if instance.block is not None and instance.is_replaced and instance.lifecycle.keeps_object:
        yield build_error(
            "kept-object-to-replace",
            f"{address} must be replaced, but lifecycle.destroy = false keeps the old object and "
            "its capacity. To destroy it, set destroy = true. To keep it, run `nexusform state rm "
            f"{address}`, and give the new object another name.",
            instance.block.header_span,
            address=str(address),
            block=instance.block.header,
        )


def _evaluate_prevent_destroy(
    condition: Expression, instance: Instance, block: ResourceBlock, evaluation: Evaluation
) -> tuple[bool, list[Diagnostic]]:
    """Return whether prevent_destroy is true for an object, and the problems of its expression.

    A value of null counts as false.
    """
    evaluation = evaluation.create_reporting_copy()
    modules = evaluation.list_module_instances(block.address.module)
    module = next((module for module in modules if module.path == instance.address.module), None)
    if module is None:
        # The module instance is removed with the object.
        module = evaluation.build_removed_module_instance(instance.address.module)
    value = None
    if module is not None:
        value = evaluation.evaluate_expression(condition, evaluation.build_scope(module))
    # An invalid expression.
    if value is None and evaluation.diagnostics:
        return False, evaluation.diagnostics
    reason = (
        "its value must be known in the plan. Undo the removal of the instance, destroy it with "
        f"`nexusform apply -destroy -target='{instance.address}'`, then remove it"
    )
    if value is not None and value.is_known:
        try:
            return convert_value(value, BOOL).raw is True, []
        except ConversionProblem as problem:
            reason = describe_problem(problem)
    detail = f"prevent_destroy of {instance.address}: {reason}."
    header = block.header
    address = str(instance.address)
    return False, [
        build_error(
            "invalid-prevent-destroy", detail, condition.span, address=address, block=header
        )
    ]


def _check_duplicate_ids(instances: Mapping[Address, Instance]) -> list[Diagnostic]:
    """Return errors for objects of one type with the same id: providers cannot distinguish them."""
    first_of_id: dict[tuple[str, str], Instance] = {}
    problems = []
    for instance in instances.values():
        object_id = get_text(instance.planned, "id")
        if not object_id or instance.is_invalid:
            continue
        first_instance = first_of_id.setdefault((instance.type.name, object_id), instance)
        # Duplicate inventory objects are reported by their own type.
        if first_instance is not instance and instance.type.add_to_inventory is None:
            noun = instance.type.noun
            problem = instance.build_error(
                "duplicate-object",
                (
                    f'{first_instance.address} already describes the {noun} "{object_id}". Rename '
                    "or remove one of them."
                ),
                ("name",) if "name" in instance.type.schema.attributes else (),
                f"Duplicate {noun}",
            )
            problems.append(problem)
    return problems


def _check_exchanged_ids(
    instances: Mapping[Address, Instance], changes: Sequence[Change]
) -> Iterator[Diagnostic]:
    """Yield an error for objects under create_before_destroy that exchange their ids.

    None can be created first: another one still has its id.
    """
    replaced = {
        change.address: change
        for change in changes
        if change.action is Action.REPLACE_CREATE_FIRST and not change.deposed
    }
    holders = {
        (address.type, change.provider, get_text(change.before or {}, "id")): address
        for address, change in replaced.items()
    }
    awaited: dict[Address, list[Address]] = {}
    for address, change in replaced.items():
        holder = holders.get((address.type, change.provider, get_text(change.after or {}, "id")))
        awaited[address] = [holder] if holder is not None and holder != address else []
    position = {address: index for index, address in enumerate(awaited)}
    for cycle in find_cycles(awaited, position):
        detail = (
            f"{format_list(map(str, sorted(cycle, key=compute_address_order)))} exchange "
            "their ids. With create_before_destroy none of them can be created first. Set "
            "create_before_destroy = false, or give one a new id and apply twice."
        )
        yield instances[cycle[0]].build_error("exchanged-ids", detail, (), "Exchanged ids")


def _check_imported_objects(
    planner: BlockPlanner, changes: Sequence[Change]
) -> Iterator[Diagnostic]:
    """Yield an error for each object to import that the plan destroys at another address."""
    imports = planner.prior.imports
    if not imports:
        return
    destroyed = {
        (change.address.type, change.provider, change.id): change.address
        for change in changes
        if change.action is Action.DELETE
    }
    for change in changes:
        imported = imports.get(change.address)
        owner = destroyed.get((change.address.type, change.provider, change.id))
        if imported is None or owner is None:
            continue
        yield build_error(
            "import-of-destroyed-object",
            f'The object with the id "{imported.id}" is that of {owner}, which this plan destroys. '
            f"To keep it as {change.address}, replace the import block by a moved block: from "
            f"{owner} to {change.address}.",
            imported.span,
            block="import",
        )


def collect_drifted_objects(
    state: State, refreshed: Mapping[Address, ObjectState | None]
) -> tuple[Drift, ...]:
    """Return the objects observed as missing, or with other attributes than in state."""
    drift = []
    for address in sorted(refreshed, key=compute_address_order):
        recorded = state.instances.get(address, EMPTY_INSTANCE).current
        observed = refreshed[address]
        # Only deposed objects.
        if recorded is None:
            continue
        attributes = observed.attributes if observed is not None else None
        if attributes != recorded.attributes:
            drift.append(Drift(address, recorded.attributes, attributes, recorded.sensitive))
    return tuple(drift)


def check_import_targets(blocks: BlockPlanner, evaluation: Evaluation) -> list[Diagnostic]:
    """Return errors for objects to import without an instance in the configuration.

    An object in state that an import block names is not destroyed: that is an error, too.
    """
    problems = []
    for address, imported in blocks.prior.imports.items():
        instance = blocks.instances.get(address)
        if instance is None or not instance.is_configured:
            problems.append(build_missing_configuration_error(address, imported.span))
    # Its errors are reported where the objects are read.
    silent_evaluation = evaluation.create_reporting_copy()
    imports = iterate_import_blocks(silent_evaluation)
    for module, block in imports if blocks.request.mode is Mode.NORMAL else ():
        for address, _ in iterate_requested_imports(block, module, silent_evaluation, []):
            instance = blocks.instances.get(address)
            if instance is None or instance.prior is None or instance.is_configured:
                continue
            object_id = instance.type.build_id(instance.prior.attributes)
            problems.append(
                build_unconfigured_object_error(
                    address, object_id, block.to.span, is_forgotten=instance.action is Action.FORGET
                )
            )
    return problems


def find_lost_forgotten_vms(
    blocks: BlockPlanner, sites: Mapping[str, SitePlan]
) -> tuple[Mapping[Address, list[tuple[str, str, str]]], Sequence[Diagnostic]]:
    """Return the unmanaged VMs that lose their machine, and their warnings.

    They still run, but were removed from the state. A VM is (site id, machine, name), by the
    address of the rack or machine with a record of it.
    """
    if not blocks.prior.instances:
        return {}, ()
    from nexusform.planning.verdicts import stranded_vms

    types = blocks.request.registries.resource_types
    instances = blocks.instances
    lost_vms = stranded_vms.find_lost_forgotten_vms(instances, types, sites)
    return lost_vms, tuple(stranded_vms.check_lost_forgotten_vms(instances, lost_vms))
