"""replace_triggered_by: whether what an instance watches changes in this plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Key, ModulePath
from nexusform.language.syntax import (
    Expression,
    Index,
    RelativeTraversal,
    Step,
    Traversal,
    TraverseAttribute,
    TraverseIndex,
)
from nexusform.plain_data import Path, to_plain
from nexusform.planning.instances.instance import Instance
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.plan import Action

# Instances whose action is decided, by module, type and name, then by key.
Planned = Mapping[tuple[ModulePath, str, str], Mapping[Key, Instance]]
_CHANGING = (Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST, Action.CREATE)


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
            if any(_changes(one, watched.path) for one in instances):
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
    """`T.N`, `T.N[key]`, either with a path behind it."""
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
    if not traversal.steps or not isinstance(traversal.steps[0], TraverseAttribute):
        return None
    name, rest = traversal.steps[0].name, traversal.steps[1:]
    if rest and isinstance(rest[0], TraverseIndex):
        return Watched(traversal.root.name, name, _key(rest[0]), _path(rest[1:]))
    return Watched(traversal.root.name, name, None, _path(rest))


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
    if not path:
        return instance.action in _CHANGING
    return _at(instance.before, path) != _at(instance.planned, path)


def _at(value: object, path: Path) -> object:
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value
