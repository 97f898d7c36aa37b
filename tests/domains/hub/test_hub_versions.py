"""Tests of writes to the compared version of an object, beside a real API server too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import write_configuration

pytestmark = pytest.mark.slow
SETTINGS = "/api/v1/namespaces/web/configmaps/settings"


def run_before_write(hub: Front, call: Callable[[], object]) -> None:
    """Call a function once, between the read of the settings and their write."""
    answer = hub.answer

    def intervene(method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
        if method != "GET" and target.startswith(SETTINGS) and "dryRun" not in target:
            hub.answer = answer  # type: ignore[method-assign]
            call()
        return answer(method, target, token, content)

    hub.answer = intervene  # type: ignore[method-assign]


def put_settings(hub: Front, value: str) -> None:
    names = {"apiVersion": "v1", "kind": "ConfigMap"}
    hub.put({**names, "metadata": {"name": "settings", "namespace": "web"}, "data": {"a": value}})


def read_settings(hub: Front) -> Any:
    body = hub.get("ConfigMap", "settings", "web")
    return body["data"] if body is not None else None


def test_object_created_before_our_creation_is_not_written(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_before_write(hub, lambda: put_settings(hub, "9"))
    code, said = run_command("apply", "-auto-approve")
    assert (code, "ConfigMap web/settings already exists on the hub" in said) == (1, True), said
    assert read_settings(hub) == {"a": "9"}


@pytest.mark.parametrize("flags", [(), ("-destroy",)])
def test_object_changed_before_our_write_is_not_written(
    hub: Front, run_command: CommandRunner, flags: tuple[str, ...]
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(content="2")
    run_before_write(hub, lambda: put_settings(hub, "9"))
    code, said = run_command("apply", "-auto-approve", "-take-ownership", *flags)
    message = "ConfigMap web/settings has data.a 9 on the hub; the plan started from 1. Plan again."
    assert (code, message in said) == (1, True), said
    assert read_settings(hub) == {"a": "9"}
