"""`plan -assume=lost:...` and `simulate failure` show equal losses: the same sets and words."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from nexusform.domains.whatif.rendering.failure_report import build_failure_report
from nexusform.planning.edits import LostMachines
from nexusform.planning.hypothesis.hypothetical_plan import plan_hypothesis
from nexusform.planning.planner import make_plan
from nexusform.plans.plan import HypotheticalPlan
from nexusform.rendering.json.report_document import build_section_document
from nexusform.rendering.report.loss_sections import build_loss_section
from nexusform.snapshots.machine_losses import add_machine_losses
from nexusform.state.objects import State
from tests.domains.whatif.questions.failures import simulate_loss, simulate_rack_failure
from tests.kill_points import scale_count, select_points
from tests.planning.harness import build_request, build_state_after
from tests.planning.hypothesis.edit_kinds import draw_site
from tests.worlds.small_worlds import DOCUMENT, build_document_state, get_site

PLAIN_VM = """
resource "nexus_virtual_machine" "v{number}" {{
  site_id    = nexus_site.s.id
  name       = "v{number}"
  cpu_cores  = 44
  memory_gib = 200
  disk_gib   = 40
}}
"""


def read_assumed_losses(
    files: Any, state: State, site_id: str, machines: Sequence[str], **options: Any
) -> list[dict[str, Any]]:
    """Return the sections of lost machines in the plan of a configuration that is applied."""
    request = build_request(files, state, **options)
    result = plan_hypothesis(request, [LostMachines(site_id, tuple(machines))]).after
    # A hypothetical plan never fails for lack of capacity.
    assert not result.plan.errors
    plan = add_machine_losses(result, request).plan
    assert isinstance(plan, HypotheticalPlan)
    return [build_section_document(build_loss_section(loss)) for loss in plan.losses]


def read_simulated_losses(
    state: State, site_id: str, machines: Sequence[str]
) -> list[dict[str, Any]]:
    loss = simulate_loss(state, machines, site_id=site_id)
    return [build_section_document(build_loss_section(loss))]


def list_document_losses() -> list[tuple[str, ...]]:
    """Return the machines of each rack of the document, and each machine."""
    site = get_site(build_document_state("nearly-full"), "lab")
    racks = [
        tuple(machine.name for machine in site.machines_by_rack[rack]) for rack in site.active_racks
    ]
    machines = select_points([(name,) for name in site.machines], 12)
    return [*racks, *machines]


def test_losses_of_the_document_are_equal() -> None:
    state = build_document_state("nearly-full")
    files = {file.name: file.read_text() for file in DOCUMENT.glob("*.hcl")}
    losses = list_document_losses()
    assert len(losses) >= 8
    missing = 0
    for machines in losses:
        assumed = read_assumed_losses(files, state, "lab", machines, variables=["step=nearly-full"])
        assert assumed == read_simulated_losses(state, "lab", machines), machines
        [section] = assumed
        classes = section["tables"][1]["rows"] if len(section["tables"]) > 1 else []
        missing += sum(row["fits_after"] + row["no_place"] for row in classes)
    # Racks 1, 4, 7 and 8 hold pools that are limited to two zones.
    assert missing


@pytest.mark.parametrize("seed", range(scale_count(300)))
def test_losses_of_a_random_site_are_equal(seed: int) -> None:
    draw = random.Random(f"losses {seed}")
    site = draw_site(draw)
    plain_vms = "".join(PLAIN_VM.format(number=number) for number in range(draw.randint(0, 3)))
    files = site.render() + plain_vms
    created = make_plan(build_request(files))
    if created.plan.errored:
        pytest.skip("the random site does not fit")
    state = build_state_after(created)
    machines = sorted(created.sites["s"].machines)
    if draw.random() < 0.5:
        rack = draw.choice(sorted(site.racks))
        lost = [name for name in machines if created.sites["s"].machines[name].rack == rack]
    else:
        lost = draw.sample(machines, draw.randint(1, 3))
    assumed = read_assumed_losses(files, state, "s", lost)
    assert assumed == read_simulated_losses(state, "s", lost)
    # Each lost VM is in one class.
    [section] = assumed
    tables = {table["caption"]: table["rows"] for table in section.get("tables", ())}
    down = sum(row["down"] for row in tables.get("VMs down", ()))
    classes = ("fits_now", "fits_after", "no_place")
    recreated = tables.get("Re-created VMs", ())
    assert sum(row[name] for row in recreated for name in classes) == down
    assert len(tables.get("Each VM", ())) == down


def test_vm_that_fits_after_a_change_is_not_without_a_place() -> None:
    state = build_document_state("nearly-full")
    report = build_failure_report(simulate_rack_failure(state, "rack1", "lab"), "state")
    assert report.verdict.endswith("quorum; 1 VM fits only after a change (tested).")
    [runbook] = [section for section in report.sections if section.name == "runbook"]
    [step] = [str(line) for line in runbook.lines if "cluster-c/pool1" in str(line)]
    assert "1 VM of cluster-c/pool1 will not fit. Apply one of the changes above first" in step
    # An even spread is that of the VMs with a place.
    files = {file.name: file.read_text() for file in DOCUMENT.glob("*.hcl")}
    request = build_request(files, state, variables=["step=nearly-full"])
    machines = [machine.name for machine in get_site(state, "lab").machines_by_rack["rack1"]]
    plan = plan_hypothesis(request, [LostMachines("lab", tuple(machines))]).after.plan
    [pool] = [
        table
        for table in plan.figures.placement_tables
        if (table.cluster, table.pool) == ("cluster-c", "pool1")
    ]
    assert (pool.actual_vms_per_rack, pool.expected_vms_per_rack) == ({"rack4": 11}, (11, 11))
