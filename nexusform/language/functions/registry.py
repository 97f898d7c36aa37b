"""Every function by name: what a configuration may call, and the page that describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from nexusform.language.evaluation import Clock, FileProblem, Files
from nexusform.language.functions import (
    conversions,
    dates,
    elements,
    encoding,
    file_access,
    formatting,
    hashing,
    mappings,
    networks,
    numeric,
    regular_expressions,
    sequences,
    sets,
    templating,
    text,
)
from nexusform.language.functions.function import Function, Functions, signature
from nexusform.value_types import friendly_name
from nexusform.values import string

# One line for every family: its title on the page, and the functions that need nothing from outside.
FAMILIES: Final[tuple[tuple[str, tuple[Function, ...]], ...]] = (
    ("Numbers", numeric.FUNCTIONS),
    ("Text", text.FUNCTIONS),
    ("Text from patterns", formatting.FUNCTIONS),
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


def standard_functions(
    files: Files,
    clock: Clock,
    base_directory: str,
    *,
    plan_time: datetime | None = None,
    applying: bool = False,
    new_uuid: Callable[[], str] | None = None,
) -> Functions:
    """Every function, reading files below `base_directory` and the clock.

    `plan_time` is what plantimestamp() gives (the first moment it is asked for, by default).
    timestamp() is unknown unless `applying`, and so is uuid(), which then takes its random ones from
    `new_uuid`.
    """
    families = [*FAMILIES, *_outside_families(files, clock, base_directory, plan_time, applying=applying)]
    functions: dict[str, Function] = {}
    for _, family in families:
        functions.update({function.name: function for function in family})
    if applying and new_uuid is not None:
        functions["uuid"] = replace(functions["uuid"], body=lambda: string(new_uuid()))
    return _with_templates(functions, files, base_directory)


def _with_templates(functions: dict[str, Function], files: Files, base_directory: str) -> Functions:
    """All functions by name, those that render templates among them, which may call all others."""
    renderer = templating.TemplateRenderer()
    reader = file_access.FileReader(files, base_directory)
    for each in templating.template_functions(reader, renderer):
        functions[each.name] = each
    ordered = MappingProxyType(dict(sorted(functions.items())))
    renderer.functions = ordered
    return ordered


def _outside_families(
    files: Files, clock: Clock, base_directory: str, plan_time: datetime | None, *, applying: bool
) -> Sequence[tuple[str, tuple[Function, ...]]]:
    """The functions that look at a clock and at files. While a plan is made the time stands still."""
    fixed: list[datetime] = [plan_time] if plan_time is not None else []

    def planned() -> datetime:
        if not fixed:
            fixed.append(clock.now())
        return fixed[0]

    now: Callable[[], datetime] | None = clock.now if applying else None
    reader = file_access.FileReader(files, base_directory)
    return (
        ("Clock", dates.clock_functions(planned, now)),
        ("Files", file_access.file_functions(reader)),
    )


# --- the reference page --------------------------------------------------------------------------


class _NoFiles:
    # Stands where functions are only described.
    def read(self, path: str) -> bytes:
        raise FileProblem(f"No file can be read here: {path}")

    def exists(self, path: str) -> bool:
        raise FileProblem(f"No file can be looked for here: {path}")

    def glob(self, base: str, pattern: str) -> list[str]:
        raise FileProblem(f"No file can be looked for here: {base}/{pattern}")

    def absolute(self, path: str) -> str:
        return path

    def expand_home(self, path: str) -> str:
        return path


class _NoClock:
    def now(self) -> datetime:
        return datetime(2000, 1, 1, tzinfo=UTC)

    def sleep(self, seconds: float) -> None:
        del seconds


def described_families() -> Sequence[tuple[str, tuple[Function, ...]]]:
    """Every family with its title; those that need something from outside cannot be called."""
    files, clock = _NoFiles(), _NoClock()
    reader = file_access.FileReader(files, "")
    return (
        *FAMILIES,
        *_outside_families(files, clock, "", clock.now(), applying=False),
        ("Templates", templating.template_functions(reader, templating.TemplateRenderer())),
    )


def reference_markdown() -> str:
    """The reference page of all functions, as Markdown."""
    families = described_families()
    count = sum(len(family) for _, family in families)
    lines = [
        "# Functions",
        "",
        f"All {count} functions of expressions. Arguments are converted to the parameter type. An unknown",
        "argument gives an unknown result, a sensitive argument a sensitive result.",
        "",
    ]
    for title, family in families:
        lines += [f"## {title}", ""]
        for function in sorted(family, key=lambda f: f.name):
            lines += _section(function)
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(function: Function) -> list[str]:
    """The Markdown of one function."""
    lines = [f"### `{signature(function)}`", "", function.description, ""]
    if function.examples:
        lines += ["```hcl", *[f"{e.call} # {e.result}" for e in function.examples], "```", ""]
    parameters = [*function.parameters, *([function.variadic] if function.variadic else [])]
    for parameter in parameters:
        kind = friendly_name(parameter.type, constraint=True)
        lines.append(f"- `{parameter.name}` ({kind}): {parameter.description}")
    if parameters:
        lines.append("")
    return lines


def example_calls() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """The examples of every function: what is called, and what it gives."""
    calls: dict[str, tuple[tuple[str, str], ...]] = {}
    for _, family in described_families():
        for function in family:
            calls[function.name] = tuple([(each.call, each.result) for each in function.examples])
    return calls
