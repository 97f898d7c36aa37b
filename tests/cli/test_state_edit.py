import io
import os
import socket
from pathlib import Path

import pytest

from nexusform.backends.local_file import LocalBackend
from nexusform.cli.main import run_command_line
from nexusform.interfaces.state_storage import LockInfo
from nexusform.planning.vm_planning.forgotten_vms import list_forgotten_vms
from nexusform.resources.address import parse_address
from nexusform.schemas.block_schema import FORGOTTEN_KEY
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.state.state_codec import decode_state, encode_state
from tests.taints import taint_in_file

PATH = Path("state/nexusform.nfstate")
RACK = parse_address("nexus_rack.r")


@pytest.fixture(autouse=True)
def state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PATH.parent.mkdir()
    state = State(
        "l", 1, instances={RACK: InstanceState(ObjectState({"id": "lab/r"}, 1))}, last_creation=1
    )
    PATH.write_bytes(encode_state(state))


def read_taint_and_serial() -> tuple[bool, int]:
    state, _ = decode_state(PATH.read_bytes(), "s")
    assert state is not None
    current = state.instances[RACK].current
    assert current is not None
    return current.tainted, state.serial


def test_taint_is_removed(capsys: pytest.CaptureFixture[str]) -> None:
    taint_in_file(PATH, "nexus_rack.r")
    assert read_taint_and_serial() == (True, 2)
    assert run_command_line(["untaint", "nexus_rack.r"]) == 0
    assert (
        capsys.readouterr().out
        == "Resource instance nexus_rack.r has been successfully untainted.\n"
    )
    assert read_taint_and_serial() == (False, 3)


def test_object_without_taint_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["untaint", "nexus_rack.r"]) == 1
    assert "Not tainted" in capsys.readouterr().err


def test_missing_object_is_an_error_unless_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["untaint", "nexus_rack.none"]) == 1
    assert "No such resource instance" in capsys.readouterr().err
    assert run_command_line(["untaint", "-allow-missing", "nexus_rack.none"]) == 0
    assert "No such resource instance" in capsys.readouterr().out
    assert read_taint_and_serial() == (False, 1)


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalBackend:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NF_INPUT", raising=False)
    backend = LocalBackend("state/nexusform.nfstate")
    backend.lock(
        LockInfo("id-1", "apply", "them", "0", "now", "p", socket.gethostname(), os.getpid())
    )
    return backend


def set_answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_force_unlock_asks_for_confirmation(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_answer(monkeypatch, "no\n")
    assert run_command_line(["force-unlock", "id-1"]) == 1
    shown = capsys.readouterr().out
    assert "Do you really want to force-unlock?" in shown
    assert "force-unlock cancelled." in shown
    assert backend.read_lock() is not None
    set_answer(monkeypatch, "yes\n")
    assert run_command_line(["force-unlock", "id-1"]) == 0
    assert "successfully unlocked" in capsys.readouterr().out
    assert backend.read_lock() is None


def test_force_unlock_requires_force_without_input(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NF_INPUT", "0")
    assert run_command_line(["force-unlock", "id-1"]) == 1
    assert "-force" in capsys.readouterr().err
    assert run_command_line(["force-unlock", "-force", "id-1"]) == 0
    assert backend.read_lock() is None


def test_force_unlock_with_other_id_keeps_the_lock(
    backend: LocalBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["force-unlock", "-force", "id-2"]) == 1
    assert "id-1" in capsys.readouterr().err
    assert backend.read_lock() is not None


def test_force_unlock_without_lock_asks_no_confirmation(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backend.unlock("id-1")
    set_answer(monkeypatch, "yes\n")
    assert run_command_line(["force-unlock", "id-1"]) == 1
    both = capsys.readouterr()
    assert "The state is not locked" in both.err
    assert "Do you really" not in both.out


def test_record_of_forgotten_vm_is_removed(capsys: pytest.CaptureFixture[str]) -> None:
    private = {
        FORGOTTEN_KEY: [["m1", "gone", 4, 8.0, 0, 1, [0]], ["m1", "kept", 4, 8.0, 0, 1, [0]]]
    }
    rack = ObjectState({"id": "lab/r"}, 1, private=private)
    PATH.write_bytes(
        encode_state(State("l", 1, instances={RACK: InstanceState(rack)}, last_creation=1))
    )
    assert run_command_line(["state", "rm", "nexus_rack.r:goner"]) == 1
    assert 'Did you mean "nexus_rack.r:gone"?' in capsys.readouterr().err
    assert run_command_line(["state", "rm", "nexus_rack.r:gone"]) == 0
    assert capsys.readouterr().out == "Removed nexus_rack.r:gone\n"
    state, _ = decode_state(PATH.read_bytes(), "s")
    assert state is not None
    assert [str(vm) for vm in list_forgotten_vms(state)] == [str((RACK, "kept"))]
