"""Kinds of backends in listing order: one line each here, or in domain_table.py."""

from collections.abc import Mapping
from typing import Final

from nexusform.backends.backend_definition import BackendDefinition
from nexusform.diagnostics.diagnostic import suggest_name
from nexusform.domain_table import LazyTable, collect_loaders, explain_absent_domain


def _load_local() -> BackendDefinition:
    from nexusform.backends.local_file import LOCAL

    return LOCAL


def _load_memory() -> BackendDefinition:
    from nexusform.backends.memory import MEMORY

    return MEMORY


BACKENDS: Final[Mapping[str, BackendDefinition]] = LazyTable(
    {"local": _load_local, "memory": _load_memory, **collect_loaders("backends")}
)


def explain_unknown_backend(kind: str) -> str:
    """Return the detail of an error for an unknown kind of backend."""
    hint = explain_absent_domain(kind, "backends") or suggest_name(kind, BACKENDS)
    return f'There is no backend "{kind}". Known are: {", ".join(BACKENDS)}.{hint}'
