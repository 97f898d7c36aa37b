"""Tests of feasibility: the pods of each binding run now, after more nodes, or never."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.pods.scheduling import assumptions
from tests.domains.fleet.workload_texts import build_deployment

SITE = """
variable "workers" {
  type    = number
  default = 2
}
resource "nexus_site" "lab" {}
resource "nexus_rack" "rack" {
  count         = 2
  name          = "rack${count.index + 1}"
  site_id       = nexus_site.lab.id
  machine_count = MACHINES
}
resource "nexus_kubernetes_cluster" "west" {
  name    = "west"
  site_id = nexus_site.lab.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "small" {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "workers" {
    count       = var.workers
    vm_sku_name = "NC_P10_56_v1"
  }
  depends_on = [nexus_rack.rack]
}
resource "fleet_member_cluster" "west" {
  name                  = "west"
  kubernetes_cluster_id = nexus_kubernetes_cluster.west.id
}
resource "fleet_member_cluster" "south" {
  name       = "south"
  properties = { "kubernetes-fleet.io/node-count" = "3" }
}
resource "fleet_hub_manifest" "payments" {
  yaml_body = file("payments.yaml")
}
resource "fleet_cluster_resource_placement" "payments" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "payments"
  }
  policy {
    placement_type = "PickFixed"
    cluster_names  = [CLUSTERS]
  }
}
"""
Answer = tuple[int, str, list[dict[str, Any]]]


@pytest.fixture
def plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """Plan a placement of a Deployment; return the exit code, the text, and the feasibility."""
    monkeypatch.chdir(tmp_path)
    # Feasibility depends on the number of pods, and not on other assumptions about their nodes.
    monkeypatch.setattr(assumptions, "_MOST_SAMPLES", assumptions._FEWEST_SAMPLES)

    def run(
        *flags: str,
        replicas: int,
        cpu: int = 4,
        clusters: str = '"west"',
        machines: int = 3,
        build: Callable[[str, int, int], str] = build_deployment,
    ) -> Answer:
        text = SITE.replace("CLUSTERS", clusters).replace("MACHINES", str(machines))
        Path("main.nf.hcl").write_text(text)
        Path("payments.yaml").write_text(build("payments", replicas, cpu))
        capsys.readouterr()
        code = run_command_line(["plan", "-report=json:plan.json", *flags])
        printed = capsys.readouterr()
        document = json.loads(Path("plan.json").read_text())
        return (
            code,
            " ".join((printed.out + printed.err).replace("│", "").split()),
            document.get("feasibility", []),
        )

    return run


def test_fitting_pods_run_and_maximum_is_named(plan: Callable[..., Answer]) -> None:
    _, text, (row,) = plan(replicas=2)
    assert "payments: runs on 1 of 1" in text
    assert (row["result"], row["missing_nodes"], row["replicas_requested"]) == ("runs", None, 2)
    maximum = row["replicas_max"]
    assert plan(replicas=maximum)[2][0]["result"] == "runs"
    assert plan(replicas=maximum + 1)[2][0]["result"] == "runs_after"


def test_pods_created_one_after_another_need_as_many_nodes(plan: Callable[..., Answer]) -> None:
    maximum = plan(replicas=2)[2][0]["replicas_max"]
    (deployment,) = plan(replicas=maximum + 2)[2]
    (stateful_set,) = plan(replicas=maximum + 2, build=build_stateful_set)[2]
    assert deployment["result"] == stateful_set["result"] == "runs_after"
    assert deployment["missing_nodes"] == stateful_set["missing_nodes"]


def build_stateful_set(name: str, replicas: int, cpu: int) -> str:
    text = build_deployment(name, replicas, cpu).replace("kind: Deployment", "kind: StatefulSet")
    return text.replace("spec:\n", "spec:\n  serviceName: s\n", 1)


@pytest.mark.parametrize("replicas", [9, 14])
def test_missing_nodes_are_minimal(replicas: int, plan: Callable[..., Answer]) -> None:
    _, text, (row,) = plan(replicas=replicas)
    assert (row["result"], row["pool"], row["site_capacity"]) == ("runs_after", "workers", "yes")
    missing = row["missing_nodes"]
    assert f"west needs {missing} more node" in text
    assert plan(f"-var=workers={2 + missing}", replicas=replicas)[2][0]["result"] == "runs"
    assert plan(f"-var=workers={1 + missing}", replicas=replicas)[2][0]["result"] == "runs_after"


def test_site_without_capacity_for_nodes_is_named(plan: Callable[..., Answer]) -> None:
    _, _, (row,) = plan(replicas=120, machines=1)
    assert (row["result"], row["site_capacity"]) == ("runs_after", "no")


def test_guard_rail_rejects_pod_larger_than_every_node(plan: Callable[..., Answer]) -> None:
    code, text, (row,) = plan("-fail-on=infeasible:0", replicas=1, cpu=64)
    assert (row["result"], row["missing_nodes"]) == ("cannot_run", None)
    assert "Insufficient cpu" in row["reason"]
    assert len(row["reason"]) < 160 or " ...)" in text
    assert code == 1
    assert "BLOCKED by infeasible:0" in text
    assert plan("-fail-on=infeasible:1", replicas=1, cpu=64)[0] == 0


def test_cluster_without_known_nodes_is_unknown_and_rejected(plan: Callable[..., Answer]) -> None:
    code, text, rows = plan("-fail-on=infeasible:0", replicas=2, clusters='"west", "south"')
    assert [(row["cluster"], row["result"]) for row in rows] == [
        ("south", "unknown"),
        ("west", "runs"),
    ]
    assert "payments: runs on 1 of 1 known clusters" in text
    assert "whether payments runs on south (the nodes of the cluster are not known)" in text
    assert code == 1


DELETION = """
resource "fleet_resource_override" "none" {
  name      = "none"
  namespace = "payments"
  resource_selector {
    group   = "apps"
    version = "v1"
    kind    = "Deployment"
    name    = "api"
  }
  policy {
    override_rule {
      cluster_selector {}
      override_type = "Delete"
    }
  }
}
"""


def test_cluster_without_pods_because_of_an_override_names_another_reason(
    plan: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "deletion.nf.hcl").write_text(DELETION)
    _, text, (row,) = plan(replicas=2)
    assert (row["cluster"], row["result"]) == ("west", "unknown")
    assert (
        "whether payments runs on west (no pods of the placement are predicted on the cluster)"
        in text
    )


MORE_REPLICAS = DELETION.replace(
    'override_type = "Delete"',
    'json_patch_override {\n op = "replace"\n path = "/spec/replicas"\n value = "3"\n}',
)


@pytest.mark.parametrize("replicas", [0, 2])
def test_override_sets_requested_replicas_of_a_cluster_without_known_nodes(
    replicas: int, plan: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "replicas.nf.hcl").write_text(MORE_REPLICAS)
    _, _, (row,) = plan(replicas=replicas, clusters='"south"')
    assert (row["result"], row["replicas_requested"], row["certain"]) == ("unknown", 3, False)


def test_waiting_cluster_without_known_nodes_requests_replicas_of_newest_snapshot(
    plan: Callable[..., Answer], tmp_path: Path
) -> None:
    """Example: a cluster is added to a placement that is rolled out by staged runs.

    It waits for the next run.
    """
    plan(replicas=2)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    strategy = (
        'resource "fleet_cluster_resource_placement" "payments" {\n  strategy {\n    type = '
        '"External"\n  }\n}\n'
    )
    (tmp_path / "strategy_override.nf.hcl").write_text(strategy)
    _, _, rows = plan(replicas=2, clusters='"west", "south"')
    requests = {row["cluster"]: (row["result"], row["replicas_requested"]) for row in rows}
    assert requests == {"west": ("runs", 2), "south": ("unknown", 2)}


def test_pods_on_a_leaving_member_are_unknown(
    plan: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(replicas=2)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    leaving = SITE.replace("cluster.west.id", 'cluster.west.id\nhealth = "Leaving"')
    monkeypatch.setattr(f"{__name__}.SITE", leaving)
    _, text, rows = plan(replicas=2)
    assert "whether payments runs on west (its member is leaving the fleet)" in text
    assert [(row["result"], row["certain"], row["replicas_requested"]) for row in rows] == [
        ("unknown", False, 2)
    ]


@pytest.mark.parametrize("health", ["NoHeartbeat", "NoAgent", "NotJoined", "NoHealth", "Unhealthy"])
def test_pods_on_an_unreachable_member_are_unknown(
    health: str, plan: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub observes no pods of a member without a working agent."""
    plan(replicas=2)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    unreachable = SITE.replace("cluster.west.id", f'cluster.west.id\nhealth = "{health}"')
    monkeypatch.setattr(f"{__name__}.SITE", unreachable)
    code, text, (row,) = plan("-fail-on=infeasible:0", replicas=2)
    assert (row["result"], row["certain"]) == ("unknown", False)
    assert row["reason"].startswith("cluster is not connected to the fleet")
    assert code == 1
    assert "runs on 1 of 1" not in text


def test_losses_on_an_unreachable_member_have_no_figures(
    plan: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(replicas=2)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    unreachable = SITE.replace("cluster.west.id", 'cluster.west.id\nhealth = "NoHeartbeat"')
    monkeypatch.setattr(f"{__name__}.SITE", unreachable)
    _, text, (row,) = plan("-details", replicas=3, cpu=5)
    assert row.get("one_machine_down") is None
    assert "machine down" not in text
    assert "0 of 2 pods certain; 2 depend on members that are not reachable" in text
    assert "1 changed binding depends on members that are not reachable" in text


def test_waiting_pods_are_not_available(
    plan: Callable[..., Answer], capsys: pytest.CaptureFixture[str]
) -> None:
    def apply_and_read_status(workers: int) -> tuple[str, str]:
        plan("-var", f"workers={workers}", replicas=9)
        assert run_command_line(["apply", "-auto-approve", "-var", f"workers={workers}"]) == 0
        capsys.readouterr()
        assert run_command_line(["show", "-json"]) == 0
        resources = json.loads(capsys.readouterr().out)["values"]["root_module"]["resources"]
        values = next(
            item["values"] for item in resources if "placement_statuses" in item["values"]
        )
        return values["conditions"][-1]["reason"], values["placement_statuses"][0]["conditions"][
            -1
        ]["reason"]

    waiting = ("ResourceNotAvailableYet", "NotAllWorkAreAvailable")
    assert apply_and_read_status(2) == waiting
    assert apply_and_read_status(2) == waiting
    assert apply_and_read_status(5) == ("ResourceAvailable", "AllWorkAreAvailable")


EAST = """
resource "nexus_kubernetes_cluster" "east" {
  name    = "east"
  site_id = nexus_site.lab.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "workers" {
    count       = 2
    vm_sku_name = "NC_P10_56_v1"
  }
  depends_on = [nexus_rack.rack]
}
resource "fleet_member_cluster" "east" {
  name                  = "east"
  kubernetes_cluster_id = nexus_kubernetes_cluster.east.id
}
"""


def test_bindings_on_one_site_share_its_capacity(
    plan: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "east.nf.hcl").write_text(EAST)
    _, _, rows = plan(replicas=9, clusters='"east", "west"', machines=3)
    assert {row["site_capacity"] for row in rows} == {"yes"}
    replicas = next(count for count in range(32, 80, 16) if has_shortage(plan, count))
    (tmp_path / "east.nf.hcl").write_text(
        EAST.replace('"fleet_member_cluster" "east"', '"fleet_member_cluster" "idle"')
    )
    _, _, (west,) = plan(replicas=replicas, clusters='"west"', machines=3)
    # It fits alone.
    assert west["site_capacity"] == "yes"


def has_shortage(plan: Callable[..., Answer], replicas: int) -> bool:
    _, _, rows = plan(replicas=replicas, clusters='"east", "west"', machines=3)
    return {row["site_capacity"] for row in rows} == {"no"}


def test_details_count_waiting_pods_per_machine_or_rack_loss(plan: Callable[..., Answer]) -> None:
    _, text, (row,) = plan(replicas=2)
    assert "one_machine_down" not in row
    assert "machine down" not in text
    maximum = row["replicas_max"]
    _, text, (row,) = plan("-details", replicas=maximum)
    for effect, lost in ((row["one_machine_down"], "machine"), (row["one_rack_down"], "rack")):
        assert effect["waiting_pods"] > 0
        pods = f"{effect['waiting_pods']} pod{'' if effect['waiting_pods'] == 1 else 's'}"
        assert f"payments, one {lost} down: {pods} of west ha" in text
        assert f"no node without {effect['lost']}" in text
    _, text, (row,) = plan("-details", replicas=1)
    assert row["one_machine_down"] == row["one_rack_down"] == {"lost": "", "waiting_pods": 0}
    assert "payments, one rack down: all pods have a node" in text


def test_details_show_feasibility_on_rejected_cluster(
    plan: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "east.nf.hcl").write_text(EAST)
    rejecting = SITE.replace(
        '"PickFixed"\n    cluster_names  = [CLUSTERS]', '"PickN"\n    number_of_clusters = 1'
    )
    assert rejecting != SITE
    _, _, rows = plan("-details", replicas=2, clusters='"west"')
    assert [row["selected"] for row in rows] == [True]
    (tmp_path / "main.nf.hcl").write_text(rejecting.replace("MACHINES", "3"))
    code = run_command_line(["plan", "-details", "-report=json:plan.json"])
    document = json.loads(Path("plan.json").read_text())
    found = {row["cluster"]: (row["result"], row["selected"]) for row in document["feasibility"]}
    assert code == 0
    assert sorted(found.values()) == [("runs", False), ("runs", True)]


@pytest.mark.parametrize("replicas", [9, 14])
def test_suggested_count_is_tested(replicas: int, plan: Callable[..., Answer]) -> None:
    _, text, (row,) = plan(replicas=replicas)
    (fix,) = row["suggested_fixes"]
    (edit,) = fix["edits"]
    count = edit["value"]
    assert (edit["address"], edit["path"][-1]) == ("nexus_kubernetes_cluster.west", "count")
    expected = f"count = {count} (now 2) in pool workers of nexus_kubernetes_cluster.west"
    assert f"Suggested fix (tested) for payments on west: {expected}" in text
    assert plan(f"-var=workers={count}", replicas=replicas)[2][0]["result"] == "runs"
    assert plan(f"-var=workers={count - 1}", replicas=replicas)[2][0]["result"] == "runs_after"


LARGE = EAST.replace("NC_P10_56_v1", "NC_P46_224_v1")
PICK_FIXED = 'placement_type = "PickFixed"\n    cluster_names  = [CLUSTERS]'
PICK_ONE = 'placement_type = "PickN"\n    number_of_clusters = 1'


@pytest.mark.parametrize(("policy", "paths"), [(PICK_FIXED, 1), (PICK_ONE, 3)])
def test_other_cluster_with_capacity_is_tested(
    policy: str,
    paths: int,
    plan: Callable[..., Answer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(globals(), "SITE", SITE.replace(PICK_FIXED, policy))
    (tmp_path / "east.nf.hcl").write_text(LARGE)
    _, text, (row,) = plan(replicas=1, cpu=30, machines=8)
    assert (row["cluster"], row["result"]) == ("west", "cannot_run")
    (fix,) = row["suggested_fixes"]
    assert (fix["kind"], fix["cluster"], fix["cluster_names"]) == ("cluster", "east", ["east"])
    assert len(fix["edits"]) == paths
    assert 'for payments on west: cluster east instead of west: cluster_names = ["east"]' in text
    monkeypatch.setitem(globals(), "SITE", SITE.replace(policy, PICK_FIXED))
    rows = plan(replicas=1, cpu=30, machines=8, clusters='"east"')[2]
    assert [(row["cluster"], row["result"]) for row in rows] == [("east", "runs")]


FEWEST_NODES = """affinity {
      cluster_affinity {
        preferred_during_scheduling_ignored_during_execution {
          weight = 100
          preference {
            property_sorter {
              name       = "kubernetes-fleet.io/node-count"
              sort_order = "Ascending"
            }
          }
        }
      }
    }"""


def test_count_with_placement_change_is_not_suggested(
    plan: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = SITE.replace(PICK_FIXED, f"{PICK_ONE}\n    {FEWEST_NODES}")
    for count, fixes in (("5", 0), ("15", 1)):
        monkeypatch.setitem(
            globals(), "SITE", site.replace('node-count" = "3"', f'node-count" = "{count}"')
        )
        _, _, (row,) = plan(replicas=9)
        assert (row["cluster"], row["result"]) == ("west", "runs_after")
        assert len(row.get("suggested_fixes", ())) == fixes


def test_useless_fix_is_not_suggested(plan: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "east.nf.hcl").write_text(EAST)
    _, text, (row,) = plan(replicas=1, cpu=64)
    assert "suggested_fixes" not in row
    assert "Suggested fix (tested)" not in text
    # The site has no capacity.
    _, _, (row,) = plan(replicas=120, machines=1)
    assert "suggested_fixes" not in row


def test_losses_of_large_clusters_are_omitted(
    plan: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexusform.domains.pods.planning.pod_feasibility.MAX_LOST_PODS", 1)
    _, text, (row,) = plan("-details", replicas=2)
    assert "one_machine_down" not in row
    assert "machine down" not in text


PICK_ALL = 'placement_type = "PickAll"'
MOST_NODES = FEWEST_NODES.replace("Ascending", "Descending")
WITHOUT_WEST = (
    "leave out west: required cluster_affinity of fleet_cluster_resource_placement.payments"
)
AFFINITY = """affinity {
      cluster_affinity {
        required_during_scheduling_ignored_during_execution {
          cluster_selector_term {
            label_selector {
              match_expression {
                key      = "kubernetes-fleet.io/member-name"
                operator = "NotIn"
                values   = ["west"]
              }
            }
          }
        }
      }
    }"""


def remove_member_without_nodes(text: str) -> str:
    """Remove the member without nodes."""
    start = text.index('resource "fleet_member_cluster" "south"')
    return text[:start] + text[text.index('resource "fleet_hub_manifest"') :]


@pytest.mark.parametrize("is_existing", [False, True])
def test_pick_all_without_the_cluster_is_tested(
    is_existing: bool, plan: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = remove_member_without_nodes(SITE)
    monkeypatch.setitem(globals(), "SITE", site.replace(PICK_FIXED, PICK_ALL))
    (tmp_path / "east.nf.hcl").write_text(LARGE)
    if is_existing:
        plan(replicas=1, cpu=4, machines=8)
        assert run_command_line(["apply", "-auto-approve"]) == 0
    _, text, rows = plan(replicas=1, cpu=30, machines=8)
    east, west = rows
    assert (east["result"], west["result"]) == ("runs", "cannot_run")
    (fix,) = west["suggested_fixes"]
    assert (fix["kind"], fix["excluded_clusters"]) == ("affinity", ["west"])
    assert f"for payments on west: {WITHOUT_WEST}" in text
    assert '["west"] (1 cluster left)' in text
    monkeypatch.setitem(globals(), "SITE", site.replace(PICK_FIXED, f"{PICK_ALL}\n    {AFFINITY}"))
    rows = plan(replicas=1, cpu=30, machines=8)[2]
    assert [(row["cluster"], row["result"]) for row in rows] == [("east", "runs")]


def test_existing_pick_n_placement_moves_with_affinity(
    plan: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = remove_member_without_nodes(SITE)
    monkeypatch.setitem(globals(), "SITE", site.replace(PICK_FIXED, PICK_ONE))
    (tmp_path / "east.nf.hcl").write_text(LARGE)
    before = plan(replicas=1, cpu=4, machines=8)[2]
    assert [row["cluster"] for row in before] == ["west"]
    assert run_command_line(["apply", "-auto-approve"]) == 0
    _, text, (west,) = plan(replicas=1, cpu=30, machines=8)
    assert (west["cluster"], west["result"]) == ("west", "cannot_run")
    (fix,) = west["suggested_fixes"]
    assert fix["kind"] == "affinity"
    assert f"for payments on west: {WITHOUT_WEST}" in text
    price = "Lasting loss: payments leaves west: Namespace payments and 1 object are deleted"
    assert f'NotIn ["west"]. {price}; 1 pod ends.' in text
    assert (fix["severity"], [item["removed"] for item in fix["consequences"]]) == (
        "lasting",
        [{"binding": 1, "pod": 1}],
    )
    monkeypatch.setitem(globals(), "SITE", site.replace(PICK_FIXED, f"{PICK_ONE}\n    {AFFINITY}"))
    rows = plan(replicas=1, cpu=30, machines=8)[2]
    assert [(row["cluster"], row["result"]) for row in rows] == [("east", "runs")]


def test_affinity_excluding_the_only_cluster_is_not_suggested(
    plan: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        globals(), "SITE", remove_member_without_nodes(SITE).replace(PICK_FIXED, PICK_ALL)
    )
    _, _, (west,) = plan(replicas=1, cpu=64, machines=8)
    assert west["result"] == "cannot_run"
    assert "suggested_fixes" not in west


def test_untested_fixes_of_a_large_plan_are_counted(
    plan: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "nexusform.planning.replanning.waiting_pod_remedies._MAX_PLANNED_OBJECTS", 5
    )
    _, text, (row,) = plan(replicas=9)
    assert "suggested_fixes" not in row
    assert "Fixes not tested for 1 binding with waiting pods" in text
    assert json.loads(Path("plan.json").read_text())["untested_bindings"] == 1
    _, text, (row,) = plan("-details", replicas=9)
    assert row["suggested_fixes"]
    assert "Fixes not tested" not in text


def test_pool_without_nodes_counts(
    plan: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = (
        'agent_pool "huge" {\n    count       = 0\n    vm_sku_name = "NC_P46_224_v1"\n  }\n  '
        'agent_pool "small" {'
    )
    monkeypatch.setitem(globals(), "SITE", SITE.replace('agent_pool "small" {', empty))
    _, text, (row,) = plan(replicas=1, cpu=30, machines=8)
    assert (row["result"], row["pool"], row["missing_nodes"]) == ("runs_after", "huge", 1)
    assert "count = 1 (now 0) in pool huge of nexus_kubernetes_cluster.west" in text


def test_lines_of_for_each_placements_have_their_keys(
    plan: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    header = 'resource "fleet_cluster_resource_placement" "payments" {'
    repeated = f'{header}\n  for_each = toset(["blue", "green"])\n  name     = each.key'
    monkeypatch.setitem(globals(), "SITE", SITE.replace(header, repeated))
    _, text, _ = plan(replicas=9)
    assert 'payments["blue"]: runs on ' in text
    assert 'whether payments["green"] runs on ' in text


def test_pods_on_an_unreachable_member_stay_until_it_is_reachable(
    plan: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state keeps the pods that run there, and the plan still has the impact of the change."""
    plan(replicas=2)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    reachable = SITE
    unreachable = SITE.replace("cluster.west.id", 'cluster.west.id\nhealth = "NoHeartbeat"')
    monkeypatch.setattr(f"{__name__}.SITE", unreachable)
    _, text, _ = plan(replicas=3, cpu=5)
    assert "no running workload affected" not in text
    assert run_command_line(["apply", "-auto-approve"]) == 0
    _, text, _ = plan(replicas=3, cpu=5)
    assert "No changes. Changes of an earlier apply still wait." in text
    assert "matches the configuration" not in text
    monkeypatch.setattr(f"{__name__}.SITE", reachable)
    _, text, _ = plan(replicas=3, cpu=5)
    assert "api-2 -> rack" in text
