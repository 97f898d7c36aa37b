"""Properties of drawn plans: consequences count every loss once; colour and gate agree.

A site with racks, clusters, pools, VMs, a rule and pods is applied, then changed at random.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexusform.placements.consequence_record import ConsequenceKind
from nexusform.placements.consequences import ConsequenceSeverity
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.impact.guard_rails import apply_limits, parse_guard_rail_limits
from nexusform.plans.impact.object_effects import Effect, compute_effect
from nexusform.plans.plan import Plan
from nexusform.rendering.pull_request.plan_comment import render_markdown
from tests.kill_points import scale_count
from tests.planning.harness import build_all_types, build_state, cluster, plan, pool

pytestmark = pytest.mark.of_domains("fleet")

RULE = """
resource "nexus_separation_rule" "apart" {
  scope       = "rack"
  enforcement = "warn"
  group {
    cluster_ids = ["s/a"]
  }
  group {
    cluster_ids = ["s/b"]
  }
}
"""
VM = """
resource "nexus_virtual_machine" "vm" {
  count      = %d
  site_id    = nexus_site.s.id
  name       = "vm${count.index}"
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 50
}
"""
SHOP = """
resource "fleet_hub_manifest" "shop" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-YAML
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: shop, namespace: default}
    spec:
      replicas: %d
      selector: {matchLabels: {app: shop}}
      template:
        metadata: {labels: {app: shop}}
        spec:
          containers: [{name: shop, image: shop}]
  YAML
}
"""


@st.composite
def draw_configurations(draw: st.DrawFn) -> str:
    """Draw a site with any of the objects; a pair of draws is a change."""
    racks = draw(st.integers(2, 3))
    text = f"""
resource "nexus_site" "s" {{}}
resource "nexus_rack" "r" {{
  count         = {racks}
  name          = "r${{count.index}}"
  site_id       = nexus_site.s.id
  machine_count = 4
}}
"""
    skus = st.sampled_from(["NC_G6_28_v1", "NC_P46_224_v1"])
    for name in ("a", "b"):
        if name == "b" and not draw(st.booleans()):
            continue
        pools = "".join(
            pool(title, draw(st.integers(0, 5)), draw(skus))
            for title in ("p", "q")
            if draw(st.booleans())
        )
        label = name if name == "a" else draw(st.sampled_from(["b", "other"]))
        arguments = 'name = "b"' if name == "b" else ""
        text += cluster(
            label, arguments=arguments, pools=pools, count=draw(st.sampled_from([1, 3]))
        )
    has_b = "other" in text or 'cluster" "b"' in text
    if has_b and draw(st.booleans()):
        text += RULE
    if draw(st.booleans()):
        text += VM % draw(st.integers(1, 2))
    if draw(st.booleans()):
        text += SHOP % draw(st.integers(0, 3))
    return text


def plan_change(before: str, after: str) -> Plan | None:
    """Return the completed plan of a change; None if one of the two does not fit."""
    first = plan(before)
    if first.plan.errored:
        return None
    result = add_site_capacity(plan(after, build_state(before)), build_all_types())
    return None if result.plan.errored else result.plan


@settings(
    max_examples=scale_count(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(draw_configurations(), draw_configurations())
def test_consequences_explain_every_loss_once_and_colour_and_gate_agree(
    before: str, after: str
) -> None:
    changed = plan_change(before, after)
    if changed is None:
        return
    explained: Counter[str] = Counter()
    for consequence in changed.impact.consequences:
        explained.update(consequence.removed)
    lost = Counter(
        row.kind
        for row in changed.placements
        if compute_effect(row) in (Effect.REMOVED, Effect.FORGOTTEN, Effect.LOST)
    )
    assert explained == lost
    totals = {
        total.kind: total.removed + total.host_lost + total.forgotten
        for total in changed.figures.placement_totals
        if total.removed + total.host_lost + total.forgotten
    }
    assert dict(lost) == totals
    # What disappears without its own record would be an unexplained risk.
    is_lasting = any(consequence.is_lasting for consequence in changed.impact.consequences)
    checked = apply_limits(changed, parse_guard_rail_limits("risk:0"))
    [result] = checked.verdicts.guard_rails
    assert (result.result == "blocked") == is_lasting
    alert = render_markdown(changed, {}).split("\n")[1]
    assert (alert == "> [!CAUTION]") == is_lasting
    blocked_alert = render_markdown(checked, {}).split("\n")[1]
    assert (blocked_alert == "> [!CAUTION]") == is_lasting
    for consequence in changed.impact.consequences:
        assert consequence.subject
        assert not consequence.text.endswith(".")
        if consequence.kind is ConsequenceKind.ENDS and consequence.runs:
            assert consequence.severity is ConsequenceSeverity.LASTING
