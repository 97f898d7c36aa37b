"""Tests of the planning order: phases, source order, dependencies and cycles."""

from __future__ import annotations

import pytest

from tests.planning.harness import (
    RACKS,
    SITE,
    agent_pool,
    build_state,
    cluster,
    get_line,
    list_addresses,
    list_errors,
    list_places,
    plan,
    pool,
    require_success,
    vms,
)

RACK = """
resource "nexus_rack" "%s" {
  site_id       = nexus_site.s.id
  machine_count = %s
}
"""


def list_planning_order(files: object) -> list[str]:
    return list_addresses(require_success(plan(files)))  # type: ignore[arg-type]


def test_phase_precedes_source_order() -> None:
    text = (
        agent_pool("q", "nexus_kubernetes_cluster.a.id", 1)
        + cluster("a")
        + """
resource "nexus_bare_metal_machine" "m" {
  rack_id     = nexus_rack.x.id
  slot        = 9
  machine_sku = "bom-2.0"
}
"""
        + RACK % ("x", 2)
        + SITE
        + """
resource "nexus_vm_sku" "own" {
  vcpus      = 2
  memory_gib = 4
}
"""
    )
    assert list_planning_order(text) == [
        "nexus_site.s",
        "nexus_vm_sku.own",
        "nexus_rack.x",
        "nexus_bare_metal_machine.m",
        "nexus_kubernetes_cluster.a",
        "nexus_agent_pool.q",
    ]


def test_blocks_of_a_phase_are_ordered_by_file_name_and_position() -> None:
    files = {
        "b.nf.hcl": RACK % ("b1", 1) + RACK % ("b0", 1),
        "a.nf.hcl": SITE + RACK % ("z", 1),
        "B.nf.hcl": RACK % ("upper", 1),
    }
    assert list_planning_order(files)[1:] == [
        "nexus_rack.upper",
        "nexus_rack.z",
        "nexus_rack.b1",
        "nexus_rack.b0",
    ]


def test_override_file_does_not_change_positions() -> None:
    files = {
        "main.nf.hcl": SITE + RACK % ("one", 1) + RACK % ("two", 1),
        "a_override.nf.hcl": 'resource "nexus_rack" "two" {\n  machine_count = 3\n}\n',
    }
    assert list_planning_order(files)[1:] == ["nexus_rack.one", "nexus_rack.two"]
    assert len(require_success(plan(files)).plan.changes[2].after["machines"]) == 3  # type: ignore[index]


@pytest.mark.parametrize(
    "link",
    [
        'local.later\n}\nlocals {\n  later = "${nexus_kubernetes_cluster.late.name}-x"',
        (
            'module.m.out\n}\nmodule "m" {\n  source = "./m"\n  in     = '
            "nexus_kubernetes_cluster.late.name"
        ),
        "local.a[0]\n}\nlocals {\n  a = [local.b]\n  b = nexus_kubernetes_cluster.late.name",
        'one([for n in [1] : "${nexus_kubernetes_cluster.late.name}x"])',
    ],
)
def test_block_follows_its_indirect_dependencies(link: str) -> None:
    files = {
        "main.nf.hcl": RACKS
        + """
resource "nexus_virtual_machine" "first" {
  site_id    = nexus_site.s.id
  cpu_cores  = 2
  memory_gib = 2
  disk_gib   = 1
  name       = LINK
}
""".replace("LINK", link)
        + cluster("other")
        + cluster("late"),
        "m/main.nf.hcl": 'variable "in" {}\noutput "out" {\n  value = "${var.in}-${local.y}"\n}\n'
        "locals {\n  y = 1\n}\n",
    }
    assert list_planning_order(files)[-3:] == [
        "nexus_kubernetes_cluster.other",
        "nexus_kubernetes_cluster.late",
        "nexus_virtual_machine.first",
    ]


def test_depends_on_orders_planning_within_a_phase() -> None:
    text = (
        RACKS + cluster("a", arguments="depends_on = [nexus_kubernetes_cluster.b]") + cluster("b")
    )
    assert list_planning_order(text)[-2:] == [
        "nexus_kubernetes_cluster.b",
        "nexus_kubernetes_cluster.a",
    ]


def test_next_block_is_first_ready_one_in_source_order() -> None:
    # c waits for e. After e, c precedes d because it is earlier in the source.
    text = (
        RACKS
        + cluster("c", arguments="depends_on = [nexus_kubernetes_cluster.e]")
        + cluster("e")
        + cluster("d")
    )
    names = [a.rpartition(".")[2] for a in list_planning_order(text)[-3:]]
    assert names == ["e", "c", "d"]


def test_module_is_planned_at_position_of_its_block() -> None:
    inner = (
        'variable "site" {}\nresource "nexus_rack" "in" {\n  site_id = var.site\n  machine_count = '
        "1\n}\n"
    )
    files = {
        "main.nf.hcl": SITE
        + RACK % ("before", 1)
        + 'module "m" {\n  source = "./m"\n  site   = nexus_site.s.id\n}\n'
        + RACK % ("after", 1),
        "m/main.nf.hcl": inner,
    }
    assert list_planning_order(files)[1:] == [
        "nexus_rack.before",
        "module.m.nexus_rack.in",
        "nexus_rack.after",
    ]


def test_phases_hold_across_modules() -> None:
    files = {
        "main.nf.hcl": SITE
        + 'module "m" {\n  source = "./m"\n  site   = nexus_site.s.id\n}\n'
        + RACK % ("late", 4),
        "m/main.nf.hcl": 'variable "site" {}\n'
        + cluster("a").replace("nexus_site.s.id", "var.site"),
    }
    assert list_planning_order(files) == [
        "nexus_site.s",
        "nexus_rack.late",
        "module.m.nexus_kubernetes_cluster.a",
    ]
    assert len(vms(build_state(files))) == 1


def test_instances_are_ordered_by_number_and_keys_by_bytes() -> None:
    text = SITE + (
        'resource "nexus_rack" "n" {\n  count = 12\n  name = "n${count.index}"\n  site_id = '
        "nexus_site.s.id\n"
        "  machine_count = 1\n}\n"
        'resource "nexus_rack" "k" {\n  for_each = toset(["b", "B", "a10", "a9", "é"])\n  name = '
        "each.key\n"
        '  site_id = nexus_site.s.id\n  availability_zone = "1"\n  machine_count = 1\n}\n'
    )
    found = list_planning_order(text)[1:]
    assert found[:12] == [f"nexus_rack.n[{i}]" for i in range(12)]
    assert found[12:] == [f'nexus_rack.k["{k}"]' for k in ("B", "a10", "a9", "b", "é")]


def test_json_keys_keep_their_source_order() -> None:
    racks = {"r": {"site_id": "${nexus_site.s.id}", "machine_count": 4}}
    plane = {"count": 1, "vm_sku_name": "NC_G6_28_v1"}
    body = {"site_id": "${nexus_site.s.id}", "control_plane": plane}
    size = {"count": 1, "vm_sku_name": "NC_G6_28_v1"}
    clusters = {"z": {**body, "agent_pool": {"q": size, "b": size}}, "a": body}
    text = {
        "resource": {
            "nexus_kubernetes_cluster": clusters,
            "nexus_rack": racks,
            "nexus_site": {"s": {}},
        }
    }
    result = require_success(plan({"main.nf.json": text}))
    assert list_addresses(result)[-2:] == [
        "nexus_kubernetes_cluster.z",
        "nexus_kubernetes_cluster.a",
    ]
    assert [r.object for r in result.plan.placements if r.cluster == "z"] == [
        "z-control-plane-0",
        "z-q-0",
        "z-b-0",
    ]


def test_order_of_cluster_and_rack_files_does_not_matter() -> None:
    clusters = cluster("a", pools=pool("p", 5), count=3) + cluster("b", pools=pool("p", 4))
    before = build_state({"a.nf.hcl": clusters, "racks.nf.hcl": RACKS})
    after = build_state({"z.nf.hcl": clusters, "racks.nf.hcl": RACKS})
    assert list_places(before) == list_places(after)


def test_pools_are_placed_control_plane_first_then_in_source_order() -> None:
    result = require_success(plan(RACKS + cluster("a", pools=pool("z", 2) + pool("b", 1), count=2)))
    names = [r.object for r in result.plan.placements]
    assert names == ["a-control-plane-0", "a-control-plane-1", "a-z-0", "a-z-1", "a-b-0"]


def test_dynamic_pools_are_planned_at_their_dynamic_block() -> None:
    pools = (
        pool("first", 1)
        + """
  dynamic "agent_pool" {
    for_each = ["y", "x"]
    labels   = [agent_pool.value]
    content {
      count       = 1
      vm_sku_name = "NC_G6_28_v1"
    }
  }
"""
        + pool("last", 1)
    )
    result = require_success(plan(RACKS + cluster("a", pools=pools)))
    assert [r.pool for r in result.plan.placements] == ["control-plane", "first", "y", "x", "last"]


def test_cycle_error_names_all_members_and_a_line() -> None:
    text = """locals {
  one = nexus_rack.a.name
}
resource "nexus_site" "s" {}
resource "nexus_rack" "a" {
  name          = nexus_rack.b.name
  site_id       = nexus_site.s.id
  machine_count = 1
}
resource "nexus_rack" "b" {
  name          = local.one
  site_id       = nexus_site.s.id
  machine_count = 1
}
"""
    found = list_errors(plan(text))
    assert [d.summary for d in found] == ["Cycle"]
    for member in ("nexus_rack.a", "nexus_rack.b", "local.one"):
        assert member in found[0].detail
    assert get_line(found[0])[1] in (2, 5, 10)


def test_self_reference_is_a_cycle() -> None:
    found = list_errors(plan('resource "nexus_site" "s" {\n  name = nexus_site.s.id\n}\n'))
    assert found
    assert "nexus_site.s" in found[0].detail


def test_two_cycles_are_both_reported() -> None:
    text = "locals {\n  a = local.b\n  b = local.a\n  c = local.d\n  d = local.c\n}\n"
    found = list_errors(plan(text))
    assert len(found) == 2


def test_reference_to_later_phase_is_a_cycle() -> None:
    text = (
        SITE
        + 'resource "nexus_rack" "x" {\n  site_id = nexus_site.s.id\n'
        + "  machine_count = nexus_kubernetes_cluster.a.node_count\n}\n"
        + cluster("a")
    )
    found = list_errors(plan(text))
    assert [d.summary for d in found] == ["Cycle"]
    assert "nexus_rack.x" in found[0].detail
    assert "nexus_kubernetes_cluster.a" in found[0].detail
    assert get_line(found[0]) == ("main.nf.hcl", 2)


def test_literal_id_is_no_reference() -> None:
    text = RACKS + agent_pool("q", '"s/a"', 1) + cluster("a")
    assert list_planning_order(text)[-2:] == ["nexus_agent_pool.q", "nexus_kubernetes_cluster.a"]
