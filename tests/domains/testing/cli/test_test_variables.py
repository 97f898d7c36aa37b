"""`variable` blocks of test files, ephemeral outputs, and test files without a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

Run = Callable[..., tuple[int, str]]

MODULE = """
variable "name" {
  type    = string
  default = "of the module"
}
variable "size" {
  type = number
}
output "text" {
  value = "${var.name} ${var.size}"
}
"""
RUN = """
run "one" {
  assert {
    condition     = output.text == "EXPECTED"
    error_message = "got ${output.text}"
  }
}
"""
DECLARATIONS = """
variable "name" {
  type    = string
  default = "of the test"
}
variable "size" {
  type    = number
  default = "3"
}
"""


@pytest.fixture
def nf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `test` in a directory; return its exit code, and its output in one line."""
    monkeypatch.chdir(tmp_path)

    def run_test(*arguments: str, module: str = MODULE, test: str = "") -> tuple[int, str]:
        if module:
            Path("main.nf.hcl").write_text(module)
        Path("main.nftest.hcl").write_text(test)
        code = run_command_line(["test", *arguments])
        captured = capsys.readouterr()
        return code, " ".join((captured.out + captured.err).replace("│", " ").split())

    return run_test


@pytest.mark.parametrize(
    ("arguments", "more", "expected"),
    [
        # The default of the test file replaces the module's.
        ((), "", "of the test 3"),
        # Values from outside, then those of `variables` blocks, replace it.
        (("-var=name=outside",), "", "outside 3"),
        (("-var=name=outside",), 'variables {\n  name = "inside"\n}\n', "inside 3"),
        ((), "variables {\n  size = 4\n}\n", "of the test 4"),
    ],
)
def test_default_of_a_test_file(
    nf: Run, arguments: tuple[str, ...], more: str, expected: str
) -> None:
    code, text = nf(*arguments, test=DECLARATIONS + more + RUN.replace("EXPECTED", expected))
    assert code == 0, text


def test_variable_of_a_test_file_alone_has_a_type(nf: Run) -> None:
    declaration = 'variable "factor" {\n  type    = list(number)\n  default = [2]\n}\n'
    use = "variables {\n  size = 1 + var.factor[0]\n}\n"
    test = declaration + use + RUN.replace("EXPECTED", "of the module 3")
    code, text = nf(test=test)
    assert code == 0, text
    code, text = nf("-var=factor=[2, 5]", test=test)
    assert code == 0, text
    code, text = nf('-var=factor=["many"]', test=test)
    assert code == 1
    assert "Invalid value for input variable" in text
    assert "factor" in text


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        (
            'variable "size" {\n  default = ["many"]\n}\n',
            "The default is not suitable for var.size",
        ),
        (DECLARATIONS + 'variable "size" {\n}\n', 'A variable named "size" was already declared'),
        (
            (
                'variable "size" {\n  validation {\n    condition     = var.size > 1\n'
                '    error_message = "Too small."\n  }\n}\n'
            ),
            'The variable "size" of a test file cannot have validations.',
        ),
        ('test {\n  parallel = "often"\n}\n', "parallel"),
        ("test {\n  parallell = true\n}\n", 'Did you mean "parallel"?'),
        ('variable "size" {\n}\n', 'The required variable "size" is not set'),
    ],
)
def test_invalid_declaration_is_reported(nf: Run, declaration: str, message: str) -> None:
    code, text = nf(test=declaration + RUN.replace("EXPECTED", "x"))
    assert code == 1
    assert message in text
    assert "main.nftest.hcl line " in text


def test_ephemeral_outputs_are_readable_and_not_stored(nf: Run) -> None:
    module = """
variable "token" {
  type      = string
  ephemeral = true
}
output "token" {
  value     = var.token
  ephemeral = true
}
"""
    run = """
run "COMMAND" {
  command = COMMAND
  variables {
    token = "secret"
  }
  assert {
    condition     = output.token == "secret"
    error_message = "The token differs."
  }
}
"""
    test = run.replace("COMMAND", "plan") + run.replace("COMMAND", "apply")
    code, text = nf("-verbose", module=module, test=test)
    assert code == 0, text
    assert '"secret"' not in text
    code, text = nf(module=module, test=test.replace('== "secret"', '== "other"'))
    assert code == 1
    assert "The token differs." in text


def test_prevent_destroy_does_not_stop_the_end_of_a_test(nf: Run) -> None:
    site = 'resource "nexus_site" "s" {\n  name = "s"\n  lifecycle {\n    GUARD\n  }\n}\n'
    guarded = site.replace("GUARD", "prevent_destroy = true")
    test = 'run "one" {}\n'
    assert nf(module=guarded, test=test)[0] == 0
    module = 'module "m" {\n  source = "./m"\n}\n'
    Path("m").mkdir()
    guard = 'variable "guard" {\n  default = true\n}\n'
    Path("m/main.nf.hcl").write_text(guard + site.replace("GUARD", "prevent_destroy = var.guard"))
    code, text = nf(module=module, test=test)
    assert code == 0, text
    # A run that would destroy it is an error.
    counted = guarded.replace('"s" {\n', '"s" {\n  count = var.n\n', 1)
    number = 'variable "n" {\n  default = 1\n}\n'
    code, text = nf(
        module=number + counted, test=test + 'run "two" {\n  variables {\n    n = 0\n  }\n}\n'
    )
    assert code == 1
    assert "has lifecycle.prevent_destroy set" in text


def test_directory_with_test_files_alone(nf: Run) -> None:
    Path("setup").mkdir()
    Path("setup/main.nf.hcl").write_text(MODULE)
    source = 'run "one" {\n  module {\n    source = "./setup"\n  }\n'
    test = RUN.replace('run "one" {\n', source).replace("EXPECTED", "of the module 2")
    code, text = nf(module="", test="variables {\n  size = 2\n}\n" + test)
    assert code == 0, text
    Path("main.nftest.hcl").unlink()
    assert run_command_line(["test"]) == 1


def test_flags_of_parallel_steps_and_runs(nf: Run) -> None:
    test = (
        DECLARATIONS + "test {\n  parallel = true\n}\n" + RUN.replace("EXPECTED", "of the test 3")
    )
    code, text = nf("-parallelism=1", "-run-parallelism=2", test=test)
    assert code == 0, text
    assert nf("-parallelism=0", test=test)[0] == 1
