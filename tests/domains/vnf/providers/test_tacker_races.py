"""Tests of VNFs that others change before, between and after the requests of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.providers.tacker_client import TackerProblem
from tests.domains.vnf.providers.memory_tacker import MemoryTacker
from tests.domains.vnf.providers.test_tacker_ownership import (
    Capture,
    apply,
    read_output,
    tacker,
    write_configuration,
)

__all__ = ["tacker"]

pytestmark = pytest.mark.of_domains("vnf")

Tacker = type[MemoryTacker]


@pytest.fixture(autouse=True)
def allow_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let saved plans use the server."""
    monkeypatch.setenv("NF_ALLOW_REMOTE", "http://127.0.0.1:1")


def build_conflict() -> TackerProblem:
    return TackerProblem("conflict", status=409)


def get_info(tacker: Tacker) -> dict[str, Any]:
    (instance,) = tacker.instances.values()
    info: dict[str, Any] = instance["instantiatedVnfInfo"]
    return info


def scale(tacker: Tacker) -> None:
    """Scale the VNF by three steps, as another client of Tacker."""
    get_info(tacker)["scaleStatus"][0]["scaleLevel"] += 3
    tacker._add_vnfcs(get_info(tacker), 3)


def add_vnfc(tacker: Tacker) -> None:
    tacker._add_vnfcs(get_info(tacker), 1)


def heal(tacker: Tacker) -> None:
    for row in get_info(tacker)["vnfcInfo"]:
        row["id"] += "-by-others"


def terminate(tacker: Tacker) -> None:
    (instance,) = tacker.instances.values()
    instance["instantiationState"] = "NOT_INSTANTIATED"
    del instance["instantiatedVnfInfo"]


def instantiate(tacker: Tacker) -> None:
    (instance,) = tacker.instances.values()
    tacker._instantiate(instance)


class RacedChange(Struct, frozen=True):
    """Change of a plan: its arguments, its request, and changes of others with their messages."""

    level: int
    flags: tuple[str, ...]
    request: str
    interventions: dict[Callable[[Tacker], None], str]


STOPPED = "v is not instantiated in Tacker; the plan started from a running VNF. Plan again."
LEVEL = "v has level 3 of worker_scale in Tacker; the plan started from 0. Plan again."
CHANGES = {
    "scale": RacedChange(1, (), "scale", {scale: LEVEL, terminate: STOPPED}),
    "heal": RacedChange(
        0,
        ("-replace=tacker_vnf.v:v-worker-0",),
        "heal",
        {scale: LEVEL, heal: "in Tacker; the plan started from it as v-worker-0. Plan again."},
    ),
    "terminate": RacedChange(
        0,
        ("-destroy",),
        "terminate",
        {scale: LEVEL, add_vnfc: "v has 3 VNFCs in Tacker; the plan started from 2. Plan again."},
    ),
}
CASES = [
    (name, intervention)
    for name, change in CHANGES.items()
    for intervention in change.interventions
]
cases = pytest.mark.parametrize(
    ("name", "intervene"), CASES, ids=[f"{name}-{call.__name__}" for name, call in CASES]
)


def prepare(name: str, capfd: Capture) -> RacedChange:
    change = CHANGES[name]
    assert apply() == 0
    write_configuration(change.level)
    assert run_command_line(["plan", "-out=p.nfplan", *change.flags]) == 0
    MemoryTacker.changes.clear()
    capfd.readouterr()
    return change


def check_convergence(tacker: Tacker, change: RacedChange) -> None:
    """Plan and apply again: the site is as configured."""
    assert apply(*change.flags) == 0
    if "-destroy" in change.flags:
        assert not tacker.instances
    else:
        assert get_info(tacker)["scaleStatus"][0]["scaleLevel"] == change.level


@cases
def test_change_before_the_read_of_the_plan_is_planned(
    tacker: Tacker, capfd: Capture, name: str, intervene: Callable[[Tacker], None]
) -> None:
    change = prepare(name, capfd)
    intervene(tacker)
    check_convergence(tacker, change)


@cases
def test_change_between_plan_and_apply_stops_before_the_first_request(
    tacker: Tacker, capfd: Capture, name: str, intervene: Callable[[Tacker], None]
) -> None:
    change = prepare(name, capfd)
    intervene(tacker)
    assert run_command_line(["apply", "-auto-approve", "p.nfplan"]) == 1
    assert change.interventions[intervene] in read_output(capfd)
    assert tacker.changes == []
    check_convergence(tacker, change)


@cases
def test_change_before_a_conflict_is_not_overwritten(
    tacker: Tacker, capfd: Capture, name: str, intervene: Callable[[Tacker], None]
) -> None:
    """Tacker answers 409 while the operation of another client runs: no second request."""
    change = prepare(name, capfd)

    def reject(request: str) -> None:
        if request.endswith(change.request):
            tacker.before_write.clear()
            intervene(tacker)
            raise build_conflict()

    tacker.before_write.append(reject)
    assert run_command_line(["apply", "-auto-approve", "p.nfplan"]) == 1
    assert change.interventions[intervene] in read_output(capfd)
    assert tacker.changes == []
    check_convergence(tacker, change)


@pytest.mark.parametrize("name", CHANGES)
def test_conflict_without_a_change_is_sent_again(tacker: Tacker, capfd: Capture, name: str) -> None:
    change = prepare(name, capfd)

    def reject(request: str) -> None:
        if request.endswith(change.request):
            tacker.before_write.clear()
            raise build_conflict()

    tacker.before_write.append(reject)
    assert run_command_line(["apply", "-auto-approve", "p.nfplan"]) == 0, read_output(capfd)
    assert len([path for path in tacker.changes if path.endswith(change.request)]) == 1


@pytest.mark.parametrize("name", CHANGES)
def test_conflict_of_a_running_operation_is_not_sent_again(
    tacker: Tacker, capfd: Capture, name: str
) -> None:
    change = prepare(name, capfd)

    def start_other_operation(request: str) -> None:
        if request.endswith(change.request):
            tacker.before_write.clear()
            (identifier,) = tacker.instances
            tacker.operations["other"] = {
                "id": "other",
                "operation": "MODIFY_INFO",
                "operationState": "PROCESSING",
                "vnfInstanceId": identifier,
                "startTime": "2030",
            }
            raise build_conflict()

    tacker.before_write.append(start_other_operation)
    assert run_command_line(["apply", "-auto-approve", "p.nfplan"]) == 1
    assert "Another operation of the VNF is in progress in Tacker" in read_output(capfd)
    assert tacker.changes == []


def test_level_changed_between_check_and_request_is_reported(
    tacker: Tacker, capfd: Capture
) -> None:
    """Tacker has no conditional requests: the level after the operation shows the change."""
    change = prepare("scale", capfd)

    def scale_before(request: str) -> None:
        if request.endswith("scale"):
            tacker.before_write.clear()
            scale(tacker)

    tacker.before_write.append(scale_before)
    assert run_command_line(["apply", "-auto-approve", "p.nfplan"]) == 1
    expected = "v has level 4 of worker_scale in Tacker; this apply requested 1. Plan again."
    assert expected in read_output(capfd)
    check_convergence(tacker, change)


def test_requested_level_is_not_requested_again(tacker: Tacker, capfd: Capture) -> None:
    prepare("scale", capfd)
    get_info(tacker)["scaleStatus"][0]["scaleLevel"] = 1
    tacker._add_vnfcs(get_info(tacker), 1)
    assert run_command_line(["apply", "-auto-approve", "p.nfplan"]) == 0, read_output(capfd)
    assert tacker.changes == []


def test_terminated_vnf_is_only_deleted(tacker: Tacker, capfd: Capture) -> None:
    prepare("terminate", capfd)
    terminate(tacker)
    assert run_command_line(["apply", "-auto-approve", "p.nfplan"]) == 0
    assert [path.partition(" ")[0] for path in tacker.changes] == ["DELETE"]


def test_instance_instantiated_by_others_is_left_alone(tacker: Tacker, capfd: Capture) -> None:
    def intervene(request: str) -> None:
        if request.endswith("instantiate"):
            tacker.before_write.clear()
            instantiate(tacker)
            raise build_conflict()

    tacker.before_write.append(intervene)
    assert apply() == 1
    expected = "v is instantiated in Tacker; this step started from a VNF instance that is not."
    assert expected in read_output(capfd)
    assert tacker.changes == ["POST /vnf_instances"]
