"""What an expression can be worth: types, values, unknowns and marks.

Two forms:
- `Value`: typed, with marks; what the evaluator computes with (the type system is HCL's).
- plain data: None, bool, int, float, str, list, dict and `UNKNOWN` at unknown leaves; what
  planning, state and providers work with. Sets are sorted lists without duplicates. A schema's
  type turns plain data back into a Value (`from_plain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias


class Unknown:
    """The one value `UNKNOWN`: known only after apply."""

    _instance: Unknown | None = None

    def __new__(cls) -> Unknown:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __deepcopy__(self, memo: Any) -> Unknown:
        return self


UNKNOWN: Final = Unknown()

Plain: TypeAlias = "None | bool | int | float | str | Unknown | list[Any] | dict[str, Any]"
PathStep: TypeAlias = str | int
Path: TypeAlias = tuple[PathStep, ...]


# --- types -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """string, number, bool, and `any` (dynamic: a type not known yet)."""

    name: str


STRING: Final = PrimitiveType("string")
NUMBER: Final = PrimitiveType("number")
BOOL: Final = PrimitiveType("bool")
DYNAMIC: Final = PrimitiveType("dynamic")


@dataclass(frozen=True, slots=True)
class ListType:
    """list(element)."""

    element: Type


@dataclass(frozen=True, slots=True)
class SetType:
    """set(element)."""

    element: Type


@dataclass(frozen=True, slots=True)
class MapType:
    """map(element)."""

    element: Type


@dataclass(frozen=True, slots=True)
class TupleType:
    """tuple([...])."""

    elements: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class ObjectType:
    """object({...}); attributes sorted by name. `optional` names may be absent on conversion and
    become null or their default (`defaults`, as (name, Value) pairs)."""

    attributes: tuple[tuple[str, Type], ...]
    optional: frozenset[str] = frozenset()
    defaults: tuple[tuple[str, Value], ...] = ()

    @staticmethod
    def of(attributes: Mapping[str, Type], optional: Iterable[str] = ()) -> ObjectType:
        """An object type from a mapping in any order."""
        return ObjectType(tuple(sorted(attributes.items())), frozenset(optional))


Type: TypeAlias = PrimitiveType | ListType | SetType | MapType | TupleType | ObjectType
