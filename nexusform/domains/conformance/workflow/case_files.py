"""Files of recorded decisions: one JSON object per line in each `*.jsonl` or `*.jsonl.gz` of a directory."""

from __future__ import annotations

import errno
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import DecodeError, Struct, ValidationError, field, json

from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.files.regular_files import read_regular

_MAX_BYTES: Final = 1 << 30  # bytes of one file
_MAX_LINE: Final = 64 << 20  # bytes of one decision
INVALID: Final = "invalid-conformance-case"


class ConformanceCase(Struct, frozen=True):
    """Recorded decision of a real system: its knowledge, the request and the answer. The system draws among the
    decision and `equivalent`, so these are right too.
    """

    system: str
    version: str
    snapshot: dict[str, Any]
    request: dict[str, Any]
    decision: dict[str, Any]
    equivalent: list[dict[str, Any]] = field(default_factory=list)

    def is_right(self, answer: Any) -> bool:
        """Return True if an answer is the decision or as good."""
        return answer == self.decision or answer in self.equivalent


class LocatedConformanceCase(Struct, frozen=True):
    """Case with its place, `FILE:LINE`."""

    place: str
    case: ConformanceCase


def read_cases(directory: str, problems: list[Diagnostic]) -> Iterator[LocatedConformanceCase]:
    """Yield the cases of a directory in the order of file names and lines; adds to `problems`."""
    try:
        paths = sorted((*Path(directory).glob("*.jsonl"), *Path(directory).glob("*.jsonl.gz")))
        if not paths and not Path(directory).is_dir():
            raise NotADirectoryError
    except OSError:
        problems.append(build_error(INVALID, f'"{directory}" is not a directory. Name one with *.jsonl files.'))
        return
    if not paths:
        problems.append(
            build_error(INVALID, f'"{directory}" has no *.jsonl or *.jsonl.gz file with recorded decisions.')
        )
    for path in paths:
        try:
            for number, line in enumerate(_read_lines(path), 1):
                if not line.strip():
                    continue
                try:
                    yield LocatedConformanceCase(f"{path.name}:{number}", json.decode(line, type=ConformanceCase))
                except (DecodeError, ValidationError) as problem:
                    detail = f"{path}, line {number}: {problem}. A case is one JSON object per line."
                    problems.append(build_error(INVALID, detail))
        except (OSError, EOFError, zlib.error) as problem:
            reason = getattr(problem, "strerror", None) or "it is damaged"
            problems.append(build_error(INVALID, f'"{path}" cannot be read: {reason}.'))


def _read_lines(path: Path) -> Iterator[bytes]:
    """Yield the decompressed lines of a file. Raises OSError, EOFError and zlib.error."""
    content = io.BytesIO(read_regular(path, _MAX_BYTES))
    with gzip.open(content) if path.suffix == ".gz" else content as file:
        while line := file.readline(_MAX_LINE + 1):
            if len(line) > _MAX_LINE:
                raise OSError(errno.EFBIG, "a line is longer than 64 MiB")
            yield line
