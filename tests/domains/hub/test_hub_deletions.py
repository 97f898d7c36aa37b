"""Tests of objects in deletion on a hub: they are named, and neither predicted nor awaited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front, get_collection_path
from tests.domains.hub.test_fleet_provider import list_writes, write_configuration
from tests.domains.hub.test_hub_order import BUDGET, EVICTION, append_configuration
from tests.domains.hub.test_hub_runs import EXTERNAL, RUN

_BLOCKED = "is being deleted, held by somebody/waits"


def delete_with_finalizer(hub: Front, kind: str, name: str, namespace: str = "") -> None:
    """Delete an object with a finalizer."""
    body = hub.get(kind, name, namespace)
    assert body is not None
    metadata = {"name": name, "finalizers": ["somebody/waits"]} | (
        {"namespace": namespace} if namespace else {}
    )
    hub.put({"apiVersion": body["apiVersion"], "kind": kind, "metadata": metadata}, "somebody")
    path = (
        f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        if namespace
        else f"{get_collection_path(kind)}/{name}"
    )
    assert hub.answer("DELETE", path, "admin-token", b"{}")[0] == 200


@pytest.mark.our_hub_alone
def test_later_manifest_object_in_deletion_is_named_not_predicted(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.asleep = True
    delete_with_finalizer(hub, "ConfigMap", "settings", "web")
    said = run_command("plan", "-out=x.nfplan")[1]
    assert f"object-being-deleted fleet_hub_manifest.web: ConfigMap web/settings {_BLOCKED}" in said
    document = json.loads(run_command("show", "-json", "x.nfplan")[1])
    (placement,) = (
        c for c in document["resource_changes"] if c["type"] == "fleet_cluster_resource_placement"
    )
    assert [each["kind"] for each in placement["change"]["after"]["selected_resources"]] == [
        "Namespace"
    ]


@pytest.mark.our_hub_alone
def test_namespace_in_deletion_is_not_missing(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.asleep = True
    delete_with_finalizer(hub, "Namespace", "web")
    said = run_command("plan")[1]
    assert "object-being-deleted fleet_hub_manifest.web: Namespace web" in said
    assert "missing-hub-namespace" not in said, said


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_changed_manifest_with_object_in_deletion_is_not_written(
    hub: Front, run_command: CommandRunner, mode: str
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    delete_with_finalizer(hub, "ConfigMap", "settings", "web")
    write_configuration(content="2")
    Path("main.nf.hcl").write_text(
        Path("main.nf.hcl")
        .read_text()
        .replace('timeout = "30m"', f'\n  timeout = "30m"\n  dry_run = "{mode}"\n')
    )
    hub.log.clear()
    code, said = run_command("apply", "-auto-approve")
    assert (code, "ConfigMap web/settings is being deleted on the hub" in said) == (1, True), said
    assert not [path for _, path in list_writes(hub) if path.endswith("/settings")]


@pytest.mark.our_hub_alone
@pytest.mark.parametrize(("mode", "count"), [("auto", 1), ("off", 0)])
def test_deletions_are_tried_only_if_validated(
    hub: Front, run_command: CommandRunner, mode: str, count: int
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    text = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(
        text.replace('timeout = "30m"', f'\n  timeout = "30m"\n  dry_run = "{mode}"\n')
    )
    hub.log.clear()
    assert run_command("plan", "-destroy")[0] == 0
    deletions = [path for method, path, _, _ in hub.log if method == "DELETE"]
    assert len([path for path in deletions if path.endswith("/settings")]) == count
    assert bool(deletions) == bool(count)


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("refresh", ["true", "false"])
def test_placement_in_deletion_has_no_prediction(
    hub: Front, controller: Controller, run_command: CommandRunner, refresh: str
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.asleep = True
    delete_with_finalizer(hub, "ClusterResourcePlacement", "web")
    run_command("apply", "-refresh-only", "-auto-approve")
    write_configuration(number=4)
    code, said = run_command("plan", f"-refresh={refresh}")
    assert "clusters ->" not in said
    if refresh == "true":
        assert (code, f"ClusterResourcePlacement web {_BLOCKED}" in said) == (1, True), said


@pytest.mark.our_hub_alone
def test_run_of_placement_in_deletion_fails_immediately(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration(more=EXTERNAL)
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.asleep = True
    delete_with_finalizer(hub, "ClusterResourcePlacement", "web")
    append_configuration(RUN.format(more=""))
    code, said = run_command("apply", "-auto-approve")
    assert (code, "ClusterResourcePlacement web is being deleted on the hub" in said) == (
        1,
        True,
    ), said
    assert hub.get("ClusterStagedUpdateRun", "first") is None


@pytest.mark.our_hub_alone
def test_eviction_for_placement_in_deletion_is_invalid(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.asleep = True
    delete_with_finalizer(hub, "ClusterResourcePlacement", "web")
    append_configuration(BUDGET + EVICTION)
    code, said = run_command("apply", "-auto-approve")
    assert "is being deleted" in said
    assert (code, "ClusterResourcePlacement web is being deleted on the hub" in said) == (
        1,
        True,
    ), said


@pytest.mark.our_hub_alone
def test_placement_deleted_during_rollout_is_not_awaited(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.stuck = {"lon1", "par1", "fra1", "ams1"}
    write_configuration(number=3)
    answer = hub.answer

    def answer_and_delete(
        method: str, target: str, token: str, content: bytes
    ) -> tuple[int, object]:
        response = answer(method, target, token, content)
        if (
            method == "PATCH"
            and "clusterresourceplacements/web" in target
            and "dryRun" not in target
        ):
            hub.answer = answer  # type: ignore[method-assign]
            controller.asleep = True
            delete_with_finalizer(hub, "ClusterResourcePlacement", "web")
        return response

    hub.answer = answer_and_delete  # type: ignore[method-assign]
    code, said = run_command("apply", "-auto-approve")
    assert (code, "is being deleted on the hub, held by somebody/waits" in said) == (1, True), said


_MEMBER = """
resource "fleet_member_cluster" "lon1" {
  provider = fleet
  name     = "lon1"
  labels   = { env = "prod", tier = "a" }
}
"""


def test_read_only_provider_waits_for_others_and_keeps_members(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    path = Path("main.nf.hcl")
    path.write_text(path.read_text() + _MEMBER)
    assert run_command("apply", "-auto-approve")[0] == 0
    path.write_text(path.read_text().replace('{ timeout = "30m" }', "{\n  read_only = true\n}"))
    hub.log.clear()
    said = run_command("destroy", "-auto-approve", "-target=fleet_cluster_resource_placement.web")[
        1
    ]
    assert "another person must delete ClusterResourcePlacement web" in said
    code, said = run_command("destroy", "-auto-approve", "-target=fleet_member_cluster.lon1")
    assert (code, "another person" in said) == (0, False), said
    assert list_writes(hub) == []
    path.write_text(path.read_text().replace('a: "1"', 'a: "2"').replace(_MEMBER, ""))
    said = run_command("apply", "-auto-approve")[1]
    assert "another person must write ConfigMap web/settings" in said
    settings = hub.get("ConfigMap", "settings", "web")
    assert settings is not None
    hub.put({**settings, "data": {"a": "2"}}, "other")
    hub.act()
    code, said = run_command("apply", "-auto-approve")
    assert (code, list_writes(hub)) == (0, []), said
