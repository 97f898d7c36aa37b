"""Benchmark of many sites: plan and read them together, and in a process each.

The growth with the number of sites is measured too.

python tests/benchmarks/bench_sites.py [--large] [--dask]

It prints the processor seconds of all processes, workers included, and the peak memory of
the largest process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SITE = ROOT / "examples" / "three-sites" / "modules" / "site"
COMMAND = [sys.executable, "-m", "nexusform"]
# One of this many sites has a different number of workers.
OWN = 20


def write_fleet(directory: Path, count: int) -> None:
    """Write a fleet with `count` sites of the example."""
    (directory / "site").mkdir(parents=True)
    (directory / "site" / "main.nf.hcl").write_text((SITE / "main.nf.hcl").read_text())
    rows = {f"s{number:05d}": 2 + number % OWN // (OWN - 1) * 3 for number in range(count)}
    (directory / "sites.json").write_text(json.dumps(rows))
    (directory / "nexusform.sites.hcl").write_text(
        'sites {\n  source   = "./site"\n  for_each = jsondecode(file("sites.json"))\n'
        "  inputs   = { name = each.key, workers = each.value }\n}\n"
    )


def measure_command(directory: Path, *words: str) -> tuple[float, float, int]:
    """Return wall and processor seconds of a command, and the largest process in MB.

    All workers of the command are included.
    """
    script = (
        "import json, resource, subprocess, sys, time\n"
        "began = time.perf_counter()\n"
        "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode\n"
        "took = time.perf_counter() - began\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([code, took, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = [sys.executable, "-c", script, *COMMAND, *words]
    done = subprocess.run(
        run, cwd=directory, env=environment, capture_output=True, text=True, check=True
    )
    code, took, used, memory = json.loads(done.stdout)
    assert code == 0, done.stderr
    return took, used, memory


def print_row(name: str, count: int, figures: tuple[float, float, int]) -> None:
    took, used, memory = figures
    print(
        f"| {name} | {count:,} | {took:.1f} s | {used:.1f} s | {1000 * used / count:.1f} ms | "
        f"{memory} MB |"
    )


def measure_separate_processes(directory: Path, count: int) -> tuple[float, float, int]:
    """Measure a directory and a process per site."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    text = (SITE / "main.nf.hcl").read_text()
    for number in range(count):
        place = directory / f"one{number}"
        place.mkdir()
        (place / "main.nf.hcl").write_text(text)
        words = ["plan", "-out=p.nfplan", f"-var=name=s{number}", "-var=workers=2"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(
            [*COMMAND, *words], cwd=place, env=environment, capture_output=True, check=True
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, used, after.ru_maxrss // 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="5,000 sites too")
    parser.add_argument(
        "--dask", default="", help="the address of a scheduler: dask://127.0.0.1:8786"
    )
    arguments = parser.parse_args()
    print(
        "| work | sites | wall | processor | a site | largest process |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as name:
        print_row("a process for each", 20, measure_separate_processes(Path(name), 20))
    for count in (100, 1000, *([5000] if arguments.large else [])):
        with tempfile.TemporaryDirectory() as name:
            fleet = Path(name, "fleet")
            write_fleet(fleet, count)
            print_row(
                "sites plan", count, measure_command(fleet, "sites", "plan", "-out=f.nfsites")
            )
            if arguments.dask:
                engine = f"-engine={arguments.dask}"
                print_row(
                    "the same on Dask (ours alone)",
                    count,
                    measure_command(fleet, "sites", "plan", engine),
                )
            if count <= 1000:
                print_row(
                    "sites apply", count, measure_command(fleet, "sites", "apply", "f.nfsites")
                )
                print_row("sites status", count, measure_command(fleet, "sites", "status"))
                print_row("sites plan, no change", count, measure_command(fleet, "sites", "plan"))


if __name__ == "__main__":
    main()
