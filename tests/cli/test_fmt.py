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
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_command_line(["fmt", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_files_of_the_three_kinds_are_rewritten_and_listed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["a.nf.hcl", "b.nfvars.hcl", "c.nftest.hcl"]
    others = ["d.tf", "e.nf.json", ".hidden.nf.hcl", "f.nf.hcl~"]
    for name in [*names, *others]:
        (here / name).write_text(UNTIDY)
    assert told(capsys) == (0, "".join(f"{n}\n" for n in names), "")
    assert all((here / n).read_text() == TIDY for n in names)
    assert all((here / n).read_text() == UNTIDY for n in others)
    assert told(capsys) == (0, "", "")


def test_what_is_in_style_is_not_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = here / "a.nf.hcl"
    file.write_text(TIDY)
    before = file.stat()
    assert told(capsys)[0] == 0
    assert file.stat().st_ino == before.st_ino


def test_a_rewritten_file_keeps_its_mode_and_a_link_stays_a_link(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "real").mkdir()
    target = here / "real" / "a.nf.hcl"
    target.write_text(UNTIDY)
    target.chmod(0o640)
    link = here / "a.nf.hcl"
    link.symlink_to(target)
    assert told(capsys)[0] == 0
    assert target.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert target.read_text() == TIDY
    assert sorted(p.name for p in target.parent.iterdir()) == ["a.nf.hcl"]


def test_check_changes_nothing_and_gives_3(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.nf.hcl").write_text(UNTIDY)
    (here / "b.nf.hcl").write_text(TIDY)
    assert told(capsys, "-check") == (3, "a.nf.hcl\n", "")
    assert told(capsys, "-check", "-list=false") == (3, "", "")
    assert (here / "a.nf.hcl").read_text() == UNTIDY
    assert told(capsys, "-check", "b.nf.hcl") == (0, "", "")


def test_diff_shows_what_changes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.nf.hcl").write_text("a=1")
    code, out, _ = told(capsys, "-diff", "-write=false")
    assert code == 0
    assert out == (
        "a.nf.hcl\n--- old/a.nf.hcl\n+++ new/a.nf.hcl\n@@ -1 +1 @@\n"
        "-a=1\n\\ No newline at end of file\n+a = 1\n\\ No newline at end of file\n"
    )
    assert (here / "a.nf.hcl").read_text() == "a=1"


def test_directories_below_only_with_recursive(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inner = here / "modules" / "m"
    inner.mkdir(parents=True)
    hidden = here / ".nexusform"
    hidden.mkdir()
    (inner / "a.nf.hcl").write_text(UNTIDY)
    (hidden / "a.nf.hcl").write_text(UNTIDY)
    assert told(capsys) == (0, "", "")
    assert told(capsys, "-recursive") == (0, "modules/m/a.nf.hcl\n", "")
    assert (hidden / "a.nf.hcl").read_text() == UNTIDY


def test_mistakes_are_told_and_the_other_files_formatted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.nf.hcl").write_text(BROKEN)
    (here / "b.nf.hcl").write_text(UNTIDY)
    (here / "c.nf.hcl").write_bytes(b"\xff")
    code, out, err = told(capsys)
    assert (code, out) == (2, "b.nf.hcl\n")
    assert "on a.nf.hcl line 1" in err
    assert '"c.nf.hcl" is not UTF-8' in err
    assert (here / "a.nf.hcl").read_text() == BROKEN


@pytest.mark.parametrize(("path", "words"), [("none", "There is no file"), ("x.tf", "that nexusform can format: ")])
def test_a_path_that_cannot_be_formatted_gives_2(
    here: Path, capsys: pytest.CaptureFixture[str], path: str, words: str
) -> None:
    (here / "x.tf").write_text(UNTIDY)
    code, _, err = told(capsys, path)
    assert code == 2
    assert words in err


@pytest.mark.parametrize(
    ("arguments", "code", "out"), [(["-"], 0, TIDY), (["-check", "-"], 3, ""), (["-diff", "-check", "-"], 3, None)]
)
def test_stdin_is_formatted_to_stdout(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    out: str | None,
) -> None:
    assert here
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(UNTIDY.encode())))
    found = told(capsys, *arguments)
    assert found[0] == code
    assert found[1] == out if out is not None else "--- old/<stdin>" in found[1]


@pytest.mark.parametrize(("text", "out"), [("a=1", "a = 1\n"), ("a=1\n", "a = 1\n"), ("", "\n")])
def test_text_from_stdin_ends_with_a_newline(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, out: str
) -> None:
    assert here
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert told(capsys, "-")[1] == out


def test_every_example_is_in_style(capsys: pytest.CaptureFixture[str]) -> None:
    examples = Path(__file__).parents[2] / "examples"
    assert told(capsys, "-check", "-recursive", str(examples)) == (0, "", "")
