"""Bed of a hub for the contract of ownership."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.hub.providers.hub_bodies import KINDS_BY_TYPE
from tests.contracts.ownership_contract import apply_once
from tests.domains.hub.hub_controller import Controller, build_member
from tests.domains.hub.hub_front import get_api_version
from tests.domains.hub.hub_server import HubServer

_HEAD = 'provider "fleet" {\n  timeout = "5s"\n}\ndata "fleet_hub" "hub" {}\n'
_SELECTOR = """resource_selector {
    version = "v1"
    kind    = "KIND"
    name    = "NAME"
  }"""
_POLICY = """policy {
    override_rule {
      cluster_selector {}
      json_patch_override {
        op    = "add"
        path  = "/metadata/labels"
        value = jsonencode({ a = "b" })
      }
    }
  }"""
_STAGE = """stage {
    name = "all"
    label_selector {}
  }"""
_NAMESPACE = _SELECTOR.replace("KIND", "Namespace").replace("NAME", "web")
_SETTINGS = _SELECTOR.replace("KIND", "ConfigMap").replace("NAME", "settings")
_MANIFEST = """yaml_body = <<-Y
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: o, namespace: web}
    data: {a: "1"}
  Y"""
# The object of each type is "o", in the namespace "web" if it has one.
_ARGUMENTS: dict[str, str] = {
    "fleet_hub_manifest": _MANIFEST,
    "fleet_cluster_resource_placement": _NAMESPACE,
    "fleet_resource_placement": f'namespace = "web"\n  {_SETTINGS}',
    "fleet_cluster_resource_override": f"cluster_{_NAMESPACE}\n  {_POLICY}",
    "fleet_resource_override": f'namespace = "web"\n  {_SETTINGS}\n  {_POLICY}',
    "fleet_placement_disruption_budget": 'min_available = "1"',
    "fleet_placement_eviction": 'placement_name = "placed"\n  cluster_name = "lon1"',
    "fleet_cluster_staged_update_strategy": _STAGE,
    "fleet_staged_update_strategy": f'namespace = "web"\n  {_STAGE}',
    "fleet_cluster_staged_update_run": """placement_name = "external"
  staged_rollout_strategy_name = "rings"
  state = "Run\"""",
    "fleet_staged_update_run": """namespace = "web"
  placement_name = "external"
  staged_rollout_strategy_name = "rings"
  state = "Run\"""",
}


_RUN: dict[str, Any] = {
    "placementName": "external",
    "stagedRolloutStrategyName": "rings",
    "state": "Run",
}
_SPECS: dict[str, dict[str, Any]] = {
    "fleet_cluster_staged_update_run": _RUN,
    "fleet_staged_update_run": _RUN,
    "fleet_resource_placement": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "o"}]
    },
}


class HubOwnershipBed:
    """Our hub, with placements and strategies for the objects under test."""

    message = "already exists on the hub"

    def __init__(self, hub: HubServer) -> None:
        self._hub = hub

    def write(self, type_name: str, directory: Path, *, is_declared: bool = True) -> None:
        name = "" if type_name == "fleet_hub_manifest" else '  name = "o"\n'
        head = f'resource "{type_name}" "o" {{\n  provider = fleet\n'
        block = f"{head}{name}  {_ARGUMENTS[type_name]}\n}}\n"
        (directory / "main.nf.hcl").write_text(_HEAD + (block if is_declared else ""))

    def create(self, type_name: str) -> None:
        """Create the object, by another client if no controller would complete it."""
        spec = _SPECS.get(type_name)
        if spec is None:
            apply_once(self, type_name, 0, 2)
            return
        kind = KINDS_BY_TYPE[type_name]
        namespace = {} if "cluster" in type_name else {"namespace": "web"}
        names = {"apiVersion": get_api_version(kind), "kind": kind}
        self._hub.controller = lambda _hub: None
        self._hub.put({**names, "metadata": {"name": "o", **namespace}, "spec": spec}, "nexusform")

    def take_snapshot(self) -> Any:
        """Return the objects named "o"."""
        return {
            key: copy.deepcopy(body) for key, body in self._hub.objects.items() if key[3] == "o"
        }

    def restore(self, snapshot: Any) -> None:
        for key in [key for key in self._hub.objects if key[3] == "o"]:
            del self._hub.objects[key]
        self._hub.objects.update(copy.deepcopy(snapshot))
        self._hub.version += 1

    def remove_marks(self, snapshot: Any) -> Any:
        marked = json.dumps([[list(key), body] for key, body in snapshot.items()])
        rows = json.loads(marked.replace('"manager": "nexusform"', '"manager": "kubectl"'))
        return {tuple(key): body for key, body in rows}

    def change(self, type_name: str) -> bool:
        path = Path("main.nf.hcl")
        text = path.read_text()
        changed = text.replace('{a: "1"}', '{a: "2"}').replace('a = "b"', 'a = "c"')
        changed = changed.replace('min_available = "1"', 'min_available = "2"')
        if type_name in ("fleet_cluster_resource_placement", "fleet_resource_placement"):
            changed = changed.rstrip().removesuffix("}") + "  revision_history_limit = 3\n}\n"
        changed = changed.replace('name = "all"', 'name = "every"')
        path.write_text(changed)
        return changed != text

    def make_again(self, snapshot: Any) -> Any:
        return {
            key: {**body, "metadata": {**body["metadata"], "uid": f"again-{number}"}}
            for number, (key, body) in enumerate(self.remove_marks(snapshot).items())
        }

    def run_before_creation(self, call: Callable[[], None]) -> None:
        answer = self._hub.answer

        def intervene(method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
            if method == "PATCH" and "dryRun" not in target:
                self._hub.answer = answer  # type: ignore[method-assign]
                call()
            return answer(method, target, token, content)

        self._hub.answer = intervene  # type: ignore[method-assign]

    def lose_creation(self, call: Callable[[], None]) -> None:
        def lose() -> None:
            call()
            raise ConnectionAbortedError

        self.run_before_creation(lose)

    def reject_later_object(self) -> None:
        text = Path("main.nf.hcl").read_text()
        later = _MANIFEST.replace("name: o", "name: later").partition("\n")[2]
        Path("main.nf.hcl").write_text(text.replace("  Y\n", f"    ---\n{later}\n", 1))

        def reject(method: str, path: str) -> int | None:
            created = [key for key in self._hub.objects if key[3] == "o"]
            return 403 if method == "PATCH" and "later" in path and created else None

        self._hub.faults = reject

    def list_changes(self) -> list[str]:
        """Return the changes; a rejected request is none."""
        return [
            f"{method} {path}"
            for method, path, is_dry_run, status in self._hub.log
            if method != "GET" and not is_dry_run and status < 400
        ]


@contextmanager
def open_bed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubOwnershipBed]:
    pytest.importorskip("lightkube")
    hub = HubServer()
    # The same hub in all tests, so that a state of one of them fits.
    identity = {"name": "kube-system", "uid": "7d3c2f50-5b0e-4d0a-9a2f-0f6f3a0c9a28"}
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": identity}, "setup")
    for name in ("ams1", "fra1", "lon1", "par1"):
        hub.put(build_member(name, env="prod"), "join")
    hub.controller = Controller()
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(hub.kubeconfig(directory)))
    monkeypatch.delenv("NF_FLEET_CONTEXT", raising=False)
    monkeypatch.setattr("nexusform.domains.hub.providers.hub_wait._DECISION_DELAY", 0.0)
    names = {"apiVersion": "v1"}
    hub.put({**names, "kind": "Namespace", "metadata": {"name": "web"}}, "setup")
    settings = {"name": "settings", "namespace": "web"}
    hub.put({**names, "kind": "ConfigMap", "metadata": settings, "data": {"a": "1"}}, "setup")
    for kind, name, spec in (
        ("ClusterResourcePlacement", "placed", {"policy": {"placementType": "PickAll"}}),
        ("ClusterResourcePlacement", "external", {"strategy": {"type": "External"}}),
    ):
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
        hub.put(
            {
                "apiVersion": get_api_version(kind),
                "kind": kind,
                "metadata": {"name": name},
                "spec": {"resourceSelectors": [selector], **spec},
            },
            "setup",
        )
    kind = "ClusterStagedUpdateStrategy"
    strategy = {"stages": [{"name": "all", "labelSelector": {}}]}
    names = {"apiVersion": get_api_version(kind), "kind": kind}
    hub.put({**names, "metadata": {"name": "rings"}, "spec": strategy}, "setup")
    hub.act()
    hub.log.clear()
    yield HubOwnershipBed(hub)
    hub.close()
