"""Tests of sensitive values: they never appear in names, places or messages.

Messages are built from arguments.
"""

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


def _plan_summaries(name: str, sku: str) -> list[str]:
    text = SITE + CLUSTER.replace("NAME", name).replace("SKU", sku)
    result = plan({"main.nf.hcl": text})
    told = [f"{d.summary} {d.detail} {d.values}" for d in result.plan.diagnostics]
    assert not any("hunterzwei" in one for one in told)
    return [d.summary for d in result.plan.diagnostics]


def test_sensitive_label_is_accepted_and_hidden() -> None:
    assert _plan_summaries('"k"', '"NC_G6_28_v1"') == []


def test_sensitive_value_in_name_or_sku_is_an_error() -> None:
    assert "Sensitive value decides a placement" in _plan_summaries(
        '"web-${var.secret}"', '"NC_G6_28_v1"'
    )
    assert "Sensitive value decides a placement" in _plan_summaries('"k"', "var.secret")


@pytest.mark.of_domains("fleet")
def test_attributes_derived_from_sensitive_value_are_sensitive() -> None:
    body = r'"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${var.secret}\n  namespace: x\n"'
    text = SITE + f'resource "fleet_hub_manifest" "m" {{\n  yaml_body = {body}\n}}\n'
    result = plan({"main.nf.hcl": text})
    change = next(c for c in result.plan.changes if c.address.type == "fleet_hub_manifest")
    assert {("yaml_body",), ("objects",)} <= set(change.sensitive_after)
