"""Benchmark of two versions.

It compares the processor time of plans and applies with another checkout, alternately.

Run: python tests/benchmarks/bench_versions.py CHECKOUT [turns] [VMs]

Prints the medians of both versions and the median ratio for a plan, an apply of the saved plan, a
plan without changes and a plan of a destroy.
"""

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from bench_start import ROOT, RUN, Command

CONFIGURATION = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count             = COUNT / 50 + 4
  name              = "r${count.index}"
  site_id           = nexus_site.s.id
  machine_count     = 16
  availability_zone = "z${count.index}"
}
resource "nexus_kubernetes_cluster" "c" {
  count      = COUNT / 100
  name       = "c${count.index}"
  site_id    = nexus_site.s.id
  depends_on = [nexus_rack.r]
  control_plane {
    count       = 3
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "p" {
    count       = 97
    vm_sku_name = "NC_P12_56_v1"
  }
}
"""
STEPS = {
    "plan -out": ("plan", "-out=p", "-limit=vms=1000000"),
    "apply FILE": ("apply", "p"),
    "plan, no change": ("plan", "-limit=vms=1000000"),
    "plan of a destroy": ("plan", "-destroy", "-limit=vms=1000000"),
}


def measure(checkout: Path, directory: Path) -> dict[str, float]:
    """Return the processor seconds of each step, from an empty state."""
    shutil.rmtree(directory / "state", ignore_errors=True)
    (directory / "p").unlink(missing_ok=True)
    return {
        name: Command((RUN, *arguments), str(directory), checkout).measure_processor_time()
        for name, arguments in STEPS.items()
    }


def main() -> None:
    other = Path(sys.argv[1])
    turns = int(sys.argv[2]) if sys.argv[2:] else 5
    count = sys.argv[3] if sys.argv[3:] else "2000"
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "main.nf.hcl").write_text(CONFIGURATION.replace("COUNT", count))
        results = [(measure(other, directory), measure(ROOT, directory)) for _ in range(turns)]
    for name in STEPS:
        before = statistics.median(old[name] for old, _ in results)
        after = statistics.median(new[name] for _, new in results)
        ratio = statistics.median(new[name] / old[name] for old, new in results)
        print(f"{name:20} {before:7.2f} s before  {after:7.2f} s now  ratio {ratio:5.2f}")


if __name__ == "__main__":
    main()
