"""Tests of fields of other managers on a hub.

They are written only if requested by the operator or the block.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front, get_collection_path
from tests.domains.hub.test_fleet_provider import write_configuration
from tests.domains.hub.test_hub_flawed_plans import scale_with_kubectl


def test_flux_object_is_written_only_with_take_ownership(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    labels = {
        "kustomize.toolkit.fluxcd.io/name": "apps",
        "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
    }
    names = {"apiVersion": placement["apiVersion"], "kind": placement["kind"]}
    hub.put({**names, "metadata": {"name": "web", "labels": labels}}, "kustomize-controller")
    write_configuration(number=3)
    code, said = run_command("apply", "-auto-approve")
    assert code == 1
    assert "applied by Flux Kustomization flux-system/apps" in said
    code, said = run_command("apply", "-auto-approve", "-take-ownership")
    assert code == 0, said
    code, said = run_command("destroy", "-auto-approve")
    assert (code, "applied by Flux Kustomization" in said) == (1, True), said
    assert hub.get("ClusterResourcePlacement", "web") is not None
    code, said = run_command("destroy", "-auto-approve", "-take-ownership")
    assert code == 0, said


def test_import_block_imports_flux_object_with_take_ownership(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    labels = {f"kustomize.toolkit.fluxcd.io/{name}": "apps" for name in ("name", "namespace")}
    names = {"apiVersion": placement["apiVersion"], "kind": placement["kind"]}
    hub.put({**names, "metadata": {"name": "web", "labels": labels}}, "kustomize-controller")
    address = "fleet_cluster_resource_placement.web"
    assert run_command("state", "rm", address)[0] == 0
    with Path("main.nf.hcl").open("a") as file:
        file.write(f'import {{\n  to = {address}\n  id = "web"\n}}\n')
    code, said = run_command("plan")
    assert (code, "an import block, planned and applied with -take-ownership" in said) == (
        1,
        True,
    ), said
    assert run_command("plan", "-take-ownership", "-out=x.nfplan")[0] == 0
    code, said = run_command("apply", "-take-ownership", "x.nfplan")
    assert (code, "1 imported" in said) == (0, True), said


def test_foreign_fields_are_taken_over_on_request(hub: Front, run_command: CommandRunner) -> None:
    scale_with_kubectl(hub, run_command)
    assert run_command("plan")[0] == 1
    code, said = run_command("plan", "-take-ownership", "-out=x.nfplan")
    assert code == 0, said
    assert (
        ".spec.policy.numberOfClusters belongs to kubectl; -take-ownership takes that over" in said
    )
    assert '(nexusform apply -take-ownership "x.nfplan")' in said
    code, said = run_command("apply", "-take-ownership", "x.nfplan")
    assert code == 0, said
    assert "No changes." in run_command("plan")[1]


def test_apply_without_take_ownership_suggests_resume_command(
    hub: Front, run_command: CommandRunner
) -> None:
    scale_with_kubectl(hub, run_command)
    assert run_command("plan", "-take-ownership", "-out=x.nfplan")[0] == 0
    code, said = run_command("apply", "x.nfplan")
    assert (code, "once by nexusform apply -resume -take-ownership, for good by" in said) == (
        1,
        True,
    ), said
    code, said = run_command("apply", "-resume", "-take-ownership")
    assert code == 0, said
    assert "No changes." in run_command("plan")[1]


def test_force_conflicts_takes_over_foreign_fields_permanently(
    hub: Front, run_command: CommandRunner
) -> None:
    scale_with_kubectl(hub, run_command)
    code, said = run_command("plan")
    assert (code, "for good by force_conflicts = true" in said) == (1, True), said
    write_configuration(more="force_conflicts = true")
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert (
        ".spec.policy.numberOfClusters belongs to kubectl; force_conflicts takes that over" in said
    )
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    assert placement["spec"]["policy"]["numberOfClusters"] == 2
    assert "forceConflicts" not in placement["spec"]
    assert run_command("plan", "-detailed-exitcode")[0] == 0


def test_foreign_labels_and_objects_are_taken_over_by_block(
    hub: Front, run_command: CommandRunner
) -> None:
    text = """
provider "fleet" {{}}
data "fleet_hub" "hub" {{}}
resource "fleet_member_cluster" "lon1" {{
  provider        = fleet
  labels          = {{ tier = "gold" }}
  force_conflicts = {force}
}}
resource "fleet_hub_manifest" "web" {{
  provider        = fleet
  force_conflicts = {force}
  yaml_body       = <<-Y
    apiVersion: v1
    kind: Namespace
    metadata: {{name: web, labels: {{tier: gold}}}}
  Y
}}
"""
    write_configuration()
    Path("main.nf.hcl").write_text(text.format(force="false").replace("gold", "new"))
    assert run_command("apply", "-auto-approve")[0] == 0
    for kind, version, name in (
        ("MemberCluster", "cluster.kubernetes-fleet.io/v1beta1", "lon1"),
        ("Namespace", "v1", "web"),
    ):
        labels = {"tier": "theirs"}
        hub.put(
            {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels}},
            "kubectl",
        )
    Path("main.nf.hcl").write_text(text.format(force="false"))
    code, said = run_command("plan")
    assert (code, said.count(".metadata.labels.tier belongs to kubectl")) == (1, 2), said
    Path("main.nf.hcl").write_text(text.format(force="true"))
    code, said = run_command("apply", "-auto-approve")
    assert (code, said.count("force_conflicts takes that over")) == (0, 2), said
    for kind, name in (("MemberCluster", "lon1"), ("Namespace", "web")):
        body = hub.get(kind, name)
        assert body is not None
        assert body["metadata"]["labels"]["tier"] == "gold"


def test_apply_stopped_by_flux_is_resumed_with_take_ownership(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    labels = {f"kustomize.toolkit.fluxcd.io/{name}": "apps" for name in ("name", "namespace")}
    names = {"apiVersion": placement["apiVersion"], "kind": placement["kind"]}
    write_configuration(number=3)
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    hub.put({**names, "metadata": {"name": "web", "labels": labels}}, "kustomize-controller")
    code, said = run_command("apply", "x.nfplan")
    assert (code, "or take it over: nexusform apply -resume -take-ownership." in said) == (
        1,
        True,
    ), said
    code, said = run_command("apply", "-resume", "-take-ownership")


TAINTED = """
provider "fleet" {{
  field_manager = "{manager}"
}}
data "fleet_hub" "hub" {{}}
resource "fleet_member_cluster" "lon1" {{
  provider = fleet
  labels   = {{ {labels} }}
}}
"""


def apply_labels_as(hub: Front, manager: str, name: str, **labels: str) -> None:
    """Apply labels of a member as another manager, even if the member is missing."""
    body = {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels},
    }
    query = urlencode({"fieldManager": manager, "#type": "apply"})
    target = f"{get_collection_path('MemberCluster')}/{name}?{query}"
    status, answer = hub.answer("PATCH", target, "admin-token", json.dumps(body).encode())
    assert status == 200, answer


def test_co_owned_field_is_kept_and_reported(hub: Front, run_command: CommandRunner) -> None:
    Path("main.nf.hcl").write_text(TAINTED.format(manager="nexusform", labels='a = "1", b = "1"'))
    assert run_command("apply", "-auto-approve")[0] == 0
    apply_labels_as(hub, "ops", "lon1", b="1")
    Path("main.nf.hcl").write_text(TAINTED.format(manager="nexusform", labels='a = "1"'))
    code, said = run_command("apply", "-auto-approve")
    words = (
        "MemberCluster lon1: metadata.labels.b belongs to ops as well. What stays is as it is "
        "there."
    )
    assert (code, words in said) == (0, True), said
    assert (hub.get("MemberCluster", "lon1") or {})["metadata"]["labels"]["b"] == "1"
    assert "metadata.labels.b" not in run_command("plan")[1]


def test_two_configurations_with_one_manager_name_are_reported(
    hub: Front, run_command: CommandRunner
) -> None:
    Path("main.nf.hcl").write_text(TAINTED.format(manager="nexusform", labels='a = "1"'))
    assert run_command("apply", "-auto-approve")[0] == 0
    for state in Path().glob("*state*"):
        state.rename(f"{state}.of-a") if state.is_file() else state.rename("of-a")
    Path("main.nf.hcl").write_text(TAINTED.format(manager="nexusform", labels='b = "1"'))
    code, said = run_command("plan")
    words = (
        "metadata.labels.a was applied under the name nexusform, is not of this configuration, and "
        "goes"
    )
    assert (code, words in said) == (0, True), said
    Path("main.nf.hcl").write_text(TAINTED.format(manager="team-b", labels='b = "1"'))
    assert run_command("apply", "-auto-approve")[0] == 0
    labels = (hub.get("MemberCluster", "lon1") or {})["metadata"]["labels"]
    assert (labels["a"], labels["b"]) == ("1", "1")


def test_destroy_plan_deletes_nothing(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    kinds = ("ClusterResourcePlacement", "ConfigMap")
    before = [hub.all(kind) for kind in kinds]
    assert run_command("plan", "-destroy")[0] == 0
    assert [hub.all(kind) for kind in kinds] == before
    assert all(before)


def test_object_partly_applied_by_flux_is_not_deleted(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    labels = {f"kustomize.toolkit.fluxcd.io/{name}": "apps" for name in ("name", "namespace")}
    metadata = {"name": "settings", "namespace": "web", "labels": labels}
    hub.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, "kustomize-controller")
    hub.log.clear()
    code, said = run_command("destroy", "-auto-approve")
    words = (
        "ConfigMap web/settings (fleet_hub_manifest.web) is applied by Flux Kustomization apps/apps"
    )
    assert (code, words in said) == (1, True), said
    assert "DELETE" not in {method for method, _, dry, _ in hub.log if not dry}
    code, said = run_command("destroy", "-auto-approve", "-take-ownership")
    assert code == 0, said


def test_sandboxed_run_without_dry_run_reports_flux_fields(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    labels = {f"kustomize.toolkit.fluxcd.io/{name}": "apps" for name in ("name", "namespace")}
    kind = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
    }
    hub.put({**kind, "metadata": {"name": "web", "labels": labels}}, "kustomize-controller")
    text = Path("main.nf.hcl").read_text()
    manifest = text[: text.index('resource "fleet_cluster_resource_placement"')]
    Path("main.nf.hcl").write_text(manifest.replace('data: {a: "1"}', 'data: {a: "2"}'))
    code, said = run_command("plan", "-confine")
    words = "ClusterResourcePlacement web (fleet_cluster_resource_placement.web) is applied by Flux"
    assert (code, words in said, "not-checked" in said) == (1, True, True), said


def test_plan_with_drifted_field_keeps_its_rows(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    names = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
    }
    hub.put(
        {**names, "metadata": {"name": "web"}, "spec": {"policy": {"numberOfClusters": 1}}},
        "kubectl",
    )
    write_configuration(number=3, content="2")
    code, said = run_command("plan")
    assert code == 1
    assert "~ fleet_cluster_resource_placement.web rejected" in said, said
    assert "~ fleet_hub_manifest.web" in said
    assert "Placement changes: fleet_cluster_resource_placement.web:" in said
    assert ".spec.policy.numberOfClusters belongs to kubectl (hub: 1, configuration: 3)" in said
    assert "To see that plan: nexusform plan -take-ownership" in said
    code, said = run_command("apply", "-auto-approve")
    assert code == 1
    assert hub.get("ConfigMap", "settings", "web")["data"] == {"a": "1"}  # type: ignore[index]
