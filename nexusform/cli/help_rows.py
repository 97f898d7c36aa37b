"""Help of a command: its flags by section, and examples."""

from collections.abc import Mapping, Sequence
from typing import Final

# Flags under a single title.
_MAX_UNGROUPED: Final = 15
_FLAG_SECTIONS: Final[Mapping[str, str]] = {
    "Plan options": (
        "destroy refresh-only refresh target target-file exclude exclude-file replace var "
        "var-file samples assume allow-older-export"
    ),
    "Result": (
        "out previous sign check-with generate-config-out detailed-exitcode fail-on warn-on "
        "max-age next"
    ),
    "Output": (
        "details placements report diff source-url json json-into compat no-color concise "
        "show-sensitive"
    ),
    "Apply options": (
        "auto-approve resume discard fail-fast verify revocations take-ownership allow-other-hub "
        "parallelism input"
    ),
    "State and backend": "state lock lock-timeout backup backend-config",
    "Confinement": "confine allow-remote limit",
}


# Commands with too many flags of their own.
_MAIN_FLAGS: Final[Mapping[str, str]] = {
    "plan": "out var var-file target replace destroy report fail-on previous",
    "apply": (
        "auto-approve resume discard verify var var-file target replace destroy refresh-only report"
    ),
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


def select_main_help_rows(
    command: str, rows: Mapping[str, tuple[str, str]]
) -> dict[str, tuple[str, str]]:
    """Select the rows (usage, help) of a command without -help=all.

    Its main flags if defined, else its own ones.
    """
    if command in _MAIN_FLAGS:
        return {name: rows[name] for name in _MAIN_FLAGS[command].split() if name in rows}
    hidden_flags = {
        "help",
        "confine",
        "allow-remote",
        "limit",
        "no-color",
        "state",
        "lock",
        "lock-timeout",
        "backup",
    }
    # The flag -backend-config is shared with other commands, too, but central for `init`.
    if command != "init":
        hidden_flags.add("backend-config")
    # Positional arguments without help are in the usage line.
    return {name: row for name, row in rows.items() if name not in hidden_flags and row[1]}


def group_flags(rows: Mapping[str, tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Group the help rows of flags (usage, help) by title; few flags share one title."""
    if len(rows) <= _MAX_UNGROUPED:
        return {"Options": list(rows.values())}
    # Without help: positional arguments, named by the usage line.
    described_rows = {name: row for name, row in rows.items() if row[1]}
    names_by_title = {title: names.split() for title, names in _FLAG_SECTIONS.items()}
    return _group_help_rows(described_rows, names_by_title, "Other options")


def _group_help_rows(
    rows: Mapping[str, tuple[str, str]],
    names_by_title: Mapping[str, Sequence[str]],
    other_title: str,
) -> dict[str, list[tuple[str, str]]]:
    """Group help rows by title; those under no title come last.

    Titles without rows are omitted. `rows` have pairs of usage and help, by name of a flag or
    command; `names_by_title` has the names of each title.
    """
    remaining = dict(rows)
    groups: dict[str, list[tuple[str, str]]] = {}
    for title, names in names_by_title.items():
        group = [remaining.pop(name) for name in names if name in remaining]
        if group:
            groups[title] = group
    if remaining:
        groups[other_title] = list(remaining.values())
    return groups


def get_command_examples(command: str) -> tuple[tuple[str, str], ...]:
    """Return the examples of a command with their effects; empty without any."""
    return _EXAMPLES.get(command, ())
