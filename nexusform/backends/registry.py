"""Kinds of backends, in listing order: a line each here, or in domain_table.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexusform.backends.backend_kind import BackendKind
from nexusform.backends.guarded_backend import GuardedBackend
from nexusform.backends.local_file import LocalBackend
from nexusform.domain_table import LazyTable, collect_targets
from nexusform.interfaces.state_storage import StateBackend

BACKENDS: Final[Mapping[str, BackendKind]] = LazyTable(
    {
        "local": "nexusform.backends.local_file:LOCAL",
        "memory": "nexusform.backends.memory:MEMORY",
        **collect_targets("backends"),
    }
)


def is_local_state(backend: StateBackend) -> bool:
    """Return whether the state is in a file of this machine."""
    return isinstance(backend, GuardedBackend) and isinstance(backend.inner, LocalBackend)
