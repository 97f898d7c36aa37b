"""A table of what every argument of every command does outside of the work tree, by a kernel trace.

python -m tests.nightly.kernel_table [PART PARTS]

prints it as Markdown; the exit code is 1 if a sandboxed run opened, started or connected to
anything. It needs strace.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.trust.hostile_arguments import list_hostile_values, summarize_trace, trace_arguments


def main() -> int:
    part, parts = sys.argv[1:3] if len(sys.argv) > 2 else ("0", "1")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        kernel = trace_arguments(directory, directory / "home", part, parts)
        rows = summarize_trace(kernel, directory)
        tree = directory / "trees" / "work"
        print("| command | argument | values | files outside | programs | connections |")
        print("|---|---|---|---|---|---|")
        for row in rows:
            count = len(list_hostile_values(row.argument, tree))
            accesses = [row.files, row.programs, row.connections]
            cells = " | ".join(" ".join(sorted(names)) or "none" for names in accesses)
            print(f"| {row.argument.command} | {row.argument.name} | {count} | {cells} |")
    return int(any(row.files or row.programs or row.connections for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
