"""Benchmark of large configurations.

It measures memory, processor time and files, with each command as a separate process.

Run: python tests/benchmarks/bench_large.py [vms|placements|namespaces|objects ...] [--part N]

vms: 100,000 VMs of 100 pools on 10,000 machines; placements: 10,000 placements of a fleet on 100
members; namespaces: the same, each with its selected namespace; objects: 100,000 plain objects with
three reports. `--part` divides the numbers. Prints processor time, the peak memory of each process,
and the files in the directory after it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

NEXUSFORM: Final = (sys.executable, "-m", "nexusform")
VMS: Final = """
resource "nexus_site" "s" {{}}
resource "nexus_rack" "r" {{
  count         = {racks}
  site_id       = nexus_site.s.id
  name          = "rack${{count.index}}"
  machine_count = 16
}}
resource "nexus_kubernetes_cluster" "c" {{
  count   = {clusters}
  site_id = nexus_site.s.id
  name    = "c${{count.index}}"
  depends_on = [nexus_rack.r]
  control_plane {{
    count       = 1
    vm_sku_name = "NC_G2_8_v1"
  }}
  agent_pool "p" {{
    count       = 999
    vm_sku_name = "NC_G6_28_v1"
  }}
}}
"""
PLACEMENTS: Final = """
resource "fleet_member_cluster" "m" {{
  count = 100
  name  = "member-${{count.index}}"
  labels = {{ env = count.index % 2 == 0 ? "prod" : "test", region = "r${{count.index % 10}}" }}
}}
resource "fleet_cluster_resource_placement" "p" {{
  count = {placements}
  name  = "placement-${{count.index}}"
  resource_selector {{
    group   = ""
    version = "v1"
    kind    = "Namespace"
    name    = "ns-${{count.index}}"
  }}
  policy {{
    placement_type     = "PickN"
    number_of_clusters = 5
  }}
}}
"""
NAMESPACES: Final = """
resource "fleet_hub_manifest" "n" {{
  count = {placements}
  yaml_body = yamlencode({{
    apiVersion = "v1", kind = "Namespace", metadata = {{ name = "ns-${{count.index}}" }}
  }})
}}
"""
OBJECTS: Final = """
resource "nexus_vm_sku" "k" {{
  count      = {objects}
  name       = "sku-${{count.index}}"
  vcpus      = 4
  memory_gib = 16
}}
"""
REPORTS: Final = ("-report=markdown:r.md", "-report=svg:r.svg", "-report=html:r.html")
ROUND: Final[Mapping[str, Sequence[str]]] = {
    "plan (create)": ("plan", "-out=p"),
    "apply": ("apply", "p"),
    "plan (no change)": ("plan", "-out=p"),
    "plan (no change), a picture": ("plan", "-report=svg:r.svg"),
}


def run_command(arguments: Sequence[str], directory: Path) -> tuple[float, float]:
    """Return seconds of processor time and peak memory in MB of one process."""
    with Path(os.devnull).open("wb") as nowhere:
        child = subprocess.Popen([*NEXUSFORM, *arguments], cwd=directory, stdout=nowhere)
        _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{' '.join(arguments)} failed in {directory}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def measure(name: str, text: str, commands: Mapping[str, Sequence[str]]) -> None:
    """Print a line per command, and the files written by all of them."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "main.nf.hcl").write_text(text)
        for title, arguments in commands.items():
            seconds, memory = run_command(arguments, directory)
            print(
                (
                    f"{name:12} {title:28} {seconds:8.1f} s {memory:8.0f} MB   "
                    f"{format_files(directory)}"
                ),
                flush=True,
            )


def format_files(directory: Path) -> str:
    """Return the files in the directory, with sizes."""
    found = [
        path for path in sorted(directory.iterdir()) if path.is_file() and path.suffix != ".hcl"
    ]
    return ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in found)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", default=["vms", "placements", "namespaces", "objects"])
    parser.add_argument("--part", type=int, default=1)
    asked = parser.parse_args()
    if "vms" in asked.what:
        measure("vms", VMS.format(racks=640 // asked.part, clusters=100 // asked.part), ROUND)
    if "placements" in asked.what:
        measure("placements", PLACEMENTS.format(placements=10_000 // asked.part), ROUND)
    if "namespaces" in asked.what:
        both = (PLACEMENTS + NAMESPACES).format(placements=10_000 // asked.part)
        measure("namespaces", both, ROUND)
    if "objects" in asked.what:
        objects = OBJECTS.format(objects=100_000 // asked.part)
        measure("objects", objects, {"plan, three reports": ("plan", *REPORTS)})


if __name__ == "__main__":
    main()
