"""Looking at the lock of a state, and breaking it."""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.diagnostics import Diagnostic, error
from nexusform.ports import BackendProblem, LockInfo
from nexusform.source import SourceFile
from nexusform.workflow.project import Place, find_backend


def find_holder(place: Place) -> tuple[LockInfo | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """Who holds the lock of the selected workspace, None when nobody does."""
    backend, problems, sources = find_backend(place)
    if backend is None:
        return None, problems, sources
    try:
        return backend.holder(), problems, sources
    except BackendProblem as problem:
        return None, [*problems, error("the-lock-cannot-be-read", str(problem))], sources


def break_lock(place: Place, lock_id: str) -> tuple[list[Diagnostic], Mapping[str, SourceFile]]:
    """Break the lock with this id; a diagnostic when another or none is held."""
    backend, problems, sources = find_backend(place)
    if backend is None:
        return problems, sources
    try:
        backend.force_unlock(lock_id)
    except BackendProblem as problem:
        problems.append(error("failed-to-unlock-state", str(problem)))
    return problems, sources
