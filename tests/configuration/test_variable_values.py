"""Tests of unreadable variable files: the message names the kind of error and never the content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.configuration.static_arguments import evaluate_constant
from nexusform.configuration.variable_values import parse_variable_file
from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.json_data.plain_data import convert_to_plain

SLIPS = [
    ('token = "s3cret', "A quotation mark is missing"),
    ('token = s3cret"', "and text in quotation marks"),
    ('token "s3cret"', 'There is no "="'),
    ('export token="s3cret"', 'There is no "="'),
    ('token: "s3cret"', 'An assignment is a variable name, "=" and a value'),
    ('token == "s3cret"', 'An assignment is a variable name, "=" and a value'),
    ("token = 's3cret'", 'Write text in double quotation marks (")'),
    ('tokens = ["s3cret", "b"', "A bracket is not closed"),
    ('tokens = {a = "s3cret"', "A bracket is not closed"),
    ('tokens = ["s3cret" "b"]', "A comma is missing between two items"),
    ('token = ("s3cret"', "A parenthesis is not closed"),
    ("token =", "A value is missing"),
    ('token = "s3cret",', "Remove the comma after the assignment"),
    ('token = "s3cret" other = 1', "Write each variable on its own line"),
    ('token = "s3cret\\q"', "for a backslash"),
    ("token = <<EOT\ns3cret", "its last line must be NAME alone"),
    ('variable "token" {\n  default = "s3cret"\n}', "cannot contain blocks"),
]


@pytest.mark.parametrize(("text", "words"), SLIPS)
def test_kind_of_error_is_reported_without_the_line(text: str, words: str) -> None:
    _, problems = parse_variable_file(SourceFile("v.nfvars", f"{text}\n"))
    details = [problem.detail for problem in problems]
    assert any(words in detail for detail in details), details
    assert "s3cret" not in repr([(problem.summary, problem.detail) for problem in problems])


def test_json_file_has_its_own_messages() -> None:
    _, problems = parse_variable_file(SourceFile("v.nfvars.json", '{"token": "s3cret"'))
    assert "not valid JSON" in problems[0].detail
    assert "s3cret" not in problems[0].detail


def test_unreadable_file_causes_no_missing_variable_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text('variable "token" {\n  type = string\n}\n')
    Path("v.nfvars").write_text('token "s3cret"\n')
    assert run_command_line(["plan", "-var-file=v.nfvars"]) == 1
    told = capfd.readouterr().err
    assert told.count("Error: ") == 1
    assert "s3cret" not in told
    Path("v.nfvars").write_text("token = word\n")
    assert run_command_line(["plan", "-var-file=v.nfvars"]) == 1
    assert "Write text in quotation marks" in " ".join(
        capfd.readouterr().err.replace("│", "").split()
    )


# Values of Terraform 1.11 for a text from the command line: (declaration, text, value as JSON).
TEXTS = [
    ("type = any", "5", "5"),
    ("type = any", "true", "true"),
    ("type = any", '"x"', '"x"'),
    ("type = any", "[1,2]", "[1,2]"),
    ("type = any", "{a=1}", '{"a":1}'),
    ("", "5", '"5"'),
    ("", "true", '"true"'),
    ("", "null", '"null"'),
    ("", "[1,2]", '"[1,2]"'),
    ("type = string", "[1,2]", '"[1,2]"'),
    ("type = number", "5", "5"),
    ("type = list(number)", "[1,2]", "[1,2]"),
]


@pytest.mark.parametrize("from_environment", [False, True])
@pytest.mark.parametrize(("declared", "text", "value"), TEXTS)
def test_texts_are_read_as_in_terraform(
    declared: str,
    text: str,
    value: str,
    *,
    from_environment: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    body = f'variable "v" {{\n  {declared}\n}}\noutput "v" {{\n  value = jsonencode(var.v)\n}}\n'
    Path("main.nf.hcl").write_text(body)
    if from_environment:
        monkeypatch.setenv("NF_VAR_v", text)
    flags = [] if from_environment else [f"-var=v={text}"]
    assert run_command_line(["apply", "-auto-approve", *flags]) == 0
    capsys.readouterr()
    assert run_command_line(["output", "-raw", "v"]) == 0
    assert capsys.readouterr().out.strip() == value


def test_bare_word_is_an_error_for_type_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text('variable "v" {\n  type = any\n}\n')
    assert run_command_line(["plan", "-var=v=hello"]) == 1
    assert "Variables not allowed" in capsys.readouterr().err


ROOT = """
variable "kind" {
  type  = string
  const = true
}
variable "other" {
  default = "a"
}
locals {
  directory = "./modules/${var.kind}"
}
module "m" {
  source = local.directory
  part   = "part"
}
output "text" {
  value = module.m.text
}
"""
MODULE = """
variable "part" {
  const = true
}
module "part" {
  source = "./${var.part}"
}
output "text" {
  value = module.part.text
}
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "main.nf.hcl").write_text(ROOT)
    for kind in ("a", "b"):
        part = tmp_path / "modules" / kind / "part"
        part.mkdir(parents=True)
        (part.parent / "main.nf.hcl").write_text(MODULE)
        (part / "main.nf.hcl").write_text(f'output "text" {{\n  value = "{kind}"\n}}\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run_command_line([*arguments])
    text = capsys.readouterr()
    return code, text.out + text.err


def test_constant_selects_the_module(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert '+ text = "b"' in run(capsys, "plan", "-var", "kind=b", "-out=b.nfplan")[1]
    assert run(capsys, "apply", "b.nfplan")[0] == 0
    assert '~ text = "b" -> "a"' in run(capsys, "plan", "-var", "kind=a")[1]
    assert (directory / "b.nfplan").exists()


def test_show_config_prints_selected_modules(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in `tofu show -config -json`."""
    code, text = run(capsys, "show", "-config", "-json", "-var", "kind=b")
    assert code == 0
    calls = json.loads(text)["root_module"]["module_calls"]
    assert calls["m"]["source"] == "./modules/b"
    assert calls["m"]["module"]["outputs"] == {
        "text": {"expression": {"references": ["module.part.text", "module.part"]}}
    }
    assert run(capsys, "show", "-config", "-json")[0] == 1
    assert run(capsys, "show", "-config")[0] == 1
    assert directory.exists()


def test_module_is_shown_without_the_modules_that_it_calls(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As terraform-docs needs it: nothing is downloaded, and no variable has a value."""
    Path("m").mkdir(exist_ok=True)
    Path("m/main.nf.hcl").write_text(
        'variable "size" {\n}\n'
        'module "far" {\n  source = "example/far/away"\n  size   = var.size\n}\n'
        'output "o" {\n  value = module.far.o\n}\n'
    )
    code, text = run(capsys, "show", "-json", "-module=m")
    root_module = json.loads(text)["root_module"]
    assert (code, list(root_module)) == (0, ["outputs", "module_calls", "variables"])
    assert root_module["module_calls"]["far"] == {
        "source": "example/far/away",
        "expressions": {"size": {"references": ["var.size"]}},
    }
    for flags in (["-module=m"], ["-json", "-module=none"], ["-json", "-config", "-module=m"]):
        assert run(capsys, "show", *flags)[0] == 1


def test_missing_value_is_one_error(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("plan", "validate"):
        code, text = run(capsys, command)
        assert code == 1
        assert text.count("Error: ") == 1, text
        assert "No value for required variable" in text
    assert directory.exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "${var.kind}",
            "${var.other}",
            'var.other is not constant. Add "const = true" to its variable block.',
        ),
        (
            "${var.kind}",
            "${path.module}",
            "Only constant variables, and locals of these, may be used here.",
        ),
        ('"part"', "var.other", "var.other is not constant"),
        ("./modules/${var.kind}", "${local.directory}", "cannot use its own result"),
    ],
)
def test_other_values_are_no_constants(
    directory: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    (directory / "main.nf.hcl").write_text(ROOT.replace(old, new))
    code, text = run(capsys, "plan", "-var", "kind=a")
    assert code == 1
    assert message in text
    assert text.count("Error: ") == 1, text


def test_run_block_cannot_change_a_constant(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "one.nftest.hcl").write_text('run "r" {\n  variables {\n    kind = "b"\n  }\n}\n')
    assert "modules were read with another value" in run(capsys, "test", "-var", "kind=a")[1]


def test_texts_of_a_json_file_are_no_templates() -> None:
    """As in Terraform: `terraform.tfvars.json` holds values, without expressions."""
    text = '{"a": "x ${1 + 1} $${z} %{if true}", "b": [{"${1}": "${var.x"}], "//": "a comment"}'
    assignments, problems = parse_variable_file(SourceFile("v.nfvars.json", text))
    assert not problems
    values = {
        each.name: convert_to_plain(evaluate_constant(each.value)[0])[0] for each in assignments
    }  # type: ignore[arg-type]
    assert values == {"a": "x ${1 + 1} $${z} %{if true}", "b": [{"${1}": "${var.x"}]}


@pytest.mark.parametrize("word", ["sensitive", "ephemeral"])
def test_constant_is_no_secret(
    directory: Path, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    old = "  type  = string\n  const = true\n"
    (directory / "main.nf.hcl").write_text(ROOT.replace(old, f"{old}  {word} = true\n"))
    code, text = run(capsys, "plan", "-var=kind=hidden-name")
    assert code == 1
    assert f"So it cannot be {word}." in " ".join(text.replace("│", "").split())
    assert "main.nf.hcl line 4" in text
    assert "hidden-name" not in text


def test_value_that_is_not_utf_8_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No later command could read a state with them."""
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text('variable "v" {\n}\noutput "o" {\n  value = var.v\n}\n')
    assert run_command_line(["apply", "-auto-approve", "-var=v=a\udcff"]) == 1
    assert "The value of var.v (from -var) is not UTF-8." in capsys.readouterr().err
    monkeypatch.setenv("NF_VAR_v", "a\udcff")
    assert run_command_line(["apply", "-auto-approve"]) == 1
    assert not Path("state").exists()
