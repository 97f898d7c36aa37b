"""VFs of machines: a filter where pools declare them, and nothing where nobody does."""

from __future__ import annotations

from nexusform.planning.conclusion.plan_result import PlanResult
from tests.planning.harness import (
    SITE,
    applied,
    attributes,
    cluster,
    errors,
    good,
    is_empty,
    plan,
    pool,
    state_of,
    warnings,
)

RACK = SITE + 'resource "nexus_rack" "r" {\n  site_id = nexus_site.s.id\n  machine_count = 2\n}\n'
OWN = RACK.replace(
    "machine_count = 2\n",
    "machine_count = 2\n  machine {\n    numa_cells = 2\n    cpus_per_cell = 48\n"
    "    memory_gib_per_cell = 224\n    ephemeral_disk_gib = 3500\n    vfs_per_cell = 8\n  }\n",
)


def workers(count: int, vfs: int | str | None) -> str:
    more = "" if vfs is None else f"sriov_vfs = {vfs}"
    return cluster("a", pools=pool("np", count, sku="NC_G2_8_v1", more=more))


def cells(result: PlanResult) -> list[tuple[str, int]]:
    nodes = attributes(applied(result), "nexus_kubernetes_cluster.a")["nodes"].values()
    return sorted((n["machine"], *n["numa_cells"]) for n in nodes if n["role"] == "Worker")


def test_a_cell_has_thirty_vfs_for_tenants() -> None:
    # Two machines of two cells: four VMs with more than half of a cell's VFs.
    assert len(set(cells(good(plan(RACK + workers(4, 16)))))) == 4
    (problem,) = errors(plan(RACK + workers(5, 16)))
    assert "has 16 SR-IOV VFs left" in problem.detail
    assert len(set(cells(good(plan(RACK + workers(4, None)))))) == 2


def test_machines_of_their_own_say_how_many_they_have() -> None:
    assert len(set(cells(good(plan(OWN + workers(4, 8)))))) == 4
    assert errors(plan(OWN + workers(1, 9)))


def test_a_changed_number_moves_nobody_and_what_is_too_much_is_told() -> None:
    state = state_of(RACK + workers(8, 2))
    result = good(plan(RACK + workers(8, 20), state))
    assert all(row.action == "keep" for row in result.plan.placements)
    assert attributes(applied(result, state), "nexus_kubernetes_cluster.a")["agent_pool"]["np"]["sriov_vfs"] == 20
    assert "insufficient-cell-vfs" in {w.id for w in warnings(result)}
    assert is_empty(good(plan(RACK + workers(8, 2), state)))


def test_a_fraction_of_a_function_is_refused() -> None:
    assert [problem.id for problem in errors(plan(RACK + workers(1, "1.5")))] == ["invalid-number"]
