"""What an expression can be worth: typed values, unknowns and marks; and what is known of an unknown value
beside its type: that it is not null, how a text begins, between which bounds a number or the length of a
collection lies.

What the evaluator computes with. Planning, state and providers work with plain data: plain_data.py turns
the one into the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec import Struct

from nexusform.exact_numbers import PRECISION, number_from_decimal, round_number
from nexusform.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Type,
    friendly_name,
)

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction


class Unknown:
    """The one value `UNKNOWN`: known only after apply."""

    _instance: Self | None = None

    def __new__(cls) -> Self:
        """Give the one instance."""
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __deepcopy__(self, memo: Any) -> Unknown:
        return self


UNKNOWN: Final = Unknown()

NO_MARKS: Final[frozenset[str]] = frozenset()
SENSITIVE: Final[frozenset[str]] = frozenset({"sensitive"})

_UNSEEN: Final = -1
_HAS_UNKNOWN: Final = 1
_HAS_MARKS: Final = 2
_TRAITS: Final = 3
_SIZE_SHIFT: Final = 2
_CHARACTERS_SHIFT: Final = 5  # 32 characters count as much as a value


class Value:
    """A value of a type, immutable.

    `raw` is None (null), UNKNOWN, str, bool, int or Fraction, a tuple of Values (list, tuple; a
    set sorted and without duplicates), or a dict of Values in key order (map, object). `marks`
    are those of the value itself; elements carry their own, except in a set, which takes them over.
    `refinement` is what is known of an unknown all the same; it does not tell values apart.
    """

    __slots__ = ("_inner", "marks", "raw", "refinement", "type")

    def __init__(
        self,
        type: Type,  # noqa: A002 - the word for it
        raw: Any,
        marks: frozenset[str] = NO_MARKS,
        refinement: Refinement | None = None,
    ) -> None:
        self.type: Final = type
        self.raw: Final = raw
        self.marks: Final = marks
        self.refinement: Final = refinement
        self._inner = _UNSEEN

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Value):
            return NotImplemented
        return self.type == other.type and self.raw == other.raw and self.marks == other.marks

    def __hash__(self) -> int:
        return hash((order_key(self), self.marks))

    def __repr__(self) -> str:
        marks = f", {sorted(self.marks)}" if self.marks else ""
        return f"Value({friendly_name(self.type)}, {self.raw!r}{marks})"

    @property
    def is_null(self) -> bool:
        """Whether it is null."""
        return self.raw is None

    @property
    def is_known(self) -> bool:
        """Whether the value itself is known; parts of it may be unknown all the same."""
        return self.raw is not UNKNOWN

    @property
    def is_sensitive(self) -> bool:
        """Whether the value as a whole is sensitive."""
        return "sensitive" in self.marks

    @property
    def is_wholly_known(self) -> bool:
        """Whether it and every part of it is known."""
        return not self._traits() & _HAS_UNKNOWN

    @property
    def has_marks(self) -> bool:
        """Whether it or any part of it is marked."""
        return bool(self.marks) or bool(self._traits() & _HAS_MARKS)

    def with_marks(self, marks: frozenset[str]) -> Value:
        """The same value with these marks added."""
        if marks <= self.marks:
            return self
        return self._remarked(self.marks | marks)

    def without_marks(self) -> Value:
        """The same value without its own marks; those of its parts stay."""
        return self._remarked(NO_MARKS) if self.marks else self

    def _remarked(self, marks: frozenset[str]) -> Value:
        other = Value(self.type, self.raw, marks, self.refinement)
        other._inner = self._inner
        return other

    @property
    def size(self) -> int:
        """How many values it holds, itself included. What is shared counts as often as it is held,
        and long text by its length.
        """
        return self._traits() >> _SIZE_SHIFT

    def _traits(self) -> int:
        # What the parts hold, found once: bits for "an unknown inside" and "a mark inside", then
        # the size.
        if self._inner != _UNSEEN:
            return self._inner
        raw = self.raw
        traits, size = 0, 1
        if raw is UNKNOWN:
            traits = _HAS_UNKNOWN
        elif raw.__class__ is str:
            size += len(raw) >> _CHARACTERS_SHIFT
        elif raw.__class__ is tuple or raw.__class__ is dict:
            for part in raw.values() if raw.__class__ is dict else raw:
                inner = part._traits()  # noqa: SLF001 - the same class
                traits |= inner & _TRAITS
                size += inner >> _SIZE_SHIFT
                if part.marks:
                    traits |= _HAS_MARKS
        self._inner = traits | size << _SIZE_SHIFT
        return self._inner


def order_key(value: Value) -> Any:
    """A key that sorts and tells apart values of one type; marks do not count.

    Known ones by content (text by code point, numbers by size), then null, then unknown.
    """
    raw = value.raw
    if raw is None:
        return (1,)
    if raw is UNKNOWN:
        return (2,)
    if raw.__class__ is tuple:
        return (0, *[order_key(v) for v in raw])
    if raw.__class__ is dict:
        return (0, *[(k, order_key(v)) for k, v in raw.items()])
    return (0, raw)


def all_marks(value: Value) -> frozenset[str]:
    """The marks of a value and of everything in it."""
    if not value.has_marks:
        return NO_MARKS
    raw = value.raw
    parts = raw.values() if isinstance(raw, dict) else raw if isinstance(raw, tuple) else ()
    return value.marks.union(*[all_marks(p) for p in parts])


def unmark_deep(value: Value) -> tuple[Value, frozenset[str]]:
    """The value with no mark anywhere, and the marks taken off."""
    if not value.has_marks:
        return value, NO_MARKS
    marks = all_marks(value)
    raw = value.raw
    if raw.__class__ is tuple:
        raw = tuple(unmark_deep(v)[0] for v in raw)
    elif raw.__class__ is dict:
        raw = {k: unmark_deep(v)[0] for k, v in raw.items()}
    return Value(value.type, raw, NO_MARKS, value.refinement), marks


TRUE: Final = Value(BOOL, True)
FALSE: Final = Value(BOOL, False)
NULL: Final = Value(DYNAMIC, None)
DYNAMIC_UNKNOWN: Final = Value(DYNAMIC, UNKNOWN)
EMPTY_TUPLE: Final = Value(TupleType(()), ())


def string(text: str) -> Value:
    """A string, taken as it is; text read from outside is to be NFC-normalised first."""
    return Value(STRING, text)


def number(figure: float | Fraction | Decimal) -> Value:
    """A number. Raises ValueError for infinities and NaN, OverflowError for absurd sizes."""
    if figure.__class__ is int and figure.bit_length() <= PRECISION:
        return Value(NUMBER, figure)
    if figure.__class__ is int or figure.__class__.__name__ == "Fraction":
        return Value(NUMBER, round_number(figure.numerator, figure.denominator))  # type: ignore[union-attr]  # it is one
    return Value(NUMBER, number_from_decimal(figure))  # type: ignore[arg-type]  # what is left


def boolean(truth: bool) -> Value:
    """TRUE or FALSE."""
    return TRUE if truth else FALSE


def null(of: Type = DYNAMIC) -> Value:
    """The null of a type."""
    return Value(of, None)


def unknown(of: Type = DYNAMIC) -> Value:
    """An unknown of a type."""
    return Value(of, UNKNOWN)


def refined(value: Value, refinement: Refinement) -> Value:
    """The same, with what is known of it; a known value, or one of unknown type, is left as it is.

    A number between two equal bounds is known, and so is a list of so many unknown elements.
    """
    if value.raw is not UNKNOWN or value.type is DYNAMIC:
        return value
    raw = _only_possible(value.type, refinement) if refinement.not_null else UNKNOWN
    return Value(value.type, raw, value.marks, refinement if raw is UNKNOWN else None)


def _only_possible(of: Type, refinement: Refinement) -> Any:
    # What a value that is not null must be, UNKNOWN where more than one is possible.
    if of is NUMBER and refinement.lowest is not None and refinement.lowest == refinement.highest:
        return refinement.lowest
    length = refinement.shortest
    if length != refinement.longest or not isinstance(of, (ListType, MapType, SetType)):
        return UNKNOWN
    if isinstance(of, MapType):
        return UNKNOWN if length else {}
    if isinstance(of, SetType) and length > 1:
        return UNKNOWN
    return (Value(of.element, UNKNOWN),) * length


def refinement_of(value: Value) -> Refinement:
    """What is known of a value, known or not."""
    raw = value.raw
    if raw is UNKNOWN:
        return value.refinement or NOTHING_KNOWN
    if raw is None:
        return NOTHING_KNOWN
    if raw.__class__ is str:
        return Refinement(not_null=True, prefix=raw)
    if raw.__class__ is bool:
        return NOT_NULL
    if raw.__class__ is tuple or raw.__class__ is dict:
        # Unknown elements of a set may turn out to be equal to others.
        fewest = len(raw)
        if isinstance(value.type, SetType) and not value.is_wholly_known:
            fewest = max(1, sum(1 for part in raw if part.is_wholly_known))
        return Refinement(not_null=True, shortest=fewest, longest=len(raw))
    return Refinement(not_null=True, lowest=raw, highest=raw)


def set_value(elements: Iterable[Value], element: Type | None = None) -> Value:
    """A set: sorted, without duplicates, holding the marks of its elements.

    Elements that are not wholly known are kept apart, for each may turn out to be anything.
    """
    items = list(elements)
    marks = NO_MARKS.union(*[all_marks(v) for v in items])
    if marks:
        items = [unmark_deep(v)[0] for v in items]
    kind = SetType(element or (items[0].type if items else DYNAMIC))
    known = {order_key(v): v for v in items if v.is_wholly_known}
    unsure = [v for v in items if not v.is_wholly_known]
    return Value(kind, (*[known[k] for k in sorted(known)], *unsure), marks)


def tuple_value(elements: Iterable[Value]) -> Value:
    """A tuple."""
    items = tuple(elements)
    return Value(TupleType(tuple([v.type for v in items])), items)


def object_value(attributes: Mapping[str, Value]) -> Value:
    """An object, attributes in any order."""
    items = {k: attributes[k] for k in sorted(attributes)}
    return Value(ObjectType(tuple([(k, v.type) for k, v in items.items()])), items)


class Refinement(Struct, frozen=True):
    """What holds of a value that is not known yet, as far as can be said.

    `prefix` is how a text begins; `lowest` and `highest` are numbers (None: no bound) and `shortest`
    and `longest` lengths (None: no bound), all inclusive.
    """

    not_null: bool = False
    prefix: str = ""
    lowest: Any = None
    highest: Any = None
    shortest: int = 0
    longest: int | None = None


NOTHING_KNOWN: Final = Refinement()
NOT_NULL: Final = Refinement(not_null=True)

# Letters and these take marks that follow and become other characters.
_COMBINING: Final = frozenset("<>=")


def beginning(prefix: str) -> Refinement:
    """That of a text of which only the beginning is known.

    A last character that may combine with what follows (`e` with an accent) is left out.
    """
    last = prefix[-1:]
    sure = last.isascii() and not last.isalpha() and last not in _COMBINING
    return Refinement(not_null=True, prefix=prefix if sure else prefix[:-1])


def fulfils(plain: Any, refinement: Refinement) -> bool:
    """Whether plain data, now known, is as was said of it while it was not."""
    if plain is None:
        return not refinement.not_null
    if isinstance(plain, str):
        return plain.startswith(refinement.prefix)
    if isinstance(plain, list | dict):
        longest = refinement.longest
        return refinement.shortest <= len(plain) and (longest is None or len(plain) <= longest)
    lowest, highest = refinement.lowest, refinement.highest
    return (lowest is None or lowest <= plain) and (highest is None or plain <= highest)


def either(first: Refinement, second: Refinement) -> Refinement:
    """What holds of a value that is one of two."""
    return Refinement(
        not_null=first.not_null and second.not_null,
        prefix=_common_prefix(first.prefix, second.prefix),
        lowest=_looser(min, first.lowest, second.lowest),
        highest=_looser(max, first.highest, second.highest),
        shortest=min(first.shortest, second.shortest),
        longest=_looser(max, first.longest, second.longest),
    )


def _looser(choose: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    return None if first is None or second is None else choose(first, second)


def _common_prefix(first: str, second: str) -> str:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return first[:count]
