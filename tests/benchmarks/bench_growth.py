"""Benchmark of growth: plans of six shapes in four sizes, with the exponent of each shape.

Run: python tests/benchmarks/bench_growth.py [--write | --large]

Processor time of `plan -out` without the start of the program, in seconds, with 100 samples in each
size. The exponent is the slope of a line through the logarithms of sizes and times. `--write`
replaces the table in docs/benchmarks.md. `--large` prints one pool of up to 100,000 VMs instead,
without samples, as such plans have by default.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from math import log
from pathlib import Path

from bench_start import ROOT, RUN
from msgspec import Struct

SIZES = (1_000, 2_000, 4_000, 8_000)
LARGE_SIZES = (25_000, 50_000, 100_000)
SAMPLES = 100
PAGE = ROOT / "docs/benchmarks.md"
HEADING = "## Growth\n"
VMS_PER_RACK = 100
SITE = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = RACKS
  site_id       = nexus_site.s.id
  name          = "rack${count.index}"
  machine_count = 16
}
"""
CLUSTER = """
resource "nexus_kubernetes_cluster" "c" {
  REPEATED
  name       = "c-${KEY}"
  site_id    = nexus_site.s.id
  depends_on = [nexus_rack.r]
  control_plane {
    count       = 1
    vm_sku_name = "NC_G2_8_v1"
  }
  agent_pool "p" {
    count       = AGENTS
    vm_sku_name = "NC_G6_28_v1"
  }
}
"""
CALL = """
module "m" {
  source = "./site"
  count  = MODULES
  number = count.index
}
"""
VNFD = """
tosca_definitions_version: tosca_simple_yaml_1_2
topology_template:
  node_templates:
    VNF:
      type: example.telco.Vnf
    worker:
      type: tosca.nodes.nfv.Vdu.Compute
      properties:
        name: worker
        vdu_profile: { min_number_of_instances: 10, max_number_of_instances: 10 }
      capabilities:
        virtual_compute:
          properties:
            virtual_memory: { virtual_mem_size: 8 GiB }
            virtual_cpu: { num_virtual_cpu: 2 }
  policies:
    - initial:
        type: tosca.policies.nfv.VduInitialDelta
        properties: { initial_delta: { number_of_instances: 10 } }
        targets: [worker]
"""
VNF = """
resource "tacker_vnf" "v" {
  count      = VNFS
  depends_on = [nexus_rack.r]
  name       = "v-${count.index}"
  site_id    = nexus_site.s.id
  vnfd       = file("vnfd.yaml")
}
"""


class Shape(Struct, frozen=True):
    """A kind of configuration: its name, and its files for a number of VMs."""

    name: str
    build_files: Callable[[int], dict[str, str]]


def fill_template(text: str, **values: object) -> str:
    """Return the text with values in place of the words in capital letters."""
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


def build_site(vms: int) -> str:
    """Return a site with capacity for a number of VMs."""
    return fill_template(SITE, RACKS=vms // VMS_PER_RACK + 1)


def build_clusters(clusters: int, agents: int) -> str:
    """Return clusters by `count`."""
    repeated = f"count = {clusters}"
    return fill_template(CLUSTER, REPEATED=repeated, KEY="count.index", AGENTS=agents)


def build_for_each(vms: int) -> dict[str, str]:
    """Return clusters of four VMs by `for_each`."""
    # A range has 1,024 values at most.
    numbers = f"flatten([for n in range({vms // 200}) : [for m in range(50) : n * 50 + m]])"
    repeated = f"for_each = toset([for n in {numbers} : tostring(n)])"
    clusters = fill_template(CLUSTER, REPEATED=repeated, KEY="each.key", AGENTS=3)
    return {"main.nf.hcl": build_site(vms) + clusters}


def build_modules(vms: int, sites: int, clusters: int) -> dict[str, str]:
    """Return instances of a module with a site each, with clusters of four VMs."""
    site = build_site(vms // sites).replace('"s" {}', '"s" {\n  name = "s-${var.number}"\n}')
    clusters_text = build_clusters(clusters, 3)
    return {
        "main.nf.hcl": fill_template(CALL, MODULES=sites),
        "site/main.nf.hcl": 'variable "number" {\n  type = number\n}\n' + site + clusters_text,
    }


SHAPES = (
    Shape("one pool", lambda vms: {"main.nf.hcl": build_site(vms) + build_clusters(1, vms - 1)}),
    Shape(
        "clusters of 4 VMs",
        lambda vms: {"main.nf.hcl": build_site(vms) + build_clusters(vms // 4, 3)},
    ),
    Shape("the same by `for_each`", build_for_each),
    Shape("modules, each a site of 40 VMs", lambda vms: build_modules(vms, vms // 40, 10)),
    Shape("4 sites", lambda vms: build_modules(vms, 4, vms // 16)),
    Shape(
        "Tacker VNFs of 10 VNFCs",
        lambda vms: {
            "main.nf.hcl": build_site(vms) + fill_template(VNF, VNFS=vms // 10),
            "vnfd.yaml": VNFD,
        },
    ),
)


def measure_plan(files: dict[str, str], samples: int = SAMPLES) -> tuple[float, float, float]:
    """Return the processor seconds of a plan, its peak memory in MB, and its file in MB."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        for name, text in files.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_text(text)
        usages = []
        commands = [["init"]] if len(files) > 1 else []
        # Without the option large plans have fewer samples.
        for words in [*commands, ["plan", "-input=false", "-out=p", f"-samples={samples}"]]:
            process = subprocess.Popen(
                [sys.executable, "-c", RUN, *words],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL,
            )
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                sys.exit(f"{' '.join(words)} failed")
            usages.append(usage)
        size = (directory / "p").stat().st_size / 1e6
    return usages[-1].ru_utime + usages[-1].ru_stime, usages[-1].ru_maxrss / 1024, size


def compute_exponent(sizes: Sequence[int], values: list[float]) -> float:
    """Return the slope of the line through the logarithms of sizes and values."""
    return statistics.linear_regression([log(size) for size in sizes], [log(v) for v in values])[0]


def build_table(shapes: Sequence[Shape], all_sizes: Sequence[int], samples: int) -> list[str]:
    """Measure shapes in all sizes; return the table."""
    start = min(measure_plan({"main.nf.hcl": SITE.replace("RACKS", "1")})[0] for _ in range(3))
    sizes = " / ".join(f"{size:,}" for size in all_sizes)
    lines = [
        f"| shape | seconds for {sizes} VMs | growth | largest plan | growth of the file |",
        "|---|---:|---:|---:|---:|",
    ]
    for shape in shapes:
        runs = [measure_plan(shape.build_files(size), samples) for size in all_sizes]
        times = [max(seconds - start, 0.01) for seconds, _, _ in runs]
        _, memory, size = runs[-1]
        cells = [
            shape.name,
            " / ".join(f"{seconds:.1f}" for seconds in times),
            f"n^{compute_exponent(all_sizes, times):.2f}",
            f"{memory:.0f} MB, file {size:.1f} MB",
            f"n^{compute_exponent(all_sizes, [file for _, _, file in runs]):.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    if "--large" in sys.argv:
        build_table(SHAPES[:1], LARGE_SIZES, samples=0)
        return
    table = build_table(SHAPES, SIZES, SAMPLES)
    if "--write" in sys.argv:
        before, heading, section = PAGE.read_text().partition(HEADING)
        start = section.index("| shape")
        # A table ends with an empty line.
        end = section.index("\n\n", start)
        PAGE.write_text(before + heading + section[:start] + "\n".join(table) + section[end:])


if __name__ == "__main__":
    main()
