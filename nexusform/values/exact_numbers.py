"""Numbers of HCL, as text and in arithmetic: whole, or binary fractions of limited precision."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

# Numbers are integers or binary fractions (Fraction) of at most PRECISION significant bits, as in HCL. A
# number with more than MAX_DIGITS decimal digits is rejected, because its text and cost would be unbounded.
PRECISION: Final = 512
MAX_DIGITS: Final = 4000
_MAX_BITS: Final = 13_000


def round_number(numerator: int, denominator: int) -> int | Fraction:
    """Round `numerator / denominator` (> 0) to PRECISION bits, ties to even.

    Raises OverflowError for more than about MAX_DIGITS digits.
    """
    from fractions import Fraction

    if numerator == 0:
        return 0
    if numerator < 0:
        return -round_number(-numerator, denominator)
    magnitude = numerator.bit_length() - denominator.bit_length()
    if abs(magnitude) > _MAX_BITS:
        raise OverflowError("the number has too many digits")
    shift = PRECISION - magnitude
    if (numerator << max(shift, 0)) >= (denominator << max(-shift, 0) << PRECISION):
        shift -= 1  # the quotient would have one bit too many
    scaled, divisor = numerator << max(shift, 0), denominator << max(-shift, 0)
    quotient, rest = divmod(scaled, divisor)
    if 2 * rest > divisor or (2 * rest == divisor and quotient & 1):
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
    if number.__class__ is int and number.bit_length() <= PRECISION:
        return str(number)
    if number < 0:
        return "-" + format_number(-number)
    digits, point = compute_shortest_digits(number)
    if point <= 0:
        return "0." + "0" * -point + digits
    if len(digits) <= point:
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"


def compute_shortest_digits(number: Number) -> tuple[str, int]:
    """Return the digits d1 d2 ... of the shortest decimal 0.d1d2... * 10**point for a number above zero."""
    # The fewest digits that lie nearer to this number than half the distance to its neighbours of
    # PRECISION bits.
    numerator, denominator = number.numerator, number.denominator
    shift = PRECISION - numerator.bit_length()
    mantissa = numerator << shift if shift >= 0 else numerator >> -shift
    # number == exact / scale, and half a step between neighbours is half / scale.
    grow, shrink = max(shift + 1, 0), max(-shift - 1, 0)
    scale = denominator << grow
    exact, half = 2 * mantissa << shrink, 1 << shrink
    inclusive = mantissa % 2 == 0
    # The point such that 10**(point - 1) <= numerator / denominator < 10**point.
    point = int((exact.bit_length() - scale.bit_length()) * 0.30103)
    while exact >= scale * 10**point if point >= 0 else exact * 10**-point >= scale:
        point += 1
    while exact < scale * 10 ** (point - 1) if point >= 1 else exact * 10 ** (1 - point) < scale:
        point -= 1
    power = -point
    while True:
        power += 1
        above, below = (10**power, 1) if power >= 0 else (1, 10**-power)
        # The candidates are down and down + 1, each divided by above / below.
        down, remainder_part = divmod(exact * above, scale * below)
        margin = half * above
        low_gap, high_gap = remainder_part, scale * below - remainder_part
        can_round_down = down > 0 and (low_gap < margin or (inclusive and low_gap == margin))
        can_round_up = high_gap < margin or (inclusive and high_gap == margin)
        if can_round_down or can_round_up:
            chosen = down if can_round_down and (not can_round_up or low_gap <= high_gap) else down + 1
            text = str(chosen)
            return text.rstrip("0"), len(text) - power


def compute_quotient(left: Number, right: Number) -> Number:
    """Compute the quotient. Raises ZeroDivisionError, OverflowError."""
    if right == 0:
        raise ZeroDivisionError
    if right < 0:
        left, right = -left, -right
    return round_number(left.numerator * right.denominator, left.denominator * right.numerator)


def compute_remainder(left: Number, right: Number) -> Number:
    """Return the remainder of division towards zero: it has the sign of `left`.

    Every step is rounded, so `11 % 5.1` has the same digits as in other implementations. Raises
    ZeroDivisionError, OverflowError.
    """
    if left.__class__ is int and right.__class__ is int:
        if right == 0:
            raise ZeroDivisionError
        absolute_remainder = abs(left) % abs(right)
        return -absolute_remainder if left < 0 else absolute_remainder
    quotient = compute_quotient(left, right)
    integer_quotient = abs(quotient.numerator) // quotient.denominator
    integer_quotient = -integer_quotient if quotient < 0 else integer_quotient
    return normalize_number(left - normalize_number(right * integer_quotient))
