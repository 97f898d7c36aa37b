"""What people wrote on a hub is taken over, and the plan after it has nothing to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.domains.hub.conftest import Told
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import write, written
from tests.domains.hub.test_hub_runs import EVICTION, add

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


def test_a_placement_that_awaits_its_first_run_is_taken_over(hub: Front, told: Told) -> None:
    write()
    with Path("main.nf.hcl").open("a") as configuration:
        configuration.write(STAGED)
    assert told("apply", "-auto-approve")[0] == 0
    shutil.rmtree("state")
    Path("main.nf.hcl").write_text('provider "fleet" {}\ndata "fleet_hub" "hub" {}\n')
    hub.log.clear()
    code, said = told("import", "-from=hub", "-generate-config-out=hub.nf.hcl")
    assert code == 0, said
    assert "fleet_cluster_resource_placement.staged" in told("state", "list")[1]
    code, said = told("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    assert {method for method, *_ in hub.log if method != "PATCH"} == {"GET"}
    assert all(dry for method, _, dry, _ in hub.log if method == "PATCH")


def test_one_of_another_kind_that_stands_is_to_be_imported_and_not_replaced(hub: Front, told: Told) -> None:
    hub.put(THEIRS, "kubectl")
    hub.act()
    write()
    code, said = told("plan")
    assert code == 1
    assert "Placement type is immutable. The placement exists on the hub but not in state" in said
    assert 'to = fleet_cluster_resource_placement.web, id = "web"' in said
    assert "-replace" not in said


def test_a_judgement_that_is_required_and_cannot_be_had_is_an_error_at_its_block(
    hub: Front, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    text = Path("main.nf.hcl").read_text().replace('data "fleet_hub" "hub" {}', "")
    required = '{\n  dry_run = "require"\n}'
    Path("main.nf.hcl").write_text(text.replace('{ timeout = "30m" }', required))
    hub.close()
    monkeypatch.setattr("nexusform.domains.hub.api.hub_client._FIRST_RETRY_SECONDS", 0.0)
    code, said = told("plan")
    assert code == 1
    assert 'Error: Not checked on main.nf.hcl line 7, in resource "fleet_hub_manifest" "web"' in said
    assert "cannot be reached" in said


MEMBER = 'resource "fleet_member_cluster" "{0}" {{\n  provider = fleet\n  name     = "{0}"\n}}\n'


def test_two_that_are_imported_one_by_one_stand_in_state_side_by_side(hub: Front, told: Told) -> None:
    members = [each["metadata"]["name"] for each in hub.all("MemberCluster")][:2]
    head = 'provider "fleet" {}\ndata "fleet_hub" "hub" {}\n'
    Path("main.nf.hcl").write_text(head + "".join(map(MEMBER.format, members)))
    for name in members:
        code, said = told("import", f"fleet_member_cluster.{name}", name)
        assert code == 0, said
    code, said = told("plan")
    assert code == 0, said


def lose_state(hub: Front, told: Told) -> None:
    write()
    assert told("apply", "-auto-approve")[0] == 0
    shutil.rmtree("state")
    hub.log.clear()


def is_taken_back(hub: Front, told: Told) -> None:
    """The plan has no changes, and nothing was written to the hub."""
    code, said = told("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    assert all(dry for method, _, dry, _ in hub.log if method != "GET")


def test_lost_objects_of_a_manifest_are_taken_back_by_blocks(hub: Front, told: Told) -> None:
    lose_state(hub, told)
    said = " ".join(told("plan")[1].split())
    start = said.index('import { to = fleet_hub_manifest.web, id = "')
    object_id = said[start:].split('"')[1]
    blocks = (("fleet_hub_manifest.web", object_id), ("fleet_cluster_resource_placement.web", "web"))
    with Path("main.nf.hcl").open("a") as configuration:
        configuration.writelines(f'import {{\n  to = {address}\n  id = "{each}"\n}}\n' for address, each in blocks)
    code, said = told("apply", "-auto-approve")
    assert code == 0, said
    is_taken_back(hub, told)


def test_lost_objects_of_a_manifest_are_taken_back_by_the_command(hub: Front, told: Told) -> None:
    lose_state(hub, told)
    assert told("import", "fleet_hub_manifest.web", "web")[0] == 0
    assert told("import", "fleet_cluster_resource_placement.web", "web")[0] == 0
    is_taken_back(hub, told)


def test_lost_objects_are_imported_into_existing_blocks(hub: Front, told: Told) -> None:
    lose_state(hub, told)
    code, said = told("import", "-from=hub", "-generate-config-out=hub.nf.hcl")
    assert code == 0, said
    assert 'fleet_cluster_resource_placement" "web"' not in Path("hub.nf.hcl").read_text()
    is_taken_back(hub, told)


def test_objects_of_another_manager_are_not_imported(hub: Front, told: Told) -> None:
    lose_state(hub, told)
    write(content="2")
    settings = hub.get("ConfigMap", "settings", "web")
    assert settings is not None
    hub.remove(settings)
    code, said = told("import", "fleet_hub_manifest.web", "web")
    assert (code, "has no ConfigMap web/settings." in said) == (1, True), said
    names = {name: settings[name] for name in ("apiVersion", "kind", "data")}
    hub.put({**names, "metadata": {"name": "settings", "namespace": "web"}}, "kubectl")
    code, said = told("import", "fleet_hub_manifest.web", "web")
    assert (code, "ConfigMap web/settings was not applied by the field manager nexusform" in said) == (1, True), said
    assert told("import", "fleet_hub_manifest.web", "web", "-take-ownership")[0] == 0


@pytest.mark.our_hub_alone
def test_lost_records_and_members_are_imported_into_their_blocks(
    hub: Front, controller: Controller, told: Told
) -> None:
    controller.evicts = True
    write(number=3)
    add(_MEMBER)
    assert told("apply", "-auto-approve")[0] == 0
    add(EVICTION)
    assert told("apply", "-auto-approve")[0] == 0
    addresses = told("state", "list")[1]
    shutil.rmtree("state")
    hub.log.clear()
    code, said = told("import", "-from=hub", "-generate-config-out=new.nf.hcl")
    assert code == 0, said
    assert told("state", "list")[1] == addresses
    assert told("plan", "-detailed-exitcode")[0] == 0
    assert written(hub) == []
