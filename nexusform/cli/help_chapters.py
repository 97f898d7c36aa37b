"""The help of commands with many flags: flags by what they are for, and what people type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_MOST: Final = 15  # flags that stand under one title
_OTHERS: Final = "Other options"
_CHAPTERS: Final[Mapping[str, str]] = {
    "Plan options": "destroy refresh-only refresh target target-file exclude exclude-file replace var "
    "var-file tie-breaks",
    "Result": "out sign generate-config-out detailed-exitcode fail-on",
    "Output": "details placements report diff source-url json compat no-color concise show-sensitive",
    "Apply options": "auto-approve resume discard fail-fast verify take-ownership parallelism input",
    "State and backend": "state lock lock-timeout backup backend-config",
    "Confinement": "confine allow-remote limit",
}
_EXAMPLES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "plan": (
        ("nexusform plan -out=p.nfplan", "save the plan for apply"),
        ("nexusform plan -report=markdown:plan.md", "a comment for a pull request"),
        ("nexusform plan -fail-on=moved:0,room:5", "fail if a VM moves"),
        ("nexusform plan -replace=ADDR:core-w-1", "re-place one VM of a cluster"),
        ("nexusform plan -details -target=ADDR", "every argument of one object"),
    ),
    "apply": (
        ("nexusform apply p.nfplan", "apply a reviewed plan"),
        ("nexusform apply -resume", "continue an interrupted apply"),
        ("nexusform apply -refresh-only", "only refresh the state"),
    ),
}


def in_chapters(flags: Iterable[tuple[str, tuple[str, str]]]) -> dict[str, list[tuple[str, str]]]:
    """The rows of flags, by name, under the titles that they stand under; few of them under one."""
    rows = dict(flags)
    if len(rows) <= _MOST:
        return {"Options": list(rows.values())}
    told: dict[str, list[tuple[str, str]]] = {}
    for title, names in _CHAPTERS.items():
        told[title] = [rows.pop(name) for name in names.split() if name in rows]
    # What is no flag and has no words stands in the line of usage.
    told[_OTHERS] = [row for row in rows.values() if row[1]]
    return {title: listed for title, listed in told.items() if listed}


def examples_of(command: str) -> tuple[tuple[str, str], ...]:
    """What people type, and what comes of it; empty where the help says it all."""
    return _EXAMPLES.get(command, ())
