"""Tests of `nexusform state history` and `state rollback`."""

import json
from pathlib import Path

import pytest

from nexusform.backends.local_file import LocalBackend
from nexusform.cli.main import run_command_line
from nexusform.interfaces.state_storage import BackendProblem, StoredStateVersion

SITE = 'resource "nexus_site" "lab" {\n  name = "lab"\n}\n'
RACK = (
    'resource "nexus_rack" "r" {\n  site_id       = nexus_site.lab.id\n  name          = "r"\n  '
    "machine_count = 1\n}\n"
)


@pytest.fixture(autouse=True)
def applied_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in (SITE, SITE + RACK):
        Path("main.nf.hcl").write_text(text)
        assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()


def test_history_lists_kept_versions_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["state", "history"]) == 0
    current, earlier = capsys.readouterr().out.splitlines()
    assert current.split()[:3] == ["serial", "2", "current"]
    assert current.endswith("2 objects")
    assert earlier.split()[:2] == ["serial", "1"]
    assert earlier.endswith("1 object")


def test_rollback_restores_earlier_state_with_new_serial(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command_line(["state", "rollback", "1"]) == 0
    assert "state of serial 1 as serial 3" in capsys.readouterr().out
    assert run_command_line(["state", "list"]) == 0
    assert capsys.readouterr().out.split() == ["nexus_site.lab"]
    assert run_command_line(["plan"]) == 0
    assert "Plan: 1 to add, 0 to change, 0 to destroy." in capsys.readouterr().out
    # And back: the current version became the version before.
    assert run_command_line(["state", "rollback", "2"]) == 0
    assert "as serial 4" in capsys.readouterr().out
    assert run_command_line(["plan"]) == 0
    assert "No changes." in capsys.readouterr().out


def test_rollback_rejects_a_version_that_no_plan_would_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (backup,) = Path("state").glob("*.backup")
    document = json.loads(backup.read_text())
    document["resources"][0]["instances"][0]["attributes"]["name"] = ["lab"]
    backup.write_text(json.dumps(document))
    (current,) = Path("state").glob("*.nfstate")
    before = current.read_bytes()
    assert run_command_line(["state", "rollback", "1"]) == 1
    output = capsys.readouterr()
    said = " ".join((output.out + output.err).replace("│", " ").split())
    assert '"name" must be a string, not a list.' in said
    assert "No readable version has serial 1" in said
    assert current.read_bytes() == before


@pytest.mark.parametrize("serial", ["7", "one", "-1", "²", "9" * 5000])
def test_rollback_to_unknown_version_is_rejected(
    serial: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("state/nexusform.nfstate").read_bytes()
    assert run_command_line(["state", "rollback", "--", serial]) == 1
    shown = capsys.readouterr()
    assert "No such version" in shown.out + shown.err
    assert Path("state/nexusform.nfstate").read_bytes() == before


def test_unreadable_version_hides_no_other_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One version may be encrypted with a key that is no longer configured."""
    read = LocalBackend.read_version

    def list_versions(_self: LocalBackend) -> list[StoredStateVersion]:
        return [StoredStateVersion("unreadable", ""), StoredStateVersion("backup", "")]

    def read_version(self: LocalBackend, version: str) -> bytes:
        if version == "unreadable":
            raise BackendProblem("Version unreadable cannot be decrypted.")
        return read(self, version)

    monkeypatch.setattr(LocalBackend, "list_versions", list_versions)
    monkeypatch.setattr(LocalBackend, "read_version", read_version)
    assert run_command_line(["state", "history"]) == 0
    shown = capsys.readouterr()
    assert "Version unreadable cannot be decrypted." in shown.out + shown.err
    assert "serial 1" in shown.out
    assert run_command_line(["state", "rollback", "7"]) == 1
    assert "No readable version has serial 7. Available: 2, 1." in "".join(capsys.readouterr())
    assert run_command_line(["state", "rollback", "1"]) == 0


def test_missing_state_has_no_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["state", "history", f"-state={tmp_path / 'other'}"]) == 1
    assert "-state: there is no state" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert run_command_line(["state", "history"]) == 0
    assert capsys.readouterr().out == "No state exists.\n"


@pytest.mark.parametrize("digits", ["²", "9" * 5000, "9" * 19])
def test_unusual_digits_are_no_number(
    digits: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["plan", f"-target=nexus_rack.r[{digits}]"]) == 1
    assert "an instance key is a number" in " ".join(
        capsys.readouterr().err.replace("│", "").split()
    )
    monkeypatch.setenv("SOURCE_DATE_EPOCH", digits)
    assert run_command_line(["plan"]) == 1
    problem = f'SOURCE_DATE_EPOCH="{digits[:40]}" is not a time'
    assert problem in " ".join(capsys.readouterr().err.split())
