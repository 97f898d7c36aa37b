"""Kubernetes quantities ("500m", "1.5Gi", "2e3").

They are parsed, compared, added and formatted as in Kubernetes. Percentages ("25%") and durations
("1h30m") are at the end. Source: k8s.io/apimachinery pkg/api/resource. A quantity is never finer
than a nano (finer values round away from zero) and a binary one never above 2**63 - 1.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from math import inf

from msgspec import Struct

_NANO = -9
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
_MAX_DIGITS = 18
_BINARY_DIGITS = 15
# Kubernetes accepts any 32-bit exponent, and computes for minutes on large ones;
# nobody intends them.
_MAX_EXPONENT = 1000

_QUANTITY_PATTERN = re.compile(
    r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: name for name, exponent in _DECIMAL.items()}
_BINARY_NAMES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

WRONG_FORM = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
WRONG_NUMBER = "unable to parse numeric part of quantity"
WRONG_SUFFIX = "unable to parse quantity's suffix"


class QuantityFormat(Enum):
    """Format of a quantity in its source, also used for output."""

    DECIMAL = "decimal suffix"
    BINARY = "binary suffix"
    EXPONENT = "decimal exponent"


class InvalidQuantity(Struct, frozen=True):
    """Text that is not a quantity, with Kubernetes' message."""

    text: str
    message: str


class Quantity(Struct, frozen=True, eq=False):
    """Exact amount: `unscaled` * 10**`scale`, equal to `nano` thousand-millionths.

    Compared by value: 1Gi equals 1024Mi. `source_text` is the user's text if Kubernetes keeps it as
    canonical, else "".
    """

    unscaled: int
    scale: int
    format: QuantityFormat
    nano: int
    source_text: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __ne__(self, other: object) -> bool:
        # A Struct defines its own, by identity.
        return not self == other

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __str__(self) -> str:
        return self.source_text or _format_canonical(self)

    def __add__(self, other: Quantity) -> Quantity:
        return _add_quantities(self, other, 1)

    def __sub__(self, other: Quantity) -> Quantity:
        return _add_quantities(self, other, -1)

    def convert_to_float(self) -> float:
        """Return the double used by KubeFleet's property sorter: digits times a power of ten.

        It is not always the nearest double: 0.3 is 3 * 0.1. Beyond the range it is infinite.
        """
        base = _convert_to_float(self.unscaled)
        return base if self.scale == 0 else base * _compute_power_of_ten(self.scale)

    def round_to_units(self) -> int:
        """Round the quantity to units, away from zero."""
        return self.round_to_power(0)

    def round_to_milli(self) -> int:
        """Round the quantity to thousandths, away from zero."""
        return self.round_to_power(-3)

    def round_to_power(self, exponent: int) -> int:
        """Round the quantity to units of 10**exponent (at least -9), away from zero."""
        divisor = int(10 ** (exponent - _NANO))
        if self.nano < 0:
            return self.nano // divisor  # rounds down
        # Two negations round up.
        return -(-self.nano // divisor)


def build_quantity(
    units: int, quantity_format: QuantityFormat = QuantityFormat.DECIMAL, scale: int = 0
) -> Quantity:
    """Build a quantity of `units` * 10**scale; scale is -9 or more."""
    return Quantity(units, scale, quantity_format, units * int(10 ** (scale - _NANO)))


def build_cpu_quantity(milli: int) -> Quantity:
    """Build the quantity of thousandths of a CPU as in Kubernetes: 2, 1500m."""
    return build_quantity(milli, scale=-3) if milli % 1000 else build_quantity(milli // 1000)


@lru_cache(maxsize=65536)
def parse_quantity(text: str) -> Quantity | InvalidQuantity:
    """Parse a quantity as in Kubernetes; InvalidQuantity contains the error.

    Kubernetes parses a small amount and a large one (or one finer than a nano) differently, and so
    does this function.
    """
    match = _QUANTITY_PATTERN.fullmatch(text)
    if not text or match is None:
        return InvalidQuantity(text, WRONG_FORM)
    sign, integer_digits, _, fraction, suffix = match.groups()
    format_and_exponent = _parse_suffix(suffix)
    if format_and_exponent is None:
        return InvalidQuantity(text, WRONG_SUFFIX)
    quantity_format, exponent = format_and_exponent
    if exponent > _MAX_EXPONENT:
        return InvalidQuantity(text, f"exponents above {_MAX_EXPONENT} are not supported")
    number = _Number(
        sign=-1 if sign == "-" else 1,
        integer_digits=integer_digits.lstrip("0") or "0",
        fraction=fraction or "",
        has_digits=bool(integer_digits or fraction),
    )
    result = _parse_small_quantity(number, quantity_format, exponent)
    # Too large, too fine, or a binary amount with a fraction.
    if result is None:
        return _parse_large_quantity(text, number, quantity_format, exponent)
    unscaled, scale = result
    # Kubernetes' quick test of a canonical text: it is printed as written. Others
    # are formatted again.
    if quantity_format is QuantityFormat.BINARY:
        # No multiple of 8.
        is_canonical = (abs(unscaled) >> exponent) & 7 != 0
    else:
        digits = number.integer_digits + number.fraction
        is_canonical = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    source_text = text if is_canonical else ""
    nano = unscaled * int(10 ** (scale - _NANO))
    return Quantity(unscaled, scale, quantity_format, nano, source_text)


def read_quantity(value: object) -> Quantity | None:
    """Return the quantity of a value in a document, a text or a number.

    Return None if it is absent or invalid.
    """
    quantity = parse_quantity(str(value))
    return None if isinstance(quantity, InvalidQuantity) else quantity


def read_quantity_or_zero(value: object) -> Quantity:
    """Return the quantity of a value in a document; 0 if it is absent or invalid."""
    return read_quantity(value) or build_quantity(0)


class _Number(Struct, frozen=True):
    """Sign, digits before and after the point, and whether there are any digits.

    The digits before the point have no leading zeros.
    """

    sign: int
    integer_digits: str
    fraction: str
    has_digits: bool

    @property
    def digits(self) -> int:
        # -15 for -1.5.
        return self.sign * int(self.integer_digits + self.fraction)


def _parse_suffix(text: str) -> tuple[QuantityFormat, int] | None:
    """Return the format and the exponent (of 10 or 2) of a suffix: (BINARY, 30) for "Gi".

    Return None if it is invalid.
    """
    if text in _DECIMAL:
        return QuantityFormat.DECIMAL, _DECIMAL[text]
    if text in _BINARY:
        return QuantityFormat.BINARY, _BINARY[text]
    exponent = text[1:]
    if (
        text[:1] in ("e", "E")
        and re.fullmatch(r"[+-]?[0-9]+", exponent, re.ASCII)
        and len(exponent) < _MAX_DIGITS
    ):
        return QuantityFormat.EXPONENT, int(exponent)
    return None


def _parse_small_quantity(
    number: _Number, quantity_format: QuantityFormat, exponent: int
) -> tuple[int, int] | None:
    """Return an amount as (unscaled, scale): unscaled * 10**scale, such as (15, -1) for 1.5.

    Return None if it may be beyond 64 bits, is finer than a nano, or is binary with
    a fraction (`1.5Gi`).
    """
    if quantity_format is QuantityFormat.BINARY:
        # The factor 2**exponent adds up to exponent * 3 // 10 + 1 decimal digits.
        spare_digits = _BINARY_DIGITS - len(number.integer_digits) - exponent * 3 // 10 - 1
        if number.fraction or spare_digits < 0:
            return None
        return number.digits << exponent, 0
    scale = exponent - len(number.fraction)
    if len(number.integer_digits) + len(number.fraction) > _MAX_DIGITS or scale < _NANO:
        return None
    return number.digits, scale


def _parse_large_quantity(
    text: str, number: _Number, quantity_format: QuantityFormat, exponent: int
) -> Quantity | InvalidQuantity:
    """Parse an amount to exact nanos.

    The amount is beyond 64 bits, finer than a nano, or binary with a fraction (`1.5Gi`). As in
    Kubernetes, the largest binary amount is 2**63 - 1, and a binary amount below 1 becomes decimal.
    """
    if not number.has_digits:
        return InvalidQuantity(text, WRONG_NUMBER)
    digits = abs(number.digits)
    # The exponent is of 2: apply it at once.
    if quantity_format is QuantityFormat.BINARY:
        digits = digits << exponent
        exponent = 0
    places = exponent - len(number.fraction) - _NANO
    if places >= 0:
        nano = digits * int(10**places)
    elif -places > len(str(digits)):
        # Finer than a nano: rounded up, without the huge power of ten.
        nano = min(digits, 1)
    else:
        # The last digits are dropped; two negations round up.
        nano = -(-digits // int(10**-places))
    unscaled = nano
    scale = _NANO
    if quantity_format is QuantityFormat.BINARY:
        if nano > MAX_INT64 * 10**9:
            unscaled = MAX_INT64
            scale = 0
            nano = MAX_INT64 * 10**9
        if 0 < nano < 10**9:
            quantity_format = QuantityFormat.DECIMAL
    return Quantity(number.sign * unscaled, scale, quantity_format, number.sign * nano)


def _convert_to_float(value: int) -> float:
    """Return the nearest double, infinite beyond the range."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _compute_power_of_ten(exponent: int) -> float:
    """Compute 10**exponent with the rounding of Go's math.Pow10.

    Go multiplies two entries of tables: one of 1e0 to 1e31, and one of 1e0, 1e32, 1e64 and so on.
    """
    if exponent < 0:
        return 1.0 / float(f"1e{-exponent}")
    if exponent > 308:
        return inf
    high, low = divmod(exponent, 32)
    return float(f"1e{high * 32}") * float(f"1e{low}")


def _add_quantities(left: Quantity, right: Quantity, sign: int) -> Quantity:
    """Add two quantities, or subtract the right one (sign -1).

    The left format counts, unless the left is 0.
    """
    quantity_format = right.format if left.nano == 0 else left.format
    # The finer one.
    scale = min(left.scale, right.scale)
    left_amount = left.unscaled * int(10 ** (left.scale - scale))
    right_amount = right.unscaled * int(10 ** (right.scale - scale))
    return Quantity(
        left_amount + sign * right_amount, scale, quantity_format, left.nano + sign * right.nano
    )


def _format_canonical(quantity: Quantity) -> str:
    """Format a quantity as a whole number with the largest suffix without a fraction.

    Examples are `1536Mi` and `1500m`. Kubernetes formats binary amounts below 1024 or with a
    fraction as decimal.
    """
    if quantity.nano == 0:
        return "0"
    sign = "-" if quantity.nano < 0 else ""
    # The value is amount * 10**exponent.
    amount = abs(quantity.nano)
    exponent = _NANO
    units, remainder = divmod(amount, 10**9)
    if quantity.format is QuantityFormat.BINARY and units >= 1024 and remainder == 0:
        trailing_zero_bits = (units & -units).bit_length() - 1
        suffix_index = min(trailing_zero_bits // 10, len(_BINARY_NAMES) - 1)
        return f"{sign}{units >> 10 * suffix_index}{_BINARY_NAMES[suffix_index]}"
    while amount % 1000 == 0:
        amount = amount // 1000
        exponent = exponent + 3
    if exponent == 0:
        return f"{sign}{amount}"
    if quantity.format is QuantityFormat.EXPONENT or exponent not in _DECIMAL_NAMES:
        return f"{sign}{amount}e{exponent}"
    return f"{sign}{amount}{_DECIMAL_NAMES[exponent]}"


class IntegerOrPercent(Struct, frozen=True):
    """Number, or percentage of a total."""

    value: int
    is_percent: bool = False

    def compute(self, total: int, *, rounds_up: bool = True) -> int:
        """Compute the number for a total.

        A percentage is rounded up, or down if `rounds_up` is False.
        """
        if not self.is_percent:
            return self.value
        product = self.value * total
        return -(-product // 100) if rounds_up else product // 100

    def __str__(self) -> str:
        return f"{self.value}%" if self.is_percent else str(self.value)


def parse_int_or_percent(source: str | int) -> IntegerOrPercent | str:
    """Parse a number or a text ("25%", "2"); return a message if it is invalid."""
    if isinstance(source, int):
        return IntegerOrPercent(source)
    match = re.fullmatch(r"(-?[0-9]{1,10})(%?)", source, re.ASCII)
    if match is None:
        return f'{source!r} is neither a whole number nor a percentage such as "25%"'
    return IntegerOrPercent(int(match[1]), bool(match[2]))


def find_weaker_amount(
    name: str,
    old: IntegerOrPercent | Quantity | None,
    new: IntegerOrPercent | Quantity | None,
    *,
    is_minimum: bool = False,
) -> str:
    """Return `max_unavailable 1 to 2` if an amount of a rule becomes weaker, else "".

    A limit becomes weaker when it rises, a minimum when it falls. Another form of an amount counts
    as weaker, because the total decides.
    """
    if old == new or _is_as_strict(old, new, is_minimum=is_minimum):
        return ""
    start, end = (amount if amount is not None else "none" for amount in (old, new))
    return f"{name} {start} to {end}"


def _is_as_strict(
    old: IntegerOrPercent | Quantity | None,
    new: IntegerOrPercent | Quantity | None,
    *,
    is_minimum: bool,
) -> bool:
    """Return whether two amounts of one form are comparable, and the new one is as strict."""
    match old, new:
        case Quantity(), Quantity():
            return new >= old if is_minimum else new <= old
        case IntegerOrPercent(), IntegerOrPercent() if old.is_percent == new.is_percent:
            return new.value >= old.value if is_minimum else new.value <= old.value
    return False


def compute_amount_of_total(source: str, total: int) -> int:
    """Compute how many of a total a text represents: `2`, or `33%` rounded up; 0 if invalid."""
    amount = parse_int_or_percent(source.strip())
    return max(amount.compute(total), 0) if isinstance(amount, IntegerOrPercent) else 0


_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(source: str) -> float | str:
    """Parse a text such as "1h30m" to seconds, or return an error message.

    Units are hours, minutes and seconds.
    """
    if not re.fullmatch(r"([0-9]{1,9}(\.[0-9]{1,9})?[smh])+", source, re.ASCII):
        return (
            f'{source!r} is not a duration such as "1h30m": hours (h), minutes (m) and seconds (s) '
            "only"
        )
    parts = re.findall(r"([0-9.]+)([smh])", source)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
