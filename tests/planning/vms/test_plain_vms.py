"""Tests of plain VMs and clusters on several sites, compared with the five written-out steps."""

from __future__ import annotations

import pytest

from nexusform.scheduling.racks.vms import Demand, Machine, RackSpread, VmName, VmSku
from tests.planning.harness import (
    build_state,
    cluster,
    list_actions,
    list_errors,
    list_places,
    list_rows,
    list_triggers,
    plan,
    pool,
    require_success,
    vms,
)
from tests.scheduling.racks.brute_force import BruteForce

SITES = """
resource "nexus_site" "s" {
  for_each = toset(["one", "two"])
  name     = each.key
}
resource "nexus_rack" "r" {
  count         = 6
  site_id       = count.index < 3 ? "one" : "two"
  name          = "r${count.index % 3}"
  machine_count = 3
  depends_on    = [nexus_site.s]
}
"""
VM = """
resource "nexus_virtual_machine" "v" {
  %s
  site_id    = "one"
  cpu_cores  = 8
  memory_gib = 64
  disk_gib   = 100
}
"""
SKU = VmSku("own", 8, 0, 64, 100)


def compute_expected_places(
    block: str, numbers: list[int | str]
) -> list[tuple[str, tuple[int, ...]]]:
    """Return the places required by the rule for the VMs of one block on the empty site `one`."""
    machines = [
        Machine(f"r{r}-bm{slot:02d}", f"r{r}", f"r{r}", slot, "bom-1.7.3", 2, 48, 224, 3500)
        for r in range(3)
        for slot in range(1, 4)
    ]
    rule = BruteForce(machines, RackSpread.POOL, 8)
    found = []
    for number in numbers:
        answer = rule.place(Demand(VmName(block, block, block, number), SKU))
        assert answer is not None
        found.append((answer[1].machine, answer[1].cells))
    return found


def test_single_vm_has_number_0() -> None:
    found = list_places(build_state(SITES + VM % ""))
    assert [found["v"]] == compute_expected_places("nexus_virtual_machine.v", [0])


def test_number_is_the_index_with_count() -> None:
    found = list_places(build_state(SITES + VM % 'count = 12\n name = "v${count.index}"'))
    numbers: list[int | str] = list(range(12))
    assert [found[f"v{n}"] for n in numbers] == compute_expected_places(
        "nexus_virtual_machine.v", numbers
    )


def test_vm_without_capacity_is_named_by_its_address() -> None:
    (error,) = list_errors(plan(SITES + VM.replace("= 8\n", "= 800\n") % ""))
    assert error.brief == "nexus_virtual_machine.v does not fit"


def test_number_is_the_key_with_for_each() -> None:
    found = list_places(
        build_state(SITES + VM % 'for_each = toset(["x", "a", "B"])\n name = "v-${each.key}"')
    )
    assert [found[f"v-{k}"] for k in ("B", "a", "x")] == compute_expected_places(
        "nexus_virtual_machine.v", ["B", "a", "x"]
    )


@pytest.mark.parametrize("repeated", ["", "count = 1\n", 'for_each = toset(["k"])\n'])
def test_vm_in_module_has_no_index_in_its_address(repeated: str) -> None:
    call = f'module "m" {{\n {repeated} source = "./m"\n depends_on = [nexus_rack.r]\n}}\n'
    files = {
        "main.nf.hcl": SITES + call,
        "m/main.nf.hcl": VM % 'count = 2\n name = "v${count.index}"',
    }
    found = list_places(build_state(files))
    assert [found["v0"], found["v1"]] == compute_expected_places(
        "module.m.nexus_virtual_machine.v", [0, 1]
    )


def test_sites_are_independent() -> None:
    one = cluster("a", pools=pool("p", 5)).replace("nexus_site.s.id", '"one"')
    alone = list_places(build_state(SITES + one))
    other = one.replace('"a"', '"b"').replace('"one"', '"two"')
    both = list_places(build_state(SITES + other + one))
    assert {n: p for n, p in both.items() if n.startswith("a-")} == alone


def test_changed_site_moves_a_cluster() -> None:
    text = SITES + cluster("a", pools=pool("p", 2)).replace("nexus_site.s.id", '"one"')
    state = build_state(text)
    result = require_success(plan(text.replace('site_id = "one"', 'site_id = "two"'), state))
    assert list_actions(result) == {"nexus_kubernetes_cluster.a": "delete-create"}
    listed = [(str(r.action), r.trigger, r.site_id) for r in result.plan.placements]
    assert listed.count(("remove", "cluster_replaced", "one")) == 3
    assert listed.count(("place", "cluster_replaced", "two")) == 3


def test_equal_machine_names_on_two_sites_are_two_machines() -> None:
    text = SITES + VM % 'machine = "r0-bm01"'
    text += (VM % 'machine = "r0-bm01"').replace('"v"', '"w"').replace('"one"', '"two"')
    state = build_state(text)
    assert {vm["machine"] for vm in vms(state).values()} == {"r0-bm01"}
    fewer = text.replace("machine_count = 3", "machine_count = count.index == 3 ? 0 : 3")
    result = plan(fewer.replace('machine = "r0-bm01"', "", 2), state)
    assert list_triggers(require_success(result)) == {"w": ("move", "machine_removed")}
    assert set(list_rows(result)) == {"w"}
