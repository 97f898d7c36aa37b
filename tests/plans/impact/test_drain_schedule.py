"""Tests of the longest drains: per cluster, and until the last one ends."""

from __future__ import annotations

import pytest

from nexusform.plans.impact.decision_figures import build_decision
from nexusform.plans.plan import Plan
from nexusform.rendering.report.decision_lines import build_decision_lines
from tests.planning.harness import build_state, plan, require_success

CLUSTERS = """
resource "nexus_site" "s" {
  for_each = toset([for number in range(SITES) : "s${number}"])
  name     = each.key
}

resource "nexus_rack" "r" {
  for_each      = nexus_site.s
  site_id       = each.value.id
  name          = "r"
  machine_count = 8
}

resource "nexus_kubernetes_cluster" "c" {
  for_each           = nexus_site.s
  site_id            = each.value.id
  name               = "c-${each.key}"
  kubernetes_version = "1.29.4"
  depends_on         = [nexus_rack.r]

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "pool1" {
    count       = NODES
    vm_sku_name = "NC_G6_28_v1"
  }
}
"""


def plan_upgrades(sites: int, nodes: str) -> Plan:
    text = CLUSTERS.replace("SITES", str(sites)).replace("NODES", nodes)
    state = build_state(text)
    return require_success(plan(text.replace('"1.29.4"', '"1.30.3"'), state=state)).plan


SINGLE = "drains take up to 1.5 h if every drain times out (drain_timeout 30 min x 3 nodes)"
EQUAL = (
    "drains take up to 3 h if every drain times out (2 of 12 clusters one after another, up to "
    "1.5 h each; drain_timeout 30 min x 3 nodes)"
)
UNEQUAL = "drains take up to 2 h if every drain times out (of c-s0: drain_timeout 30 min x 4 nodes)"


# Each node drains alone, for 30 minutes at most; ten steps of an apply run at a time.
@pytest.mark.parametrize(
    ("sites", "nodes", "cluster_minutes", "concurrent", "minutes", "sentence"),
    [
        (1, "3", 90, 1, 90, SINGLE),
        (12, "3", 90, 10, 180, EQUAL),
        (2, 'each.key == "s1" ? 1 : 4', 120, 2, 120, UNEQUAL),
    ],
)
def test_longest_drains_are_those_of_clusters_that_drain_at_a_time(
    sites: int, nodes: str, cluster_minutes: int, concurrent: int, minutes: int, sentence: str
) -> None:
    made = plan_upgrades(sites, nodes)
    drains = build_decision(made).impact.drains
    assert drains is not None
    assert drains.cluster_minutes == cluster_minutes
    assert drains.concurrent_clusters == concurrent
    assert drains.maximum_minutes == minutes
    texts = [text for line in build_decision_lines(made) for text in line.texts]
    assert sentence in texts


def test_clusters_that_wait_for_each_other_drain_one_after_another() -> None:
    text = CLUSTERS.replace("SITES", "1").replace("NODES", "1")
    second = text[text.index('resource "nexus_kubernetes_cluster"') :]
    second = second.replace('"c"', '"d"').replace("c-", "d-")
    second = second.replace("[nexus_rack.r]", "[nexus_kubernetes_cluster.c]")
    state = build_state(text + second)
    upgraded = (text + second).replace('"1.29.4"', '"1.30.3"')
    drains = build_decision(require_success(plan(upgraded, state=state)).plan).impact.drains
    assert drains is not None
    assert (drains.concurrent_clusters, drains.maximum_minutes) == (1, 60)
