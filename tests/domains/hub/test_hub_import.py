"""Import objects written by users on a hub; the next plan has no changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nexusform.backends.local_file import LocalBackend
from nexusform.interfaces.state_storage import BackendProblem
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import list_writes, write_configuration
from tests.domains.hub.test_hub_runs import EVICTION, append_configuration

THEIRS = {
    "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "web"},
    "spec": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}],
        "policy": {"placementType": "PickAll"},
    },
}
_MEMBER = """
resource "fleet_member_cluster" "fra1" {
  provider = fleet
  name     = "fra1"
  labels   = { tier = "1" }
}
"""
STAGED = """
resource "fleet_cluster_resource_placement" "staged" {
  provider = fleet
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    placement_type     = "PickN"
    number_of_clusters = 2
  }
  strategy {
    type = "External"
  }
  depends_on = [fleet_hub_manifest.web]
}
"""


def test_placement_awaiting_first_run_is_imported(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    with Path("main.nf.hcl").open("a") as configuration:
        configuration.write(STAGED)
    assert run_command("apply", "-auto-approve")[0] == 0
    shutil.rmtree("state")
    Path("main.nf.hcl").write_text('provider "fleet" {}\ndata "fleet_hub" "hub" {}\n')
    hub.log.clear()
    code, said = run_command("import", "-from=hub", "-generate-config-out=hub.nf.hcl")
    assert code == 0, said
    assert "fleet_cluster_resource_placement.staged" in run_command("state", "list")[1]
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    assert {method for method, *_ in hub.log if method != "PATCH"} == {"GET"}
    assert all(dry for method, _, dry, _ in hub.log if method == "PATCH")


def test_existing_object_of_another_type_needs_import_not_replace(
    hub: Front, run_command: CommandRunner
) -> None:
    hub.put(THEIRS, "kubectl")
    hub.act()
    write_configuration()
    code, said = run_command("plan")
    assert code == 1
    assert "Placement type is immutable. The placement exists on the hub but not in state" in said
    assert 'to = fleet_cluster_resource_placement.web, id = "web"' in said
    assert "-replace" not in said


def test_failed_required_dry_run_is_an_error_at_its_block(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_configuration()
    text = Path("main.nf.hcl").read_text().replace('data "fleet_hub" "hub" {}', "")
    required = '{\n  dry_run = "require"\n}'
    Path("main.nf.hcl").write_text(text.replace('{ timeout = "30m" }', required))
    hub.close()
    monkeypatch.setattr("nexusform.domains.hub.api.hub_client._FIRST_RETRY_SECONDS", 0.0)
    code, said = run_command("plan")
    assert code == 1
    assert (
        'Error: Not checked on main.nf.hcl line 7, in resource "fleet_hub_manifest" "web"' in said
    )
    assert "cannot be reached" in said


MEMBER = 'resource "fleet_member_cluster" "{0}" {{\n  provider = fleet\n  name     = "{0}"\n}}\n'


def test_objects_imported_one_by_one_are_all_in_state(
    hub: Front, run_command: CommandRunner
) -> None:
    members = [each["metadata"]["name"] for each in hub.all("MemberCluster")][:2]
    head = 'provider "fleet" {}\ndata "fleet_hub" "hub" {}\n'
    Path("main.nf.hcl").write_text(head + "".join(map(MEMBER.format, members)))
    for name in members:
        code, said = run_command("import", f"fleet_member_cluster.{name}", name)
        assert code == 0, said
    code, said = run_command("plan")
    assert code == 0, said


def apply_and_lose_state(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    shutil.rmtree("state")
    hub.log.clear()


def check_import_without_writes(hub: Front, run_command: CommandRunner) -> None:
    """Check the plan for no changes, and the log for no writes to the hub."""
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    assert all(dry for method, _, dry, _ in hub.log if method != "GET")


def test_lost_manifest_objects_are_imported_by_blocks(
    hub: Front, run_command: CommandRunner
) -> None:
    apply_and_lose_state(hub, run_command)
    said = " ".join(run_command("plan")[1].split())
    start = said.index('import { to = fleet_hub_manifest.web, id = "')
    object_id = said[start:].split('"')[1]
    blocks = (
        ("fleet_hub_manifest.web", object_id),
        ("fleet_cluster_resource_placement.web", "web"),
    )
    with Path("main.nf.hcl").open("a") as configuration:
        configuration.writelines(
            f'import {{\n  to = {address}\n  id = "{each}"\n}}\n' for address, each in blocks
        )
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    check_import_without_writes(hub, run_command)


def test_lost_manifest_objects_are_imported_by_command(
    hub: Front, run_command: CommandRunner
) -> None:
    apply_and_lose_state(hub, run_command)
    assert run_command("import", "fleet_hub_manifest.web", "web")[0] == 0
    assert run_command("import", "fleet_cluster_resource_placement.web", "web")[0] == 0
    check_import_without_writes(hub, run_command)


def test_lost_objects_are_imported_into_existing_blocks(
    hub: Front, run_command: CommandRunner
) -> None:
    apply_and_lose_state(hub, run_command)
    code, said = run_command("import", "-from=hub", "-generate-config-out=hub.nf.hcl")
    assert code == 0, said
    assert 'fleet_cluster_resource_placement" "web"' not in Path("hub.nf.hcl").read_text()
    check_import_without_writes(hub, run_command)


def test_objects_of_another_manager_are_not_imported(
    hub: Front, run_command: CommandRunner
) -> None:
    apply_and_lose_state(hub, run_command)
    write_configuration(content="2")
    settings = hub.get("ConfigMap", "settings", "web")
    assert settings is not None
    hub.remove(settings)
    code, said = run_command("import", "fleet_hub_manifest.web", "web")
    assert (code, "has no ConfigMap web/settings." in said) == (1, True), said
    names = {name: settings[name] for name in ("apiVersion", "kind", "data")}
    hub.put({**names, "metadata": {"name": "settings", "namespace": "web"}}, "kubectl")
    code, said = run_command("import", "fleet_hub_manifest.web", "web")
    assert (
        code,
        "ConfigMap web/settings was not applied by the field manager nexusform" in said,
    ) == (1, True), said
    assert run_command("import", "fleet_hub_manifest.web", "web", "-take-ownership")[0] == 0


@pytest.mark.our_hub_alone
def test_lost_records_and_members_are_imported_into_their_blocks(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    controller.evicts = True
    write_configuration(number=3)
    append_configuration(_MEMBER)
    assert run_command("apply", "-auto-approve")[0] == 0
    append_configuration(EVICTION)
    assert run_command("apply", "-auto-approve")[0] == 0
    addresses = run_command("state", "list")[1]
    shutil.rmtree("state")
    hub.log.clear()
    code, said = run_command("import", "-from=hub", "-generate-config-out=new.nf.hcl")
    assert code == 0, said
    assert run_command("state", "list")[1] == addresses
    assert run_command("plan", "-detailed-exitcode")[0] == 0
    assert list_writes(hub) == []


def test_import_keeps_its_file_if_the_state_may_have_the_objects(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_and_lose_state(hub, run_command)
    write = LocalBackend.write_merged_state

    def write_and_fail(
        backend: LocalBackend, document: bytes, preserved_lines: list[bytes]
    ) -> None:
        write(backend, document, preserved_lines)
        raise BackendProblem("the connection was closed")

    with monkeypatch.context() as patch:
        patch.setattr(LocalBackend, "write_merged_state", write_and_fail)
        code, said = run_command("import", "-from=hub", "-generate-config-out=hub.nf.hcl")
    assert (code, "the connection was closed" in said, Path("hub.nf.hcl").exists()) == (
        1,
        True,
        True,
    ), said
    check_import_without_writes(hub, run_command)
