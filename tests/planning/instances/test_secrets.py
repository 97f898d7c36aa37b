"""A sensitive value never shows where names, places and messages are made of arguments."""

from __future__ import annotations

import pytest

from tests.planning.harness import plan

SITE = """
variable "secret" {
  sensitive = true
  default   = "hunterzwei"
}
resource "nexus_site" "s" {
}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = 2
}
"""
CLUSTER = """
resource "nexus_kubernetes_cluster" "k" {
  site_id = nexus_site.s.id
  name    = NAME
  control_plane {
    count       = 1
    vm_sku_name = SKU
  }
  agent_pool "p" {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
    labels      = { token = var.secret }
  }
}
"""


def _found(name: str, sku: str) -> list[str]:
    text = SITE + CLUSTER.replace("NAME", name).replace("SKU", sku)
    result = plan({"main.nf.hcl": text})
    told = [f"{d.summary} {d.detail} {d.values}" for d in result.plan.diagnostics]
    assert not any("hunterzwei" in one for one in told)
    return [d.summary for d in result.plan.diagnostics]


def test_a_secret_label_is_fine_and_hidden() -> None:
    assert _found('"k"', '"NC_G6_28_v1"') == []


def test_a_secret_cannot_make_a_name_or_a_place() -> None:
    assert "Sensitive value decides a placement" in _found('"web-${var.secret}"', '"NC_G6_28_v1"')
    assert "Sensitive value decides a placement" in _found('"k"', "var.secret")


@pytest.mark.of_domains("fleet")
def test_what_shows_parts_of_a_secret_is_secret_too() -> None:
    body = r'"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${var.secret}\n  namespace: x\n"'
    text = SITE + f'resource "fleet_hub_manifest" "m" {{\n  yaml_body = {body}\n}}\n'
    result = plan({"main.nf.hcl": text})
    change = next(c for c in result.plan.changes if c.address.type == "fleet_hub_manifest")
    assert {("yaml_body",), ("objects",)} <= set(change.sensitive_after)
