"""The shapes of foreign data: what a field holds, asked in one place; and reading that passes over the rest.

JSON and YAML hold whatever somebody wrote. Who reads strictly asks `Holds.fits` and says what is wrong; who
reads leniently takes what stands at a path by its shape, and what is of another one counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from nexusform.plain_data import PathStep, part_at


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
    Holds.ANY: (object, bool),
}


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


def text_at(data: Any, *path: PathStep) -> str:
    """The text at a path."""
    held = value_at(data, *path)
    return held if isinstance(held, str) else ""


def texts_at(data: Any, *path: PathStep) -> list[str]:
    """Those items of the list at a path that are texts."""
    return [item for item in list_at(data, *path) if isinstance(item, str)]
