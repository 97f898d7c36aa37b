"""The kinds of backends, in the order in which they are listed: a line each here, or in domain_table.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexusform.backends.backend_kind import BackendKind
from nexusform.backends.guarded import GuardedBackend
from nexusform.backends.local_file import LocalBackend
from nexusform.domain_table import Loaded, targets_of_domains
from nexusform.state_ports import StateBackend

BACKENDS: Final[Mapping[str, BackendKind]] = Loaded(
    {
        "local": "nexusform.backends.local_file:LOCAL",
        "memory": "nexusform.backends.memory:MEMORY",
        **targets_of_domains("backends"),
    }
)


def is_local(backend: StateBackend) -> bool:
    """Whether the state is in a file of this machine."""
    return isinstance(backend, GuardedBackend) and isinstance(backend.inner, LocalBackend)
