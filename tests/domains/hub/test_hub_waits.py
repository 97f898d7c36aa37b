"""Tests that an interrupt of a plan does not wait for a hub that is silent."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import write_configuration

# A shell disables interrupts for programs in the background.
PROGRAM = """
import signal, sys
from nexusform.cli.main import run_command_line

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(run_command_line(sys.argv[1:]))
"""


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("silent_method", ["PATCH", "DELETE"])
def test_interrupt_during_a_dry_run_does_not_wait_for_a_silent_hub(
    hub: Front, run_command: CommandRunner, silent_method: str
) -> None:
    write_configuration()
    if silent_method == "DELETE":
        assert run_command("apply", "-auto-approve")[0] == 0
    answer = hub.answer
    has_request = threading.Event()
    is_over = threading.Event()

    def wait(method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
        if method == silent_method:
            has_request.set()
            is_over.wait(300)
        return answer(method, target, token, content)

    hub.answer = wait  # type: ignore[method-assign]
    words = ["plan", "-destroy"] if silent_method == "DELETE" else ["plan"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], stderr=subprocess.PIPE, text=True
    ) as process:
        assert has_request.wait(120)
        process.send_signal(signal.SIGINT)
        try:
            # One request waits 30 s for its answer, and is sent again.
            _, errors = process.communicate(timeout=25)
        finally:
            is_over.set()
            process.kill()
    assert process.returncode == 1
    assert errors.endswith("\nInterrupted. No changes were made.\n")
