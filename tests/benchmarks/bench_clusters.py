"""Benchmark of many small clusters: plans of two versions, in alternation.

Run: python tests/benchmarks/bench_clusters.py CHECKOUT [turns]

Prints the processor time, peak memory and plan file of CHECKOUT and of this version, with their
ratios, and the growth of this version from one size to the next.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from math import log
from pathlib import Path

from bench_start import ROOT, RUN
from msgspec import Struct

CONFIGURATION = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 8
  site_id       = nexus_site.s.id
  name          = "rack${count.index + 1}"
  machine_count = MACHINES
}
resource "nexus_kubernetes_cluster" "c" {
  count   = CLUSTERS
  name    = "c-${count.index}"
  site_id = nexus_site.s.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "w" {
    count       = 1
    vm_sku_name = "NC_P22_112_v1"
  }
}
"""
# Clusters, machines per rack, and the exit code of the plan: the last ones have no capacity for all
# of their clusters.
SHAPES = ((250, 128, 0), (500, 128, 0), (1000, 128, 0), (1000, 41, 1))


class PlanRun(Struct, frozen=True):
    """One run of `plan -out`: processor seconds, peak memory in MB, and the file in MB."""

    seconds: float
    memory: float
    file: float


def run_plan(checkout: Path, directory: Path, expected_code: int) -> PlanRun:
    """Plan the configuration in a directory; another exit code ends the benchmark."""
    saved = directory / "p"
    saved.unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "plan", "-input=false", "-out=p"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != expected_code:
        sys.exit(f"the plan of {checkout} ended with {code} instead of {expected_code}")
    return PlanRun(
        usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, saved.stat().st_size / 1e6
    )


def measure(
    clusters: int, machines: int, expected_code: int, other: Path, turns: int
) -> tuple[PlanRun, PlanRun]:
    """Return the medians of both versions for a number of clusters, and machines per rack."""
    text = CONFIGURATION.replace("CLUSTERS", str(clusters)).replace("MACHINES", str(machines))
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "main.nf.hcl").write_text(text)
        runs = [
            tuple(run_plan(version, directory, expected_code) for version in (other, ROOT))
            for _ in range(turns)
        ]
    before, after = (
        PlanRun(
            statistics.median(run.seconds for run in version),
            statistics.median(run.memory for run in version),
            version[0].file,
        )
        for version in zip(*runs, strict=True)
    )
    return before, after


def main() -> None:
    other = Path(sys.argv[1])
    turns = int(sys.argv[2]) if sys.argv[2:] else 3
    previous: tuple[int, int, float] | None = None
    for clusters, machines, expected_code in SHAPES:
        before, after = measure(clusters, machines, expected_code, other, turns)
        growth = ""
        if previous is not None and previous[1] == machines:
            exponent = log(after.seconds / previous[2]) / log(clusters / previous[0])
            growth = f"  n^{exponent:.2f}"
        previous = (clusters, machines, after.seconds)
        print(
            f"{clusters:,} clusters, {8 * machines:,} machines: "
            f"{before.seconds:.1f} -> {after.seconds:.1f} s "
            f"({after.seconds / before.seconds:.2f}), "
            f"{before.memory:.0f} -> {after.memory:.0f} MB "
            f"({after.memory / before.memory:.2f}), "
            f"file {before.file:.2f} -> {after.file:.2f} MB ({after.file / before.file:.2f})"
            f"{growth}"
        )


if __name__ == "__main__":
    main()
