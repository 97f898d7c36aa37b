"""Domains of other installed distributions: entry points of the group `nexusform.domains`.

An entry point names a `DomainDeclaration`. Its domain adds resource types, providers, commands and
all else, as those of nexusform itself do. A domain that does not agree with this nexusform is
rejected, and named wherever one of its names is missing.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from nexusform.domain_declaration import INTERFACE_VERSION, DomainDeclaration

_GROUP: Final = "nexusform.domains"
# Fields of a declaration with names that only one domain may have.
_NAME_FIELDS: Final = ("resource_types", "data_sources", "commands", "providers", "backends")


class ExternalDomain(Struct, frozen=True):
    """Domain of another distribution, such as "nexusform-toy 0.1".

    `problem` is a sentence with the reason why it is not used; its declaration is None then.
    """

    distribution: str
    declaration: DomainDeclaration | None
    problem: str = ""


def load_external_domains(own: Iterable[DomainDeclaration]) -> tuple[ExternalDomain, ...]:
    """Import the declarations of other distributions, sorted; `own` are those of nexusform."""
    # A start without such domains must not read the metadata of all distributions.
    if not _has_entry_points():
        return ()
    from importlib.metadata import entry_points

    accepted = list(own)
    domains = []
    for entry in sorted(entry_points(group=_GROUP), key=lambda entry: (entry.name, entry.value)):
        distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
        try:
            loaded = entry.load()
        except Exception as error:  # noqa: BLE001 - whatever the code of others raises
            loaded = None
            problem = f"it cannot be imported ({type(error).__name__}: {error})"
        else:
            problem = _find_problem(loaded, accepted)
        if problem:
            problem = f'The domain "{entry.name}" of {distribution} is not used: {problem}.'
            domains.append(ExternalDomain(distribution, None, problem))
            continue
        accepted.append(loaded)
        domains.append(ExternalDomain(distribution, loaded))
    return tuple(domains)


def _has_entry_points() -> bool:
    """Return whether any distribution of the Python path has an entry point of the group."""
    return any(
        f"[{_GROUP}]".encode() in path.read_bytes()
        for directory in sys.path
        for path in Path(directory).glob("*.dist-info/entry_points.txt")
    )


def _find_problem(declaration: Any, accepted: Iterable[DomainDeclaration]) -> str:
    """Return why a declaration is not used beside the accepted ones, "" if it is."""
    if not isinstance(declaration, DomainDeclaration):
        return "its entry point is no DomainDeclaration"
    if declaration.interface_version != INTERFACE_VERSION:
        return (
            f"it is written for interface version {declaration.interface_version}, and this "
            f"nexusform has {INTERFACE_VERSION}. Install a version of it for this nexusform"
        )
    for other in accepted:
        for field_name in ("name", *_NAME_FIELDS):
            taken = _list_names(other, field_name) & _list_names(declaration, field_name)
            if taken:
                return f'"{min(taken)}" is already a name of the domain "{other.name}"'
    return ""


def _list_names(declaration: DomainDeclaration, field_name: str) -> set[str]:
    """Return the names in a field: one text, or the keys of a table."""
    value = getattr(declaration, field_name)
    return set(value) if isinstance(value, Mapping) else {value}
