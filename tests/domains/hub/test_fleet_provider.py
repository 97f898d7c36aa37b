"""Tests of fleet plans on a hub: server-side dry run, apply, wait and comparison."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.hub import hub_webhooks
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller, build_member
from tests.domains.hub.hub_front import HAND_OVER, PLURALS, WEBHOOK, Front, list_managed_fields
from tests.domains.hub.hub_server import HubServer

WEB = """
provider "fleet" {{ timeout = "{timeout}" }}
data "fleet_hub" "hub" {{}}

resource "fleet_hub_manifest" "web" {{
  provider  = fleet
  yaml_body = <<-Y
    apiVersion: v1
    kind: Namespace
    metadata: {{name: web}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: settings, namespace: web}}
    data: {{a: "{content}"}}
  Y
}}

resource "fleet_cluster_resource_placement" "web" {{
  provider = fleet
  resource_selector {{
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }}
  policy {{
    placement_type     = "PickN"
    number_of_clusters = {number}
  }}
  {more}
  depends_on = [fleet_hub_manifest.web]
}}
"""


MANY = """
resource "fleet_cluster_resource_placement" "more-{number}" {{
  provider = fleet
  resource_selector {{
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }}
  policy {{
    placement_type     = "PickN"
    number_of_clusters = 2
  }}
  depends_on = [fleet_hub_manifest.web]
}}
"""


def write_configuration(
    *, number: int = 2, content: str = "1", timeout: str = "30m", more: str = ""
) -> None:
    Path("main.nf.hcl").write_text(
        WEB.format(number=number, content=content, timeout=timeout, more=more)
    )


def list_writes(hub: Front) -> list[tuple[str, str]]:
    """Return the requests with a permanent effect on an object."""
    return [
        (method, path)
        for method, path, dry, _ in hub.log
        if method not in ("GET", HAND_OVER) and not dry
    ]


def test_apply_matches_plan_without_duplicate_requests(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    code, said = run_command("apply", "-auto-approve")
    assert code == 0
    assert "+ 2 clusters -> lon1, par1" in said
    assert (
        f"Dry run: The hub {hub.url} takes 1 of 1 change (dry runs). Validated only during" in said
    )
    assert "ConfigMap web/settings (its namespace comes with this plan)" in said
    assert "not-checked" not in said
    assert "Resources: 2 added" in said
    assert "2 of 2 predictions correct" in said
    assert [path.rpartition("/")[2] for _, path in list_writes(hub)] == ["web", "settings", "web"]
    hub.log.clear()
    code, said = run_command("plan", "-detailed-exitcode")
    assert code == 0, said
    assert "No changes." in said
    assert [entry for entry in hub.log if entry[0] != "GET"] == []


def test_changed_hub_messages_are_no_change(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    controller.asleep = True
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    status = json.loads(json.dumps(placement["status"]))
    status["placementStatuses"][0]["conditions"][0]["message"] = "in other words"
    names = {name: placement[name] for name in ("apiVersion", "kind")}
    hub.put({**names, "metadata": {"name": "web"}, "status": status})
    assert "No changes." in run_command("plan")[1]
    status["conditions"] = status["conditions"][:3]
    hub.put({**names, "metadata": {"name": "web"}, "status": status})
    said = run_command("plan", "-refresh-only")[1]
    assert "~ fleet_cluster_resource_placement.web conditions 3 removed" in said


def test_objects_of_many_placements_are_listed_once(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    with Path("main.nf.hcl").open("a") as configuration:
        configuration.writelines(MANY.format(number=number) for number in range(5))
    assert run_command("apply", "-auto-approve")[0] == 0
    hub.log.clear()
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    asked = [path for method, path, _, _ in hub.log if method == "GET"]
    made = (
        "clusterresourcebindings",
        "clusterschedulingpolicysnapshots",
        "clusterresourcesnapshots",
    )
    # Once for data "fleet_hub", once for the current objects.
    for plural in made:
        assert sum(path.endswith(f"/{plural}") for path in asked) == 2
    assert not any("clusterresourceplacements/" in path for path in asked)


def test_objects_of_many_manifests_are_listed_once(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    with Path("main.nf.hcl").open("a") as configuration:
        for number in range(6):
            yaml = f'"{{apiVersion: v1, kind: Namespace, metadata: {{name: more-{number}}}}}"'
            block = f'resource "fleet_hub_manifest" "m{number}"'
            configuration.write(f"{block} {{\n  provider = fleet\n  yaml_body = {yaml}\n}}\n")
    assert run_command("apply", "-auto-approve")[0] == 0
    hub.log.clear()
    code, said = run_command("plan", "-detailed-exitcode")
    assert code == 0, said
    asked = [path for method, path, _, _ in hub.log if "/namespaces" in path]
    assert asked.count("/api/v1/namespaces") == 1
    # The request reads the identity of the hub.
    assert sum("/more-" in path for path in asked) == 1


def test_apply_waits_for_scaling_and_new_content(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    write_configuration(number=3, content="2")
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    snapshots = {b["spec"]["resourceSnapshotName"] for b in hub.all("ClusterResourceBinding")}
    assert snapshots == {"web-1-snapshot"}
    assert "No changes." in run_command("plan")[1]


def test_foreign_fields_in_an_object_are_kept(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    names = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "web"},
    }
    hub.put({**names, "data": {"b": "theirs"}}, "kubectl")
    hub.act()
    assert "No changes." in run_command("plan")[1]
    write_configuration(content="2")
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert "2 of 2 predictions correct" in said
    settings = hub.get("ConfigMap", "settings", "web")
    assert settings is not None
    assert settings["data"] == {"a": "2", "b": "theirs"}
    assert "No changes." in run_command("plan")[1]


@pytest.mark.parametrize("value", ["true", "1", "null"])
def test_value_of_a_toleration_stays_text(
    value: str, hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    toleration = (
        '    toleration {\n      key      = "gpu"\n      operator = "Equal"\n      value    = '
        f'"{value}"\n    }}\n'
    )
    path = Path("main.nf.hcl")
    path.write_text(
        path.read_text().replace(
            "    number_of_clusters = 2\n", f"    number_of_clusters = 2\n{toleration}"
        )
    )
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    assert placement["spec"]["policy"]["tolerations"][0]["value"] == value
    assert "No changes." in run_command("plan")[1]


def test_wrong_certain_prediction_is_an_alarm(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    controller.picks["web"] = ["ams1", "par1"]
    hub.act()
    write_configuration()
    code, said = run_command("apply", "-auto-approve")
    assert code == 2
    assert "Apply complete!" in said
    assert "1 prediction wrong, 1 correct" in said
    assert "bindings.lon1 was predicted but does not exist" in said
    assert "lon1 was predicted as picked, but is not picked: no figure changed" in said
    assert "web: lon1 was predicted (certain) as picked, is not picked" in said
    assert "No changes." in run_command("plan")[1]
    write_configuration(number=3)
    said = run_command("plan")[1]
    assert "2 of 4 verified predictions correct" in said


def test_empty_selection_by_hub_is_awaited_and_reported(
    hub: Front, controller: Controller, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexusform.domains.hub.providers.hub_wait._SNAPSHOT_TIMEOUT", 1.0)
    controller.sees_nothing = True
    write_configuration()
    code, said = run_command("apply", "-auto-approve")
    assert "the hub selects no objects; predicted: 2" in said, (code, said)
    controller.sees_nothing = False
    hub.act()
    write_configuration(content="2")
    code, said = run_command("apply", "-auto-approve")
    assert (code, "selects nothing" in said) == (0, False), said


def test_unfinished_rollout_fails_reconcile(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    controller.stuck.add("lon1")
    write_configuration(timeout="1s")
    assert run_command("apply", "-auto-approve")[0] == 1
    code, said = run_command("reconcile", "-from=hub")
    assert (code, "the hub is not done with 1 placement" in said) == (2, True), said
    controller.stuck.clear()
    hub.act()
    assert run_command("apply", "-resume")[0] == 0
    assert run_command("reconcile", "-from=hub")[0] == 0


def test_figures_changed_after_plan_explain_result_without_alarm(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    moved = build_member("lon1", env="canary")
    hub.put(moved, "somebody")
    controller.picks["web"] = ["ams1", "par1"]
    code, said = run_command("apply", "x.nfplan")
    assert code == 0, said
    assert "figures changed since the plan: lon1: label env prod -> canary" in said


@pytest.mark.parametrize("health", ["Unhealthy", "NoHeartbeat"])
def test_member_unhealthy_after_plan_explains_result_without_alarm(
    hub: Front, controller: Controller, run_command: CommandRunner, health: str
) -> None:
    write_configuration()
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    ill = build_member("lon1", env="prod")
    agent = ill["status"]["agentStatus"][0]
    long_ago = "2026-01-31T10:00:00Z"
    if health == "NoHeartbeat":
        agent["lastReceivedHeartbeat"] = long_ago
    else:
        agent["conditions"][1] |= {"status": "False", "lastTransitionTime": long_ago}
    hub.put(ill, "somebody")
    controller.picks["web"] = ["ams1", "par1"]
    code, said = run_command("apply", "x.nfplan")
    assert code == 0, said
    assert f"figures changed since the plan: lon1: health Healthy -> {health}" in said
    # The values just read are recorded next to it.
    run_command("apply", "-refresh-only", "-auto-approve")
    state = json.loads(run_command("state", "pull")[1])
    (placement,) = (
        one for one in state["resources"] if one["type"] == "fleet_cluster_resource_placement"
    )
    noted = placement["instances"][0]["private"]["hub"]["wrong_predictions"]
    assert [(miss["cluster"], miss["kind"]) for miss in noted] == [
        ("ams1", "figures"),
        ("lon1", "figures"),
    ]


def test_state_is_reconciled_with_hub(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    assert run_command("reconcile", "-from=hub")[0] == 1
    write_configuration()
    run_command("apply", "-auto-approve")
    code, said = run_command("reconcile", "-from=hub")
    assert code == 0, said
    assert "1 placement on 2 clusters: each equals the state." in said
    assert "4 of 4 verified predictions correct" in said
    assert "skill 1.00 (1 is best)" in said
    controller.picks["web"] = ["ams1", "par1"]
    hub.act()
    hub.log.clear()
    code, said = run_command("reconcile", "-from=hub", "-format=json")
    assert code == 2, said
    (placement,) = json.loads(said)["placements"]
    assert [(one["cluster"], one["state"]) for one in placement["differences"]] == [
        ("ams1", "not there"),
        ("lon1", "Bound, snapshot 0, scores 0 and 0"),
    ]
    assert {method for method, *_ in hub.log} == {"GET"}
    assert run_command("reconcile", "-from=hub")[0] == 0


def test_correct_predictions_count_in_score(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    run_command("plan", "-out=x.nfplan")
    document = json.loads(run_command("show", "-json", "x.nfplan")[1])
    (score,) = document["prediction_scores"]
    assert score["site"] == "web"
    assert hub.get("ClusterResourcePlacement", "web") is not None
    assert (score["predictions"]["verified"], score["predictions"]["correct"]) == (4, 4)
    write_configuration(number=3)
    assert run_command("plan", "-report=markdown:plan.md", "-report=html:plan.html")[0] == 0
    assert "4 of 4 verified predictions correct" in " ".join(Path("plan.md").read_text().split())
    assert "4 of 4 verified predictions correct" in Path("plan.html").read_text()


def test_rejection_by_hub_has_webhook_and_reason(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    hub.judge(lambda body: "no placements on Fridays" if body["kind"].endswith("Placement") else "")
    code, said = run_command("plan")
    assert code == 1
    assert f'webhook "{WEBHOOK}": no placements on Fridays' in said
    assert "main.nf.hcl line 19" in said


def test_unresponsive_webhook_is_reported_once_and_quickly(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexusform.domains.hub.api.hub_client._WEBHOOK_RETRY_SECONDS", 0.6)
    write_configuration()
    more = "".join(MANY.format(number=number) for number in range(8))
    Path("more.nf.hcl").write_text(more)
    hub.judge(None)
    code, said = run_command("plan")
    assert code == 1
    assert f'web: the hub cannot take it (500), its webhook "{WEBHOOK}" does not answer (' in said
    dry = [path for _, path, dry, _ in hub.log if dry and "clusterresourceplacements/" in path]
    assert len(set(dry)) == 9
    # Only requests in progress are retried.
    assert len(dry) <= 2 * 9


def test_conflicting_fields_are_named_with_their_manager(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    names = {
        "apiVersion": placement["apiVersion"],
        "kind": placement["kind"],
        "metadata": {"name": "web"},
    }
    hub.put({**names, "spec": {"policy": {"numberOfClusters": 1}}}, "kubectl")
    code, said = run_command("plan")
    assert code == 1
    assert ".spec.policy.numberOfClusters belongs to kubectl" in said


def test_plan_without_write_permission_is_not_validated(
    hub: Front, run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_configuration()
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(hub.kubeconfig(tmp_path, "bob")))
    code, said = run_command("plan")
    assert code == 0
    assert "not-checked" in said
    assert 'user "bob" may not patch namespaces' in said
    assert (
        'user "bob" may not patch clusterresourceplacements.placement.kubernetes-fleet.io' in said
    )
    text = Path("main.nf.hcl").read_text()
    required = '{\n  dry_run = "require"\n  timeout = "30m"\n}'
    Path("main.nf.hcl").write_text(text.replace('{ timeout = "30m" }', required))
    assert run_command("plan")[0] == 1


def test_existing_object_is_imported(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    hub.log.clear()
    code, said = run_command("state", "rm", "fleet_cluster_resource_placement.web")
    assert code == 0, said
    code, said = run_command("plan")
    assert code == 1
    assert 'import { to = fleet_cluster_resource_placement.web, id = "web" }' in said
    with Path("main.nf.hcl").open("a") as file:
        file.write('import {\n  to = fleet_cluster_resource_placement.web\n  id = "web"\n}\n')
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert "Resources: 1 imported, 0 added, 0 changed, 0 destroyed" in said


def test_apply_after_timeout_is_resumed(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    controller.stuck.add("lon1")
    write_configuration(timeout="1s")
    code, said = run_command("apply", "-auto-approve")
    assert code == 1
    assert "lon1: Applied False" in said
    assert "Apply waiting" in said
    controller.stuck.clear()
    hub.log.clear()
    code, said = run_command("apply", "-resume")
    assert code == 0, said
    # The object exists as it was sent.
    assert list_writes(hub) == []
    assert "No changes." in run_command("plan")[1]


def test_destroy_waits_for_complete_deletion(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration(timeout="1s")
    run_command("apply", "-auto-approve")
    controller.holding.add("lon1")
    code, said = run_command("destroy", "-auto-approve")
    assert code == 1
    assert (
        "lon1: binding web-lon1-0 (held by 1 finalizer: kubernetes-fleet.io/work-cleanup)" in said
    )
    controller.holding.clear()
    code, said = run_command("apply", "-resume")
    assert code == 0, said
    assert hub.all("ClusterResourceBinding") == []
    assert hub.all("ClusterResourcePlacement") == []
    assert hub.all("ConfigMap", "web") == []


def test_saved_plan_of_a_hub_is_applied(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    code, said = run_command("apply", "x.nfplan")
    assert code == 0, said
    assert "Resources: 2 added" in said


def test_simulated_object_is_imported_or_created(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    run_command("state", "rm", "fleet_cluster_resource_placement.web")
    text = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(
        text.replace("provider = fleet\n  resource_selector", "resource_selector")
    )
    assert "Resources: 1 added" in run_command("apply", "-auto-approve")[1]
    Path("main.nf.hcl").write_text(text)
    hub.log.clear()
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert "Imported without changes: fleet_cluster_resource_placement.web." in said
    assert "1 imported, 0 added" in said
    assert "DELETE" not in {method for method, *_ in hub.log}
    assert "No changes." in run_command("plan")[1]
    hub.remove(hub.get("ClusterResourcePlacement", "web") or {})


def test_existing_simulated_object_is_imported_by_saved_plan(
    hub: Front, run_command: CommandRunner
) -> None:
    simulated = """
resource "fleet_hub_manifest" "web" {
  yaml_body = <<-Y
    apiVersion: v1
    kind: Namespace
    metadata: {name: web}
  Y
}
"""
    Path("main.nf.hcl").write_text(simulated)
    assert run_command("apply", "-auto-approve")[0] == 0
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}, "somebody")
    moved = simulated.replace("  yaml_body", "  provider = fleet\n  yaml_body")
    Path("main.nf.hcl").write_text('provider "fleet" {}\ndata "fleet_hub" "hub" {}\n' + moved)
    code, said = run_command("plan", "-out=p.nfplan")
    assert (code, "Imported without changes: fleet_hub_manifest.web." in said) == (0, True), said
    code, said = run_command("apply", "p.nfplan")
    assert code == 0, said
    assert run_command("plan", "-detailed-exitcode")[0] == 0


def test_sandboxed_run_ignores_configured_kubeconfig_and_dry_runs(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    code, said = run_command("plan", "-confine")
    assert code == 0, said
    assert "a sandboxed run contacts it only if -allow-remote names it" in said
    assert {method for method, *_ in hub.log} == {"GET"}
    said = run_command("plan", "-confine", f"-allow-remote={hub.url}")[1]
    assert "PATCH" in {method for method, *_ in hub.log}
    text = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(
        text.replace('data "fleet_hub" "hub" {}', 'data "fleet_hub" "hub" { kubeconfig = "evil" }')
    )
    code, said = run_command("plan", "-confine")
    assert code == 1
    assert "a kubeconfig may run programs" in said


def test_missing_member_is_an_error_and_labels_are_released(
    hub: Front, run_command: CommandRunner
) -> None:
    arguments = 'provider = fleet\n  name = "{}"\n  labels = {{ tier = "gold" }}'
    block = f'resource "fleet_member_cluster" "m" {{{{\n  {arguments}\n}}}}\n'
    head = 'provider "fleet" {}\ndata "fleet_hub" "hub" {}\n'
    Path("main.nf.hcl").write_text(head + block.format("osl1"))
    code, said = run_command("plan")
    assert code == 1
    assert "The hub has no member osl1" in said
    assert "joinMC.sh" in said
    assert "If it left for good, take its block out of the configuration." in said
    Path("main.nf.hcl").write_text(head + block.format("ams1"))
    assert run_command("apply", "-auto-approve")[0] == 0
    member = hub.get("MemberCluster", "ams1")
    assert member is not None
    assert member["metadata"]["labels"] == {"env": "prod", "tier": "gold"}
    assert run_command("destroy", "-auto-approve")[0] == 0
    member = hub.get("MemberCluster", "ams1")
    assert member is not None
    assert member["metadata"]["labels"] == {"env": "prod"}


def test_block_of_former_member_can_be_removed(hub: Front, run_command: CommandRunner) -> None:
    arguments = 'provider = fleet\n  name = "ams1"\n  labels = { tier = "gold" }'
    head = 'provider "fleet" {}\ndata "fleet_hub" "hub" {}\n'
    Path("main.nf.hcl").write_text(
        head + f'resource "fleet_member_cluster" "m" {{\n  {arguments}\n}}\n'
    )
    assert run_command("apply", "-auto-approve")[0] == 0
    member = hub.get("MemberCluster", "ams1")
    assert member is not None
    hub.remove(member)
    code, said = run_command("plan")
    assert (code, "If it left for good, take its block out of the configuration." in said) == (
        1,
        True,
    ), said
    Path("main.nf.hcl").write_text(head)
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert "No changes." in run_command("plan")[1]


@pytest.mark.parametrize("status", [429, 503])
def test_busy_server_is_retried(hub: Front, run_command: CommandRunner, status: int) -> None:
    write_configuration()
    failed: set[tuple[str, str]] = set()

    def fail_once(method: str, path: str) -> int | None:
        if (method, path) in failed:
            return None
        failed.add((method, path))
        return status if path.endswith(("/web", "/memberclusters")) else None

    hub.faults = fail_once
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert "Resources: 2 added" in said


def test_whole_hub_is_imported(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    Path("main.nf.hcl").unlink()
    run_command("state", "rm", "fleet_cluster_resource_placement.web")
    run_command("state", "rm", "fleet_hub_manifest.web")
    hub.log.clear()
    code, said = run_command("import", "-from=hub", "-generate-config-out=hub.nf.hcl")
    assert code == 0, said
    assert "1 cluster resource placement" in said
    assert {method for method, *_ in hub.log} == {"GET"}
    code, said = run_command("plan", "-detailed-exitcode")
    assert code == 0, said
    assert run_command("import", "-from=hub", "-generate-config-out=more.nf.hcl")[0] == 0
    assert not Path("more.nf.hcl").exists()


def test_cluster_scoped_custom_object_is_sent_without_namespace(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(hub, HubServer):
        pytest.skip("needs a hub with another kind")
    monkeypatch.setitem(PLURALS, ("cert-manager.io", "clusterissuers"), ("ClusterIssuer", False))
    write_configuration()
    with Path("main.nf.hcl").open("a") as file:
        file.write("""
resource "fleet_hub_manifest" "issuer" {
  provider  = fleet
  namespace = "argocd"
  yaml_body = <<-Y
    apiVersion: cert-manager.io/v1
    kind: ClusterIssuer
    metadata: {name: ca, labels: {a: "1"}}
  Y
  depends_on = [fleet_hub_manifest.web]
}
""")
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    issuer = hub.objects["cert-manager.io", "ClusterIssuer", "", "ca"]
    assert "namespace" not in issuer["metadata"]
    code, said = run_command("plan")
    assert "No changes." in said, said
    # A change of others is found in it, too.
    hub.put({**issuer, "metadata": {**issuer["metadata"], "labels": {"a": "9"}}}, "ops")
    code, said = run_command("plan")
    assert "already exists" not in said, said
    assert "ClusterIssuer" in said


def test_field_owned_by_autoscaler_is_ignored(hub: Front, run_command: CommandRunner) -> None:
    ignoring = "lifecycle {\n    ignore_changes = [policy.number_of_clusters]\n  }"
    write_configuration(more=ignoring)
    run_command("apply", "-auto-approve")
    names = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
    }
    scaled = {**names, "metadata": {"name": "web"}, "spec": {"policy": {"numberOfClusters": 3}}}
    hub.put(scaled, "autoscaler")
    hub.act()
    assert "No changes." in run_command("plan")[1]
    write_configuration(more=f"revision_history_limit = 5\n  {ignoring}")
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    assert placement["spec"]["policy"]["numberOfClusters"] == 3
    assert placement["spec"]["revisionHistoryLimit"] == 5
    ours = list_managed_fields(placement, "nexusform")
    assert ".spec.revisionHistoryLimit" in ours
    assert ".spec.policy.numberOfClusters" not in ours


def test_unreachable_hub_is_reported_quickly(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    hub.close()
    code, said = run_command("plan")
    assert code == 1
    assert f"{hub.url} cannot be reached" in said
    # The members of the hub are unknown.
    assert "no-member-cluster" not in said


@pytest.mark.our_hub_alone("a slow server is asked more often")
def test_many_new_placements_need_few_requests(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    with Path("main.nf.hcl").open("a") as configuration:
        configuration.writelines(MANY.format(number=number) for number in range(9))
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    judged = [
        path
        for method, path, _, _ in hub.log
        if "/clusterresourceplacements" in path and method == "GET"
    ]
    assert {path.rpartition("/")[2] for path in judged} == {"clusterresourceplacements"}
    hub.log.clear()
    code, said = run_command("apply", "x.nfplan")
    assert code == 0, said
    asked = [path for _, path, _, _ in hub.log if "placement.kubernetes-fleet.io" in path]
    # Check for existence, write, hand over, read it, its bindings and its Works, but not its
    # snapshots.
    assert not [path for path in asked if "snapshots" in path]
    assert len(asked) <= 10 * 7 + 2
    assert not any("snapshots" in path for path in asked)


def test_hub_with_webhooks_accepts_plan_and_reports_denials(
    hub: Front, run_command: CommandRunner
) -> None:
    hub_webhooks.enable_webhooks(hub)
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(more='strategy {\n    type = "External"\n  }')
    # Defaults set by a webhook have no owner, and would conflict.
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert run_command("plan", "-detailed-exitcode")[0] == 0
    more = MANY.format(number=1).replace(
        '"PickN"\n    number_of_clusters = 2', '"PickFixed"\n    cluster_names  = []'
    )
    fixed = more.replace("cluster_names  = []", f'cluster_names = ["{"z" * 64}"]')
    with Path("main.nf.hcl").open("a") as configuration:
        configuration.write(fixed)
    code, said = run_command("plan")
    assert code == 1
    assert "cannot have length exceeding 63" in said
