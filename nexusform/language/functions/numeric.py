"""Functions on numbers."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    build_plain_function,
)
from nexusform.language.type_conversion import convert_value
from nexusform.schemas.value_types import (
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    SetType,
    TupleType,
    Type,
    describe_type,
)
from nexusform.values.typed_value import UNKNOWN, Value, convert_decimal, normalize_number

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MAX_INTEGER_DIGITS: Final = 1200
_NUMBERS: Final = Parameter("numbers", NUMBER, "the numbers to compare", allow_unknown=True)


def _compute_extreme(choose: Callable[[Any], Any], *numbers: Value) -> Value:
    """Evaluate `max` or `min` by Python's function (`choose`).

    The result is unknown if any argument is.
    """
    if not numbers:
        raise FixedProblem("must pass at least one number")
    raw_numbers = [number.raw for number in numbers]
    return Value(NUMBER, UNKNOWN if UNKNOWN in raw_numbers else choose(raw_numbers))


def _compute_with_floats(compute: Callable[[float, float], float], first: Any, second: Any) -> Any:
    """Compute with the nearest floats, as Terraform does.

    Raises FunctionProblem.
    """
    try:
        return convert_decimal(compute(float(first), float(second)))
    except ZeroDivisionError:
        raise FixedProblem("division by zero") from None
    except (ValueError, OverflowError):
        raise FixedProblem("the result is not a finite number") from None


def _compute_logarithm(argument: Any, base: Any) -> Any:
    """Return the logarithm of a number in a base."""
    if base == 0 and argument > 0:
        # The limit as the base goes to zero.
        return 0
    return _compute_with_floats(lambda x, b: math.log(x) / math.log(b), argument, base)


def _compute_power(base: Any, exponent: Any) -> Any:
    """Compute a power: exactly for whole numbers of moderate size, else with floats."""
    are_whole = base.__class__ is int and exponent.__class__ is int
    # Above, most are too high for a float.
    if are_whole and exponent >= 0 and base.bit_length() * exponent <= 4096:
        return normalize_number(base**exponent)
    return _compute_with_floats(math.pow, base, exponent)


def _find_parse_integer_result_type(arguments: Sequence[Value]) -> Type:
    """Return the type of `parseint`.

    Raises FunctionProblem unless the first argument is a string.
    """
    text_type = arguments[0].type
    if text_type != STRING:
        raise FunctionProblem(
            f"first argument must be a string, not {describe_type(text_type)}", argument=0
        )
    return NUMBER


def _parse_integer(text: Value, base: Value) -> Value:
    """Parse an integer in a base from 2 to 62.

    Up to base 36 upper case equals lower case.
    """
    # Raises FunctionProblem unless it is a string.
    _find_parse_integer_result_type([text])
    radix = base.raw
    if radix.__class__ is not int or not 2 <= radix <= 62:
        raise FixedProblem("base must be a whole number between 2 and 62 inclusive", argument=1)
    numeral = text.raw
    digits = numeral[1:] if numeral[:1] in {"-", "+"} else numeral
    # Above, upper case has digits of its own.
    if radix <= 36:
        digits = digits.lower()
    radix_digits = _DIGITS[:radix]
    if not digits or len(digits) > _MAX_INTEGER_DIGITS or not set(digits).issubset(radix_digits):
        raise FunctionProblem(f'cannot parse "{numeral}" as a base {radix} integer', argument=0)
    result = 0
    for digit in digits:
        # The value of a digit is its place in _DIGITS.
        result = result * radix + radix_digits.index(digit)
    return Value(NUMBER, normalize_number(-result if numeral[0] == "-" else result))


def _compute_sum(numbers: Value) -> Value:
    """Add the elements of a list, set or tuple.

    The sum is unknown if one is, but all elements are checked.
    """
    if not isinstance(numbers.type, (ListType, SetType, TupleType)):
        raise FixedProblem("cannot sum noniterable", argument=0)
    if not numbers.raw:
        raise FixedProblem("cannot sum an empty list", argument=0)
    total: Any = 0
    for element in numbers.raw:
        try:
            raw = convert_value(element, NUMBER).raw
        except ConversionProblem:
            # The same error as null.
            raw = None
        if raw is None:
            raise FixedProblem("argument must be list, set, or tuple of number values", argument=0)
        # Terraform rounds each partial sum: ten times 0.1 is not 1.
        total = UNKNOWN if UNKNOWN in (total, raw) else normalize_number(total + raw)
    return Value(NUMBER, total)


FUNCTIONS: Final = (
    build_plain_function(
        "abs",
        "The absolute value of a number.",
        [("num", NUMBER, "a number")],
        returns=NUMBER,
        compute=abs,
        examples=[("abs(-12.4)", "12.4"), ("abs(0)", "0")],
    ),
    build_plain_function(
        "ceil",
        "The number rounded up to an integer.",
        [("num", NUMBER, "a number")],
        returns=NUMBER,
        compute=math.ceil,
        examples=[("ceil(5.1)", "6"), ("ceil(-5.1)", "-5")],
    ),
    build_plain_function(
        "floor",
        "The number rounded down to an integer.",
        [("num", NUMBER, "a number")],
        returns=NUMBER,
        compute=math.floor,
        examples=[("floor(4.9)", "4"), ("floor(-4.9)", "-5")],
    ),
    build_plain_function(
        "log",
        "The logarithm of a number to a base.",
        [("num", NUMBER, "a number above zero"), ("base", NUMBER, "the base")],
        returns=NUMBER,
        compute=_compute_logarithm,
        examples=[("log(16, 2)", "4"), ("ceil(log(15, 2))", "4")],
    ),
    Function(
        "max",
        "The maximum of the arguments.",
        (),
        NUMBER,
        partial(_compute_extreme, max),
        (Example("max(12, 54, 3)", "54"), Example("max([12, 54, 3]...)", "54")),
        _NUMBERS,
    ),
    Function(
        "min",
        "The minimum of the arguments.",
        (),
        NUMBER,
        partial(_compute_extreme, min),
        (Example("min(12, 54, 3)", "3"),),
        _NUMBERS,
    ),
    Function(
        "parseint",
        "The integer value of a text in a base from 2 to 62.",
        (Parameter("number", DYNAMIC, "the text"), Parameter("base", NUMBER, "the base")),
        _find_parse_integer_result_type,
        _parse_integer,
        (Example('parseint("FF", 16)', "255"), Example('parseint("-1010", 2)', "-10")),
    ),
    build_plain_function(
        "pow",
        "A number raised to a power.",
        [("num", NUMBER, "the number"), ("power", NUMBER, "the power")],
        returns=NUMBER,
        compute=_compute_power,
        examples=[("pow(3, 2)", "9"), ("pow(4, 0.5)", "2"), ("pow(2, -1)", "0.5")],
    ),
    build_plain_function(
        "signum",
        "-1, 0 or 1 for a negative number, zero or a positive one.",
        [("num", NUMBER, "a number")],
        returns=NUMBER,
        compute=lambda n: (n > 0) - (n < 0),
        examples=[("signum(-13)", "-1"), ("signum(0)", "0"), ("signum(344)", "1")],
    ),
    Function(
        "sum",
        "The sum of a list or set of numbers.",
        (Parameter("list", DYNAMIC, "a list, set or tuple of numbers, not empty"),),
        NUMBER,
        _compute_sum,
        (Example("sum([10, 13, 6, 4.5])", "33.5"),),
    ),
)
