"""Every function by family, for tests that have no files and no clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from nexusform.language.evaluation_run import FileProblem
from nexusform.language.functions import dates, file_access
from nexusform.language.functions.function import Function
from nexusform.language.functions.registry import FAMILIES


class _NoFiles:
    # Used where functions are only described.
    def read(self, path: str) -> bytes:
        raise FileProblem(f"No file can be read here: {path}")

    def is_file(self, path: str) -> bool:
        raise FileProblem(f"No file can be looked for here: {path}")

    def find_files(self, base: str, pattern: str) -> list[str]:
        raise FileProblem(f"No file can be looked for here: {base}/{pattern}")

    def resolve_path(self, path: str) -> str:
        return path

    def expand_home(self, path: str) -> str:
        return path


def list_function_families() -> Sequence[tuple[str, tuple[Function, ...]]]:
    """Build every family with its title; functions with outside access cannot be called."""
    reader = file_access.FileReader(_NoFiles(), "")
    return (
        *FAMILIES,
        ("Clock", dates.build_clock_functions(lambda: datetime(2000, 1, 1, tzinfo=UTC), None)),
        ("Files", file_access.build_file_functions(reader)),
        ("Templates", file_access.build_template_functions(reader, file_access.TemplateRenderer())),
    )
