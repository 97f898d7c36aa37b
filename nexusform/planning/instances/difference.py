"""Prior against planned: what changes, what a change means for the object, and the action that follows;
what follows for an instance that watches others (`replace_triggered_by`). Start reading at `decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Key, ModulePath
from nexusform.language.syntax.nodes import (
    Expression,
    Index,
    RelativeTraversal,
    Step,
    Traversal,
    TraverseAttribute,
    TraverseIndex,
)
from nexusform.plain_data import Path, part_at, to_plain, unknown_paths
from nexusform.planning.instances.instance import Decision, Instance
from nexusform.planning.names.evaluation import Evaluation
from nexusform.plans.plan import Action
from nexusform.ports import UNFINISHED
from nexusform.schema import BlockSchema, NestedBlock, Nesting, OnChange, order_attribute
from nexusform.value_types import ListType, MapType, PrimitiveType, SetType, Type
from nexusform.values import UNKNOWN

# --- what is planned ---------------------------------------------------------------------------


def planned_attributes(
    schema: BlockSchema,
    config: Mapping[str, Any],
    prior: Mapping[str, Any] | None,
    computed: Mapping[str, Any],
) -> dict[str, Any]:
    """All attributes of the object as planned. `prior` is None when there is no object to go on from: it is
    new, or replaced; `computed` is what is worked out in this plan.

    For each attribute, the first of these that has something to say:

    1. What the user wrote. A null that is written says nothing, as if the argument were left out: otherwise
       `x = var.maybe` could not mean "as by default". An unknown that is written stays unknown even where
       a prior value is known: after apply it may be another one.
    2. What this plan computes. It goes before what stands, since what it follows from may have changed.
    3. What stands, for attributes that are computed at all. Those that nobody computes in this plan were
       filled in by a provider or an earlier plan, and nothing says that they change. Without an object that
       stands, they are unknown until apply.
    4. Null. An argument that is only optional is not kept from what stands: taking it out of the
       configuration is how a user gives it up.

    Nested blocks are the user's alone: what is written is planned, nothing is merged into it from what
    stands. A block type that is absent reads as null, or as an empty list or map, never as unknown.
    """
    planned: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        value = config.get(name) if attribute.configurable else None
        if value is None and name in computed:
            value = computed[name]
        elif value is None and attribute.computed:
            value = prior.get(name) if prior is not None else UNKNOWN
        planned[name] = value
    for name, block in schema.blocks.items():
        planned[name] = config.get(name, _absent(block))
        if block.nesting is Nesting.MAP:
            planned[order_attribute(name)] = config.get(order_attribute(name), [])
    return planned


def _absent(block: NestedBlock) -> Any:
    """What a block type reads as that is not written."""
    return {Nesting.SINGLE: None, Nesting.LIST: [], Nesting.MAP: {}}[block.nesting]


# --- what a change means ------------------------------------------------------------------------


def replacing_paths(
    schema: BlockSchema, prior: Mapping[str, Any], config: Mapping[str, Any]
) -> tuple[Path, ...]:
    """The arguments whose change replaces the object. An argument that the user leaves out and
    nexusform fills in does not count.
    """
    return tuple(_replacing(schema, prior, config, ()))


def _replacing(
    schema: BlockSchema, prior: Mapping[str, Any], config: Mapping[str, Any], at: Path
) -> Iterable[Path]:
    """Paths of what is written otherwise than it stands and cannot be changed in place."""
    for name, attribute in schema.attributes.items():
        if attribute.on_change is not OnChange.REPLACE or not attribute.configurable:
            continue
        before, after = prior.get(name), config.get(name)
        if after is None and attribute.computed:
            continue  # nobody asks for another value than the one that stands
        if before != after:  # an unknown differs from everything: it may come out as another value
            yield (*at, name)
    for name, block in schema.blocks.items():
        # A state that knows no such block yet and a configuration that has none agree.
        before, after = prior.get(name) or _absent(block), config.get(name) or _absent(block)
        if before == after:
            continue
        if block.on_change is OnChange.REPLACE:
            yield (*at, name)
        elif block.nesting is Nesting.SINGLE and isinstance(before, dict) and isinstance(after, dict):
            yield from _replacing(block.schema, before, after, (*at, name))


def pool_replacing_paths(
    schema: BlockSchema, prior: Mapping[str, Any], config: Mapping[str, Any], at: Path = ()
) -> Iterator[Path]:
    """The changed arguments that re-place the VMs of the pool they stand in; a pool that comes or
    goes has none.
    """
    for name, attribute in schema.attributes.items():
        replaces = attribute.on_change is OnChange.REPLACE_POOL and attribute.configurable
        if replaces and _differ(prior.get(name), config.get(name)):
            yield (*at, name)
    for name, block in schema.blocks.items():
        before, after = prior.get(name), config.get(name)
        if block.on_change is OnChange.REPLACE_POOL and _differ(before, after):
            yield (*at, name)
        elif block.nesting is Nesting.MAP and isinstance(before, Mapping) and isinstance(after, Mapping):
            for label in sorted(before.keys() & after.keys()):
                yield from pool_replacing_paths(block.schema, before[label], after[label], (*at, name, label))


def _differ(before: Any, after: Any) -> bool:
    """An absent value is the same as an empty one: no labels are no labels."""
    return (before or None) != (after or None)


# --- what arguments must not be ----------------------------------------------------------------


def undecided_paths(schema: BlockSchema, config: Mapping[str, Any], at: Path = ()) -> Iterable[Path]:
    """Unknown values at arguments that decide placements."""
    for name, attribute in schema.attributes.items():
        if attribute.decides_placement and attribute.configurable:
            yield from unknown_paths(config.get(name), (*at, name))
    for name, block in schema.blocks.items():
        value = config.get(name)
        if value is UNKNOWN and _decides(block.schema):
            yield (*at, name)
        for path, body in _bodies(block, value):
            yield from undecided_paths(block.schema, body, (*at, name, *path))


def null_elements(schema: BlockSchema, config: Mapping[str, Any], at: Path = ()) -> Iterable[Path]:
    """Arguments that are lists, sets or maps of plain values with a null among them."""
    for name, attribute in schema.attributes.items():
        if None in _plain_elements(attribute.type, config.get(name)):
            yield (*at, name)
    for name, block in schema.blocks.items():
        for path, body in _bodies(block, config.get(name)):
            yield from null_elements(block.schema, body, (*at, name, *path))


def _plain_elements(kind: Type, value: Any) -> Collection[Any]:
    """The elements of a list, set or map of plain values; none of anything else, or where it is not known."""
    if not isinstance(kind, ListType | SetType | MapType) or not isinstance(kind.element, PrimitiveType):
        return ()
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _bodies(block: NestedBlock, value: Any) -> Iterable[tuple[Path, Mapping[str, Any]]]:
    """The bodies of a nested block by their path below its name."""
    if isinstance(value, dict):
        if block.nesting is Nesting.SINGLE:
            return [((), value)]
        return [((label,), body) for label, body in value.items()]
    if isinstance(value, list) and block.nesting is not Nesting.SINGLE:
        return [((index,), body) for index, body in enumerate(value)]
    return []


def _decides(schema: BlockSchema) -> bool:
    """Whether an argument of a block, or of one inside of it, decides placements."""
    if any(attribute.decides_placement for attribute in schema.attributes.values()):
        return True
    return any(_decides(block.schema) for block in schema.blocks.values())


# --- ignore_changes ----------------------------------------------------------------------------


def ignoring(
    config: Mapping[str, Any], prior: Mapping[str, Any], paths: Iterable[Path], *, everything: bool
) -> dict[str, Any]:
    """The configuration with the values at ignored paths (all of them with `everything`) taken from what
    stands.
    """
    if everything:
        return {name: prior.get(name, value) for name, value in config.items()}
    merged = dict(config)
    for path in paths:
        _take_over(merged, prior, path)
    return merged


def _take_over(target: dict[Any, Any], prior: Any, path: Path) -> None:
    """Put what stands at a path into `target`, copying what lies on the way. Where nothing stands at the
    path, nothing is planned there either; what is not there on both sides is let be.
    """
    step, deeper_path = path[0], path[1:]
    if not isinstance(prior, dict) or (step not in prior and step not in target):
        return
    inner, standing = target.get(step), prior.get(step)
    if not deeper_path:
        if step in prior:
            target[step] = standing
        else:
            target.pop(step, None)
    elif isinstance(inner, dict):
        copy = dict(inner)
        _take_over(copy, standing, deeper_path)
        target[step] = copy
    elif isinstance(inner, list) and isinstance(standing, list):
        target[step] = _with_element_taken_over(inner, standing, deeper_path)


def _with_element_taken_over(planned: list[Any], standing: list[Any], path: Path) -> list[Any]:
    """The planned list with what stands at one path in it, in place of what is planned there."""
    index, deeper_path = path[0], path[1:]
    if not isinstance(index, int) or index >= len(planned) or index >= len(standing):
        return planned
    copy = list(planned)
    if not deeper_path:
        copy[index] = standing[index]
    elif isinstance(copy[index], dict):
        copy[index] = dict(copy[index])
        _take_over(copy[index], standing[index], deeper_path)
    return copy


# --- the action ----------------------------------------------------------------------------------


def decide(instance: Instance, computed: Mapping[str, Any], *, requested: bool) -> Decision:
    """The planned attributes and the action. `computed` is what this plan works out; `requested`: the user
    asks to replace it (-replace).
    """
    assert instance.config is not None
    schema = instance.type.schema
    prior = instance.before
    planned = planned_attributes(schema, instance.config, prior, computed)
    if prior is None:
        return Decision(Action.CREATE, planned)
    assert instance.prior is not None
    paths = replacing_paths(schema, prior, instance.config)
    reason = ""
    if instance.forced:
        reason = instance.forced
    elif instance.prior.tainted:
        reason = "replace_because_tainted"
    elif requested:
        reason = "replace_by_request"
    elif paths:
        reason = "replace_because_cannot_update"
    if reason:
        # Nothing is computed where the arguments are in error: then it is shown as it stands.
        if computed or paths:
            planned = planned_attributes(schema, instance.config, None, computed)
        action = Action.REPLACE_CREATE_FIRST if instance.create_first else Action.REPLACE
        return Decision(action, planned, reason, paths)
    is_due = UNFINISHED in (instance.prior.private or {})  # nothing differs, and yet it is not done
    is_kept = same(schema, planned, prior) and not is_due
    pool_paths = tuple(sorted(pool_replacing_paths(schema, prior, instance.config)))
    return Decision(Action.NO_OP if is_kept else Action.UPDATE, planned, replace_paths=pool_paths)


def same(schema: BlockSchema, planned: Mapping[str, Any], prior: Mapping[str, Any]) -> bool:
    """Whether nothing differs; what state does not know yet counts when it is set, in nested blocks too."""
    for name, value in planned.items():
        before = prior.get(name)
        if before != value and not _same_blocks(schema.blocks.get(name), value, before):
            return False
    return True


def _same_blocks(block: NestedBlock | None, planned: Any, prior: Any) -> bool:
    """Whether two different values of a block type differ by nothing but arguments that are not set. Without
    a `block` they are those of an argument, and differ.
    """
    if block is None:
        return False
    if type(planned) is not type(prior):
        return prior is None and planned == _absent(block)
    bodies_after = dict(_bodies(block, planned))
    bodies_before = dict(_bodies(block, prior))
    if bodies_after.keys() != bodies_before.keys():
        return False
    if block.nesting is Nesting.LIST and list(bodies_after) != list(bodies_before):
        return False
    return all(same(block.schema, body, bodies_before[path]) for path, body in bodies_after.items())


# --- replace_triggered_by ----------------------------------------------------------------------

# Instances whose action is decided, by module, type and name, then by key.
Planned = Mapping[tuple[ModulePath, str, str], Mapping[Key, Instance]]
# What is merely created or destroyed changes nothing for those that watch it, as in Terraform.
_CHANGING = (Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


class Watched(Struct, frozen=True):
    """What one reference watches: a block or (with `key`) an instance of it, whole or at a `path`."""

    type: str
    name: str
    key: Key = None
    path: Path = ()


def is_triggered(instance: Instance, planned: Planned, evaluation: Evaluation) -> bool:
    """Whether one of the references of replace_triggered_by leads to something that changes."""
    if instance.prior is None or instance.module is None:
        return False
    for expression in instance.lifecycle.replace_triggered_by:
        watched = _watched(expression, _key_reader(instance, evaluation))
        if watched is not None:
            instances = _instances_of(watched, instance.address.module, planned)
            if any(_changes(watched_one, watched.path) for watched_one in instances):
                return True
    return False


def _key_reader(instance: Instance, evaluation: Evaluation) -> Callable[[Expression], Key]:
    """Evaluates instance keys in a reference, as in `nexus_rack.r[count.index]`."""

    def read(expression: Expression) -> Key:
        assert instance.module is not None
        assert instance.repetition is not None
        value = evaluation.evaluated(expression, evaluation.scope(instance.module, instance.repetition))
        plain = to_plain(value)[0] if value is not None else None
        return plain if isinstance(plain, str | int) and not isinstance(plain, bool) else None

    return read


def _watched(expression: Expression, read_key: Callable[[Expression], Key]) -> Watched | None:
    """What a reference watches: `T.N`, `T.N[key]`, either with a path behind it; None for anything else."""
    if isinstance(expression, Traversal):
        return _in_traversal(expression)
    if isinstance(expression, RelativeTraversal):
        source = _watched(expression.source, read_key)
        return source and replace(source, path=source.path + _path(expression.steps))
    if isinstance(expression, Index):
        collection = _watched(expression.collection, read_key)
        return collection and Watched(collection.type, collection.name, read_key(expression.key))
    return None


def _in_traversal(traversal: Traversal) -> Watched | None:
    """What `T.N`, `T.N["key"]` or `T.N.path` watches; None where no name follows the type."""
    if not traversal.steps or not isinstance(traversal.steps[0], TraverseAttribute):
        return None
    name, steps = traversal.steps[0].name, traversal.steps[1:]
    if steps and isinstance(steps[0], TraverseIndex):
        return Watched(traversal.root.name, name, _key(steps[0]), _path(steps[1:]))
    return Watched(traversal.root.name, name, None, _path(steps))


def _path(steps: Iterable[Step]) -> Path:
    return tuple(step.name if isinstance(step, TraverseAttribute) else _key(step) for step in steps)


def _key(step: TraverseIndex) -> str | int:
    return step.key if isinstance(step.key, str) else int(step.key)


def _instances_of(watched: Watched, module: ModulePath, planned: Planned) -> Iterator[Instance]:
    """The instances that a reference in this module watches, as far as they are decided."""
    block = planned.get((module, watched.type, watched.name), {})
    if watched.key is None:
        yield from block.values()
    elif watched.key in block:
        yield block[watched.key]


def _changes(instance: Instance, path: Path) -> bool:
    """Whether the plan updates or replaces an instance: at all, or what it has at a path."""
    if instance.action not in _CHANGING or not path:
        return instance.action in _CHANGING
    return bool(part_at(instance.before, path) != part_at(instance.planned, path))
