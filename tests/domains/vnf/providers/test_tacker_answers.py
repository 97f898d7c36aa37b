"""Tests of answers of Tacker that its interface does not allow: errors with the position."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.domains.vnf.providers.tacker_client import (
    Credentials,
    PollTiming,
    TackerClient,
    TackerProblem,
)
from nexusform.domains.vnf.providers.tacker_operations import parse_instance
from nexusform.json_data.plain_data import Path, format_path, replace_part_at_path
from nexusform.network.api_client import ApiClient, ApiResponse
from tests.domains.vnf.providers.memory_tacker import MemoryTacker
from tests.domains.vnf.providers.test_tacker_ownership import Capture, apply, read_output, tacker

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
    monkeypatch.setattr(ApiClient, "send", lambda _client, _request: ApiResponse(400, {}, content))
    client = TackerClient("http://tacker", Credentials(), PollTiming())
    with pytest.raises(TackerProblem) as rejected:
        client.write("POST", "/vnf_instances", {})
    message = "Tacker rejected POST /vnflcm/v2/vnf_instances (status 400): "
    assert str(rejected.value) == message + reason
    client.close()


def test_lists_without_entries_may_be_missing() -> None:
    document = {"id": "i", "instantiationState": "INSTANTIATED", INFO: {}}
    instance = parse_instance(document)
    assert (instance.scale_levels, instance.vnfcs) == ({}, ())
