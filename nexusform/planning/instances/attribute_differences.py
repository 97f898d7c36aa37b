"""Differences between prior and planned attributes, and the action.

Start reading at `decide_action`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.json_data.plain_data import (
    Path,
    convert_to_plain,
    get_list,
    get_part,
    list_unknown_paths,
    replace_part_at_path,
)
from nexusform.language.syntax.syntax_nodes import (
    Expression,
    Index,
    RelativeTraversal,
    Step,
    Traversal,
    TraverseAttribute,
    TraverseIndex,
)
from nexusform.planning.instances.instance import ActionDecision, Instance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.plans.plan import Action
from nexusform.resources.address import Key, ModulePath
from nexusform.schemas.block_schema import (
    UNFINISHED_KEY,
    BlockSchema,
    NestedBlock,
    Nesting,
    OnChange,
    get_order_attribute,
)
from nexusform.schemas.value_types import ListType, MapType, PrimitiveType, SetType, Type
from nexusform.values.typed_value import UNKNOWN


def plan_attributes(
    schema: BlockSchema,
    config: Mapping[str, Any],
    prior: Mapping[str, Any] | None,
    computed: Mapping[str, Any],
) -> dict[str, Any]:
    """Return all planned attributes of the object.

    `prior` is None for a new or replaced object. `computed` are the values computed by this plan.
    Each attribute has the value of its first applicable source.

    1. The configuration. A null counts as unset: otherwise `x = var.maybe` could not mean "use the
       default". An unknown value stays unknown even if a prior value is known, because it may
       differ after apply.
    2. The values computed by this plan. They precede prior values, because the inputs of prior
       values may have changed.
    3. The prior value, for computed attributes. Attributes not computed by this plan were set by a
       provider or an earlier plan and are assumed unchanged. Without a prior object, they are
       unknown until apply.
    4. Null. A prior value of an optional argument is not kept: removing the argument from the
       configuration unsets it.

    Nested blocks come from the configuration alone; no prior values are merged into them. An absent
    block type reads as null, or as an empty list or map, never as unknown.
    """
    planned: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        value = config.get(name) if attribute.is_configurable else None
        if value is None and name in computed:
            value = computed[name]
        elif value is None and attribute.computed:
            value = prior.get(name) if prior is not None else UNKNOWN
        planned[name] = value
    for name, block in schema.blocks.items():
        planned[name] = config.get(name, _get_absent_value(block))
        if block.nesting is Nesting.MAP:
            planned[get_order_attribute(name)] = config.get(get_order_attribute(name), [])
    return planned


def _get_absent_value(block: NestedBlock) -> Any:
    """Return the value of a block type that is not configured."""
    return {Nesting.SINGLE: None, Nesting.LIST: [], Nesting.MAP: {}}[block.nesting]


def _iterate_replacing_paths(
    schema: BlockSchema, prior: Mapping[str, Any], config: Mapping[str, Any], prefix: Path
) -> Iterable[Path]:
    """Yield the paths of changed arguments that cannot be updated in place.

    A computed argument without a configured value is not changed. An unknown value differs from
    every prior one, because it may become another value. A missing block in state equals a missing
    block in the configuration.
    """
    for name, attribute in schema.attributes.items():
        if attribute.on_change is not OnChange.REPLACE:
            continue
        before = prior.get(name)
        after = config.get(name)
        # The provider decides it.
        if after is None and attribute.computed:
            continue
        if before != after:
            yield (*prefix, name)
    for name, block in schema.blocks.items():
        absent = _get_absent_value(block)
        before = prior.get(name) or absent
        after = config.get(name) or absent
        if before == after:
            continue
        if block.on_change is OnChange.REPLACE:
            yield (*prefix, name)
        elif (
            block.nesting is Nesting.SINGLE and isinstance(before, dict) and isinstance(after, dict)
        ):
            yield from _iterate_replacing_paths(block.schema, before, after, (*prefix, name))


def find_pool_replacing_paths(
    schema: BlockSchema, prior: Mapping[str, Any], config: Mapping[str, Any], prefix: Path = ()
) -> Iterator[Path]:
    """Yield the paths of changed arguments re-creating the VMs of their pool (REPLACE_POOL).

    New pools have none. A pool is a nested block with a label, compared with the prior block of the
    same label. Its argument has a path such as ("agent_pool", "np1", "vm_sku_name").
    """
    for name, attribute in schema.attributes.items():
        if attribute.on_change is OnChange.REPLACE_POOL and _has_difference(
            prior.get(name), config.get(name)
        ):
            yield (*prefix, name)
    for name, block in schema.blocks.items():
        before = prior.get(name)
        after = config.get(name)
        if block.on_change is OnChange.REPLACE_POOL and _has_difference(before, after):
            yield (*prefix, name)
        elif (
            block.nesting is Nesting.MAP
            and isinstance(before, Mapping)
            and isinstance(after, Mapping)
        ):  # both known
            for label in sorted(before.keys() & after.keys()):
                yield from find_pool_replacing_paths(
                    block.schema, before[label], after[label], (*prefix, name, label)
                )


def _has_difference(before: Any, after: Any) -> bool:
    """Return whether two values differ; an absent value equals an empty one."""
    return (before or None) != (after or None)


def find_unknown_placement_paths(
    schema: BlockSchema, config: Mapping[str, Any], prefix: Path = ()
) -> Iterable[Path]:
    """Yield the paths of unknown values in arguments that determine placements."""
    for name, attribute in schema.attributes.items():
        if attribute.decides_placement:
            yield from list_unknown_paths(config.get(name), (*prefix, name))
    for name, block in schema.blocks.items():
        value = config.get(name)
        # The number of blocks is unknown, too.
        if value is UNKNOWN and _has_placement_arguments(block.schema):
            yield (*prefix, name)
        for path, body in _list_nested_block_bodies(block, value):
            yield from find_unknown_placement_paths(block.schema, body, (*prefix, name, *path))


def find_null_elements(
    schema: BlockSchema, config: Mapping[str, Any], prefix: Path = ()
) -> Iterable[Path]:
    """Yield the paths of arguments with a null among their elements.

    The elements are those of a list, set or map of scalars.
    """
    for name, attribute in schema.attributes.items():
        if None in _list_scalar_elements(attribute.type, config.get(name)):
            yield (*prefix, name)
    for name, block in schema.blocks.items():
        for path, body in _list_nested_block_bodies(block, config.get(name)):
            yield from find_null_elements(block.schema, body, (*prefix, name, *path))


def _list_scalar_elements(kind: Type, value: Any) -> Collection[Any]:
    """Return the elements of a list, set or map of scalars.

    Other types and unknown values have none.
    """
    if not isinstance(kind, ListType | SetType | MapType):
        return ()
    if not isinstance(kind.element, PrimitiveType):
        return ()
    if isinstance(value, dict):  # a map
        return value.values()
    return value if isinstance(value, list) else ()


def _list_nested_block_bodies(
    block: NestedBlock, value: Any
) -> Iterable[tuple[Path, Mapping[str, Any]]]:
    """Return the bodies of the nested blocks of one name, each with its path below that name.

    The path is () for a single block, (label,) in a map and (index,) in a list. Null, unknown and
    sets have no bodies.
    """
    if isinstance(value, dict):
        if block.nesting is Nesting.SINGLE:
            return [((), value)]
        return [((label,), body) for label, body in value.items()]
    if isinstance(value, list) and block.nesting is not Nesting.SINGLE:
        return [((index,), body) for index, body in enumerate(value)]
    return []


def _has_placement_arguments(schema: BlockSchema) -> bool:
    """Return whether a block, or a nested one, has an argument that determines placements."""
    if any(attribute.decides_placement for attribute in schema.attributes.values()):
        return True
    return any(_has_placement_arguments(block.schema) for block in schema.blocks.values())


def apply_ignore_changes(
    config: Mapping[str, Any], prior: Mapping[str, Any], paths: Iterable[Path], *, everything: bool
) -> dict[str, Any]:
    """Return the configuration with prior values at the ignored paths.

    With `everything`, all arguments have their prior values.
    """
    if everything:
        return {name: prior.get(name, value) for name, value in config.items()}
    merged = dict(config)
    for path in paths:
        merged = _restore_prior_value(merged, prior, path)
    return merged


def _restore_prior_value(config: dict[str, Any], prior: Mapping[str, Any], path: Path) -> Any:
    """Return the arguments with the prior value at a path.

    Containers on the path are copied before they change. A name missing in the prior object is
    removed. Nothing changes if either side lacks the block, map or list around the last step. Nor
    does it for an index missing on either side: a list keeps its length.
    """
    container_path = path[:-1]
    step = path[-1]
    container = get_part(config, container_path)
    prior_container = get_part(prior, container_path)
    restored = container
    if isinstance(container, dict) and isinstance(prior_container, dict):
        restored = dict(container)
        if step in prior_container:
            restored[step] = prior_container[step]
        else:
            restored.pop(step, None)
    elif isinstance(step, int) and isinstance(container, list):
        prior_elements = get_list(prior_container)[: len(container)]
        if step < len(prior_elements):
            restored = [*container[:step], prior_elements[step], *container[step + 1 :]]
    return replace_part_at_path(config, container_path, restored)


def decide_action(
    instance: Instance, computed: Mapping[str, Any], *, is_requested: bool
) -> ActionDecision:
    """Return the action and planned attributes of an instance.

    `computed` are its computed attributes known so far. `is_requested` tells whether `-replace`
    requests a replacement.
    """
    assert instance.config is not None
    schema = instance.type.schema
    prior = instance.before
    planned = plan_attributes(schema, instance.config, prior, computed)
    if prior is None:
        return ActionDecision(Action.CREATE, planned)
    assert instance.prior is not None
    paths = tuple(_iterate_replacing_paths(schema, prior, instance.config, prefix=()))
    # To replace the object: OpenTofu's action_reason.
    reason = ""
    if instance.forced_reason:
        reason = instance.forced_reason
    elif instance.prior.tainted:
        reason = "replace_because_tainted"
    elif is_requested:
        reason = "replace_by_request"
    elif paths:
        reason = "replace_because_cannot_update"
    if reason:
        # An invalid instance has neither: it keeps the prior values for display.
        if computed or paths:
            planned = plan_attributes(schema, instance.config, prior=None, computed=computed)
        action = Action.REPLACE_CREATE_FIRST if instance.create_first else Action.REPLACE
        return ActionDecision(action, planned, reason, paths)
    # An earlier apply failed: update even without differences.
    is_unfinished = UNFINISHED_KEY in instance.prior_note
    is_unchanged = has_equal_values(schema, planned, prior) and not is_unfinished
    pool_paths = tuple(sorted(find_pool_replacing_paths(schema, prior, instance.config)))
    return ActionDecision(
        Action.NO_OP if is_unchanged else Action.UPDATE, planned, replace_paths=pool_paths
    )


def has_equal_values(
    schema: BlockSchema, planned: Mapping[str, Any], prior: Mapping[str, Any]
) -> bool:
    """Return whether no planned value differs.

    An argument missing in the prior object equals an unset one. Example: `{"name": "a", "zone":
    None}` equals `{"name": "a"}`, also as a nested block.
    """
    for name, value in planned.items():
        before = prior.get(name)
        if before != value and not _has_semantically_equal_blocks(
            schema.blocks.get(name), value, before
        ):
            return False
    return True


def _has_semantically_equal_blocks(block: NestedBlock | None, planned: Any, prior: Any) -> bool:
    """Return whether two values of a block type differ only by unset arguments.

    Without a `block` they differ.
    """
    if block is None:
        return False
    # A block type missing in an older state.
    if type(planned) is not type(prior):
        return prior is None and planned == _get_absent_value(block)
    bodies_after = dict(_list_nested_block_bodies(block, planned))
    bodies_before = dict(_list_nested_block_bodies(block, prior))
    # A block is added or removed.
    if bodies_after.keys() != bodies_before.keys():
        return False
    return all(
        has_equal_values(block.schema, body, bodies_before[path])
        for path, body in bodies_after.items()
    )


# Instances with a decided action, by module, type and name, then by key.
DecidedInstances = Mapping[tuple[ModulePath, str, str], Mapping[Key, Instance]]
# Creations and deletions alone trigger nothing, as in Terraform.
_CHANGE_ACTIONS = (Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


class TriggerReference(Struct, frozen=True):
    """Target of a reference of replace_triggered_by: a block, or its instance of `key`.

    It refers to the whole, or to a `path`.
    """

    type: str
    name: str
    key: Key = None
    path: Path = ()


def is_replacement_triggered(
    instance: Instance, planned: DecidedInstances, evaluation: Evaluation
) -> bool:
    """Return whether a reference of replace_triggered_by targets an object to update or replace."""
    if instance.prior is None:
        # Only existing objects are replaced.
        return False
    for expression in instance.lifecycle.replace_triggered_by:
        trigger = _parse_trigger(expression, partial(_read_key, instance, evaluation))
        if trigger is not None:
            for target in _iterate_targets(trigger, instance.address.module, planned):
                is_changed = target.action in _CHANGE_ACTIONS
                # The reference is to a part of it.
                if is_changed and trigger.path:
                    is_changed = get_part(target.before, trigger.path) != get_part(
                        target.planned, trigger.path
                    )
                if is_changed:
                    return True
    return False


def check_triggers(
    instance: Instance, planned: DecidedInstances, evaluation: Evaluation
) -> Iterator[Diagnostic]:
    """Yield an error for each reference of replace_triggered_by to a missing instance.

    Its key has no instance.
    """
    read_key = partial(_read_key, instance, evaluation)
    for expression in instance.lifecycle.replace_triggered_by:
        trigger = _parse_trigger(expression, read_key)
        # It names no single instance.
        if trigger is None or trigger.key is None:
            continue
        # The instance exists.
        if any(_iterate_targets(trigger, instance.address.module, planned)):
            continue
        detail = (
            f"{trigger.type}.{trigger.name} has no instance with the key "
            f"{json.encode(trigger.key).decode()}. Refer to an instance that exists, or to the "
            "whole resource."
        )
        yield build_error("invalid-trigger", detail, expression.span, block=instance.block_header)


def _read_key(instance: Instance, evaluation: Evaluation, expression: Expression) -> Key:
    """Evaluate an instance key in a reference, as in `nexus_rack.r[count.index]`.

    Return None if it is invalid.
    """
    assert instance.module is not None
    assert instance.repetition is not None
    value = evaluation.evaluate_expression(
        expression, evaluation.build_scope(instance.module, instance.repetition)
    )
    if value is None:
        return None
    plain: Any = convert_to_plain(value)[0]
    # A bool is no key.
    return plain if type(plain) in (str, int) else None


def _parse_trigger(
    expression: Expression, read_key: Callable[[Expression], Key]
) -> TriggerReference | None:
    """Return the target of a reference `T.N` or `T.N[key]`, with its further path if any.

    Return None for other references.
    """
    # With literal keys only.
    if isinstance(expression, Traversal):
        expression = expression.remove_resource_prefix()
        if not expression.steps or not isinstance(expression.steps[0], TraverseAttribute):
            return None
        name = expression.steps[0].name
        steps = expression.steps[1:]
        if steps and isinstance(steps[0], TraverseIndex):
            return TriggerReference(
                expression.root.name, name, _get_key(steps[0]), _convert_steps_to_path(steps[1:])
            )
        return TriggerReference(
            expression.root.name, name, key=None, path=_convert_steps_to_path(steps)
        )
    # Further steps follow a computed key.
    if isinstance(expression, RelativeTraversal):
        target = _parse_trigger(expression.source, read_key)
        if target is None:
            return None
        return replace(target, path=target.path + _convert_steps_to_path(expression.steps))
    # With a computed key.
    assert isinstance(expression, Index)
    collection = _parse_trigger(expression.collection, read_key)
    if collection is None:
        return None
    return TriggerReference(collection.type, collection.name, read_key(expression.key))


# `.a["b"][0]` becomes ("a", "b", 0).
def _convert_steps_to_path(steps: Iterable[Step]) -> Path:
    return tuple(
        step.name if isinstance(step, TraverseAttribute) else _get_key(step) for step in steps
    )


# A number may be 1.0.
def _get_key(step: TraverseIndex) -> str | int:
    return step.key if isinstance(step.key, str) else int(step.key)


def _iterate_targets(
    trigger: TriggerReference, module: ModulePath, planned: DecidedInstances
) -> Iterator[Instance]:
    """Yield the decided instances targeted by a reference in this module."""
    block = planned.get((module, trigger.type, trigger.name), {})
    if trigger.key is None:
        yield from block.values()
    elif trigger.key in block:
        yield block[trigger.key]
