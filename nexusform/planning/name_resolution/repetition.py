"""Repetition by count and for_each: the instances of a block, and their views in expressions."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import inf
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from nexusform.configuration.declarations.limits import DEFAULT
from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.json_data.plain_data import Path, Refinements, convert_to_plain, convert_to_value
from nexusform.language.syntax.syntax_nodes import Expression
from nexusform.resources.address import Key, compute_key_sort_key
from nexusform.schemas.block_schema import (
    AttributeSchema,
    BlockSchema,
    compute_implied_type,
    find_schema,
)
from nexusform.schemas.value_types import (
    NUMBER,
    STRING,
    MapType,
    ObjectType,
    SetType,
    Type,
    describe_type,
    has_dynamic,
)
from nexusform.values.typed_value import (
    NULL,
    Value,
    build_object,
    build_string,
    build_tuple,
    build_unknown,
)


class RepetitionData(Struct, frozen=True):
    """One instance of a repeated block: its key, and each.value (None under count).

    `key_value` is each.key of an import block, if it is no text.
    """

    key: Key = None
    value: Value | None = None
    key_value: Value | None = None


SINGLE_INSTANCE = RepetitionData()

# Shape of a block as a value: one object, a tuple by index, an object by key.
# A disabled block has no instance, and is null.
SINGLE = "single"
LIST = "list"
MAP = "map"
DISABLED = "disabled"


class BlockExpansion(Struct, frozen=True):
    """Instances of a block, in planning order; `shape` is SINGLE, LIST, MAP or DISABLED.

    `unknown` names the argument ("count", "for_each", "enabled") that is unknown in this pass.
    Without a shape, the argument is invalid.
    """

    shape: str
    repetitions: tuple[RepetitionData, ...]
    unknown: str = ""


INVALID_EXPANSION: Final = BlockExpansion(shape="", repetitions=())
Expansion: TypeAlias = tuple[BlockExpansion, list[Diagnostic]]

_EPHEMERAL_REPETITION: Final = (
    'The given "{}" is derived from an ephemeral value, so it cannot be saved in the plan. Use a '
    "value that is not ephemeral."
)
Evaluate: TypeAlias = Callable[[Expression], Value | None]


def expand_repetition(
    count: Expression | None,
    for_each: Expression | None,
    evaluate: Evaluate,
    header: str,
    maximum: int = DEFAULT.instances,
    *,
    enabled: Expression | None = None,
) -> Expansion:
    """Expand a block with at most one of these meta-arguments into its instances, none on errors.

    `evaluate` returns None for an expression with errors (already reported). `header` names the
    block in errors. `maximum` limits a count.
    """
    expression = count or for_each or enabled
    if expression is None:  # no meta-argument
        return BlockExpansion(SINGLE, (SINGLE_INSTANCE,)), []
    value = evaluate(expression)
    if value is None:
        return INVALID_EXPANSION, []
    if expression is count:
        return _expand_count(expression, value, header, maximum)
    if expression is for_each:
        return _expand_for_each(expression, value, header)
    # Only `enabled` is left: one instance or none.
    if value.has_ephemeral:
        reason = _EPHEMERAL_REPETITION.format("enabled")
    elif value.has_marks:
        reason = (
            "Sensitive values, or values derived from them, cannot be used as enabled: it would "
            "show them."
        )
    elif not value.is_known:
        return BlockExpansion(DISABLED, repetitions=(), unknown="enabled"), []
    elif value.raw in (True, "true"):
        return BlockExpansion(SINGLE, (SINGLE_INSTANCE,)), []
    elif value.raw in (False, "false"):
        return BlockExpansion(DISABLED, repetitions=()), []
    else:
        reason = 'The given "enabled" argument value is unsuitable: true or false is required.'
    return INVALID_EXPANSION, [
        build_error("invalid-enabled-argument", reason, expression.span, block=header)
    ]


def _expand_count(expression: Expression, value: Value, header: str, maximum: int) -> Expansion:
    """Expand a count into instances."""

    def reject(detail: str) -> Expansion:
        return INVALID_EXPANSION, [
            build_error("invalid-count-argument", detail, expression.span, block=header)
        ]

    if value.has_ephemeral:
        return reject(_EPHEMERAL_REPETITION.format("count"))
    if value.has_marks:
        return reject(
            "Sensitive values, or values derived from them, cannot be used as count: it would show "
            "them."
        )
    # The caller reports it or waits.
    if not value.is_known:
        return BlockExpansion(LIST, repetitions=(), unknown="count"), []
    if value.is_null:
        return reject('The given "count" argument value is null. An integer is required.')
    number = _convert_to_finite_number(convert_to_plain(value)[0])  # without marks
    prefix = 'The given "count" argument value is unsuitable:'
    if number is None:
        return reject(f"{prefix} a number is required.")
    if number != int(number):
        return reject(f"{prefix} a whole number is required.")
    if number < 0:
        return reject(f"{prefix} must be greater than or equal to zero.")
    if number > maximum:
        return reject(f"{prefix} a block has at most {maximum} instances (-limit=instances=N).")
    return BlockExpansion(LIST, tuple(RepetitionData(index) for index in range(int(number)))), []


def _convert_to_finite_number(plain: Any) -> int | float | Fraction | None:
    """Return a finite number, also from text ("3").

    Return None for other values, such as true or "many".
    """
    number = plain
    if isinstance(plain, str):
        try:
            number = float(plain)
        except ValueError:
            return None
    # A comparison with NaN is false.
    if type(number) not in (int, float, Fraction) or not -inf < number < inf:
        return None
    return number  # type: ignore[no-any-return]  # it has one of these types


def _expand_for_each(expression: Expression, value: Value, header: str) -> Expansion:
    """Expand a for_each into instances by key, in byte order of the keys.

    Keys may not be sensitive: they are part of addresses, shown by every plan. The values of a
    map may be sensitive. The elements of a set are its keys, and one sensitive element makes the
    whole set sensitive.
    """

    def reject(detail: str) -> Expansion:
        return INVALID_EXPANSION, [
            build_error("invalid-for-each-argument", detail, expression.span, block=header)
        ]

    kind = value.type
    if value.is_ephemeral:
        return reject(_EPHEMERAL_REPETITION.format("for_each"))
    if value.is_sensitive:
        return reject(
            "Sensitive values, or values derived from them, cannot be used as for_each keys."
        )
    if not value.is_known and (
        has_dynamic(kind) or isinstance(kind, MapType | ObjectType | SetType)
    ):
        # An unknown value of another type is rejected below.
        return BlockExpansion(MAP, (), unknown="for_each"), []
    if value.is_null:
        return reject(
            'The given "for_each" argument value is null. A map, or set of strings is allowed.'
        )
    if isinstance(kind, MapType | ObjectType):
        items = sorted(value.raw.items(), key=lambda item: item[0].encode())
        return BlockExpansion(
            MAP, tuple(RepetitionData(key, element) for key, element in items)
        ), []
    if isinstance(kind, SetType):
        if any(not element.is_known for element in value.raw):
            return BlockExpansion(MAP, repetitions=(), unknown="for_each"), []
        elements = [element.raw for element in value.raw]
        # Null (None) is not a text, either.
        if not all(isinstance(element, str) for element in elements):
            return reject(
                'The given "for_each" argument value is unsuitable: a set must hold strings only.'
                f"{_advise_map_of_objects(kind)}"
            )
        keys = sorted(elements, key=str.encode)
        return BlockExpansion(
            MAP, tuple(RepetitionData(key, build_string(key)) for key in keys)
        ), []
    return reject(
        'The given "for_each" argument value is unsuitable: it must be a map, or set of strings, '
        f"and you have provided a value of type {describe_type(kind)}."
        f"{_advise_map_of_objects(kind) or _ADVICE_FOR_LISTS}"
    )


_ADVICE_FOR_LISTS: Final = " Use toset() to turn a list of strings into a set."
# Attributes that often identify an object, the best first.
_KEY_ATTRIBUTES: Final = ("name", "key", "id")


def _advise_map_of_objects(collection: Type) -> str:
    """Return how to make a map of a collection of objects; "" for other types."""
    element_types = collection.parts
    if not element_types or not all(isinstance(part, ObjectType) for part in element_types):
        return ""
    # Attributes of all elements whose values can be keys.
    shared_names = set[str].intersection(
        *[
            {name for name, part in element.attributes if part in (STRING, NUMBER)}
            for element in element_types
            if isinstance(element, ObjectType)
        ]
    )
    names = [*(name for name in _KEY_ATTRIBUTES if name in shared_names), *sorted(shared_names)]
    key = names[0] if names else "ATTRIBUTE"
    return (
        f" Turn the objects into a map with a key for each: {{ for o in COLLECTION : o.{key} => o "
        "}, with your expression in place of COLLECTION."
    )


class InstanceView(Struct):
    """Attributes of an instance as seen by expressions; parts are converted to Values on demand."""

    attributes: Mapping[str, Any] | None
    sensitive: tuple[Path, ...]
    schema: BlockSchema
    present: Callable[[Mapping[str, Any], str], Any] | None = None
    refined: Refinements = ()
    _value: Value | None = None

    def get_value(self) -> Value:
        """Return the whole object as a value, with derived attributes.

        It is unknown without attributes.
        """
        if self._value is None:
            kind = compute_implied_type(self.schema)
            if self.attributes is None:
                self._value = build_unknown(kind)
                return self._value
            values = dict(self.attributes)
            sensitive = list(self.sensitive)
            # The type adds attributes derived from those in state.
            if self.present is not None:
                for name in self.attributes:
                    values[name], paths = self._get_attribute_with_sensitive_paths(
                        self.attributes, name
                    )
                    sensitive += [(name, *path) for path in paths]
            self._value = convert_to_value(values, kind, sensitive, self.refined)
        return self._value

    def get_attribute(self, name: str) -> Value | None:
        """Return one attribute, None if the type has no such attribute."""
        kind = compute_implied_type(self.schema).get_attribute(name)
        if kind is None:
            return None
        # The whole object was built before.
        if self._value is not None:
            # Values of the attributes by name; not a mapping if the object is unknown.
            raw = self._value.raw
            return raw[name] if isinstance(raw, dict) else build_unknown(kind)
        if self.attributes is None:
            return build_unknown(kind)
        plain, sensitive = self._get_attribute_with_sensitive_paths(self.attributes, name)
        refined = tuple(
            [(path[1:], refinement) for path, refinement in self.refined if path[0] == name]
        )
        return convert_to_value(plain, kind, sensitive, refined)

    def _can_be_derived_from(self, path: Path) -> bool:
        """Return whether a derived attribute may contain the value at a path."""
        attribute = find_schema(self.schema, path)
        return not isinstance(attribute, AttributeSchema) or attribute.secret_fields is None

    def _get_attribute_with_sensitive_paths(
        self, attributes: Mapping[str, Any], name: str
    ) -> tuple[Any, list[Path]]:
        """Return one attribute as expressions see it, and the paths of sensitive values in it.

        `present` of the type may derive the value that expressions see from several recorded
        attributes. If any of them is sensitive, a derived value counts as sensitive, too.
        """
        sensitive = [path[1:] for path in self.sensitive if path[:1] == (name,)]
        recorded = attributes.get(name)
        presented = recorded if self.present is None else self.present(attributes, name)
        # It may be derived from another, sensitive attribute. Secrets of the schema are in no
        # derived value.
        is_derived = presented is not recorded
        if is_derived and any(self._can_be_derived_from(path) for path in self.sensitive):
            sensitive += _list_unrecorded_paths(presented, recorded)
        return presented, sensitive


def _list_unrecorded_paths(presented: Any, recorded: Any) -> list[Path]:
    """Return the paths of values that expressions see, but that are not in state in this form.

    Such values are derived from other attributes, perhaps from secret ones. In a map they are
    changed or added entries, in a map inside of it the added ones.
    """
    if not (isinstance(presented, Mapping) and isinstance(recorded, Mapping)):
        # The path of the whole value.
        return [()]
    paths: list[Path] = []
    for key, value in presented.items():
        recorded_value = recorded.get(key)
        if isinstance(value, Mapping) and isinstance(recorded_value, Mapping):
            # Derived attributes, such as labels.
            paths += [(key, name) for name in value if name not in recorded_value]
        elif value != recorded_value:
            paths.append((key,))
    return paths


class ResourceView(Struct):
    """All instances of one block in one module instance.

    `shape` is "" if it is unknown in this pass.
    """

    shape: str
    items: dict[Key, InstanceView] = field(default_factory=dict)
    _value: Value | None = None

    def get_value(self) -> Value:
        """Return all instances of a repeated block as a value: a tuple, or an object by key.

        Its keys must be known.
        """
        if self._value is None:
            if self.shape == LIST:
                keys = sorted(self.items, key=compute_key_sort_key)
                self._value = build_tuple([self.items[key].get_value() for key in keys])
            elif self.shape == DISABLED:
                # By enabled = false.
                self._value = NULL
            else:
                self._value = build_object(
                    {str(key): item.get_value() for key, item in self.items.items()}
                )
        return self._value
