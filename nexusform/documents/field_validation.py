"""Shapes of fields of foreign data: the kind and the allowed values of a field.

JSON and YAML may contain anything. Strict readers have a table of shapes, and check each
value with `validate_value`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import suggest_name
from nexusform.diagnostics.phrases import join_texts
from nexusform.documents.scalars import parse_integer

# Maximums of int32 and int64.
_INTEGER_MAXIMUMS: Final = (2**31 - 1, 2**63 - 1)


class FieldKind(Enum):
    """Kind of a field's value.

    AMOUNT is a whole number or a text, ANY is unrestricted.
    """

    OBJECT = "a mapping"
    LIST = "a list"
    TEXTS = "a mapping of texts"
    TEXT = "a text"
    WHOLE = "a whole number"
    NUMBER = "a number"
    FLAG = "true or false"
    AMOUNT = "a whole number or a text"
    QUANTITY = "a quantity such as 500m or 2Gi"
    ANY = "anything"

    def is_valid(self, data: Any) -> bool:
        """Check whether data is of this kind, without its parts.

        A bool, an int for Python, is not a number.
        """
        classes = _CLASSES[self]
        return isinstance(data, classes) and (not isinstance(data, bool) or bool in classes)


_CLASSES: Final[Mapping[FieldKind, tuple[type, ...]]] = {
    FieldKind.OBJECT: (dict, Mapping),
    FieldKind.LIST: (list,),
    FieldKind.TEXTS: (dict, Mapping),
    FieldKind.TEXT: (str,),
    FieldKind.WHOLE: (int,),
    FieldKind.NUMBER: (int, float),
    FieldKind.FLAG: (bool,),
    FieldKind.AMOUNT: (int, str),
    FieldKind.QUANTITY: (int, float, str),
    FieldKind.ANY: (object, bool),
}


class RuleViolation(Struct, frozen=True):
    """Violation of a rule by an object, at a key ("" = all of it).

    `correction` is the id of a correction for lenient readers.
    """

    key: str
    detail: str
    correction: str = ""


Rule: TypeAlias = Callable[[Mapping[str, Any]], Iterator[RuleViolation]]


class FieldShape(Struct, frozen=True, eq=False):
    """Field of a foreign document.

    `fields` are those of a mapping; if types refer to each other, `type` names the type with the
    fields. `items` are those of a list, and of a mapping with free keys. `minimum` and `maximum`
    bound a number, the items of a list, the keys of a mapping, or the characters of a text.
    `pattern` must match a text; `check_form` returns why a value has an invalid form, as a
    clause ("" if valid). If it `is_defaulted`, null counts as absent. `versions` are the only
    ones with this field.
    """

    kind: FieldKind
    fields: Mapping[str, FieldShape] = field(default_factory=dict)
    items: FieldShape | None = None
    type: str = ""
    is_required: bool = False
    is_defaulted: bool = False
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    pattern: str = ""
    check_form: Callable[[Any], str] | None = None
    versions: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()


class SchemaViolation(Struct, frozen=True):
    """Violation of a shape by a value, as the end of a sentence that starts with its name.

    `intended_text` is the text of a scalar without quotes, if a text is required.
    """

    detail: str
    intended_text: str = ""


def validate_value(data: Any, shape: FieldShape, source_text: str = "") -> SchemaViolation | None:
    """Validate a value, but not its parts, against its shape.

    Return None if it is valid. `source_text` is the text of a scalar in the document.
    """
    if not shape.kind.is_valid(data):
        return _describe_wrong_kind(data, shape.kind, source_text)
    detail = _describe_invalid_text(data, shape) or validate_value_size(data, shape)
    return SchemaViolation(detail) if detail else None


def _describe_wrong_kind(data: Any, kind: FieldKind, source_text: str) -> SchemaViolation:
    """Describe a value of a kind other than `kind`.

    Wrong quotes are the usual reason: advise to write or omit them. For a number, the text "3"
    needs no quotes; for a text, the boolean `yes` needs them. `source_text` is the text of a scalar
    in the document, such as "yes" for true.
    """
    if isinstance(data, str):
        unquoted = {"true": True, "false": False}.get(
            data, parse_integer(data, signed=True)
        )  # None: neither
        if kind.is_valid(unquoted):
            return SchemaViolation(f"must be {kind.value}; write {data}, without quotes.")
        return SchemaViolation(f'must be {kind.value}, not "{data}".')
    if kind is not FieldKind.TEXT or isinstance(data, Mapping | list):
        return SchemaViolation(f"must be {kind.value}.")
    if data is None:
        return SchemaViolation("must be a text; write quotes.")
    intended_text = str(data).lower() if isinstance(data, bool) else str(data)
    detail = f'must be a text; write "{source_text or intended_text}", with quotes.'
    return SchemaViolation(detail, intended_text=intended_text)


def validate_value_size(data: Any, shape: FieldShape) -> str:
    """Return why a value is outside of the bounds of its shape, or "" if it is not.

    The bounds limit the value of a number, and the length of a text, a list or a mapping.
    """
    # None: no bound.
    low = shape.minimum
    high = shape.maximum
    if (low, high) == (None, None):
        return ""
    is_number = FieldKind.NUMBER.is_valid(data)
    if shape.kind is FieldKind.AMOUNT and not is_number:
        # A text such as "25%" has no bounds.
        return ""
    size = data if is_number else len(data)
    is_too_small = low is not None and size < low
    is_too_large = high is not None and size > high
    if not is_too_small and not is_too_large:
        return ""
    # The maximum of an integer type is mentioned only if it is exceeded.
    is_usual_maximum = high is None or high in _INTEGER_MAXIMUMS
    bounds = f"{low} to {high}"
    if low is None or is_usual_maximum:
        bounds = f"{low} or more" if is_too_small else f"at most {high}"
    if is_number:
        return f"must be {bounds}, not {size}."
    unit = "characters" if isinstance(data, str) else "items"
    return f"must have {bounds} {unit}, not {size}."


def _describe_invalid_text(data: Any, shape: FieldShape) -> str:
    """Return why a value is invalid; "" if it is valid.

    It is not among the choices, does not match the pattern, or has an invalid form. The reason is
    the end of a sentence that starts with the name of the field.
    """
    if shape.choices and data not in shape.choices:
        hint = suggest_name(data, shape.choices)
        return f'is "{data}"; it must be one of {join_texts(shape.choices)}.{hint}'
    # An amount may also be a number, without a pattern.
    has_pattern = bool(shape.pattern) and isinstance(data, str)
    if has_pattern and not re.fullmatch(shape.pattern, data, re.ASCII):
        number_hint = ""
        # Valid as a number.
        if shape.kind is FieldKind.AMOUNT and data.isdecimal():
            number_hint = f", or a number, without quotes: {data}"
        return f'is "{data}"; it must match {shape.pattern}{number_hint}.'
    reason = shape.check_form(data) if shape.check_form is not None else ""
    return f'is "{data}": {reason}.' if reason else ""
