"""Plain VMs and clusters on several sites, against the five steps written out."""

from __future__ import annotations

import pytest

from nexusform.scheduling.racks.vms import Demand, Machine, RackSpread, VmName, VmSku
from tests.planning.harness import actions, cluster, good, places, plan, pool, rows, state_of, triggers, vms
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


def expected(block: str, numbers: list[int | str]) -> list[tuple[str, tuple[int, ...]]]:
    """Where the rule puts the VMs of one block on the empty site `one`."""
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


def test_one_vm_has_number_0() -> None:
    found = places(state_of(SITES + VM % ""))
    assert [found["v"]] == expected("nexus_virtual_machine.v", [0])


def test_with_count_the_number_is_the_index() -> None:
    found = places(state_of(SITES + VM % 'count = 12\n name = "v${count.index}"'))
    numbers: list[int | str] = list(range(12))
    assert [found[f"v{n}"] for n in numbers] == expected("nexus_virtual_machine.v", numbers)


def test_with_for_each_the_number_is_the_key() -> None:
    found = places(state_of(SITES + VM % 'for_each = toset(["x", "a", "B"])\n name = "v-${each.key}"'))
    assert [found[f"v-{k}"] for k in ("B", "a", "x")] == expected("nexus_virtual_machine.v", ["B", "a", "x"])


@pytest.mark.parametrize("repeated", ["", "count = 1\n", 'for_each = toset(["k"])\n'])
def test_in_a_module_its_address_has_no_index(repeated: str) -> None:
    call = f'module "m" {{\n {repeated} source = "./m"\n depends_on = [nexus_rack.r]\n}}\n'
    files = {"main.nf.hcl": SITES + call, "m/main.nf.hcl": VM % 'count = 2\n name = "v${count.index}"'}
    found = places(state_of(files))
    assert [found["v0"], found["v1"]] == expected("module.m.nexus_virtual_machine.v", [0, 1])


def test_sites_do_not_see_each_other() -> None:
    one = cluster("a", pools=pool("p", 5)).replace("nexus_site.s.id", '"one"')
    alone = places(state_of(SITES + one))
    other = one.replace('"a"', '"b"').replace('"one"', '"two"')
    both = places(state_of(SITES + other + one))
    assert {n: p for n, p in both.items() if n.startswith("a-")} == alone


def test_a_cluster_that_changes_its_site_leaves_the_one_and_comes_to_the_other() -> None:
    text = SITES + cluster("a", pools=pool("p", 2)).replace("nexus_site.s.id", '"one"')
    state = state_of(text)
    result = good(plan(text.replace('site_id = "one"', 'site_id = "two"'), state))
    assert actions(result) == {"nexus_kubernetes_cluster.a": "delete-create"}
    listed = [(str(r.action), r.trigger, r.site_id) for r in result.plan.placements]
    assert listed.count(("remove", "cluster_replaced", "one")) == 3
    assert listed.count(("place", "cluster_replaced", "two")) == 3


def test_the_same_machine_names_on_two_sites_are_two_machines() -> None:
    text = SITES + VM % 'machine = "r0-bm01"'
    text += (VM % 'machine = "r0-bm01"').replace('"v"', '"w"').replace('"one"', '"two"')
    state = state_of(text)
    assert {vm["machine"] for vm in vms(state).values()} == {"r0-bm01"}
    fewer = text.replace("machine_count = 3", "machine_count = count.index == 3 ? 0 : 3")
    result = plan(fewer.replace('machine = "r0-bm01"', "", 2), state)
    assert triggers(good(result)) == {"w": ("move", "machine_removed")}
    assert set(rows(result)) == {"w"}
