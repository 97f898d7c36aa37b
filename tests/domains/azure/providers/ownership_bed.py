"""Bed of Azure for the contract of ownership."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.ownership_contract import OTHER, OWN, apply_once
from tests.domains.azure.providers import arm_server
from tests.domains.azure.providers.arm_server import ArmServer
from tests.domains.azure.providers.azure_sites import (
    CLUSTER_ID,
    FEW_SAMPLES,
    NEW,
    build_existing_site,
    import_site,
    write_project,
)
from tests.prepared_situations import prepare_situation

_BLOCKS = {
    block.partition('"')[0]: f'resource "{block}' for block in NEW.split('resource "') if block
}


class AzureOwnershipBed:
    """Local Azure Resource Manager with a site, imported into the directories of both states."""

    message = "already exists|unrecorded-objects|has an agent_pool block"

    def __init__(self, server: ArmServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self._server = server
        self._monkeypatch = monkeypatch

    def write(self, type_name: str, directory: Path, *, is_declared: bool = True) -> None:
        """Write the block of a new cluster or VM, or of a pool of the existing cluster."""
        block = _BLOCKS[type_name]
        for name in ("d", "more", "v"):
            block = block.replace(f'"{type_name}" "{name}"', f'"{type_name}" "o"')
            block = block.replace(f'= "{name}"', '= "o"')
        block = block.replace("nexus_kubernetes_cluster.d.id", "nexus_kubernetes_cluster.c.id")
        (directory / "more.nf.hcl").write_text(block if is_declared else "")

    def create(self, type_name: str) -> None:
        # The server chooses machines freely: 2 is a wrong prediction.
        apply_once(self, type_name, 0, 2)

    def take_snapshot(self) -> Any:
        resources = self._server.site.resources.items()
        return {path: copy.deepcopy(body) for path, body in resources if path.endswith("/o")}

    def restore(self, snapshot: Any) -> None:
        resources = self._server.site.resources
        for path in [path for path in resources if path.endswith("/o")]:
            del resources[path]
        resources.update(copy.deepcopy(snapshot))
        # The nodes of the pools of the existing cluster.
        self._server.site.adjust_nodes(CLUSTER_ID)

    def remove_marks(self, snapshot: Any) -> Any:
        """Return the objects without the tag of their creation."""
        return {path: {**body, "tags": {}} for path, body in snapshot.items()}

    def change(self, _type_name: str) -> bool:
        path = Path("more.nf.hcl")
        text = path.read_text().replace("count       = 2", "count       = 3")
        text = text.replace("node_count            = 1", "node_count            = 2")
        path.write_text(text.replace("body = {", 'body = {\n tags = { a = "b" }\n', 1))
        return True

    def make_again(self, snapshot: Any) -> Any:
        created = {"createdAt": "2026-11-30T00:00:00Z"}
        return {
            path: {**body, "systemData": {**body["systemData"], **created}, "etag": "again"}
            for path, body in self.remove_marks(snapshot).items()
        }

    def run_before_creation(self, call: Callable[[], None]) -> None:
        act = arm_server._Handler.act

        def intervene(handler: Any, path: str, body: Any) -> Any:
            if handler.command == "PUT":
                self._monkeypatch.setattr(arm_server._Handler, "act", act)
                call()
            return act(handler, path, body)

        self._monkeypatch.setattr(arm_server._Handler, "act", intervene)

    def lose_creation(self, call: Callable[[], None]) -> None:
        def lose() -> None:
            call()
            raise ConnectionError

        self.run_before_creation(lose)

    def list_changes(self) -> list[str]:
        return [f"{method} {path}" for method, path in self._server.site.taken]


@contextmanager
def open_bed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureOwnershipBed]:
    pytest.importorskip("azure.mgmt.networkcloud")
    (directory / "arm").mkdir()
    server = ArmServer(directory / "arm")
    server.site = build_existing_site()
    for name, value in {**server.environment(), "NF_INPUT": "0"}.items():
        monkeypatch.setenv(name, value)
    for name, value in FEW_SAMPLES.items():
        monkeypatch.setattr(name, value)
    monkeypatch.setattr("nexusform.domains.azure.providers.azure_subscription._MAX_BACKOFF", 0.02)
    for name in (OWN, OTHER):
        write_project(directory / name)
        os.chdir(directory / name)
        # Each state has a lineage of its own.
        prepare_situation(("imported", name), server, import_site)
    yield AzureOwnershipBed(server, monkeypatch)
    server.close()
