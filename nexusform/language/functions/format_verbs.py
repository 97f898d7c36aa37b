"""format and formatlist: text from a pattern with verbs such as `%s` and `%05.2f`."""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct

from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.functions.function import (
    Example,
    Function,
    FunctionProblem,
    Parameter,
    build_any_parameter,
)
from nexusform.language.functions.json_encoding import render_json, render_json_string
from nexusform.language.functions.text import split_clusters
from nexusform.language.syntax.scanner import count_clusters
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    PrimitiveType,
    SetType,
    TupleType,
)
from nexusform.values.typed_value import (
    UNKNOWN,
    Value,
    build_prefix,
    compute_shortest_digits,
    format_digits,
)

# "%%", or a verb without the letter at its end.
_VERB: Final = re.compile(
    r"%%|%(?P<flags>[ "
    r"+\-0#]*)(?P<width>[1-9][0-9]*)?(?:\.(?P<precision>[0-9]+))?(?:\[(?P<index>[1-9][0-9]{0,8})\])?"
)
_MODES: Final = "vtbdoxXeEfgGsq"
_MAX_WIDTH: Final = 100_000
_DEFAULT_PLACES: Final = 6
_STRINGS: Final = ListType(STRING)
_PREFIXES: Final = {"b": "0b", "d": "", "o": "0", "x": "0x", "X": "0X"}


class _FormatVerb(Struct, frozen=True):
    """Verb of a pattern, such as `%05.2f`: its text, its byte in the pattern, and its parts."""

    text: str
    offset: int
    flags: str
    width: int
    precision: int | None
    mode: str


def _evaluate_format(pattern: Value, *arguments: Value) -> Value:
    """Evaluate `format`: the text, or its known prefix while arguments are unknown."""
    if not all(a.is_wholly_known for a in arguments):
        return Value(STRING, UNKNOWN, refinement=build_prefix(pattern.raw.partition("%")[0]))
    return Value(STRING, format_pattern(pattern.raw, arguments))


def format_pattern(pattern: str, arguments: Sequence[Value]) -> str:
    """Replace the verbs of the pattern by the arguments.

    Raises FunctionProblem.
    """
    pieces: list[str] = []
    # In the pattern, and in the arguments (for a verb without an index).
    offset = 0
    next_position = 0
    # The number of arguments up to the last used one.
    used_count = 0
    for match in _VERB.finditer(pattern):
        pieces.append(pattern[offset : match.start()])
        if match[0] == "%%":
            pieces.append("%")
            offset = match.end()
            continue
        verb, position = _parse_verb(pattern, match, next_position)
        if position >= len(arguments):
            raise FunctionProblem(
                f'not enough arguments for "{verb.text}" at {verb.offset}: '
                f"need index {position + 1} but have {len(arguments)} total"
            )
        pieces.append(_render_argument(verb, arguments[position]))
        next_position = position + 1
        used_count = max(used_count, position + 1)
        offset = match.start() + len(verb.text)
    pieces.append(pattern[offset:])
    if used_count < len(arguments):
        usage = (
            f"only {used_count} used by format string"
            if used_count
            else "no verbs in format string"
        )
        # The pattern is argument 0.
        raise FunctionProblem(f"too many arguments; {usage}", argument=used_count + 1)
    return "".join(pieces)


def _parse_verb(pattern: str, match: re.Match[str], next_position: int) -> tuple[_FormatVerb, int]:
    """Parse the verb of a match.

    Return it and its argument's position (from 0): explicit, else `next_position`.
    """
    start = match.start()
    # In bytes, for messages.
    offset = len(pattern[:start].encode())
    if match.end() >= len(pattern):
        raise FunctionProblem(f"invalid format string starting at offset {offset + 1}")
    mode = pattern[match.end()]
    if mode not in _MODES:
        position_at_fault = offset + match.end() - start
        raise FunctionProblem(
            f"unrecognized format character {mode!r} at offset {position_at_fault}"
        )
    # A longer one is too great, too.
    width = int((match["width"] or "0")[:9])
    precision = (
        None if match["precision"] is None else int((match["precision"].lstrip("0") or "0")[:9])
    )
    if max(width, precision or 0) > _MAX_WIDTH:
        raise FunctionProblem(f"width and precision must not be greater than {_MAX_WIDTH}")
    text = pattern[start : match.end() + 1]
    verb = _FormatVerb(text, offset, match["flags"], width, precision, mode)
    position = int(match["index"]) - 1 if match["index"] else next_position
    return verb, position


def _render_argument(verb: _FormatVerb, argument: Value) -> str:
    """Render an argument as its verb requires.

    Raises FunctionProblem for an unsuitable one (null except for `%v`).
    """
    # The letter of the verb.
    mode = verb.mode
    if mode == "v":
        return _add_padding_to_width(verb, _render_any_value(verb, argument))
    if argument.raw is None:
        raise FunctionProblem(
            f'unsupported value for "{verb.text}" at {verb.offset}: null value cannot be formatted'
        )
    # Plain or quoted text.
    if mode in {"s", "q"}:
        text = _convert_argument(verb, argument, STRING)
        if verb.precision is not None:
            text = "".join(split_clusters(text)[: verb.precision])
        return _add_padding_to_width(verb, render_json_string(text) if mode == "q" else text)
    # A bool, without padding.
    if mode == "t":
        return "true" if _convert_argument(verb, argument, BOOL) else "false"
    number = _convert_argument(verb, argument, NUMBER)
    return _render_integer(verb, number) if mode in "bdoxX" else _render_decimal(verb, number, mode)


def _render_any_value(verb: _FormatVerb, argument: Value) -> str:
    """Render the argument of `%v`: a string or number plainly, other values as JSON.

    With the flag # all are JSON.
    """
    if argument.raw is None or "#" in verb.flags or argument.type not in (STRING, NUMBER):
        return render_json(argument)
    if argument.type == STRING:
        return str(argument.raw)
    # A number; the flags for a sign and the precision are ignored.
    sign = "-" if argument.raw < 0 else ""
    return sign + _render_general(abs(argument.raw), precision=None, mode="g")


def _convert_argument(verb: _FormatVerb, argument: Value, target: PrimitiveType) -> Any:
    """Convert an argument to the type its verb requires.

    Raises FunctionProblem.
    """
    try:
        return convert_value(argument, target).raw
    except ConversionProblem as problem:
        message = (
            f'unsupported value for "{verb.text}" at {verb.offset}: {describe_problem(problem)}'
        )
        raise FunctionProblem(message) from None


def _add_padding_to_width(verb: _FormatVerb, text: str) -> str:
    """Fill a text up to the verb's width.

    The text is filled on the right with the flag `-`, else on the left, with zeros for the flag 0.
    """
    # In ASCII only a CR and LF are one cluster of two characters.
    missing = verb.width - (
        len(text) if text.isascii() and "\r\n" not in text else count_clusters(text)
    )
    if "-" in verb.flags:
        return text + " " * missing
    return ("0" if "0" in verb.flags else " ") * missing + text


def _render_signed_number(verb: _FormatVerb, is_negative: bool, digits: str) -> str:
    """Render a number's digits with its sign and padding.

    The padding is spaces on either side, or zeros after the sign.
    """
    positive_sign = "+" if "+" in verb.flags else " " if " " in verb.flags else ""
    sign = "-" if is_negative else positive_sign
    number = sign + digits
    if "-" in verb.flags:
        return number.ljust(verb.width)
    if "0" in verb.flags:
        return sign + digits.rjust(verb.width - len(sign), "0")
    return number.rjust(verb.width)


def _render_integer(verb: _FormatVerb, number: Any) -> str:
    """Render a whole number in the verb's base.

    Raises FunctionProblem for fractions.
    """
    if not isinstance(number, int):
        raise FunctionProblem(
            f'unsupported value for "{verb.text}" at {verb.offset}: an integer is required'
        )
    digits = format(abs(number), verb.mode)
    if verb.precision is not None:
        digits = digits.rjust(verb.precision, "0")
    if "#" in verb.flags:
        digits = _PREFIXES[verb.mode] + digits
    return _render_signed_number(verb, number < 0, digits)


def _render_decimal(verb: _FormatVerb, number: Any, mode: str) -> str:
    """Render a number as %f, %e or %g."""
    size = abs(number)
    places = _DEFAULT_PLACES if verb.precision is None else verb.precision
    if mode == "f":
        # With a digit before the point.
        scaled = str(round(size * 10**places)).rjust(places + 1, "0")
        digits = format_digits(scaled, len(scaled) - places)
    elif mode in "eE":
        # One digit, `places` decimals, and a signed exponent of two digits or more.
        # `point` is the position of the decimal point in the digits.
        significant_digits, point = _compute_decimal_digits(size, places + 1)
        # Rounding up may have added a zero.
        significant_digits = significant_digits[: places + 1]
        digits = (
            f"{format_digits(significant_digits.ljust(places + 1, '0'), 1)}{mode}{point - 1:+03d}"
        )
    else:
        # Without a precision as short as possible.
        digits = _render_general(size, verb.precision, mode)
    return _render_signed_number(verb, number < 0, digits)


def _compute_decimal_digits(size: int | Fraction, count: int | None) -> tuple[str, int]:
    """Return the digits of a number, at most `count` (None: all), and its exponent.

    For example, 12.5 is 0.125 * 10**2 and gives ("125", 2).
    """
    if size == 0:
        return "0", 1
    digits, point = compute_shortest_digits(size)
    if count is None or len(digits) <= count:
        return digits, point
    # The number is rounded to a multiple of 10**power.
    power = point - count
    multiple = round(Fraction(size) / 10**power) if power >= 0 else round(size * 10**-power)
    text = str(multiple)
    # Rounding up may add a digit.
    return text, power + len(text)


def _render_general(size: int | Fraction, precision: int | None, mode: str) -> str:
    """Render a number as Go does for %g.

    Plainly (`123`), or with an exponent if that is small or large (`1e-05`). Small is below -4.
    Large is at least the number of significant digits (`precision`), 6 if it is None.
    """
    # Significant digits; None: all.
    count = None if precision is None else max(precision, 1)
    digits, point = _compute_decimal_digits(size, count)
    digits = digits.rstrip("0") or "0"
    # The least exponent to write as such.
    limit = 6 if count is None else count
    exponent = point - 1
    if exponent < -4 or exponent >= limit:
        letter = "e" if mode == "g" else "E"
        return f"{format_digits(digits, 1)}{letter}{exponent:+03d}"
    return format_digits(digits, point)


def _format_list(pattern: Value, *arguments: Value) -> Value:
    """Evaluate `formatlist`: format one text for each position of the lists, which have one length.

    An argument that is no list is used in every text: ("%s-%d", ["a", "b"], 1)
    gives ["a-1", "b-1"].
    """
    # By position in the call: the pattern is argument 0.
    lists: dict[int, Value] = {}
    has_unknown_list = False
    for position, argument in enumerate(arguments, 1):
        if isinstance(argument.type, (ListType, SetType, TupleType)) and argument.raw is not None:
            lists[position] = argument
            if argument.raw is UNKNOWN or _find_known_sequence_length(argument) is None:
                has_unknown_list = True
        elif argument.type is DYNAMIC and argument.raw is UNKNOWN:
            # It may be a list, too.
            has_unknown_list = True
    # Of the texts.
    count = _find_common_length(lists)
    if pattern.raw is UNKNOWN or has_unknown_list:
        return Value(_STRINGS, UNKNOWN)
    # One column for each argument, with its value in every text; a row has all arguments of a text.
    columns = [
        lists[i].raw if i in lists else (argument,) * count
        for i, argument in enumerate(arguments, 1)
    ]
    # A text is unknown if one of its arguments is.
    texts = []
    # The arguments of one text.
    for iteration, *item_arguments in zip(range(count), *columns, strict=True):
        try:
            is_known = all(argument.is_wholly_known for argument in item_arguments)
            texts.append(
                Value(STRING, format_pattern(pattern.raw, item_arguments) if is_known else UNKNOWN)
            )
        except FunctionProblem as problem:
            message = f"error on format iteration {iteration}: {problem.message}"
            raise FunctionProblem(message, problem.argument) from None
    return Value(_STRINGS, tuple(texts))


def _find_common_length(lists: Mapping[int, Value]) -> int:
    """Return the common known length of the lists, 1 without any.

    Raises FunctionProblem if known lengths differ.
    """
    count = first_position = None
    # Position in the call: the pattern is argument 0.
    for position, argument in lists.items():
        length = _find_known_sequence_length(argument)
        if length is None:
            # An unknown length may be equal.
            continue
        if count is not None and length != count:
            raise FunctionProblem(
                f"argument {position} has length {length}, which is inconsistent with "
                f"argument {first_position} of length {count}",
                position,
            )
        count = length
        first_position = position
    return 1 if count is None else count


def _find_known_sequence_length(sequence: Value) -> int | None:
    """Return the number of elements; None if it is unknown."""
    if isinstance(sequence.type, TupleType):
        return len(sequence.type.elements)
    # Equal elements are one.
    is_uncertain = isinstance(sequence.type, SetType) and not sequence.is_wholly_known
    return None if sequence.raw is UNKNOWN or is_uncertain else len(sequence.raw)


FUNCTIONS: Final = (
    Function(
        "format",
        (
            "Text from a pattern: %s text, %d integer, %f decimals, %x hexadecimal, %q quoted, %v "
            "any value."
        ),
        (Parameter("format", STRING, "the pattern"),),
        STRING,
        _evaluate_format,
        (
            Example('format("Hello, %s!", "Ander")', '"Hello, Ander!"'),
            Example('format("%03d|%.2f|%x", 7, 2.5, 255)', '"007|2.50|ff"'),
        ),
        build_any_parameter("args", "the values to format"),
    ),
    Function(
        "formatlist",
        "One text per element of the list arguments. Other arguments are repeated.",
        (Parameter("format", STRING, "the pattern", allow_unknown=True),),
        _STRINGS,
        _format_list,
        (Example('formatlist("%s-%d", ["a", "b"], 1)', 'tolist(["a-1", "b-1"])'),),
        build_any_parameter("args", "lists and single values"),
    ),
)
