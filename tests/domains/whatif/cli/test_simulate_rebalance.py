"""Tests of `simulate rebalance`: the fewest evictions to schedule all pods.

Plan and apply execute them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.pods.scheduling import assumptions
from tests.domains.fleet.workload_texts import DEPLOYMENT, MEMBER, PLACEMENT

SITE = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "rack" {
  name          = "rack1"
  site_id       = nexus_site.lab.id
  machine_count = 8
}
"""
MANIFEST = """
variable "NAME" {
  type    = number
  default = 1
}
resource "fleet_hub_manifest" "NAME" {
  yaml_body = templatefile("pods.yaml", { name = "NAME", replicas = var.NAME, cpu = 2 })
}
"""
FIXED = 'placement_type = "PickFixed"\n    cluster_names  = ["west"]'
ONE = 'placement_type     = "PickN"\n    number_of_clusters = 1'
TOLERATION = '\n    toleration {\n      key      = "old"\n      operator = "Exists"\n    }'
ALL = 'placement_type = "PickAll"'
BUDGET = """
resource "fleet_placement_disruption_budget" "orders" {
  name          = "orders"
  min_available = "1"
}
"""
Capture = pytest.CaptureFixture[str]


def build_member(name: str) -> str:
    return MEMBER.replace("NAME", name).replace("COUNT", "1").replace("MORE", "")


def write_configuration(members: tuple[str, ...] = ("west", "east"), **policies: str) -> None:
    parts = [SITE, *(build_member(name) for name in members)]
    parts += [
        (MANIFEST + PLACEMENT).replace("NAME", name).replace("POLICY", text)
        for name, text in policies.items()
    ]
    Path("main.nf.hcl").write_text("".join(parts))
    Path("pods.yaml").write_text(DEPLOYMENT)


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    # Evictions depend on the number of pods, and not on other assumptions about their nodes.
    monkeypatch.setattr(assumptions, "_MOST_SAMPLES", assumptions._FEWEST_SAMPLES)


def run_and_join_output(capsys: Capture, *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = run_command_line(list(words))
    printed = capsys.readouterr()
    return code, " ".join((printed.out + printed.err).replace("│", " ").split())


def run_rebalance(capsys: Capture, *flags: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = run_command_line(["simulate", "rebalance", "-format=json", *flags])
    return code, json.loads(capsys.readouterr().out)


def read_evictions(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the evictions; [] without any."""
    sections = [each for each in answer["sections"] if each["name"] == "evictions"]
    return [row for section in sections for row in section["tables"][0]["rows"]]


def read_lines(answer: dict[str, Any], name: str) -> list[str]:
    """Return the lines of the section with this name; [] without it."""
    sections = [each for each in answer["sections"] if each["name"] == name]
    return [line for section in sections for line in section["lines"]]


def run_apply(capsys: Capture, *flags: str) -> None:
    code, text = run_and_join_output(capsys, "apply", "-auto-approve", *flags)
    assert code == 0, text


def set_replicas(name: str, replicas: int) -> None:
    """Write more replicas into the configuration."""
    path = Path("main.nf.hcl")
    old = f'variable "{name}" {{\n  type    = number\n  default = 1'
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, old[:-1] + str(replicas)))


def test_eviction_and_its_taint_lead_to_predicted_fleet(capsys: Capture) -> None:
    write_configuration(orders=ONE, payments=FIXED)
    run_apply(capsys, "-var=orders=2")
    set_replicas("orders", 2)
    set_replicas("payments", 3)
    code, answer = run_rebalance(capsys, "-generate-config-out=moves.nf.hcl")
    assert code == 0
    (eviction,) = read_evictions(answer)
    source = eviction["from"]
    assert (eviction["evict"], source, eviction["then_on"]) == ("orders", "west", "east")
    assert read_lines(answer, "taints")
    assert "so one is the minimum" in read_lines(answer, "proof")[0]
    assert "depends_on     = [fleet_member_cluster.west]" in Path("moves.nf.hcl").read_text()
    assert "taint {" in Path("moves_override.nf.hcl").read_text()
    run_apply(capsys)
    code, text = run_and_join_output(capsys, "plan", "-detailed-exitcode")
    assert (code, "run on all selected clusters (2 bindings)" in text) == (0, True), text
    assert read_evictions(run_rebalance(capsys)[1]) == []


def test_evictions_are_minimal_and_depend_on_each_other(capsys: Capture) -> None:
    write_configuration(("west", "east", "south"), orders=ONE, audit=ONE, payments=FIXED)
    run_apply(capsys)
    set_replicas("payments", 4)
    code, answer = run_rebalance(capsys, "-generate-config-out=moves.nf.hcl")
    assert (code, len(read_evictions(answer))) == (0, 2)
    assert "Fewer do not suffice" in read_lines(answer, "proof")[0]
    text = Path("moves.nf.hcl").read_text()
    first, second = (f"rebalance-{row['evict']}-{row['from']}" for row in read_evictions(answer))
    assert f"depends_on     = [fleet_placement_eviction.{first}]" in text
    # Each eviction alone leaves pods pending.
    for name in (first, second):
        parts = text.split("\n\n")
        alone = next(part for part in parts if f'name           = "{name}"' in part)
        Path("moves.nf.hcl").write_text(alone[: alone.index("  depends_on")] + "}\n")
        assert "payments: runs on 0 of 1" in run_and_join_output(capsys, "plan")[1]
    Path("moves.nf.hcl").write_text(text)
    assert "run on all selected clusters (3 bindings)" in run_and_join_output(capsys, "plan")[1]


def test_document_on_stdout_is_alone(capsys: Capture) -> None:
    write_configuration(("west", "east", "south"), orders=ONE, audit=ONE, payments=FIXED)
    run_apply(capsys)
    set_replicas("payments", 4)
    Path("sub").mkdir()
    words = ["simulate", "rebalance", "-format=json", "-generate-config-out=sub/moves.nf.hcl"]
    assert run_command_line(words) == 0
    printed = capsys.readouterr()
    assert read_evictions(json.loads(printed.out))
    assert "Move the file there before the next plan." in " ".join(
        printed.err.replace("│", " ").split()
    )


CHOICE = """placement_type     = "PickN"
    number_of_clusters = 1
    affinity {
      cluster_affinity {
        required_during_scheduling_ignored_during_execution {
          cluster_selector_term {
            label_selector {
              match_labels = { GROUP = "yes" }
            }
          }
        }
        preferred_during_scheduling_ignored_during_execution {
          weight = 50
          preference {
            label_selector {
              match_labels = { preferred = "yes" }
            }
          }
        }
      }
    }"""


def set_labels(**labels: str) -> None:
    """Write labels of members into the configuration."""
    path = Path("main.nf.hcl")
    text = path.read_text()
    for name, names in labels.items():
        values = ", ".join(f'{key} = "yes"' for key in names.split())
        head = f'"fleet_member_cluster" "{name}" {{\n'
        text = re.sub(f"{head}(  labels.*\n)?", f"{head}  labels = {{ {values} }}\n", text)
    path.write_text(text)


def test_no_pod_is_pending_between_two_evictions(capsys: Capture) -> None:
    write_configuration(
        ("west", "near", "far"),
        orders=CHOICE.replace("GROUP", "a"),
        records=CHOICE.replace("GROUP", "b"),
        payments=FIXED,
    )
    set_labels(west="a", near="a b", far="b")
    set_replicas("orders", 3)
    set_replicas("records", 3)
    run_apply(capsys)
    set_labels(far="b preferred")
    set_replicas("payments", 4)
    code, answer = run_rebalance(capsys)
    assert code == 0, answer
    moves = [(row["evict"], row["from"], row["then_on"]) for row in read_evictions(answer)]
    assert moves == [("records", "near", "far"), ("orders", "west", "near")]
    # The records return unless a taint keeps the orders away as well.
    set_labels(far="b")
    code, answer = run_rebalance(capsys)
    assert (code, read_evictions(answer), bool(read_lines(answer, "reasons"))) == (2, [], True)


def test_pick_all_placement_leaves_cluster_permanently(capsys: Capture) -> None:
    write_configuration(everywhere=ALL, payments=FIXED)
    run_apply(capsys)
    set_replicas("payments", 4)
    code, text = run_and_join_output(capsys, "simulate", "rebalance")
    assert (code, "everywhere runs on one cluster less" in text) == (0, True), text
    assert "Without the taint, a PickAll placement returns." in text
    assert "no cluster PickAll" in text


def test_pick_fixed_clusters_cannot_be_left(capsys: Capture) -> None:
    write_configuration(orders=FIXED, payments=FIXED)
    run_apply(capsys)
    set_replicas("payments", 5)
    code, answer = run_rebalance(capsys)
    assert (code, read_evictions(answer)) == (2, [])
    assert "orders on west cannot be evicted: its policy is PickFixed." in read_lines(
        answer, "reasons"
    )
    assert run_rebalance(capsys, "-generate-config-out=moves.nf.hcl")[0] == 2
    assert not Path("moves.nf.hcl").exists()


def test_blocking_budget_is_the_reason(capsys: Capture) -> None:
    write_configuration(orders=ONE, payments=FIXED)
    with Path("main.nf.hcl").open("a") as file:
        file.write(BUDGET)
    run_apply(capsys)
    set_replicas("payments", 4)
    code, answer = run_rebalance(capsys)
    assert code == 2
    assert any(
        "Eviction is blocked by specified" in reason for reason in read_lines(answer, "reasons")
    )


def test_member_without_its_own_block_gets_no_taint(capsys: Capture) -> None:
    write_configuration(orders=ONE, payments=FIXED)
    path = Path("main.nf.hcl")
    old = '"fleet_member_cluster" "west" {\n  name                  = "west"'
    new = '"fleet_member_cluster" "west" {\n  for_each = toset(["west"])\n  name = each.key'
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    run_apply(capsys)
    set_replicas("payments", 4)
    code, answer = run_rebalance(capsys)
    assert code == 2
    reasons = " ".join(read_lines(answer, "reasons"))
    assert "needs a fleet_member_cluster block of west" in reasons


def test_existing_taints_are_kept(capsys: Capture) -> None:
    write_configuration(orders=ONE + TOLERATION, payments=FIXED)
    run_apply(capsys)
    path = Path("main.nf.hcl")
    old = "  kubernetes_cluster_id = nexus_kubernetes_cluster.west.id\n"
    path.write_text(path.read_text().replace(old, f'{old}  taint {{\n    key = "old"\n  }}\n'))
    set_replicas("payments", 4)
    assert read_evictions(run_rebalance(capsys, "-generate-config-out=moves.nf.hcl")[1])
    assert 'key = "old"' in Path("moves_override.nf.hcl").read_text()


def test_no_pending_pods(capsys: Capture) -> None:
    write_configuration(orders=ONE, payments=FIXED)
    run_apply(capsys)
    code, text = run_and_join_output(
        capsys, "simulate", "rebalance", "-generate-config-out=moves.nf.hcl"
    )
    assert (code, "No eviction is needed" in text) == (0, True)
    assert not Path("moves.nf.hcl").exists()


def test_only_selected_cluster_and_placement_count(capsys: Capture) -> None:
    write_configuration(orders=ONE, payments=FIXED)
    run_apply(capsys)
    set_replicas("payments", 4)
    assert len(read_evictions(run_rebalance(capsys, "-from=west", "-for=payments")[1])) == 1
    assert read_evictions(run_rebalance(capsys, "-for=orders")[1]) == []
    code, text = run_and_join_output(capsys, "simulate", "rebalance", "-from=wets", "-for=pay")
    assert (
        code,
        'no cluster with a placement "wets"' in text,
        'no applied placement "pay"' in text,
    ) == (1, True, True)


def test_placement_is_selected_by_its_name_and_not_by_its_label(capsys: Capture) -> None:
    write_configuration(orders=ONE, payments=FIXED)
    path = Path("main.nf.hcl")
    block = 'resource "fleet_cluster_resource_placement" "payments" {\n  name = "payments"'
    assert block in path.read_text()
    path.write_text(path.read_text().replace(block, block.replace('= "payments"', '= "cash"')))
    run_apply(capsys)
    set_replicas("payments", 4)
    assert len(read_evictions(run_rebalance(capsys, "-for=cash")[1])) == 1


def test_pods_that_wait_outside_of_the_question_are_shown(capsys: Capture) -> None:
    write_configuration(orders=ONE, payments=FIXED)
    run_apply(capsys)
    set_replicas("payments", 4)
    code, text = run_and_join_output(capsys, "simulate", "rebalance", "-for=orders")
    assert code == 0
    assert (
        "No eviction is needed: the pods of 1 binding run. 1 other binding waits, listed below."
        " Pods outside of the question still waiting payments on west:"
    ) in text


def test_bindings_without_known_pods_are_not_called_running(capsys: Capture) -> None:
    write_configuration(orders=ONE)
    path = Path("main.nf.hcl")
    text = re.sub(r'resource "fleet_hub_manifest".*?\n}\n', "", path.read_text(), flags=re.DOTALL)
    path.write_text(text.replace("depends_on = [fleet_hub_manifest.orders]", ""))
    run_apply(capsys)
    code, text = run_and_join_output(capsys, "simulate", "rebalance")
    assert code == 2
    assert "Not known whether pods wait: no pods of these placements are known." in text
    assert "No known pods orders on west" in text
    _, answer = run_rebalance(capsys)
    assert read_lines(answer, "no_known_pods") == ["orders on west"]


def test_without_placements_no_eviction_is_needed(capsys: Capture) -> None:
    write_configuration()
    run_apply(capsys)
    code, text = run_and_join_output(capsys, "simulate", "rebalance")
    assert code == 0
    assert "there are no placements with pods" in text


@pytest.mark.parametrize("name", ["moves.nf.hcl", "moves_override.nf.hcl"])
def test_existing_files_are_not_overwritten(name: str, capsys: Capture) -> None:
    Path(name).write_text("# kept\n")
    code, text = run_and_join_output(
        capsys, "simulate", "rebalance", "-generate-config-out=moves.nf.hcl"
    )
    assert (code, "already exists" in text) == (1, True)
    assert Path(name).read_text() == "# kept\n"


def test_pending_pods_are_unknown_if_nodes_are_unknown(capsys: Capture) -> None:
    write_configuration(orders=ONE)
    path = Path("main.nf.hcl")
    text = path.read_text().replace(
        "  kubernetes_cluster_id = nexus_kubernetes_cluster.west.id\n", ""
    )
    path.write_text(
        text.replace("  kubernetes_cluster_id = nexus_kubernetes_cluster.east.id\n", "")
    )
    run_apply(capsys)
    code, text = run_and_join_output(capsys, "simulate", "rebalance")
    assert (code, "Not known whether pods wait: 1 binding is unknown, listed below." in text) == (
        2,
        True,
    ), text
    code, answer = run_rebalance(capsys)
    assert (code, len(read_lines(answer, "unknown"))) == (2, 1)
