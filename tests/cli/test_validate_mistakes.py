"""Tests of `validate`: detected errors and accepted forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.configuration.resource_blocks import LIFECYCLE_WORDS, ROOT_WORDS


def _list_errors(
    capfd: pytest.CaptureFixture[str], directory: Path, text: str, name: str = "main.nf.hcl"
) -> list[tuple[str, str]]:
    # Id and detail of every error.
    (directory / name).write_text(text)
    run_command_line([f"-chdir={directory}", "validate", "-json"])
    diagnostics: list[dict[str, Any]] = json.loads(capfd.readouterr().out)["diagnostics"]
    return [(d["id"], d["detail"]) for d in diagnostics if d["severity"] == "error"]


@pytest.mark.parametrize("provider", ["nosuch", '"nosuch"', '"null.foo"'])
def test_unknown_provider_is_an_error(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, provider: str
) -> None:
    found = _list_errors(
        capfd, tmp_path, f'resource "nexus_site" "a" {{\n  provider = {provider}\n}}\n'
    )
    assert "unknown-provider" in [kind for kind, _ in found]
    assert run_command_line([f"-chdir={tmp_path}", "plan"]) == 1
    assert "There is no provider" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("argument", "kind"),
    [
        ("nonsense = 1", "unsupported-argument"),
        ("source = 1", "reserved-argument-name-in-provider-block"),
        ("for_each = {}", "reserved-argument-name-in-provider-block"),
        ("latency = [1]", None),
        ("file = local.nowhere", "reference-to-undeclared-local-value"),
    ],
)
def test_arguments_of_providers_are_checked(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, argument: str, kind: str | None
) -> None:
    found = _list_errors(capfd, tmp_path, f'provider "simulated" {{\n  {argument}\n}}\n')
    assert found
    assert kind in {None, found[0][0]}


@pytest.mark.of_domains("remote_state")
@pytest.mark.parametrize(
    ("block", "kinds"),
    [
        ('backend "locale" {\n  }', ["unknown-backend"]),
        ('backend "local" {\n    pth = "x"\n  }', ["unsupported-argument"]),
        ('backend "azurerm" {\n    key = ["a"]\n  }', ["incorrect-attribute-value-type"]),
        ('backend "azurerm" {\n    key = var.x\n  }', ["variables-not-allowed"]),
        ('backend "s3" {\n    assume {\n    }\n  }', ["unsupported-block-type"]),
        # -backend-config may set what is missing.
        ('backend "azurerm" {\n  }', []),
        ('backend "local" {\n    path = "x"\n  }', []),
    ],
)
def test_arguments_of_the_backend_are_checked(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, block: str, kinds: list[str]
) -> None:
    site = 'resource "nexus_site" "a" {\n}\n'
    found = _list_errors(capfd, tmp_path, f"{site}nexusform {{\n  {block}\n}}\n")
    assert [kind for kind, _ in found] == kinds


@pytest.mark.parametrize(
    "text",
    [
        'variable "x" {{\n  validation {{\n    {}\n  }}\n}}\n',
        'output "x" {{\n  value = 1\n  precondition {{\n    {}\n  }}\n}}\n',
        'check "x" {{\n  assert {{\n    {}\n  }}\n}}\n',
        (
            'resource "nexus_site" "x" {{\n  lifecycle {{\n    postcondition {{\n      {}\n    '
            "}}\n  }}\n}}\n"
        ),
    ],
)
@pytest.mark.parametrize("condition", ["true", "1 < 2", 'timestamp() != ""'])
def test_condition_without_reference_is_an_error(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, text: str, condition: str
) -> None:
    found = _list_errors(
        capfd, tmp_path, text.format(f'condition = {condition}\n    error_message = "no"')
    )
    assert [kind for kind, _ in found] == ["condition-refers-to-nothing"]


def test_quoted_attribute_name_in_type_is_an_error(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = _list_errors(capfd, tmp_path, 'variable "x" {\n  type = object({ "a" = string })\n}\n')
    assert "attribute names" in found[0][1]


_SITES = """
resource "nexus_site" "one" {{
  {repetition}
  name = "one-{key}"
}}
resource "nexus_site" "two" {{
  {repetition}
  name = "two-{key}"
  lifecycle {{
    replace_triggered_by = [{triggers}]
  }}
}}
"""


@pytest.mark.parametrize(
    ("repetition", "key"), [("count = 2", "count.index"), ('for_each = toset(["a"])', "each.key")]
)
def test_triggers_may_refer_to_an_instance(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, repetition: str, key: str
) -> None:
    triggers = f"nexus_site.one[{key}].name, nexus_site.one[{key}]"
    text = _SITES.format(repetition=repetition, key=f"${{{key}}}", triggers=triggers)
    assert _list_errors(capfd, tmp_path, text) == []
    assert run_command_line([f"-chdir={tmp_path}", "apply", "-auto-approve"]) == 0
    (tmp_path / "main.nf.hcl").write_text(text.replace("one-", "uno-"))
    capfd.readouterr()
    run_command_line([f"-chdir={tmp_path}", "plan"])
    assert "replace_triggered_by" in capfd.readouterr().out


def test_triggers_may_refer_to_an_instance_in_json(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sites = {
        "one": {"count": 2, "name": "one-${count.index}"},
        "two": {
            "count": 2,
            "name": "two-${count.index}",
            "lifecycle": {"replace_triggered_by": ["nexus_site.one[count.index].name"]},
        },
    }
    text = json.dumps({"resource": {"nexus_site": sites}})
    assert _list_errors(capfd, tmp_path, text, "main.nf.json") == []


def test_providers_of_a_module_are_rejected(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "main.nf.hcl").write_text("")
    text = 'module "m" {\n  source    = "./m"\n  providers = { aws.west = aws.main }\n}\n'
    (kind, detail), *_ = _list_errors(capfd, tmp_path, text)
    assert kind == "unsupported-argument"
    assert "provider configurations of the root module" in detail
    assert run_command_line(["fmt", "-check", str(tmp_path)]) == 0


def test_ambiguous_attribute_key_is_rejected(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = _list_errors(capfd, tmp_path, "locals {\n  a = { b.c = 1 }\n}\n")
    assert [kind for kind, _ in found] == ["ambiguous-attribute-key"]


def _read_messages(capfd: pytest.CaptureFixture[str], directory: Path, text: bytes) -> str:
    (directory / "main.nf.hcl").write_bytes(text)
    assert run_command_line([f"-chdir={directory}", "validate", "-no-color"]) != 0
    captured = capfd.readouterr()
    return " ".join((captured.out + captured.err).replace("│", " ").split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'output "x" {\n  value = upper([])\n}\n', 'line 2, in output "x":'),
        (b"locals {\n  x = upper([])\n}\n", "line 2, in locals:"),
        (b'locals {\n  x = regex("a")\n}\n', "while calling regex(pattern, string)"),
        (b'locals {\n  x = join(",")\n}\n', "while calling join(separator, lists...)"),
        (b'# a\n\nlocals {\n  x = "\xff"\n}\n', "on main.nf.hcl line 4"),
        (b"locals {\n  a = 1\n  x = <<EOT\nb\nc\n}\n", "line 3, in locals: 3: x = <<EOT"),
        (b'locals {\n  x = "a${}b"\n}\n', 'There is no expression between "${" and "}".'),
        (b"locals {\n  x = if a then b\n}\n", 'There is no "if" expression.'),
    ],
)
def test_errors_name_position_and_cause(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, text: bytes, words: str
) -> None:
    assert words in _read_messages(capfd, tmp_path, text)


def test_file_not_in_utf_8_is_reported_with_line_without_source(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "main.nf.hcl").write_bytes(b'locals {\n  a = 1\n  b = "\xff"\n}\n')
    assert run_command_line([f"-chdir={tmp_path}", "validate", "-no-color"]) == 1
    said = capfd.readouterr().err
    assert "on main.nf.hcl line 3:\n│   (source code not available)\n" in said


@pytest.mark.parametrize(
    ("figure", "line"),
    [("1", 15), ("3", 15), ("var.three", 15), ("2", 0), ("null", 0), ("var.none", 0)],
)
def test_number_of_cells_must_match_their_list(
    figure: str,
    line: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(OCCUPIED.replace("FIGURE", figure))
    assert run_command_line(["plan"]) == (1 if line else 0)
    err = capsys.readouterr().err
    assert (f'on main.nf.hcl line {line}, in resource "nexus_bare_metal_machine"' in err) == bool(
        line
    )
    assert ('"cells" has 2 elements, but "numa_cells" is' in err) == bool(line)


OCCUPIED = """\
variable "none" { default = null }
variable "three" { default = 3 }
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = 1
}
resource "nexus_bare_metal_machine" "m" {
  rack_id     = nexus_rack.r.id
  slot        = 5
  machine_sku = "bom-2.0"
  occupied {
    name       = "x"
    numa_cells = FIGURE
    cells      = [0, 1]
    cpu_cores  = 4
    memory_gib = 8
  }
}
"""


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("1 === 2", 'Did you mean "=="?'),
        ("1 !== 2", 'Did you mean "!="?'),
        ("1 <> 2", 'Did you mean "!="?'),
        ("null ?? 1", "coalesce"),
        ("1 in [1]", "contains(list, value)"),
        ("1 if true else 2", '"b ? a : c"'),
        ("var.n++", '"++"'),
        ("${var.n}", "valid only inside quotes"),
        ("True", "Did you mean true?"),
        ("[False]", "Did you mean false?"),
        ("var.n == None", "Did you mean null?"),
        ("nil", "Did you mean null?"),
    ],
)
def test_operators_of_other_languages_get_a_hint(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, expression: str, hint: str
) -> None:
    text = f'variable "n" {{\n  default = 1\n}}\noutput "o" {{\n  value = {expression}\n}}\n'
    ((_, detail),) = _list_errors(capfd, tmp_path, text)
    assert hint in detail


@pytest.mark.parametrize(
    "expression", ["[for x in [1] : x if true]", "1 > -2 ? 3 : 4", "{ if = 1, in = 2 }"]
)
def test_expressions_resembling_other_languages_are_valid(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, expression: str
) -> None:
    assert _list_errors(capfd, tmp_path, f'output "o" {{\n  value = {expression}\n}}\n') == []


@pytest.mark.parametrize("json_syntax", [False, True])
@pytest.mark.parametrize(("place", "words"), [("", ROOT_WORDS), ("lifecycle", LIFECYCLE_WORDS)])
def test_block_names_of_newer_versions_get_advice(
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    place: str,
    words: dict[str, str],
    *,
    json_syntax: bool,
) -> None:
    documented = (Path(__file__).parents[2] / "docs/language-differences.md").read_text()
    for word, advice in words.items():
        blocks: dict[str, Any] = {
            "": {word: {"x": {}}},
            "lifecycle": {"resource": {"nexus_site": {"s": {"lifecycle": {word: True}}}}},
        }
        native = {
            "": f'{word} "x" {{\n}}\n',
            "lifecycle": (
                f'resource "nexus_site" "s" {{\n  lifecycle {{\n    {word} = true\n  }}\n}}\n'
            ),
        }
        name = "main.nf.json" if json_syntax else "main.nf.hcl"
        ((_, detail),) = _list_errors(
            capfd, tmp_path, json.dumps(blocks[place]) if json_syntax else native[place], name
        )
        assert detail.endswith(advice)
        assert word == "terraform" or f"`{word}`" in documented


def test_deprecated_variables_and_outputs_are_warnings(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "main.nf.hcl").write_text(
        'variable "zone" {\n  default = 1\n  deprecated = "Use zones."\n}\n'
        'output "z" {\n  value = var.zone\n  deprecated = "Use zs."\n}\n'
    )
    (tmp_path / "main.nf.hcl").write_text(
        'variable "old" {\n  default = 1\n  deprecated = "Use new."\n}\n'
        'module "m" {\n  source = "./m"\n  zone = 2\n}\nmodule "n" {\n  source = "./m"\n}\n'
        'output "o" {\n  value = [module.m.z, module.n]\n}\n'
    )
    assert run_command_line([f"-chdir={tmp_path}", "validate", "-json"]) == 0
    found = json.loads(capfd.readouterr().out)["diagnostics"]
    assert [(d["severity"], d["detail"]) for d in found] == [
        ("warning", 'The variable "zone" is deprecated: Use zones.'),
        ("warning", 'The output "z" of module "m" is deprecated: Use zs.'),
    ]
    assert run_command_line([f"-chdir={tmp_path}", "plan", "-var=old=2"]) == 0
    assert 'The variable "old" is deprecated: Use new.' in capfd.readouterr().out


def test_lifecycle_block_of_a_module(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "main.nf.hcl").write_text("")
    text = 'module "m" {\n  source = "./m"\n  lifecycle {\n    prevent_destroy = true\n  }\n}\n'
    assert _list_errors(capfd, tmp_path, text) == [
        (
            "unsupported-argument",
            (
                'The lifecycle of a module has "enabled" alone. Write "prevent_destroy" in the '
                "resources of the module."
            ),
        )
    ]


@pytest.mark.parametrize(
    ("labels", "content", "kind"),
    [
        ("", "cordoned = true", "insufficient-dynamic-block-labels"),
        ("", "name = machine_override.value", "insufficient-dynamic-block-labels"),
        ('label = ["rack1-bm01"]', "cordoned = true", "unsupported-argument"),
        ("labels = []", "cordoned = true", "invalid-dynamic-block-labels"),
        ("labels = [machine_override.value, 1]", "cordoned = true", "invalid-dynamic-block-labels"),
    ],
)
def test_wrong_label_of_dynamic_block_is_one_error(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, labels: str, content: str, kind: str
) -> None:
    text = f"""
resource "nexus_site" "lab" {{
}}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.lab.id
  name          = "rack1"
  machine_count = 4
  dynamic "machine_override" {{
    for_each = ["rack1-bm01", "rack1-bm02"]
    {labels}
    content {{
      {content}
    }}
  }}
}}
"""
    assert [kind for kind, _ in _list_errors(capfd, tmp_path, text)] == [kind]
    assert run_command_line([f"-chdir={tmp_path}", "plan"]) == 1
    assert capfd.readouterr().err.count("Error:") == 1


def validate(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, int]]:
    """Return severity, id and line of each problem."""
    run_command_line(["validate", "-json"])
    problems = json.loads(capsys.readouterr().out)["diagnostics"]
    return sorted(
        (each["severity"], each["id"], each["range"]["start"]["line"]) for each in problems
    )


LATER_MISTAKES = """\
module "a" {
  source = "./m"
  count  = -1
}
module "b" {
  source   = "./m"
  for_each = ["x"]
}
resource "nexus_site" "s" {
  count = 2
  name  = "s${count.index}"
  lifecycle {
    precondition {
      condition     = tonumber("x") == count.index
      error_message = "no"
    }
    postcondition {
      condition     = [self.name]
      error_message = ["no"]
    }
  }
}
import {
  to = nexus_site.s[0]
  id = ""
}
variable "ids" {
  type = map(string)
}
import {
  for_each = var.ids
  to       = nexus_site.s[each.key]
  id       = each.value
}
check "c" {
  assert {
    condition     = [var.ids]
    error_message = "no"
  }
}
"""


def test_module_counts_conditions_and_imports_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by `terraform validate`, without values of variables."""
    monkeypatch.chdir(tmp_path)
    Path("m").mkdir()
    Path("m/main.nf.hcl").write_text("locals {\n  a = 1\n}\n")
    Path("main.nf.hcl").write_text(LATER_MISTAKES)
    assert validate(capsys) == [
        ("error", "invalid-condition-result", 18),
        ("error", "invalid-count-argument", 3),
        ("error", "invalid-error-message", 19),
        ("error", "invalid-for-each-argument", 7),
        ("error", "invalid-function-argument", 14),
        ("error", "invalid-import-id-argument", 25),
        ("warning", "invalid-condition-result", 37),
    ]


def test_providers_without_a_block_in_the_root_module_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only provider blocks of the root module are configured, so apply would fail."""
    monkeypatch.chdir(tmp_path)
    Path("m").mkdir()
    resources = [
        f'resource "nexus_site" "{key}" {{\n  provider = {key}\n}}\n'
        for key in ("simulated", "azure_export")
    ]
    aliased = 'resource "nexus_site" "s" {\n  provider = simulated.x\n}\n'
    Path("m/main.nf.hcl").write_text(
        'provider "simulated" {\n  alias = "x"\n}\n' + aliased + "".join(resources)
    )
    Path("main.nf.hcl").write_text('module "m" {\n  source = "./m"\n}\n')
    assert validate(capsys) == [
        ("error", "invalid-provider-configuration", 1),
        ("error", "provider-configuration-not-present", 4),
        ("error", "provider-configuration-not-present", 10),
    ]


def test_outputs_without_references_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the root module and in modules."""
    monkeypatch.chdir(tmp_path)
    Path("m").mkdir()
    output = 'output "o" {\n  value = tonumber("x")\n}\n'
    Path("m/main.nf.hcl").write_text("\n" + output)
    Path("main.nf.hcl").write_text('module "m" {\n  source = "./m"\n}\n' + output)
    assert validate(capsys) == [
        ("error", "invalid-function-argument", 3),
        ("error", "invalid-function-argument", 5),
    ]
    assert run_command_line(["plan", "-no-color"]) == 1
    assert capsys.readouterr().err.count("Error: Invalid function argument") == 2


@pytest.mark.parametrize(
    ("path", "flags", "code"),
    [
        ("main.nf.hcl", [], 0),
        ("sub/../main.nf.hcl", [], 0),
        ("tests/a.nftest.hcl", [], 1),
        ("a.nftest.hcl", [], 0),
        ("a.nftest.hcl", ["-no-tests"], 1),
        ("other.hcl", [], 1),
        (".hidden.nf.hcl", [], 1),
        ("terraform.nfvars.hcl", [], 1),
    ],
)
def test_file_that_is_not_read_is_no_success(
    path: str,
    flags: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("tests").mkdir()
    Path("main.nf.hcl").write_text('resource "nexus_site" "a" {\n}\n')
    Path("a.nftest.hcl").write_text('run "a" {\n}\n')
    Path("tests/a.nftest.hcl").write_text('run "a" {\n}\n')
    for name in ("other.hcl", ".hidden.nf.hcl", "terraform.nfvars.hcl"):
        Path(name).write_text("garbage {")
    assert run_command_line(["validate", *flags, path]) == code
    said = capsys.readouterr()
    assert ("Success!" in said.out) == (code == 0)
    assert run_command_line(["validate", *flags, path, "-json"]) == code
    assert json.loads(capsys.readouterr().out)["valid"] == (code == 0)


@pytest.mark.parametrize("path", ["loop.nf.hcl", "main.nf.hcl"])
def test_link_to_itself_is_an_unreadable_file(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text('resource "nexus_site" "a" {\n}\n')
    Path("loop.nf.hcl").symlink_to("loop.nf.hcl")
    assert run_command_line(["validate", path]) == 1
    said = capsys.readouterr().err
    assert "Internal error" not in said
    assert "loop.nf.hcl" in said
