"""What was read from the files of OpenStack: contents, problems and unread facts."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_first_items
from nexusform.doubts.doubt import Doubt, Influence

_INVALID: Final = "invalid-openstack-file"
_INCOMPLETE: Final = "incomplete-openstack-inventory"


class OpenstackReading(Struct):
    """Contents of the files as plain data by name, the problems found, and the unread facts."""

    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    flavors: dict[str, dict[str, Any]] = field(default_factory=dict)
    servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    images: dict[str, dict[str, str]] = field(default_factory=dict)
    image_limits: dict[str, dict[str, Any]] = field(default_factory=dict)
    server_groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    other_resource_classes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unread: list[Doubt] = field(default_factory=list)


# Names for a message, and the doubts about them.
NamedDoubts: TypeAlias = tuple[Sequence[str], Sequence[Doubt]]


def build_facts(
    subject: tuple[str, str],
    column: str,
    file: str,
    reason: str,
    influences: Iterable[Influence] = (Influence.PLACEMENT, Influence.CAPACITY),
) -> list[Doubt]:
    """Return the facts of an unread column of a file, one per influence."""
    return [
        Doubt(*subject, column, f"{file}.json", 0, influence, reason) for influence in influences
    ]


def build_problem(detail: str) -> Problem:
    """Return an error about the files."""
    return Problem(("directory",), _INVALID, detail)


def build_warning(detail: str) -> Problem:
    """Return a warning that the files lack something."""
    return Problem(("directory",), _INCOMPLETE, detail, Severity.WARNING)


def add_unknown_parts(reading: OpenstackReading, parts: NamedDoubts, message: str) -> None:
    """Add unread facts, and one warning about all of them."""
    names, doubts = parts
    reading.unread += doubts
    if names:
        detail = message.format(names=format_first_items(names, 4))
        reading.problems.append(build_warning(detail))
