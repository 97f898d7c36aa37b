"""Tests of collections with many objects: one list and one watch are sufficient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front, list_managed_fields

PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"
MANY = """
provider "fleet" {{ timeout = "60s" }}
data "fleet_hub" "hub" {{}}

resource "fleet_hub_manifest" "app" {{
  count     = {count}
  provider  = fleet
  yaml_body = "{{apiVersion: v1, kind: Namespace, metadata: {{name: app-${{count.index}}}}}}"
}}

resource "fleet_cluster_resource_placement" "app" {{
  count    = {count}
  provider = fleet
  name     = "app-${{count.index}}"
  resource_selector {{
    version = "v1"
    kind    = "Namespace"
    name    = "app-${{count.index}}"
  }}
  policy {{
    placement_type     = "PickN"
    number_of_clusters = {number}
  }}
  depends_on = [fleet_hub_manifest.app]
}}
"""


def write_configuration(count: int = 12, number: int = 2) -> None:
    Path("main.nf.hcl").write_text(MANY.format(count=count, number=number))


def count_requests(hub: Front) -> Counter[str]:
    """Return the number of reads and writes per path, without dry runs."""
    return Counter(path for _, path, dry, _ in hub.log if not dry)


def test_many_placements_need_one_list_and_one_watch(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    hub.log.clear()
    code, said = run_command("apply", "x.nfplan")
    assert code == 0, said
    assert "24 of 24 predictions correct" in said
    assert (PLACEMENTS, 200) in hub.watches
    of_one = [
        number for path, number in count_requests(hub).items() if path.startswith(f"{PLACEMENTS}/")
    ]
    # Each is written once and handed over, after a change by the controller again. The first few
    # are read one by one until the list is complete. Before the first write, each has a dry run.
    assert min(of_one) <= 5
    assert len(of_one) == 12
    write_configuration(number=1)
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    assert len(hub.all("ClusterResourceBinding")) == 12


def test_each_object_is_read_if_watch_is_forbidden(hub: Front, run_command: CommandRunner) -> None:
    hub.may_watch = False
    write_configuration(count=8)
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert {status for _, status in hub.watches} == {403}
    assert "16 of 16 predictions correct" in said


def test_expired_watch_is_restarted_with_a_list(
    hub: Front, controller: Controller, run_command: CommandRunner, forget: Callable[[], None]
) -> None:
    write_configuration(count=8)
    run_command("apply", "-auto-approve")
    forget()
    write_configuration(count=8, number=1)
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert len(hub.all("ClusterResourceBinding")) == 8
    assert controller.stuck == set()
    assert PLACEMENTS in hub.expired


def test_unreachable_hub_after_write_is_awaited_and_resumed(
    hub: Front, controller: Controller, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexusform.domains.hub.api.hub_client._RETRY_SECONDS", 0.1)
    write_configuration(count=2)
    controller.asleep = True
    written: list[str] = []

    def fail_once_written(method: str, path: str) -> int | None:
        if method == "PATCH" and path.startswith(PLACEMENTS) and hub.get("Namespace", "app-0"):
            written.append(path)
        return 503 if written and method == "GET" else None

    hub.faults = fail_once_written
    code, said = run_command("apply", "-auto-approve")
    assert (code, "Apply waiting" in said) == (1, True), said
    assert "the hub does not answer (503" in said
    hub.faults = lambda _method, _path: None
    controller.asleep = False
    code, said = run_command("apply", "-resume")
    assert code == 0, said
    assert run_command("plan", "-detailed-exitcode")[0] == 0


def test_object_created_meanwhile_by_others_is_not_overwritten(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app-11"}}, "kubectl")
    code, said = run_command("apply", "x.nfplan")
    assert code == 1
    assert "Namespace app-11 already exists on the hub" in said
    assert list_managed_fields(hub.get("Namespace", "app-11") or {}, "nexusform") == set()
