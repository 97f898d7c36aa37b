"""Tests of objects on a hub that others change between plan, apply and write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlencode

import pytest

from nexusform.domains.hub.providers.field_ownership import list_sent_paths
from nexusform.domains.hub.providers.hub_bodies import build_hub_objects
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front, get_api_version, get_collection_path
from tests.domains.hub.test_fleet_provider import list_writes, write_configuration

pytestmark = pytest.mark.our_hub_alone("another writer with our field manager")

CRP = "ClusterResourcePlacement"
POLICY = ("spec", "policy", "numberOfClusters")


def apply_as(
    hub: Front, manager: str, kind: str, body: dict[str, Any], *, force: bool = True
) -> None:
    """Apply fields of an object as another client, with the field manager of our choice."""
    metadata = {"name": "web" if kind == CRP else "settings"}
    path = f"{get_collection_path(CRP)}/web"
    version = get_api_version(CRP)
    if kind == "ConfigMap":
        metadata["namespace"] = "web"
        path = "/api/v1/namespaces/web/configmaps/settings"
        version = "v1"
    sent = {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
    query = urlencode({"fieldManager": manager, "#type": "apply", "force": str(force).lower()})
    status, answer = hub.answer(
        "PATCH", f"{path}?{query}", "admin-token", json.dumps(sent).encode()
    )
    assert status in (200, 201), answer


def get_placement_spec(hub: Front, **policy: Any) -> dict[str, Any]:
    """Return the spec of the placement on the hub, with another policy."""
    placement = hub.get(CRP, "web")
    assert placement is not None
    spec = {name: placement["spec"][name] for name in ("resourceSelectors", "policy")}
    return {"spec": {**spec, "policy": {**spec["policy"], **policy}}}


def scale(hub: Front) -> None:
    """Change the number of clusters with our field manager: no conflict for the hub."""
    apply_as(hub, "nexusform", CRP, get_placement_spec(hub, numberOfClusters=4))


def select_other_objects(hub: Front) -> None:
    body = get_placement_spec(hub)
    body["spec"]["resourceSelectors"][0]["name"] = "other"
    apply_as(hub, "nexusform", CRP, body)


def change_content(hub: Front) -> None:
    apply_as(hub, "nexusform", "ConfigMap", {"data": {"a": "9"}})


def remove_content(hub: Front) -> None:
    body = hub.get("ConfigMap", "settings", "web")
    assert body is not None
    hub.put({**body, "data": {"a": None}}, "kubectl")


# Each member of a request: another value, and its message.
MEMBERS: dict[str, tuple[Callable[[Front], None], str]] = {
    "number": (
        scale,
        "web has spec.policy.numberOfClusters 4 on the hub; the plan started from 2. Plan again.",
    ),
    "selector": (
        select_other_objects,
        "ClusterResourcePlacement web has spec.resourceSelectors [{",
    ),
    "data": (
        change_content,
        "ConfigMap web/settings has data.a 9 on the hub; the plan started from 1. Plan again.",
    ),
    "removed": (
        remove_content,
        "ConfigMap web/settings has data.a none on the hub; the plan started from 1. Plan again.",
    ),
}
members = pytest.mark.parametrize("member", MEMBERS)
PLANS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "change": ({"number": 3, "content": "2"}, ()),
    "destroy": ({}, ("-destroy",)),
}
plans = pytest.mark.parametrize("planned", PLANS)


def make_plan(hub: Front, run_command: CommandRunner, planned: str) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    arguments, flags = PLANS[planned]
    write_configuration(**arguments)
    code, said = run_command("plan", "-out=p.nfplan", *flags)
    assert code == 0, said
    hub.log.clear()


def apply_plan(run_command: CommandRunner) -> tuple[int, str]:
    return run_command("apply", "-auto-approve", "-confine=false", "-parallelism=1", "p.nfplan")


def list_written_objects(hub: Front, member: str) -> list[str]:
    """Return the writes of the object with a member."""
    plural = "configmaps" if member in ("data", "removed") else "clusterresourceplacements"
    return [path for _, path in list_writes(hub) if f"/{plural}/" in path]


@members
@plans
def test_change_between_plan_and_apply_is_not_overwritten(
    hub: Front, run_command: CommandRunner, member: str, planned: str
) -> None:
    make_plan(hub, run_command, planned)
    intervene, message = MEMBERS[member]
    intervene(hub)
    hub.log.clear()
    code, said = apply_plan(run_command)
    assert code == 1
    # Before the first write, the steps are replayed on the hub: the effect is another one.
    assert message in said or "Consequence not approved placement web is deleted on" in said, said
    assert list_written_objects(hub, member) == []
    # Plan again: the difference is shown, and the apply converges.
    arguments, flags = PLANS[planned]
    write_configuration(**arguments)
    code, said = run_command("apply", "-auto-approve", "-take-ownership", *flags)
    assert code in (0, 2), said
    assert run_command("plan", "-detailed-exitcode", "-take-ownership", *flags)[0] == 0


@members
@plans
def test_change_before_the_read_of_the_plan_is_planned(
    hub: Front, run_command: CommandRunner, member: str, planned: str
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    MEMBERS[member][0](hub)
    arguments, flags = PLANS[planned]
    write_configuration(**arguments)
    code, said = run_command("apply", "-auto-approve", "-take-ownership", *flags)
    assert code in (0, 2), said
    assert "Plan again" not in said


def test_planned_value_of_others_is_no_difference(hub: Front, run_command: CommandRunner) -> None:
    make_plan(hub, run_command, "change")
    apply_as(hub, "nexusform", CRP, get_placement_spec(hub, numberOfClusters=3))
    apply_as(hub, "nexusform", "ConfigMap", {"data": {"a": "2"}})
    code, said = apply_plan(run_command)
    assert code in (0, 2), said


def test_fields_of_others_are_not_compared(hub: Front, run_command: CommandRunner) -> None:
    make_plan(hub, run_command, "change")
    apply_as(hub, "ops", CRP, {"metadata": {"name": "web", "labels": {"team": "core"}}})
    apply_as(hub, "ops", "ConfigMap", {"data": {"b": "7"}})
    code, said = apply_plan(run_command)
    assert code in (0, 2), said
    settings = hub.get("ConfigMap", "settings", "web")
    assert settings is not None
    assert settings["data"] == {"a": "2", "b": "7"}


def test_deletion_of_an_ignored_field_is_as_large_as_approved(
    hub: Front, run_command: CommandRunner
) -> None:
    """Others set the ignored number of clusters: the deletion reaches further than the plan."""
    ignoring = "lifecycle {\n    ignore_changes = [policy.number_of_clusters]\n  }"
    write_configuration(more=ignoring)
    assert run_command("apply", "-auto-approve")[0] == 0
    assert run_command("plan", "-destroy", "-out=p.nfplan")[0] == 0
    scale(hub)
    code, said = apply_plan(run_command)
    assert code == 1, said
    assert "the plan showed: placement web is deleted on lon1 and par1" in said
    assert hub.get("ClusterResourcePlacement", "web") is not None
    assert run_command("apply", "-destroy", "-auto-approve")[0] == 0
    assert hub.get("ClusterResourcePlacement", "web") is None


def test_secret_is_compared_by_its_version(hub: Front, run_command: CommandRunner) -> None:
    secret = """
resource "fleet_hub_manifest" "secret" {{
  provider  = fleet
  yaml_body = <<-Y
    apiVersion: v1
    kind: Secret
    metadata: {{name: key, namespace: web}}
    stringData: {{password: "{value}"}}
  Y
  depends_on = [fleet_hub_manifest.web]
}}
"""

    def write(value: str) -> None:
        write_configuration()
        with Path("main.nf.hcl").open("a") as file:
            file.write(secret.format(value=value))

    write("first")
    assert run_command("apply", "-auto-approve")[0] == 0
    write("second")
    assert run_command("plan", "-out=p.nfplan")[0] == 0
    body = hub.get("Secret", "key", "web")
    assert body is not None
    hub.put({**body, "stringData": {"password": "third"}}, "nexusform")
    code, said = apply_plan(run_command)
    assert code == 1
    assert "Secret web/key was changed on the hub since the plan. Plan again." in said
    assert "third" not in said


def test_members_of_the_tests_are_those_of_the_requests() -> None:
    """A new member without a race fails here."""
    spec = {
        "name": "web",
        "resource_selector": [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}],
        "policy": {"placement_type": "PickN", "number_of_clusters": 2},
    }
    (placement,) = build_hub_objects("fleet_cluster_resource_placement", spec)
    paths = set(list_sent_paths(placement.body))
    assert POLICY in paths
    assert ("spec", "resourceSelectors") in paths


SECRET = """
resource "fleet_hub_manifest" "secret" {{
  provider  = fleet
  {body}
  depends_on = [fleet_hub_manifest.web]
}}
"""
TEXT_SECRET = """yaml_body = <<-Y
    apiVersion: v1
    kind: Secret
    metadata: {{name: key, namespace: web}}
    stringData: {{password: "{value}"}}
  Y"""
WRITE_ONLY_SECRET = """yaml_body_wo_version = {version}
  yaml_body_wo = <<-Y
    apiVersion: v1
    kind: Secret
    metadata: {{name: key, namespace: web}}
    stringData: {{password: "{value}"}}
  Y"""


def write_secret(value: str, version: int, body: str = TEXT_SECRET) -> None:
    write_configuration()
    with Path("main.nf.hcl").open("a") as file:
        file.write(SECRET.format(body=body.format(value=value, version=version)))


def change_secret(hub: Front) -> None:
    """Write another value with our field manager."""
    body = hub.get("Secret", "key", "web")
    assert body is not None
    named = {name: body[name] for name in ("apiVersion", "kind")}
    metadata = {name: body["metadata"][name] for name in ("name", "namespace")}
    hub.put({**named, "metadata": metadata, "data": {"password": "dGhpcmQ="}}, "nexusform")


@pytest.mark.parametrize("body", [TEXT_SECRET, WRITE_ONLY_SECRET], ids=["text", "write-only"])
def test_changed_secret_is_not_overwritten_without_a_read(
    hub: Front, run_command: CommandRunner, body: str
) -> None:
    write_secret("first", 1, body)
    assert run_command("apply", "-auto-approve")[0] == 0
    write_secret("second", 2, body)
    code, said = run_command("plan", "-refresh=false", "-out=p.nfplan")
    assert code == 0, said
    change_secret(hub)
    existing = hub.get("Secret", "key", "web")
    code, said = apply_plan(run_command)
    assert code == 1, said
    message = "changed on the hub since the plan. Plan again."
    if body is WRITE_ONLY_SECRET:
        message = "Secret web/key has write-only values, and the plan did not read it on the hub."
    assert message in said
    assert "third" not in said
    assert hub.get("Secret", "key", "web") == existing


def test_unchanged_secret_is_written_without_a_read(hub: Front, run_command: CommandRunner) -> None:
    write_secret("first", 1)
    assert run_command("apply", "-auto-approve")[0] == 0
    write_secret("second", 2)
    target = "-target=fleet_hub_manifest.secret"
    assert run_command("plan", "-refresh=false", target, "-out=p.nfplan")[0] == 0
    code, said = apply_plan(run_command)
    assert code == 0, said
    secret = hub.get("Secret", "key", "web")
    assert secret is not None
    assert secret["data"] == {"password": "c2Vjb25k"}


def pend_secret(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch, *, is_sent: bool
) -> None:
    """Apply the plan until the write of the Secret has no answer."""
    monkeypatch.setattr("nexusform.domains.hub.api.hub_client._RETRY_SECONDS", 0.1)
    monkeypatch.setattr("nexusform.domains.hub.api.hub_client._FIRST_RETRY_SECONDS", 0.1)

    def fail(method: str, target: str) -> int | None:
        if method == "PATCH" and "/secrets/" in target:
            if not is_sent:
                return 503
            hub.faults = lambda *_: 503
        return None

    hub.faults = fail
    code, said = apply_plan(run_command)
    assert (code, "-resume" in said) == (1, True), said
    hub.faults = lambda *_: None


@pytest.mark.parametrize("is_sent", [False, True], ids=["lost", "sent"])
@pytest.mark.parametrize("body", [TEXT_SECRET, WRITE_ONLY_SECRET], ids=["text", "write-only"])
def test_secret_changed_before_a_resumed_step_is_not_overwritten(
    hub: Front,
    run_command: CommandRunner,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    *,
    is_sent: bool,
) -> None:
    write_secret("first", 1, body)
    assert run_command("apply", "-auto-approve")[0] == 0
    write_secret("second", 2, body)
    assert run_command("plan", "-out=p.nfplan")[0] == 0
    pend_secret(hub, run_command, monkeypatch, is_sent=is_sent)
    change_secret(hub)
    existing = hub.get("Secret", "key", "web")
    code, said = run_command("apply", "-resume")
    assert code == 1, said
    assert "Secret web/key was changed on the hub since the plan. Plan again." in said
    assert hub.get("Secret", "key", "web") == existing


@pytest.mark.parametrize("body", [TEXT_SECRET, WRITE_ONLY_SECRET], ids=["text", "write-only"])
def test_own_write_of_a_secret_is_found_on_resume(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    write_secret("first", 1, body)
    assert run_command("apply", "-auto-approve")[0] == 0
    write_secret("second", 2, body)
    target = "-target=fleet_hub_manifest.secret"
    assert run_command("plan", target, "-out=p.nfplan")[0] == 0
    pend_secret(hub, run_command, monkeypatch, is_sent=True)
    code, said = run_command("apply", "-resume")
    assert code == 0, said


def put_deployment(hub: Front) -> None:
    hub.put(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "theirs", "namespace": "web"},
            "spec": {"replicas": 1},
        },
        "kubectl",
    )


@pytest.mark.parametrize("gap", ["before-plan", "before-apply"])
def test_namespace_is_deleted_with_the_content_of_the_plan(
    hub: Front, run_command: CommandRunner, gap: str
) -> None:
    """Others put a Deployment into a namespace to delete: the plan did not show it."""
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    if gap == "before-plan":
        put_deployment(hub)
    assert run_command("plan", "-destroy", "-out=p.nfplan")[0] == 0
    if gap == "before-apply":
        put_deployment(hub)
    code, said = apply_plan(run_command)
    if gap == "before-plan":
        assert code == 0, said
        return
    assert code == 1, said
    assert (
        "Namespace web has Deployment web/theirs on the hub, which the plan did not show." in said
    )
    assert hub.get("Deployment", "theirs", "web") is not None
    assert run_command("apply", "-destroy", "-auto-approve")[0] == 0
    assert hub.get("Namespace", "web") is None


def create_placement_again(hub: Front) -> None:
    """Delete the placement, and create one of the same name, as another person."""
    body = hub.get(CRP, "web")
    assert body is not None
    spec = {name: body["spec"][name] for name in ("resourceSelectors", "policy")}
    status, answer = hub.answer("DELETE", f"{get_collection_path(CRP)}/web", "admin-token", b"")
    assert status in (200, 201), answer
    apply_as(hub, "kubectl", CRP, {"spec": spec})


@pytest.mark.parametrize("planned", PLANS)
def test_placement_that_others_made_again_is_named_at_once(
    hub: Front, run_command: CommandRunner, planned: str
) -> None:
    """Its bindings are those of the new placement: no step waits until they are gone."""
    make_plan(hub, run_command, planned)
    create_placement_again(hub)
    hub.log.clear()
    start = monotonic()
    code, said = apply_plan(run_command)
    assert monotonic() - start < 30, said
    assert "re-created by another manager since the plan" in said, said
    assert hub.get(CRP, "web") is not None
    # A deletion keeps the new placement: it is not the one of the plan.
    assert code == (1 if planned == "change" else 0), said
