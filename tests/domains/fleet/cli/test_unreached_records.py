"""Tests of records that reach nothing: overrides, budgets and properties of policies."""

from __future__ import annotations

import pytest

from tests.domains.fleet.cli.test_hub_content import Runner, run, write_files

__all__ = ["run"]

MEMBERS = """
resource "fleet_member_cluster" "a" {
  name       = "a"
  labels     = { env = "a" }
  properties = { "kubernetes-fleet.io/node-count" = "3" }
}
resource "fleet_member_cluster" "b" {
  name   = "b"
  labels = { env = "b" }
}
"""
CONTENT = """
resource "fleet_hub_manifest" "h" {
  yaml_body = <<Y
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: web}
data: {k: v}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: wrapped, namespace: web}
data:
  inner.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: inner, namespace: web}}
Y
}
"""
PLACEMENT = """
resource "fleet_cluster_resource_placement" "p" {
  name = "p"
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    placement_type = "PickAll"
  }
}
"""
NAMESPACED = """
resource "fleet_resource_placement" "r" {
  name      = "r"
  namespace = "web"
  resource_selector {
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }
  policy {
    placement_type = "PickAll"
  }
}
"""
OVERRIDE = """
resource "fleet_resource_override" "o" {
  manifest = <<Y
apiVersion: placement.kubernetes-fleet.io/v1
kind: ResourceOverride
metadata: {name: o, namespace: web}
spec:
  placement: {name: p}
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: settings}]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {env: a}}}]}
      jsonPatchOverrides: [{op: replace, path: /data/k, value: z}]
Y
}
"""
BUDGET = """
resource "fleet_placement_disruption_budget" "b" {
  manifest = <<Y
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementDisruptionBudget
metadata: {name: NAME}
spec: {minAvailable: 1}
Y
}
"""


ENVELOPE = (
    "group: placement.kubernetes-fleet.io, version: v1beta1, kind: ResourceEnvelope, name: wrapped"
)


def plan(run: Runner, *texts: str) -> str:
    write_files({"main.nf.hcl": MEMBERS + CONTENT + PLACEMENT + "".join(texts)})
    code, printed = run("plan")
    assert code == 0, printed
    return " ".join(printed.split())


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("placement: {name: p}", "placement: {name: typo}", "there is no placement typo."),
        ("placement: {name: p}", "placement: {name: r}", "needs scope = Namespaced"),
        ("name: settings}]", "name: setings}]", 'in namespace web. Did you mean "settings"?'),
        ('group: "", version: v1', 'group: "", version: v1beta1', 'the hub has version "v1".'),
        ('group: "", version: v1, kind: ConfigMap, name: settings', ENVELOPE, "is an envelope."),
        ("env: a", "env: c", "its rules match the labels of no member."),
    ],
    ids=["placement", "scope", "object", "version", "envelope", "cluster"],
)
def test_override_without_effect_is_a_warning(run: Runner, old: str, new: str, reason: str) -> None:
    printed = plan(run, NAMESPACED, OVERRIDE.replace(old, new))
    assert "record-without-effect" in printed, printed
    assert reason in printed


def test_override_of_clusters_not_picked_names_them(run: Runner) -> None:
    fixed = 'placement_type = "PickFixed"\n    cluster_names = ["b"]'
    write_files(
        {
            "main.nf.hcl": MEMBERS
            + CONTENT
            + PLACEMENT.replace('placement_type = "PickAll"', fixed)
            + OVERRIDE
        }
    )
    printed = " ".join(run("plan")[1].split())
    assert "its rules match only a, which no placement of its objects picks." in printed


def test_records_with_effect_are_silent(run: Runner) -> None:
    general = OVERRIDE.replace("  placement: {name: p}\n", "").replace("name: o", "name: general")
    general = general.replace('"o"', '"general"').replace("name: settings}]", "name: inner}]")
    scoped = OVERRIDE.replace("{name: p}", "{name: r, scope: Namespaced}")
    toleration = 'toleration {\n    key = "x"\n    operator = "Exists"\n  }\n'
    tolerant = PLACEMENT.replace('"p"', '"q"').replace("policy {", "policy {\n" + toleration)
    printed = plan(run, NAMESPACED, scoped, general, BUDGET.replace("NAME", "p"), tolerant)
    assert "record-without-effect" not in printed, printed


def test_budget_without_placement_is_a_warning(run: Runner) -> None:
    printed = plan(run, BUDGET.replace("NAME", "typo"))
    assert "there is no typo." in printed


PREFERRED = """
    affinity {
      cluster_affinity {
        preferred_during_scheduling_ignored_during_execution {
          weight = 10
          preference {
            property_sorter {
              name       = "NAME"
              sort_order = "Descending"
            }
          }
        }
      }
    }
"""


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("kubernetes-fleet.io/node-cout", 'Did you mean "kubernetes-fleet.io/node-count"?'),
        ("kubernetes-fleet.io/node-count", ""),
    ],
)
def test_property_that_no_member_has_is_a_warning(run: Runner, name: str, hint: str) -> None:
    policy = 'placement_type = "PickN"\n    number_of_clusters = 1' + PREFERRED.replace(
        "NAME", name
    )
    placement = PLACEMENT.replace('placement_type = "PickAll"', policy)
    write_files({"main.nf.hcl": MEMBERS + CONTENT + placement})
    code, printed = run("plan")
    assert code == 0, printed
    assert ("property-without-member" in printed) is bool(hint), printed
    assert hint in " ".join(printed.split())


def test_partial_plan_does_not_judge_records(run: Runner) -> None:
    write_files({"main.nf.hcl": MEMBERS + CONTENT + PLACEMENT + OVERRIDE})
    code, printed = run("plan", "-target=fleet_resource_override.o")
    assert (code, "record-without-effect" in printed) == (0, False), printed
