"""Benchmark of plan, apply and a second plan as whole processes.

They are compared with terraform where it is installed.

python tests/benchmarks/bench_engine.py [instances] [--terraform]

Prints seconds and peak memory per command; with --terraform the same number of `terraform_data`
instances is planned by terraform in the same run (slow: 80 s for 10,000).
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NEXUSFORM = [sys.executable, "-m", "nexusform"]
BY_COUNT = """
resource "nexus_site" "s" {
}
resource "nexus_vm_sku" "k" {
  count      = %d
  name       = "sku-${count.index}"
  vcpus      = 4
  memory_gib = 16 + count.index
}
"""
TERRAFORM = """
resource "terraform_data" "k" {
  count = %d
  input = { name = "sku-${count.index}", vcpus = 4, memory_gib = 16 + count.index }
}
"""


def run_command(command: list[str], directory: Path) -> tuple[float, float]:
    """Return wall seconds and peak memory in MB of one process."""
    began = time.perf_counter()
    subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    elapsed = time.perf_counter() - began
    return elapsed, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def build_json(count: int) -> str:
    """Return the same instances as separate blocks."""
    skus = {f"k{i}": {"name": f"sku-{i}", "vcpus": 4, "memory_gib": 16 + i} for i in range(count)}
    return json.dumps({"resource": {"nexus_vm_sku": skus}})


def measure(title: str, directory: Path) -> None:
    for name, arguments in (
        ("plan (create)", ["plan"]),
        ("apply", ["apply", "-auto-approve"]),
        ("plan (no change)", ["plan"]),
    ):
        seconds, memory = run_command([*NEXUSFORM, *arguments], directory)
        print(f"{title:28} {name:18} {seconds:8.2f} s  peak so far {memory:7.0f} MB")


def main() -> None:
    count = next((int(a) for a in sys.argv[1:] if a.isdigit()), 10_000)
    with tempfile.TemporaryDirectory() as scratch:
        by_count, blocks, peer = (Path(scratch, n) for n in ("count", "json", "terraform"))
        for directory in (by_count, blocks, peer):
            directory.mkdir()
        (by_count / "main.nf.hcl").write_text(BY_COUNT % count)
        (blocks / "main.nf.json").write_text(build_json(count))
        measure(f"{count} instances, count", by_count)
        measure(f"{count} blocks, .nf.json", blocks)
        if "--terraform" in sys.argv and shutil.which("terraform"):
            (peer / "main.tf").write_text(TERRAFORM % count)
            subprocess.run(["terraform", "init"], cwd=peer, check=True, capture_output=True)
            seconds, memory = run_command(["terraform", "plan"], peer)
            title = f"{count} terraform_data, count"
            print(f"{title:28} {'plan (create)':18} {seconds:8.2f} s  peak so far {memory:7.0f} MB")


if __name__ == "__main__":
    main()
