"""Small worlds: configurations planned, applied as planned, and looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.snapshots.snapshot import (
    SiteSnapshot,
    Snapshot,
    build_snapshot,
    list_planned_objects,
    list_state_objects,
)
from nexusform.state.objects import EMPTY, State
from tests.planning.harness import all_types, applied, plan

DOCUMENT = Path(__file__).parents[2] / "examples" / "nexus-document"


def document(step: str) -> State:
    """The state of examples/nexus-document after `step`."""
    files = {file.name: file.read_text() for file in DOCUMENT.glob("*.hcl")}
    return applied(plan(files, variables=[f"step={step}"]))


def racks(*machines: int, more: str = "") -> str:
    """A site `s` with racks r1, r2, ... of so many machines, zones "1", "2", ..."""
    text = 'resource "nexus_site" "s" {}\n'
    for number, count in enumerate(machines, 1):
        text += f"""
resource "nexus_rack" "r{number}" {{
  site_id           = nexus_site.s.id
  name              = "r{number}"
  availability_zone = "{number}"
  machine_count     = {count}
  {more}
}}
"""
    return text


def standing(files: str | dict[str, Any], state: State = EMPTY) -> State:
    return applied(plan(files, state), state)


def world_of(state: State) -> Snapshot:
    return build_snapshot(list_state_objects(state), all_types(), state.catalogue)


def world_after(result: PlanResult, prior: State = EMPTY) -> Snapshot:
    return build_snapshot(list_planned_objects(result.plan, prior), all_types(), result.plan.catalogue)


def site_of(state: State, site_id: str = "s") -> SiteSnapshot:
    return world_of(state).sites[site_id]


def where(site: SiteSnapshot) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {
        vm.name: (vm.placement.machine, vm.placement.cells)
        for cluster in site.clusters
        for pool in cluster.pools
        for vm in pool.vms
    }
