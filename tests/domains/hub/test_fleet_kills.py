"""Tests of an apply that ends while the hub executes a request.

It ends by SIGKILL, or its connection is cut.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import list_writes, write_configuration

pytestmark = pytest.mark.slow
PLACEMENT = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements/web"


def once(hub: Front, act: Callable[[], object], path: str = PLACEMENT) -> None:
    """Call a function once, after the hub executed a write and before its answer."""

    def look(method: str, target: str) -> None:
        if target.partition("?")[0] == path and method != "GET" and "dryRun" not in target:
            hub.carried_out = lambda _method, _target: None
            act()

    hub.carried_out = look


@pytest.mark.parametrize("command", ["apply", "destroy"])
def test_killed_apply_is_resumed(hub: Front, run_command: CommandRunner, command: str) -> None:
    write_configuration()
    if command == "destroy":
        run_command("apply", "-auto-approve")
    hub.log.clear()
    words = [sys.executable, "-m", "nexusform", command, "-auto-approve"]
    with subprocess.Popen(
        words, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        once(hub, process.kill)
        assert process.wait() == -9
    code, said = run_command(command, "-auto-approve")
    assert code == 0, said
    made = [path for method, path in list_writes(hub) if (method, path) == ("PATCH", PLACEMENT)]
    stands = command == "apply"
    assert bool(hub.all("ClusterResourcePlacement")) is stands
    assert bool(hub.all("ClusterResourceBinding")) is stands
    # Once or not at all.
    assert len(made) == stands
    assert run_command("plan", "-detailed-exitcode")[0] == (0 if stands else 2)


def test_namespace_of_killed_apply_is_kept_on_resume(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    words = [sys.executable, "-m", "nexusform", "apply", "-auto-approve"]
    with subprocess.Popen(
        words, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        once(hub, process.kill, "/api/v1/namespaces/web")
        assert process.wait() == -9
    code, said = run_command("apply", "-resume")
    assert code == 0, said
    assert [path.rpartition("/")[2] for _, path in list_writes(hub)] == ["web", "settings", "web"]
    assert run_command("plan", "-detailed-exitcode")[0] == 0


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "path"),
    [
        ("ConfigMap", "web", "settings", "/api/v1/namespaces/web/configmaps/settings"),
        ("ClusterResourcePlacement", "", "web", PLACEMENT),
    ],
)
def test_object_recreated_by_killed_apply_is_managed(
    hub: Front, run_command: CommandRunner, kind: str, namespace: str, name: str, path: str
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    hub.remove(hub.get(kind, name, namespace) or {})
    hub.act()
    words = [sys.executable, "-m", "nexusform", "apply", "-auto-approve"]
    with subprocess.Popen(
        words, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        once(hub, process.kill, path)
        assert process.wait() == -9
    code, said = run_command("apply", "-auto-approve")
    assert (code, "re-created" in said) == (0, False), said
    assert run_command("plan", "-detailed-exitcode")[0] == 0


def test_request_with_cut_answer_is_retried(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()

    def cut() -> None:
        raise ConnectionAbortedError

    once(hub, cut)
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    assert placement["metadata"]["generation"] == 1
