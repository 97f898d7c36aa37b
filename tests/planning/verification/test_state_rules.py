"""Rules that what stands does not keep: each is a warning, whoever brought it about."""

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Severity
from nexusform.planning.verification.state_rules import check_state_rules
from nexusform.resources.address import parse_address
from nexusform.scheduling.racks import profile
from nexusform.state.objects import InstanceState, State
from tests.planning.harness import RACKS, all_types, cluster, good, plan, pool, state_of
from tests.scheduling.racks.samples import change_profile, limit

VIRTUAL = """
resource "nexus_virtual_machine" "{name}" {{
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 10
  {more}
}}
"""


def hinted(kind: str, scope: str) -> str:
    hint = f"""placement_hint {{
    hint_type            = "{kind}"
    resource_id          = nexus_virtual_machine.first.id
    scheduling_execution = "Hard"
    scope                = "{scope}"
  }}"""
    return RACKS + VIRTUAL.format(name="first", more="") + VIRTUAL.format(name="second", more=hint)


def told(state: State) -> list[str]:
    problems = check_state_rules(state, all_types())
    assert all(problem.severity is Severity.WARNING for problem in problems)
    return [problem.detail for problem in problems]


def edited(state: State, address: str, **values: Any) -> State:
    """The object with other attributes."""
    where = parse_address(address)
    current = state.instances[where].current
    assert current is not None
    attributes = {**deepcopy(dict(current.attributes)), **values}
    return state.replace_instance(where, InstanceState(replace(current, attributes=attributes)))


def value(state: State, address: str, name: str) -> Any:
    current = state.instances[parse_address(address)].current
    assert current is not None
    return current.attributes[name]


def beside(state: State, address: str, other: str) -> State:
    """A plain VM on the machine of another."""
    names = ("machine", "rack", "availability_zone", "cells")
    return edited(state, address, **{name: value(state, other, name) for name in names})


FIRST, SECOND = "nexus_virtual_machine.first", "nexus_virtual_machine.second"


def test_hard_hints_hold_between_what_stands() -> None:
    apart = state_of(hinted("AntiAffinity", "Machine"))
    assert told(apart) == []
    (detail,) = told(beside(apart, SECOND, FIRST))
    machine, rack = value(apart, FIRST, "machine"), value(apart, FIRST, "rack")
    assert f"not on the same machine as s/first. Violated by second on {machine} ({rack})." in detail
    assert f"-replace='{SECOND}:second'" in detail
    together = state_of(hinted("Affinity", "Rack"))
    assert told(together) == []
    racks = {f"r{number}" for number in range(3)} - {value(together, FIRST, "rack")}
    other = min(racks)
    (detail,) = told(edited(together, SECOND, rack=other, machine=f"{other}-bm01"))
    assert "on the same rack as s/first" in detail


def test_vms_stand_in_the_zones_of_their_pools() -> None:
    text = RACKS + cluster("a", pools=pool("p", 6, more='availability_zones = ["r0"]') + pool("q", 2))
    state = state_of(text)
    assert told(state) == []
    # The rack got another zone around them: what the rack says counts, not what was written down.
    (detail,) = told(edited(state, "nexus_rack.r[0]", availability_zone="elsewhere"))
    assert "p in nexus_kubernetes_cluster.a: zone elsewhere is not among r0." in detail
    assert re.search(r"a-p-4 on r0-bm\d+ \(r0\) and 1 more\.", detail)
    assert "a-q" not in detail


def test_a_filter_that_somebody_adds_is_asked_of_what_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    zoned = pool("p", 3, more='availability_zones = ["r0"]') + pool("q", 3)
    state = state_of(RACKS + cluster("a", pools=zoned))
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS, limit(2)))
    # Each of the three stands beside two others, and those of q are not counted.
    (detail,) = told(state)
    assert detail.startswith("p in nexus_kubernetes_cluster.a: 2 VMs of p already. Violated by a-p-0 on r0-bm")
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS[:-1], limit(3)))
    assert told(state) == []


def vnf(policy: str) -> Mapping[str, Any]:
    hints = {"scheduler_hints": {"group": {"get_resource": "g"}}}
    group = {"type": "OS::Nova::ServerGroup", "properties": {"policies": [policy]}}
    server = {"type": "OS::Nova::Server", "properties": hints}
    workers = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": server}}
    template = {"heat_template_version": "2018-08-31", "resources": {"g": group, "w": workers}}
    body = {
        "site_id": "${nexus_site.s.id}",
        "name": "v",
        "base_hot": yaml.safe_dump(template),
        "vdu": {"w": {"vm_sku_name": "NC_G6_28_v1"}},
    }
    return {"main.nf.hcl": RACKS, "vnf.nf.json": {"resource": {"tacker_vnf": {"v": body}}}}


def parted(state: State, *, together: bool) -> State:
    vnfcs = deepcopy(dict(value(state, "tacker_vnf.v", "vnfcs")))
    first, second = vnfcs.values()
    names = ("machine", "rack", "availability_zone", "numa_cells")
    second.update({name: first[name] for name in names} if together else {"machine": "elsewhere"})
    return edited(state, "tacker_vnf.v", vnfcs=vnfcs)


@pytest.mark.of_domains("vnf")
def test_groups_of_a_vnf_hold_among_what_stands() -> None:
    apart = state_of(vnf("anti-affinity"))
    assert told(apart) == []
    (detail,) = told(parted(apart, together=True))
    assert "allows 1 of its VMs on one machine, but more run on" in detail
    together = state_of(vnf("affinity"))
    assert told(together) == []
    (detail,) = told(parted(together, together=False))
    assert "keeps its VMs on one machine, but they run on elsewhere, r" in detail


def rule(first: str, second: str) -> str:
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


def of(name: str) -> str:
    return f"cluster_ids = [nexus_kubernetes_cluster.{name}.id]"


def test_separation_rules_hold_between_what_stands() -> None:
    text = RACKS + cluster("a", count=1) + cluster("b", count=1)
    state = state_of(text + rule(of("a"), of("b")))
    assert told(state) == []
    nodes = deepcopy(dict(value(state, "nexus_kubernetes_cluster.b", "nodes")))
    (node,) = nodes.values()
    (other,) = value(state, "nexus_kubernetes_cluster.a", "nodes").values()
    node.update({name: other[name] for name in ("machine", "rack", "availability_zone")})
    (detail,) = told(edited(state, "nexus_kubernetes_cluster.b", nodes=nodes))
    assert "nexus_separation_rule.apart does not hold now. Its groups share 1 machine:" in detail
    assert "a-control-plane-0, b-control-plane-0" in detail


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
def test_pods_are_kept_apart_where_their_nodes_stand() -> None:
    selector = 'workload_selector {\n      match_labels = { app = "web" }\n    }'
    text = RACKS + cluster("a", pools=pool("p", 1)) + cluster("b", count=1) + WEB
    state = state_of(text + rule(selector, of("b")))
    assert told(state) == []
    nodes = deepcopy(dict(value(state, "nexus_kubernetes_cluster.b", "nodes")))
    (node,) = nodes.values()
    worker = value(state, "nexus_kubernetes_cluster.a", "nodes")["a-p-0"]
    node.update({name: worker[name] for name in ("machine", "rack", "availability_zone")})
    (detail,) = told(edited(state, "nexus_kubernetes_cluster.b", nodes=nodes))
    assert "shop/web-" in detail
    assert "on a-p-0" in detail


def test_what_a_plan_leaves_keeps_its_rules() -> None:
    state = state_of(RACKS + cluster("a", pools=pool("p", 7)) + cluster("b"))
    good(plan(RACKS + cluster("a", pools=pool("p", 7)) + cluster("b"), state))
    assert told(state) == []
