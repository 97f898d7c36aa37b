from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests import commands
from tests.programs import find_program

CONFIGURATION = """\
variable "secret" {
  default   = "hush"
  sensitive = true
}

variable "needed" {
  type = number
}

locals {
  sum = 1 + 2
}

resource "nexus_site" "main" {
  name = nonsensitive("lab-${var.secret == "hush" ? "a" : "b"}")
}

resource "nexus_rack" "r" {
  count             = 2
  site_id           = nexus_site.main.id
  name              = "rack${count.index}"
  availability_zone = "1"
  machine_count     = 1
}
"""


MODULE = """\
variable "key" {
}
locals {
  name = "rack-${var.key}"
}
resource "nexus_rack" "r" {
  site_id       = "lab"
  name          = local.name
  machine_count = 2
}
module "inner" {
  count  = 2
  source = "./inner"
}
"""


@pytest.mark.parametrize(
    ("scope", "expressions", "values"),
    [
        ('module.m["a"]', ["local.name", "length(module.inner)"], ['"rack-a"', "2"]),
        ('module.m["b"]', ["nexus_rack.r.machine_count"], ["(known after apply)"]),
        ('module.m["b"].module.inner[1]', ["local.x", "path.module"], ["1", '"m/inner"']),
    ],
)
def test_scope_is_a_module_instance(
    scope: str,
    expressions: list[str],
    values: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    write_modules(tmp_path, monkeypatch)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(expressions)))
    assert run_command_line(["console", f"-scope={scope}"]) == 0
    assert capfd.readouterr().out.splitlines() == values


def test_scope_of_an_explanation_and_invalid_scopes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_modules(tmp_path, monkeypatch)
    scope = '-scope=module.m["a"]'
    assert run_command_line(["console", scope, "-explain=local.name"]) == 0
    assert 'var.key = "a"' in capfd.readouterr().out
    assert run_command_line(["console", scope, "-explain=local.x"]) == 1
    assert "Reference to undeclared local value" in capfd.readouterr().err
    for wrong, words in (
        ("module.m", 'has no module instance module.m. It has module.m["a"]'),
        ('module.m["c"]', 'It has module.m["a"]'),
        ("module.q.module.r", "has no module instance"),
        ("nexus_site.s", "is not a module"),
        ("module.m[", "Invalid address"),
    ):
        assert run_command_line(["console", f"-scope={wrong}", "-explain=1"]) == 1
        assert words in " ".join(capfd.readouterr().err.replace("│", " ").split())


def write_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call = """module "m" {
  for_each = toset(["a", "b"])
  source   = "./m"
  key      = each.key
}
"""
    files = {"main": call, "m/main": MODULE, "m/inner/main": "locals {\n  x = 1\n}\n"}
    for name, text in files.items():
        path = tmp_path / f"{name}.nf.hcl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


@pytest.fixture
def configuration_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    (tmp_path / "main.nf.hcl").write_text(CONFIGURATION)
    return tmp_path


def run_console(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    code = run_command_line(["console", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("local.sum\n", "3\n"),
        ("1\n\n2", "1\n2\n"),
        ("var.secret", "(sensitive value)\n"),
        ("[var.secret]", "[\n  (sensitive value),\n]\n"),
        ("var.needed", "(known after apply)\n"),
        ("type(var.needed)", "number\n"),
        ("nexus_site.main.name", "(known after apply)\n"),
        ("length(nexus_rack.r)", "2\n"),
        ("[\n1,\n2]\n3", "[\n  1,\n  2,\n]\n3\n"),
        ("upper(<<EOT\na\nEOT\n)\n", "<<EOT\nA\n\nEOT\n"),
        ("1\nexit\n2", "1\n"),
        ("timestamp()", '"2023-11-14T22:13:20Z"\n'),
        ("nexusform.applying", "false\n"),
        ("nexusform.workspace", '"default"\n'),
        ('"\\u001b[31m"', '"\\x1b[31m"\n'),
    ],
)
@pytest.mark.usefixtures("configuration_directory")
def test_each_line_prints_its_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, out: str
) -> None:
    assert run_console(capsys, monkeypatch, text) == (0, out, "")


@pytest.mark.parametrize(
    ("text", "out", "words"),
    [
        ("1\nvar.secrt\n2\n", "1\n", 'Did you mean "secret"?'),
        ("local.sum[0]", "", "This value does not have any indices"),
        ("1 +", "", "on <console-input> line 1"),
        ("foo(\n1", "", "Error"),
        ("[type(1)]", "", 'console-only "type" function'),
        ("nexus_site.mein", "", "Did you mean"),
    ],
)
@pytest.mark.usefixtures("configuration_directory")
def test_first_error_exits_with_1(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    out: str,
    words: str,
) -> None:
    code, shown, err = run_console(capsys, monkeypatch, text)
    assert (code, shown) == (1, out)
    assert words in " ".join(err.replace("│", " ").split())
    assert "hush" not in err


@pytest.mark.usefixtures("configuration_directory")
def test_resources_have_values_of_the_state(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_command_line(["apply", "-auto-approve", "-var", "needed=1"]) == 0
    capsys.readouterr()
    text = 'nexus_rack.r[*].name\nnexus_rack.r[1].machines["rack1-bm01"].slot\n'
    assert run_console(capsys, monkeypatch, text) == (0, '[\n  "rack0",\n  "rack1",\n]\n1\n', "")
    assert (
        run_console(capsys, monkeypatch, "sensitive(nexus_site.main.name)")[1]
        == "(sensitive value)\n"
    )


def test_working_directory_is_absolute(
    configuration_directory: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = run_console(capsys, monkeypatch, "path.cwd\npath.root\n", "-var", "needed=4")[1]
    assert shown == f'"{configuration_directory}"\n"."\n'


@pytest.mark.usefixtures("configuration_directory")
def test_variables_are_accepted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_console(capsys, monkeypatch, "var.needed + 1", "-var", "needed=4") == (0, "5\n", "")


def test_directory_without_configuration_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_console(capsys, monkeypatch, "1 + 1") == (0, "2\n", "")


def test_invalid_configuration_is_reported_at_start(
    configuration_directory: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (configuration_directory / "main.nf.hcl").write_text("locals {\n")
    code, out, err = run_console(capsys, monkeypatch, "1\n")
    assert (code, out) == (1, "")
    assert "on main.nf.hcl line 1" in err


def test_error_in_a_local_is_reported_at_its_line(
    configuration_directory: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (configuration_directory / "more.nf.hcl").write_text('locals {\n  broken = tonumber("x")\n}\n')
    for _ in range(2):
        code, _, err = run_console(capsys, monkeypatch, "local.broken\n")
        assert code == 1
        assert "on more.nf.hcl line 2" in err


def test_terminal_session_survives_errors_and_joins_lines(configuration_directory: Path) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*commands.nexusform(), "console"],
        cwd=configuration_directory,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TERM": "dumb"},
    )
    os.close(slave)
    os.write(master, b"var.nope\n[1,\n2]\n(\n\n3\nexit\n")
    out, err = process.communicate(timeout=30)
    os.close(master)
    assert process.returncode == 0
    assert "[\n  1,\n  2,\n]\n" in out
    assert out.rstrip().endswith("3\n>") or "3\n" in out
    assert 'variable with the name "nope" has not been declared' in err


AGREED = """\
{ b = [1, 2, "x"], c = tomap({ z = 1 }), "k k" = null }
"a\\nb"
type({ b = [1, "a"], c = tolist([{ x = 1 }]), d = {}, e = [] })
[1, sensitive(2)]
toset([])
tomap({})
null
1e100
1.5
tolist(["a", "b"])
"é\\"${1}"
"$${a}"
type(toset(["x"]))
type(null)
type(type(1))
{ a = [{ b = "x\\ny" }] }
sensitive({ a = 1 })
{ "a b" = {}, c = tolist([]), "1" = 2 }
tonumber(null)
tolist(null)
"\\u0007\\u200b é"
type(tomap({ a = [1] }))
type(1 == 1)
""".splitlines()


@pytest.mark.skipif(find_program("terraform") is None, reason="terraform is not installed")
def test_terraform_console_prints_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.tfrc").write_text("")
    environment = {
        **os.environ,
        "TF_CLI_CONFIG_FILE": str(tmp_path / "empty.tfrc"),
        "CHECKPOINT_DISABLE": "1",
    }
    for text in AGREED:
        theirs = subprocess.run(
            ["terraform", "console"],
            input=f"{text}\n",
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env=environment,
        )
        if theirs.returncode:
            pytest.skip(f"terraform cannot answer: {theirs.stderr[:200]}")
        assert run_console(capsys, monkeypatch, text) == (0, theirs.stdout, ""), text


_EXPLAINED = """
variable "password" {
  sensitive = true
  default   = "hunter2"
}
variable "nothing" {
}
resource "nexus_site" "s" {
}
locals {
  place   = "at ${nexus_site.s.id}"
  letters = [for c in split("", var.password) : upper(c)]
}
module "m" {
  source = "./m"
  name   = local.place
}
"""

_EXPLAINED_MODULE = """
variable "name" {
}
output "host" {
  value     = "${var.name}.example"
  sensitive = true
}
"""


def _explain(
    directory: Path, capfd: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    (directory / "main.nf.hcl").write_text(_EXPLAINED)
    (directory / "m").mkdir(exist_ok=True)
    (directory / "m" / "main.nf.hcl").write_text(_EXPLAINED_MODULE)
    assert run_command_line([f"-chdir={directory}", "init"]) == 0
    capfd.readouterr()
    code = run_command_line([f"-chdir={directory}", "console", "-no-color", "-explain", *arguments])
    captured = capfd.readouterr()
    return code, captured.out, captured.err


def test_explain_follows_names_to_cause_of_unknown_or_sensitive(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, tree, _ = _explain(tmp_path, capfd, "[length(module.m.host), 1 + 2]")
    assert code == 0
    assert tree == (
        "[length(module.m.host), 1 + 2]\n"
        "    = [ (known after apply), 3, ]  (tuple([ number, number, ]), partly\n"
        "    sensitive, partly unknown)\n"
        "  length(module.m.host) = (known after apply)  (number, sensitive, unknown)\n"
        "    module.m.host = (known after apply)  (string, sensitive, unknown)\n"
        '        ! sensitive: output "host" is declared so (m/main.nf.hcl:4)\n'
        '      "${var.name}.example"\n'
        "          = (known after apply)  (string, unknown)  [m/main.nf.hcl:5]\n"
        "        var.name = (known after apply)  (string, unknown)  [m/main.nf.hcl:5]\n"
        "          local.place\n"
        "              = (known after apply)  (string, unknown)  [main.nf.hcl:16]\n"
        '            "at ${nexus_site.s.id}"\n'
        "                = (known after apply)  (string, unknown)  [main.nf.hcl:11]\n"
        "              nexus_site.s.id\n"
        "                  = (known after apply)  (string, unknown)  [main.nf.hcl:11]\n"
        "                  ! unknown: nexus_site.s does not exist yet; known after apply\n"
        "  1 + 2 = 3  (number)\n"
    )


def test_explain_lists_each_part_of_a_name_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, tree, _ = _explain(tmp_path, capfd, "[local.place, local.place]")
    assert tree.count('"at ${nexus_site.s.id}"') == 1
    assert tree.endswith(
        "  local.place = (known after apply)  (string, unknown)\n    (parts shown above)\n"
    )


def test_explain_hides_sensitive_values(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["-json"]):
        _, tree, _ = _explain(
            tmp_path, capfd, '[for c in local.letters : c == "H" ? var.nothing : "n"]', *more
        )
        assert "hunter2" not in tree
        assert '"h"' not in tree.lower().replace('c == "h"', "").replace('c == \\"h\\"', "")
        # The loop itself, and its body once.
        assert tree.count("upper(c)") == 2
        assert (
            'variable "password" is declared so' in tree
            or 'variable \\"password\\" is declared so' in tree
        )


def test_explain_reports_errors_instead_of_unknown_values(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, tree, errors = _explain(tmp_path, capfd, '[1 + 2, upper("a") + 1, local.letters[9]]')
    assert code == 1
    assert "Invalid operand" in errors
    assert tree.startswith(
        '[1 + 2, upper("a") + 1, local.letters[9]] = (error)\n'
        "  1 + 2 = 3  (number)\n"
        '  upper("a") + 1 = (error)\n'
        "      ! error: Invalid operand\n"
        '    upper("a") = "A"  (string)\n'
        "  local.letters[9] = (error)\n"
        "      ! error: Invalid index\n"
    )
    _, tree, _ = _explain(tmp_path, capfd, "{ a = 1 + 2, b = nosuch() }", "-json")
    document = json.loads(tree)
    assert document["failed"]
    assert "known" not in document
    sum_, call = document["parts"]
    assert sum_["value"] == 3
    assert call["reasons"] == [{"mark": "error", "why": "Call to unknown function"}]


def test_explain_shows_caught_errors_except_of_sensitive_values(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, tree, _ = _explain(tmp_path, capfd, 'try({}.a, tonumber("x"), 3)')
    assert code == 0
    assert "  {}.a = (error)\n      ! error: Unsupported attribute\n" in tree
    for text in (
        "try(tonumber(var.password), 0)",
        "[for c in local.letters : try(tonumber(c), 0)]",
    ):
        _, tree, _ = _explain(tmp_path, capfd, text)
        assert "error" not in tree


def test_explain_as_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, tree, _ = _explain(tmp_path, capfd, "1 + length(var.password)", "-json")
    assert code == 0
    assert json.loads(tree) == {
        "expression": "1 + length(var.password)",
        "type": "number",
        "known": "yes",
        "sensitive": True,
        "reasons": [],
        "omitted": 0,
        "repeated": False,
        "parts": [
            {
                "expression": "length(var.password)",
                "type": "number",
                "known": "yes",
                "sensitive": True,
                "reasons": [],
                "omitted": 0,
                "repeated": False,
                "parts": [
                    {
                        "expression": "var.password",
                        "type": "string",
                        "known": "yes",
                        "sensitive": True,
                        "reasons": [
                            {
                                "mark": "sensitive",
                                "why": 'variable "password" is declared so (main.nf.hcl:2)',
                            }
                        ],
                        "omitted": 0,
                        "repeated": False,
                        "parts": [],
                    }
                ],
            }
        ],
    }


def test_explain_visits_a_long_loop_a_few_times(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, tree, _ = _explain(tmp_path, capfd, "[for i in range(30) : i * 2]")
    assert "  i * 2 = 36  (number)\n" in tree
    assert tree.endswith("  ... and 11 more\n")


def test_explain_of_an_invalid_expression(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, tree, said = _explain(tmp_path, capfd, "nonsense.x")
    assert (code, tree) == (1, "")
    assert 'A managed resource "nonsense" "x" has not been declared' in said
    code, tree, said = _explain(tmp_path, capfd, '1 + "a"')
    assert code == 1
    assert "Invalid operand" in said
    assert run_command_line([f"-chdir={tmp_path}", "console", "-json"]) == 1
    assert "-json needs -explain." in capfd.readouterr().err


def test_bytes_that_are_not_utf_8_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO('"a\udcff"\n'))
    assert run_command_line(["console"]) == 0
    assert capsys.readouterr().out == '"a\ufffd"\n'
    assert run_command_line(["console", '-explain="a\udcff"']) == 0
