"""Throttled reads, and the version of the API."""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from azure.mgmt.networkcloud import _configuration

from nexusform.domains.azure.rendering.azure_objects import API_VERSION
from tests.domains.azure.providers.arm_server import ArmServer, Faults
from tests.domains.azure.providers.azure_sites import Told


def test_throttled_reads_follow_retry_after_until_the_deadline(nexusform: Told, server: ArmServer) -> None:
    server.site.faults = Faults(throttled_reads=40)
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert server.site.faults.throttled_reads == 0
    assert "No changes." in nexusform.said


def test_reads_that_stay_throttled_end_at_the_deadline(
    nexusform: Told, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_NET_DEADLINE", "1")
    server.site.faults = Faults(throttled_reads=1_000_000)
    assert nexusform("plan", "-detailed-exitcode") == 1, nexusform.said
    assert "No changes." not in nexusform.said


def test_exports_have_the_api_version_of_the_sdk() -> None:
    assert f'kwargs.pop("api_version", "{API_VERSION}")' in inspect.getsource(_configuration)
