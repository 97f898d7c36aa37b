"""Files and time controlled by a test."""

from __future__ import annotations

import fnmatch

from nexusform.interfaces.plugins import FileProblem

NOW = "2026-02-28T08:00:00Z"


class MemoryFiles:
    """Files in a dictionary."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileProblem(f'There is no file "{path}".')
        return self.files[path]

    def is_file(self, path: str) -> bool:
        return path in self.files

    def find_files(self, base: str, pattern: str) -> list[str]:
        names = [p.removeprefix(f"{base}/") for p in self.files if p.startswith(f"{base}/")]
        return sorted(fnmatch.filter(names, pattern))

    def resolve_path(self, path: str) -> str:
        return path

    def expand_home(self, path: str) -> str:
        return path
