"""Changes of a plan may be in several resource snapshots.

A hub creates one for each observed change.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front
from tests.domains.hub.slow_writes import SlowWrite
from tests.domains.hub.test_fleet_provider import write_configuration
from tests.domains.hub.test_hub_runs import append_configuration, list_snapshots

INDEX = "kubernetes-fleet.io/resource-index"
MORE = """
resource "fleet_hub_manifest" "more" {{
  provider   = fleet
  depends_on = [fleet_hub_manifest.web]
  yaml_body  = <<-Y
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: more, namespace: web}}
    data: {{a: "{content}"}}
  Y
}}
"""


def write_change(content: str) -> None:
    write_configuration(content=content)
    append_configuration(MORE.format(content=content))


@pytest.mark.our_hub_alone
def test_changes_in_two_snapshots_are_predicted_correctly(
    hub: Front, run_command: CommandRunner
) -> None:
    write_change("1")
    assert run_command("apply", "-auto-approve")[0] == 0
    write_change("2")
    slow = SlowWrite(hub, "/configmaps/more", seconds=1)
    code, said = run_command("apply", "-auto-approve")
    slow.end()
    assert (code, "2 of 2 predictions correct" in said) == (0, True), said
    assert "the hub has taken 2 resource snapshots of the changes; the last one is 2" in said
    assert set(list_snapshots(hub).values()) == {"web-2-snapshot"}
    assert run_command("plan", "-detailed-exitcode")[0] == 0


@pytest.mark.our_hub_alone
def test_snapshot_with_part_of_the_changes_is_not_final(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_change("1")
    assert run_command("apply", "-auto-approve")[0] == 0
    write_change("2")
    take = controller._content

    def take_late(server: Front, name: str, spec: Any) -> int:
        indexes = [
            int(each["metadata"]["labels"][INDEX]) for each in server.all("ClusterResourceSnapshot")
        ]
        return 1 if max(indexes) == 1 else take(server, name, spec)

    def release_snapshot() -> None:
        del controller._content
        hub.act()

    controller._content = take_late  # type: ignore[method-assign]
    threading.Timer(6, release_snapshot).start()
    code, said = run_command("apply", "-auto-approve")
    assert (code, "2 of 2 predictions correct" in said) == (0, True), said
    assert "the hub has not taken a snapshot of all changes yet" in said


@pytest.mark.our_hub_alone
def test_excess_snapshots_are_a_wrong_prediction(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The hub creates no further snapshot, so the wait for the predicted one is short.
    monkeypatch.setattr("nexusform.domains.hub.providers.hub_wait._SNAPSHOT_TIMEOUT", 0.5)
    write_change("1")
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(content="2")
    append_configuration(MORE.format(content="1"))
    answer = hub.answer

    def change_as_kubectl(method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
        response = answer(method, target, token, content)
        if (
            method == "PATCH"
            and target.partition("?")[0].endswith("/configmaps/settings")
            and "dryRun" not in target
        ):
            hub.answer = answer  # type: ignore[method-assign]
            names = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "theirs", "namespace": "web"},
            }
            hub.put(names | {"data": {"a": "1"}}, "kubectl")
            hub.act()
        return response

    hub.answer = change_as_kubectl  # type: ignore[method-assign]
    code, said = run_command("apply", "-auto-approve")
    assert code == 2, said
    assert "its resource snapshot 2 differs from the plan in ConfigMap web/theirs" in said


@pytest.mark.parametrize(
    "annotation",
    [
        'deployment.kubernetes.io/revision: "3"',
        'kubectl.kubernetes.io/last-applied-configuration: "{}"',
    ],
)
def test_annotation_that_no_snapshot_has_is_not_awaited(
    hub: Front, run_command: CommandRunner, annotation: str
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(number=3, timeout="20s")
    named = "{name: settings, namespace: web"
    text = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(
        text.replace(named, f"{named}, annotations: {{{annotation}}}").replace("{{", "{")
    )
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert len(hub.all("ClusterResourceSnapshot")) == 1
