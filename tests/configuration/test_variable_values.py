"""What is told of files of variables that cannot be read: the kind of slip, and never what stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run
from nexusform.configuration.variable_values import from_file
from nexusform.source import SourceFile

SLIPS = [
    ('token = "s3cret', "A quotation mark is missing"),
    ('token = s3cret"', "a text stands between quotation marks"),
    ('token "s3cret"', 'there is no "="'),
    ('export token="s3cret"', 'there is no "="'),
    ('token: "s3cret"', 'A line begins with the name of a variable and one "="'),
    ('token == "s3cret"', 'A line begins with the name of a variable and one "="'),
    ("token = 's3cret'", 'A text stands in double quotation marks (")'),
    ('tokens = ["s3cret", "b"', "A bracket is not closed"),
    ('tokens = {a = "s3cret"', "A bracket is not closed"),
    ('tokens = ["s3cret" "b"]', "Between two items a comma is missing"),
    ('token = ("s3cret"', "A parenthesis is not closed"),
    ("token =", "A value is missing"),
    ('token = "s3cret",', "No comma follows an assignment"),
    ('token = "s3cret" other = 1', "each variable has a line of its own"),
    ('token = "s3cret\\q"', "for a backslash"),
    ("token = <<EOT\ns3cret", "its last line is NAME alone"),
    ('variable "token" {\n  default = "s3cret"\n}', "holds no blocks"),
]


@pytest.mark.parametrize(("text", "words"), SLIPS)
def test_the_kind_of_slip_is_said_and_never_the_line(text: str, words: str) -> None:
    _, problems = from_file(SourceFile("v.nfvars", f"{text}\n"))
    details = [problem.detail for problem in problems]
    assert any(words in detail for detail in details), details
    assert "s3cret" not in repr([(problem.summary, problem.detail) for problem in problems])


def test_a_json_file_has_its_own_words() -> None:
    _, problems = from_file(SourceFile("v.nfvars.json", '{"token": "s3cret"'))
    assert "not valid JSON" in problems[0].detail
    assert "s3cret" not in problems[0].detail


def test_a_file_that_cannot_be_read_leaves_no_variable_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text('variable "token" {\n  type = string\n}\n')
    Path("v.nfvars").write_text('token "s3cret"\n')
    assert run(["plan", "-var-file=v.nfvars"]) == 1
    told = capfd.readouterr().err
    assert told.count("Error: ") == 1
    assert "s3cret" not in told
    Path("v.nfvars").write_text("token = word\n")
    assert run(["plan", "-var-file=v.nfvars"]) == 1
    assert "A text stands between quotation marks" in " ".join(
        capfd.readouterr().err.replace("│", "").split()
    )
