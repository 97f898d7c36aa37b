from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

CommandResult = tuple[int, str, str]


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CommandResult]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text('resource "nexus_site" "lab" {}\n')

    def call(*arguments: str) -> CommandResult:
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def write_backend(path: str) -> None:
    Path("backend.nf.hcl").write_text(
        f'nexusform {{\n  backend "local" {{\n    path = "{path}"\n  }}\n}}\n' if path else ""
    )


def read_lineage(path: str) -> str:
    return str(json.loads(Path(path).read_text())["lineage"])


def test_init_reports_backend_and_leaves_no_files(nf: Callable[..., CommandResult]) -> None:
    code, out, _ = nf("init")
    assert code == 0
    assert 'Backend "local": state/nexusform.nfstate (workspace "default", no state yet).' in out
    assert "Configuration: 1 file, 1 resource or data block." in out
    assert "Modules:" not in out
    assert "nexusform has been successfully initialized!" in out
    assert [p.name for p in Path().iterdir()] == ["main.nf.hcl"]
    nf("apply", "-auto-approve")
    assert "serial 1, 1 object)" in " ".join(nf("init")[1].split())


def test_migrate_state_copies_state_to_changed_backend(nf: Callable[..., CommandResult]) -> None:
    nf("apply", "-auto-approve")
    write_backend("elsewhere/s.nfstate")
    code, _, err = nf("init")
    assert code == 1
    assert "Backend changed" in err
    code, out, err = nf("init", "-migrate-state")
    assert code == 0, err
    assert 'Migrated the state of workspace "default" to elsewhere/s.nfstate.' in out
    assert read_lineage("elsewhere/s.nfstate") == read_lineage("state/nexusform.nfstate")
    assert "No changes." in nf("plan")[1]

    write_backend("third/s.nfstate")
    code, _, err = nf("plan")
    assert code == 1
    assert "Backend changed" in err
    assert nf("init", "-reconfigure")[0] == 0
    assert "Plan: 1 to add" in nf("plan")[1]


def test_other_state_is_not_overwritten(nf: Callable[..., CommandResult]) -> None:
    nf("apply", "-auto-approve")
    write_backend("elsewhere/s.nfstate")
    nf("init", "-reconfigure")
    nf("apply", "-auto-approve")
    write_backend("")
    code, _, err = nf("init", "-migrate-state")
    assert code == 1
    assert "Backend state conflict" in err
    assert nf("init", "-migrate-state", "-force-copy")[0] == 0
    assert read_lineage("elsewhere/s.nfstate") == read_lineage("state/nexusform.nfstate")


def test_backend_settings_can_be_given_separately(nf: Callable[..., CommandResult]) -> None:
    Path("backend.nf.hcl").write_text('nexusform {\n  backend "local" {}\n}\n')
    code, out, err = nf("init", "-backend-config=path=given/s.nfstate")
    assert code == 0, err
    assert "given/s.nfstate" in out
    nf("apply", "-auto-approve")
    assert Path("given/s.nfstate").exists()
    Path("settings.nfvars.hcl").write_text('path = "filed/s.nfstate"\n')
    assert "filed/s.nfstate" in nf("init", "-reconfigure", "-backend-config=settings.nfvars.hcl")[1]
    # Values are converted to text, as in Terraform: a null is not set, so the default path remains.
    Path("settings.nfvars.hcl").write_text("path = null\n")
    assert (
        "state/nexusform.nfstate"
        in nf("init", "-reconfigure", "-backend-config=settings.nfvars.hcl")[1]
    )
    Path("settings.nfvars.hcl").write_text("path = true\n")
    assert (
        'Backend "local": true ('
        in nf("init", "-reconfigure", "-backend-config=settings.nfvars.hcl")[1]
    )
    Path("settings.nfvars.hcl").write_text('path = ["a"]\n')
    code, _, err = nf("init", "-reconfigure", "-backend-config=settings.nfvars.hcl")
    assert (code, "settings.nfvars.hcl line 1" in err, "string required" in err) == (
        1,
        True,
        True,
    ), err
    code, _, err = nf("init", "-reconfigure", "-backend-config=pth=x")
    assert code == 1
    assert 'has no setting "pth"' in err


def test_unknown_backend_is_reported_with_its_line(nf: Callable[..., CommandResult]) -> None:
    Path("backend.nf.hcl").write_text('nexusform {\n  backend "locl" {}\n}\n')
    for command in (["init"], ["plan"]):
        code, _, err = nf(*command)
        assert code == 1
        assert 'There is no backend "locl"' in err
        assert "backend.nf.hcl line 2" in err


def test_nf_data_dir_moves_backend_file(
    nf: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_DATA_DIR", "kept")
    write_backend("elsewhere/s.nfstate")
    assert nf("init")[0] == 0
    assert Path("kept/backend.json").exists()
    assert not Path(".nexusform").exists()


def test_saved_settings_overriding_changed_block_are_reported(
    nf: Callable[..., CommandResult],
) -> None:
    Path("backend.nf.hcl").write_text('nexusform {\n  backend "local" {}\n}\n')
    assert nf("init", "-backend-config=path=given/s.nfstate")[0] == 0
    assert "Remembered" not in nf("init")[1]
    write_backend("block/s.nfstate")
    code, out, err = nf("init")
    assert code == 0
    assert "given/s.nfstate" in out
    assert 'The values of "path" in the block differ' in " ".join(
        (out + err).replace("│", " ").split()
    )
    code, out, err = nf("init", "-reconfigure")
    assert "block/s.nfstate" in out
    assert "Remembered" not in out + err


def test_backend_without_state_is_changed_without_prompt(nf: Callable[..., CommandResult]) -> None:
    write_backend("one/s.nfstate")
    assert nf("init")[0] == 0
    write_backend("two/s.nfstate")
    code, out, err = nf("init")
    assert code == 0, err
    assert 'The previous backend ("local") has no state; nothing to migrate.' in out
    assert nf("workspace", "new", "x")[0] == 0
    write_backend("three/s.nfstate")
    code, _, err = nf("init")
    assert code == 1
    assert "has a state" in " ".join(err.replace("│", " ").split())
