"""Tests of plans from a dump of a hub, and without a hub."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.hub.api.hub_client import HubClient, HubLocation, HubProblem
from nexusform.domains.hub.api.hub_kinds import KINDS
from nexusform.domains.hub.providers.hub_bodies import HubObject
from nexusform.domains.hub.providers.object_access import list_in_namespaces, require_object_path
from nexusform.interfaces.plugins import ProviderProblem
from tests.domains.fleet.types.test_fleet_hub_export import compute_hash
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front, RequestRejection
from tests.domains.hub.hub_server import HubServer
from tests.domains.hub.test_fleet_provider import write_configuration

PLACEMENT = """
data "fleet_hub_export" "hub" { files = ["hub.json"] }

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


@pytest.mark.our_hub_alone
def test_dump_without_manifests_uses_latest_snapshot(
    hub: HubServer, run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    bodies = [body for (group, *_), body in sorted(hub.objects.items()) if group]
    (tmp_path / "dump").mkdir()
    monkeypatch.chdir(tmp_path / "dump")
    Path("hub.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}))
    Path("main.nf.hcl").write_text(PLACEMENT)
    code, said = run_command("plan", "-out=x.nfplan")
    assert code == 0, said
    assert "= 2 clusters stay" in said or "2 kept" in said, said
    document = json.loads(run_command("show", "-json", "x.nfplan")[1])
    (change,) = (each["change"] for each in document["resource_changes"])
    assert sorted(each["kind"] for each in change["after"]["selected_resources"]) == [
        "ConfigMap",
        "Namespace",
    ]
    assert {each["resource_snapshot"] for each in change["after"]["bindings"].values()} == {0}


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("mode", ["auto", "require"])
def test_plan_without_hub_starts_from_state(
    hub: HubServer, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr("nexusform.domains.hub.api.hub_client._FIRST_RETRY_SECONDS", 0.0)
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(content="2")
    text = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(text.replace('timeout = "30m"', f'\n  dry_run = "{mode}"\n'))
    monkeypatch.delenv("NF_FLEET_KUBECONFIG")
    monkeypatch.setenv("HOME", str(Path.cwd()))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    code, said = run_command("plan", "-details")
    if mode == "require":
        assert (code, "No kubeconfig found" in said) == (1, True), said
        return
    assert code == 0, said
    assert "plan from state: the hub was not read" in said
    assert "plan-from-state" in said or "Plan from state" in said
    assert "clusters stay" in said
    assert "Server-side dry run skipped for 2 changes: the plan is made from the state." in said
    assert "leave" not in said
    hub.log.clear()
    code, said = run_command("apply", "-auto-approve")
    assert (code, "No kubeconfig found" in said) == (1, True), said
    assert hub.log == []
    Path("main.nf.hcl").write_text(text.replace('a: "2"', 'a: "1"'))
    code, said = run_command("plan", "-out=x.nfplan")
    assert (code, "The state matches the configuration; a hub or site was not read." in said) == (
        0,
        True,
    ), said
    assert "No changes." not in said, said
    assert json.loads(run_command("show", "-json", "x.nfplan")[1])["complete"] is False
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "exit code 1 with -detailed-exitcode" in said) == (1, True), said


@pytest.mark.our_hub_alone
def test_cluster_moved_between_plans_is_an_observed_row(
    hub: HubServer, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.picks["web"] = ["ams1", "lon1"]
    hub.act()
    said = run_command("plan", "-out=x.nfplan")[1]
    assert "= ams1 stays: Bound (moved on the hub: par1 -> ams1)" in said, said
    (row,) = json.loads(run_command("show", "-json", "x.nfplan")[1])["placement_changes"]
    assert (row["object"], row["action"], row["provenance"]) == ("ams1", "keep", "observed")


@pytest.mark.our_hub_alone
def test_cluster_removed_between_plans_is_an_observed_row(
    hub: HubServer, run_command: CommandRunner
) -> None:
    write_configuration(number=4)
    assert run_command("apply", "-auto-approve")[0] == 0
    hub.remove(hub.get("MemberCluster", "par1") or {})
    hub.act()
    said = run_command("plan", "-out=x.nfplan")[1]
    assert "= par1 is not created (removed on the hub)" in said, said
    rows = json.loads(run_command("show", "-json", "x.nfplan")[1])["placement_changes"]
    observed = [(row["object"], row["action"]) for row in rows if row["provenance"] == "observed"]
    assert observed == [("par1", "keep")], rows


_OTHERS = """
provider "fleet" {}
data "fleet_hub" "hub" {}

resource "fleet_cluster_resource_placement" "shop" {
  provider = fleet
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "shop"
  }
  policy {
    placement_type     = "PickN"
    number_of_clusters = 1
  }
}
"""


_MANIFEST = """
provider "fleet" {}
data "fleet_hub" "hub" {}

resource "fleet_cluster_resource_placement" "shop" {
  provider = fleet
  manifest = yamlencode({
    apiVersion = "placement.kubernetes-fleet.io/v1beta1"
    kind       = "ClusterResourcePlacement"
    metadata   = { name = "shop" }
    spec = {
      resourceSelectors = [{ group = "", version = "v1", kind = "Namespace", name = var.name }]
      policy            = { placementType = "PickN", numberOfClusters = 1 }
    }
  })
}
variable "name" {
  default = "shop"
}
"""
_EXPRESSION = (
    _OTHERS.replace('"fleet_hub" "hub" {}', '"fleet_hub" "hub" {}\nlocals {\n  names = ["shop"]\n}')
    .replace('    name    = "shop"', "    name    = each.key")
    .replace(
        "  provider = fleet\n",
        "  provider = fleet\n  for_each = toset(local.names)\n  name     = each.key\n",
    )
)


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("text", [_MANIFEST, _EXPRESSION], ids=["manifest", "expression"])
def test_selectors_of_manifests_and_expressions_are_read(
    hub: HubServer, run_command: CommandRunner, text: str
) -> None:
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, "kubectl")
    Path("main.nf.hcl").write_text(text)
    code, said = run_command("plan")
    assert (code, "empty-resource-selection" in said) == (0, False), said
    assert "/api/v1/namespaces/shop/configmaps" in [path for _, path, _, _ in hub.log]


def forbid_paths(hub: HubServer, is_forbidden: Callable[[str], bool]) -> None:
    """Answer requests for these paths like an API server without permission."""
    respond = hub.respond

    def reject_forbidden(
        method: str, path: str, query: dict[str, str], token: str, content: bytes
    ) -> tuple[int, Any]:
        if is_forbidden(path):
            plural = path.rpartition("/")[2]
            raise RequestRejection(
                403,
                (
                    f'{plural} is forbidden: User "bob" cannot list resource "{plural}" at the '
                    "cluster scope"
                ),
            )
        return respond(method, path, query, token, content)

    hub.respond = reject_forbidden  # type: ignore[method-assign]


@pytest.mark.our_hub_alone
def test_unneeded_kinds_may_be_forbidden(hub: HubServer, run_command: CommandRunner) -> None:
    forbidden = (
        "/resourcebindings",
        "/stagedupdateruns",
        "/clusterresourceplacementdisruptionbudgets",
    )
    forbid_paths(hub, lambda path: path.endswith(forbidden))
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    code, said = run_command("plan", "-details")
    assert code == 0, said
    assert (
        "does not list resourcebindings, clusterresourceplacementdisruptionbudgets, "
        "stagedupdateruns"
    ) in said
    assert "conflicts with other placements are unknown" in said
    # Everything that the configuration needs was read.
    assert "The data read is incomplete" not in said
    assert (
        "data of the hub that were not read" not in run_command("plan", "-destroy", "-details")[1]
    )
    forbid_paths(hub, lambda path: path.endswith("/clusterresourcebindings"))
    assert run_command("plan")[0] == 1


@pytest.mark.our_hub_alone
def test_step_with_unreadable_result_is_resumed(hub: HubServer, run_command: CommandRunner) -> None:
    respond = hub.respond
    write_configuration()
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    forbid_paths(hub, lambda path: path.endswith("/clusterresourcebindings"))
    code, said = run_command("apply", "x.nfplan")
    assert (code, "was written, but its result cannot be read (403)" in said) == (1, True), said
    hub.respond = respond  # type: ignore[method-assign]
    code, said = run_command("apply", "-resume")
    assert code == 0, said
    assert run_command("plan", "-detailed-exitcode")[0] == 0


@pytest.mark.our_hub_alone
def test_wrong_predictions_need_no_member_permission(
    hub: HubServer, controller: Controller, run_command: CommandRunner
) -> None:
    controller.picks["web"] = ["ams1", "fra1"]
    write_configuration()
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    forbid_paths(hub, lambda path: path.endswith("/memberclusters"))
    said = run_command("apply", "x.nfplan")[1]
    assert "Apply complete!" in said, said


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("namespaces", [["team"], ["other", "team"]])
def test_tenant_lists_its_namespaces(hub: HubServer, tmp_path: Path, namespaces: list[str]) -> None:
    forbid_paths(hub, lambda path: path.endswith("beta1/resourcebindings"))
    put_tenant_placement(hub)
    hub.log.clear()
    client = HubClient(HubLocation(str(tmp_path / "kubeconfig.admin")))
    with closing(client):
        bodies = list_in_namespaces(client, KINDS["ResourceBinding"], namespaces)
    assert [body["metadata"]["name"] for body in bodies] == ["api-lon1"]
    is_wide = [path.endswith("beta1/resourcebindings") for _, path, _, _ in hub.log]
    assert any(is_wide) is (len(namespaces) > 1)


@pytest.fixture
def paged_client(
    bed: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HubClient]:
    """Yield a client with two objects per page, for a hub with three namespaces and more."""
    monkeypatch.setattr("nexusform.domains.hub.api.hub_client._PAGE_SIZE", 2)
    for name in "abc":
        put_namespace(bed, name)
    with closing(HubClient(HubLocation(str(bed.kubeconfig(tmp_path))))) as client:
        yield client


def put_namespace(bed: Front, name: str) -> None:
    bed.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "setup")


def test_list_at_a_version_has_all_pages_of_this_version(
    bed: Front, paged_client: HubClient
) -> None:
    before = paged_client.list_at_version("/api/v1/namespaces")
    put_namespace(bed, "d")
    again = paged_client.list_at_version("/api/v1/namespaces", before.version)
    names = [body["metadata"]["name"] for body in again.items]
    assert names == [body["metadata"]["name"] for body in before.items]
    assert [name for name in names if name in "abcd"] == ["a", "b", "c"]


@pytest.mark.our_hub_alone
def test_list_of_another_kind_is_an_error(
    bed: HubServer, paged_client: HubClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bed, "respond", lambda *_: (200, {"apiVersion": "v1", "kind": "PodList", "items": []})
    )
    with pytest.raises(HubProblem, match="with a list of Pod, not of MemberCluster"):
        paged_client.list_objects(KINDS["MemberCluster"].collection)


def test_list_expired_between_its_pages_is_read_again(bed: Front, paged_client: HubClient) -> None:
    statuses = iter([None, 410])
    bed.faults = lambda _method, _path: next(statuses, None)
    names = [body["metadata"]["name"] for body in paged_client.list_objects("/api/v1/namespaces")]
    assert [name for name in names if name in "abcd"] == ["a", "b", "c"]


@pytest.mark.our_hub_alone
def test_new_placement_selects_existing_objects_of_others(
    hub: HubServer, run_command: CommandRunner
) -> None:
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, "kubectl")
    for name, kind, data in (
        ("settings", "ConfigMap", {"a": "1"}),
        ("password", "Secret", {"p": "c2VjcmV0"}),
    ):
        metadata = {"name": name, "namespace": "shop"}
        hub.put({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data}, "kubectl")
    Path("main.nf.hcl").write_text(_OTHERS)
    hub.log.clear()
    code, said = run_command("plan", "-out=x.nfplan")
    assert (code, "empty-resource-selection" in said) == (0, False), said
    asked = [path for _, path, _, _ in hub.log]
    assert asked.count("/api/v1/namespaces/shop/configmaps") == 1
    document = run_command("show", "-json", "x.nfplan")[1]
    (change,) = (each["change"] for each in json.loads(document)["resource_changes"])
    kinds = sorted(each["kind"] for each in change["after"]["selected_resources"])
    assert kinds == ["ConfigMap", "Namespace", "Secret"]
    assert "c2VjcmV0" not in document
    assert run_command("apply", "x.nfplan")[0] == 0
    hub.log.clear()
    code, said = run_command("plan", "-detailed-exitcode")
    assert code == 0, said
    assert "/api/v1/namespaces/shop/configmaps" not in [path for _, path, _, _ in hub.log]


_TENANT = """
data "fleet_hub" "hub" {}

resource "fleet_resource_placement" "api" {
  name      = "api"
  namespace = "team"
  resource_selector {
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }
  policy {
    placement_type     = "PickN"
    number_of_clusters = 1
  }
}
"""
_API = "placement.kubernetes-fleet.io/v1beta1"


def put_tenant_placement(hub: HubServer) -> None:
    content = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "team"},
    }
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, "kubectl")
    hub.put({**content, "data": {"a": "1"}}, "kubectl")
    fleet = "kubernetes-fleet.io"
    labels = {f"{fleet}/parent-CRP": "api", f"{fleet}/is-latest-snapshot": "true"}
    policy = {"placementType": "PickN", "numberOfClusters": 1}
    selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"}
    scheduled = {"type": "ResourcePlacementScheduled", "status": "True", "observedGeneration": 1}
    spec_of = {
        "ResourcePlacement": ("api", {"resourceSelectors": [selector], "policy": policy}),
        "SchedulingPolicySnapshot": (
            "api-0",
            {
                "policy": {"placementType": "PickN"},
                "policyHash": compute_hash({"placementType": "PickN"}),
            },
        ),
        "ResourceSnapshot": (
            "api-0-snapshot",
            {"selectedResources": [{**content, "data": {"a": "1"}}]},
        ),
        "ResourceBinding": (
            "api-lon1",
            {
                "targetCluster": "lon1",
                "state": "Bound",
                "resourceSnapshotName": "api-0-snapshot",
                "schedulingPolicySnapshotName": "api-0",
            },
        ),
    }
    for kind, (name, spec) in spec_of.items():
        numbers = {f"{fleet}/policy-index": "0", f"{fleet}/resource-index": "0"}
        metadata = {
            "name": name,
            "namespace": "team",
            "annotations": {f"{fleet}/number-of-clusters": "1"},
        }
        metadata |= {"labels": {**labels, **numbers}} if kind != "ResourcePlacement" else {}
        status = {"status": {"conditions": [scheduled]}} if kind == "ResourcePlacement" else {}
        hub.put(
            {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec, **status},
            "hubagent",
        )


@pytest.mark.our_hub_alone
def test_tenant_plans_with_rights_in_one_namespace(
    hub: HubServer, run_command: CommandRunner
) -> None:
    put_tenant_placement(hub)
    forbid_paths(hub, lambda path: "/namespaces/team/" not in path and path.startswith("/apis/"))
    Path("main.nf.hcl").write_text(_TENANT)
    code, said = run_command("plan")
    assert code == 0, said
    assert "1 kept" in said, said
    assert "leaves" not in said
    assert "count as removed" not in said
    assert "not-captured" in said


@pytest.mark.our_hub_alone
def test_kind_added_to_a_served_version_is_found(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CustomResourceDefinition of the same apply adds it after the kinds were listed."""
    respond = hub.respond
    plurals = ["widgets"]

    def serve_kinds(
        method: str, path: str, query: dict[str, str], token: str, content: bytes
    ) -> tuple[int, Any]:
        if path == "/apis/example.com/v1":
            kinds = [
                {"name": plural, "kind": plural.title()[:-1], "namespaced": True}
                for plural in plurals
            ]
            return 200, {"kind": "APIResourceList", "resources": kinds}
        return respond(method, path, query, token, content)

    monkeypatch.setattr(hub, "respond", serve_kinds)
    client = HubClient(HubLocation(str(hub.kubeconfig(tmp_path))))
    gadget = HubObject(
        {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}, ""
    )
    with pytest.raises(ProviderProblem, match="the hub serves no example"):
        require_object_path(client, gadget)
    plurals.append("gadgets")
    assert (
        require_object_path(client, gadget) == "/apis/example.com/v1/namespaces/default/gadgets/g"
    )
    client.close()
