"""Tests of shapes that users of Terraform and OpenTofu reported: number, shape, right answer.

"T 123" is an issue of hashicorp/terraform, "O 123" one of opentofu/opentofu. The shape is rewritten
with the types of nexusform. An answer that begins with "Error" is an error of `plan` with that
text; any other is the value of the output "r", or a part of the plan.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from nexusform.cli.main import run_command_line
from tests.programs import find_program


class Report(NamedTuple):
    """A reported shape.

    `module` is the text of the directory m, `before` an applied configuration before this one, and
    `test` a test file.
    """

    number: str
    text: str
    answer: str
    module: str = ""
    command: tuple[str, ...] = ("plan",)
    before: str = ""
    test: str = ""


CALL = 'module "m" {{\n  source = "./m"\n  {}\n}}\n'
OUT = 'output "r" {{\n  value = {}\n}}\n'
IMPORT = "import {{\n  {}\n}}\n"


def import_each(for_each: str, to: str, object_id: str) -> str:
    return IMPORT.format(f"for_each = {for_each}\n  to = {to}\n  id = {object_id}")


def repeat_site(for_each: str) -> str:
    return f'resource "nexus_site" "s" {{\n  for_each = {for_each}\n  name = each.key\n}}\n'


SITES = repeat_site('toset(["a", "b"])')


def variable(name: str, body: str = "") -> str:
    return f'variable "{name}" {{\n  {body}\n}}\n'


def validation(condition: str) -> str:
    return f'validation {{\n    condition = {condition}\n    error_message = "Wrong."\n  }}'


OPTIONAL = (
    'type = map(object({ s = optional(string) }))\n  default = { a = {}, b = { s = "x" } }\n  '
)
NESTED = "type = object({ test = optional(object({ val = string })) })\n  default = {}\n  "
NULLABLE = "type = object({ a = string, b = string })\n  default = null\n  "

ASSERTION = """run "a" {
  assert {
    condition     = output.r == var.wanted
    error_message = "Wrong."
  }
}
"""

REPORTS = [
    # Null and defaults of module variables.
    Report(
        "T 31679",
        CALL.format("x = null") + OUT.format("module.m.o"),
        "Error: Operation failed",
        variable("x", "default = 5") + 'output "o" {\n  value = var.x / 5\n}\n',
    ),
    Report(
        "T 30459",
        CALL.format("x = null") + OUT.format("module.m.o"),
        "+ r = 1",
        variable("x", "default = 5\n  nullable = false") + 'output "o" {\n  value = var.x / 5\n}\n',
    ),
    Report(
        "T 24142",
        CALL.format("x = null") + OUT.format("module.m.o == null"),
        "+ r = true",
        variable("x", "default = 5") + 'output "o" {\n  value = var.x\n}\n',
    ),
    # Validation rules.
    Report(
        "T 30403",
        variable("x", OPTIONAL + validation('alltrue([for v in var.x : v.s != "bad"])'))
        + OUT.format("length(var.x)"),
        "+ r = 2",
    ),
    Report(
        "T 34148",
        variable("x", NESTED + validation("var.x.test == null || length(var.x.test.val) > 0"))
        + OUT.format("var.x.test == null"),
        "+ r = true",
    ),
    Report(
        "T 24998",
        variable(
            "x", NULLABLE + validation("var.x == null || (var.x.a != null && var.x.b != null)")
        )
        + OUT.format("var.x == null"),
        "+ r = true",
    ),
    Report("T 24128", OUT.format("null == null || null.a > 0"), "+ r = true"),
    # Import blocks.
    Report(
        "T 33624",
        SITES + import_each('{ a = "a", b = "b" }', "nexus_site.s[each.key]", "each.value"),
        'While importing nexus_site.s["b"]',
    ),
    Report(
        "T 34249",
        SITES + import_each('toset(["a"])', "nexus_site.s[each.key]", "each.value"),
        'While importing nexus_site.s["a"]',
    ),
    Report(
        "O 1287",
        SITES
        + import_each(
            '{ for n in ["a", "b"] : n => n }', "nexus_site.s[each.key]", '"x-${each.key}"'
        ),
        'with the id "x-a"',
    ),
    Report(
        "O 1033",
        SITES
        + import_each(
            '{ x = { id = "1", key = "a" } }', "nexus_site.s[each.value.key]", "each.value.id"
        ),
        'with the id "1"',
    ),
    Report(
        "O 1503",
        SITES
        + import_each('[{ id = 7, key = "a" }]', "nexus_site.s[each.value.key]", "each.value.id"),
        'with the id "7"',
    ),
    Report(
        "O 3563",
        variable("ids", 'type = list(string)\n  default = ["one", "two"]')
        + 'resource "nexus_site" "s" {\n  count = 2\n  name = "s${count.index}"\n}\n'
        + import_each(
            "{ for i, item in var.ids : i => item }",
            "nexus_site.s[tonumber(each.key)]",
            "each.value",
        ),
        "While importing nexus_site.s[1]",
    ),
    Report(
        "T 37456",
        SITES + import_each('{ a = nexus_site.s["a"] }', "each.value", "each.key"),
        "Error: Invalid import address",
    ),
    Report(
        "T 35151",
        SITES + IMPORT.format('to = nexus_site.s["a"]\n  id = "a"'),
        "No changes.",
        command=("plan", "-destroy"),
    ),
    Report(
        "T 33389", IMPORT.format('to = nexus_site.x\n  id = "a"'), "nexus_site.x does not exist"
    ),
    # Module outputs that do not exist.
    Report(
        "T 1448",
        CALL.format("") + CALL.format("foo = module.m.nothing").replace('"m" {', '"b" {'),
        "Error: Unsupported attribute",
        variable("foo", "default = 1"),
    ),
    Report(
        "T 19703", OUT.format("[local.redirectX]"), "Error: Reference to undeclared local value"
    ),
    Report(
        "T 29386",
        CALL.format("count = 0") + OUT.format('try(module.m[0].o, "off")'),
        '+ r = "off"',
        'output "o" {\n  value = 1\n}\n',
    ),
    # Unknown and invalid repetition.
    Report("T 30838", repeat_site('{ (uuid()) = "baz" }'), "The unknown part is uuid()"),
    Report("T 30327", repeat_site("toset([timestamp()])"), "The unknown part is timestamp()"),
    Report(
        "T 30362",
        CALL.format("policies = [{ arn = uuid() }, { arn = uuid() }]"),
        "The unknown part is var.policies",
        variable("policies") + repeat_site("toset(var.policies[*].arn)"),
    ),
    Report(
        "T 22735",
        "locals {\n  c = { l1 = { t1 = 3 } }\n  s = toset(flatten([for l in keys(local.c) : "
        '[for t in keys(local.c[l]) : [for i in range(local.c[l][t]) : "${l}${t}${i}"]]]))\n}\n'
        + repeat_site("local.s"),
        "Plan: 3 to add",
    ),
    Report(
        "T 24047",
        variable("x", "type = set(string)\n  default = [null, null]") + repeat_site("var.x"),
        "Error: Invalid for_each argument",
    ),
    Report(
        "T 16022",
        'resource "nexus_site" "s" {\n  count = ""\n  name = "s"\n}\n',
        "Error: Invalid count argument",
    ),
    Report(
        "T 24874",
        CALL.format("count = timestam()"),
        "Error: Call to unknown function",
        'output "o" {\n  value = 1\n}\n',
    ),
    Report(
        "T 35432",
        CALL.format('for_each = ["a"]'),
        "Error: Invalid for_each argument",
        'output "o" {\n  value = 1\n}\n',
    ),
    Report(
        "T 18318",
        'resource "nexus_site" "s" {\n  count = 0\n  nonsense = 1\n}\n',
        "Error: Unsupported argument",
    ),
    # Null in functions and conditions.
    Report("T 36306", OUT.format('format("%s", null)'), "Error: Error in function call"),
    Report("T 31165", OUT.format('format("%v", [null]) == "[null]"'), "+ r = true"),
    Report("T 22026", OUT.format('length(compact(["a", "", "b", "c", null]))'), "+ r = 3"),
    Report("T 21548", OUT.format("compact(null)"), "Error: Invalid function argument"),
    Report(
        "T 22405",
        variable("s", 'default = ""')
        + OUT.format('jsonencode(var.s == "" ? {} : { a = true, b = [1] })'),
        "Error: Inconsistent conditional result types",
    ),
    Report(
        "T 26977",
        variable("x", 'default = { a = { n = "x", s = { p = 1 } } }')
        + OUT.format("var.x != null ? var.x : {}"),
        "+ r = {1 key}",
    ),
    Report("T 33303", OUT.format('(false ? { a = 1, b = "x" } : null) == null'), "+ r = true"),
    Report("T 31039", OUT.format("false ? toset([]) : {}"), "Error: Inconsistent conditional"),
    Report("T 22218", OUT.format('length([true ? null : "x"])'), "+ r = 1"),
    Report(
        "T 25609",
        variable("a", "default = 3")
        + variable("b", "default = 2\n  " + validation("var.b > var.a")),
        "Error: Invalid value for variable",
    ),
    # States and test files.
    Report(
        "T 38660",
        IMPORT.format('to = nexus_site.s["a"]\n  id = "a"'),
        'nexus_site.s["a"] is in the state already (id "a")',
        before=SITES,
    ),
    Report(
        "T 31102",
        OUT.format('tolist(["a"])'),
        "~ r = (list of string, before tuple)",
        before=OUT.format('["a"]'),
    ),
    Report(
        "T 33611",
        variable("n") + OUT.format("var.n"),
        "Success! 1 passed, 0 failed.",
        command=("test",),
        test="variables {\n  n = 1\n  wanted = 1\n}\n" + ASSERTION,
    ),
    Report(
        "T 34629",
        variable("n") + OUT.format("var.n"),
        "Error: Unsupported block type",
        command=("test",),
        test="locals {\n  n = 1\n}\n" + ASSERTION,
    ),
    Report("T 18472", OUT.format('["a"]'), "Changes to Outputs:"),
]


@pytest.mark.parametrize("report", REPORTS, ids=[report.number for report in REPORTS])
def test_reported_shape_has_the_right_answer(
    report: Report,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m").mkdir()
    Path("m/main.nf.hcl").write_text(report.module)
    if report.before:
        Path("main.nf.hcl").write_text(report.before)
        assert run_command_line(["apply", "-auto-approve"]) == 0
        capsys.readouterr()
    if report.test:
        Path("a.nftest.hcl").write_text(report.test)
    Path("main.nf.hcl").write_text(report.text)
    code = run_command_line([*report.command, "-no-color"])
    captured = capsys.readouterr()
    printed = " ".join((captured.out + captured.err).replace("│", " ").split())
    assert report.answer in printed
    assert "Internal error" not in printed
    assert code == (0 if is_success(report) else 1)


def is_success(report: Report) -> bool:
    """Return whether the right answer is no error."""
    return report.answer.startswith(("+", "~", "Plan:", "No changes", "Changes", "Success"))


# Not for Terraform: the provider of nexus_site has no object to import, terraform_data has any.
IMPORTS = frozenset(
    ("T 33624", "T 34249", "O 1287", "O 1033", "O 1503", "O 3563", "T 35151", "T 37456", "T 33389")
)  # fmt: skip
# Intended differences, and the row in docs/language-differences.md.
SHORT_CIRCUIT = "| `true \\|\\| x`, `false && x` |"
DIFFERENCES = {
    "T 34148": SHORT_CIRCUIT,
    "T 24998": SHORT_CIRCUIT,
    "T 24128": SHORT_CIRCUIT,
    "T 36306": '| `format("%v", null)`, `format("%d", null)` |',
}


@pytest.mark.skipif(find_program("terraform") is None, reason="terraform is not installed")
@pytest.mark.parametrize(
    "report",
    [report for report in REPORTS if report.number not in IMPORTS],
    ids=lambda report: report.number,
)
def test_terraform_accepts_and_rejects_the_same(report: Report, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "main.tf").write_text(translate_to_terraform(report.module))
    (tmp_path / "empty.tfrc").write_text("")
    if report.test:
        (tmp_path / "a.tftest.hcl").write_text(report.test)
    codes = []
    steps = [(report.before, "apply", "-auto-approve")] if report.before else []
    for text, *words in [*steps, (report.text, *report.command)]:
        (tmp_path / "main.tf").write_text(translate_to_terraform(text))
        for command in (["init"], words):
            done = subprocess.run(
                ["terraform", *command, "-no-color"],
                cwd=tmp_path,
                env={**os.environ, "TF_CLI_CONFIG_FILE": str(tmp_path / "empty.tfrc")},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            codes.append(done.returncode)
    is_accepted = not any(codes)
    assert (is_accepted == is_success(report)) == (report.number not in DIFFERENCES)


def translate_to_terraform(text: str) -> str:
    """Return a configuration with terraform_data in place of nexus_site."""
    return text.replace("nexus_site", "terraform_data").replace("  name =", "  input =")


def test_reports_are_numbered_once() -> None:
    numbers = [report.number for report in REPORTS]
    assert len(numbers) == len(set(numbers))
    assert len(numbers) >= 40


def test_differences_from_terraform_are_documented() -> None:
    page = Path(__file__).parents[2] / "docs" / "language-differences.md"
    text = page.read_text(encoding="utf-8")
    assert [row for row in DIFFERENCES.values() if row not in text] == []
