"""Benchmark of the start: processor time of whole commands.

It is compared with an import of two of their packages.

Run: python tests/benchmarks/bench_start.py [runs] [checkout of another version]

A plan of examples/quickstart is measured in a copy, beside `python -c "import click, networkx"`.
The commands run alternately, so that other load on the machine affects all of them, and the median
counts. Bytecode is compiled before. A second checkout is measured in the same rounds.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
RUN = "from nexusform.cli.main import main; main()"
PEER = "import click, networkx"


class Command(Struct, frozen=True):
    """Python command: its arguments, directory, and the checkout of the imported nexusform."""

    arguments: tuple[str, ...]
    directory: str
    checkout: Path = ROOT

    def measure_processor_time(self) -> float:
        """Return user and system seconds of one run."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-c", *self.arguments],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(self.checkout), "PYTHONDONTWRITEBYTECODE": ""},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def build_commands(directory: Path, others: list[str]) -> dict[str, Command]:
    """Return the commands to measure, the peer first."""
    measured = {
        PEER: Command((PEER,), str(directory)),
        "bare interpreter": Command(("pass",), str(directory)),
        "nexusform version": Command((RUN, "version"), str(directory)),
    }
    for checkout in [ROOT, *map(Path, others)]:
        place = directory / f"quickstart-{len(measured)}"
        shutil.copytree(ROOT / "examples" / "quickstart", place)
        name = "nexusform plan" if checkout == ROOT else f"nexusform plan of {checkout.name}"
        measured[name] = Command((RUN, "plan"), str(place), checkout)
    return measured


def main() -> None:
    runs = int(sys.argv[1]) if sys.argv[1:] else 21
    with tempfile.TemporaryDirectory() as directory:
        measured = build_commands(Path(directory), sys.argv[2:])
        for command in measured.values():
            command.measure_processor_time()
        turns = [
            {name: c.measure_processor_time() for name, c in measured.items()} for _ in range(runs)
        ]
    medians = {name: statistics.median(turn[name] for turn in turns) for name in measured}
    for name, median in medians.items():
        ratio = statistics.median(turn[name] / turn[PEER] for turn in turns)
        print(f"{name:36} {median:6.3f} s  {ratio:5.2f} times the peer")


if __name__ == "__main__":
    main()
