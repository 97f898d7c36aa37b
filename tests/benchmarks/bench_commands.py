"""Benchmark of commands on a site or fleet that exists: growth of each with the number of VMs.

Run: python tests/benchmarks/bench_commands.py [--sizes 2000 4000 8000] [name ...]

It prints the processor seconds of a command without its start, and the slope of the line through
the logarithms of sizes and times. A command of which the slope is well above 1 walks over pairs of
something. Names select single commands.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench_growth import (
    FLEET,
    VNF,
    VNFD,
    Usage,
    build_clusters,
    build_site,
    compute_exponent,
    fill_template,
    run_process,
)
from bench_start import RUN
from msgspec import Struct

VM = """
resource "nexus_virtual_machine" "v" {
  count      = VMS
  name       = "v${count.index}"
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 20
  depends_on = [nexus_rack.r]
}
"""
DEPLOYMENT = """
resource "fleet_hub_manifest" "d" {
  count      = PODS
  cluster_id = nexus_kubernetes_cluster.c[count.index % 4].id
  yaml_body  = yamlencode({
    apiVersion = "apps/v1"
    kind       = "Deployment"
    metadata   = { name = "d${count.index}", namespace = "default" }
    spec = {
      selector = { matchLabels = { app = "d${count.index}" } }
      template = {
        metadata = { labels = { app = "d${count.index}" } }
        spec     = { containers = [{ name = "c", image = "one" }] }
      }
    }
  })
}
"""


def build_clusters_of_four(vms: int) -> str:
    """Return a site with clusters of four VMs."""
    return build_site(vms) + build_clusters(vms // 4, 3)


def build_single_vms(vms: int) -> str:
    """Return a site with VMs outside of clusters."""
    return build_site(vms) + fill_template(VM, VMS=vms)


def build_vnfs(vms: int) -> str:
    """Return VNFs of ten VNFCs, each with a document of its own."""
    vnfs = fill_template(VNF, VNFS=vms // 10)
    text = 'replace(file("vnfd.yaml"), "name: worker", "name: w${count.index}")'
    return build_site(vms) + vnfs.replace('file("vnfd.yaml")', text)


def build_fleet(bindings: int) -> str:
    """Return placements on 20 members."""
    placements = fill_template(FLEET, PLACEMENTS=bindings // 20)
    return placements.replace("count  = 100", "count  = 20")


def build_pods(pods: int) -> str:
    """Return Deployments of one pod on four clusters."""
    return build_site(400) + build_clusters(4, 20) + fill_template(DEPLOYMENT, PODS=pods)


def keep(text: str) -> str:
    """Return the configuration without changes."""
    return text


def replace_text(old: str, new: str) -> Callable[[str], str]:
    """Return a function that changes a configuration."""
    return lambda text: text.replace(old, new)


class Situation(Struct, frozen=True):
    """A command in a directory with a configuration of some size.

    The configuration is applied before, and then changed by `edit`; without it nothing is applied.
    The exit code of the command is one of `codes`: 2 is a finding.
    """

    name: str
    build: Callable[[int], str]
    edit: Callable[[str], str] | None = keep
    command: tuple[str, ...] = ("plan", "-out=p")
    codes: tuple[int, ...] = (0, 2)


CLUSTER = "nexus_kubernetes_cluster.c[0]"
FOUR = build_clusters_of_four
PLAN_REPORTS = ("plan", "-report=markdown:p.md", "-report=html:p.html", "-report=json:p.json")
SITUATIONS = (
    Situation("first plan, with reports", FOUR, None, PLAN_REPORTS),
    Situation("first apply", FOUR, None, ("apply", "-auto-approve")),
    Situation("plan without changes", FOUR),
    Situation("plan -refresh-only", FOUR, keep, ("plan", "-refresh-only")),
    Situation("plan -destroy", FOUR, keep, ("plan", "-destroy")),
    Situation("destroy", FOUR, keep, ("destroy", "-auto-approve")),
    Situation("plan -target of one cluster", FOUR, keep, ("plan", f"-target={CLUSTER}")),
    Situation("scale-in of all pools", FOUR, replace_text("count       = 3", "count       = 2")),
    Situation("another SKU of all pools", FOUR, replace_text("NC_G6_28_v1", "NC_G2_8_v1")),
    Situation(
        "upgrade of all clusters",
        FOUR,
        replace_text("  site_id    =", '  kubernetes_version = "1.31"\n  site_id    ='),
    ),
    Situation("new name of all clusters", FOUR, replace_text('"c-$', '"d-$')),
    Situation(
        "no capacity",
        lambda vms: build_site(vms // 4) + build_clusters(vms // 4, 3),
        None,
        codes=(1,),
    ),
    Situation("validate", FOUR, keep, ("validate",)),
    Situation("advise", FOUR, keep, ("advise",)),
    Situation("explain", FOUR, keep, ("explain", CLUSTER)),
    Situation("show", FOUR, keep, ("show",)),
    Situation("state mv", FOUR, keep, ("state", "mv", CLUSTER, "nexus_kubernetes_cluster.d")),
    Situation("simulate failure", FOUR, keep, ("simulate", "failure", "-rack=rack0")),
    Situation("simulate capacity", FOUR, keep, ("simulate", "capacity")),
    Situation("VMs outside of clusters", build_single_vms, None),
    Situation("VNFs, each with its document", build_vnfs, None),
    Situation("bindings on 20 members", build_fleet, None),
    Situation("bindings that lose a member", build_fleet, replace_text("= 20\n", "= 19\n")),
    Situation("pods", build_pods, None),
    Situation("rollout of all pods", build_pods, replace_text('"one"', '"two"')),
)


def run_nexusform(directory: Path, *arguments: str, codes: Sequence[int] = (0,)) -> Usage:
    """Run a command that ends with one of these exit codes."""
    return run_process([sys.executable, "-c", RUN, *arguments], directory, codes)


def measure(situation: Situation, size: int) -> Usage:
    """Prepare a new directory, and run the command of a situation there."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "vnfd.yaml").write_text(VNFD)
        text = situation.build(size)
        (directory / "main.nf.hcl").write_text(text)
        if situation.edit is not None:
            run_nexusform(directory, "apply", "-auto-approve")
            (directory / "main.nf.hcl").write_text(situation.edit(text))
        return run_nexusform(directory, *situation.command, codes=situation.codes)


def build_row(situation: Situation, sizes: Sequence[int]) -> str:
    """Return the row of a situation."""
    with tempfile.TemporaryDirectory() as scratch:
        start = run_nexusform(Path(scratch), "validate", codes=(0, 1)).seconds
    usages = [measure(situation, size) for size in sizes]
    seconds = [max(usage.seconds - start, 0.01) for usage in usages]
    cells = [
        situation.name,
        " / ".join(f"{value:.1f}" for value in seconds),
        f"n^{compute_exponent(sizes, seconds):.2f}",
        f"{usages[-1].memory:.0f} MB",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[2_000, 4_000, 8_000])
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    print("| command | seconds | growth | memory |\n|---|---:|---:|---:|")
    for situation in SITUATIONS:
        if not options.names or situation.name in options.names:
            print(build_row(situation, options.sizes), flush=True)


if __name__ == "__main__":
    main()
