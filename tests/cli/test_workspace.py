from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.resources.address import parse_address
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.state.state_codec import encode_state

STATE = State("l", 5, instances={parse_address("nexus_rack.r"): InstanceState(ObjectState({"id": "lab/r"}, 1))})


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("NF_WORKSPACE", "NF_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_command_line(["workspace", *words]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_command_line(["workspace", *words]) == 1
    return capsys.readouterr().err


def test_there_is_always_the_default_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "list") == "* default\n"
    assert shown(capsys, "show") == "default\n"


def test_a_new_one_is_selected(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "new", "lab").startswith('Created and switched to workspace "lab"!\n')
    assert shown(capsys, "list") == "  default\n* lab\n"
    assert shown(capsys, "select", "default") == 'Switched to workspace "default".\n'
    assert shown(capsys, "show") == "default\n"
    assert Path("state/nexusform.nfstate.d/lab/nexusform.nfstate").exists()


def test_a_new_one_may_begin_with_a_state(capsys: pytest.CaptureFixture[str]) -> None:
    Path("given.json").write_bytes(encode_state(STATE))
    shown(capsys, "new", "-state=given.json", "lab")
    assert run_command_line(["state", "list"]) == 0
    assert capsys.readouterr().out == "nexus_rack.r\n"
    assert "cannot be read" in refused(capsys, "new", "-state=none.json", "other")
    assert shown(capsys, "list") == "  default\n* lab\n"


def test_selecting_makes_one_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert "-or-create" in refused(capsys, "select", "lab")
    shown(capsys, "select", "-or-create", "lab")
    shown(capsys, "select", "-or-create", "lab")
    assert shown(capsys, "show") == "lab\n"


def test_a_name_that_is_taken_or_impossible_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    shown(capsys, "new", "lab")
    assert "already" in refused(capsys, "new", "lab")
    assert "Invalid workspace name" in refused(capsys, "new", "../lab")
    assert shown(capsys, "list") == "  default\n* lab\n"


def test_one_is_deleted_when_it_is_empty_and_not_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    shown(capsys, "new", "lab")
    assert "selected workspace" in refused(capsys, "delete", "lab")
    shown(capsys, "select", "default")
    assert shown(capsys, "delete", "lab") == 'Deleted workspace "lab"!\n'
    assert shown(capsys, "list") == "* default\n"
    assert 'no workspace "lab"' in refused(capsys, "delete", "lab")
    assert "always exists" in refused(capsys, "delete", "default")


def test_one_that_holds_objects_is_deleted_by_force_only(capsys: pytest.CaptureFixture[str]) -> None:
    Path("given.json").write_bytes(encode_state(STATE))
    shown(capsys, "new", "-state=given.json", "lab")
    shown(capsys, "select", "default")
    told = refused(capsys, "delete", "lab")
    assert "Workspace not empty" in told
    assert "nexus_rack.r" in told
    assert shown(capsys, "list") == "* default\n  lab\n"
    assert "Objects forgotten" in shown(capsys, "delete", "-force", "lab")
    assert shown(capsys, "list") == "* default\n"


def test_the_environment_goes_before_the_selection(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown(capsys, "new", "lab")
    monkeypatch.setenv("NF_WORKSPACE", "default")
    assert shown(capsys, "show") == "default\n"
    assert "NF_WORKSPACE" in refused(capsys, "select", "lab")
    assert "NF_WORKSPACE" in refused(capsys, "new", "other")


def test_a_selected_one_that_is_gone_can_be_left(capsys: pytest.CaptureFixture[str]) -> None:
    Path(".nexusform").mkdir()
    Path(".nexusform/environment").write_text("gone")
    assert shown(capsys, "show") == "gone\n"
    assert shown(capsys, "list") == "  default\n"
    shown(capsys, "select", "default")
    Path(".nexusform/environment").write_text("../../bad name")
    shown(capsys, "select", "default")
    assert shown(capsys, "show") == "default\n"
