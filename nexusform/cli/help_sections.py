"""Help of commands with many flags: flags by purpose, and examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_MAX_UNGROUPED: Final = 15  # flags under a single title
_OTHER_TITLE: Final = "Other options"
_FLAG_SECTIONS: Final[Mapping[str, str]] = {
    "Plan options": "destroy refresh-only refresh target target-file exclude exclude-file replace var var-file samples",
    "Result": "out previous sign check-with generate-config-out detailed-exitcode fail-on",
    "Output": "details placements report diff source-url json compat no-color concise show-sensitive",
    "Apply options": "auto-approve resume discard fail-fast verify take-ownership allow-other-hub parallelism input",
    "State and backend": "state lock lock-timeout backup backend-config",
    "Confinement": "confine allow-remote limit",
}
# Flags of many commands, and commands with one of them as their own.
_SHARED_FLAGS: Final = frozenset(
    ("confine", "allow-remote", "limit", "backend-config", "no-color", "state", "lock", "lock-timeout", "backup")
)
_OWN_FLAGS: Final[Mapping[str, frozenset[str]]] = {"init": frozenset({"backend-config"})}
# Commands with too many flags of their own.
_MAIN_FLAGS: Final[Mapping[str, str]] = {
    "plan": "out var var-file target replace destroy report fail-on previous",
    "apply": "auto-approve resume discard verify var var-file target replace destroy refresh-only report",
}
_EXAMPLES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "": (
        ("nexusform plan -out=p.nfplan", "show what changes, save the plan"),
        ("nexusform apply p.nfplan", "apply the saved plan"),
        ("nexusform explain ADDRESS NODE", "show why a node is on its machine"),
    ),
    "plan": (
        ("nexusform plan -out=p.nfplan", "save the plan for apply"),
        ("nexusform plan -report=markdown:plan.md", "a comment for a pull request"),
        ("nexusform plan -fail-on=moved:0,capacity:5", "fail if a VM moves"),
        ("nexusform plan -replace=ADDR:core-w-1", "re-place one VM of a cluster"),
        ("nexusform plan -details -target=ADDR", "every argument of one object"),
    ),
    "apply": (
        ("nexusform apply p.nfplan", "apply a reviewed plan"),
        ("nexusform apply -resume", "continue an interrupted apply"),
        ("nexusform apply -refresh-only", "only refresh the state"),
    ),
}


def select_main_help_rows(command: str, rows: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Select the help rows of a command without -help=all: its own flags, or the main ones of them."""
    if command in _MAIN_FLAGS:
        return {name: rows[name] for name in _MAIN_FLAGS[command].split() if name in rows}
    own_flags = _OWN_FLAGS.get(command, frozenset())
    hidden_flags = _SHARED_FLAGS - own_flags | {"help"}
    # Positional arguments without help are in the usage line.
    return {name: row for name, row in rows.items() if name not in hidden_flags and row[1]}


def group_flags(flags: Iterable[tuple[str, tuple[str, str]]]) -> dict[str, list[tuple[str, str]]]:
    """Group the help rows of flags by title; few flags share one title."""
    rows = dict(flags)
    if len(rows) <= _MAX_UNGROUPED:
        return {"Options": list(rows.values())}
    groups: dict[str, list[tuple[str, str]]] = {}
    for title, names in _FLAG_SECTIONS.items():
        groups[title] = [rows.pop(name) for name in names.split() if name in rows]
    # Positional arguments without help are in the usage line.
    groups[_OTHER_TITLE] = [row for row in rows.values() if row[1]]
    return {title: group_rows for title, group_rows in groups.items() if group_rows}


def get_command_examples(command: str) -> tuple[tuple[str, str], ...]:
    """Return the examples of a command with their effects; empty without any."""
    return _EXAMPLES.get(command, ())
