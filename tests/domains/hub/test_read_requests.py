"""Requests of a plan that reads a hub: their number, and the largest number in flight."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from nexusform.domains.hub.api.hub_kinds import READ_KINDS
from nexusform.domains.hub.providers import object_access
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front

pytestmark = pytest.mark.our_hub_alone
NAMESPACES = 30
OBJECTS = 2 * NAMESPACES
CONFIGURATION = f"""
provider "fleet" {{}}
resource "fleet_hub_manifest" "n" {{
  count     = {NAMESPACES}
  provider  = fleet
  yaml_body = yamlencode({{
    apiVersion = "v1"
    kind       = "Namespace"
    metadata   = {{ name = "n${{count.index}}" }}
  }})
}}
resource "fleet_hub_manifest" "c" {{
  count     = {OBJECTS}
  provider  = fleet
  yaml_body = yamlencode({{
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = {{ name = "c${{count.index}}", namespace = "n${{floor(count.index / 2)}}" }}
  }})
  depends_on = [fleet_hub_manifest.n]
}}
"""
EVERYWHERE = "/api/v1/configmaps"


class Traffic:
    """Requests by path, and the largest number of requests in flight.

    Each answer takes 20 ms, outside of the lock of the hub. `reject` returns a status, or None.
    """

    def __init__(
        self, hub: Front, reject: Callable[[str], int | None] = lambda _path: None
    ) -> None:
        self.paths: Counter[str] = Counter()
        self.most_in_flight = 0
        self._in_flight = 0
        self._lock = threading.Lock()
        self._answer = hub.answer
        hub.answer = self._count  # type: ignore[method-assign]
        hub.faults = lambda _method, path: reject(path)

    def _count(self, method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
        with self._lock:
            self.paths[urlsplit(target).path] += 1
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        time.sleep(0.02)
        with self._lock:
            self._in_flight -= 1
        return self._answer(method, target, token, content)

    def list_objects(self) -> list[str]:
        """Return the paths of single ConfigMaps that were read."""
        return [path for path in self.paths if "/configmaps/" in path]


@pytest.fixture
def applied(hub: Front, run_command: CommandRunner) -> Front:
    Path("main.nf.hcl").write_text(CONFIGURATION)
    code, output = run_command("apply", "-auto-approve", "-parallelism=16")
    assert code == 0, output
    return hub


def plan(run_command: CommandRunner) -> None:
    code, output = run_command("plan")
    assert (code, "No changes" in output) == (0, True), output


def test_objects_of_many_namespaces_are_one_list(
    applied: Front, run_command: CommandRunner
) -> None:
    traffic = Traffic(applied)
    plan(run_command)
    assert traffic.paths[EVERYWHERE] == 1
    assert traffic.list_objects() == []


def test_objects_are_read_in_parallel_without_permission_for_lists(
    applied: Front, run_command: CommandRunner
) -> None:
    traffic = Traffic(applied, lambda path: 403 if path.endswith("/configmaps") else None)
    plan(run_command)
    assert traffic.paths[EVERYWHERE] == 1
    assert len(traffic.list_objects()) == OBJECTS
    assert set(traffic.paths.values()) == {1}
    assert 8 <= traffic.most_in_flight <= 16


def test_kind_with_many_objects_of_others_is_not_listed(
    applied: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_access, "_MOST_LISTED", 2)
    for number in range(700):
        metadata = {"name": f"other{number}", "namespace": "n0"}
        applied.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    traffic = Traffic(applied)
    plan(run_command)
    # The first page alone.
    assert traffic.paths[EVERYWHERE] == 1
    assert len(traffic.list_objects()) == OBJECTS


def test_lists_of_a_snapshot_are_read_in_parallel(hub: Front, run_command: CommandRunner) -> None:
    Path("main.nf.hcl").write_text('data "fleet_hub" "hub" {}\n')
    traffic = Traffic(hub)
    code, output = run_command("plan")
    assert code == 0, output
    assert sum(traffic.paths[kind.collection] for kind in READ_KINDS) == len(READ_KINDS)
    assert 8 <= traffic.most_in_flight <= 16
