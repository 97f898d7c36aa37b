"""Benchmark of hypothetical plans: each costs at most 1.2 times the plan without it.

Run: python -m tests.benchmarks.bench_hypothesis [--racks N] [--members N]

The site has 16 machines per rack and a cluster per rack. The fleet has placements over all members.
The plan without edits is made once and shared. Prints the processor times of that plan and of each
hypothesis, in alternating runs, with their ratio. The exit code is 1 for a ratio above 1.2.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.planning.hypothesis.assumptions import parse_assumption
from nexusform.planning.hypothesis.hypothetical_plan import plan_hypothesis
from nexusform.planning.hypothesis.start_points import build_snapshot_request
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.planner import make_plan
from nexusform.snapshots.snapshot import list_state_objects
from tests.planning.harness import NOW, build_all_types, build_request, build_state_after

MAXIMUM_RATIO: Final = 1.2
FILES: Final = """
resource "nexus_site" "s" {{}}
resource "nexus_rack" "r" {{
  count         = {racks}
  site_id       = nexus_site.s.id
  name          = "rack${{count.index}}"
  machine_count = 16
}}
resource "nexus_kubernetes_cluster" "c" {{
  count      = {racks}
  site_id    = nexus_site.s.id
  name       = "c${{count.index}}"
  depends_on = [nexus_rack.r]
  control_plane {{
    count       = 3
    vm_sku_name = "NC_G6_28_v1"
  }}
  agent_pool "p" {{
    count       = 20
    vm_sku_name = "NC_P46_224_v1"
  }}
}}
resource "fleet_member_cluster" "m" {{
  count  = {members}
  name   = "member-${{count.index}}"
  labels = {{ env = count.index % 2 == 0 ? "prod" : "test" }}
}}
resource "fleet_cluster_resource_placement" "p" {{
  count = 20
  name  = "placement-${{count.index}}"
  resource_selector {{
    group   = ""
    version = "v1"
    kind    = "Namespace"
    name    = "n${{count.index}}"
  }}
  policy {{
    placement_type     = "PickN"
    number_of_clusters = 20
  }}
}}
"""
ASSUMPTIONS: Final = (
    "lost:machine/s/rack1-bm01",
    "lost:rack/s/rack1",
    "lost:node/c1/c1-p-0",
    "lost:member/member-2",
    "nexus_kubernetes_cluster.c[1]:agent_pool.p.count=21",
)

UPGRADE: Final = 'nexus_kubernetes_cluster.c[1]:kubernetes_version="1.31"'


def measure(title: str, request: PlanRequest, assumptions: Sequence[str]) -> float:
    """Print processor times of the plan and each hypothesis, and return the largest ratio."""

    def plan() -> PlanResult:
        return add_site_capacity(make_plan(request), request.registries)

    before = plan()
    print(title)
    largest = 0.0
    for text in assumptions:
        edits = parse_assumption(text, before, request.registries.resource_types).edits
        plan_seconds, seconds = _time_fastest(
            plan, partial(plan_hypothesis, request, edits, before)
        )
        largest = max(largest, seconds / plan_seconds)
        ratio = seconds / plan_seconds
        print(f"  {text:54} {plan_seconds:7.2f} {seconds:7.2f} s  {ratio:5.2f}")
    return largest


def _time_fastest(*works: Callable[[], object]) -> list[float]:
    """Return the processor time of the fastest of five alternating runs of each work."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(5):
        for work, seconds in zip(works, times, strict=True):
            gc.collect()
            began = time.process_time()
            work()
            seconds.append(time.process_time() - began)
    return [min(seconds) for seconds in times]


def main() -> int:
    """Print the table and return the exit code."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--racks", type=int, default=125)
    arguments.add_argument("--members", type=int, default=400)
    given = arguments.parse_args()
    files = FILES.format(racks=given.racks, members=given.members)
    state = build_state_after(make_plan(build_request(files)))
    ratio = measure("plan of the configuration", build_request(files, state), ASSUMPTIONS)
    start = build_snapshot_request(list_state_objects(state), build_all_types(), state, NOW)
    ratio = max(ratio, measure("plan of the state", start, (*ASSUMPTIONS[:2], UPGRADE)))
    return 1 if ratio > MAXIMUM_RATIO else 0


if __name__ == "__main__":
    sys.exit(main())
