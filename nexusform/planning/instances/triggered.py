"""replace_triggered_by: whether what an instance watches changes in this plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from nexusform.address import Key, ModulePath
from nexusform.language.syntax import (
    Expression,
    Index,
    RelativeTraversal,
    Traversal,
    TraverseAttribute,
    TraverseIndex,
)
from nexusform.plain_data import to_plain
from nexusform.planning.instances.instance import Instance
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.plan import Action

Watched = tuple[str, str, Key, tuple[str | int, ...]]  # type, name, key, path into the attributes
# Instances whose action is decided, by module, type and name, then by key.
Planned = Mapping[tuple[ModulePath, str, str], Mapping[Key, Instance]]
_CHANGING = (Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST, Action.CREATE)


def is_triggered(instance: Instance, planned: Planned, evaluation: Evaluation) -> bool:
    """Whether one of the references of replace_triggered_by leads to something that changes."""
    if instance.prior is None or instance.module is None:
        return False
    for expression in instance.lifecycle.replace_triggered_by:
        watched = _watched(expression, _key_reader(instance, evaluation))
        if watched is not None and any(_changes(i, watched) for i in _named(watched, instance, planned)):
            return True
    return False


def _key_reader(instance: Instance, evaluation: Evaluation) -> Callable[[Expression], Key]:
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
        return _split(expression)
    if isinstance(expression, RelativeTraversal):
        inner = _watched(expression.source, read_key)
        steps = tuple(s.name if isinstance(s, TraverseAttribute) else _key(s) for s in expression.steps)
        return inner and (*inner[:3], inner[3] + steps)
    if isinstance(expression, Index):
        inner = _watched(expression.collection, read_key)
        return inner and (inner[0], inner[1], read_key(expression.key), ())
    return None


def _split(traversal: Traversal) -> Watched | None:
    steps = list(traversal.steps)
    if not steps or not isinstance(steps[0], TraverseAttribute):
        return None
    key: Key = None
    rest = steps[1:]
    if rest and isinstance(rest[0], TraverseIndex):
        key, rest = _key(rest[0]), rest[1:]
    path = tuple(s.name if isinstance(s, TraverseAttribute) else _key(s) for s in rest)
    return traversal.root.name, steps[0].name, key, path


def _key(step: TraverseIndex) -> str | int:
    return step.key if isinstance(step.key, str) else int(step.key)


def _named(watched: Watched, instance: Instance, planned: Planned) -> Iterator[Instance]:
    kind, name, key, _ = watched
    block = planned.get((instance.address.module, kind, name), {})
    if key is None:
        yield from block.values()
    elif key in block:
        yield block[key]


def _changes(instance: Instance, watched: Watched) -> bool:
    path = watched[3]
    if not path:
        return instance.action in _CHANGING
    return _at(instance.before, path) != _at(instance.planned, path)


def _at(value: object, path: tuple[str | int, ...]) -> object:
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value
