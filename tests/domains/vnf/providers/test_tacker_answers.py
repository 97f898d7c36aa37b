"""Tests of answers of Tacker that its interface does not allow: errors with the position."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.providers.tacker_client import (
    Credentials,
    PollTiming,
    TackerClient,
    TackerProblem,
)
from nexusform.domains.vnf.providers.tacker_operations import parse_instance
from nexusform.json_data.plain_data import Path, format_path, replace_part_at_path
from nexusform.network.api_client import ApiClient
from nexusform.network.http_client import WebResponse
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

INFO = "instantiatedVnfInfo"
LEVEL: Path = (INFO, "scaleStatus", 0, "scaleLevel")
WRONG_VALUES: list[tuple[Path, Any]] = [
    *((LEVEL, level) for level in ("1", -5, 0.5, 10**30, None, True, 1.0, [], {})),
    *(((INFO, name), None) for name in ("scaleStatus", "vnfcResourceInfo", "vnfcInfo")),
    *(((INFO, name), {}) for name in ("scaleStatus", "vnfcResourceInfo", "vnfcInfo")),
    *(((INFO, name, 0), "row") for name in ("scaleStatus", "vnfcResourceInfo", "vnfcInfo")),
    ((INFO, "scaleStatus", 0, "aspectId"), None),
    ((INFO, "vnfcResourceInfo", 1, "id"), None),
    ((INFO, "vnfcResourceInfo", 1, "vduId"), 7),
    ((INFO, "vnfcInfo", 1, "id"), None),
    ((INFO,), None),
    (("instantiationState",), "RUNNING"),
    (("instantiationState",), None),
]


@pytest.mark.parametrize(("path", "value"), WRONG_VALUES)
def test_invalid_value_stops_a_plan_with_its_position(
    tacker: type[MemoryTacker], capfd: Capture, path: Path, value: Any
) -> None:
    assert apply() == 0
    (identifier,) = tacker.instances
    tacker.instances[identifier] = replace_part_at_path(tacker.instances[identifier], path, value)
    tacker.changes.clear()
    capfd.readouterr()
    assert apply() == 1
    output = read_output(capfd)
    assert f"{format_path(path)} is {json.dumps(value)}, not " in output
    assert f"invalid VNF instance {identifier}" in output
    assert tacker.changes == []


# The instances are listed by a creation, the operations by an update, too.
@pytest.mark.parametrize("path", ["/vnf_instances", "/vnf_lcm_op_occs"])
@pytest.mark.parametrize("answer", [None, {}, [None], "none"])
def test_answer_that_is_no_list_stops_an_apply(
    tacker: type[MemoryTacker],
    capfd: Capture,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    answer: Any,
) -> None:
    """A null is not an empty list: the VNF may exist, or another operation may run."""
    if path == "/vnf_lcm_op_occs":
        assert apply() == 0
        write_configuration(level=1)
    tacker.changes.clear()
    capfd.readouterr()
    read_list = MemoryTacker.read_list

    def read_answer(client: MemoryTacker, read_path: str, query: Mapping[str, str]) -> Any:
        if read_path != path:
            return read_list(client, read_path, query)
        with monkeypatch.context() as context:
            response = WebResponse(200, {}, json.dumps(answer).encode())
            context.setattr(client, "_read_answer", lambda _path, _query: response)
            return TackerClient.read_list(client, read_path, query)

    monkeypatch.setattr(MemoryTacker, "read_list", read_answer)
    assert apply() == 1
    assert f"to /vnflcm/v2{path} is not a list of objects" in read_output(capfd)
    assert tacker.changes == []


def test_two_levels_of_one_aspect_are_invalid() -> None:
    MemoryTacker.reset()
    document = MemoryTacker.instances[MemoryTacker.add_instance("v", {})]
    document[INFO]["scaleStatus"] *= 2
    with pytest.raises(TackerProblem, match=r"scaleStatus\[1\].aspectId is \"worker_scale\""):
        parse_instance(document)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"detail": "The VNFD has no aspect a."}', "The VNFD has no aspect a."),
        (b"{}", "it gave no reason."),
        (b"<html>", "it gave no reason."),
    ],
)
def test_rejection_has_the_reason_of_tacker(
    content: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ApiClient, "send", lambda _client, _request: WebResponse(400, {}, content))
    client = TackerClient("http://tacker", Credentials(), PollTiming())
    with pytest.raises(TackerProblem) as rejected:
        client.write("POST", "/vnf_instances", {})
    message = "Tacker rejected POST /vnflcm/v2/vnf_instances (status 400): "
    assert str(rejected.value) == message + reason
    client.close()


@pytest.mark.parametrize("content", [b"<html>default backend - 404</html>", b'{"message": "no"}'])
def test_missing_object_is_an_answer_of_tacker_only(
    content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway without Tacker behind it also answers 404."""
    answers = [WebResponse(404, {}, content)]
    monkeypatch.setattr(ApiClient, "send", lambda _client, _request: answers[0])
    client = TackerClient("http://tacker", Credentials(), PollTiming())
    with pytest.raises(
        TackerProblem, match=r"\(status 404\): this is not an answer of Tacker. Check"
    ):
        client.read("/vnf_instances/i")
    with pytest.raises(
        TackerProblem, match=r"\(status 404\): this is not an answer of Tacker. Check"
    ):
        client.write("DELETE", "/vnf_instances/i")
    answers[0] = WebResponse(404, {}, b'{"status": 404, "detail": "VnfInstance i not found."}')
    assert client.read("/vnf_instances/i") is None
    client.close()


@pytest.mark.parametrize(
    "link",
    [
        '<http://tacker/vnflcm/v2/vnf_instances?page=2>; rel="next"',
        '<http://tacker/a>; rel="self", </b?page=2>; title="more"; rel="next"',
    ],
)
def test_list_with_a_next_page_that_cannot_be_read_is_no_list(
    link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = WebResponse(200, {"link": link}, b"[]")
    monkeypatch.setattr(ApiClient, "send", lambda _client, _request: answer)
    client = TackerClient("http://tacker", Credentials(), PollTiming())
    with pytest.raises(TackerProblem, match="its next page has no nextpage_opaque_marker"):
        client.read_list("/vnf_instances", {})
    client.close()


@pytest.mark.parametrize(
    ("name", "missing"),
    [("scaleStatus", "the level of worker_scale"), ("vnfcResourceInfo", "2 of 2 VNFCs of worker")],
)
def test_running_vnf_without_its_values_is_not_read(
    tacker: type[MemoryTacker], capfd: Capture, name: str, missing: str
) -> None:
    """An omitted list is no list without entries if the VNF has levels and VNFCs."""
    assert apply() == 0
    (instance,) = tacker.instances.values()
    values = instance[INFO].pop(name)
    capfd.readouterr()
    assert run_command_line(["plan"]) == 1
    expected = f"Tacker does not report {missing} of the VNF instance {instance['id']} (v)."
    assert expected in read_output(capfd)
    instance[INFO][name] = values
    assert run_command_line(["plan"]) == 0
    assert "No changes." in read_output(capfd)


def test_vnfc_that_is_not_reported_is_not_removed(
    tacker: type[MemoryTacker], capfd: Capture
) -> None:
    """Tacker removes VNFCs with a change of levels only, and would not create it again."""
    assert apply() == 0
    (instance,) = tacker.instances.values()
    instance[INFO]["vnfcResourceInfo"].pop()
    capfd.readouterr()
    assert run_command_line(["plan"]) == 1
    assert "Tacker does not report 1 of 2 VNFCs of worker of the VNF" in read_output(capfd)


def test_vnfc_of_an_unknown_vdu_is_not_removed(tacker: type[MemoryTacker], capfd: Capture) -> None:
    """The documents may be older than the VNF in Tacker."""
    assert apply() == 0
    (instance,) = tacker.instances.values()
    (row, *_) = instance[INFO]["vnfcResourceInfo"]
    instance[INFO]["vnfcResourceInfo"].append({**row, "id": "r", "vduId": "router"})
    capfd.readouterr()
    assert run_command_line(["plan"]) == 1
    assert "has VNFCs of the VDU router in Tacker, and its documents do" in read_output(capfd)
    assert run_command_line(["state", "rm", "tacker_vnf.v"]) == 0
    assert run_command_line(["import", "tacker_vnf.v", "s/v"]) == 1


def test_answer_with_another_object_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = WebResponse(200, {}, b'{"id": "other"}')
    monkeypatch.setattr(ApiClient, "send", lambda _client, _request: answer)
    client = TackerClient("http://tacker", Credentials(), PollTiming())
    with pytest.raises(TackerProblem, match="is another object, with the id other"):
        client.read("/vnf_instances/i")
    client.close()


def test_lists_without_entries_may_be_missing() -> None:
    document = {"id": "i", "instantiationState": "INSTANTIATED", INFO: {}}
    instance = parse_instance(document)
    assert (instance.scale_levels, instance.vnfcs) == ({}, ())
