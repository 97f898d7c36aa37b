"""Tests that a grant lets a step run only if its consequences are those of the plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.cli.shared_flags import create_context
from nexusform.domains.vnf.cli.serve import _find_obstacle
from nexusform.domains.vnf.serving.grant_decisions import list_planned_grants
from nexusform.domains.vnf.serving.grant_server import GrantJournal, GrantServer
from nexusform.workflow.plan_files.saved_plans import open_saved_plan, read_plan
from tests.domains.vnf.providers.memory_tacker import MemoryTacker
from tests.domains.vnf.providers.test_tacker_ownership import apply, tacker, write_configuration
from tests.domains.vnf.providers.test_tacker_races import add_vnfc, scale

__all__ = ["tacker"]

pytestmark = pytest.mark.of_domains("vnf")

Tacker = type[MemoryTacker]
COMPUTE = {"type": "COMPUTE", "resourceTemplateId": "worker"}


@pytest.fixture(autouse=True)
def allow_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let saved plans use the server."""
    monkeypatch.setenv("NF_ALLOW_REMOTE", "http://127.0.0.1:1")


def create_server() -> GrantServer:
    """Create the server of the plan file, as `serve sol003` does."""
    context = create_context()
    saved, problems = read_plan("p.nfplan", context)
    assert saved is not None, problems
    project = open_saved_plan(context, saved).project
    assert project is not None
    return GrantServer(
        ("127.0.0.1", 0),
        list_planned_grants(saved.plan),
        GrantJournal("p.nfplan", saved.digest),
        {},
        find_obstacle=partial(_find_obstacle, project, saved),
    )


def build_request(operation: str, *, added: int = 0, removed: int = 0) -> dict[str, Any]:
    return {
        "vnfInstanceId": next(iter(MemoryTacker.instances), "1"),
        "vnfLcmOpOccId": operation,
        "vnfdId": "d",
        "operation": operation,
        "addResources": [{"id": f"a{number}", **COMPUTE} for number in range(added)],
        "removeResources": [{"id": f"r{number}", **COMPUTE} for number in range(removed)],
    }


def write_plan(level: int, *flags: str) -> None:
    write_configuration(level)
    assert run_command_line(["plan", "-out=p.nfplan", *flags]) == 0


PLANS: dict[str, tuple[int, tuple[str, ...], dict[str, int]]] = {
    "SCALE": (0, (), {"removed": 2}),
    "TERMINATE": (2, ("-destroy",), {"removed": 4}),
}
CHANGES: dict[str, Callable[[Tacker], None]] = {"scale": scale, "add": add_vnfc}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("operation", PLANS)
def test_grant_removes_no_more_than_the_plan_showed(
    operation: str, change: str, tacker: Tacker
) -> None:
    write_configuration(2)
    assert apply() == 0
    level, flags, counts = PLANS[operation]
    write_plan(level, *flags)
    request = build_request(operation, **counts)
    with create_server() as server:
        CHANGES[change](tacker)
        status, answer = server.decide_request(request)
        assert status == 403, answer
        assert "Plan again." in answer["detail"]
        assert not server.journal.read_records()


@pytest.mark.parametrize("operation", ["INSTANTIATE", *PLANS])
def test_grant_of_the_running_apply_is_given(operation: str, tacker: Tacker) -> None:
    """Tacker asks while the apply of the plan waits for the operation."""
    if operation == "INSTANTIATE":
        write_plan(0)
        request = build_request(operation, added=2)
    else:
        write_configuration(2)
        assert apply() == 0
        level, flags, counts = PLANS[operation]
        write_plan(level, *flags)
        request = build_request(operation, **counts)
    answers: list[Any] = []
    with create_server() as server:

        def request_grant(path: str) -> None:
            if path.endswith(operation.lower()) and not answers:
                request["vnfInstanceId"] = next(iter(tacker.instances))
                answers.append(server.decide_request(request))

        tacker.before_write.append(request_grant)
        assert run_command_line(["apply", "p.nfplan"]) == 0
    assert [status for status, _ in answers] == [201], answers
    assert Path("p.nfplan.grants").exists()
