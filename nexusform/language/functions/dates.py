"""Functions on timestamps (RFC 3339 text) and the clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from fractions import Fraction
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose
from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    build_plain_function,
)
from nexusform.language.value_descriptions import truncate_text
from nexusform.schemas.value_types import NUMBER, STRING
from nexusform.values.typed_value import UNKNOWN, Value

_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:(Z)|([+-])(\d{2}):(\d{2}))\Z",
    re.ASCII,
)
# As accepted by Go for values that are not printed: a one-digit hour, a comma before a fraction.
_LENIENT_TIMESTAMP: Final = re.compile(
    _TIMESTAMP.pattern.replace(r"T(\d{2})", r"T(\d{1,2})").replace(r"\.(\d+)", r"[.,](\d+)"),
    re.ASCII,
)
# Number and unit.
_DURATION_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATION: Final = re.compile(rf"(?:{_DURATION_PART.pattern})+", re.ASCII)
# In nanoseconds.
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
# Characters of an invalid text in a message.
_MAX_EXCERPT: Final = 60
# Nanoseconds, about 292 years: the maximum of 64 bits.
_MAX_DURATION: Final = 2**63
_DAY: Final = 24 * _UNITS["h"]
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

# The calendar repeats every 400 years, weekdays included. Python's begins with the year 1, and that
# of timestamps with the year 0.
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097


class LocalTime(Struct, frozen=True):
    """Moment as displayed by a local clock.

    `day` counts days of that clock's calendar as Python's ordinals do, `nanosecond` those since its
    midnight; `offset` is the clock's distance from UTC in minutes.
    """

    day: int
    nanosecond: int
    offset: int

    @property
    def date(self) -> tuple[int, int, int]:
        """Year, month and day of the month."""
        # A `date` has no year 0: convert the same day of the years 401 to 800, as dates repeat
        # after 400 years.
        cycles, remainder = divmod(self.day - 1, _CYCLE_DAYS)
        shifted_date = date.fromordinal(remainder + 1 + _CYCLE_DAYS)
        return shifted_date.year + (cycles - 1) * _CYCLE_YEARS, shifted_date.month, shifted_date.day

    @property
    def clock(self) -> tuple[int, int, int]:
        """Hour, minute and second."""
        seconds = self.nanosecond // _UNITS["s"]
        return seconds // 3600, seconds // 60 % 60, seconds % 60

    @property
    def instant(self) -> int:
        """Nanoseconds in UTC, to compare moments of different time zones."""
        return self.day * _DAY + self.nanosecond - self.offset * _UNITS["m"]


def parse_timestamp(text: str, position: int = 0, *, lenient: bool = False) -> LocalTime:
    """Parse an RFC 3339 text with its offset.

    Raises FunctionProblem for the argument at `position`. `lenient` accepts offsets of up to 24
    hours and 60 minutes, hours of one digit and fractions after a comma, as Go does for values that
    are not printed.
    """
    match = (_LENIENT_TIMESTAMP if lenient else _TIMESTAMP).match(text)
    if match is None:
        raise FunctionProblem(
            f'not a valid RFC3339 timestamp: "{truncate_text(text, _MAX_EXCERPT)}"', position
        )
    # The offset is `Z`, or a sign, hours and minutes; an absent part is "0".
    *date_and_time, fraction_digits, _utc, sign, offset_hours, offset_minutes = match.groups(
        default="0"
    )
    year, month, day, hour, minute, second = map(int, date_and_time)
    hours = int(offset_hours)
    minutes = int(offset_minutes)
    try:
        # A `date` has no year 0: use the day in the years 400 to 799 (a cycle). Raises ValueError
        # for an invalid day.
        cycles, cycle_year = divmod(year, _CYCLE_YEARS)
        ordinal = (
            date(cycle_year + _CYCLE_YEARS, month, day).toordinal() + (cycles - 1) * _CYCLE_DAYS
        )
        # Raises ValueError for an invalid time.
        time(hour, minute, second)
        if not (lenient and hours <= 24 and minutes <= 60):
            # Raises ValueError for an invalid offset.
            time(hours, minutes)
    except ValueError as problem:
        raise FunctionProblem(f"not a valid RFC3339 timestamp: {problem}", position) from None
    # Other implementations have no finer resolution than a nanosecond.
    fraction = int(fraction_digits.ljust(9, "0")[:9])
    offset = hours * 60 + minutes
    nanosecond = (hour * 3600 + minute * 60 + second) * _UNITS["s"] + fraction
    return LocalTime(ordinal, nanosecond, -offset if sign == "-" else offset)


def _format_time_zone_offset(moment: LocalTime, *, colon: bool, utc: str) -> str:
    """Format the offset as `+hh:mm` (with `colon`) or `+hhmm`.

    An offset of 0 is `utc`, if `utc` is not empty.
    """
    if moment.offset == 0 and utc:
        return utc
    sign, minutes = ("-", -moment.offset) if moment.offset < 0 else ("+", moment.offset)
    return f"{sign}{minutes // 60:02d}{':' if colon else ''}{minutes % 60:02d}"


_VERBS: Final[dict[str, Callable[[LocalTime], str]]] = {
    "YYYY": lambda t: f"{t.date[0]:04d}",
    "YY": lambda t: f"{t.date[0] % 100:02d}",
    "MMMM": lambda t: _MONTHS[t.date[1] - 1],
    "MMM": lambda t: _MONTHS[t.date[1] - 1][:3],
    "MM": lambda t: f"{t.date[1]:02d}",
    "M": lambda t: str(t.date[1]),
    "DD": lambda t: f"{t.date[2]:02d}",
    "D": lambda t: str(t.date[2]),
    # The first day of the calendar is a Monday.
    "EEEE": lambda t: _DAYS[(t.day - 1) % 7],
    "EEE": lambda t: _DAYS[(t.day - 1) % 7][:3],
    "hh": lambda t: f"{t.clock[0]:02d}",
    "h": lambda t: str(t.clock[0]),
    "HH": lambda t: f"{t.clock[0] % 12 or 12:02d}",
    "H": lambda t: str(t.clock[0] % 12 or 12),
    "AA": lambda t: "AM" if t.clock[0] < 12 else "PM",
    "aa": lambda t: "am" if t.clock[0] < 12 else "pm",
    "mm": lambda t: f"{t.clock[1]:02d}",
    "m": lambda t: str(t.clock[1]),
    "ss": lambda t: f"{t.clock[2]:02d}",
    "s": lambda t: str(t.clock[2]),
    "ZZZZZ": lambda t: _format_time_zone_offset(t, colon=True, utc=""),
    "ZZZZ": lambda t: _format_time_zone_offset(t, colon=False, utc=""),
    "ZZZ": lambda t: _format_time_zone_offset(t, colon=False, utc="UTC"),
    "Z": lambda t: _format_time_zone_offset(t, colon=True, utc="Z"),
}


# Parts of a date format. Possessive groups as in syntax/scanner.py.
_FORMAT_PART: Final = re.compile(
    r"""(?P<verb>(?P<letter>[A-Za-z])(?P=letter)*)    # equal letters in a row
    |(?P<text>[^'A-Za-z]++|'')                         # other text; two quotes are one
    |'(?P<literal>(?:[^']++|''|(?!))*+)'               # quoted text; two quotes in it are one
    |(?P<open>')                                       # a quote without an end
    """,
    re.VERBOSE,
)


def _format_date(pattern: str, timestamp: str) -> str:
    """Format a timestamp.

    Equal letters in a row, such as `YYYY`, are a verb. Quoted text is literal.
    """
    moment = parse_timestamp(timestamp, position=1)
    pieces: list[str] = []
    for part in _FORMAT_PART.finditer(pattern):
        verb = part["verb"]
        if part["open"]:
            raise FixedProblem("unterminated literal '", argument=0)
        if not verb:
            # Two quotes mean one.
            pieces.append((part["text"] or part["literal"]).replace("''", "'"))
        elif verb in _VERBS:
            pieces.append(_VERBS[verb](moment))
        else:
            known = ", ".join(sorted(v for v in _VERBS if v[0] == verb[0]))
            hint = enclose("; the verbs of this letter are ", known)
            raise FunctionProblem(f'invalid date format verb "{verb}"{hint}', argument=0)
    return "".join(pieces)


def parse_duration(text: str, position: int) -> int:
    """Parse a duration such as `1h30m`, `-1.5s` or `0` to nanoseconds.

    Raises FunctionProblem, also for "".
    """
    unsigned = text[1:] if text[:1] in {"-", "+"} else text
    if unsigned == "0":
        return 0
    # Longer ones could take long to compute.
    if len(unsigned) > 100 or not _DURATION.fullmatch(unsigned):
        excerpt = truncate_text(text, _MAX_EXCERPT)
        advice = 'write numbers with units (ns, us, ms, s, m, h), as in "1h30m"'
        raise FunctionProblem(f'"{excerpt}" is not a duration: {advice}', position)
    parts = _DURATION_PART.findall(unsigned)
    total = sum(int(Fraction(number.rstrip(".")) * _UNITS[unit]) for number, unit in parts)
    is_negative = text[0] == "-"
    # Signed 64 bits: -2**63 to 2**63 - 1.
    largest = _MAX_DURATION if is_negative else _MAX_DURATION - 1
    if total > largest:
        excerpt = truncate_text(text, _MAX_EXCERPT)
        raise FunctionProblem(f'the duration "{excerpt}" is longer than 292 years', position)
    return -total if is_negative else total


def _add_duration_to_timestamp(timestamp: str, duration: str) -> str:
    """Add a duration to a timestamp; return RFC 3339 text, without fractions of a second."""
    start = parse_timestamp(timestamp)
    days, nanosecond = divmod(start.nanosecond + parse_duration(duration, position=1), _DAY)
    moment = LocalTime(start.day + days, nanosecond, start.offset)
    year, month, day = moment.date
    hour, minute, second = moment.clock
    sign = "-" if year < 0 else ""
    text = f"{sign}{abs(year):04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}"
    return text + _format_time_zone_offset(moment, colon=True, utc="Z")


def _compare_timestamps(first: str, second: str) -> int:
    """Return -1, 0 or 1: the first is earlier, equal or later."""
    first_instant = parse_timestamp(first, lenient=True).instant
    second_instant = parse_timestamp(second, position=1, lenient=True).instant
    return (first_instant > second_instant) - (first_instant < second_instant)


FUNCTIONS: Final = (
    build_plain_function(
        "formatdate",
        "A formatted timestamp: YYYY, MM, DD, hh, mm, ss, EEE, MMM, ZZZ and text in single quotes.",
        [("format", STRING, "the format"), ("time", STRING, "a timestamp")],
        compute=_format_date,
        examples=[
            (
                'formatdate("DD MMM YYYY hh:mm ZZZ", "2018-01-02T23:12:01Z")',
                '"02 Jan 2018 23:12 UTC"',
            )
        ],
    ),
    build_plain_function(
        "timeadd",
        "A timestamp plus a duration, which may be negative.",
        [("timestamp", STRING, "a timestamp"), ("duration", STRING, 'for example "1h30m"')],
        compute=_add_duration_to_timestamp,
        examples=[('timeadd("2017-11-22T00:00:00Z", "10m")', '"2017-11-22T00:10:00Z"')],
    ),
    build_plain_function(
        "timecmp",
        "-1, 0 or 1: the first timestamp is earlier, equal or later.",
        [("timestamp_a", STRING, "a timestamp"), ("timestamp_b", STRING, "another")],
        returns=NUMBER,
        compute=_compare_timestamps,
        examples=[('timecmp("2017-11-22T00:00:00Z", "2017-11-22T01:00:00Z")', "-1")],
    ),
)


def _format_utc_timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def build_clock_functions(
    plan_time: Callable[[], datetime], now: Callable[[], datetime] | None
) -> tuple[Function, ...]:
    """Build timestamp() and plantimestamp().

    During planning `now` is None, and timestamp() is unknown.
    """
    return (
        Function(
            "plantimestamp",
            "The time of the plan.",
            (),
            STRING,
            lambda: Value(STRING, _format_utc_timestamp(plan_time())),
            (Example("timecmp(plantimestamp(), plantimestamp())", "0"),),
        ),
        Function(
            "timestamp",
            "The time of the apply, known only then.",
            (),
            STRING,
            lambda: Value(STRING, UNKNOWN if now is None else _format_utc_timestamp(now())),
        ),
    )
