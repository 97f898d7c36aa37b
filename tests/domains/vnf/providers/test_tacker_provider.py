"""Tests of the requests of the provider `tacker`, and of its credentials.

No Tacker runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from nexusform.domains.vnf.providers import tacker_client
from nexusform.domains.vnf.providers.tacker import make_provider
from nexusform.domains.vnf.providers.tacker_client import (
    Credentials,
    PollTiming,
    TackerClient,
    read_credentials,
)
from nexusform.domains.vnf.providers.tacker_operations import ObservedVnfc, match_vnfcs
from nexusform.domains.vnf.providers.tacker_provider import TackerOptions, TackerProvider
from nexusform.files.regular_files import UNCONFINED
from nexusform.interfaces.plugins import ChangeRequest, ObjectKey, ProviderProblem, ReadRequest
from nexusform.network.http_client import WebResponse

pytestmark = pytest.mark.of_domains("vnf")

VNFD = """tosca_definitions_version: tosca_simple_yaml_1_2
topology_template:
  node_templates:
    VNF: {type: company.VNF, properties: {descriptor_id: d}}
    worker: {type: tosca.nodes.nfv.Vdu.Compute, properties: {vdu_profile: {min_number_of_instances: 1}}}
"""  # noqa: E501
PLANNED = {"id": "s/v", "name": "v", "site_id": "s", "vnfd": VNFD, "flavour_id": "simple"}


class RecordingClient(TackerClient):
    """Client with fixed answers; `sent` are the bodies by path."""

    def __init__(self) -> None:
        super().__init__(
            "http://127.0.0.1:1", Credentials(), PollTiming(sleep=lambda _seconds: None)
        )
        self.sent: dict[str, Any] = {}
        self.operation: dict[str, Any] = {"operation": "INSTANTIATE", "operationState": "COMPLETED"}

    def read(self, path: str) -> Mapping[str, Any] | None:
        if path.startswith("/vnf_lcm_op_occs"):
            return self.operation
        if "POST /vnf_instances/i/instantiate" in self.sent:
            return {"id": "i", "instantiationState": "INSTANTIATED", "instantiatedVnfInfo": {}}
        return {"id": "i", "instantiationState": "NOT_INSTANTIATED"}

    def read_list(self, path: str, query: Mapping[str, str]) -> list[Mapping[str, Any]]:
        self.sent.setdefault(f"GET {path}", query)
        return []

    def write(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **_options: Any
    ) -> WebResponse:
        self.sent[f"{method} {path}"] = body
        return WebResponse(
            202,
            {"location": "http://t/vnflcm/v2/vnf_lcm_op_occs/o"},
            b'{"id": "i", "instantiationState": "NOT_INSTANTIATED"}',
        )


def create(client: TackerClient, **arguments: Any) -> None:
    provider = TackerProvider("tacker", client, TackerOptions("rollback", 9.0, is_graceful=True))
    provider.create(
        ChangeRequest(
            ObjectKey("tacker_vnf", "s/v", 1), "tacker_vnf.v", None, {**PLANNED, **arguments}
        )
    )


def test_connections_of_version_1_are_sent_as_those_of_version_2() -> None:
    client = RecordingClient()
    access = {"interfaceInfo": {"endpoint": "http://k"}, "accessInfo": {"project": "p"}}
    connections = [
        {"id": "v", "vimType": "openstack", "vimId": "x", **access},
        {"vimType": "kubernetes"},
    ]
    create(client, instantiate_request=json.dumps({"vimConnectionInfo": connections}))
    assert client.sent["POST /vnf_instances/i/instantiate"]["vimConnectionInfo"] == {
        "v": {"vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3", "vimId": "x", **access},
        "1": {"vimType": "kubernetes"},
    }


@pytest.mark.parametrize(("is_graceful", "kind"), [(True, "GRACEFUL"), (False, "FORCEFUL")])
def test_instance_is_terminated_as_configured(is_graceful: bool, kind: str) -> None:
    client = RecordingClient()
    create(client)
    provider = TackerProvider(
        "tacker", client, TackerOptions("rollback", 9.0, is_graceful=is_graceful)
    )
    key = ObjectKey("tacker_vnf", "s/v", 1)
    provider.delete(ChangeRequest(key, "tacker_vnf.v", {**PLANNED, "vnf_instance_id": "i"}, None))
    assert client.sent["POST /vnf_instances/i/terminate"] == {"terminationType": kind}
    assert "DELETE /vnf_instances/i" in client.sent


def test_rolled_back_instantiation_leaves_no_instance() -> None:
    client = RecordingClient()
    client.operation |= {
        "operationState": "ROLLED_BACK",
        "error": {"title": "Heat failed", "detail": "no host."},
    }
    with pytest.raises(
        ProviderProblem,
        match=r"INSTANTIATE failed in Tacker: Heat failed. no host. It was rolled back.",
    ):
        create(client)
    assert "DELETE /vnf_instances/i" in client.sent
    client = RecordingClient()
    client.operation["operationState"] = "FAILED"
    with pytest.raises(
        ProviderProblem,
        match="The VNF instance i stays in Tacker; the next apply instantiates it again",
    ):
        create(client)


@pytest.mark.parametrize("text", ["clouds: {c: {auth: {password: 2024-02-31}}}", "clouds: [", "\0"])
def test_unreadable_clouds_file_is_named(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clouds.yaml"
    path.write_text(text)
    monkeypatch.setenv("OS_CLOUD", "c")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(path))
    with pytest.raises(ProviderProblem, match=r"clouds.yaml cannot be read as YAML\."):
        read_credentials(UNCONFINED)


@pytest.mark.parametrize(("host", "cells"), [("h1", [1]), ("h2", None)])
def test_numa_cells_of_another_host_are_unknown(host: str, cells: list[int] | None) -> None:
    vm = {
        "vdu": "worker",
        "number": 0,
        "machine": "h1",
        "rack": "z",
        "availability_zone": "z",
        "numa_cells": [1],
    }
    recorded = {**PLANNED, "vnfcs": {"v-worker-0": vm}, "vnfc_ids": {"v-worker-0": "a"}}
    observed = match_vnfcs(
        recorded, [ObservedVnfc(id="a", vdu="worker", zone=f"z:{host}", order=(0, ""))]
    )
    vnfc = observed["vnfcs"]["v-worker-0"]
    assert (vnfc["machine"], vnfc["numa_cells"]) == (host, cells)


@pytest.mark.parametrize(("timeout", "seconds"), [("5s", 5.0), ("30m", 30.0)])
def test_retries_end_with_the_timeout_of_an_operation(
    timeout: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    timings: list[PollTiming] = []

    def record_client(_endpoint: str, _credentials: Credentials, timing: PollTiming) -> Any:
        timings.append(timing)
        return TackerClient("http://tacker", Credentials(), timing)

    monkeypatch.setattr(tacker_client, "TackerClient", record_client)
    settings = {
        "endpoint": "http://tacker",
        "auth": "none",
        "timeout": timeout,
        "on_failure": "fail",
        "graceful": True,
    }
    with ExitStack() as exit_stack:
        make_provider(settings, ".", exit_stack)
    assert [timing.outage for timing in timings] == [seconds]


def test_many_vnfs_are_read_in_parallel() -> None:
    waiting = Barrier(16, timeout=20)

    class MeetingClient(RecordingClient):
        def read(self, path: str) -> Mapping[str, Any] | None:
            # Ends once 16 requests are in flight.
            waiting.wait()
            return super().read(path)

    provider = TackerProvider(
        "tacker", MeetingClient(), TackerOptions("rollback", 9.0, is_graceful=True)
    )
    requests = [
        ReadRequest(
            ObjectKey("tacker_vnf", f"s/v{number}", 1),
            f"tacker_vnf.v[{number}]",
            {**PLANNED, "vnf_instance_id": "i"},
        )
        for number in range(32)
    ]
    assert [result.attributes for result in provider.read(requests)] == [None] * 32
