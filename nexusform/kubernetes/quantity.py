"""Kubernetes quantities ("500m", "1.5Gi", "2e3"): read, compared, added and written as Kubernetes does.

Amounts ("25%") and durations ("1h30m") stand at the end.

Source: k8s.io/apimachinery pkg/api/resource. A quantity is never finer than a nano (finer values round
away from zero) and a binary one never above 2**63 - 1.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from msgspec import Struct

_NANO = -9
LARGEST_INT32, LARGEST_INT64 = 2**31 - 1, 2**63 - 1
_MOST_DIGITS = 18
_BINARY_DIGITS = 15
# Kubernetes reads any 32-bit exponent and then works for minutes on the larger ones; nobody means them.
_LARGEST_EXPONENT = 1000

_WRITTEN = re.compile(r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: name for name, exponent in _DECIMAL.items()}
_BINARY_NAMES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

WRONG_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_NUMBER = "unable to parse numeric part of quantity"
WRONG_SUFFIX = "unable to parse quantity's suffix"


class Form(Enum):
    """How a quantity was written, and so how it is written again."""

    DECIMAL = "decimal suffix"
    BINARY = "binary suffix"
    EXPONENT = "decimal exponent"


class Malformed(Struct, frozen=True):
    """A text that is no quantity, and Kubernetes' own words about it."""

    text: str
    message: str


class Quantity(Struct, frozen=True, eq=False):
    """An exact amount: `unscaled` * 10**`scale`, which is `nano` thousand-millionths.

    Compared by value: 1Gi equals 1024Mi. `written` is the user's text where that already is canonical
    enough for Kubernetes to keep it, else "".
    """

    unscaled: int
    scale: int
    form: Form
    nano: int
    written: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __ne__(self, other: object) -> bool:
        return not self == other  # a Struct has one of its own, by identity

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __str__(self) -> str:
        return self.written or _canonical(self)

    def __add__(self, other: Quantity) -> Quantity:
        return _sum(self, other, 1)

    def __sub__(self, other: Quantity) -> Quantity:
        return _sum(self, other, -1)

    def as_float(self) -> float:
        """The double that KubeFleet's property sorter works with: digits times a power of ten.

        Not always the nearest double: 0.3 is 3 * 0.1. Beyond the range it is infinite.
        """
        base = _to_float(self.unscaled)
        return base if self.scale == 0 else base * _power_of_ten(self.scale)

    def whole(self) -> int:
        """The quantity in units, rounded away from zero."""
        return self.in_units_of(0)

    def milli(self) -> int:
        """The quantity in thousandths, rounded away from zero."""
        return self.in_units_of(-3)

    def in_units_of(self, exponent: int) -> int:
        """The quantity in units of 10**exponent (at least -9), rounded away from zero."""
        return _divide_away(self.nano, int(10 ** (exponent - _NANO)))


def make_quantity(units: int, form: Form = Form.DECIMAL, scale: int = 0) -> Quantity:
    """A quantity of `units` * 10**scale; scale is -9 or more."""
    return Quantity(units, scale, form, units * int(10 ** (scale - _NANO)))


def cpu_quantity(milli: int) -> Quantity:
    """Thousandths of a CPU as Kubernetes writes them: 2, 1500m."""
    return make_quantity(milli, scale=-3) if milli % 1000 else make_quantity(milli // 1000)


@lru_cache(maxsize=65536)
def parse_quantity(text: str) -> Quantity | Malformed:
    """Read a quantity as Kubernetes does; Malformed says why it is none."""
    match = _WRITTEN.fullmatch(text)
    if not text or match is None:
        return Malformed(text, WRONG_FORM)
    sign, whole, _, fraction, suffix = match.groups()
    meaning = _suffix(suffix)
    if meaning is None:
        return Malformed(text, WRONG_SUFFIX)
    form, exponent = meaning
    if exponent > _LARGEST_EXPONENT:
        return Malformed(text, f"exponents above {_LARGEST_EXPONENT} are not supported")
    number = _Number(
        -1 if sign == "-" else 1, whole.lstrip("0") or "0", fraction or "", bool(whole or fraction)
    )
    quick = _quick(number, form, exponent)
    if quick is None:
        return _slow(text, number, form, exponent)
    unscaled, scale = quick
    written = text if _kept_as_written(number, form, unscaled, scale, exponent) else ""
    return Quantity(unscaled, scale, form, unscaled * int(10 ** (scale - _NANO)), written)


class _Number(Struct, frozen=True):
    """Sign, digits before the point without leading zeros, digits after it, whether any were written."""

    sign: int
    whole: str
    fraction: str
    has_digits: bool

    @property
    def digits(self) -> int:
        return self.sign * int(self.whole + self.fraction)


def _suffix(text: str) -> tuple[Form, int] | None:
    """The form and the exponent (of 10, or of 2) that a suffix stands for; None when it is none."""
    if text in _DECIMAL:
        return Form.DECIMAL, _DECIMAL[text]
    if text in _BINARY:
        return Form.BINARY, _BINARY[text]
    exponent = text[1:]
    if (
        text[:1] in ("e", "E")
        and re.fullmatch(r"[+-]?[0-9]+", exponent, re.ASCII)
        and len(exponent) < _MOST_DIGITS
    ):
        return Form.EXPONENT, int(exponent)
    return None


def _quick(number: _Number, form: Form, exponent: int) -> tuple[int, int] | None:
    """(unscaled, scale) where 64 bits surely hold them: digits and scale are then kept as written."""
    if form is Form.BINARY:
        room = _BINARY_DIGITS - len(number.whole) - exponent * 3 // 10 - 1
        if number.fraction or room < 0:
            return None
        return number.digits << exponent, 0
    scale = exponent - len(number.fraction)
    if len(number.whole) + len(number.fraction) > _MOST_DIGITS or scale < _NANO:
        return None
    return number.digits, scale


def _kept_as_written(number: _Number, form: Form, unscaled: int, scale: int, exponent: int) -> bool:
    if form is Form.BINARY:
        return (abs(unscaled) >> exponent) & 7 != 0
    shifted = number.whole + number.fraction
    return scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"


def _slow(text: str, number: _Number, form: Form, exponent: int) -> Quantity | Malformed:
    """Amounts beyond 64 bits, finer than a nano, or binary with a fraction: in exact nanos."""
    if not number.has_digits:
        return Malformed(text, WRONG_NUMBER)
    digits = abs(number.digits)
    if form is Form.BINARY:
        digits, exponent = digits << exponent, 0
    places = exponent - len(number.fraction) - _NANO
    nano = digits * int(10**places) if places >= 0 else _round_up(digits, -places)
    unscaled, scale = nano, _NANO
    if form is Form.BINARY and nano > LARGEST_INT64 * 10**9:
        unscaled, scale, nano = LARGEST_INT64, 0, LARGEST_INT64 * 10**9
    if form is Form.BINARY and 0 < nano < 10**9:
        form = Form.DECIMAL
    return Quantity(number.sign * unscaled, scale, form, number.sign * nano)


def _round_up(digits: int, places: int) -> int:
    """The digits without their last `places`, rounded away from zero."""
    if places > len(str(digits)):
        return 1 if digits else 0
    return _divide_away(digits, int(10**places))


def _divide_away(value: int, divisor: int) -> int:
    """The quotient as a whole number, rounded away from zero."""
    return -(-value // divisor) if value >= 0 else value // divisor


def _to_float(value: int) -> float:
    """The nearest double, infinite beyond their range."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _power_of_ten(exponent: int) -> float:
    """10**exponent as Go's math.Pow10 has it: a table up to 1e31, products of two entries above."""
    if exponent < 0:
        return 1.0 / float(f"1e{-exponent}")
    if exponent > 308:
        return float("inf")
    high, low = divmod(exponent, 32)
    return float(f"1e{high * 32}") * float(f"1e{low}")


def _sum(left: Quantity, right: Quantity, sign: int) -> Quantity:
    """Two quantities added (sign 1) or subtracted (sign -1), in the form of the first that is not 0."""
    form = right.form if left.nano == 0 else left.form
    scale = min(left.scale, right.scale)
    unscaled = left.unscaled * int(10 ** (left.scale - scale)) + sign * right.unscaled * int(
        10 ** (right.scale - scale)
    )
    return Quantity(unscaled, scale, form, left.nano + sign * right.nano)


def _canonical(quantity: Quantity) -> str:
    """No fraction, the largest suffix that loses nothing; binary ones below 1Ki or broken as decimal."""
    if quantity.nano == 0:
        return "0"
    form = quantity.form
    whole, rest = divmod(abs(quantity.nano), 10**9)
    sign = "-" if quantity.nano < 0 else ""
    if form is Form.BINARY and whole >= 1024 and rest == 0:
        times = 0
        while whole >= 1024 and whole % 1024 == 0 and times < len(_BINARY_NAMES) - 1:
            whole, times = whole // 1024, times + 1
        return f"{sign}{whole}{_BINARY_NAMES[times]}"
    amount, exponent = abs(quantity.nano), _NANO
    while amount % 1000 == 0:
        amount, exponent = amount // 1000, exponent + 3
    if form is not Form.EXPONENT and exponent in _DECIMAL_NAMES:
        return f"{sign}{amount}{_DECIMAL_NAMES[exponent]}"
    return f"{sign}{amount}e{exponent}" if exponent else f"{sign}{amount}"


class Amount(Struct, frozen=True):
    """`value` things, or `value` per cent of a total."""

    value: int
    percent: bool = False

    def of(self, total: int, *, up: bool = True) -> int:
        """The number it stands for; a percentage is rounded up, or down when `up` is False."""
        if not self.percent:
            return self.value
        product = self.value * total
        return -(-product // 100) if up else product // 100

    def __str__(self) -> str:
        return f"{self.value}%" if self.percent else str(self.value)


def parse_amount(written: str | int) -> Amount | str:
    """An amount from a number or a text ("25%", "2"), or why it is none."""
    if isinstance(written, int):
        return Amount(written)
    match = re.fullmatch(r"(-?[0-9]{1,10})(%?)", written, re.ASCII)
    if match is None:
        return f'{written!r} is neither a whole number nor a percentage such as "25%"'
    return Amount(int(match[1]), bool(match[2]))


def amount_of(written: str, total: int) -> int:
    """How many of a total a text stands for: `2`, or `33%` rounded up; 0 for what is neither."""
    amount = parse_amount(written.strip())
    return max(amount.of(total), 0) if isinstance(amount, Amount) else 0


_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(written: str) -> float | str:
    """Seconds from a text such as "1h30m" (hours, minutes, seconds), or why it is none."""
    if not re.fullmatch(r"([0-9]{1,9}(\.[0-9]{1,9})?[smh])+", written, re.ASCII):
        return f'{written!r} is no duration such as "1h30m": hours (h), minutes (m) and seconds (s) only'
    parts = re.findall(r"([0-9.]+)([smh])", written)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
