"""count and for_each: which instances a block has, and how expressions see them, as one object or as all of a
block's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import isfinite
from typing import Any, TypeAlias

from msgspec import Struct, field

from nexusform.address import Key, key_order
from nexusform.configuration.declared.limits import DEFAULT
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.syntax.nodes import Expression
from nexusform.plain_data import Path, Refined, from_plain, to_plain
from nexusform.schema import BlockSchema, implied_type
from nexusform.value_types import DYNAMIC, MapType, ObjectType, SetType, friendly_name, has_dynamic
from nexusform.values import Value, object_value, string, tuple_value, unknown


class Repetition(Struct, frozen=True):
    """One instance of a repeated block: its key, and each.value (None under count)."""

    key: Key = None
    value: Value | None = None


ONCE = Repetition()

# A block's shape as a value: one object, a tuple by index, an object by key.
SINGLE, LIST, MAP = "single", "list", "map"


class Expansion(Struct, frozen=True):
    """The instances of a block, in planning order; `shape` is SINGLE, LIST or MAP.

    `unknown` names the argument ("count", "for_each") that is not known in this pass.
    """

    shape: str
    repetitions: tuple[Repetition, ...]
    unknown: str = ""


Evaluate: TypeAlias = Callable[[Expression], Value | None]


def expand(
    count: Expression | None,
    for_each: Expression | None,
    evaluate: Evaluate,
    header: str,
    most: int = DEFAULT.instances,
) -> tuple[Expansion | None, list[Diagnostic]]:
    """The instances of a block with these meta-arguments; None when they are in error.

    `evaluate` gives None when the expression itself is in error (already reported). `most` is what a block
    may stand for.
    """
    if count is not None:
        value = evaluate(count)
        return _by_count(count, value, header, most) if value is not None else (None, [])
    if for_each is not None:
        value = evaluate(for_each)
        return _by_key(for_each, value, header) if value is not None else (None, [])
    return Expansion(SINGLE, (ONCE,)), []


def _by_count(
    expression: Expression, value: Value, header: str, most: int
) -> tuple[Expansion | None, list[Diagnostic]]:
    """The instances that a count stands for; None when it is no count."""

    def refuse(detail: str) -> tuple[None, list[Diagnostic]]:
        return None, [error("invalid-count-argument", detail, expression.span, block=header)]

    if value.has_marks:
        return refuse(
            "Sensitive values, or values derived from them, cannot be used as count: it would show them."
        )
    if not value.is_known:
        return Expansion(LIST, (), "count"), []
    if value.is_null:
        return refuse('The given "count" argument value is null. An integer is required.')
    number = _as_number(to_plain(value)[0])
    unsuitable = 'The given "count" argument value is unsuitable:'
    if number is None:
        return refuse(f"{unsuitable} a number is required.")
    if number != int(number):
        return refuse(f"{unsuitable} a whole number is required.")
    if number < 0:
        return refuse(f"{unsuitable} must be greater than or equal to zero.")
    if number > most:
        return refuse(f"{unsuitable} a block stands for at most {most} instances (-limit=instances=N).")
    return Expansion(LIST, tuple(Repetition(index) for index in range(int(number)))), []


def _as_number(plain: Any) -> int | float | Fraction | None:
    """A finite number, also one that is written as text."""
    if isinstance(plain, str):
        try:
            plain = float(plain)
        except ValueError:
            return None
    if isinstance(plain, bool) or not isinstance(plain, int | float | Fraction):
        return None
    return None if isinstance(plain, float) and not isfinite(plain) else plain


def _by_key(expression: Expression, value: Value, header: str) -> tuple[Expansion | None, list[Diagnostic]]:
    """The instances that a for_each stands for, in the order of their keys; None when it cannot be one."""

    def refuse(detail: str) -> tuple[None, list[Diagnostic]]:
        return None, [error("invalid-for-each-argument", detail, expression.span, block=header)]

    kind = value.type
    if value.is_sensitive or (isinstance(kind, SetType) and value.has_marks):
        return refuse("Sensitive values, or values derived from them, cannot be used as for_each keys.")
    if not value.is_known and (has_dynamic(kind) or isinstance(kind, MapType | ObjectType | SetType)):
        return Expansion(MAP, (), "for_each"), []
    if value.is_null:
        return refuse('The given "for_each" argument value is null. A map, or set of strings is allowed.')
    if isinstance(kind, MapType | ObjectType):
        items = sorted(value.raw.items(), key=lambda item: item[0].encode())
        return Expansion(MAP, tuple(Repetition(key, element) for key, element in items)), []
    if isinstance(kind, SetType):
        if any(not element.is_known for element in value.raw):
            return Expansion(MAP, (), "for_each"), []
        if any(element.is_null or not isinstance(element.raw, str) for element in value.raw):
            return refuse('The given "for_each" argument value is unsuitable: a set must hold strings only.')
        keys = sorted((element.raw for element in value.raw), key=str.encode)
        return Expansion(MAP, tuple(Repetition(key, string(key)) for key in keys)), []
    return refuse(
        f'The given "for_each" argument value is unsuitable: it must be a map, or set of strings, and you '
        f"have provided a value of type {friendly_name(kind)}. Use toset() to turn a list of strings into "
        "a set."
    )


class ObjectView(Struct):
    """An instance's attributes as expressions see them; parts become Values when asked for."""

    attributes: Mapping[str, Any] | None
    sensitive: tuple[Path, ...]
    schema: BlockSchema
    present: Callable[[Mapping[str, Any], str], Any] | None = None
    refined: Refined = ()
    _whole: Value | None = None

    def value(self) -> Value:
        """The whole object."""
        if self._whole is None:
            kind = implied_type(self.schema)
            self._whole = unknown(kind)
            if self.attributes is not None:
                values, sensitive = dict(self.attributes), list(self.sensitive)
                for name in self.attributes if self.present is not None else ():
                    values[name], paths = self._presented(self.attributes, name)
                    sensitive += [(name, *path) for path in paths]
                self._whole = from_plain(values, kind, sensitive, self.refined)
        return self._whole

    def attribute(self, name: str) -> Value | None:
        """One attribute, None when the type has no such attribute."""
        kind = implied_type(self.schema).attribute(name)
        if kind is None:
            return None
        if self._whole is not None:
            whole: Value = self._whole
            return whole.raw[name] if isinstance(whole.raw, dict) else unknown(kind)
        if self.attributes is None:
            return unknown(kind)
        plain, sensitive = self._presented(self.attributes, name)
        refined = tuple([(path[1:], refinement) for path, refinement in self.refined if path[0] == name])
        return from_plain(plain, kind, sensitive, refined)

    def _presented(self, attributes: Mapping[str, Any], name: str) -> tuple[Any, list[Path]]:
        """One attribute as expressions see it, and the paths in it that are sensitive. What is made of other
        arguments (labels of nodes) may show any of them that is.
        """
        sensitive = [path[1:] for path in self.sensitive if path and path[0] == name]
        recorded = attributes.get(name)
        presented = recorded if self.present is None else self.present(attributes, name)
        if self.sensitive and presented is not recorded:
            sensitive += _paths_put_in(presented, recorded)
        return presented, sensitive


def _paths_put_in(presented: Any, recorded: Any) -> Iterator[Path]:
    """The paths of what an attribute, or the objects that it holds, presents and state has not recorded."""
    if not (isinstance(presented, Mapping) and isinstance(recorded, Mapping)):
        yield ()
        return
    for key, value in presented.items():
        recorded_value = recorded.get(key)
        if isinstance(value, Mapping) and isinstance(recorded_value, Mapping):
            yield from ((key, name) for name in value if name not in recorded_value)
        elif value != recorded_value:
            yield (key,)


class ResourceView(Struct):
    """All instances of one block in one module instance. `shape` "" = not known in this pass."""

    shape: str
    items: dict[Key, ObjectView] = field(default_factory=dict)
    _whole: Value | None = None

    def value(self) -> Value:
        """One object, a tuple by index, or an object by key."""
        if self._whole is None:
            if self.shape == SINGLE:
                view = self.items.get(None)
                self._whole = view.value() if view else unknown(DYNAMIC)
            elif self.shape == LIST:
                keys = sorted(self.items, key=key_order)
                self._whole = tuple_value([self.items[key].value() for key in keys])
            elif self.shape == MAP:
                self._whole = object_value({str(key): item.value() for key, item in self.items.items()})
            else:
                self._whole = unknown(DYNAMIC)
        return self._whole
