"""Common checks of all backends: missing clients, names of workspaces, and size limits."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from nexusform.diagnostics.phrases import format_installation
from nexusform.files.regular_files import FileTooLarge
from nexusform.interfaces.state_storage import BackendProblem

MAXIMUM_SIZE: Final = 1 << 30  # default limit for the bytes of a state or a journal
MAXIMUM_LOCK_SIZE: Final = 1 << 16  # limit for the bytes of a lock
DEFAULT_WORKSPACE: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,89}")


def check_name(name: str) -> None:
    """Raise a BackendProblem unless the name is valid in a path and a URL."""
    if _NAME.fullmatch(name) is None:
        raise BackendProblem(
            f'Invalid workspace name "{name}": use up to 90 letters, digits, "-", "_", "~" and ".", not '
            "starting with a dot."
        )


def check_deletable(name: str, existing: Collection[str]) -> None:
    """Raise a BackendProblem unless the workspace exists and is not the default one."""
    check_name(name)
    if name == DEFAULT_WORKSPACE:
        raise BackendProblem(f'The workspace "{DEFAULT_WORKSPACE}" cannot be deleted.')
    if name not in existing:
        raise BackendProblem(f'There is no workspace "{name}".')


def build_size_problem(description: str, location: str, problem: FileTooLarge) -> BackendProblem:
    """Build the problem of an oversized file: `description` is a phrase like "read the state"."""
    hint = "If this size is expected, raise the limit: -limit=file_mib=N or NF_LIMIT_FILE_MIB=N."
    return BackendProblem(f"Cannot {description} {location}: {problem.strerror}. {hint}")


@contextmanager
def require_package(backend: str, extra: str) -> Iterator[None]:
    """Convert a missing package to a BackendProblem with the installation command."""
    try:
        yield
    except ImportError as problem:
        raise BackendProblem(
            f'The backend "{backend}" needs the package {problem.name}: {format_installation(extra)}.'
        ) from None
