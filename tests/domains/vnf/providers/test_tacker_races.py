"""Tests of VNFs that others change before, between and after the requests of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.providers.tacker_client import TackerProblem
from nexusform.domains.vnf.providers.tacker_operations import OperationRunner, VnfInstance
from nexusform.domains.vnf.providers.vnf_start import VnfStart, find_vnf_difference
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


def change_owner(tacker: Tacker) -> None:
    """Let another state own the VNF."""
    (instance,) = tacker.instances.values()
    mark = instance["metadata"]["nexusform"]
    instance["metadata"]["nexusform"] = f"other-lineage/{mark.partition('/')[2]}"


FOREIGN = "v has the owner mark of another state in Tacker."
STOPPED = "v is not instantiated in Tacker; the plan started from a running VNF. Plan again."
LEVEL = "v has level 3 of worker_scale in Tacker; the plan started from 0. Plan again."
CHANGES = {
    "scale": RacedChange(1, (), "scale", {scale: LEVEL, terminate: STOPPED, change_owner: FOREIGN}),
    "heal": RacedChange(
        0,
        ("-replace=tacker_vnf.v:v-worker-0",),
        "heal",
        {
            scale: LEVEL,
            heal: "in Tacker; the plan started from it as v-worker-0. Plan again.",
            change_owner: FOREIGN,
        },
    ),
    "terminate": RacedChange(
        0,
        ("-destroy",),
        "terminate",
        {
            scale: LEVEL,
            add_vnfc: "v has 3 VNFCs in Tacker; the plan started from 2. Plan again.",
            change_owner: FOREIGN,
        },
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
    assert apply(*change.flags, "-take-ownership") == 0
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
    output = read_output(capfd)
    # Before the first request, the steps are replayed on the site: their effect is larger.
    assert change.interventions[intervene] in output or "Consequence not approved" in output
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
            start_operation(tacker, "PROCESSING")
            raise build_conflict()

    tacker.before_write.append(start_other_operation)
    assert run_command_line(["apply", "-auto-approve", "p.nfplan"]) == 1
    assert "Another operation of the VNF is in progress in Tacker" in read_output(capfd)
    assert tacker.changes == []


def start_operation(tacker: Tacker, state: str) -> None:
    """Start an operation as another client of Tacker."""
    (identifier,) = tacker.instances
    tacker.operations["other"] = {
        "id": "other",
        "operation": "SCALE",
        "operationState": state,
        "vnfInstanceId": identifier,
        "startTime": "2030",
    }


@pytest.mark.parametrize(
    ("state", "advice"),
    [
        ("STARTING", "Plan again once"),
        ("PROCESSING", "Plan again once"),
        ("FAILED_TEMP", "Retry it, roll it back or fail it in Tacker. Plan again once"),
        ("ROLLING_BACK", "Plan again once"),
    ],
)
def test_vnf_in_an_operation_of_others_is_not_read_as_unchanged(
    tacker: Tacker, capfd: Capture, state: str, advice: str
) -> None:
    assert apply() == 0
    start_operation(tacker, state)
    capfd.readouterr()
    assert run_command_line(["plan"]) == 1
    output = read_output(capfd)
    expected = "tacker_vnf.v: Another operation of the VNF is in progress in Tacker: SCALE"
    assert f"{expected} ({state}), id other. {advice} it has ended." in output
    tacker.operations["other"]["operationState"] = "COMPLETED"
    assert run_command_line(["plan"]) == 0


def change_package(tacker: Tacker) -> None:
    (instance,) = tacker.instances.values()
    instance["vnfdId"] = "d2"


def change_flavour(tacker: Tacker) -> None:
    """Terminate the VNF, and instantiate it with another flavour."""
    get_info(tacker)["flavourId"] = "big"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_package, "(v) has the vnfdId d2 in Tacker, not d: another client"),
        (change_flavour, "(v) has the flavourId big in Tacker, not simple: another client"),
    ],
)
@pytest.mark.parametrize("command", [("plan",), ("apply", "-auto-approve", "p.nfplan")])
def test_vnf_with_another_package_is_not_read_as_unchanged(
    tacker: Tacker,
    capfd: Capture,
    change: Callable[[Tacker], None],
    message: str,
    command: tuple[str, ...],
) -> None:
    prepare("scale", capfd)
    change(tacker)
    assert run_command_line([*command]) == 1
    assert message in read_output(capfd)
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


# --- several requests of one step ----------------------------------------------------------------

CONNECTIONS = """vim_connection_info_wo = {
    vim1 = { vimType = "openstack", accessInfo = { username = "u" } }
  }
  vim_connection_info_wo_version = VERSION"""


def scale_back(tacker: Tacker) -> None:
    """Scale the first aspect back to the level that the plan started from."""
    info = get_info(tacker)
    info["scaleStatus"][0]["scaleLevel"] = 0


def connect(tacker: Tacker) -> None:
    (instance,) = tacker.instances.values()
    instance["vimConnectionInfo"] = {"vim1": {"accessInfo": {"username": "x"}}}


class RacedRequests(Struct, frozen=True):
    """Step with several requests: its plan, its requests, and changes of others between them.

    A change is given by the request before which it happens.
    """

    flags: tuple[str, ...]
    requests: tuple[str, ...]
    interventions: dict[tuple[str, Callable[[Tacker], None]], str]


OTHER_VNFCS = "v has other VNFCs in Tacker than after the last request of this apply. Plan again."
SCALED_BACK = "v has level 0 of worker_scale in Tacker; this apply requested 1. Plan again."
STEPS = {
    "scale and heal": RacedRequests(
        ("-replace=tacker_vnf.v:v-worker-0",),
        ("scale", "heal"),
        {
            ("heal", scale_back): SCALED_BACK,
            ("heal", add_vnfc): OTHER_VNFCS,
            ("heal", heal): "in Tacker; the plan started from it as v-worker-0. Plan again.",
            ("heal", terminate): STOPPED,
        },
    ),
    "connect and scale": RacedRequests(
        (),
        ("PATCH", "scale"),
        {
            ("scale", connect): OTHER_VNFCS.replace("VNFCs", "connections to VIMs"),
            ("scale", add_vnfc): OTHER_VNFCS,
            ("scale", heal): OTHER_VNFCS,
            ("scale", scale): "v has level 3 of worker_scale in Tacker; the plan started from 0.",
            ("scale", terminate): STOPPED,
        },
    ),
    "terminate and delete": RacedRequests(
        ("-destroy",),
        ("terminate", "DELETE"),
        {("DELETE", instantiate): "v is instantiated in Tacker; this step started from"},
    ),
}
STEP_CASES = [
    pytest.param(name, request, call, id=f"{name}-{call.__name__}")
    for name, step in STEPS.items()
    for request, call in step.interventions
]


@pytest.mark.parametrize(("name", "request_after", "intervene"), STEP_CASES)
def test_change_between_two_requests_of_a_step_stops_it(
    tacker: Tacker,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Capture,
    name: str,
    request_after: str,
    intervene: Callable[[Tacker], None],
) -> None:
    step = STEPS[name]
    more = CONNECTIONS if "PATCH" in step.requests else ""
    write_configuration(more=more.replace("VERSION", "1"))
    assert apply() == 0, read_output(capfd)
    level = 0 if "-destroy" in step.flags else 1
    write_configuration(level, more=more.replace("VERSION", "2"))
    assert run_command_line(["plan", "-out=p.nfplan", *step.flags]) == 0, read_output(capfd)
    tacker.changes.clear()
    check = OperationRunner.check_unchanged
    changed: list[str] = []

    def intervene_before_the_check(runner: OperationRunner, *arguments: Any) -> None:
        """Change the VNF after the first request, before the check of the second one."""
        first_is_done = any(step.requests[0] in path for path in tacker.changes)
        if first_is_done and not changed:
            changed.append(request_after)
            intervene(tacker)
        check(runner, *arguments)

    if request_after == "DELETE":
        tacker.before_write.append(
            lambda request: intervene_once(tacker, request, changed, intervene)
        )
    else:
        monkeypatch.setattr(OperationRunner, "check_unchanged", intervene_before_the_check)
    assert run_command_line(["apply", "-auto-approve", "p.nfplan"]) == 1
    output = read_output(capfd)
    assert changed, output
    assert step.interventions[request_after, intervene] in output, output
    assert tacker.instances
    # Tacker rejects the deletion of a running VNF.
    if request_after != "DELETE":
        assert not any(request_after in path for path in tacker.changes), tacker.changes
    monkeypatch.undo()
    tacker.before_write.clear()


def intervene_once(
    tacker: Tacker, request: str, changed: list[str], intervene: Callable[[Tacker], None]
) -> None:
    if request.startswith("DELETE") and not changed:
        changed.append(request)
        intervene(tacker)


def test_two_aspects_are_scaled_only_if_the_first_stays() -> None:
    """The start value of the first aspect is none any more once this step has scaled it."""
    start = VnfStart({"a": 0, "b": 0})
    targets = {"a": 1, "b": 1}
    (before, after, back) = (build_instance(a=level) for level in (0, 1, 0))
    assert find_vnf_difference(start, targets, before) == ""
    start = start.follow_request(after, {"a": 1})
    assert find_vnf_difference(start, targets, after) == ""
    expected = "v has level 0 of a in Tacker; this apply requested 1. Plan again."
    assert find_vnf_difference(start, targets, back) == expected


def build_instance(**levels: int) -> VnfInstance:
    return VnfInstance("i", "v", "d", "", "", True, {"b": 0, **levels}, ())
