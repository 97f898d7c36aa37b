import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.pods.importers import cluster_objects

MAIN = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "r" {
  for_each      = toset(["r1", "r2", "r10"])
  site_id       = nexus_site.lab.id
  name          = each.key
  machine_count = 2
}

resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.lab.id
  name    = "a"

  control_plane {
    count       = 3
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "p" {
    count       = 6
    vm_sku_name = "NC_P46_224_v1"
  }
}
"""
QUESTIONS = [
    ["capacity"],
    ["runtime-upgrade"],
    ["kubernetes-upgrade", "a"],
    ["failure", "-rack=lab/r1"],
]


@pytest.fixture(scope="module")
def applied_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lab")
    (directory / "main.nf.hcl").write_text(MAIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        assert run_command_line(["apply", "-auto-approve"]) == 0
    return directory


@pytest.fixture
def lab(
    applied_directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Path:
    shutil.copytree(applied_directory, tmp_path / "lab")
    monkeypatch.chdir(tmp_path / "lab")
    monkeypatch.setenv("NO_COLOR", "1")
    capsys.readouterr()
    return tmp_path / "lab"


@pytest.fixture
def run_simulate(lab: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    assert lab.is_dir()

    def run_simulate_command(*words: str, code: int = 0) -> str:
        assert run_command_line(["simulate", *words]) == code, capsys.readouterr()
        return capsys.readouterr().out

    return run_simulate_command


def parse_document(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def test_capacity_reports_additional_vms(run_simulate: Any) -> None:
    text = run_simulate("capacity", "-sku=NC_P46_224_v1")
    # Twelve cells: six P46, and three split by a G6 of the control plane.
    assert "3 more NC_P46_224_v1 fit" in text
    assert "3  contain only smaller VMs and no longer fit it" in text
    answer = parse_document(run_simulate("capacity", "-sku=NC_P46_224_v1", "-format=json"))
    [sku], [zones], [racks] = (read_rows(answer, name) for name in ("skus", "zones", "racks_down"))
    assert (sku["more"], sum(zones[name] for name in ("r1", "r2", "r10"))) == (3, 3)
    assert sku["one_rack_down"] == min(racks[name] for name in ("r1", "r2", "r10"))


@pytest.mark.parametrize(
    ("option", "error"),
    [("-var=region=north", ""), ("-var=reigon=north", "reigon"), ("-var=size=large", "size")],
)
def test_variables_are_those_of_the_configuration(
    option: str, error: str, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A required variable without a value is no error: no data block needs it."""
    variables = 'variable "region" {}\nvariable "size" { type = number }\n'
    (lab / "variables.nf.hcl").write_text(variables)
    code = run_command_line(["simulate", "capacity", "-sku=NC_P46_224_v1", option])
    printed = capsys.readouterr()
    if error:
        assert code == 1
        assert f'variable named "{error}"' in printed.err or f"var.{error}" in printed.err
    else:
        assert code == 0
        assert "more NC_P46_224_v1 fit" in printed.out


def test_capacity_of_some_zones(run_simulate: Any) -> None:
    answer = parse_document(
        run_simulate("capacity", "-zones=r1,r10", "-sku=NC_P46_224_v1", "-format=json")
    )
    [zones] = read_rows(answer, "zones")
    assert [name for name in zones if name.startswith("r")] == ["r1", "r10"]


def test_missing_capacity_is_a_finding(run_simulate: Any) -> None:
    text = run_simulate("capacity", "-mix=4xNC_P46_224_v1", code=2)
    assert "0 sets of 4 x NC_P46_224_v1 fit" in text
    assert "One more set does not fit: 1 x NC_P46_224_v1 finds no capacity." in text


def test_headline_of_a_mix_names_sets_created_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cluster of three racks of four machines fits twice.

    A third one is placed after the smaller VMs of two.
    """
    monkeypatch.chdir(tmp_path)
    site, _, _ = MAIN.partition('resource "nexus_kubernetes_cluster"')
    (tmp_path / "main.nf.hcl").write_text(re.sub("machine_count = .*", "machine_count = 4", site))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()
    assert run_command_line(["simulate", "capacity", "-mix=3xNC_G12_56_v1,7xNC_P46_224_v1"]) == 0
    headline = "3 sets of 3 x NC_G12_56_v1 + 7 x NC_P46_224_v1 fit at once, 2 one after another."
    assert headline in capsys.readouterr().out


def test_order_of_racks_is_explained(run_simulate: Any) -> None:
    text = run_simulate("runtime-upgrade")
    assert [line.split()[2] for line in text.splitlines() if line.startswith("Wave ")] == [
        "r1,",
        "r10,",
        "r2,",
    ]
    assert "r10 is before r2" in text
    assert "every control plane keeps its quorum" in text
    assert "at most 10 minutes each" in re.sub(r"\s+", " ", text)


def test_power_loss_and_pauses_in_text(run_simulate: Any) -> None:
    text = re.sub(
        r"\s+", " ", run_simulate("runtime-upgrade", "-drain=false", "-strategy=PauseAfterRack")
    )
    assert "After 1 minute without contact" in text
    assert (
        "before wave 1 (r1), wave 2 (r10) and wave 3 (r2), and after the last rack. Continue "
        "it each time"
    ) in text
    assert "continue-update-version --name CLUSTER --resource-group GROUP" in text
    assert "drained" not in text


def test_loss_of_two_racks_reports_lost_quorum(run_simulate: Any, lab: Path) -> None:
    (lab / "main.nf.hcl").write_text(
        MAIN.replace('"r1", "r2", "r10"', '"r1", "r2"').replace("= 6", "= 3")
    )
    assert run_command_line(["plan", "-out=smaller"]) == 0
    text = run_simulate("runtime-upgrade", "-plan=smaller", code=2)
    assert "(after plan smaller)" in text
    assert "a loses etcd quorum: 2 of 3 control-plane VMs down at once (r2)." in re.sub(
        r"\s+", " ", text
    )
    assert "quorum lost (needs 2)" in text
    # The state is unchanged.
    assert not parse_document(run_simulate("runtime-upgrade", "-format=json"))["finding"]


def read_rows(answer: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the rows of the tables of the sections with this name."""
    sections = (section for section in answer["sections"] if section["name"] == name)
    tables = (table for section in sections for table in section["tables"])
    return [row for table in tables for row in table["rows"]]


def test_upgrade_in_batches(run_simulate: Any) -> None:
    answer = parse_document(run_simulate("runtime-upgrade", "-max-unavailable=1", "-format=json"))
    assert [wave["machines"] for wave in read_rows(answer, "waves")] == [1] * 6


def test_kubernetes_upgrade_with_sufficient_capacity(run_simulate: Any) -> None:
    assert "every batch has the surge capacity it needs" in run_simulate(
        "kubernetes-upgrade", "lab/a"
    )
    found = parse_document(
        run_simulate("kubernetes-upgrade", "nexus_kubernetes_cluster.a", "-format=json")
    )
    assert not found["finding"]
    assert {row["verdict"] for row in read_rows(found, "pools")} == {"fits"}


def test_failure_names_nodes_commands_and_targets(run_simulate: Any) -> None:
    text = " ".join(run_simulate("failure", "-machine=r1-bm01").split())
    assert "delete node -l topology.kubernetes.io/baremetalmachine=r1-bm01" in text
    assert "every node fits elsewhere" in text
    found = parse_document(run_simulate("failure", "-machine=lab/r1/r1-bm01", "-format=json"))
    [losses] = [section for section in found["sections"] if section["name"] == "losses"]
    [vms] = [table for table in losses["tables"] if table["caption"] == "Each VM"]
    assert vms["rows"]
    for row in vms["rows"]:
        assert row["was_on"].startswith("r1-bm01 / ")
        assert not row["re_created_on"].startswith("r1-bm01")


@pytest.mark.usefixtures("lab")
def test_plan_with_a_lost_rack_shows_the_section_of_simulate_failure(
    run_simulate: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = parse_document(run_simulate("failure", "-rack=lab/r1", "-format=json", code=2))
    assert run_command_line(["plan", "-assume=lost:rack/lab/r1", "-report=json:-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["losses"] == answer["sections"][:1]
    # The reports have it, too.
    title = document["losses"][0]["title"]
    for words in (["plan"], ["plan", "-details"], ["plan", "-report=markdown:-"]):
        assert run_command_line([*words, "-assume=lost:rack/lab/r1"]) == 0
        assert title in " ".join(capsys.readouterr().out.split())


def test_lost_site_is_a_finding(run_simulate: Any) -> None:
    assert "9 VMs are down" in run_simulate("failure", "-site=lab", code=2)


# --- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", QUESTIONS, ids=lambda words: words[0])
def test_every_answer_has_every_format(
    words: list[str], lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = [f"-report={name}:out.{name}" for name in ("text", "markdown", "json", "html")]
    code = run_command_line(["simulate", *words, *reports])
    assert code in {0, 2}
    verdict = capsys.readouterr().out.splitlines()[1]
    data = parse_document((lab / "out.json").read_text())
    assert data["question"] == words[0]
    assert data["finding"] == (code == 2)
    markdown = (lab / "out.markdown").read_text()
    assert markdown.startswith("### ")
    assert data["verdict"].startswith(verdict[:40])
    assert (lab / "out.text").read_text().splitlines()[1].startswith(verdict[:40])
    page = (lab / "out.html").read_text()
    assert is_well_formed(page)
    assert not re.search(r'(?:src|href)="(?!#)', page), "nothing is fetched"
    for row in re.findall(r"^\|.*$", markdown, re.MULTILINE):
        assert row.endswith("|")


def is_well_formed(page: str) -> bool:
    open_tags: list[str] = []

    class TagChecker(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
            if tag not in {"meta", "input"}:
                open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    TagChecker().feed(page)
    return not open_tags


def test_report_on_stdout_replaces_text(run_simulate: Any) -> None:
    assert run_simulate("capacity", "-report=markdown:-") == run_simulate(
        "capacity", "-format=markdown"
    )
    assert parse_document(run_simulate("capacity", "-report=json:-")) == parse_document(
        run_simulate("capacity", "-format=json")
    )


def test_answers_do_not_depend_on_configuration(run_simulate: Any, lab: Path) -> None:
    before = run_simulate("capacity")
    (lab / "main.nf.hcl").write_text(MAIN.replace("machine_count = 2", "machine_count = 4"))
    assert run_simulate("capacity") == before


def test_clusters_of_a_configuration_with_errors_are_not_counted(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = 'data "kubernetes_nodes" "a" {\n  files = [var.nodes]\n  cluster_id = "lab/a"\n}\n'
    variable = 'variable "nodes" {\n  type = string\n}\n'
    question = ["simulate", "failure", "-rack=lab/r1", "-format=json"]
    (lab / "main.nf.hcl").write_text(f"{MAIN}{nodes}{variable}resource {{\n")
    run_command_line(question)
    captured = capsys.readouterr()
    assert "Pods on clusters in its data blocks are not counted." in join_lines(captured.err)
    [warning] = json.loads(captured.out)["warnings"]
    assert warning.startswith("The configuration has errors.")
    # A variable without a value is named.
    (lab / "main.nf.hcl").write_text(f"{MAIN}{nodes}{variable}")
    run_command_line(question)
    captured = capsys.readouterr()
    assert 'variable "nodes" is not set' in join_lines(captured.err)
    assert "Error" not in captured.err
    # A state without a configuration has no clusters of data blocks.
    (lab / "main.nf.hcl").unlink()
    run_command_line(question)
    captured = capsys.readouterr()
    assert (captured.err, "warnings" in json.loads(captured.out)) == ("", False)


def join_lines(text: str) -> str:
    """Return the text of diagnostics on one line."""
    return " ".join(text.replace("│", " ").split())


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["capacity", "-sku=NC_P47_224_v1"], "Unknown VM SKU"),
        (["capacity", "-zones=r3"], "Unknown availability zone"),
        (["capacity", "-mix=fourxNC_P46_224_v1"], "Unknown VM SKU"),
        (["capacity", "-site=lob"], 'Did you mean "lab"?'),
        (["capacity", "-report=pdf:x"], 'unknown format "pdf"'),
        (["capacity", "-report=json"], "needs a path"),
        (["capacity", "-report=json:-", "-report=text:-"], "only one report"),
        (["capacity", "-plan=none"], 'There is no file "none"'),
        (["kubernetes-upgrade", "b"], "Unknown cluster"),
        (["failure"], "exactly one of"),
        (["failure", "-rack=r1", "-site=lab"], "exactly one of"),
        (["failure", "-machine=r1-bm09"], "Unknown machine"),
        (["runtime-upgrade", "-max-unavailable=0"], "0 is not in the range"),
        (["runtime-upgrade", "-strategy=Row"], "is not one of"),
    ],
)
def test_invalid_questions_are_rejected(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["simulate", *words]) == 1
    assert told in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_missing_site_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["simulate", "capacity"]) == 1
    assert "Nothing to simulate" in capsys.readouterr().err


FLEET = """
resource "fleet_member_cluster" "all" {
  for_each   = { east = "5", west = "3", north = "1" }
  name       = each.key
  properties = { "kubernetes-fleet.io/node-count" = each.value }
}

resource "fleet_hub_manifest" "web" {
  yaml_body = "{apiVersion: v1, kind: Namespace, metadata: {name: web}}"
}

resource "fleet_cluster_resource_placement" "web" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }

  policy {
    placement_type     = "PickN"
    number_of_clusters = 2
  }
}
"""


@pytest.fixture
def fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    (tmp_path / "main.nf.hcl").write_text(FLEET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()
    return tmp_path


@pytest.mark.usefixtures("fleet")
def test_fleet_without_sites_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["simulate", "fleet", "-leave=west"]) == 0
    text = capsys.readouterr().out
    assert text.lstrip().startswith("Hypothetical plan: it assumes west leaves.")
    assert "+ east  -> " in text
    assert "- west  left; its objects stay, unmanaged (cluster_left)" in text
    words = ["simulate", "fleet", "-leave=west", "-drain=east", "-report=json:-"]
    assert run_command_line(words) == 2
    answer = parse_document(capsys.readouterr().out)
    assert answer["hypothetical"]
    assert answer["assumptions"] == ["west leaves", "east is drained"]
    assert run_command_line(["plan"]) == 0
    assert "No changes" in capsys.readouterr().out


@pytest.mark.usefixtures("fleet")
def test_drain_evicts_and_a_rejected_eviction_is_a_finding(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command_line(["simulate", "fleet", "-drain=west"]) == 0
    text = capsys.readouterr().out
    assert "fleet_placement_eviction.drain-web-west" in text
    assert "- west  deleted (evicted)" in text
    names = 'cluster_names = ["west"]'
    fixed = FLEET.replace('"PickN"', '"PickFixed"').replace("number_of_clusters = 2", names)
    Path("main.nf.hcl").write_text(fixed)
    address = "fleet_cluster_resource_placement.web"
    assert run_command_line(["apply", "-auto-approve", f"-replace={address}"]) == 0
    capsys.readouterr()
    assert run_command_line(["simulate", "fleet", "-drain=west"]) == 2
    assert "invalid-eviction" in capsys.readouterr().out


def test_problems_of_a_fleet_simulation_are_errors(
    lab: Path, fleet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_command_line(["simulate", "fleet"]) == 1
    assert "No change given. Specify one or more of -leave" in capsys.readouterr().err
    assert run_command_line(["simulate", "fleet", "-leave=wes"]) == 1
    assert 'Did you mean "west"?' in capsys.readouterr().err
    assert run_command_line(["simulate", "fleet", "-label=west:a=b c"]) == 1
    assert "Planning failed" in capsys.readouterr().out
    (fleet / "main.nf.hcl").write_text("x = 1")
    assert run_command_line(["simulate", "fleet", "-leave=west"]) == 1
    assert "main.nf.hcl line 1" in capsys.readouterr().err
    monkeypatch.chdir(lab)
    assert run_command_line(["simulate", "fleet", "-leave=a"]) == 1
    assert "There is no fleet_member_cluster" in " ".join(capsys.readouterr().err.split())


KUBECTL_CLUSTER = """
resource "fleet_member_cluster" "m1" {
  resources {
    total = { cpu = "16" }
  }
}

data "kubernetes_nodes" "a" {
  files      = ["cluster.json"]
  cluster_id = "m1"
}
"""


@pytest.fixture
def drain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Return a function that drains a node of a cluster with these objects, without a site."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / "main.nf.hcl").write_text(KUBECTL_CLUSTER)

    def run_drain(
        name: str, *objects: dict[str, Any], code: int = 0, flags: tuple[str, ...] = ()
    ) -> str:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        (tmp_path / "cluster.json").write_bytes(cluster_objects.print_objects(namespace, *objects))
        assert run_command_line(["simulate", "failure", f"-node={name}", *flags]) == code, (
            capsys.readouterr()
        )
        captured = capsys.readouterr()
        return (
            captured.out
            if "-format=json" in flags
            else re.sub(r"\s+", " ", captured.out + captured.err)
        )

    return run_drain


def build_replica(name: str, on: str, cpu: str = "2") -> dict[str, Any]:
    labels = {"app": "web", "pod-template-hash": "5d"}
    return cluster_objects.build_pod(name, on, cpu, owner=("ReplicaSet", "web-5d"), labels=labels)


TWO_NODES = (cluster_objects.build_node("n0", "4"), cluster_objects.build_node("n1", "4"))


def test_drain_places_pods_of_kubectl_cluster_again(drain: Any) -> None:
    daemon = cluster_objects.build_pod("agent-x", "n0", "1", owner=("DaemonSet", "agent"))
    objects = (*TWO_NODES, build_replica("web-5d-a", "n0"), build_replica("web-5d-b", "n1"), daemon)
    text = drain("n0", *objects)
    assert "1 pod to evict; 1 of them gets another node; no workload loses capacity." in text
    assert "agent" not in text
    answer = parse_document(drain("m1/n0", *objects, flags=("-format=json",)))
    evicted, workloads = (section["tables"][0]["rows"] for section in answer["sections"][:2])
    assert [(row["workload"], row["new_node"]) for row in evicted] == [
        ("default/Deployment/web", "n1 *")
    ]
    assert [row["finding"] for row in workloads] == [False]


def test_drain_names_the_doubts_about_the_files(drain: Any) -> None:
    old = [dict(each) for each in TWO_NODES]
    for body in old:
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2020-01-01T14:02:00Z"}
        body["status"] = {**body["status"], "conditions": [ready]}
    objects = (*old, build_replica("web-5d-a", "n0"), build_replica("web-5d-b", "n1"))
    text = drain("n0", *objects)
    assert "Cluster m1: The files show the cluster as of 14:02 on 2020-01-01" in text
    assert "n1 *" in text
    answer = parse_document(drain("n0", *objects, flags=("-format=json",)))
    assert any("as of 14:02" in warning for warning in answer["warnings"])
    [evicted] = answer["sections"][0]["tables"][0]["rows"]
    # One of several outcomes.
    assert evicted["new_node"] == "n1 *"


def test_drain_without_capacity_elsewhere_is_a_finding(drain: Any) -> None:
    objects = (
        *TWO_NODES,
        build_replica("web-5d-a", "n0", "3"),
        build_replica("web-5d-b", "n1", "3"),
    )
    text = drain("n0", *objects, code=2)
    assert "capacity drops for default/Deployment/web" in text
    assert "Insufficient cpu" in text


def test_drain_waits_for_a_budget(drain: Any) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    text = drain(
        "n0",
        *TWO_NODES,
        build_replica("web-5d-a", "n0"),
        build_replica("web-5d-b", "n1"),
        budget,
        code=2,
    )
    assert "the drain waits for default/web" in text


def test_unknown_node_is_reported_with_known_ones(drain: Any) -> None:
    assert "Known: m1/n0 and m1/n1" in drain("n7", *TWO_NODES, code=1)


def test_empty_node_has_no_pod_to_evict(drain: Any) -> None:
    assert "No pod to evict runs there." in drain("n0", *TWO_NODES)


def test_share_of_free_vcpus_is_in_the_document(run_simulate: Any) -> None:
    answer = parse_document(run_simulate("capacity", "-format=json"))
    free = {row["resource"]: row for row in read_rows(answer, "free")}
    assert 0 < free["vCPUs"]["free"] < free["vCPUs"]["total"]
    assert 0 < free["GiB"]["free"] < free["GiB"]["total"]
