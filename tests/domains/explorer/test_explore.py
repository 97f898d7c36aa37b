"""Tests of `nexusform explore`: requests of the page, answers of the engine, and written files."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.explorer.plan_exploration import (
    ExplorationRequest,
    ExplorationRequestError,
    PlanExploration,
    open_exploration,
)
from nexusform.domains.explorer.server import ExplorerServer
from nexusform.workflow.opening.command_context import CommandContext
from tests.rendering.browser import AXE, CHROMIUM, DRIVER, MISSING, Browser

MAIN = """resource "nexus_site" "lab" {}

resource "nexus_rack" "left" {
  site_id       = nexus_site.lab.id
  machine_count = 4
}

resource "nexus_rack" "right" {
  site_id       = nexus_site.lab.id
  machine_count = 4 # as bought
}

resource "nexus_rack" "new" {
  site_id       = nexus_site.lab.id
  machine_count = 4
  status        = "planned"
}

resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "workers" {
    count       = var.workers
    vm_sku_name = "NC_P22_112_v1"
  }
  agent_pool "large" {
    count       = 2
    vm_sku_name = "NC_P46_224_v1"
  }
}

variable "workers" {
  default = 4
}
"""
LARGE = "nexus_kubernetes_cluster.web:large"
WORKERS = "nexus_kubernetes_cluster.web:workers"


@pytest.fixture
def exploration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[PlanExploration]:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(MAIN)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capfd.readouterr()
    with open_exploration(CommandContext()) as (one, diagnostics, _):
        assert one is not None, diagnostics
        yield one


def _count(plan: Any, action: str) -> int:
    return sum(row.kind == "vm" and row.action.value == action for row in plan.placements)


def _lacks_capacity(plan: Any) -> bool:
    """Return whether VMs of a plan fit nowhere; it shows those that fit."""
    assert not plan.errored
    return any(problem.id == "insufficient-capacity" for problem in plan.diagnostics)


def test_requests_are_planned_on_current_placement(exploration: PlanExploration) -> None:
    assert [pool.pool for pool in exploration.list_pools()] == ["control-plane", "workers", "large"]
    assert [rack.planned for rack in exploration.list_racks()] == [False, False, True]
    assert _count(exploration.base, "place") == 0
    assert _count(exploration.plan_request(ExplorationRequest(counts={LARGE: 5})), "place") == 3
    lost = exploration.plan_request(ExplorationRequest(lost=("nexus_rack.left",)))
    assert _count(lost, "move") > 0
    assert {row.target.rack for row in lost.placements if row.target} == {"right"}
    full = exploration.plan_request(ExplorationRequest(counts={LARGE: 14}))
    assert _lacks_capacity(full)
    for more in (
        ExplorationRequest(counts={LARGE: 14}, active=("nexus_rack.new",)),
        ExplorationRequest(counts={LARGE: 14}, added={"nexus_rack.left": 1}),
    ):
        assert not _lacks_capacity(exploration.plan_request(more))
    assert Path("main.nf.hcl").read_text() == MAIN


def test_machines_with_blocks_are_lost_and_added_with_their_rack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    machines = "".join(
        (
            f'resource "nexus_bare_metal_machine" "m{slot}" {{\n  rack_id = nexus_rack.left.id\n  '
            f"slot    = {slot}\n}}\n"
        )
        for slot in range(1, 5)
    )
    imported = MAIN.replace(
        "machine_count = 4\n",
        'machine_count = 0\n  name = "imported-rack"\n  availability_zone = "1"\n',
        1,
    )
    Path("main.nf.hcl").write_text(
        imported + machines.replace("slot", 'machine_sku = "bom-1.7.3"\n  slot')
    )
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capfd.readouterr()
    with open_exploration(CommandContext()) as (one, diagnostics, _):
        assert one is not None, diagnostics
        assert [rack.machines for rack in one.list_racks()] == [4, 4, 4]
        lost = one.plan_request(ExplorationRequest(lost=("nexus_rack.left",)))
        assert {row.target.rack for row in lost.placements if row.target} == {"right"}
        added = one.plan_request(
            ExplorationRequest(counts={LARGE: 14}, added={"nexus_rack.left": 1})
        )
        assert not added.errored, added.diagnostics


def test_added_racks_are_planned_or_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    taken = MAIN.replace('"right"', '"left-like-1"')
    Path("main.nf.hcl").write_text(
        taken.replace("machine_count = 4 # as bought", 'name = "Rack 1.2"\n machine_count = 4')
    )
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capfd.readouterr()
    with open_exploration(CommandContext()) as (exploration, _, _):
        assert exploration is not None
        plan = exploration.plan_request(ExplorationRequest(added={"nexus_rack.left-like-1": 1}))
        assert "Rack 1.2-like-1" in [
            change.after and change.after.get("name") for change in plan.changes
        ]
        with pytest.raises(ExplorationRequestError, match="racks cannot be added"):
            exploration.plan_request(ExplorationRequest(added={"nexus_rack.left": 1}))


@pytest.mark.parametrize(
    "wish",
    [
        ExplorationRequest(counts={"nope": 1}),
        ExplorationRequest(lost=("nexus_site.lab",)),
        ExplorationRequest(counts={LARGE: -1}),
        ExplorationRequest(counts={LARGE: 10**9}),
        ExplorationRequest(added={"nexus_rack.left": 1000}),
    ],
)
def test_impossible_requests_are_rejected(
    exploration: PlanExploration, wish: ExplorationRequest
) -> None:
    with pytest.raises(ExplorationRequestError):
        exploration.plan_request(wish)


def test_only_literals_of_the_shown_diff_are_written(exploration: PlanExploration) -> None:
    wish = ExplorationRequest(counts={LARGE: 5, WORKERS: 6}, lost=("nexus_rack.right",))
    change = exploration.compute_file_changes(wish)
    assert "-    count       = 2\n+    count       = 5\n" in change.difference
    assert "machine_count" not in change.difference
    [loss, shared_value] = change.left_out
    assert loss == "right is lost: a loss is not a change of the configuration."
    assert "agent_pool.workers.count is not a literal value" in shared_value
    with pytest.raises(ExplorationRequestError, match="differs from the one shown"):
        exploration.write_files(ExplorationRequest(counts={LARGE: 6}), change.digest)
    assert Path("main.nf.hcl").read_text() == MAIN
    assert exploration.write_files(wish, change.digest) == ("main.nf.hcl",)
    expected = MAIN.replace("count       = 2", "count       = 5")
    assert Path("main.nf.hcl").read_text() == expected


def test_file_edited_meanwhile_is_not_overwritten(exploration: PlanExploration) -> None:
    wish = ExplorationRequest(counts={LARGE: 5})
    change = exploration.compute_file_changes(wish)
    Path("main.nf.hcl").write_text(MAIN + "# mine\n")
    with pytest.raises(ExplorationRequestError, match="has changed"):
        exploration.write_files(wish, change.digest)
    assert Path("main.nf.hcl").read_text() == MAIN + "# mine\n"


# --- the server ----------------------------------------------------------------------------------


@pytest.fixture
def server(exploration: PlanExploration) -> Iterator[ExplorerServer]:
    one = ExplorerServer(exploration)
    thread = Thread(target=one.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield one
    one.shutdown()
    one.server_close()
    thread.join()


@pytest.fixture
def ask(server: ExplorerServer) -> Callable[..., tuple[int, Any]]:
    """Send a request with the headers of the page, with changes by name (None: omitted)."""

    def send_request(path: str, data: object = None, **headers: str | None) -> tuple[int, Any]:
        sent = {
            "Origin": server.origin,
            "X-Token": server.token,
            "Content-Type": "application/json",
            **headers,
        }
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(
            server.origin + path,
            body,
            {name: value for name, value in sent.items() if value is not None},
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    return send_request


def test_page_and_its_requests(server: ExplorerServer, ask: Callable[..., tuple[int, Any]]) -> None:
    assert server.server_address[0] == "127.0.0.1"
    status, page = ask(server.url.removeprefix(server.origin))
    assert status == 200
    assert "connect-src &#39;self&#39;" in page or "connect-src 'self'" in page
    assert 'id="explore-data"' in page
    status, text = ask("/plan", {"wish": {"counts": {LARGE: 3}}})
    answer = json.loads(text)
    assert status == 200
    assert '<h1 id="headline">Hypothetical plan: ' in page
    assert answer["hypothetical"] is True
    assert answer["headline"] == (
        "Hypothetical plan: 1 to change, large of web 2 -> 3 VMs, nothing moves"
    )
    assert answer["data"]["sites"]
    status, text = ask("/change", {"wish": {"counts": {LARGE: 3}}})
    digest = json.loads(text)["digest"]
    status, text = ask("/write", {"wish": {"counts": {LARGE: 3}}, "digest": digest})
    assert json.loads(text) == {"files": ["main.nf.hcl"]}
    assert 'count       = 3\n    vm_sku_name = "NC_P46_224_v1"' in Path("main.nf.hcl").read_text()


@pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason=MISSING)
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [1280, 390])
def test_user_changes_counts_and_racks(width: int, server: ExplorerServer) -> None:
    browser = Browser()
    try:
        browser.wear("light")
        browser.visit(server.url, width)
        browser.wait_for("document.documentElement.dataset.exploring === 'yes'")
        browser.click('button[aria-label="One more VM of web / large"]')
        browser.wait_for("document.getElementById('headline').textContent.includes('1 to change')")
        assert browser.text(".pool.changed small") == "NC_P46_224_v1, was 2"
        assert "1 to place, 0 to move" in browser.text("#verdict")
        browser.click('button[aria-label="lose right"]')
        browser.wait_for("document.querySelectorAll('.machine.closed').length === 4")
        assert browser.text(".chip.lost b") == "right"
        assert "Capacity" in browser.text("#verdict")
        assert browser.run(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
        assert AXE is None or browser.violations() == []
        assert browser.console() == []
    finally:
        browser.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Token": None},
        {"X-Token": "x"},
        {"Origin": None},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
    ],
)
def test_requests_of_other_origins_are_rejected(
    ask: Callable[..., tuple[int, Any]], headers: dict[str, str | None]
) -> None:
    status, text = ask("/write", {"wish": {"counts": {LARGE: 3}}, "digest": "x"}, **headers)
    assert status == 403
    assert LARGE not in text
    assert Path("main.nf.hcl").read_text() == MAIN


@pytest.mark.parametrize("path", ["/", "/?token=x", "/?token="])
def test_page_requires_token(ask: Callable[..., tuple[int, Any]], path: str) -> None:
    status, text = ask(path)
    assert status == 403
    assert "explore-data" not in text


@pytest.mark.parametrize(
    "data",
    [[], {"wish": 1}, {"nope": {}}, {"wish": {"counts": {"nope": 1}}}, {"wish": {"lost": "x"}}],
)
def test_invalid_requests_are_rejected(ask: Callable[..., tuple[int, Any]], data: object) -> None:
    status, text = ask("/plan", data)
    assert status == 400
    assert json.loads(text)["problem"]


def test_invalid_configuration_is_not_explored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text("resource {\n")
    assert run_command_line(["explore"]) == 1
    assert "main.nf.hcl line 1" in capfd.readouterr().err


def test_unknown_path_is_not_found(
    server: ExplorerServer, ask: Callable[..., tuple[int, Any]]
) -> None:
    for path in ("/favicon.ico", "/plan"):
        status, text = ask(f"{path}?token={server.token}")
        assert (status, json.loads(text)) == (404, {"problem": "Not found."})


@pytest.mark.parametrize("port", ["-1", "65536", "99999"])
def test_invalid_port_is_rejected(port: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", f"-port={port}"]) == 1
    assert "must be a number from 1 to 65535" in capfd.readouterr().err
