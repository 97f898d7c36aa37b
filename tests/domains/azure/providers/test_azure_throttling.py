"""Tests of throttled reads and of the API version."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from azure.mgmt.networkcloud import _configuration

from nexusform.domains.azure.rendering.azure_objects import API_VERSION
from tests.domains.azure.providers.arm_server import ArmServer, Faults
from tests.domains.azure.providers.azure_sites import SCALED, CommandRunner, write_configuration


def test_throttled_reads_follow_retry_after_until_the_deadline(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    server.site.faults = Faults(throttled_reads=40)
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert server.site.faults.throttled_reads == 0
    assert "No changes." in nexusform.said


def test_reads_throttled_beyond_deadline_fail(
    nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_NET_DEADLINE", "1")
    server.site.faults = Faults(throttled_reads=1_000_000)
    assert nexusform("plan", "-detailed-exitcode") == 1, nexusform.said
    assert "No changes." not in nexusform.said


def test_throttled_changes_are_retried(nexusform: CommandRunner, server: ArmServer) -> None:
    write_configuration(SCALED)
    server.site.faults = Faults(polls=2, throttles=6)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert server.site.faults.throttles == 0
    assert len(server.site.taken) == len(set(server.site.taken))
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


@pytest.mark.parametrize("faults", [{"throttled_reads": 3}, {"throttles": 3}])
def test_http_date_in_retry_after_is_respected(
    nexusform: CommandRunner, server: ArmServer, faults: dict[str, int]
) -> None:
    write_configuration(SCALED)
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=5), usegmt=True)
    server.site.faults = Faults(**faults, retry_after=past)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert (server.site.faults.throttled_reads, server.site.faults.throttles) == (0, 0)


def test_exports_use_api_version_of_sdk() -> None:
    assert f'kwargs.pop("api_version", "{API_VERSION}")' in inspect.getsource(_configuration)
