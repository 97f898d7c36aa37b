import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.planner import make_plan
from tests.answer_rows import read_rows
from tests.domains.pods.importers.cluster_objects import build_node, print_objects

MAIN = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "r${count.index}"
  machine_count = 2
}

resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.lab.id
  name    = "a"

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "p" {
    count              = 2
    vm_sku_name        = "NC_P46_224_v1"
    availability_zones = ["r0"]
  }
}
"""
A = "nexus_kubernetes_cluster.a"


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / "main.nf.hcl").write_text(MAIN)


@pytest.fixture
def build_explain_runner(capsys: pytest.CaptureFixture[str]) -> Any:
    def run_explain(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run_command_line(["explain", *words]) == code
        return capsys.readouterr().out

    return run_explain


def test_new_vm_is_explained_from_the_plan(build_explain_runner: Any) -> None:
    text = build_explain_runner(A, "a-p-1")
    assert text.startswith("a-p-1 (NC_P46_224_v1: 48 host vCPUs, 224 GiB, 1 cell)\nr0 / ")
    for step in ("1 fits", "2 zones", "3 rack", "4 machine", "5 cells"):
        assert f"  {step}" in text
    assert "Same rack in 100 of 100 samples" in text
    assert "Trigger: new." in text
    assert "outside {r0}: r1 (2)." in " ".join(text.split())


def test_explanation_has_the_formats_of_every_answer(build_explain_runner: Any) -> None:
    text = build_explain_runner(A, "a-p-1", "-report=html:why.html", "-report=json:why.json")
    assert "best first" not in text
    page = Path("why.html").read_text()
    # Only text omits the ranked machines.
    assert "Racks, best first" in page
    document = json.loads(Path("why.json").read_text())
    assert (document["question"], document["of"]) == ("explain", A)
    assert document == json.loads(build_explain_runner(A, "a-p-1", "-format=json"))


def test_explanation_of_rejected_plan_has_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    with Path("main.nf.hcl").open("a") as file:
        file.write('output "o" {\n  value = 1 / 0\n}\n')
    assert run_command_line(["explain", A, "a-p-1"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("a-p-1 ")
    told = " ".join((said.out + said.err).replace("│", " ").split())
    assert "Warning: Plan rejected" in told
    assert "has 1 error (first: Division by zero)" in told


def test_existing_vm_is_explained_by_current_rules(build_explain_runner: Any) -> None:
    assert run_command_line(["apply", "-auto-approve"]) == 0
    text = build_explain_runner(A, "a-p-1")
    assert "  - a-p-1 runs on r0 / " in text
    assert "(predicted, trigger new at serial 1; state serial 1)." in " ".join(text.split())
    assert "If placed again now" in text
    assert "Trigger" not in text
    assert "To place it elsewhere" in text


def test_saved_plan_is_explained_by_replay(build_explain_runner: Any) -> None:
    assert run_command_line(["plan", "-out=saved"]) == 0
    now = build_explain_runner(A, "a-p-1")
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert build_explain_runner(A, "a-p-1", "-plan=saved") == now


def test_json_lists_every_machine(build_explain_runner: Any) -> None:
    document = json.loads(build_explain_runner(A, "a-p-1", "-format=json"))
    sections = {section["name"]: section for section in document["sections"]}
    rows = {name: read_rows(section) for name, section in sections.items() if "tables" in section}
    machines = {"r0-bm01", "r0-bm02", "r1-bm01", "r1-bm02"}
    [planned] = rows["location"]
    assert planned["location"] == "by the rules"
    assert {row["machine"] for row in rows["elsewhere"]} == machines - {planned["machine"]}
    assert [(row["rule"], row["machines"]) for row in rows["rejected"]] == [
        ("zones", "r1-bm01, r1-bm02")
    ]
    assert rows["racks"][0]["name"] == planned["rack"]
    assert any("Same rack in 100 of 100 samples" in fact for fact in document["facts"])


def test_explanation_as_markdown(build_explain_runner: Any) -> None:
    text = build_explain_runner(A, "a-p-1", "-format=markdown")
    assert text.startswith("### a-p-1 (NC\\_P46\\_224\\_v1")
    for title in (
        "**3 rack**: ",
        "**5 cells**: ",
        "#### Racks, best first",
        "#### To place it elsewhere",
        "2 machines rejected",
    ):
        assert title in text


def test_unplaced_vm_lists_suggested_fixes(
    build_explain_runner: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("main.nf.hcl").write_text(MAIN.replace("count              = 2", "count              = 5"))
    text = build_explain_runner(A, "a-p-4")
    assert "fits nowhere" in text
    assert "2 machines would have capacity with 1 VM fewer" in " ".join(text.split())
    # Plan, explain and advise suggest the same fixes.
    offered = "1. count = 4 fits with this SKU"
    assert "Suggested fixes (tested)" in text
    assert offered in text
    document = json.loads(build_explain_runner(A, "a-p-4", "-format=json"))
    [fixes] = [part for part in document["sections"] if part["name"] == "suggested_fixes"]
    assert fixes["lines"][0].startswith(offered)
    assert offered[3:] in build_explain_runner(A, "a-p-4", "-format=markdown").replace("\\", "")
    for command in ("plan", "advise"):
        assert run_command_line([command]) == 1
        assert offered in capsys.readouterr().err


def test_cluster_and_pool_are_explained_by_their_spread(build_explain_runner: Any) -> None:
    text = build_explain_runner(A)
    assert text.startswith(f"{A}\n3 VMs on ")
    assert "Racks: r0 2." in text
    assert "Availability zones: r0." in text
    assert "Triggers: new (2 VMs by this plan)." in text
    assert "Objects: a-p-0 and a-p-1." in text
    assert run_command_line(["apply", "-auto-approve"]) == 0
    pool = build_explain_runner(A, "p")
    assert "Triggers: new (2 VMs at serial 1)." in pool
    assert "control-plane" not in pool
    pools, *_ = json.loads(build_explain_runner(A, "-format=json"))["sections"]
    assert [(row["pool"], row["count"]) for row in read_rows(pools)] == [
        ("control-plane", 1),
        ("p", 2),
    ]
    assert "### " in build_explain_runner(A, "-format=markdown")


def test_node_is_found_by_its_name_alone(
    build_explain_runner: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """kubectl prints the name that the platform gave.

    Equal names on two sites are listed.
    """
    assert run_command_line(["apply", "-auto-approve"]) == 0
    path = Path("state/nexusform.nfstate")
    state = path.read_text()
    node = state.index('"a-p-1"')
    assert '"platform_name": null' in state[node:]
    path.write_text(
        state[:node]
        + state[node:].replace('"platform_name": null', '"platform_name": "a-1b6e-md-5sqkp"', 1)
    )
    for name in ("a-p-1", "a-1b6e-md-5sqkp"):
        assert build_explain_runner(name).startswith("a-p-1 (NC_P46_224_v1")
    other = MAIN.replace('"lab"', '"east"').replace(".lab", ".east").replace('"r"', '"e"')
    Path("east.nf.hcl").write_text(
        other.replace('"nexus_kubernetes_cluster" "a"', '"nexus_kubernetes_cluster" "b"')
    )
    assert run_command_line(["apply", "-auto-approve"]) == 0
    build_explain_runner("a-p-1", code=1)
    assert run_command_line(["explain", "a-p-1"]) == 1
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert f'"a-p-1" is an object of {A} and nexus_kubernetes_cluster.b.' in said
    assert "nexusform explain ADDRESS a-p-1" in said


def test_unknown_name_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explain", A, "a-p-7"]) == 1
    assert "No such object" in capsys.readouterr().err


REDIS = """
resource "fleet_hub_manifest" "redis" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: redis
    spec:
      replicas: 3
      selector:
        matchLabels:
          app: redis
      template:
        metadata:
          labels:
            app: redis
        spec:
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
              - labelSelector:
                  matchLabels:
                    app: redis
                topologyKey: kubernetes.io/hostname
          containers:
          - name: redis
            image: redis
  EOT
}
"""


@pytest.mark.of_domains("fleet")
def test_pod_is_explained_node_by_node(tmp_path: Path, build_explain_runner: Any) -> None:
    (tmp_path / "redis.nf.hcl").write_text(REDIS)
    manifest = "fleet_hub_manifest.redis"
    text = build_explain_runner(manifest, "redis-0")
    assert text.startswith("redis-0 (default/Deployment/redis) on a\nruns on a-p-")
    said = " ".join(text.split())
    assert (
        "Certain: every run of the scheduler puts the same number of these pods on this node."
        in said
    )
    # Both nodes are feasible.
    assert "least_allocated: 99" in text.partition("a-p-1")[2]
    assert "untolerated taint" in text
    pending = json.loads(build_explain_runner(manifest, "redis-2", "-format=json"))
    assert (pending["finding"], pending["verdict"]) == (True, "stays Pending")
    [rejected] = pending["sections"]
    assert {row["node"] for row in read_rows(rejected)} == {"a-control-plane-0", "a-p-0, a-p-1"}
    assert "stays Pending" in build_explain_runner(manifest, "redis-2", "-format=markdown")
    build_explain_runner(manifest, code=1)
    build_explain_runner(manifest, "redis-9", code=1)
    # With the prefixes used in plans.
    for front in ("a/", "a/default/Deployment/redis/", "default/Deployment/redis/"):
        assert build_explain_runner(manifest, f"{front}redis-0") == text
    build_explain_runner(manifest, "b/redis-0", code=1)


FLEET = """
resource "fleet_member_cluster" "a" {
  kubernetes_cluster_id = nexus_kubernetes_cluster.a.id
}

resource "fleet_member_cluster" "figures" {}

resource "fleet_cluster_resource_placement" "all" {
  resource_selector {
    group   = ""
    version = "v1"
    kind    = "Namespace"
    name    = "shop"
  }
}
"""


@pytest.mark.of_domains("fleet")
def test_members_with_unknown_nodes_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    space = "    apiVersion: v1\n    kind: Namespace\n    metadata:\n      name: shop\n    ---\n"
    hub = REDIS.replace("  cluster_id = nexus_kubernetes_cluster.a.id\n", "")
    hub = hub.replace("<<-EOT\n", "<<-EOT\n" + space).replace(
        "name: redis\n", "name: redis\n      namespace: shop\n", 1
    )
    (tmp_path / "redis.nf.hcl").write_text(hub + FLEET)
    placement = "fleet_cluster_resource_placement.all"
    plans: list[PlanRequest] = []

    def make_counted_plan(request: PlanRequest) -> PlanResult:
        plans.append(request)
        return make_plan(request)

    for module in ("domains.fleet.workflow.explain_workloads", "workflow.object_explanation"):
        monkeypatch.setattr(f"nexusform.{module}.make_plan", make_counted_plan)
    assert run_command_line(["explain", placement, "a/redis-0"]) == 0
    assert len(plans) == 1
    told = capsys.readouterr()
    assert "Nodes unknown: figures." in " ".join((told.out + told.err).replace("│", " ").split())
    assert run_command_line(["explain", placement, "redis-9"]) == 1
    assert "Nodes unknown: figures." in " ".join(capsys.readouterr().err.replace("│", " ").split())


def edit_configuration(old: str, new: str) -> None:
    Path("main.nf.hcl").write_text(MAIN.replace(old, new))


@pytest.mark.parametrize("saved", [False, True])
def test_removed_vm_is_explained(build_explain_runner: Any, *, saved: bool) -> None:
    assert run_command_line(["apply", "-auto-approve"]) == 0
    edit_configuration("count              = 2", "count              = 1")
    of_plan = ["-plan=p.nfplan"] if saved else []
    assert not saved or run_command_line(["plan", "-out=p.nfplan"]) == 0
    text = " ".join(build_explain_runner(*of_plan, A, "a-p-1").split())
    assert "a-p-1 (NC_P46_224_v1)" in text
    assert "may be removed, because the pool's count was lowered; Azure chooses the VMs" in text
    assert "It runs on r0 / r0-bm0" in text
    document = json.loads(build_explain_runner(*of_plan, "-format=json", A, "a-p-1"))
    assert "(scale_in)" in document["verdict"]
    assert document["facts"][0].startswith("It runs on r0 / ")


def test_vm_of_removed_cluster_is_explained(build_explain_runner: Any) -> None:
    assert run_command_line(["apply", "-auto-approve"]) == 0
    Path("main.nf.hcl").write_text(MAIN[: MAIN.index('resource "nexus_kubernetes_cluster"')])
    assert "its cluster was removed (cluster_removed)" in " ".join(
        build_explain_runner(A, "a-p-0").split()
    )


def test_every_unplaced_vm_is_explained(build_explain_runner: Any) -> None:
    edit_configuration("count              = 2", "count              = 9")
    for number in (4, 5, 8):
        text = build_explain_runner(A, f"a-p-{number}")
        assert text.startswith(f"a-p-{number} (NC_P46_224_v1")
        assert "Suggested fixes (tested)" in text


def test_times_of_inventories_are_in_text_and_data(
    tmp_path: Path, build_explain_runner: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    data = 'data "kubernetes_nodes" "a" {\n  files = ["n.json"]\n  cluster_id = "lab/a"\n}\n'
    (tmp_path / "main.nf.hcl").write_text(MAIN + data)
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2020-01-01T00:00:00Z"}
    node = build_node("a-p-0")
    node["status"]["conditions"] = [ready]
    (tmp_path / "n.json").write_bytes(print_objects(node))
    times = [
        {"address": "data.kubernetes_nodes.a", "exported_at": "2020-01-01T00:00:00Z", "stale": True}
    ]
    # Before the first apply, too: the plan reads the file.
    for words in ((A, "a-p-0"), (A,)):
        assert "Inventory: " in build_explain_runner(*words)
        facts = json.loads(build_explain_runner("-format=json", *words))["facts"]
        assert facts[0].startswith("Inventory: ")
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    capsys.readouterr()
    assert run_command_line(["show", "-json", "p.nfplan"]) == 0
    assert json.loads(capsys.readouterr().out)["decision"]["inventories"] == times
