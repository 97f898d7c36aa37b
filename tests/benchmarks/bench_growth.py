"""Benchmark of growth: plans of nine shapes in four sizes, with the exponent of each shape.

Run: python tests/benchmarks/bench_growth.py [--write] [--large] [--rounds N] [--part N]

It measures processor seconds of a command without its start, with 100 samples in each size. The
exponent is the slope of a line through the logarithms of sizes and times. Two runs alternate in
each size: each takes the minimum of N rounds (5). `terraform plan` is measured with as many
`terraform_data` by `count` as the largest size has VMs, where terraform is installed. `--write`
replaces the table in docs/benchmarks.md. `--large` measures one pool of up to 100,000 VMs instead,
without samples, as such plans have by default. `--part` divides the sizes.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log
from pathlib import Path

import bench_sites
from bench_engine import TERRAFORM
from bench_start import ROOT, RUN
from msgspec import Struct

LARGE_SIZES = (25_000, 50_000, 100_000)
# Without the option large plans have fewer samples.
PLAN = (RUN, "plan", "-input=false", "-out=p", "-samples=100")
PAGE = ROOT / "docs/benchmarks.md"
# The table stands between them.
MARKS = ("<!-- bench_growth.py writes: -->\n", "<!-- end -->\n")
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


FLEET = """
resource "fleet_member_cluster" "m" {
  count  = 100
  name   = "member-${count.index}"
  labels = { env = "prod" }
}
resource "fleet_cluster_resource_placement" "p" {
  count = PLACEMENTS
  name  = "placement-${count.index}"
  resource_selector {
    group   = ""
    version = "v1"
    kind    = "Namespace"
    name    = "ns-${count.index}"
  }
  policy {
    placement_type = "PickAll"
  }
}
"""
PODS = """
import sys
from bench_pods import build_cluster, build_workload, predict
pods = int(sys.argv[1])
rules = "required anti-affinity and spread"
workloads = [build_workload(number, 10, rules) for number in range(pods // 10)]
predict(build_cluster(max(20, pods // 10)), (), workloads)
"""
SITES = """
sites {
  source   = "./site"
  for_each = jsondecode(file("sites.json"))
  inputs   = { name = each.key, workers = each.value }
}
"""


class Job(Struct, frozen=True):
    """Python command (its arguments after `-c`) in a directory with these files."""

    files: Mapping[str, str]
    command: tuple[str, ...] = PLAN


class Shape(Struct, frozen=True):
    """A kind of work: its name, sizes, and the job of a size.

    `start_size` is that of a job that does almost nothing. `is_compared` means that terraform
    is measured, too.
    """

    name: str
    build_job: Callable[[int], Job]
    sizes: tuple[int, ...] = (1_000, 2_000, 4_000, 8_000)
    start_size: int = 1
    is_compared: bool = True


class Usage(Struct, frozen=True):
    """Processor seconds, peak memory in MB, and the size of the written file in MB."""

    seconds: float
    memory: float
    file: float


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


def build_sites(sites: int) -> Job:
    """Return a plan of many sites of examples/three-sites."""
    rows = {f"s{number:05d}": 2 for number in range(sites)}
    files = {
        "site/main.nf.hcl": (bench_sites.SITE / "main.nf.hcl").read_text(),
        "sites.json": json.dumps(rows),
        "nexusform.sites.hcl": SITES,
    }
    return Job(files, (RUN, "sites", "plan", "-out=p"))


def build_plan(text: str) -> Job:
    """Return the plan of a configuration of one file."""
    return Job({"main.nf.hcl": text})


SHAPES = (
    Shape("one pool, VMs", lambda vms: build_plan(build_site(vms) + build_clusters(1, vms - 1))),
    Shape(
        "clusters of 4 VMs", lambda vms: build_plan(build_site(vms) + build_clusters(vms // 4, 3))
    ),
    Shape("the same by `for_each`", lambda vms: Job(build_for_each(vms))),
    Shape(
        "modules, each a site of 40 VMs",
        lambda vms: Job(build_modules(vms, vms // 40, 10)),
        start_size=40,
    ),
    Shape("4 sites", lambda vms: Job(build_modules(vms, 4, vms // 16)), start_size=4),
    Shape(
        "Tacker VNFs of 10 VNFCs",
        lambda vms: Job(
            {"main.nf.hcl": build_site(vms) + fill_template(VNF, VNFS=vms // 10), "vnfd.yaml": VNFD}
        ),
    ),
    Shape(
        "placements on 100 members",
        lambda placements: build_plan(fill_template(FLEET, PLACEMENTS=placements)),
        (25, 50, 100, 200),
        is_compared=False,
    ),
    Shape(
        "pods, a node for each 10",
        lambda pods: Job({}, (PODS, str(pods))),
        (1_250, 2_500, 5_000, 10_000),
        is_compared=False,
    ),
    Shape("sites of 5 VMs, `sites plan`", build_sites, (125, 250, 500, 1_000), is_compared=False),
)


def run_process(command: Sequence[str], directory: Path, codes: Sequence[int] = (0,)) -> Usage:
    """Run a command and its workers; return what they used, without a file.

    Exit with a message unless its exit code is one of `codes`.
    """
    process = subprocess.Popen(
        command,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests/benchmarks'}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in codes:
        sys.exit(f"{command[-1]} failed")
    return Usage(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, 0)


def measure_job(job: Job) -> Usage:
    """Run a job in a new directory."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        for name, text in job.files.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_text(text)
        if any("/" in name for name in job.files) and job.command == PLAN:
            run_process([sys.executable, "-c", RUN, "init"], directory)
        usage = run_process([sys.executable, "-c", *job.command], directory)
        saved = directory / "p"
        size = saved.stat().st_size / 1e6 if saved.exists() else 0
        return Usage(usage.seconds, usage.memory, size)


def measure_terraform(instances: int) -> Usage:
    """Measure `terraform plan` of this many `terraform_data`."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "main.tf").write_text(TERRAFORM % instances)
        run_process(["terraform", "init"], directory)
        return run_process(["terraform", "plan"], directory)


def compute_exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of the line through the logarithms of sizes and values."""
    return statistics.linear_regression([log(size) for size in sizes], [log(v) for v in values])[0]


class ShapeRun(Struct, frozen=True):
    """One of two runs of a shape: the usage of each size, and seconds of start and terraform."""

    start: float
    usages: Sequence[Usage]
    terraform: float | None

    @property
    def seconds(self) -> list[float]:
        """Seconds of each size without the start."""
        return [max(usage.seconds - self.start, 0.01) for usage in self.usages]


def measure_twice(measure: Callable[[], Usage], rounds: int) -> tuple[Usage, Usage]:
    """Return the lowest usage of two runs of some rounds.

    The runs alternate, so that both have the same share of the load by others.
    """
    usages = [measure() for _ in range(2 * rounds)]
    first, second = (min(usages[run::2], key=lambda usage: usage.seconds) for run in (0, 1))
    return first, second


def measure_shape(shape: Shape, sizes: Sequence[int], rounds: int) -> list[ShapeRun]:
    """Return two runs of a shape in all sizes."""
    starts, *usages = [
        measure_twice(partial(measure_job, shape.build_job(size)), rounds)
        for size in (shape.start_size, *sizes)
    ]
    has_peer = shape.is_compared and shutil.which("terraform") is not None
    peers = measure_twice(partial(measure_terraform, sizes[-1]), rounds) if has_peer else None
    return [
        ShapeRun(
            starts[run].seconds,
            [pair[run] for pair in usages],
            peers[run].seconds if peers is not None else None,
        )
        for run in (0, 1)
    ]


def build_row(shape: Shape, sizes: Sequence[int], runs: Sequence[ShapeRun]) -> tuple[str, float]:
    """Return the row of a shape, and the largest difference between its runs as a fraction."""
    first, second = runs
    exponents = [compute_exponent(sizes, run.seconds) for run in runs]
    differences = [abs(exponents[1] / exponents[0] - 1)]
    ratio = ""
    if first.terraform is not None and second.terraform is not None:
        ratios = [first.seconds[-1] / first.terraform, second.seconds[-1] / second.terraform]
        differences.append(abs(ratios[1] / ratios[0] - 1))
        ratio = " / ".join(f"{value:.2f}" for value in ratios)
    files = [usage.file for usage in first.usages]
    largest = first.usages[-1]
    cells = [
        shape.name,
        f"{sizes[0]:,} to {sizes[-1]:,}",
        " / ".join(f"{min(pair):.1f}" for pair in zip(first.seconds, second.seconds, strict=True)),
        " / ".join(f"n^{exponent:.2f}" for exponent in exponents),
        ratio,
        f"{largest.memory:.0f} MB",
        f"{largest.file:.1f} MB, n^{compute_exponent(sizes, files):.2f}" if min(files) else "",
    ]
    return f"| {' | '.join(cells)} |", max(differences)


def build_table(shapes: Sequence[Shape], rounds: int, part: int) -> list[str]:
    """Measure shapes in all sizes; return the lines of the table."""
    lines = [
        "| shape | sizes | seconds | growth | / terraform | memory | file |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines))
    difference = 0.0
    for shape in shapes:
        sizes = [size // part for size in shape.sizes]
        line, own_difference = build_row(shape, sizes, measure_shape(shape, sizes, rounds))
        difference = max(difference, own_difference)
        lines.append(line)
        print(line, flush=True)
    lines += ["", f"The two runs differed by at most {difference:.0%}."]
    print(lines[-1])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", type=int, default=1)
    options = parser.parse_args()
    shapes: Sequence[Shape] = SHAPES
    if options.large:
        plan = (RUN, "plan", "-input=false", "-out=p", "-samples=0")
        build_job = SHAPES[0].build_job
        shapes = [
            Shape("one pool, no samples", lambda vms: Job(build_job(vms).files, plan), LARGE_SIZES)
        ]
    lines = build_table(shapes, options.rounds, options.part)
    if options.write:
        start, end = MARKS
        before, _, rest = PAGE.read_text().partition(start)
        _, _, after = rest.partition(end)
        PAGE.write_text(before + start + "\n".join(lines) + "\n" + end + after)


if __name__ == "__main__":
    main()
