"""Tests of override changes.

An apply ends after their rollout to the clusters, not after their snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Body, Front, RequestRejection
from tests.domains.hub.hub_server import HubServer
from tests.domains.hub.test_fleet_provider import write_configuration
from tests.domains.hub.test_hub_order import OVERRIDE as RUN_OVERRIDE
from tests.domains.hub.test_hub_runs import EXTERNAL, RUN, append_configuration

OVERRIDE = """
resource "fleet_resource_override" "color" {{
  provider  = fleet
  name      = "color"
  namespace = "web"
  {names}
  resource_selector {{
    group   = ""
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }}
  policy {{
    override_rule {{
      cluster_selector {{}}
      json_patch_override {{
        op    = "add"
        path  = "/data/color"
        value = jsonencode("{color}")
      }}
    }}
  }}
  depends_on = [fleet_hub_manifest.web]
}}
"""
NAMES = 'placement {\n    name = "web"\n  }'


def write_with_override(color: str, names: str = NAMES, more: str = "") -> None:
    write_configuration(timeout="1s", more=more)
    with Path("main.nf.hcl").open("a") as configuration:
        configuration.write(OVERRIDE.format(color=color, names=names))


def list_override_snapshots(hub: Front) -> set[str]:
    """Return the names of override snapshots in bindings."""
    lists = [
        binding["spec"]["resourceOverrideSnapshots"]
        for binding in hub.all("ClusterResourceBinding")
    ]
    return {each["name"] for listed in lists for each in listed}


def apply_placement(run_command: CommandRunner) -> None:
    write_configuration(timeout="1s")
    assert run_command("apply", "-auto-approve")[0] == 0


def test_apply_waits_for_rollout_of_new_override(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    apply_placement(run_command)
    controller.overrides_wait = True
    write_with_override("red")
    code, said = run_command("apply", "-auto-approve")
    assert (code, "Apply waiting" in said) == (1, True), said
    assert "the hub has not taken a snapshot of web/color yet" in said
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes" in said) == (2, False), said
    assert "change-in-progress ResourceOverride web/color waits" in said
    controller.overrides_wait = False
    code, said = run_command("apply", "-resume")
    assert code == 0, said
    assert list_override_snapshots(hub) == {"color-0"}
    assert run_command("plan", "-detailed-exitcode")[0] == 0


def test_apply_waits_for_changed_override(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_with_override("red")
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.overrides_wait = True
    write_with_override("blue")
    assert run_command("apply", "-auto-approve")[0] == 1
    controller.overrides_wait = False
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert list_override_snapshots(hub) == {"color-1"}
    assert run_command("plan", "-detailed-exitcode")[0] == 0


def test_deletion_waits_for_removal_of_override_effects(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_with_override("red")
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.overrides_wait = True
    write_configuration(timeout="1s")
    code, said = run_command("apply", "-auto-approve")
    assert (code, "Apply waiting" in said) == (1, True), said
    assert "lon1 still has it" in said
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes" in said) == (2, False), said
    controller.overrides_wait = False
    code, said = run_command("apply", "-resume")
    assert code == 0, said
    assert list_override_snapshots(hub) == set()
    assert run_command("plan", "-detailed-exitcode")[0] == 0


def test_failing_cluster_ends_wait_for_override(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    apply_placement(run_command)
    controller.stuck.add("lon1")
    write_with_override("red")
    said = run_command("apply", "-auto-approve")[1]
    assert "fleet_resource_override.color: Creation complete" in said
    assert list_override_snapshots(hub) == {"color-0"}


STRICT = "strategy {\n    rolling_update {\n      max_unavailable = 0\n    }\n  }"


def test_blocked_rollout_is_not_awaited(
    hub: HubServer, controller: Controller, run_command: CommandRunner
) -> None:
    apply_placement(run_command)
    controller.holds_back = True
    # No cluster may be unavailable.
    write_with_override("red", more=STRICT)
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert (
        "color: the rollout of web stops before lon1, par1: max_unavailable and max_surge" in said
    )
    assert list_override_snapshots(hub) == set()
    code, said = run_command("plan", "-detailed-exitcode")
    assert code == 2, said
    assert "incomplete-rollout web: the rollout stops before lon1, par1" in said


def test_unblocked_rollout_is_awaited(
    hub: HubServer, controller: Controller, run_command: CommandRunner
) -> None:
    apply_placement(run_command)
    controller.holds_back = True
    write_with_override("red")
    code, said = run_command("apply", "-auto-approve")
    assert (code, "Apply waiting" in said) == (1, True), said
    assert "lon1 does not have it yet, par1 does not have it yet" in said
    assert list_override_snapshots(hub) == set()


def test_override_without_placement_is_done_after_its_snapshot(
    hub: Front, run_command: CommandRunner
) -> None:
    apply_placement(run_command)
    write_with_override("red", names="")
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert [each["metadata"]["name"] for each in hub.all("ResourceOverrideSnapshot")] == ["color-0"]


def test_late_decision_is_no_wrong_prediction(
    hub: Front, controller: Controller, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexusform.domains.hub.providers.hub_wait._DECISION_DELAY", 600.0)
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(number=3)
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    controller.late = 12
    code, said = run_command("apply", "x.nfplan")
    assert code == 0, said
    assert "1 of 1 predictions correct" in said
    assert len(hub.all("ClusterResourceBinding")) == 3


def test_objects_deleted_during_read_are_read_consistently(
    hub: Front, run_command: CommandRunner
) -> None:
    apply_placement(run_command)
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}, "setup")
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "other"}
    other = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "other"},
        "spec": {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}},
    }
    hub.put(other, "kubectl")
    hub.act()
    asked: list[str] = []

    def delete_between_reads(method: str, path: str) -> int | None:
        if path.endswith("/clusterresourcebindings") and not asked:
            asked.append(f"{method} {path}")
            hub.remove(other)
            hub.act()
        return None

    hub.faults = delete_between_reads
    code, said = run_command("plan", "-detailed-exitcode")
    assert asked
    assert (code, "No changes." in said) == (0, True), said


def test_hub_without_history_is_read_kind_by_kind(
    hub: Front, run_command: CommandRunner, forget: Callable[[], None]
) -> None:
    apply_placement(run_command)
    forget()
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    assert hub.expired


def test_override_of_another_manager_is_kept_and_predicted(
    hub: Front, run_command: CommandRunner
) -> None:
    apply_placement(run_command)
    rule = {"clusterSelector": {"clusterSelectorTerms": []}, "overrideType": "JSONPatch"}
    rule["jsonPatchOverrides"] = [{"op": "add", "path": "/data/z", "value": "1"}]
    selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"}
    theirs = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceOverride",
        "metadata": {"name": "theirs", "namespace": "web"},
        "spec": {
            "placement": {"name": "web", "scope": "Cluster"},
            "resourceSelectors": [selector],
            "policy": {"overrideRules": [rule]},
        },
    }
    hub.put(theirs, "kubectl")
    hub.act()
    assert list_override_snapshots(hub) == {"theirs-0"}
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    write_configuration(content="2")
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert "2 of 2 predictions correct" in said
    assert run_command("plan", "-detailed-exitcode")[0] == 0


@pytest.mark.our_hub_alone
def test_objects_that_another_hand_deletes_are_wrong_predictions(
    hub: Front, run_command: CommandRunner
) -> None:
    """The plan has no override, but one was added after it: the Work lacks the ConfigMap."""
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
    work = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "Work",
        "metadata": {
            "name": "web-work",
            "namespace": "fleet-member-lon1",
            "labels": {"kubernetes-fleet.io/parent-CRP": "web"},
        },
        "spec": {"workload": {"manifests": [own]}},
    }
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet-member-lon1"}})
    hub.put(work)
    write_configuration(timeout="1s")
    code, said = run_command("apply", "-auto-approve")
    assert code == 2, said
    assert "its Works differ from the plan in ConfigMap web/settings" in said, said


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("color", ["red", "blue"])
def test_objects_per_cluster_are_verified_after_overrides(
    hub: Front, run_command: CommandRunner, color: str
) -> None:
    names = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work"}
    labels = {"kubernetes-fleet.io/parent-CRP": "web"}
    contents = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "web"},
            "data": {"a": "1", "color": color},
        },
    ]
    metadata = {"name": "web-work", "namespace": "fleet-member-lon1", "labels": labels}
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet-member-lon1"}})
    hub.put({**names, "metadata": metadata, "spec": {"workload": {"manifests": contents}}})
    write_with_override("red")
    code, said = run_command("apply", "-auto-approve")
    # The prediction is certain.
    assert code == (0 if color == "red" else 2), said
    wrong = (
        "lon1 was predicted as at resource snapshot 0, but is there with other content: its Works "
        "differ from the plan"
    )
    assert (f"{wrong} in ConfigMap web/settings" in said) is (color == "blue"), said
    assert "not verified: the hub has no Works of par1" in said, said


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("label", ["yes", "no"])
def test_objects_per_cluster_are_verified_after_run_with_overrides(
    hub: Front, run_command: CommandRunner, label: str
) -> None:
    labels = {"kubernetes-fleet.io/parent-CRP": "web"}
    own = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "web", "labels": {"changed": label}},
    }
    metadata = {"name": "settings", "namespace": "web", "labels": {"changed": "yes"}}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    work = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "Work",
        "metadata": {"name": "web-work", "namespace": "fleet-member-lon1", "labels": labels},
        "spec": {"workload": {"manifests": [own, settings | {"data": {"a": "1"}}]}},
    }
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet-member-lon1"}})
    hub.put(work)
    write_configuration(number=4, more=EXTERNAL)
    override = RUN_OVERRIDE.replace("labels/changed", "labels").replace(
        'jsonencode("yes")', 'jsonencode({changed="yes"})'
    )
    append_configuration(RUN.format(more='approvals = ["first-after-canary"]') + override)
    code, said = run_command("apply", "-auto-approve")
    assert code == (0 if label == "yes" else 2), said
    wrong = (
        "lon1 was predicted as at resource snapshot 0, but is there with other content: its Works "
        "differ"
    )
    assert (f"{wrong} from the plan in Namespace web" in said) is (label == "no"), said
    assert "first: not verified: the hub has no Works of ams1, fra1, par1" in said, said


@pytest.mark.our_hub_alone
@pytest.mark.usefixtures("hub")
def test_wrong_prediction_of_run_is_named_at_the_end(run_command: CommandRunner) -> None:
    write_configuration(number=4, more=EXTERNAL)
    append_configuration(RUN.format(more='approvals = ["first-after-canary"]') + RUN_OVERRIDE)
    # This hub applies no overrides.
    code, said = run_command("apply", "-auto-approve")
    assert (code, "stuck-staged-run" in said) == (0, True), said
    assert "first: predicted: it stops; observed: all stages complete" in said, said


@pytest.mark.our_hub_alone
def test_works_without_permission_are_not_verified(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    respond = hub.respond

    def reject_works(
        method: str, path: str, query: dict[str, str], token: str, content: bytes
    ) -> tuple[int, Body]:
        if path.endswith("/works"):
            raise RequestRejection(
                403, 'works is forbidden: User "bob" cannot list resource "works"'
            )
        return respond(method, path, query, token, content)

    monkeypatch.setattr(hub, "respond", reject_works)
    write_with_override("red")
    code, said = run_command("apply", "-auto-approve")
    unread = (
        "not verified: the hub does not let Works be listed, so the objects of its clusters are "
        "unknown"
    )
    assert (code, unread in said) == (0, True), said
    code, said = run_command("reconcile", "-from=hub")
    assert (code, unread in said) == (0, True), said
    (placement,) = json.loads(run_command("reconcile", "-from=hub", "-format=json")[1])[
        "placements"
    ]
    assert placement["not_verified"] in unread
    assert run_command("plan", "-out=p")[0] == 0
    (score,) = json.loads(run_command("show", "-json", "p")[1])["prediction_scores"]
    assert score["not_verified"] == placement["not_verified"]
    write_with_override("blue")
    assert run_command("plan", "-report=markdown:plan.md")[0] == 0
    assert unread.replace("not v", "Not v") in " ".join(Path("plan.md").read_text().split())
