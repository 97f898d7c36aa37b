"""Small sites for tests: planned, applied as planned, and built as snapshots."""

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
from tests.planning.harness import build_all_types, build_state_after, plan

DOCUMENT = Path(__file__).parents[2] / "examples" / "nexus-document"


def build_document_state(step: str) -> State:
    """Return the state of examples/nexus-document after `step`."""
    files = {file.name: file.read_text() for file in DOCUMENT.glob("*.hcl")}
    return build_state_after(plan(files, variables=[f"step={step}"]))


def build_racks(*machines: int, more: str = "") -> str:
    """Return a site `s` with racks r1, r2, ... of the given machine counts, zones "1", "2", ..."""
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


def build_applied_state(files: str | dict[str, Any], state: State = EMPTY) -> State:
    return build_state_after(plan(files, state), state)


def build_snapshot_of_state(state: State) -> Snapshot:
    return build_snapshot(list_state_objects(state), build_all_types(), state.catalogue)


def build_snapshot_after_plan(result: PlanResult, prior: State = EMPTY) -> Snapshot:
    return build_snapshot(
        list_planned_objects(result.plan, prior), build_all_types(), result.plan.start.catalogue
    )


def get_site(state: State, site_id: str = "s") -> SiteSnapshot:
    return build_snapshot_of_state(state).sites[site_id]


def where(site: SiteSnapshot) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {
        vm.name: (vm.placement.machine, vm.placement.cells)
        for cluster in site.clusters
        for pool in cluster.pools
        for vm in pool.vms
    }
