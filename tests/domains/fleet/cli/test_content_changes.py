"""Tests of plans whose new content ends or re-creates what runs on clusters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.fleet.cli.test_hub_content import Runner, run, write_files

__all__ = ["run"]

MEMBERS = """
resource "fleet_member_cluster" "a" { name = "a" }
resource "fleet_member_cluster" "b" { name = "b" }
"""
PLACEMENT = """
resource "fleet_cluster_resource_placement" "p" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy { placement_type = "PickAll" }
}
"""
NAMESPACE = """---
apiVersion: v1
kind: Namespace
metadata: {name: web}
"""
DEPLOYMENT = """---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: web}
spec:
  replicas: 3
  selector: {matchLabels: {a: d}}
  template:
    metadata: {labels: {a: d}}
    spec: {containers: [{name: c, image: i}]}
"""
DAEMON_SET = """---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: web}
spec:
  selector: {matchLabels: {a: agent}}
  template:
    metadata: {labels: {a: agent}}
    spec: {containers: [{name: c, image: i}]}
"""
SETTINGS = """---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: web}
data: {a: b}
"""
CONTENT = NAMESPACE + DEPLOYMENT + SETTINGS
DELETING_OVERRIDE = """
resource "fleet_resource_override" "o" {
  name      = "o"
  namespace = "web"
  placement { name = "p" }
  resource_selector {
    group   = "apps"
    version = "v1"
    kind    = "Deployment"
    name    = "d"
  }
  policy {
    override_rule {
      cluster_selector {
        cluster_selector_term {
          label_selector {
            match_labels = { "kubernetes-fleet.io/member-name" = "b" }
          }
        }
      }
      override_type = "Delete"
    }
  }
}
"""


def build_content(text: str) -> str:
    return f'resource "fleet_hub_manifest" "h" {{\n  yaml_body = <<Y\n{text}Y\n}}\n'


def apply_content(run: Runner, content: str, more: str = "") -> None:
    """Apply this content of the placement on two clusters with unknown nodes."""
    write_files({"main.nf.hcl": MEMBERS + PLACEMENT + more, "content.nf.hcl": content})
    code, printed = run("apply", "-auto-approve")
    assert code == 0, printed


def join_lines(printed: str) -> str:
    return " ".join(printed.split())


CONFIG_MAP = "ConfigMap web/settings on a and b"
BOTH = "Deployment web/d on a and b (3 pods each)"
ENDED = "6 pods to remove, 2 workloads to end"


@pytest.mark.parametrize(
    ("content", "destroys", "impact"),
    [
        (
            "",
            f"{BOTH} Namespace web on a and b Namespace web and 2 objects on the hub {CONFIG_MAP}",
            f"{ENDED}, 4 other objects to remove from clusters",
        ),
        (build_content(NAMESPACE + SETTINGS), BOTH, ENDED),
        (
            build_content(CONTENT.replace("replicas: 3", "replicas: 0")),
            "",
            f"{ENDED} Risk: Deployment web/d is scaled to 0 on a, b (3 pods)",
        ),
        (build_content(NAMESPACE + DEPLOYMENT), CONFIG_MAP, "2 objects to remove from clusters"),
        (build_content(CONTENT) + DELETING_OVERRIDE, "Deployment web/d on b (3 pods)", "3 pods"),
        (build_content(CONTENT.replace("replicas: 3", "replicas: 1")), "", "4 pods to remove"),
        (
            build_content(CONTENT.replace("image: i", "image: j")),
            "",
            "6 pods to re-create in place",
        ),
        (build_content(CONTENT.replace("{a: b}", "{a: c}")), "", "no running workload affected"),
    ],
    ids=["manifest", "object", "zero", "settings", "override", "fewer", "image", "data"],
)
def test_content_taken_away_is_an_impact(
    run: Runner, content: str, destroys: str, impact: str
) -> None:
    apply_content(run, build_content(CONTENT))
    Path("content.nf.hcl").write_text(content)
    code, printed = run("plan")
    joined = join_lines(printed)
    assert code == 0, printed
    assert f"Impact: {impact}" in joined, printed
    assert (f"Destroys: {destroys} Impact" if destroys else "Impact") in joined, printed
    assert ("Destroys:" in joined) is bool(destroys)


def test_namespace_takes_objects_of_other_placements_along(run: Runner) -> None:
    """Another placement keeps the Deployment, but its Namespace ends on the clusters."""
    other = """
resource "fleet_resource_placement" "r" {
  name      = "r"
  namespace = "web"
  resource_selector {
    group   = "apps"
    version = "v1"
    kind    = "Deployment"
    name    = "d"
  }
  policy { placement_type = "PickAll" }
}
"""
    scope = 'name    = "web"\n    selection_scope = "NamespaceOnly"'
    main = MEMBERS + PLACEMENT.replace('name    = "web"', scope) + other
    namespace = 'resource "fleet_hub_manifest" "n" {\n  yaml_body = <<Y\n' + NAMESPACE + "Y\n}\n"
    content = build_content(DEPLOYMENT.removeprefix("---\n"))
    write_files({"main.nf.hcl": main, "content.nf.hcl": content, "namespace.nf.hcl": namespace})
    code, printed = run("apply", "-auto-approve")
    assert code == 0, printed
    Path("namespace.nf.hcl").unlink()
    joined = join_lines(run("plan")[1])
    assert "Destroys: Deployment web/d on a and b (3 pods each) Namespace web on a and b" in joined


def test_object_kept_by_another_placement_is_not_destroyed(run: Runner) -> None:
    second = PLACEMENT.replace('"p"', '"second"')
    apply_content(run, build_content(CONTENT), second)
    narrowed = PLACEMENT.replace('name    = "web"', 'name    = "none"')
    write_files({"main.nf.hcl": MEMBERS + narrowed + second})
    joined = join_lines(run("plan")[1])
    assert "Destroys:" not in joined, joined


def test_narrowed_selector_destroys_what_it_leaves_out(run: Runner) -> None:
    apply_content(run, build_content(CONTENT))
    scope = 'name    = "web"\n    selection_scope = "NamespaceOnly"'
    write_files({"main.nf.hcl": MEMBERS + PLACEMENT.replace('name    = "web"', scope)})
    joined = join_lines(run("plan")[1])
    assert "Destroys: Deployment web/d on a and b (3 pods each) ConfigMap web/settings" in joined


def test_recreated_namespace_recreates_its_pods(run: Runner) -> None:
    apply_content(run, build_content(CONTENT))
    joined = join_lines(run("plan", "-replace=fleet_hub_manifest.h")[1])
    assert "Impact: 6 pods to re-create in place" in joined, joined


def test_new_template_of_a_daemon_set_is_an_impact(run: Runner) -> None:
    apply_content(run, build_content(NAMESPACE + DAEMON_SET))
    Path("content.nf.hcl").write_text(
        build_content(NAMESPACE + DAEMON_SET.replace("image: i", "image: j"))
    )
    joined = join_lines(run("plan")[1])
    assert "Impact: pods of 2 DaemonSets to re-create" in joined, joined


def test_guard_rail_and_document_know_the_removed_content(run: Runner) -> None:
    apply_content(run, build_content(CONTENT + DAEMON_SET))
    Path("content.nf.hcl").write_text(build_content(CONTENT))
    code, printed = run("plan", "-fail-on=removed:0")
    assert code == 1
    assert "2 objects on clusters are deleted" in join_lines(printed), printed
    Path("content.nf.hcl").write_text(build_content(NAMESPACE))
    code, printed = run("plan", "-fail-on=removed:5", "-out=p.nfplan")
    assert (code, "6 pods" in printed) == (1, True), printed
    assert run("plan", "-out=q.nfplan")[0] == 0
    document = json.loads(run("show", "-json", "q.nfplan")[1])
    effects = {
        (item["object"], item["cluster"], item["effect"], item["pods"])
        for item in document["content_changes"]
    }
    assert ("Deployment web/d", "a", "removed", 3) in effects
    records = {
        (item["subject"], *item["where"]): (item["severity"], item.get("data"))
        for item in document["decision"]["consequences"]
    }
    # A content change and its consequence say the same.
    assert records == {
        (item["object"], item["cluster"]): (item["severity"], item.get("data"))
        for item in document["content_changes"]
    }
    assert document["decision"]["impact"]["removed"] == 6


FIXED = PLACEMENT.replace(
    'policy { placement_type = "PickAll" }',
    'policy {\n    placement_type = "PickFixed"\n    cluster_names  = ["a", "b"]\n  }',
)


def test_left_cluster_names_what_is_deleted_there(run: Runner) -> None:
    content = build_content(CONTENT)
    write_files({"main.nf.hcl": MEMBERS + FIXED, "content.nf.hcl": content})
    assert run("apply", "-auto-approve")[0] == 0
    write_files({"main.nf.hcl": MEMBERS + FIXED.replace(', "b"', "")})
    code, printed = run("plan", "-no-color", "-report=json:p.json", "-report=markdown:p.md")
    assert code == 0, printed
    sentence = "p leaves b: Namespace web and 2 objects are deleted"
    assert "Impact: p leaves b, 3 pods to remove" in join_lines(printed)
    assert f"Risk: {sentence}; 3 pods end" in join_lines(printed)
    assert "- b deleted (" in join_lines(printed)
    assert "Confidence: 1 changed binding exact" in join_lines(printed)
    comment = Path("p.md").read_text(encoding="utf-8")
    assert comment.startswith("### nexusform: p leaves b, 3 pods are removed\n> [!CAUTION]\n")
    assert f"**Risk**: {sentence}; 3 pods end" in comment
    rows = json.loads(Path("p.json").read_text(encoding="utf-8"))["content_changes"]
    assert {(row["cluster"], row["effect"]) for row in rows} == {("b", "left")}


def test_object_that_another_placement_keeps_is_not_deleted_on_a_left_cluster(run: Runner) -> None:
    content = build_content(CONTENT)
    other = PLACEMENT.replace('"p"', '"q"')
    write_files({"main.nf.hcl": MEMBERS + FIXED + other, "content.nf.hcl": content})
    assert run("apply", "-auto-approve")[0] == 0
    write_files({"main.nf.hcl": MEMBERS + FIXED.replace(', "b"', "") + other})
    code, printed = run("plan", "-no-color")
    assert code == 0, printed
    assert "p leaves b" in join_lines(printed)
    assert "p leaves b:" not in join_lines(printed)


def test_destroyed_placement_names_its_clusters(run: Runner) -> None:
    content = build_content(CONTENT)
    write_files({"main.nf.hcl": MEMBERS + PLACEMENT, "content.nf.hcl": content})
    assert run("apply", "-auto-approve")[0] == 0
    write_files({"main.nf.hcl": MEMBERS})
    code, printed = run("plan", "-no-color", "-report=markdown:p.md")
    assert code == 0, printed
    name = "placement p on a and b"
    assert f"Destroys: {name} " in join_lines(printed)
    assert "- 2 clusters deleted: a, b (placement_removed)" in join_lines(printed)
    comment = Path("p.md").read_text(encoding="utf-8").replace("\\", "")
    headline = f"### nexusform: destroys {name}, 6 pods are removed\n> [!CAUTION]\n"
    assert comment.startswith(headline)
