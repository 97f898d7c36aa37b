"""Requests for VMs are sent in the planned order where it decides the placement."""

from __future__ import annotations

from itertools import pairwise

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import ArmServer
from tests.domains.azure.providers.azure_sites import NEW, Told, write

VM = NEW[NEW.index('resource "nexus_virtual_machine"') :]
VMS = "".join(VM.replace('"v"', f'"v{number}"') for number in range(4))


@pytest.mark.parametrize("parallelism", [1, 10])
def test_vms_are_requested_one_after_another(parallelism: int, nexusform: Told, server: ArmServer) -> None:
    write(VMS)
    server.site.faults.polls = 3
    assert nexusform("apply", "-auto-approve", f"-parallelism={parallelism}") == 0, nexusform.said
    assert nexusform.changes() == [("PUT", f"virtualMachines/v{number}") for number in range(4)]
    requests = [path for method, path, _ in server.site.asked if method == "PUT" or "operationStatuses" in path]
    puts = [number for number, path in enumerate(requests) if "virtualMachines" in path]
    assert all(later - earlier > 1 for earlier, later in pairwise(puts)), "each ends first"
