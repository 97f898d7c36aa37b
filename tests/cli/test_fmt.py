from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

UNTIDY = 'locals {\na=1\n  long_name = "${var.x}" # why\n}\n'
TIDY = "locals {\n  a         = 1\n  long_name = var.x # why\n}\n"
BROKEN = "locals {\n"


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_fmt(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_command_line(["fmt", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_three_kinds_of_files_are_rewritten_and_listed(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["a.nf.hcl", "b.nfvars.hcl", "c.nftest.hcl"]
    others = ["d.tf", "e.nf.json", ".hidden.nf.hcl", "f.nf.hcl~"]
    for name in [*names, *others]:
        (working_directory / name).write_text(UNTIDY)
    assert run_fmt(capsys) == (0, "".join(f"{n}\n" for n in names), "")
    assert all((working_directory / n).read_text() == TIDY for n in names)
    assert all((working_directory / n).read_text() == UNTIDY for n in others)
    assert run_fmt(capsys) == (0, "", "")


def test_formatted_file_is_not_written(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = working_directory / "a.nf.hcl"
    file.write_text(TIDY)
    before = file.stat()
    assert run_fmt(capsys)[0] == 0
    assert file.stat().st_ino == before.st_ino


def test_rewritten_file_keeps_its_mode_and_link(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (working_directory / "real").mkdir()
    target = working_directory / "real" / "a.nf.hcl"
    target.write_text(UNTIDY)
    target.chmod(0o640)
    link = working_directory / "a.nf.hcl"
    link.symlink_to(target)
    assert run_fmt(capsys)[0] == 0
    assert target.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert target.read_text() == TIDY
    assert sorted(p.name for p in target.parent.iterdir()) == ["a.nf.hcl"]


def test_check_changes_nothing_and_exits_with_3(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (working_directory / "a.nf.hcl").write_text(UNTIDY)
    (working_directory / "b.nf.hcl").write_text(TIDY)
    assert run_fmt(capsys, "-check") == (3, "a.nf.hcl\n", "")
    assert run_fmt(capsys, "-check", "-list=false") == (3, "", "")
    assert (working_directory / "a.nf.hcl").read_text() == UNTIDY
    assert run_fmt(capsys, "-check", "b.nf.hcl") == (0, "", "")


def test_diff_shows_changes(working_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (working_directory / "a.nf.hcl").write_text("a=1")
    code, out, _ = run_fmt(capsys, "-diff", "-write=false")
    assert code == 0
    assert out == (
        "a.nf.hcl\n--- old/a.nf.hcl\n+++ new/a.nf.hcl\n@@ -1 +1 @@\n"
        "-a=1\n\\ No newline at end of file\n+a = 1\n\\ No newline at end of file\n"
    )
    assert (working_directory / "a.nf.hcl").read_text() == "a=1"


def test_subdirectories_require_recursive(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = working_directory / "modules" / "m"
    inner.mkdir(parents=True)
    hidden = working_directory / ".nexusform"
    hidden.mkdir()
    (inner / "a.nf.hcl").write_text(UNTIDY)
    (hidden / "a.nf.hcl").write_text(UNTIDY)
    assert run_fmt(capsys) == (0, "", "")
    assert run_fmt(capsys, "-recursive") == (0, "modules/m/a.nf.hcl\n", "")
    assert (hidden / "a.nf.hcl").read_text() == UNTIDY


def test_errors_are_reported_and_other_files_formatted(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (working_directory / "a.nf.hcl").write_text(BROKEN)
    (working_directory / "b.nf.hcl").write_text(UNTIDY)
    (working_directory / "c.nf.hcl").write_bytes(b"\xff")
    code, out, err = run_fmt(capsys)
    assert (code, out) == (2, "b.nf.hcl\n")
    assert "on a.nf.hcl line 1" in err
    assert '"c.nf.hcl" is not UTF-8' in err
    assert (working_directory / "a.nf.hcl").read_text() == BROKEN


@pytest.mark.parametrize(
    ("path", "words"), [("none", "There is no file"), ("x.tf", "that nexusform can format: ")]
)
def test_unformattable_path_exits_with_2(
    working_directory: Path, capsys: pytest.CaptureFixture[str], path: str, words: str
) -> None:
    (working_directory / "x.tf").write_text(UNTIDY)
    code, _, err = run_fmt(capsys, path)
    assert code == 2
    assert words in err


@pytest.mark.parametrize(
    ("arguments", "code", "out"),
    [(["-"], 0, TIDY), (["-check", "-"], 3, ""), (["-diff", "-check", "-"], 3, None)],
)
def test_stdin_is_formatted_to_stdout(
    working_directory: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    out: str | None,
) -> None:
    assert working_directory
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(UNTIDY.encode())))
    found = run_fmt(capsys, *arguments)
    assert found[0] == code
    assert found[1] == out if out is not None else "--- old/<stdin>" in found[1]


@pytest.mark.parametrize(("text", "out"), [("a=1", "a = 1\n"), ("a=1\n", "a = 1\n"), ("", "\n")])
def test_text_from_stdin_ends_with_a_newline(
    working_directory: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    out: str,
) -> None:
    assert working_directory
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run_fmt(capsys, "-")[1] == out


def test_every_example_is_formatted(capsys: pytest.CaptureFixture[str]) -> None:
    examples = Path(__file__).parents[2] / "examples"
    assert run_fmt(capsys, "-check", "-recursive", str(examples)) == (0, "", "")
