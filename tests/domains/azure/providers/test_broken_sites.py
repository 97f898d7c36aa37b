"""Tests of real sites with 1 to 6 machines out of service.

No VM is placed there, a scale-out is sent, and each machine recovers.

NEXUSFORM_AZURE_BODIES names a folder with more sites: `sites/NNN` and `clusters/NNN`. Each commit
tests an eighth of the sites, `.ci/crashes` all.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import PROVIDER, ArmServer, Operation, Site
from tests.domains.azure.providers.azure_sites import CommandRunner
from tests.kill_points import select_cases

OWN = Path(__file__).parents[1] / "importers" / "cases" / "azure"
MORE = os.environ.get("NEXUSFORM_AZURE_BODIES", "")
CASES = sorted(
    path for path in (Path(MORE).glob("*/*") if MORE else OWN.iterdir()) if path.is_dir()
)
SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
HOSTED = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/hosted/{PROVIDER}"
LOCATION = (
    "/subscriptions/0/resourcegroups/h/providers/microsoft.extendedlocation/customlocations/lab"
)
FAULTS: dict[str, dict[str, str]] = {
    "off": {"powerState": "Off", "readyState": "False"},
    "not ready": {"readyState": "False"},
    "degraded": {"detailedStatusMessage": "Degraded: port down", "cordonStatus": "Cordoned"},
    "by azure": {"cordonStatus": "Cordoned", "detailedStatusMessage": "Machine is Degraded"},
    "by a colleague": {"cordonStatus": "Cordoned"},
    # The configuration cordons it.
    "by us": {},
}
OVERRIDE = Path("machines_override.nf.hcl")
VM = """resource "nexus_virtual_machine" "NAME" {
  provider   = azure
  site_id    = SITE
  name       = "NAME"
  cpu_cores  = 2
  memory_gib = 4
  disk_gib   = 8
  azure {
    resource_group = "tenants"
    body = {
      location = "eastus"
      extendedLocation = { name = "LOCATION", type = "CustomLocation" }
      properties = {
        vmImage = "images/one", adminUsername = "admin"
        cloudServicesNetworkAttachment = { attachedNetworkId = "/n/csn", ipAllocationMethod = "Dynamic" }
      }
    }
  }
}
"""  # noqa: E501


class RealSite(Site):
    """A site whose machines have the ids of their bodies."""

    def end(self, operation: Operation) -> None:
        super().end(operation)
        vm = self.resources.get(operation.path.lower())
        if vm is not None and "/virtualmachines/" in operation.path.lower():
            name = self.place(vm["name"], 0)
            (machine,) = (
                body for body in self.of_type("bareMetalMachines", "") if body["name"] == name
            )
            vm["properties"]["bareMetalMachineId"] = machine["id"]
            vm["properties"]["clusterId"] = machine["properties"].get("clusterId")


def load_site(server: ArmServer, folder: Path) -> list[dict[str, Any]]:
    """Put the bodies of a case on the server; return its tenant machines."""
    server.site = RealSite()
    # Map short ids of some cases to complete ones.
    ids: dict[str, str] = {}
    # Racks come first.
    for path in sorted(folder.glob("*.json"), reverse=True):
        read = json.loads(path.read_text())
        for body in read["value"] if isinstance(read, dict) else read:
            kind = re.sub(r"_(.)", lambda match: match[1].upper(), path.stem)
            complete = (
                body["id"]
                if body["id"].startswith("/subscriptions/")
                else f"{HOSTED}/{kind}/{body['name']}"
            )
            ids[body["id"]] = ids[body["name"]] = complete
            server.site.put(
                complete, {name: part for name, part in body.items() if name not in ("id", "etag")}
            )
            server.site.resources[complete.lower()]["id"] = complete
    for resource in server.site.resources.values():
        properties = resource["properties"]
        for holder in (properties, *(properties.get("nodes") or ())):
            for name in ("rackId", "bareMetalMachineId"):
                if holder.get(name):
                    holder[name] = ids.get(holder[name], holder[name])
    return [body for path, body in server.site.resources.items() if "/baremetalmachines/" in path]


def is_in_service(machine: dict[str, Any]) -> bool:
    properties = machine["properties"]
    return (
        properties.get("cordonStatus") == "Uncordoned"
        and properties.get("powerState") == "On"
        and properties.get("readyState") == "True"
        and properties.get("detailedStatus") == "Provisioned"
    )


def list_tenant_machines() -> set[str]:
    """Return the names of the machines that run tenant VMs, by their roles in state."""
    state = json.loads(Path("state/nexusform.nfstate").read_text())
    imported = [one for one in state["resources"] if one["type"] == "nexus_bare_metal_machine"]
    values = [instance["attributes"] for one in imported for instance in one["instances"]]
    return {
        value["name"]
        for value in values
        if any("compute-plane" in role for role in value["roles"] or ())
    }


def read_plan(nexusform: CommandRunner) -> dict[str, Any]:
    assert nexusform("plan", "-out=p.nfplan", "-samples=0") == 0, nexusform.said
    assert nexusform("show", "-json", "p.nfplan") == 0
    plan: dict[str, Any] = json.loads(nexusform.text)
    return plan


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", select_cases(CASES), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_plan_and_scale_out_with_broken_machines(
    folder: Path,
    tmp_path: Path,
    nexusform: CommandRunner,
    server: ArmServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "site").mkdir()
    monkeypatch.chdir(tmp_path / "site")
    machines = load_site(server, folder)
    Path("main.nf.hcl").write_text(
        f'provider "azure" {{\n  subscription_id = "{SUBSCRIPTION}"\n}}\n'
    )
    assert nexusform("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, (
        nexusform.said
    )
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert "No changes." in nexusform.said
    seed = sum(map(ord, f"{folder.parent.name}{folder.name}"))
    random = Random(seed)
    tenants = list_tenant_machines()
    healthy = [
        machine for machine in machines if machine["name"] in tenants and is_in_service(machine)
    ]
    count = min(1 + seed % 6, max(len(healthy) - 1, 0))
    broken = {
        machine["name"]: (machine, dict(machine["properties"]), kind)
        for machine, kind in zip(
            random.sample(healthy, count), random.choices(list(FAULTS), k=count), strict=True
        )
    }
    out_before = {row["machine"] for row in read_plan(nexusform)["out_of_service"]}
    for machine, _, kind in broken.values():
        machine["properties"].update(FAULTS[kind])
    ours = {name for name, (_, _, kind) in broken.items() if kind == "by us"}
    if ours:
        cordon(nexusform, ours)
    assert nexusform("plan", "-detailed-exitcode", "-samples=0") == 0, nexusform.said
    assert "No changes." in nexusform.said
    rows = read_plan(nexusform)["out_of_service"]
    out = {row["machine"] for row in rows}
    assert out == out_before | broken.keys(), (out, out_before, broken.keys())
    assert {row["machine"] for row in rows if row["cordoned_by"] == "nexusform"} == ours

    outcome = scale_out(nexusform, server, out)
    print(
        folder.parent.name,
        folder.name,
        f"{len(machines)} machines",
        f"{len(broken)} broken",
        outcome,
    )

    if ours:
        OVERRIDE.unlink()
        assert nexusform("apply", "-auto-approve") == 0, nexusform.said
        assert len([path for _, path in server.site.taken if path.endswith("/uncordon")]) == len(
            ours
        )
    out -= ours
    for machine, before, kind in broken.values():
        if kind == "by us":
            assert machine["properties"]["cordonStatus"] == "Uncordoned"
            continue
        machine["properties"].clear()
        machine["properties"].update(before)
        out.discard(machine["name"])
        assert {row["machine"] for row in read_plan(nexusform)["out_of_service"]} == out
    assert nexusform("plan", "-detailed-exitcode", "-samples=0") == 0, nexusform.said
    assert "No changes." in nexusform.said


def cordon(nexusform: CommandRunner, names: set[str]) -> None:
    """Cordon machines in the configuration."""
    main = Path("main.nf.hcl")
    main.write_text(main.read_text().replace("}\n", "  act_on_machines = true\n}\n"))
    blocks = re.findall(
        r'resource "nexus_bare_metal_machine" "([^"]+)" {[^}]*?\n  name +=  *"([^"]+)"',
        Path("site.nf.hcl").read_text(),
    )
    labels = [label for label, name in blocks if name in names]
    assert len(labels) == len(names)
    text = "".join(
        f'resource "nexus_bare_metal_machine" "{label}" {{\n  cordoned = true\n}}\n'
        for label in labels
    )
    OVERRIDE.write_text(text)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said


def scale_out(nexusform: CommandRunner, server: ArmServer, out: set[str]) -> str:
    """Create a VM on each site with a machine in service; return the result as text."""
    text = Path("site.nf.hcl").read_text()
    sites = re.findall(r'resource "nexus_site" "([^"]+)"', text)
    name = sites[0]
    located = [
        body["extendedLocation"]["name"]
        for body in server.site.resources.values()
        if "extendedLocation" in body
    ]
    vm = VM.replace("SITE", f"nexus_site.{name}.id").replace("LOCATION", [*located, LOCATION][0])
    Path("vm.nf.hcl").write_text("".join(vm.replace("NAME", f"v{number}") for number in range(2)))
    if nexusform("plan", "-samples=0") != 0:
        Path("vm.nf.hcl").unlink()
        reasons = re.findall(r"Error: (.*?)(?= Error: |$)", nexusform.said)
        return f"no plan: {reasons[0][:300] if reasons else nexusform.said[:300]}"
    plan = read_plan(nexusform)
    targets = {
        row["object"]: row["to"]["machine"]
        for row in plan["placement_changes"]
        if row["action"] == "place"
    }
    assert len(targets) == 2
    assert not out & set(targets.values())
    server.site.place = lambda pool, _number: targets[pool]
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    sent = [path for method, path in server.site.taken if method == "PUT" and PROVIDER in path]
    assert len(sent) == 2, server.site.taken
    assert nexusform("plan", "-detailed-exitcode", "-samples=0") == 0, nexusform.said
    assert "No changes." in nexusform.said
    return "sent"
