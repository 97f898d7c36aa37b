"""Tests of `export`: `predict` of its output gives the plan's own placements."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domain_table import find_domains
from nexusform.domains.azure.rendering.az_script import ARGUMENTS
from nexusform.domains.azure.rendering.azure_objects import CLUSTER
from tests.kill_points import select_cases
from tests.rendering.real_plans import NEEDS, of_examples

EXAMPLES = Path(__file__).parents[4] / "examples"
GROUP = "/subscriptions/s/resourceGroups/tenant"
LOCATION = (
    "/subscriptions/s/resourceGroups/managed/providers/Microsoft.ExtendedLocation"
    "/customLocations/here"
)
MANAGED = "/subscriptions/s/resourceGroups/managed/providers/Microsoft.NetworkCloud"
# Every example with clusters, and the planned directory.
WITH_CLUSTERS = {
    "quickstart": "",
    "nexus-document": "",
    "inventory": "",
    "end-to-end": "",
    "separation": "",
    "three-sites": "sites/london",
    "real-nodes": "",
    "terraform-plan": "",
}
# Examples with VMs but without a comparison of their export, and the reasons.
NOT_COMPARED = {
    "brownfield": "a running site: nothing is before it is changed (below)",
    "every-type": "a VM SKU of its own and a hint on a cluster, which Azure does not know",
    "hardware-aware": "only VNFs, which their VNF manager makes",
    "openstack-tacker": "only a VNF, on OpenStack",
}
HARDWARE = {"bom-1.7.3": "VNearEdge1_Compute_DellR750", "bom-2.0": "VNearEdge4_Compute_DellR760"}


@pytest.fixture(scope="module")
def planned_examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Plan each example in its own copy."""
    planned: dict[str, Path] = {}
    there = {
        name: place
        for name, place in WITH_CLUSTERS.items()
        if NEEDS.get(name, set()) <= set(find_domains())
    }
    for name, directory in there.items():
        root = tmp_path_factory.mktemp(name) / name
        shutil.copytree(EXAMPLES / name, root, ignore=shutil.ignore_patterns("state", ".nexusform"))
        place = root / directory
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(place)
            more = ["-var=apart=true"] if name == "separation" else []
            assert (
                run_command_line(
                    ["plan", *more, "-out=p.nfplan", "-samples=0", "-report=json:p.json"]
                )
                == 0
            )
        planned[name] = place
    return planned


def list_new_placements(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        row["object"]: row["to"]
        for row in document["placement_changes"]
        if row["kind"] == "vm" and row["action"] != "keep"
    }


# --- the site in the format of `az` --------------------------------------------------------------


def write_inventory(document: Mapping[str, Any]) -> None:
    """Write the racks and machines of a plan in the format of `az ... list`."""
    Path("export").mkdir()
    racks = []
    machines = []
    for change in document["resource_changes"]:
        values = change["change"]["after"]
        if change["type"] == "nexus_rack":
            rack_id = f"{MANAGED}/racks/{values['name']}"
            racks.append(
                {
                    "id": rack_id,
                    "name": values["name"],
                    "availabilityZone": values["availability_zone"],
                    "rackSkuId": f"{MANAGED}/rackSkus/{HARDWARE[values['machine_sku']]}",
                    "extendedLocation": {"name": LOCATION, "type": "CustomLocation"},
                }
            )
            machines += [
                build_machine_body(name, rack_id, one["slot"])
                for name, one in values["machines"].items()
            ]
    Path("export/racks.json").write_text(json.dumps(racks))
    Path("export/bare_metal_machines.json").write_text(json.dumps({"value": machines}))


def build_machine_body(name: str, rack_id: str, slot: int) -> dict[str, Any]:
    states = {"cordonStatus": "Uncordoned", "powerState": "On", "readyState": "True"}
    return {
        "id": f"{MANAGED}/bareMetalMachines/{name}",
        "name": name,
        "extendedLocation": {"name": LOCATION},
        "properties": {
            "rackId": rack_id,
            "rackSlot": slot,
            "machineRoles": ["platform.afo-nc.microsoft.com/compute-plane=true"],
            "detailedStatus": "Provisioned",
            **states,
        },
    }


# --- the configuration in the plan format of Terraform -------------------------------------------


def build_terraform_plan(
    configuration: Mapping[str, Any], location: str, group: str = GROUP
) -> dict[str, Any]:
    """Return the document of `terraform show -json` for a configuration without a state."""
    values = {
        "location": "westeurope",
        "resource_group_id": group,
        "extended_location_id": location,
        "kubernetes_version": "v1.30.3",
        "admin_username": "operator",
        "vm_image": "registry.example/vm:1",
        "cloud_services_network_id": (
            f"{GROUP}/providers/Microsoft.NetworkCloud/cloudServicesNetworks/c"
        ),
    }
    assert set(configuration.get("variable", {})) <= {*values, "cni_network_ids"}
    changes = []
    resources = []
    blocks = configuration["resource"].get("azapi_resource", {})
    for label, block in configuration["resource"].get("azapi_update_resource", {}).items():
        after = {
            name: evaluate_value(part, values)
            for name, part in block.items()
            if name != "depends_on"
        }
        change = {
            "actions": ["create"],
            "before": None,
            "after": after,
            "after_unknown": {"id": True},
        }
        update = {"type": "azapi_update_resource", "name": label, "change": change}
        changes.append({"address": f"azapi_update_resource.{label}", **update})
        needs = {"expressions": {}, "depends_on": block.get("depends_on", [])}
        resources.append({"address": f"azapi_update_resource.{label}", **needs})
    for label in sorted(blocks):
        after = evaluate_value(blocks[label], values)
        unknown = {"id": True, **({} if after["parent_id"] else {"parent_id": True})}
        after = {
            name: part for name, part in after.items() if part is not None and name != "depends_on"
        }
        change = {"actions": ["create"], "before": None, "after": after, "after_unknown": unknown}
        address = f"azapi_resource.{label}"
        changes.append(
            {"address": address, "type": "azapi_resource", "name": label, "change": change}
        )
        references = re.findall(r"\$\{(azapi_resource\.\w+)\.id\}", blocks[label]["parent_id"])
        expressions = {
            "parent_id": {"references": [f"{one}.id" for one in references] + references}
        }
        depends_on = blocks[label].get("depends_on", [])
        resources.append({"address": address, "expressions": expressions, "depends_on": depends_on})
    return {
        "format_version": "1.2",
        "planned_values": {},
        "resource_changes": changes,
        "configuration": {"root_module": {"resources": resources}},
    }


def evaluate_value(value: Any, variables: Mapping[str, str]) -> Any:
    """Return a value with its variables replaced; None if it is known after apply."""
    if isinstance(value, dict):
        return {name: evaluate_value(part, variables) for name, part in value.items()}
    if isinstance(value, list):
        return [evaluate_value(part, variables) for part in value]
    if not isinstance(value, str):
        return value
    if "${azapi_resource." in value:
        return None
    text = re.sub(r"\$\{var\.cni_network_ids\[\"[^\"]+\"\]\}", "a network", value)
    text = re.sub(r"\$\{var\.(\w+)\}", lambda match: variables[match[1]], text)
    assert "${" not in text
    return text


# --- round trip --------------------------------------------------------------------------------


@pytest.fixture
def work_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def export_plan(place: Path, form: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run_command_line(["export", f"-format={form}", str(place / "p.nfplan")]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", of_examples(*WITH_CLUSTERS))
@pytest.mark.usefixtures("work_directory")
def test_prediction_of_export_equals_plan(
    name: str, planned_examples: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((planned_examples[name] / "p.json").read_text())
    location = LOCATION
    if name == "inventory":
        shutil.copytree(EXAMPLES / "inventory" / "export", "export")
        (rack, *_) = json.loads(Path("export/racks.json").read_text())
        location = rack["extendedLocation"]["name"]
    else:
        write_inventory(document)
    written = json.loads(export_plan(planned_examples[name], "azapi", capsys))
    Path("plan.json").write_text(json.dumps(build_terraform_plan(written, location)))
    arguments = ["-inventory=export", "-samples=0", "-report=json:predicted.json"]
    code = run_command_line(["predict", "-terraform-plan=plan.json", *arguments])
    assert code == 0, capsys.readouterr().err
    predicted = json.loads(Path("predicted.json").read_text())
    assert list_new_placements(predicted) == list_new_placements(document)
    assert len(list_new_placements(document)) > 0


def test_every_example_with_vms_is_compared() -> None:
    makers = ("nexus_kubernetes_cluster", "nexus_virtual_machine", "tacker_vnf")
    made = re.compile(rf'^resource "(?:{"|".join(makers)})"|^data "tacker_vnf"', re.MULTILINE)
    texts = [(path, path.read_text()) for path in EXAMPLES.rglob("*.nf.hcl")]
    examples = {path.relative_to(EXAMPLES).parts[0] for path, text in texts if made.search(text)}
    assert examples | {"brownfield"} == WITH_CLUSTERS.keys() | NOT_COMPARED.keys()


@pytest.mark.usefixtures("work_directory")
def test_vm_sku_unknown_to_azure_is_reported(
    planned_examples: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Azure would reject an export with a custom VM SKU."""
    write_inventory(json.loads((planned_examples["quickstart"] / "p.json").read_text()))
    written = export_plan(planned_examples["quickstart"], "azapi", capsys)
    sku = re.search(r'"vmSkuName": "(\w+)"', written)
    assert sku is not None
    changed = json.loads(written.replace(sku[1], "edge"))
    Path("plan.json").write_text(json.dumps(build_terraform_plan(changed, LOCATION)))
    assert (
        run_command_line(
            ["predict", "-terraform-plan=plan.json", "-inventory=export", "-samples=0"]
        )
        == 1
    )
    assert 'has a VM SKU "edge"' in " ".join(capsys.readouterr().err.replace("│", " ").split())


# --- changes and deletions -----------------------------------------------------------------------

SITE = """\
resource "nexus_site" "lab" {}

resource "nexus_rack" "r" {
  count         = 2
  name          = "r${count.index + 1}"
  site_id       = nexus_site.lab.id
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "z" {
  site_id = nexus_site.lab.id
  name    = "z"

  control_plane {
    count       = 3
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "p" {
    count              = 2
    vm_sku_name        = "NC_P22_112_v1"
    availability_zones = ["r1", "r2"]
    labels             = { "team" = "it's ours" }
    taint {
      key    = "only"
      value  = "true"
      effect = "NoSchedule"
    }
  }
}

resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.lab.id
  name    = "a"

  control_plane {
    count       = 3
    vm_sku_name = "NC_G6_28_v1"
  }
}

resource "nexus_agent_pool" "q" {
  kubernetes_cluster_id = nexus_kubernetes_cluster.z.id
  name                  = "q"
  node_count            = 3
  vm_sku_name           = "NC_G6_28_v1"
}

resource "nexus_virtual_machine" "jump" {
  site_id    = nexus_site.lab.id
  name       = "jump"
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 64
  placement_hint {
    hint_type            = "AntiAffinity"
    resource_id          = nexus_rack.r[0].id
    scheduling_execution = "Hard"
    scope                = "Rack"
  }
}
"""


def plan_configuration(text: str) -> None:
    Path("main.nf.hcl").write_text(text)
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=0", "-report=json:p.json"]) == 0


def build_grown_site() -> str:
    text = SITE.replace("count              = 2", "count              = 4")
    text = text.replace('name                  = "q"', 'name                  = "other"')
    return re.sub(r'resource "nexus_kubernetes_cluster" "a" \{.*?\n\}\n', "", text, flags=re.DOTALL)


def test_creation_order_is_kept(work_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan_configuration(SITE)
    blocks = json.loads(export_plan(work_directory, "azapi", capsys))["resource"]["azapi_resource"]
    assert list(blocks) == ["z", "a", "z_q", "jump"]
    assert [block.get("depends_on") for block in blocks.values()] == [
        None,
        ["azapi_resource.z"],
        ["azapi_resource.a"],
        ["azapi_resource.z_q"],
    ]
    assert blocks["z_q"]["parent_id"] == "${azapi_resource.z.id}"
    (pool,) = blocks["z"]["body"]["properties"]["initialAgentPoolConfigurations"]
    assert pool["taints"] == [{"key": "only", "value": "true:NoSchedule"}]
    (hint,) = blocks["jump"]["body"]["properties"]["placementHints"]
    assert hint["resourceId"] == '${var.resource_ids["lab/r1"]}'


def test_hugepages_become_agent_options(
    work_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for amounts, options in (
        (
            '{ "hugepages-1Gi" = ["2Gi", "1Gi"], "example.com/gpu" = 1 }',
            {"hugepagesCount": 3, "hugepagesSize": "1G"},
        ),
        ('{ "hugepages-2Mi" = "1Gi" }', {"hugepagesCount": 512, "hugepagesSize": "2M"}),
        ("{ gpu = 0 }".replace("gpu", '"example.com/gpu"'), None),
    ):
        kubelet = f"kubelet {{\n extended_resources = {amounts}\n }}\n  taint {{"
        plan_configuration(SITE.replace("taint {", kubelet, 1))
        blocks = json.loads(export_plan(work_directory, "azapi", capsys))["resource"][
            "azapi_resource"
        ]
        (pool,) = blocks["z"]["body"]["properties"]["initialAgentPoolConfigurations"]
        assert pool.get("agentOptions") == options


@pytest.mark.usefixtures("work_directory")
@pytest.mark.parametrize("form", ["azapi", "az"])
def test_hugepages_that_azure_cannot_provide_are_not_exported(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def declare_pages(amount: str) -> str:
        kubelet = (
            f'kubelet {{\n extended_resources = {{ "hugepages-1Gi" = "{amount}" }}\n }}\n  taint {{'
        )
        return SITE.replace("taint {", kubelet, 1)

    plan_configuration(declare_pages("512Mi"))
    assert run_command_line(["export", f"-format={form}", "p.nfplan"]) == 1
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert (
        "declares 512 MiB of hugepages-1Gi. Azure takes hugepages of one size in whole pages"
        in told
    )
    assert run_command_line(["apply", "-auto-approve"]) == 0
    # An unchanged object is not exported.
    plan_configuration(declare_pages("512Mi"))
    assert run_command_line(["export", f"-format={form}", "p.nfplan"]) == 0
    plan_configuration(declare_pages("1Gi"))
    assert run_command_line(["export", f"-format={form}", "p.nfplan"]) == 1
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "Azure cannot change the hugepages of the pool" in told


def test_changes_are_exported_and_deletions_are_reported(
    work_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    plan_configuration(build_grown_site())
    capsys.readouterr()
    assert run_command_line(["export", "-format=azapi", "p.nfplan"]) == 0
    told = capsys.readouterr()
    resources = json.loads(told.out)["resource"]
    assert list(resources["azapi_resource"]) == ["z_other"]
    (update,) = resources["azapi_update_resource"].values()
    assert update["body"] == {"properties": {"count": 4}}
    assert update["parent_id"].endswith("/providers/Microsoft.NetworkCloud/kubernetesClusters/z")
    assert "removing a, removing z/q" in " ".join(told.err.replace("│", " ").split())
    script = export_plan(work_directory, "az", capsys)
    assert "agentpool update" in script
    assert "--count 4" in script
    assert "kubernetescluster delete" in script


def test_prediction_of_change_equals_plan(
    work_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Existing VMs are in the inventory without their cells, so machines are compared."""
    text = SITE.replace('"jump" {', '"hop" {').replace("count         = 2", "count         = 3")
    text = re.sub(r"  placement_hint \{.*?\n  \}\n", "", text, flags=re.DOTALL)
    first = re.sub(
        r'resource "nexus_(agent_pool|virtual_machine)".*?\n\}\n', "", text, flags=re.DOTALL
    )
    Path("main.nf.hcl").write_text(first)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert run_command_line(["plan", "-report=json:standing.json"]) == 0
    plan_configuration(text.replace("count              = 2", "count              = 5"))
    document = json.loads(Path("p.json").read_text())
    write_inventory(document)
    write_clusters(document)
    configuration = json.loads(export_plan(work_directory, "azapi", capsys))
    Path("plan.json").write_text(json.dumps(build_terraform_plan(configuration, LOCATION)))
    arguments = ["-terraform-plan=plan.json", "-inventory=export", "-report=json:predicted.json"]
    assert run_command_line(["predict", "-samples=0", *arguments]) == 0, capsys.readouterr().err
    predicted = list_new_placements(json.loads(Path("predicted.json").read_text()))
    expected = list_new_placements(document)
    assert len(expected) == 3 + 3 + 1
    assert {name: one["machine"] for name, one in predicted.items()} == {
        name: one["machine"] for name, one in expected.items()
    }


DYNAMIC = """
  dynamic "machine_override" {
    for_each = count.index == 0 ? { "r1-bm01" = false, "r1-bm02" = true } : {}
    labels   = [machine_override.key]
    content {
      cordoned = !machine_override.value
      evacuate = machine_override.value
    }
  }
"""


def test_cordons_and_evacuations_are_exported(
    work_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    rack = SITE.replace("  machine_count = 4\n", f"  machine_count = 4\n{DYNAMIC}")
    plan_configuration(rack)
    script = export_plan(work_directory, "az", capsys)
    assert script.count("az networkcloud baremetalmachine cordon") == 2
    assert script.count("--evacuate True") == 1
    assert (
        '--name r1-bm02 \\\n  --resource-group "$MACHINES_RESOURCE_GROUP" \\\n  --evacuate True'
        in script
    )
    assert run_command_line(["export", "-format=azapi", "p.nfplan"]) == 0
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "cordoning r1-bm01, evacuating r1-bm02" in told
    assert run_command_line(["apply", "-auto-approve"]) == 0
    plan_configuration(SITE)
    assert (
        export_plan(work_directory, "az", capsys).count("az networkcloud baremetalmachine uncordon")
        == 2
    )


FRESH = """
resource "nexus_kubernetes_cluster" "fresh" {
  provider           = azure_export
  site_id            = nexus_site.par1.id
  name               = "fresh"
  kubernetes_version = "v1.29.4"

  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }

  agent_pool "w" {
    count       = 6
    vm_sku_name = "NC_P22_112_v1"
  }
}

resource "nexus_agent_pool" "more" {
  provider              = azure_export
  kubernetes_cluster_id = nexus_kubernetes_cluster.core-amf.id
  name                  = "more"
  node_count            = 2
  vm_sku_name           = "NC_G12_56_v1"
}
"""


@pytest.fixture(scope="module")
def running_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the imported running site with a growing pool core-amf/amf."""
    root = tmp_path_factory.mktemp("running") / "site"
    shutil.copytree(EXAMPLES / "brownfield", root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert run_command_line(["import", "-from=export", "-generate-config-out=site.nf.hcl"]) == 0
        text = Path("site.nf.hcl").read_text()
        grown = re.sub(r'(agent_pool "amf" \{\n    count +=) 24', r"\1 26", text)
        assert grown != text
        Path("site.nf.hcl").write_text(grown)
    return root


@pytest.mark.parametrize("file", select_cases(["fresh.nf.hcl", "the-rest.nf.hcl"]))
@pytest.mark.usefixtures("running_site_copy")
def test_prediction_of_several_changes_equals_plan(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """New objects precede or follow growing ones in the order of their files."""
    Path(file).write_text(FRESH)
    expected, predicted = compare_plan_with_prediction(capsys)
    assert len(expected) == 2 + 9 + 2
    assert predicted == expected


CORE_SMF = re.compile(r'resource "nexus_kubernetes_cluster" "core-smf" \{.*?\n\}\n', re.DOTALL)
SMF = r'(agent_pool "smf" \{\n    count +=) \d+'
# A scale-in, a scale-out, another version and a larger control plane, each of another
# cluster or pool.
CHANGES = (
    (r'(agent_pool "amf" \{\n    count +=) 26', r"\1 19"),
    (SMF, r"\1 21"),
    (
        r'(name +=) "lab"\n  kubernetes_version = "[^"]+"',
        r'\1 "lab"\n  kubernetes_version = "v1.30.1"',
    ),
    (r'(name += "core-amf"[^{]*\{\n    count +=) 3', r"\1 5"),
)


@pytest.mark.usefixtures("running_site_copy")
def test_prediction_of_running_site_changes_equals_plan(capsys: pytest.CaptureFixture[str]) -> None:
    change_site(CHANGES)
    expected, predicted = compare_plan_with_prediction(capsys)
    assert expected
    assert predicted == expected


def change_site(changes: tuple[tuple[str, str], ...]) -> None:
    site = Path("site.nf.hcl")
    for pattern, by in changes:
        changed = re.sub(pattern, by, site.read_text())
        assert changed != site.read_text(), pattern
        site.write_text(changed)


ANEW = (('"par1.example/pool" = "amf"', '"par1.example/pool" = "amf2"'),)


@pytest.mark.parametrize("form", ["azapi", "az"])
@pytest.mark.usefixtures("running_site_copy")
def test_export_of_incomplete_bodies_is_rejected_by_name(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A complete body would lack the networks and keys of imported objects.

    They are not arguments.
    """
    change_site(ANEW)
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=0"]) == 0
    capsys.readouterr()
    assert run_command_line(["export", f"-format={form}", "p.nfplan"]) == 1
    captured = capsys.readouterr()
    words = "core-amf/amf: would be re-created without properties"
    told = " ".join(captured.err.replace("│", " ").split())
    assert "does not set tags, " in told
    assert words in told
    assert captured.out == ""


@pytest.mark.usefixtures("running_site_copy")
def test_prediction_for_freed_capacity_equals_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """An export lists the objects to remove first; the prediction runs on the site without them."""
    site = Path("site.nf.hcl")
    site.write_text(CORE_SMF.sub("", site.read_text()) + FRESH)
    shutil.copytree("export", "after")
    clusters = Path("after/kubernetes_clusters.json")
    left = [one for one in json.loads(clusters.read_text()) if one["name"] != "core-smf"]
    clusters.write_text(json.dumps(left))
    for file in Path("after").glob("*.core-smf.json"):
        file.unlink()
    expected, predicted = compare_plan_with_prediction(capsys, "after")
    gone = {name for name in expected if name.startswith("core-smf-")}
    assert len(gone) > 20
    assert all(expected[name] is None for name in gone)
    assert predicted == {name: place for name, place in expected.items() if name not in gone}


@pytest.fixture
def running_site_copy(running_site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(running_site, tmp_path / "site")
    monkeypatch.chdir(tmp_path / "site")


def compare_plan_with_prediction(
    capsys: pytest.CaptureFixture[str], inventory: str = "export"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the placements of a plan, and the placements predicted for its export."""
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=0", "-report=json:p.json"]) == 0
    written = json.loads(export_plan(Path(), "azapi", capsys))
    (first, *_) = json.loads(Path("export/kubernetes_clusters.json").read_text())
    group = first["id"].partition("/providers/")[0]
    location = first["extendedLocation"]["name"]
    Path("plan.json").write_text(json.dumps(build_terraform_plan(written, location, group)))
    arguments = [f"-inventory={inventory}", "-samples=0", "-report=json:predicted.json"]
    assert run_command_line(["predict", "-terraform-plan=plan.json", *arguments]) == 0, (
        capsys.readouterr().err
    )
    planned, predicted = (
        json.loads(Path(name).read_text()) for name in ("p.json", "predicted.json")
    )
    return list_new_placements(planned), list_new_placements(predicted)


def write_clusters(document: Mapping[str, Any]) -> None:
    """Write the clusters before a plan.

    The format is that of `az networkcloud kubernetescluster list`.
    """
    bodies = []
    for change in document["resource_changes"]:
        values = change["change"]["before"]
        if change["type"] != "nexus_kubernetes_cluster" or values is None:
            continue
        cluster_id = f"{GROUP}/providers/Microsoft.NetworkCloud/kubernetesClusters/{values['name']}"
        plane = values["control_plane"]
        nodes = []
        for name, node in values["nodes"].items():
            made = {"name": name, "vmSkuName": node["vm_sku_name"]}
            made["bareMetalMachineId"] = f"{MANAGED}/bareMetalMachines/{node['machine']}"
            made["role"] = node["role"]
            if node["role"] == "Worker":
                made["agentPoolId"] = f"{cluster_id}/agentPools/{node['pool']}"
            nodes.append(made)
        bodies.append(
            {
                "id": cluster_id,
                "name": values["name"],
                "extendedLocation": {"name": LOCATION},
                "systemData": {"createdAt": f"2025-01-{len(bodies) + 1:02}T00:00:00Z"},
                "controlPlaneNodeConfiguration": {
                    "count": plane["count"],
                    "vmSkuName": plane["vm_sku_name"],
                },
                "initialAgentPoolConfigurations": [
                    {"name": name, **build_pool_body(pool)}
                    for name, pool in values["agent_pool"].items()
                ],
                "nodes": nodes,
            }
        )
    Path("export/kubernetes_clusters.json").write_text(json.dumps(bodies))


def build_pool_body(pool: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "count": pool["count"],
        "vmSkuName": pool["vm_sku_name"],
        "mode": pool["mode"],
        "availabilityZones": pool["availability_zones"] or [],
        "labels": [{"key": key, "value": value} for key, value in (pool["labels"] or {}).items()],
        "taints": [
            {"key": one["key"], "value": f"{one['value']}:{one['effect']}"} for one in pool["taint"]
        ],
    }


@pytest.mark.parametrize("text", [SITE, SITE.replace('"it\'s ours"', '"$HOME `id` \\"x\\" it\'s"')])
def test_az_script_runs_in_a_shell(
    text: str, work_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_configuration(text)
    Path("run.sh").write_text(export_plan(work_directory, "az", capsys))
    Path("az").write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$*" >> seen\n')
    Path("az").chmod(0o755)
    names = re.findall(r'"\$\{(\w+):\?', Path("run.sh").read_text())
    environment = {"PATH": f"{work_directory}:/usr/bin:/bin", **dict.fromkeys(names, "value")}
    refused = subprocess.run(
        ["bash", "run.sh"], env={"PATH": environment["PATH"]}, capture_output=True, check=False
    )
    assert refused.returncode != 0
    assert not Path("seen").exists()
    subprocess.run(["bash", "run.sh"], env=environment, check=True)
    lines = Path("seen").read_text().splitlines()
    assert len(lines) == 4
    shown = "it'/s ours" if text is SITE else '$HOME `id` "x" it\'/s'
    assert f"labels:[{{key:team,value:'{shown}'}}]" in lines[0]
    assert "availability-zones:[r1,r2]" in lines[0]


# --- the fleet ---------------------------------------------------------------------------------


@pytest.mark.of_domains("fleet")
def test_placements_round_trip(work_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(EXAMPLES / "end-to-end", "e")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir("e")
        assert run_command_line(["plan", "-out=p.nfplan", "-samples=0", "-report=json:p.json"]) == 0
    documents = export_plan(work_directory / "e", "manifests", capsys).split("---\n")[1:]
    before = json.loads(Path("e/p.json").read_text())
    placement = [one for one in documents if "kind: ClusterResourcePlacement" in one]
    assert len(placement) == 2
    assert sum("kind: MemberCluster" in one for one in documents) == 3
    text = Path("e/fleet.nf.hcl").read_text()
    start = text.index("# Every cluster with five")
    end = text.index('output "clusters_of_web"')
    blocks = "".join(
        (
            f'resource "fleet_cluster_resource_placement" "{name}" {{\n  manifest = <<-EOT\n'
            f"{one}EOT\n}}\n"
        )
        for name, one in zip(("web", "batch"), placement, strict=True)
    )
    Path("e/fleet.nf.hcl").write_text(text[:start] + blocks + text[end:])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir("e")
        assert run_command_line(["plan", "-out=p.nfplan", "-samples=0", "-report=json:p.json"]) == 0
    after = json.loads(Path("e/p.json").read_text())
    assert list_binding_changes(after) == list_binding_changes(before)


READ_BACK = """
data "kubernetes_manifests" "hub" {
  files = ["out.yaml"]
}
output "kinds" {
  value = { for name, each in data.kubernetes_manifests.hub : name => try(keys(each), []) }
}
"""
MEMBER = """
resource "fleet_member_cluster" "m" {
  name   = "m"
  labels = { ring = "1" }
  taint {
    key   = "drained"
    value = "yes"
  }
}
resource "fleet_cluster_resource_placement" "loose" {
  lenient  = true
  manifest = <<-EOT
    apiVersion: placement.kubernetes-fleet.io/v1beta1
    kind: ClusterResourcePlacement
    metadata:
      name: loose
    spec:
      resourceSelectors:
        - {group: "", version: v1, kind: Namespace, name: shop}
      policy:
        placementType: PickAll
        affinity:
          clusterAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              clusterSelectorTerms:
                - labelSelector:
                    matchLabels:
                      ring: 1
  EOT
}
"""


@pytest.mark.of_domains("fleet", "vnf")
@pytest.mark.usefixtures("work_directory")
def test_fleet_objects_are_exported_and_others_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(EXAMPLES / "every-type", "e")
    Path("e/member.nf.hcl").write_text(MEMBER)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir("e")
        assert (
            run_command_line(
                ["plan", "-out=p.nfplan", "-exclude=fleet_placement_eviction.shop_leaves_paris"]
            )
            == 0
        )
        capsys.readouterr()
        assert run_command_line(["export", "-format=manifests", "p.nfplan"]) == 0
        out, said = capsys.readouterr()
    documents = out.split("---\n")[1:]
    (member,) = (one for one in documents if "name: m\n" in one)
    assert "key: drained\n    value: 'yes'\n    effect: NoSchedule" in member
    (loose,) = (one for one in documents if "name: loose" in one)
    assert "ring: '1'" in loose
    assert "clusterSelectorTerms: []" in out
    for unsaid in ("fleet_cluster_approval_request.shop", "fleet_member_cluster.paris"):
        assert unsaid in said
    assert "fleet_cluster_staged_update_run.shop" in said
    assert "Apply it once the placement's condition Scheduled is True" in " ".join(
        said.replace("│", "").split()
    )
    Path("back").mkdir()
    whole = [one for one in documents if "kind: MemberCluster" not in one]
    Path("back/out.yaml").write_text("---\n".join(whole))
    Path("back/main.nf.hcl").write_text(READ_BACK)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir("back")
        assert run_command_line(["plan", "-report=json:p.json"]) == 0, capsys.readouterr()
    outputs = json.loads(Path("back/p.json").read_text())["output_changes"]
    kinds = outputs["kinds"]["after"]
    assert {name: names for name, names in kinds.items() if names and name != "hub_objects"} == {
        "cluster_resource_overrides": ["canary"],
        "cluster_resource_placements": ["loose", "shop"],
        "cluster_staged_update_runs": ["shop"],
        "cluster_staged_update_strategies": ["rings"],
        "placement_disruption_budgets": ["shop"],
        "resource_overrides": ["shop/colour"],
        "resource_placements": ["shop/settings"],
        "staged_update_runs": ["shop/settings"],
        "staged_update_strategies": ["shop/slow"],
    }


def list_binding_changes(document: Mapping[str, Any]) -> list[Any]:
    return [
        (r["address"], r["object"], r["to"])
        for r in document["placement_changes"]
        if r["kind"] == "binding"
    ]


@pytest.mark.of_domains("fleet")
def test_node_labels_name_their_machines(
    work_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_configuration(
        SITE.replace(
            'name    = "z"', 'name    = "z"\n  hardware_label_keys = ["rack.example/host"]'
        )
    )
    script = export_plan(work_directory, "node-labels", capsys)
    assert script.startswith("#!/usr/bin/env bash\n# Written by nexusform")
    assert "\nset -euo pipefail\n" in script
    places = list_new_placements(json.loads(Path("p.json").read_text()))
    for name in ("z-p-0", "z-p-1"):
        label = f"rack.example/host={places[name]['machine']}"
        assert f"kubectl --context z label node {name} --overwrite {label}" in script
    assert "control-plane" not in script


@pytest.mark.usefixtures("work_directory")
def test_plan_without_exportable_data_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    plan_configuration('resource "nexus_site" "lab" {}\n')
    capsys.readouterr()
    assert run_command_line(["export", "-format=az", "p.nfplan"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "The plan has no data for -format=az." in told.err
    assert run_command_line(["export", "-format=azapi", "-out=nowhere/x.json", "p.nfplan"]) == 1


BLOCKS = """
variable "key" {
  sensitive = true
  default   = "s3cr3t"
}
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.lab.id
  machine_count = 8
}
resource "nexus_kubernetes_cluster" "c" {
  site_id    = nexus_site.lab.id
  depends_on = [nexus_rack.r]
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "np1" {
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    azure {
      body = { properties = { agentOptions = { hugepagesCount = 8 } } }
    }
  }
  azure {
    resource_group = "tenants"
    body = {
      tags = { team = "core" }
      properties = {
        administratorConfiguration = { adminUsername = "core", sshPublicKeys = [{ keyData = var.key }] }
        networkConfiguration       = { cniNetworkId = "/n/cni" }
      }
    }
  }
}
"""  # noqa: E501


@pytest.mark.parametrize("form", ["azapi", "az"])
def test_azure_blocks_are_exported_without_secrets(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(BLOCKS)
    assert run_command_line(["plan", "-out=p", "-samples=0"]) == 0
    capsys.readouterr()
    assert run_command_line(["export", f"-format={form}", "p"]) == 0
    written = capsys.readouterr().out
    assert "s3cr3t" not in written
    assert "secret" in written.lower()
    assert "/n/cni" in written
    assert "core" in written
    assert "tenants" in written
    if form == "az":
        assert "--resource-group tenants" in written
        assert '--admin-username core \\\n  --ssh-key-values "$SECRET_KEY_DATA_LAB_C"' in written, (
            written
        )
        return
    made = json.loads(written)["resource"]["azapi_resource"]["c"]
    assert made["parent_id"] == "/subscriptions/${var.subscription_id}/resourceGroups/tenants"
    assert made["tags"] == {"team": "core"}
    properties = made["body"]["properties"]
    assert properties["networkConfiguration"]["cniNetworkId"] == "/n/cni"
    assert properties["networkConfiguration"]["cloudServicesNetworkId"]
    assert properties["initialAgentPoolConfigurations"][0]["agentOptions"] == {"hugepagesCount": 8}
    assert properties["initialAgentPoolConfigurations"][0]["count"] == 2


def test_commands_accept_every_flag_of_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written with an argument unknown to the extension.

    It would stop a script after its first steps.
    """
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(BLOCKS)
    assert run_command_line(["plan", "-out=p", "-samples=0"]) == 0
    capsys.readouterr()
    assert run_command_line(["export", "-format=az", "p"]) == 0
    flags = set(re.findall(r"^  --([a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    assert flags <= {"name", "resource-group", *ARGUMENTS[CLUSTER, "create"]}
    Path("main.nf.hcl").write_text(BLOCKS.replace("networkConfiguration ", "bespokeThings ", 1))
    assert run_command_line(["plan", "-out=q", "-samples=0"]) == 0
    capsys.readouterr()
    assert run_command_line(["export", "-format=az", "q"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    told = " ".join(captured.err.replace("│", " ").split())
    assert "has no argument for c: bespoke-things. Nothing was written" in told


def test_unknown_format_is_quoted_as_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["export", "-format=bogus", "p.nfplan"]) == 1
    assert "Invalid value for '-format': 'bogus'" in capsys.readouterr().err
