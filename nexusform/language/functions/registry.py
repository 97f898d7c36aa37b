"""Table of every function by name."""

from collections.abc import Callable
from datetime import datetime
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from nexusform.language.evaluation_run import Clock, Files
from nexusform.language.functions import (
    conversions,
    dates,
    elements,
    encoding,
    file_access,
    format_verbs,
    hashing,
    mappings,
    networks,
    numeric,
    regular_expressions,
    sequences,
    sets,
    text,
)
from nexusform.language.functions.function import Function, Functions
from nexusform.values.typed_value import build_string

# One line for every family: its title on the page, and the functions without outside access.
FAMILIES: Final[tuple[tuple[str, tuple[Function, ...]], ...]] = (
    ("Numbers", numeric.FUNCTIONS),
    ("Text", text.FUNCTIONS),
    ("Text from patterns", format_verbs.FUNCTIONS),
    ("Regular expressions", regular_expressions.FUNCTIONS),
    ("Lists", (*elements.FUNCTIONS, *sequences.FUNCTIONS)),
    ("Maps", mappings.FUNCTIONS),
    ("Sets", sets.FUNCTIONS),
    ("Types and marks", conversions.FUNCTIONS),
    ("Encodings", encoding.FUNCTIONS),
    ("Hashes and UUIDs", hashing.FUNCTIONS),
    ("IP networks", networks.FUNCTIONS),
    ("Dates", dates.FUNCTIONS),
    ("Paths", file_access.PATH_FUNCTIONS),
)


def build_functions(
    files: Files,
    clock: Clock,
    base_directory: str,
    *,
    plan_time: datetime | None = None,
    is_applying: bool = False,
    new_uuid: Callable[[], str] | None = None,
) -> Functions:
    """Build every function, with files below `base_directory` and the clock.

    `plan_time` is the result of plantimestamp() (by default the time of its first call).
    timestamp() and uuid() are unknown in a plan; with `is_applying` they return the current time,
    and a result of `new_uuid` if it is given.
    """
    # Empty until the first call of plantimestamp(), and then its time: all calls return the same.
    plan_times: list[datetime] = [plan_time] if plan_time is not None else []

    def read_plan_time() -> datetime:
        """Return the time of the plan, read from the clock by the first call."""
        if not plan_times:
            plan_times.append(clock.read_time())
        return plan_times[0]

    # None: timestamp() is unknown.
    now: Callable[[], datetime] | None = clock.read_time if is_applying else None
    reader = file_access.FileReader(files, base_directory)
    families = [family for _, family in FAMILIES]
    families += [
        dates.build_clock_functions(read_plan_time, now),
        file_access.build_file_functions(reader),
    ]
    functions = {function.name: function for family in families for function in family}
    if is_applying and new_uuid is not None:
        functions["uuid"] = replace(functions["uuid"], body=lambda: build_string(new_uuid()))
    # The functions for templates may call all others: the renderer gets the complete table.
    renderer = file_access.TemplateRenderer()
    functions |= {
        function.name: function
        for function in file_access.build_template_functions(reader, renderer)
    }
    sorted_functions = MappingProxyType(dict(sorted(functions.items())))
    renderer.functions = sorted_functions
    return sorted_functions
