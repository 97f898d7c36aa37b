"""Numbers as HCL has them: whole, or binary fractions of so many significant bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

# Numbers are whole (int) or binary fractions (Fraction) of at most PRECISION significant bits, as
# HCL has them. Beyond MAX_DIGITS decimal digits before or after the point a number is refused: it
# can only come of a mistake, and neither its text nor its cost would be bounded.
PRECISION: Final = 512
MAX_DIGITS: Final = 4000
_MAX_BITS: Final = 13_000


def round_number(numerator: int, denominator: int) -> int | Fraction:
    """The number of PRECISION bits nearest to `numerator / denominator` (> 0), ties to even.

    Raises OverflowError when it has more than about MAX_DIGITS digits.
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


def number_from_decimal(decimal: Decimal | float | str) -> int | Fraction:
    """The number nearest to a decimal, a float (as Python prints it) or the text of one.

    Raises ValueError for what is not a finite number, OverflowError beyond MAX_DIGITS digits.
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
