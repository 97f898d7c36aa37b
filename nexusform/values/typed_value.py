"""Values of expressions: typed values, unknowns and marks, refinements, and numbers.

Refinements are those of unknown values. A refinement is a known property of an unknown value
besides its type: not null, a text prefix, bounds of a number or of the length of a collection. The
evaluator uses these values. Planning, state and providers use plain data: json_data/plain_data.py
converts between the two. Numbers of HCL, as text and in arithmetic, are whole, or binary fractions
of limited precision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from math import trunc
from posixpath import commonprefix
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from msgspec import Struct

from nexusform.schemas.value_types import (
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
    describe_type,
)

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

# Numbers are integers or binary fractions (Fraction) of at most PRECISION significant bits, as in
# HCL. A number with more than MAX_DIGITS decimal digits is rejected, because its text and cost
# would be unbounded.
PRECISION: Final = 512
MAX_DIGITS: Final = 4000
_MAX_BITS: Final = 13_000
# The logarithm of 2 to base 10.
_DECIMAL_DIGITS_PER_BIT: Final = 0.30103


def round_number(numerator: int, denominator: int) -> int | Fraction:
    """Round `numerator / denominator` (denominator > 0) to PRECISION bits, ties to even.

    Raises OverflowError for more than about MAX_DIGITS digits.
    """
    from fractions import Fraction

    if numerator == 0:
        return 0
    if numerator < 0:
        return -round_number(-numerator, denominator)
    # About the binary logarithm of the quotient.
    magnitude = numerator.bit_length() - denominator.bit_length()
    if abs(magnitude) > _MAX_BITS:
        raise OverflowError("the number has too many digits")
    # Scales the quotient to PRECISION bits.
    shift = PRECISION - magnitude
    if (numerator << max(shift, 0)) >= (denominator << max(-shift, 0) << PRECISION):
        # The quotient would have one bit too many.
        shift -= 1
    scaled = numerator << max(shift, 0)
    divisor = denominator << max(-shift, 0)
    quotient, rest = divmod(scaled, divisor)
    is_odd = quotient & 1
    # A tie (2 * rest == divisor) rounds up if the quotient is odd.
    if 2 * rest + is_odd > divisor:
        quotient += 1
    if shift <= 0:
        return quotient << -shift
    fraction = Fraction(quotient, 1 << shift)
    return fraction.numerator if fraction.denominator == 1 else fraction


def convert_decimal(decimal: Decimal | float | str) -> int | Fraction:
    """Convert a decimal, a float (as printed by Python) or text to the nearest number.

    Raises ValueError if it is not a finite number, OverflowError beyond MAX_DIGITS digits.
    """
    from decimal import Decimal, InvalidOperation

    try:
        exact = decimal if isinstance(decimal, Decimal) else Decimal(str(decimal))
    except InvalidOperation:
        raise ValueError(f"not a number: {decimal!r}") from None
    if not exact.is_finite():
        raise ValueError(f"not a finite number: {decimal!r}")
    if exact and abs(exact.adjusted()) > MAX_DIGITS:
        raise OverflowError("the number has too many digits")
    numerator, denominator = exact.as_integer_ratio()
    return round_number(numerator, denominator)


Number: TypeAlias = "int | Fraction"

_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?\Z")


def parse_number(text: str) -> Number | None:
    """Parse a number in decimal notation; None if it is not one.

    Raises OverflowError for too many digits.
    """
    return convert_decimal(text) if _DECIMAL.match(text) else None


def normalize_number(number: Number) -> Number:
    """Round a result of exact arithmetic to the precision of a number.

    Raises OverflowError for too many digits.
    """
    if number.__class__ is int and number.bit_length() <= PRECISION:
        return number
    return round_number(number.numerator, number.denominator)


def format_number(number: Number) -> str:
    """Format the shortest decimal text, without exponent, that parses to the same number."""
    # Every digit is needed.
    if number.__class__ is int and number.bit_length() <= PRECISION:
        return str(number)
    if number < 0:
        return "-" + format_number(-number)
    return format_digits(*compute_shortest_digits(number))


def format_digits(digits: str, point: int) -> str:
    """Format the decimal 0.d1d2...

    * 10**point without exponent: ("15", 1) is "1.5", ("15", 3) is "150".
    """
    if point <= 0:
        return "0." + "0" * -point + digits
    if len(digits) <= point:
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"


def compute_shortest_digits(number: Number) -> tuple[str, int]:
    """Return the shortest decimal for a number above zero, 0.digits * 10**point.

    The result for 12.5 is "125" and 2.
    """
    # Add digits until the decimal is within half a step of the number. A step leads to the next one
    # of PRECISION bits.
    numerator = number.numerator
    denominator = number.denominator
    shift = PRECISION - numerator.bit_length()
    # The numerator with PRECISION bits.
    mantissa = numerator << shift if shift >= 0 else numerator >> -shift
    # The number is exact / scale, and half a step between neighbours is half / scale. exponents of
    # two: all of these stay whole numbers.
    grow = max(shift + 1, 0)
    shrink = max(-shift - 1, 0)
    scale = denominator << grow
    exact = 2 * mantissa << shrink
    half = 1 << shrink
    # A tie rounds to an even mantissa.
    inclusive = mantissa % 2 == 0
    point = _find_decimal_point(exact, scale)
    power = -point
    while True:
        # As an integer, number * 10**power has one more digit than before, at first one.
        power += 1
        # 10**power == above / below.
        above = 10 ** max(power, 0)
        below = 10 ** max(-power, 0)
        # The candidate is an integer next to number * 10**power; both gaps are in units of 1 /
        # (scale * below).
        down, low_gap = divmod(exact * above, scale * below)
        high_gap = scale * below - low_gap
        candidate = down + 1
        gap = high_gap
        if down > 0 and low_gap <= high_gap:
            candidate = down
            gap = low_gap
        # Exactly half the distance is near enough for an even mantissa.
        if gap < half * above + inclusive:
            text = str(candidate)
            return text.rstrip("0"), len(text) - power


def _find_decimal_point(numerator: int, denominator: int) -> int:
    """Return the point with 10**(point - 1) <= numerator / denominator < 10**point."""
    point = int(
        (numerator.bit_length() - denominator.bit_length()) * _DECIMAL_DIGITS_PER_BIT
    )  # an estimate
    while _is_power_of_ten_reached(numerator, denominator, point):
        point += 1
    while not _is_power_of_ten_reached(numerator, denominator, point - 1):
        point -= 1
    return point


def _is_power_of_ten_reached(numerator: int, denominator: int, power: int) -> bool:
    """Check whether numerator / denominator >= 10**power."""
    above: int = 10 ** max(power, 0)
    below: int = 10 ** max(-power, 0)
    # 10**power == above / below.
    return numerator * below >= denominator * above


def compute_quotient(left: Number, right: Number) -> Number:
    """Compute the quotient; `right` is not zero.

    Raises OverflowError.
    """
    # `round_number` needs a denominator above zero.
    if right < 0:
        left = -left
        right = -right
    return round_number(left.numerator * right.denominator, left.denominator * right.numerator)


def compute_remainder(left: Number, right: Number) -> Number:
    """Return the remainder of division towards zero: it has the sign of `left`.

    Every step is rounded, so `11 % 5.1` has the same digits as in other implementations.
    Raises ZeroDivisionError, OverflowError.
    """
    if left.__class__ is int and right.__class__ is int:
        absolute_remainder = abs(left) % abs(right)
        return -absolute_remainder if left < 0 else absolute_remainder
    whole_quotient = trunc(compute_quotient(left, right))
    return normalize_number(left - normalize_number(right * whole_quotient))


class Unknown:
    """Type of the single value `UNKNOWN`: known only after apply."""

    _instance: Self | None = None

    def __new__(cls) -> Self:
        """Return the single instance."""
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
EPHEMERAL: Final[frozenset[str]] = frozenset({"ephemeral"})

_NOT_COMPUTED: Final = -1
_HAS_UNKNOWN: Final = 1
_HAS_MARKS: Final = 2
_TRAITS: Final = 3
_SIZE_SHIFT: Final = 2
# 32 characters count as much as a value.
_CHARACTERS_SHIFT: Final = 5


class Value:
    """Value of a type, immutable.

    `raw` is None (null), UNKNOWN, str, bool, int or Fraction, a tuple of Values (list, tuple; a set
    sorted and without duplicates), or a dict of Values in key order (map, object). `marks` are
    those of the value itself; elements have their own, except in a set, which has those of its
    elements. `refinement` is the refinement of an unknown; it is ignored in comparisons.
    """

    __slots__ = ("_inner", "marks", "raw", "refinement", "type")

    def __init__(
        self,
        type: Type,  # noqa: A002 - the word for it
        raw: Any,
        marks: frozenset[str] = NO_MARKS,
        refinement: Refinement | None = None,
    ) -> None:
        """Create a value.

        `raw` is a scalar, a tuple or dict of Values, None for null, or UNKNOWN.
        """
        self.type: Final = type
        self.raw: Final = raw
        self.marks: Final = marks
        self.refinement: Final = refinement
        self._inner = _NOT_COMPUTED  # see _compute_value_traits

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Value):
            return NotImplemented
        # The refinement is not compared.
        return self.type == other.type and self.raw == other.raw and self.marks == other.marks

    def __hash__(self) -> int:
        return hash((compute_order_key(self), self.marks))

    def __repr__(self) -> str:
        marks = f", {sorted(self.marks)}" if self.marks else ""
        return f"Value({describe_type(self.type)}, {self.raw!r}{marks})"

    @property
    def is_null(self) -> bool:
        """True for null."""
        return self.raw is None

    @property
    def is_known(self) -> bool:
        """True if the value itself is known; parts of it may be unknown."""
        return self.raw is not UNKNOWN

    @property
    def is_sensitive(self) -> bool:
        """True if the value as a whole is sensitive."""
        return "sensitive" in self.marks

    @property
    def is_ephemeral(self) -> bool:
        """True if the value as a whole is ephemeral: it may not be saved."""
        return "ephemeral" in self.marks

    @property
    def has_ephemeral(self) -> bool:
        """True if it or any part of it is ephemeral."""
        return self.has_marks and "ephemeral" in collect_marks(self)

    @property
    def is_wholly_known(self) -> bool:
        """True if it and every part of it is known."""
        return not self._compute_value_traits() & _HAS_UNKNOWN

    @property
    def has_marks(self) -> bool:
        """True if it or any part of it is marked."""
        return bool(self.marks) or bool(self._compute_value_traits() & _HAS_MARKS)

    def add_marks(self, marks: frozenset[str]) -> Value:
        """Return the value with these marks added."""
        if marks <= self.marks:
            return self
        return self._replace_marks(self.marks | marks)

    def remove_marks(self) -> Value:
        """Return the value without its own marks; those of its parts stay."""
        return self._replace_marks(NO_MARKS) if self.marks else self

    def _replace_marks(self, marks: frozenset[str]) -> Value:
        other = Value(self.type, self.raw, marks, self.refinement)
        # Traits of its parts, which stay.
        other._inner = self._inner
        return other

    @property
    def parts(self) -> Collection[Value]:
        """Elements of a known collection or structure; none for any other value."""
        if self.raw.__class__ is dict:
            return self.raw.values()
        return self.raw if self.raw.__class__ is tuple else ()

    def change_parts(self, change: Callable[[Value], Value]) -> Any:
        """Return the value's `raw` with every part replaced by `change(part)`.

        A `raw` without parts is returned unchanged.
        """
        if self.raw.__class__ is dict:
            return {name: change(part) for name, part in self.raw.items()}
        if self.raw.__class__ is tuple:
            return tuple(map(change, self.raw))
        return self.raw

    @property
    def size(self) -> int:
        """Number of values in it, including itself.

        Shared parts count once per use, text by length.
        """
        # The size is in the upper bits.
        return self._compute_value_traits() >> _SIZE_SHIFT

    def _compute_value_traits(self) -> int:
        """Return traits of the value in one integer, computed once.

        _HAS_UNKNOWN for an unknown value or part, _HAS_MARKS for a marked part, and the size in the
        bits from _SIZE_SHIFT on.
        """
        if self._inner != _NOT_COMPUTED:
            return self._inner
        raw = self.raw
        traits = 0
        size = 1
        if raw is UNKNOWN:
            traits = _HAS_UNKNOWN
        elif raw.__class__ is str:
            size += len(raw) >> _CHARACTERS_SHIFT
        else:
            for part in self.parts:
                inner = part._compute_value_traits()  # noqa: SLF001 - the same class
                traits |= inner & _TRAITS
                size += inner >> _SIZE_SHIFT
                if part.marks:
                    traits |= _HAS_MARKS
        self._inner = traits | size << _SIZE_SHIFT
        return self._inner


def compute_order_key(value: Value) -> Any:
    """Return a key to sort and distinguish values of one type, without marks.

    Known values come first, then null, then unknown ones.
    """
    raw = value.raw
    if raw is None:
        return (1,)
    if raw is UNKNOWN:
        return (2,)
    if raw.__class__ is tuple:
        return (0, *map(compute_order_key, raw))
    if raw.__class__ is dict:
        return (0, *[(name, compute_order_key(part)) for name, part in raw.items()])
    # Text by code point, numbers by size.
    return (0, raw)


def collect_marks(value: Value) -> frozenset[str]:
    """Collect the marks of a value and of all its parts."""
    if not value.has_marks:
        return NO_MARKS
    return value.marks.union(*map(collect_marks, value.parts))


def remove_all_marks(value: Value) -> tuple[Value, frozenset[str]]:
    """Remove all marks from a value and its parts.

    Return it, and the removed marks.
    """
    if not value.has_marks:
        return value, NO_MARKS
    raw = value.change_parts(lambda part: remove_all_marks(part)[0])
    return Value(value.type, raw, NO_MARKS, value.refinement), collect_marks(value)


TRUE: Final = Value(BOOL, True)
FALSE: Final = Value(BOOL, False)
NULL: Final = Value(DYNAMIC, None)
DYNAMIC_UNKNOWN: Final = Value(DYNAMIC, UNKNOWN)
EMPTY_TUPLE: Final = Value(TupleType(()), ())


def build_string(text: str) -> Value:
    """Build a string; external text must be NFC-normalised before."""
    return Value(STRING, text)


def build_number(figure: float | Fraction | Decimal) -> Value:
    """Build a number.

    Raises ValueError for infinities and NaN, OverflowError for extreme sizes.
    """
    # By name, without importing its module.
    if figure.__class__ is int or figure.__class__.__name__ == "Fraction":
        return Value(NUMBER, normalize_number(figure))  # type: ignore[arg-type]  # it is one
    return Value(NUMBER, convert_decimal(figure))  # type: ignore[arg-type]  # what is left


def build_boolean(truth: bool) -> Value:
    """Return TRUE or FALSE."""
    return TRUE if truth else FALSE


def build_null(value_type: Type = DYNAMIC) -> Value:
    """Build the null of a type."""
    return Value(value_type, None)


def build_unknown(value_type: Type = DYNAMIC) -> Value:
    """Build an unknown of a type."""
    return Value(value_type, UNKNOWN)


def add_refinement(value: Value, refinement: Refinement) -> Value:
    """Add known limits to an unknown value; a known value, or one of unknown type, is unchanged.

    A number between two equal bounds becomes known, and so does a list with a known number of
    unknown elements. The result has only these limits: those of the value before are dropped.
    """
    if value.raw is not UNKNOWN or value.type is DYNAMIC:
        return value
    # With null as another possibility, the value stays unknown.
    raw = _find_only_possible_value(value.type, refinement) if refinement.not_null else UNKNOWN
    return Value(value.type, raw, value.marks, refinement if raw is UNKNOWN else None)


def _find_only_possible_value(value_type: Type, refinement: Refinement) -> Any:
    """Return the only raw value within the known limits of an unknown, non-null value.

    Return UNKNOWN if there are several. A number between equal bounds is that bound. A list with
    exactly two elements is a list of two unknown elements. An empty map is known, but not a map
    with elements: its keys are open.
    """
    if value_type is NUMBER:
        # None: no bound.
        lowest = refinement.lowest
        highest = refinement.highest
        return lowest if lowest is not None and lowest == highest else UNKNOWN
    length = refinement.shortest
    has_known_length = length == refinement.longest
    if not has_known_length or not isinstance(value_type, (ListType, MapType, SetType)):
        return UNKNOWN
    if isinstance(value_type, MapType):
        return UNKNOWN if length else {}
    if isinstance(value_type, SetType) and length > 1:
        # Its elements must differ.
        return UNKNOWN
    return (Value(value_type.element, UNKNOWN),) * length


def get_refinement(value: Value) -> Refinement:
    """Return what is known of a value.

    Not null, the prefix of a text, bounds of a number or length. A known value has itself as its
    limits: the text "ab" has the prefix "ab", and 3 is between 3 and 3. Nothing is known of null,
    since `not_null` is the opposite.
    """
    raw = value.raw
    if raw is UNKNOWN:
        return value.refinement or NO_REFINEMENT
    if raw is None:
        return NO_REFINEMENT
    if raw.__class__ is str:
        return Refinement(not_null=True, prefix=raw)
    if raw.__class__ is bool:
        return NOT_NULL
    if raw.__class__ in (tuple, dict):
        minimum = len(raw)
        if isinstance(value.type, SetType) and not value.is_wholly_known:
            # Unknown elements may be equal to others.
            minimum = max(1, sum(part.is_wholly_known for part in raw))
        return Refinement(not_null=True, shortest=minimum, longest=len(raw))
    return Refinement(not_null=True, lowest=raw, highest=raw)  # a number


def build_set(elements: Iterable[Value], element_type: Type) -> Value:
    """Build a sorted set without duplicates, with the marks of its elements.

    Partly unknown ones stay separate.
    """
    known_elements: dict[Any, Value] = {}
    unknown_elements: list[Value] = []
    marks = NO_MARKS
    for element in elements:
        unmarked, element_marks = remove_all_marks(element)
        marks |= element_marks
        if unmarked.is_wholly_known:
            known_elements[compute_order_key(unmarked)] = unmarked
        else:
            unknown_elements.append(unmarked)
    sorted_elements = [known_elements[key] for key in sorted(known_elements)]
    return Value(SetType(element_type), (*sorted_elements, *unknown_elements), marks)


def build_tuple(elements: Iterable[Value]) -> Value:
    """Build a tuple."""
    items = tuple(elements)
    return Value(TupleType(tuple([item.type for item in items])), items)


def build_object(attributes: Mapping[str, Value]) -> Value:
    """Build an object, attributes in any order."""
    items = {name: attributes[name] for name in sorted(attributes)}
    return Value(ObjectType(tuple([(name, value.type) for name, value in items.items()])), items)


class Refinement(Struct, frozen=True):
    """Known properties of an unknown value.

    `prefix` is the start of a text; `lowest` and `highest` are numbers (None: no bound) and
    `shortest` and `longest` lengths (None: no bound), all inclusive.
    """

    not_null: bool = False
    prefix: str = ""
    lowest: Any = None
    highest: Any = None
    shortest: int = 0
    longest: int | None = None


NO_REFINEMENT: Final = Refinement()
NOT_NULL: Final = Refinement(not_null=True)

# Letters and these characters may combine with following marks.
_COMBINING: Final = frozenset("<>=")


def build_prefix(prefix: str) -> Refinement:
    """Build the refinement of a text with a known prefix.

    The last character of the prefix is left out if it may combine with the next.
    """
    last = prefix[-1:]
    is_final = last.isascii() and not last.isalpha() and last not in _COMBINING
    return Refinement(not_null=True, prefix=prefix if is_final else prefix[:-1])


def is_refinement_met(plain_value: Any, refinement: Refinement) -> bool:
    """Return whether plain data, now known, is within the limits of its earlier refinement."""
    if plain_value is None:
        return not refinement.not_null
    if isinstance(plain_value, str):
        return plain_value.startswith(refinement.prefix)
    if isinstance(plain_value, list | dict):
        return is_within_bounds(len(plain_value), refinement.shortest, refinement.longest)
    # Both None for a bool.
    return is_within_bounds(plain_value, refinement.lowest, refinement.highest)


def is_within_bounds(number: Any, lowest: Any, highest: Any) -> bool:
    """Check whether a number is within inclusive bounds; None is no bound."""
    return (lowest is None or lowest <= number) and (highest is None or number <= highest)


def combine_refinements(first: Refinement, second: Refinement) -> Refinement:
    """Return the properties certain for a value with either of two refinements."""
    return Refinement(
        not_null=first.not_null and second.not_null,
        prefix=commonprefix([first.prefix, second.prefix]),
        lowest=_choose_common_bound(min, first.lowest, second.lowest),
        highest=_choose_common_bound(max, first.highest, second.highest),
        shortest=min(first.shortest, second.shortest),
        longest=_choose_common_bound(max, first.longest, second.longest),
    )


def _choose_common_bound(choose: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    """Return the bound valid for values of both ranges; None if a range has no bound."""
    return None if first is None or second is None else choose(first, second)
