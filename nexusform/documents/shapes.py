"""The shapes of foreign data: what a field holds and may be, decided in one place for every table of fields;
and reading that passes over what is of another shape.

JSON and YAML hold whatever somebody wrote. Who reads strictly has a table of shapes, and asks `fault_of` each
value; who reads leniently takes what stands at a path, and what is of another shape counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from nexusform.diagnostics import did_you_mean
from nexusform.plain_data import PathStep, part_at

_NATURAL: Final = (2**31 - 1, 2**63 - 1)  # the largest int32 and int64


class Holds(Enum):
    """What stands in a field. AMOUNT is a whole number or a text, ANY whatever there is."""

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

    def fits(self, data: Any) -> bool:
        """Whether data are of this kind; of what is inside nothing is asked. A flag is no number."""
        classes = _CLASSES[self]
        return isinstance(data, classes) and (not isinstance(data, bool) or bool in classes)


_CLASSES: Final[Mapping[Holds, tuple[type, ...]]] = {
    Holds.OBJECT: (Mapping,),
    Holds.LIST: (list,),
    Holds.TEXTS: (Mapping,),
    Holds.TEXT: (str,),
    Holds.WHOLE: (int,),
    Holds.NUMBER: (int, float),
    Holds.FLAG: (bool,),
    Holds.AMOUNT: (int, str),
    Holds.QUANTITY: (int, float, str),
    Holds.ANY: (object, bool),
}


class Objection(Struct, frozen=True):
    """What a rule has against an object: at a key of it ("" = all of it). `correction` is the id of the
    correction by which a lenient reading goes on.
    """

    key: str
    detail: str
    correction: str = ""


Rule: TypeAlias = Callable[[Mapping[str, Any]], Iterator[Objection]]


class Shape(Struct, frozen=True, eq=False):
    """A field of a foreign document.

    `fields` are those of a mapping; where types refer to each other, `type` names whose fields it has.
    `items` are those of a list, and of a mapping whose keys are free. `least` and `most` bound a number, the
    items of a list, the keys of a mapping, or the characters of a text. `pattern` is what a text must match;
    `form` says why a value is not of the form, as a clause ("" where it is). `defaulted`: null counts as
    absent. `versions`: the only ones that have it.
    """

    holds: Holds
    fields: Mapping[str, Shape] = field(default_factory=dict)
    items: Shape | None = None
    type: str = ""
    required: bool = False
    defaulted: bool = False
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    pattern: str = ""
    form: Callable[[Any], str] | None = None
    versions: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()


class Fault(Struct, frozen=True):
    """Why a value is not of its shape, as the end of a sentence that begins with its name. `meant` is the
    text that a scalar without quotes stands for, where a text is needed.
    """

    detail: str
    meant: str = ""


# --- strictly: what is wrong with a value --------------------------------------------------------


def fault_of(data: Any, shape: Shape, written: str = "") -> Fault | None:
    """What is wrong with a value; None where nothing is. Of what is inside a mapping or a list nothing is
    asked. `written` is how a scalar stands in its text.
    """
    if not shape.holds.fits(data):
        return _fault_of_kind(data, shape.holds, written)
    detail = _fault_of_words(data, shape) or size_fault(data, shape)
    return Fault(detail) if detail else None


def _fault_of_kind(data: Any, holds: Holds, written: str) -> Fault:
    """What to say of a value of another kind: with or without quotes it may be right."""
    if holds is Holds.TEXT and data is None:
        return Fault("must be a text; write quotes.")
    if holds is Holds.TEXT and not isinstance(data, Mapping | list):
        meant = str(data).lower() if isinstance(data, bool) else str(data)
        return Fault(f'must be a text; write "{written or meant}", with quotes.', meant)
    if not isinstance(data, str):
        return Fault(f"must be {holds.value}.")
    if holds.fits(_without_quotes(data)):
        return Fault(f"must be {holds.value}; write {data}, without quotes.")
    return Fault(f'must be {holds.value}, not "{data}".')


def _without_quotes(text: str) -> bool | int | None:
    """The flag or the whole number that a text would be without its quotes; None for neither."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.removeprefix("-").isdecimal() else None


def size_fault(data: Any, shape: Shape) -> str:
    """Why the size of a value is out of bounds, "" where it is not: of a number itself, else of what there is
    of it.
    """
    low, high = shape.least, shape.most
    is_number = Holds.NUMBER.fits(data)
    if (low is None and high is None) or (shape.holds is Holds.AMOUNT and not is_number):
        return ""
    size = data if is_number else len(data)
    if (low is None or size >= low) and (high is None or size <= high):
        return ""
    if is_number:
        return f"must be {_bounds(low, high, size)}, not {size}."
    unit = "characters" if isinstance(data, str) else "items"
    return f"must have {_bounds(low, high, size)} {unit}, not {size}."


def _bounds(low: int | None, high: int | None, size: int) -> str:
    """The bounds in words. What a machine cannot hold anyway is named to those alone who ask for it."""
    is_natural = high is None or high in _NATURAL
    if low is not None and is_natural and size < low:
        return f"{low} or more"
    return f"at most {high}" if low is None or is_natural else f"{low} to {high}"


def _fault_of_words(data: Any, shape: Shape) -> str:
    """Why a text is none of the choices, does not match, or why a value is not of its form."""
    if shape.choices and data not in shape.choices:
        listed = ", ".join(choice for choice in shape.choices if choice)
        return f'is "{data}"; it must be one of {listed}.{did_you_mean(data, shape.choices)}'
    if shape.pattern and isinstance(data, str) and not re.fullmatch(shape.pattern, data, re.ASCII):
        is_amount = shape.holds is Holds.AMOUNT and data.isdecimal()
        bare = f", or a number, without quotes: {data}" if is_amount else ""
        return f'is "{data}"; it must match {shape.pattern}{bare}.'
    reason = shape.form(data) if shape.form is not None else ""
    return f'is "{data}": {reason}.' if reason else ""


# --- leniently: what is of another shape counts as absent ----------------------------------------


def value_at(data: Any, *path: PathStep) -> Any:
    """What stands at a path; None where nothing does."""
    return part_at(data, path)


def mapping_at(data: Any, *path: PathStep) -> Mapping[str, Any]:
    """The mapping at a path."""
    held = value_at(data, *path)
    return held if isinstance(held, Mapping) else {}


def list_at(data: Any, *path: PathStep) -> list[Any]:
    """The items of the list at a path."""
    held = value_at(data, *path)
    return held if isinstance(held, list) else []


def mappings_at(data: Any, *path: PathStep) -> list[Mapping[str, Any]]:
    """Those items of the list at a path that are mappings."""
    return [item for item in list_at(data, *path) if isinstance(item, Mapping)]


def objects_at(data: Any, *path: PathStep) -> list[dict[str, Any]]:
    """Those items of the list at a path that are dictionaries, to be changed in place."""
    return [item for item in list_at(data, *path) if isinstance(item, dict)]


def text_at(data: Any, *path: PathStep) -> str:
    """The text at a path."""
    held = value_at(data, *path)
    return held if isinstance(held, str) else ""


def texts_at(data: Any, *path: PathStep) -> list[str]:
    """Those items of the list at a path that are texts."""
    return [item for item in list_at(data, *path) if isinstance(item, str)]
