"""Functions on timestamps (RFC 3339 text) and the clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Final

from nexusform.language.functions.function import Example, Function, FunctionProblem, plain_function
from nexusform.value_types import NUMBER, STRING
from nexusform.values import UNKNOWN, Value

_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:(Z)|([+-])(\d{2}):(\d{2}))\Z", re.ASCII
)
_DURATION: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def parse_timestamp(text: str, position: int = 0) -> datetime:
    """The moment an RFC 3339 text names, with its offset. Raises FunctionProblem."""
    match = _TIMESTAMP.match(text)
    if match is None:
        raise FunctionProblem(f'not a valid RFC3339 timestamp: "{_short(text)}"', position)
    year, month, day, hour, minute, second = [int(n) for n in match.groups()[:6]]
    # Finer than a microsecond is beyond what datetime holds, and nothing shows it.
    micros = int((match[7] or "").ljust(6, "0")[:6])
    offset = timedelta(hours=int(match[10] or 0), minutes=int(match[11] or 0))
    zone = UTC if match[8] else timezone(-offset if match[9] == "-" else offset)
    try:
        return datetime(year, month, day, hour, minute, second, micros, zone)
    except ValueError as problem:
        raise FunctionProblem(f"not a valid RFC3339 timestamp: {problem}", position) from None


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "..."


def timestamp_text(moment: datetime) -> str:
    """A moment as RFC 3339 text, to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0") + _offset(moment, colon=True, utc="Z")


def _offset(moment: datetime, *, colon: bool, utc: str) -> str:
    minutes = int((moment.utcoffset() or timedelta()).total_seconds()) // 60
    if minutes == 0 and utc:
        return utc
    sign, size = ("-", -minutes) if minutes < 0 else ("+", minutes)
    return f"{sign}{size // 60:02d}{':' if colon else ''}{size % 60:02d}"


# --- formatdate ----------------------------------------------------------------------------------

_VERBS: Final[dict[str, Callable[[datetime], str]]] = {
    "YYYY": lambda t: f"{t.year:04d}",
    "YY": lambda t: f"{t.year % 100:02d}",
    "MMMM": lambda t: _MONTHS[t.month - 1],
    "MMM": lambda t: _MONTHS[t.month - 1][:3],
    "MM": lambda t: f"{t.month:02d}",
    "M": lambda t: str(t.month),
    "DD": lambda t: f"{t.day:02d}",
    "D": lambda t: str(t.day),
    "EEEE": lambda t: _DAYS[t.weekday()],
    "EEE": lambda t: _DAYS[t.weekday()][:3],
    "hh": lambda t: f"{t.hour:02d}",
    "h": lambda t: str(t.hour),
    "HH": lambda t: f"{t.hour % 12 or 12:02d}",
    "H": lambda t: str(t.hour % 12 or 12),
    "AA": lambda t: "AM" if t.hour < 12 else "PM",
    "aa": lambda t: "am" if t.hour < 12 else "pm",
    "mm": lambda t: f"{t.minute:02d}",
    "m": lambda t: str(t.minute),
    "ss": lambda t: f"{t.second:02d}",
    "s": lambda t: str(t.second),
    "ZZZZZ": lambda t: _offset(t, colon=True, utc=""),
    "ZZZZ": lambda t: _offset(t, colon=False, utc=""),
    "ZZZ": lambda t: _offset(t, colon=False, utc="UTC"),
    "Z": lambda t: _offset(t, colon=True, utc="Z"),
}


def _format_date(pattern: str, timestamp: str) -> str:
    moment = parse_timestamp(timestamp, 1)
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "'":
            text, at = _literal(pattern, at)
            pieces.append(text)
        elif character.isascii() and character.isalpha():
            end = at
            while end < len(pattern) and pattern[end] == character:
                end += 1
            verb = pattern[at:end]
            if verb not in _VERBS:
                known = ", ".join(sorted(v for v in _VERBS if v[0] == character))
                hint = f"; the verbs of this letter are {known}" if known else ""
                raise FunctionProblem(f'invalid date format verb "{verb}"{hint}', 0)
            pieces.append(_VERBS[verb](moment))
            at = end
        else:
            pieces.append(character)
            at += 1
    return "".join(pieces)


def _literal(pattern: str, at: int) -> tuple[str, int]:
    # The text between quotes that starts here; two quotes in it stand for one.
    pieces: list[str] = []
    at += 1
    while True:
        end = pattern.find("'", at)
        if end < 0:
            raise FunctionProblem("unterminated literal '", 0)
        pieces.append(pattern[at:end])
        if pattern[end + 1 : end + 2] != "'":
            return "".join(pieces), end + 1
        pieces.append("'")
        at = end + 2


# --- arithmetic ----------------------------------------------------------------------------------


def parse_duration(text: str, position: int) -> Fraction:
    """The seconds of a duration such as `1h30m` or `-1.5s`. Raises FunctionProblem."""
    rest = text[1:] if text[:1] in {"-", "+"} else text
    total = Fraction(0)
    at = 0
    if rest == "0":
        return total
    while at < len(rest) or not rest:
        match = _DURATION.match(rest, at)
        if match is None or len(rest) > 100:
            raise FunctionProblem(
                f'"{_short(text)}" is not a duration: write numbers with units (ns, us, ms, s, m, h), '
                'as in "1h30m"',
                position,
            )
        total += Fraction(match[1].rstrip(".")) * _UNITS[match[2]]
        at = match.end()
    return -total if text[0] == "-" else total


def _time_add(timestamp: str, duration: str) -> str:
    moment = parse_timestamp(timestamp)
    seconds = parse_duration(duration, 1)
    try:
        return timestamp_text(moment + timedelta(microseconds=int(seconds * 10**6)))
    except OverflowError:
        raise FunctionProblem("the result is outside the years 1 to 9999") from None


def _time_compare(first: str, second: str) -> int:
    one, other = parse_timestamp(first), parse_timestamp(second, 1)
    return (one > other) - (one < other)


FUNCTIONS: Final = (
    plain_function(
        "formatdate",
        "A timestamp in another form: YYYY, MM, DD, hh, mm, ss, EEE, MMM, ZZZ and text in single quotes.",
        [("format", STRING, "the form"), ("time", STRING, "a timestamp")],
        returns=STRING,
        compute=_format_date,
        examples=[('formatdate("DD MMM YYYY hh:mm ZZZ", "2018-01-02T23:12:01Z")', '"02 Jan 2018 23:12 UTC"')],
    ),
    plain_function(
        "timeadd",
        "A timestamp so much later, or earlier for a negative duration.",
        [("timestamp", STRING, "a timestamp"), ("duration", STRING, 'for example "1h30m"')],
        returns=STRING,
        compute=_time_add,
        examples=[('timeadd("2017-11-22T00:00:00Z", "10m")', '"2017-11-22T00:10:00Z"')],
    ),
    plain_function(
        "timecmp",
        "-1, 0 or 1: whether a timestamp is earlier than another, the same moment, or later.",
        [("timestamp_a", STRING, "a timestamp"), ("timestamp_b", STRING, "another")],
        returns=NUMBER,
        compute=_time_compare,
        examples=[('timecmp("2017-11-22T00:00:00Z", "2017-11-22T01:00:00Z")', "-1")],
    ),
)


def clock_functions(
    plan_time: Callable[[], datetime], now: Callable[[], datetime] | None
) -> tuple[Function, ...]:
    """timestamp() and plantimestamp(); without `now`, during planning, timestamp() is unknown."""

    def timestamp() -> Value:
        return Value(STRING, UNKNOWN if now is None else timestamp_text(now()))

    return (
        Function(
            "plantimestamp",
            "When the plan was made.",
            (),
            STRING,
            lambda: Value(STRING, timestamp_text(plan_time())),
            (Example("timecmp(plantimestamp(), plantimestamp())", "0"),),
        ),
        Function("timestamp", "The time of the apply; known only then.", (), STRING, timestamp),
    )
