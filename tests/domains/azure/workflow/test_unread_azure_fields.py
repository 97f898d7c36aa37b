"""Tests of unread facts of Azure exports: what was not read is never certain."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.cli.main import run_command_line
from nexusform.domains.azure.importers import azure_fields
from nexusform.domains.azure.importers.arm_resources import ArmItem, Origin
from nexusform.domains.azure.importers.az_field_checks import find_unread_facts
from nexusform.domains.azure.importers.az_inventory import read_sites
from nexusform.domains.azure.importers.azure_fields import (
    ENVELOPE,
    FIELDS,
    KNOWN_VALUES,
    read_azure_schema,
)

CASES = Path(__file__).parents[1] / "importers" / "cases" / "azure"
SITE = CASES / "clusters-070"
CLUSTERS = Path("export/kubernetes_clusters.json")
MACHINES = Path("export/bare_metal_machines.json")
# Broken values of each recorded directory.
SAMPLE = 40


@pytest.fixture(autouse=True)
def work_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SITE, "export")
    # A complete list, so that nothing is missing.
    Path("export/virtual_machines.json").write_text("[]")


def edit(path: Path, **values: Any) -> None:
    """Set properties of the first resource of a file."""
    document = json.loads(path.read_text())
    document["value"][0]["properties"] |= values
    path.write_text(json.dumps(document, indent=2))


def run(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run a command and return its output on one line."""
    result = run_command_line(arguments)
    captured = capfd.readouterr()
    text = " ".join((captured.out + captured.err).replace("│", " ").split())
    assert result == code, text
    return text


def grow(count: int = 4) -> None:
    """Add a node to the first pool with three nodes."""
    path = Path("site.nf.hcl")
    text = path.read_text()
    before, _, after = text.partition("count       = 3")
    assert after, text
    path.write_text(f"{before}count       = {count}{after}")


def plan(capfd: pytest.CaptureFixture[str], *options: str) -> tuple[dict[str, Any], str]:
    """Return the plan as JSON and as text."""
    text = run(capfd, "plan", "-out=p.nfplan", "-samples=20", *options)
    return json.loads(run(capfd, "show", "-json", "p.nfplan")), text


def import_site(capfd: pytest.CaptureFixture[str]) -> str:
    return run(capfd, "import", "-from=export", "-generate-config-out=site.nf.hcl")


def test_every_field_of_the_sdk_is_classified() -> None:
    schema = read_azure_schema()
    unread = {
        f"{type_name}.{name}"
        for type_name, fields in FIELDS.items()
        for name in schema["types"][type_name]
        if name not in fields.read and name not in fields.without_influence
    }
    assert unread == set()


def test_lists_have_types_of_the_sdk_and_reasons_only() -> None:
    schema = read_azure_schema()
    assert schema["types"].keys() >= FIELDS.keys()
    for name in KNOWN_VALUES:
        type_name, _, field = name.partition(".")
        enum = schema["enums"].get(schema["types"][type_name][field])
        # The SDK lists no values of some texts.
        assert enum is None or set(enum) > KNOWN_VALUES[name]
    for fields in (ENVELOPE, *FIELDS.values()):
        assert all(fields.without_influence.values())
        assert not fields.read & fields.without_influence.keys()


def test_types_behind_read_fields_have_a_list() -> None:
    types = read_azure_schema()["types"]
    missing = {
        (type_name, name)
        for type_name, fields in FIELDS.items()
        for name in fields.read
        if types[type_name].get(name, "").lstrip("[{") in types.keys() - FIELDS.keys()
    }
    assert missing == set()


def test_recorded_export_has_no_unread_field(capfd: pytest.CaptureFixture[str]) -> None:
    import_site(capfd)
    grow()
    document, text = plan(capfd)
    assert "unread" not in document
    assert "Not read" not in text
    assert any(row["certainty"] is not None for row in document["placement_changes"])


@pytest.mark.of_domains("whatif")
def test_simulations_name_unread_facts(capfd: pytest.CaptureFixture[str]) -> None:
    edit(MACHINES, takesNewVms="later")
    import_site(capfd)
    clause = "hosts of VMs are uncertain and the capacity is uncertain."
    plan(capfd)
    for options in ((), ("-plan=p.nfplan",)):
        assert clause in run(capfd, "simulate", "capacity", *options)
        run(capfd, "simulate", "capacity", "-report=json:a.json", "-report=markdown:a.md", *options)
        [warning] = json.loads(Path("a.json").read_text())["warnings"]
        assert "takesNewVms of machine" in warning
        assert clause in Path("a.md").read_text()


def test_explanations_name_unread_facts(capfd: pytest.CaptureFixture[str]) -> None:
    import_site(capfd)
    address, name = "nexus_kubernetes_cluster.ssh-test-3d38", "ssh-test-3d38-sys-pool1-0"
    assert "uncertain" not in run(capfd, "explain", address, name)
    edit(MACHINES, takesNewVms="later")
    run(capfd, "apply", "-refresh-only", "-auto-approve")
    text = run(capfd, "explain", address, name)
    assert "This choice is uncertain: nexusform did not read takesNewVms of machine" in text
    document = json.loads(run(capfd, "explain", "-format=json", address, name))
    assert any("did not read" in fact for fact in document["facts"])


def test_recorded_unread_facts_are_no_change_of_the_next_refresh(
    capfd: pytest.CaptureFixture[str],
) -> None:
    import_site(capfd)
    edit(MACHINES, takesNewVms="later")
    refresh = ("plan", "-refresh-only", "-detailed-exitcode")
    run(capfd, *refresh, code=2)
    run(capfd, "apply", "-refresh-only", "-auto-approve")
    run(capfd, *refresh)


@pytest.mark.of_domains("whatif")
def test_simulation_names_missing_lists(capfd: pytest.CaptureFixture[str]) -> None:
    Path("export/virtual_machines.json").unlink()
    import_site(capfd)
    fact = "virtual machines of site dev08-0a105e4eb74b; the order of VMs is uncertain"
    assert fact in run(capfd, "simulate", "capacity")
    grow()
    _, text = plan(capfd, "-refresh=false")
    assert fact in text
    plan(capfd)
    document = "simulate", "capacity", "-plan=p.nfplan", "-report=json:a.json"
    assert "their capacity counts as free" in run(capfd, *document)
    incomplete, unread = json.loads(Path("a.json").read_text())["warnings"]
    assert "no complete list of virtual machines" in incomplete
    assert fact in unread
    # A complete list removes the fact.
    Path("export/virtual_machines.json").write_text("[]")
    run(capfd, "apply", "-refresh-only", "-auto-approve")
    assert "virtual machines of site" not in run(capfd, "simulate", "capacity")


def test_unread_field_makes_the_plan_after_an_import_uncertain(
    capfd: pytest.CaptureFixture[str],
) -> None:
    edit(MACHINES, takesNewVms="later")
    text = import_site(capfd)
    assert "nexusform did not read takesNewVms of machine" in text
    assert ": hosts are uncertain and capacity is uncertain" in text
    grow()
    document, text = plan(capfd)
    (fact,) = document["unread"]
    assert fact["field"] == "takesNewVms"
    assert fact["may_change"] == ["placement", "capacity"]
    assert fact["file"] == "export/bare_metal_machines.json"
    line = fact["line"]
    assert "takesNewVms" in MACHINES.read_text().splitlines()[line - 1]
    assert f"(export/bare_metal_machines.json:{line}); hosts of VMs are uncertain" in text
    assert all(row["certainty"] is None for row in document["placement_changes"])
    assert document["decision"]["confidence"]["exact_rack_counts"] == 0
    for guard_rail in ("certainty:0", "capacity:0"):
        text = run(capfd, "plan", f"-fail-on={guard_rail}", "-samples=20", code=1)
        assert "takesNewVms of machine" in text


def test_null_in_a_list_of_known_values_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    import_site(capfd)
    edit(MACHINES, machineRoles=[None])
    text = run(capfd, "plan", code=1)
    assert "export/bare_metal_machines.json, value[0].properties.machineRoles: expected" in text


def test_fact_follows_the_export_of_a_provider(capfd: pytest.CaptureFixture[str]) -> None:
    import_site(capfd)
    document, text = plan(capfd)
    assert "unread" not in document
    assert "No changes." in text
    assert "Not read" not in text
    edit(CLUSTERS, rebalancing="Weekly")
    document, text = plan(capfd)
    assert [fact["subject"] for fact in document["unread"]] == ["cluster ssh-test-3d38"]
    assert "Not read: rebalancing of cluster ssh-test-3d38" in text
    shutil.copytree(SITE, "export", dirs_exist_ok=True)
    document, text = plan(capfd)
    assert "unread" not in document


def test_unread_field_of_a_data_source_concerns_every_site(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path("main.nf.hcl").write_text(
        """
data "nexus_inventory" "i" { directory = "export" }
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  name          = "rack1"
  machine_count = length(data.nexus_inventory.i.machines)
}
resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.s.id
  cpu_cores  = 2
  memory_gib = 4
  disk_gib   = 20
}
"""
    )
    document, _ = plan(capfd)
    assert document["placement_changes"][0]["certainty"] is not None
    edit(CLUSTERS, rebalancing="Weekly")
    document, _ = plan(capfd)
    assert [fact["field"] for fact in document["unread"]] == ["rebalancing"]
    assert document["placement_changes"][0]["certainty"] is None


@pytest.mark.parametrize(
    ("path", "values", "field", "reason"),
    [
        (CLUSTERS, {"detailedStatus": "Dreaming"}, "detailedStatus", "Dreaming"),
        (CLUSTERS, {"networkConfiguration": 3}, "networkConfiguration", "it is the number 3"),
        (MACHINES, {"machineRoles": ["Platform=Edge"]}, "machineRoles", "Platform=Edge"),
        (MACHINES, {"apiVersion": "2031-01-01"}, "apiVersion", "2031-01-01"),
    ],
)
def test_unknown_value_is_an_unread_fact(
    path: Path, values: dict[str, Any], field: str, reason: str
) -> None:
    document = json.loads(path.read_text())
    document["value"][0] |= values if field == "apiVersion" else {}
    document["value"][0]["properties"] |= {} if field == "apiVersion" else values
    (site,), _ = read_sites({path.stem: [(path.name, json.dumps(document).encode())]})
    facts = {(fact.field, reason in fact.reason) for fact in site.inventory.unread}
    assert facts == {(field, True)}


def test_vm_that_is_off_is_an_unread_fact() -> None:
    document = json.loads(CLUSTERS.read_text())
    document["value"][0]["properties"]["nodes"][0]["powerState"] = "Off"
    (site,), _ = read_sites({CLUSTERS.stem: [("c.json", json.dumps(document).encode())]})
    assert [fact.field for fact in site.inventory.unread] == ["nodes.powerState"]


def test_finding_about_another_field_of_the_only_line_hides_no_warning() -> None:
    items = json.loads(MACHINES.read_text())["value"]
    items[0]["properties"] |= {"takesNewVms": "later", "powerState": 7}
    documents = {MACHINES.stem: [("m.json", json.dumps(items).encode())]}
    documents["racks"] = [("racks.json", Path("export/racks.json").read_bytes())]
    _, findings = read_sites(documents)
    texts = [finding.detail for finding in findings]
    assert any("takesNewVms of machine" in text for text in texts), texts
    # The value with a finding has no second one.
    assert not any("powerState of machine" in text for text in texts), texts


def test_unknown_type_of_the_provider_may_hold_vms() -> None:
    machines = json.loads(MACHINES.read_text())["value"]
    thing = {
        "id": "/x/providers/Microsoft.NetworkCloud/fleetPools/a",
        "type": "Microsoft.NetworkCloud/fleetPools",
        "name": "a",
    }
    text = json.dumps([*machines, thing, {**thing, "type": "Microsoft.Storage/accounts"}])
    (site,), _ = read_sites({"any": [("all.json", text.encode())]})
    (fact,) = site.inventory.unread
    assert (fact.subject, fact.field, fact.consequence) == (
        "resource a",
        "type",
        "the number of VMs is uncertain",
    )


def test_list_entry_that_is_dropped_changes_the_plan(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import_site(capfd)
    grow()
    document, _ = plan(capfd)
    assert "unread" not in document
    fields = FIELDS["KubernetesClusterNode"]
    monkeypatch.setitem(
        azure_fields.FIELDS,  # type: ignore[arg-type]
        "KubernetesClusterNode",
        replace(fields, read=fields.read - {"role"}),
    )
    document, _ = plan(capfd)
    assert {fact["field"] for fact in document["unread"]} == {"nodes.role"}
    assert all(row["certainty"] is None for row in document["placement_changes"])


def list_scalar_paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Any]:
    """List the paths of the scalars of a document that Azure writes; keys of tags are free."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from list_scalar_paths(part, (*path, name))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from list_scalar_paths(part, (*path, index))
    elif value is not None:
        yield path


def read_documents(directory: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))}


def read_findings(documents: dict[str, Any]) -> list[Any]:
    encoded = {
        kind: [(f"{kind}.json", json.dumps(document).encode())]
        for kind, document in documents.items()
    }
    return list(read_sites(encoded)[1])


@pytest.mark.parametrize("directory", sorted(CASES.iterdir()), ids=lambda path: path.name)
def test_every_broken_scalar_of_a_recorded_export_has_a_finding(directory: Path) -> None:
    documents = read_documents(directory)
    paths = [
        (kind, path) for kind, document in documents.items() for path in list_scalar_paths(document)
    ]
    before = set(read_findings(documents))
    draw = random.Random(84)
    silent = []
    for kind, path in draw.sample(paths, min(SAMPLE, len(paths))):
        *steps, last = path
        owner = documents[kind]
        for step in steps:
            owner = owner[step]
        value = owner[last]
        another_scalar = 7 if isinstance(value, str) else "x"
        owner[last] = draw.choice([[{"broken": True}], {"broken": 1}, another_scalar])
        new = [finding for finding in read_findings(documents) if finding not in before]
        owner[last] = value
        if not new:
            silent.append((kind, path))
    assert silent == []


def test_page_justifies_thirty_fields_of_the_lists() -> None:
    page = (Path(__file__).parents[4] / "docs" / "unread-facts.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    names = {row[1].strip(" `") for row in rows if row[1].count(".") == 1}
    listed = {
        f"{type_name}.{name}"
        for type_name, fields in FIELDS.items()
        for name in fields.without_influence
    }
    assert len(names & listed) >= 30
    assert f"{len(listed)} fields of Azure's resources" in page


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("provisioningState", "Deleting", 'an operation is in progress: "Deleting"'),
        ("provisioningState", "Rebuilding", 'an operation is in progress: "Rebuilding"'),
        ("provisioningState", "succeeded", ""),
        ("detailedStatus", "Terminating", 'it leaves its machine: "Terminating"'),
        ("detailedStatus", "Dreaming", 'the effect of the value "Dreaming" is not known'),
        ("powerState", "Off", 'it may start on another machine: "Off"'),
        ("powerState", "On", ""),
    ],
)
def test_reason_says_what_a_value_means(field: str, value: str, reason: str) -> None:
    body = {"id": "/x/virtualMachines/v", "name": "v", "properties": {field: value}}
    item = ArmItem(Origin("vms.json", (), ()), body, [])
    reasons = [located.fact.reason for located in find_unread_facts("virtual_machines", [item])]
    assert reasons == ([reason] if reason else [])
