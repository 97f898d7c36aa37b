"""Tests of hub time and deletions.

The hub's clock counts, and objects in deletion are reported before any write.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler

import pytest

from nexusform.domains.hub.providers.rollout_progress import check_run_progress
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Body, Front, RequestRejection
from tests.domains.hub.test_fleet_provider import list_writes, write_configuration

pytestmark = pytest.mark.our_hub_alone


def set_heartbeats(hub: Front, age: timedelta, later: timedelta) -> None:
    """Set the heartbeats of all members to this age, and that of par1 to one older by `later`."""
    for each in hub.all("MemberCluster"):
        time = datetime.now(UTC) - age - later * (each["metadata"]["name"] == "par1")
        agent: Body = {
            **each["status"]["agentStatus"][0],
            "lastReceivedHeartbeat": f"{time:%Y-%m-%dT%H:%M:%SZ}",
        }
        hub.put({**each, "status": {**each["status"], "agentStatus": [agent]}})


@pytest.mark.parametrize(("minutes", "is_known"), [(1, True), (6, False), (-6, False)])
def test_newest_heartbeat_is_the_clock_without_a_date_header(
    hub: Front,
    run_command: CommandRunner,
    minutes: int,
    is_known: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_heartbeats(hub, timedelta(minutes=minutes), timedelta(minutes=6))
    monkeypatch.setattr(BaseHTTPRequestHandler, "date_time_string", lambda *_: "")
    write_configuration()
    code, said = run_command("plan", "-details")
    assert (code, "clock-skew" in said) == (0, False), said
    assert "+ 2 clusters -> fra1, lon1" in said or "+ 2 clusters -> ams1, lon1" in said, said
    assert ("Whether members are alive is unknown." in said) is not is_known, said


@pytest.mark.our_hub_alone
@pytest.mark.parametrize(("minutes", "code"), [(1, 2), (6, 0)])
def test_unknown_heartbeat_age_makes_predictions_uncertain(
    hub: Front,
    controller: Controller,
    run_command: CommandRunner,
    minutes: int,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_heartbeats(hub, timedelta(minutes=minutes), timedelta())
    monkeypatch.setattr(BaseHTTPRequestHandler, "date_time_string", lambda *_: "")
    controller.picks["web"] = ["ams1", "fra1"]
    write_configuration()
    got, said = run_command("apply", "-auto-approve")
    assert (got, "Wrong certain predictions" in said) == (code, code == 2), said
    assert ("health unknown, without the age of its heartbeat -> Healthy" in said) is (code == 0), (
        said
    )


@pytest.mark.parametrize("zone", ["GMT", "-0000"])
@pytest.mark.parametrize(
    ("minutes", "words"), [(6, "s ahead of that of"), (-6, "s behind that of")]
)
def test_heartbeats_are_compared_with_hub_clock(
    hub: Front,
    run_command: CommandRunner,
    minutes: int,
    words: str,
    zone: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = datetime.now(UTC) - timedelta(minutes=minutes)
    for each in hub.all("MemberCluster"):
        agent: Body = {
            **each["status"]["agentStatus"][0],
            "lastReceivedHeartbeat": f"{there:%Y-%m-%dT%H:%M:%SZ}",
        }
        hub.put({**each, "status": {**each["status"], "agentStatus": [agent]}})
    date = format_datetime(there, usegmt=True).replace("GMT", zone)
    monkeypatch.setattr(BaseHTTPRequestHandler, "date_time_string", lambda *_: date)
    write_configuration()
    code, said = run_command("plan", "-details")
    assert code == 0, said
    assert "+ 2 clusters -> lon1, par1" in said
    assert words in said


@pytest.mark.parametrize(
    ("kind", "name", "namespace"),
    [("ConfigMap", "settings", "web"), ("ClusterResourcePlacement", "web", "")],
)
def test_object_in_deletion_is_named_without_any_write(
    hub: Front, run_command: CommandRunner, kind: str, name: str, namespace: str
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    body = hub.get(kind, name, namespace)
    assert body is not None
    hub.put({**body, "metadata": {**body["metadata"], "finalizers": ["example.com/held"]}})
    held = hub.get(kind, name, namespace)
    assert held is not None
    hub.hold(held)
    said = run_command("plan", "-details")[1]
    title = f"{kind} {namespace and namespace + '/'}{name}"
    assert f"{title} is being deleted" in said
    write_configuration(number=3, content="2")
    hub.log.clear()
    code, said = run_command("apply", "-auto-approve")
    assert code == 1, said
    assert (
        f"{title} is being deleted on the hub, held by example.com/held. Plan again once it is "
        "gone."
    ) in said
    assert list_writes(hub) == []


def test_list_of_another_kind_is_an_error(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = hub.answer

    def answer_nodes(method: str, target: str, token: str, content: bytes) -> tuple[int, Body]:
        status, body = answer(method, target, token, content)
        return status, {**body, "kind": "NodeList"} if "/memberclusters" in target else body

    monkeypatch.setattr(hub, "answer", answer_nodes)
    write_configuration()
    code, said = run_command("plan")
    assert code == 1
    assert "/memberclusters with a list of Node, not of MemberCluster." in said


def test_order_of_statuses_is_no_change(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.asleep = True
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    statuses = placement["status"]["placementStatuses"][::-1]
    hub.put({**placement, "status": {**placement["status"], "placementStatuses": statuses}})
    said = run_command("plan", "-refresh-only")[1]
    assert "placement_statuses" not in said, said


def test_stopping_run_names_the_awaited_cluster() -> None:
    stage = {"stageName": "rest", "clusters": [{"clusterName": "lon1"}]}
    run = {
        "metadata": {"generation": 1},
        "spec": {"state": "Stop"},
        "status": {"stagesStatus": [stage]},
    }
    assert (
        check_run_progress(run, ()).message
        == "it is to stop; stage rest: 0 of 1 cluster done (lon1 to come)"
    )


def test_run_between_its_last_stage_and_its_end_does_not_begin() -> None:
    done = {
        "stageName": "rest",
        "conditions": [{"type": "Succeeded", "status": "True", "observedGeneration": 1}],
    }
    run = {
        "metadata": {"generation": 1},
        "spec": {"state": "Run"},
        "status": {"stagesStatus": [done]},
    }
    assert check_run_progress(run, ()).message == "all stages are done"
    assert check_run_progress({**run, "status": {}}, ()).message == "it begins"


def test_plan_counts_unvalidated_changes(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexusform.domains.hub.providers.hub_dry_run._MAX_DRY_RUNS", 2)
    write_configuration()
    code, said = run_command("plan", "-details")
    assert code == 0
    assert "Server-side dry run skipped for 1 change: a plan sends at most 500 dry runs." in said
    assert {path for method, path, _, _ in hub.log if method == "PATCH"} <= {
        "/api/v1/namespaces/web",
        "/api/v1/namespaces/web/configmaps/settings",
    }


def test_missing_permissions_to_list_are_reported_together(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    respond = hub.respond
    kinds = ("memberclusters", "clusterresourcebindings")

    def reject_lists(
        method: str, path: str, query: dict[str, str], token: str, content: bytes
    ) -> tuple[int, Body]:
        plural = path.rpartition("/")[2]
        if plural in kinds:
            raise RequestRejection(
                403, f'{plural} is forbidden: User "bob" cannot list resource "{plural}"'
            )
        return respond(method, path, query, token, content)

    monkeypatch.setattr(hub, "respond", reject_lists)
    write_configuration()
    code, said = run_command("plan")
    assert code == 1
    assert all(f"{kind} be listed:" in said for kind in kinds), said
    assert said.count("Error:") == 1


@pytest.mark.our_hub_alone
@pytest.mark.parametrize(
    ("message", "code", "finding"),
    [
        (
            'admission webhook "guard" denied the request: web is protected',
            1,
            'webhook "guard": web is protected',
        ),
        (
            'namespaces "web" is forbidden: User "bob" cannot delete resource "namespaces"',
            0,
            "may not delete namespaces",
        ),
    ],
)
def test_deletions_are_validated_by_dry_run(
    hub: Front, run_command: CommandRunner, message: str, code: int, finding: str
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    respond = hub.respond

    def reject_deletion(
        method: str, path: str, query: dict[str, str], token: str, content: bytes
    ) -> tuple[int, Body]:
        if method == "DELETE" and path == "/api/v1/namespaces/web":
            raise RequestRejection(403, message)
        return respond(method, path, query, token, content)

    hub.respond = reject_deletion  # type: ignore[method-assign]
    hub.log.clear()
    got, said = run_command("plan", "-destroy", "-details")
    assert (got, finding in said) == (code, True), said
    assert all(dry for method, _, dry, _ in hub.log if method != "GET")
    assert [path.rpartition("/")[2] for method, path, _, _ in hub.log if method == "DELETE"].count(
        "settings"
    ) == 1
    assert hub.get("Namespace", "web") is not None
