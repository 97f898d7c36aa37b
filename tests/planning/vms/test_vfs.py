"""Tests of SR-IOV VFs: placement is filtered by VFs only if pools declare them."""

from __future__ import annotations

from nexusform.planning.conclusion.plan_result import PlanResult
from tests.planning.harness import (
    SITE,
    attributes,
    build_state,
    build_state_after,
    cluster,
    is_empty,
    list_errors,
    list_warnings,
    plan,
    pool,
    require_success,
)

RACK = SITE + 'resource "nexus_rack" "r" {\n  site_id = nexus_site.s.id\n  machine_count = 2\n}\n'
OWN = RACK.replace(
    "machine_count = 2\n",
    "machine_count = 2\n  machine {\n    numa_cells = 2\n    cpus_per_cell = 48\n"
    "    memory_gib_per_cell = 224\n    ephemeral_disk_gib = 3500\n    vfs_per_cell = 8\n  }\n",
)


def build_cluster(count: int, vfs: int | str | None) -> str:
    more = "" if vfs is None else f"sriov_vfs = {vfs}"
    return cluster("a", pools=pool("np", count, sku="NC_G2_8_v1", more=more))


def list_worker_cells(result: PlanResult) -> list[tuple[str, int]]:
    nodes = attributes(build_state_after(result), "nexus_kubernetes_cluster.a")["nodes"].values()
    return sorted((n["machine"], *n["numa_cells"]) for n in nodes if n["role"] == "Worker")


def test_cell_has_thirty_vfs_for_tenants() -> None:
    # Two machines with two cells fit four VMs with more than half the VFs of a cell each.
    assert len(set(list_worker_cells(require_success(plan(RACK + build_cluster(4, 16)))))) == 4
    (problem,) = list_errors(plan(RACK + build_cluster(5, 16)))
    assert "has 16 SR-IOV VFs left" in problem.detail
    assert len(set(list_worker_cells(require_success(plan(RACK + build_cluster(4, None)))))) == 2


def test_own_machine_type_sets_its_number_of_vfs() -> None:
    assert len(set(list_worker_cells(require_success(plan(OWN + build_cluster(4, 8)))))) == 4
    assert list_errors(plan(OWN + build_cluster(1, 9)))


def test_changed_vfs_move_no_vm_and_excess_is_reported() -> None:
    state = build_state(RACK + build_cluster(8, 2))
    result = require_success(plan(RACK + build_cluster(8, 20), state))
    assert all(row.action == "keep" for row in result.plan.placements)
    assert (
        attributes(build_state_after(result, state), "nexus_kubernetes_cluster.a")["agent_pool"][
            "np"
        ]["sriov_vfs"]
        == 20
    )
    assert "insufficient-cell-vfs" in {w.id for w in list_warnings(result)}
    assert is_empty(require_success(plan(RACK + build_cluster(8, 2), state)))


def test_fractional_vfs_are_rejected() -> None:
    assert [problem.id for problem in list_errors(plan(RACK + build_cluster(1, "1.5")))] == [
        "invalid-number"
    ]
