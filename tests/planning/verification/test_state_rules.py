"""Tests of rules violated by the current placement: each gives a warning, for any cause."""

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Severity
from nexusform.doubts.doubt import Doubt
from nexusform.planning.verification.state_rules import check_state_rules
from nexusform.plans.site_capacity.occupancy import build_unread_note
from nexusform.resources.address import parse_address
from nexusform.scheduling.racks import profile
from nexusform.state.objects import InstanceState, State
from tests.planning.harness import (
    RACKS,
    build_all_types,
    build_state,
    cluster,
    plan,
    pool,
    require_success,
)
from tests.scheduling.racks.samples import build_limit, change_profile

VIRTUAL = """
resource "nexus_virtual_machine" "{name}" {{
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 10
  {more}
}}
"""


def build_hinted_vms(kind: str, scope: str) -> str:
    hint = f"""placement_hint {{
    hint_type            = "{kind}"
    resource_id          = nexus_virtual_machine.first.id
    scheduling_execution = "Hard"
    scope                = "{scope}"
  }}"""
    return RACKS + VIRTUAL.format(name="first", more="") + VIRTUAL.format(name="second", more=hint)


def list_warnings_of_state(state: State) -> list[str]:
    problems = check_state_rules(state, build_all_types())
    assert all(problem.severity is Severity.WARNING for problem in problems)
    return [problem.detail for problem in problems]


def edit_state(state: State, address: str, **values: Any) -> State:
    """Return the state with other attributes of an object."""
    where = parse_address(address)
    current = state.instances[where].current
    assert current is not None
    attributes = {**deepcopy(dict(current.attributes)), **values}
    return state.replace_instance(where, InstanceState(replace(current, attributes=attributes)))


def get_value(state: State, address: str, name: str) -> Any:
    current = state.instances[parse_address(address)].current
    assert current is not None
    return current.attributes[name]


def move_to_machine_of(state: State, address: str, other: str) -> State:
    """Move a plain VM to the machine of another VM."""
    names = ("machine", "rack", "availability_zone", "cells")
    return edit_state(state, address, **{name: get_value(state, other, name) for name in names})


FIRST = "nexus_virtual_machine.first"
SECOND = "nexus_virtual_machine.second"


def test_violated_hard_hints_are_reported() -> None:
    apart = build_state(build_hinted_vms("AntiAffinity", "Machine"))
    assert list_warnings_of_state(apart) == []
    (detail,) = list_warnings_of_state(move_to_machine_of(apart, SECOND, FIRST))
    machine = get_value(apart, FIRST, "machine")
    rack = get_value(apart, FIRST, "rack")
    assert (
        f"not on the same machine as s/first. Violated by second on {machine} ({rack})." in detail
    )
    assert f"-replace='{SECOND}:second'" in detail
    together = build_state(build_hinted_vms("Affinity", "Rack"))
    assert list_warnings_of_state(together) == []
    racks = {f"r{number}" for number in range(3)} - {get_value(together, FIRST, "rack")}
    other = min(racks)
    (detail,) = list_warnings_of_state(
        edit_state(together, SECOND, rack=other, machine=f"{other}-bm01")
    )
    assert "on the same rack as s/first" in detail


def test_vms_outside_the_zones_of_their_pool_are_reported() -> None:
    text = RACKS + cluster(
        "a", pools=pool("p", 6, more='availability_zones = ["r0"]') + pool("q", 2)
    )
    state = build_state(text)
    assert list_warnings_of_state(state) == []
    # The zone of the rack changed under the VMs. The current zone of the rack counts, not
    # the recorded one.
    (detail,) = list_warnings_of_state(
        edit_state(state, "nexus_rack.r[0]", availability_zone="elsewhere")
    )
    assert "p in nexus_kubernetes_cluster.a: zone elsewhere is not among r0." in detail
    assert re.search(r"a-p-4 on r0-bm\d+ \(r0\) and 1 more\.", detail)
    assert "a-q" not in detail


def list_violations_of_plan(files: str, state: State) -> list[str]:
    result = require_success(plan(files, state))
    return [
        problem.detail
        for problem in result.plan.diagnostics
        if problem.id == "existing-rule-violation"
    ]


def test_plan_warns_about_existing_violations_of_zones_and_hints() -> None:
    zoned = RACKS + cluster(
        "a", pools=pool("p", 6, more='availability_zones = ["r0"]') + pool("q", 2)
    )
    state = build_state(zoned)
    assert list_violations_of_plan(zoned, state) == []
    nodes = deepcopy(dict(get_value(state, "nexus_kubernetes_cluster.a", "nodes")))
    nodes["a-p-4"] |= {
        "machine": "r1-bm02",
        "rack": "r1",
        "availability_zone": "r1",
        "provenance": "observed",
    }
    outside = edit_state(state, "nexus_kubernetes_cluster.a", nodes=nodes)
    (detail,) = list_violations_of_plan(zoned, outside)
    assert (
        "p in nexus_kubernetes_cluster.a: zone r1 is not among r0. Violated by a-p-4 on r1-bm02 "
        "(r1)."
    ) in detail
    hinted = build_hinted_vms("AntiAffinity", "Machine")
    apart = build_state(hinted)
    assert list_violations_of_plan(hinted, apart) == []
    (detail,) = list_violations_of_plan(hinted, move_to_machine_of(apart, SECOND, FIRST))
    assert "not on the same machine as s/first. Violated by second on" in detail


def test_added_filter_is_checked_for_existing_vms(monkeypatch: pytest.MonkeyPatch) -> None:
    zoned = pool("p", 3, more='availability_zones = ["r0"]') + pool("q", 3)
    state = build_state(RACKS + cluster("a", pools=zoned))
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS, build_limit(2)))
    # Each of the three VMs runs beside two others. VMs of q are not counted.
    (detail,) = list_warnings_of_state(state)
    assert list_violations_of_plan(RACKS + cluster("a", pools=zoned), state) == [detail]
    assert detail.startswith(
        "p in nexus_kubernetes_cluster.a: 2 VMs of p already. Violated by a-p-0 on r0-bm"
    )
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS[:-1], build_limit(3)))
    assert list_warnings_of_state(state) == []


def build_vnf(policy: str) -> Mapping[str, Any]:
    hints = {"scheduler_hints": {"group": {"get_resource": "g"}}}
    group = {"type": "OS::Nova::ServerGroup", "properties": {"policies": [policy]}}
    server = {"type": "OS::Nova::Server", "properties": hints}
    workers = {
        "type": "OS::Heat::ResourceGroup",
        "properties": {"count": 2, "resource_def": server},
    }
    template = {"heat_template_version": "2018-08-31", "resources": {"g": group, "w": workers}}
    body = {
        "site_id": "${nexus_site.s.id}",
        "name": "v",
        "base_hot": yaml.safe_dump(template),
        "vdu": {"w": {"vm_sku_name": "NC_G6_28_v1"}},
    }
    return {"main.nf.hcl": RACKS, "vnf.nf.json": {"resource": {"tacker_vnf": {"v": body}}}}


def move_second_vnfc(state: State, *, together: bool) -> State:
    vnfcs = deepcopy(dict(get_value(state, "tacker_vnf.v", "vnfcs")))
    first, second = vnfcs.values()
    names = ("machine", "rack", "availability_zone", "numa_cells")
    second.update({name: first[name] for name in names} if together else {"machine": "elsewhere"})
    return edit_state(state, "tacker_vnf.v", vnfcs=vnfcs)


@pytest.mark.of_domains("vnf")
def test_violated_groups_of_a_vnf_are_reported() -> None:
    apart = build_state(build_vnf("anti-affinity"))
    assert list_warnings_of_state(apart) == []
    (detail,) = list_warnings_of_state(move_second_vnfc(apart, together=True))
    assert re.match(
        r"g \(base_hot:\d+\) allows 1 of its VMs on one machine, but more run on", detail
    )
    together = build_state(build_vnf("affinity"))
    assert list_warnings_of_state(together) == []
    (detail,) = list_warnings_of_state(move_second_vnfc(together, together=False))
    assert re.match(
        r"g \(base_hot:\d+\) keeps its VMs on one machine, but they run on elsewhere, r", detail
    )


def build_rule(first: str, second: str) -> str:
    return f"""
resource "nexus_separation_rule" "apart" {{
  scope = "machine"
  group {{
    {first}
  }}
  group {{
    {second}
  }}
}}
"""


def build_group(name: str) -> str:
    return f"cluster_ids = [nexus_kubernetes_cluster.{name}.id]"


def test_violated_separation_rules_are_reported() -> None:
    text = RACKS + cluster("a", count=1) + cluster("b", count=1)
    state = build_state(text + build_rule(build_group("a"), build_group("b")))
    assert list_warnings_of_state(state) == []
    nodes = deepcopy(dict(get_value(state, "nexus_kubernetes_cluster.b", "nodes")))
    (node,) = nodes.values()
    (other,) = get_value(state, "nexus_kubernetes_cluster.a", "nodes").values()
    node.update({name: other[name] for name in ("machine", "rack", "availability_zone")})
    (detail,) = list_warnings_of_state(edit_state(state, "nexus_kubernetes_cluster.b", nodes=nodes))
    assert "nexus_separation_rule.apart does not hold now. Its groups share 1 machine:" in detail
    assert "a-control-plane-0, b-control-plane-0" in detail


@pytest.mark.parametrize("is_of_site", [True, False])
def test_rule_over_vms_with_unread_facts_is_unknown(is_of_site: bool) -> None:
    """Facts are recorded with a site, and those of data sources with the state."""
    text = RACKS + cluster("a", count=1) + cluster("b", count=1)
    state = build_state(text + build_rule(build_group("a"), build_group("b")))
    fact = Doubt("VM", "a-control-plane-0", "powerState", "vms.json", 14)
    if is_of_site:
        where = parse_address("nexus_site.s")
        current = state.instances[where].current
        assert current is not None
        note = {**current.note, **build_unread_note([fact])}
        state = state.replace_instance(where, InstanceState(replace(current, private=note)))
    else:
        state = replace(state, unread=(fact,))
    (detail,) = list_warnings_of_state(state)
    assert "It is unknown whether nexus_separation_rule.apart holds" in detail
    assert "nexusform did not read powerState of VM a-control-plane-0" in detail


WEB = """
resource "fleet_hub_manifest" "web" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: shop
    spec:
      replicas: 2
      selector:
        matchLabels:
          app: web
      template:
        metadata:
          labels:
            app: web
        spec:
          containers:
            - name: c
              image: i
  EOT
}
"""


@pytest.mark.of_domains("fleet")
def test_separation_rules_apply_to_pods_on_their_nodes() -> None:
    selector = 'workload_selector {\n      match_labels = { app = "web" }\n    }'
    text = RACKS + cluster("a", pools=pool("p", 1)) + cluster("b", count=1) + WEB
    state = build_state(text + build_rule(selector, build_group("b")))
    assert list_warnings_of_state(state) == []
    nodes = deepcopy(dict(get_value(state, "nexus_kubernetes_cluster.b", "nodes")))
    (node,) = nodes.values()
    worker = get_value(state, "nexus_kubernetes_cluster.a", "nodes")["a-p-0"]
    node.update({name: worker[name] for name in ("machine", "rack", "availability_zone")})
    (detail,) = list_warnings_of_state(edit_state(state, "nexus_kubernetes_cluster.b", nodes=nodes))
    assert "shop/web-" in detail
    assert "on a-p-0" in detail


def test_state_after_plan_violates_no_rule() -> None:
    state = build_state(RACKS + cluster("a", pools=pool("p", 7)) + cluster("b"))
    require_success(plan(RACKS + cluster("a", pools=pool("p", 7)) + cluster("b"), state))
    assert list_warnings_of_state(state) == []
