import json
from pathlib import Path

import pytest

from nexusform.backends.local_file import LocalBackend
from nexusform.cli.main import run_command_line
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.resources.address import parse_address
from nexusform.state.journal import ApplyStart, Intent, encode_journal_record
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.state.state_codec import encode_state

STATE = State(
    "l",
    5,
    instances={
        parse_address("nexus_rack.r"): InstanceState(
            ObjectState({"id": "lab/r", "name": "r", "site_id": "lab", "machine_count": 1}, 1)
        )
    },
)


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("NF_WORKSPACE", "NF_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


def run_workspace(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_command_line(["workspace", *words]) == 0
    return capsys.readouterr().out


def run_rejected_workspace(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_command_line(["workspace", *words]) == 1
    return capsys.readouterr().err


def test_default_workspace_always_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_workspace(capsys, "list") == "* default\n"
    assert run_workspace(capsys, "show") == "default\n"


def test_new_workspace_is_selected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_workspace(capsys, "new", "lab").startswith(
        'Created and switched to workspace "lab"!\n'
    )
    assert run_workspace(capsys, "list") == "  default\n* lab\n"
    assert run_workspace(capsys, "select", "default") == 'Switched to workspace "default".\n'
    assert run_workspace(capsys, "show") == "default\n"
    assert Path("state/nexusform.nfstate.d/lab/nexusform.nfstate").exists()
    assert not list(Path().rglob("*.lock.info"))


def test_list_prints_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["workspace", "new", "lab"]) == 0
    capsys.readouterr()
    assert run_command_line(["workspace", "list", "-json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "format_version": "1.0",
        "workspaces": [
            {"name": "default", "is_current": False},
            {"name": "lab", "is_current": True},
        ],
        "diagnostics": [],
    }
    Path("main.nf.hcl").write_text('nexusform {\n  backend "none" {\n  }\n}\n')
    assert run_command_line(["workspace", "list", "-json"]) == 1
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert (document["workspaces"], captured.err) == ([], "")
    assert document["diagnostics"][0]["id"] == "unknown-backend"


def test_new_workspace_may_start_with_a_state(capsys: pytest.CaptureFixture[str]) -> None:
    Path("given.json").write_bytes(encode_state(STATE))
    run_workspace(capsys, "new", "-state=given.json", "lab")
    assert run_command_line(["state", "list"]) == 0
    assert capsys.readouterr().out == "nexus_rack.r\n"
    assert "cannot be read" in run_rejected_workspace(capsys, "new", "-state=none.json", "other")
    assert run_workspace(capsys, "list") == "  default\n* lab\n"


def test_select_creates_workspace_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert "-or-create" in run_rejected_workspace(capsys, "select", "lab")
    run_workspace(capsys, "select", "-or-create", "lab")
    run_workspace(capsys, "select", "-or-create", "lab")
    assert run_workspace(capsys, "show") == "lab\n"


def test_existing_or_invalid_name_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    run_workspace(capsys, "new", "lab")
    assert "already" in run_rejected_workspace(capsys, "new", "lab")
    assert "Invalid workspace name" in run_rejected_workspace(capsys, "new", "../lab")
    assert run_workspace(capsys, "list") == "  default\n* lab\n"


def test_only_empty_unselected_workspace_is_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    run_workspace(capsys, "new", "lab")
    assert "selected workspace" in run_rejected_workspace(capsys, "delete", "lab")
    run_workspace(capsys, "select", "default")
    assert run_workspace(capsys, "delete", "lab") == 'Deleted workspace "lab"!\n'
    assert run_workspace(capsys, "list") == "* default\n"
    assert 'no workspace "lab"' in run_rejected_workspace(capsys, "delete", "lab")
    assert "always exists" in run_rejected_workspace(capsys, "delete", "default")


def test_workspace_with_objects_requires_force_to_delete(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("given.json").write_bytes(encode_state(STATE))
    run_workspace(capsys, "new", "-state=given.json", "lab")
    run_workspace(capsys, "select", "default")
    told = run_rejected_workspace(capsys, "delete", "lab")
    assert "Workspace not empty" in told
    assert "nexus_rack.r" in told
    assert run_workspace(capsys, "list") == "* default\n  lab\n"
    assert "Objects forgotten" in run_workspace(capsys, "delete", "-force", "lab")
    assert run_workspace(capsys, "list") == "* default\n"


def test_workspace_with_an_interrupted_step_is_not_empty(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_workspace(capsys, "new", "lab")
    run_workspace(capsys, "select", "default")
    backend = LocalBackend("state/nexusform.nfstate").select_workspace("lab")
    address = parse_address("nexus_rack.r")
    intent = Intent(address, "create", "nexus_rack", "lab/r", 1, ObjectState({"id": "lab/r"}, 1))
    backend.append_all([encode_journal_record(ApplyStart("l", 1)), encode_journal_record(intent)])
    error = " ".join(run_rejected_workspace(capsys, "delete", "lab").replace("│", " ").split())
    assert "nexus_rack.r (an apply was interrupted while it changed this object)" in error
    assert run_command_line(["workspace", "delete", "-force", "lab"]) == 0
    assert "Objects forgotten" in "".join(capsys.readouterr())


def test_deletion_of_an_unreadable_workspace_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    run_workspace(capsys, "new", "lab")
    run_workspace(capsys, "select", "default")
    Path("state/nexusform.nfstate.d/lab/nexusform.nfstate").write_text("{")
    run_rejected_workspace(capsys, "delete", "lab")
    assert run_command_line(["workspace", "delete", "-force", "lab"]) == 0
    assert "its state is unreadable" in " ".join("".join(capsys.readouterr()).split())


def test_environment_overrides_selected_workspace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_workspace(capsys, "new", "lab")
    monkeypatch.setenv("NF_WORKSPACE", "default")
    assert run_workspace(capsys, "show") == "default\n"
    assert "NF_WORKSPACE" in run_rejected_workspace(capsys, "select", "lab")
    assert "NF_WORKSPACE" in run_rejected_workspace(capsys, "new", "other")


def test_selected_workspace_without_state_can_be_left(capsys: pytest.CaptureFixture[str]) -> None:
    Path(".nexusform").mkdir()
    Path(".nexusform/environment").write_text("gone")
    assert run_workspace(capsys, "show") == "gone\n"
    assert run_workspace(capsys, "list") == "  default\n"
    run_workspace(capsys, "select", "default")
    Path(".nexusform/environment").write_text("../../bad name")
    run_workspace(capsys, "select", "default")
    assert run_workspace(capsys, "show") == "default\n"


def test_lock_is_released_after_failed_write(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_with_full_disk(_self: LocalBackend, _document: bytes) -> None:
        raise BackendProblem("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(LocalBackend, "write", fail_with_full_disk)
        assert "The disk is full." in run_rejected_workspace(capsys, "new", "lab")
    run_workspace(capsys, "new", "lab")


@pytest.mark.parametrize("content", [b"", b"\xff", b"a" * 5000, None])
def test_unreadable_selection_is_not_the_default_workspace(
    content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """None: a directory in its place."""
    Path("main.nf.hcl").write_text('resource "nexus_site" "lab" {\n}\n')
    run_workspace(capsys, "new", "lab")
    selection = Path(".nexusform/environment")
    selection.unlink()
    if content is None:
        selection.mkdir()
    else:
        selection.write_bytes(content)
    for command in (["plan"], ["apply", "-auto-approve"], ["state", "list"], ["workspace", "show"]):
        assert run_command_line(command) == 1
        text = " ".join(capsys.readouterr().err.split())
        assert 'The selected workspace cannot be read from ".nexusform/environment": ' in text
    assert not Path("state/nexusform.nfstate").exists()
    if content is not None:
        run_workspace(capsys, "select", "lab")
        assert run_workspace(capsys, "show") == "lab\n"
