"""Tests of errors of the language: one error per mistake, with its place, in the first command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITE = 'resource "nexus_site" "s" {}\n'
RACK = """
resource "nexus_rack" "r" {{
  {}
  site_id       = nexus_site.s.id
  machine_count = 1
}}
"""
CLUSTER = """
resource "nexus_kubernetes_cluster" "web" {{
  site_id = nexus_site.s.id
  control_plane {{
    count       = 3
    vm_sku_name = "{plane}"
  }}
  agent_pool "a" {{
    count       = 4
    vm_sku_name = "NC_P22_112_v1"
  }}
  agent_pool "b" {{
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
  }}
}}
"""


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that writes files, runs a command, and returns its code and text.

    The text is on one line. A single text is main.nf.hcl.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")

    def run_nexusform(files: Mapping[str, str] | str, *arguments: str) -> tuple[int, str]:
        for name, text in ({"main.nf.hcl": files} if isinstance(files, str) else files).items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
        code = run_command_line(list(arguments))
        captured = capsys.readouterr()
        return code, " ".join((captured.out + captured.err).replace("│", " ").split())

    return run_nexusform


def list_ids(run: Run, text: str) -> list[str]:
    """Return the ids of the errors of `validate`."""
    diagnostics = json.loads(run(text, "validate", "-json")[1])["diagnostics"]
    return [d["id"] for d in diagnostics if d["severity"] == "error"]


@pytest.mark.parametrize(
    "expression", ['format("%s", null)', 'format("%d", var.x)', 'formatlist("%s", [null])']
)
def test_format_of_null_fails_in_plan(run: Run, expression: str) -> None:
    text = f'variable "x" {{\n  default = null\n}}\noutput "o" {{\n  value = {expression}\n}}\n'
    code, printed = run(text, "plan")
    assert code == 1
    assert "null value cannot be formatted" in printed


def test_wrong_part_of_a_value_is_named(run: Run) -> None:
    module = 'variable "c" {\n  type = list(object({ ports = map(number) }))\n}\n'
    call = 'module "m" {\n  source = "./m"\n  c      = [{ ports = { http = "a" } }]\n}\n'
    files = {"main.nf.hcl": call, "m/main.nf.hcl": module}
    _, printed = run(files, "plan")
    assert '[0].ports["http"]: a number is required.' in printed


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        ("nexus_rack.many.id", "missing-instance-key"),
        ("nexus_site.s[0].id", "unexpected-instance-key"),
        ("module.many.o", "missing-instance-key"),
        ('module.one["a"].o', "unexpected-instance-key"),
    ],
)
@pytest.mark.parametrize("command", ["validate", "plan"])
def test_wrong_instance_key_is_one_error(run: Run, reference: str, kind: str, command: str) -> None:
    many = RACK.format('count = 2\n  name = "r${count.index}"').replace('"r" {', '"many" {')
    calls = 'module "many" {\n  source = "./m"\n  count = 2\n}\n'
    calls += 'module "one" {\n  source = "./m"\n}\n'
    text = SITE + many + calls + f'output "o" {{\n  value = {reference}\n}}\n'
    files = {"main.nf.hcl": text, "m/main.nf.hcl": 'output "o" {\n  value = 1\n}\n'}
    code, printed = run(files, command)
    assert code == 1
    assert printed.count("Error: ") == 1
    assert kind in list_ids(run, text)


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("for_each = toset([nexus_site.s.id, timestamp()])", "part is timestamp() (main.nf.hcl:"),
        (
            'for_each = { for k, v in local.ids : "a${k}" => v }',
            "part is local.ids. Its value comes from uuid() (m/main.nf.hcl:2).",
        ),
        ("count = length(uuid())", "The unknown part is uuid() (main.nf.hcl:"),
    ],
)
def test_unknown_repetition_names_its_origin(run: Run, argument: str, words: str) -> None:
    name = "each.key" if "for_each" in argument else '"r${count.index}"'
    text = SITE + RACK.format(f"{argument}\n  name = {name}")
    text += 'module "m" {\n  source = "./m"\n}\nlocals {\n  ids = { (module.m.o) = 1 }\n}\n'
    module = 'output "o" {\n  value = "x-${uuid()}"\n}\n'
    code, printed = run({"main.nf.hcl": text, "m/main.nf.hcl": module}, "plan")
    assert code == 1
    assert words in printed


def test_error_of_for_each_names_its_block(run: Run) -> None:
    text = "locals {\n  l = []\n}\n" + SITE
    text += RACK.format("for_each = toset(local.l[0])\n  name = each.key")
    _, printed = run(text, "validate")
    assert 'in resource "nexus_rack" "r":' in printed


@pytest.mark.parametrize(
    ("collection", "words"),
    [
        ('[{ name = "a", n = 1 }, { name = "b" }]', "{ for o in COLLECTION : o.name => o }"),
        ("tolist([{ a = true, zone = 1 }])", "{ for o in COLLECTION : o.zone => o }"),
        ("toset([{ a = true }])", "{ for o in COLLECTION : o.ATTRIBUTE => o }"),
        ('["a", "b"]', "Use toset() to turn a list of strings into a set."),
    ],
)
@pytest.mark.parametrize("block", ["resource", "module"])
def test_for_each_of_objects_advises_a_map(
    run: Run, collection: str, words: str, block: str
) -> None:
    header = 'resource "nexus_site" "s"' if block == "resource" else 'module "s"'
    argument = "name = each.key" if block == "resource" else 'source = "./m"'
    text = f"{header} {{\n  for_each = {collection}\n  {argument}\n}}\n"
    code, printed = run({"main.nf.hcl": text, "m/main.nf.hcl": "locals {\n}\n"}, "validate")
    assert code == 1
    assert words in " ".join(printed.replace("│", " ").split())


@pytest.mark.parametrize(
    ("repetition", "name"), [("count = 2", "count.index"), ('for_each = toset(["a"])', "each.key")]
)
def test_prevent_destroy_is_the_same_for_all_instances(
    run: Run, repetition: str, name: str
) -> None:
    text = (
        f'resource "nexus_site" "s" {{\n  {repetition}\n  name = "${{{name}}}"\n'
        f'  lifecycle {{\n    prevent_destroy = {name} == "a"\n  }}\n}}\n'
    )
    code, printed = run(text, "validate")
    assert code == 1
    assert "is evaluated once for all instances" in " ".join(printed.replace("│", " ").split())
    assert "only when" not in printed


def test_removed_block_of_a_data_source_is_an_error(run: Run) -> None:
    code, printed = run("removed {\n  from = data.nexus_site.s\n}\n", "validate")
    assert code == 1
    assert "Data source address not allowed" in printed


IGNORED_TYPE = (
    "variable NAME {\n  type = object({ count = optional(number, 3),"
    " nested = optional(list(object({ a = optional(string) })), []) })\n  DEFAULT\n}\n"
)
IGNORED = {
    "{ cuont = 1 }": 'The type of the variable has no attribute "cuont": it is ignored. '
    'Did you mean "count"?',
    '{ nested = [({ "b" = "x" })] }': 'no attribute "b": it is ignored.',
}


@pytest.mark.parametrize("value", IGNORED)
@pytest.mark.parametrize("place", ["call", "default", "file"])
def test_misspelt_attribute_of_an_object_is_a_warning(run: Run, value: str, place: str) -> None:
    """As in OpenTofu 1.11."""
    variable = IGNORED_TYPE.replace("NAME", '"o"')
    files = {"main.nf.hcl": variable.replace("DEFAULT", "")}
    if place == "call":
        files["m/main.nf.hcl"] = variable.replace("DEFAULT", "")
        files["main.nf.hcl"] = f'module "m" {{\n  source = "./m"\n  o = {value}\n}}\n'
    elif place == "default":
        files["main.nf.hcl"] = variable.replace("DEFAULT", f"default = {value}")
    else:
        files["nexusform.nfvars.hcl"] = f"o = {value}\n"
    code, printed = run(files, "plan", "-no-color")
    assert code == 0, printed
    assert IGNORED[value] in " ".join(printed.replace("│", " ").split())
    files = {
        name: text.replace("cuont", "count").replace('"b"', "a") for name, text in files.items()
    }
    assert "Warning" not in run(files, "plan", "-no-color")[1]


def test_variable_of_invalid_type_is_not_missing_too(run: Run) -> None:
    code, printed = run('variable "x" {\n  type = lst(number)\n}\n', "plan")
    assert code == 1
    assert "Invalid type specification" in printed
    assert "No value for required variable" not in printed


def test_variable_of_terraform_is_named_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_VAR_y", "4")
    code, printed = run('variable "y" {\n  type = number\n}\n', "plan")
    assert code == 1
    assert "is not set, and has no default value" in printed
    assert printed.count("TF_VAR_y is set in the environment") == 1
    assert "y has its default" not in printed


@pytest.mark.parametrize("plane", ["NC_E110_448_v1", "own"])
def test_validate_rejects_control_plane_of_several_numa_cells(run: Run, plane: str) -> None:
    own = 'resource "nexus_vm_sku" "own" {\n  vcpus = 4\n  memory_gib = 4\n  numa_cells = 2\n}\n'
    text = SITE + own + CLUSTER.format(plane=plane)
    assert list_ids(run, text) == ["unsupported-control-plane-sku"]
    assert list_ids(run, text.replace("numa_cells = 2", "numa_cells = 1")) == (
        [] if plane == "own" else ["unsupported-control-plane-sku"]
    )


def test_target_without_its_new_racks_is_one_error(run: Run) -> None:
    racks = RACK.format('for_each = toset(["l", "r"])\n  name = each.key')
    text = SITE + racks.replace("count = 1", "count = 4") + CLUSTER.format(plane="NC_G12_56_v1")
    code, printed = run(text, "plan", "-target=nexus_kubernetes_cluster.web")
    assert code == 1
    assert printed.count("Error: ") == 1
    assert "no place for 9 VMs" in printed
    assert 'nexus_rack.r["l"], nexus_rack.r["r"]. Add -target=nexus_rack.r.' in printed
    flags = ("-target=nexus_kubernetes_cluster.web", "-target=nexus_rack.r")
    assert run(text, "plan", *flags)[0] == 0


def test_destroy_counts_forgotten_objects(run: Run) -> None:
    kept = 'resource "nexus_site" "kept" {\n  lifecycle {\n    destroy = false\n  }\n}\n'
    assert run(SITE + kept, "apply", "-auto-approve")[0] == 0
    _, printed = run(SITE + kept, "destroy", "-auto-approve")
    assert "Destroy complete! Resources: 1 destroyed, 1 forgotten." in printed


def test_version_has_the_fields_of_terraform(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["version", "-json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["terraform_version"].startswith("1.")
    assert document["terraform_outdated"] is False
    assert document["nexusform_version"]


@pytest.mark.parametrize(
    ("for_each", "key", "object_id"),
    [
        ('["b", "a"]', "each.value", "each.value"),
        ('tolist(["b", "a"])', '["b", "a"][each.key]', "each.value"),
        ('[{ n = "b" }, { n = "a" }]', "each.value.n", "each.value.n"),
        ('toset([{ n = "b" }, { n = "a" }])', "each.key.n", "each.value.n"),
        ("toset([1, 2])", '{ 1 = "a", 2 = "b" }[each.key]', "each.value"),
        ("{ a = 1, b = 2 }", "each.key", "each.value"),
    ],
)
def test_import_over_any_collection(run: Run, for_each: str, key: str, object_id: str) -> None:
    sites = 'resource "nexus_site" "s" {\n  for_each = toset(["a", "b"])\n  name = each.key\n}\n'
    block = (
        f"import {{\n  for_each = {for_each}\n  to = nexus_site.s[{key}]\n  id = {object_id}\n}}\n"
    )
    # The simulated provider has no objects: its errors name the requested ones.
    _, printed = run(sites + block, "plan")
    requests = re.findall(r'importing nexus_site.s\["(.)"\], .*? with the id "(.)"', printed)
    ids = ["1", "2"] if "1" in for_each else ["a", "b"]
    assert sorted(requests) == list(zip(["a", "b"], ids, strict=True))
    assert printed.count("Error: ") == 2


@pytest.mark.parametrize("values", ["[null]", "toset([null])", "null", '"text"', "[sensitive(1)]"])
def test_unsuitable_import_collection_is_an_error(run: Run, values: str) -> None:
    block = f"import {{\n  for_each = {values}\n  to = nexus_site.s\n  id = each.value\n}}\n"
    assert run(SITE + block, "plan")[0] == 1


@pytest.mark.parametrize(
    "block", ["", 'resource "nexus_site" "s" {\n  count = 0\n  name  = "s"\n}\n']
)
def test_import_of_object_in_state_without_configuration_is_an_error(run: Run, block: str) -> None:
    address = "nexus_site.s[0]" if block else "nexus_site.s"
    before = block.replace("count = 0", "count = 1") if block else SITE
    assert run(before, "apply", "-auto-approve")[0] == 0
    imports = f'import {{\n  to = {address}\n  id = "s"\n}}\n'
    assert run(before + imports, "plan")[0] == 0
    code, printed = run(block + imports, "plan")
    assert code == 1
    assert printed.count("Error: ") == 1
    assert f'{address} is in the state already (id "s")' in printed
    assert run(block + imports, "plan", "-destroy")[0] == 0


def test_import_of_forgotten_object_says_that_it_leaves_the_state(run: Run) -> None:
    assert run(SITE, "apply", "-auto-approve")[0] == 0
    imports = 'import {\n  to = nexus_site.s\n  id = "s"\n}\n'
    removed = "removed {\n  from = nexus_site.s\n  lifecycle {\n    destroy = false\n  }\n}\n"
    code, printed = run(removed + imports, "plan")
    text = " ".join(printed.replace("│", " ").split())
    assert code == 1
    assert "the plan would remove it from the state" in text
    assert "remove this import block" in text
    assert "would destroy" not in text
    # As the message says.
    assert run(removed, "plan")[0] == 0


MODULE = """
variable "n" {
  type    = number
  default = 1
}
variable "o" {
  type    = object({ a = string })
  default = { a = "a" }
}
variable "required" {
  nullable = false
}
variable "checked" {
  default = 30
  validation {
    condition     = var.checked > 10
    error_message = "At least 10, not ${var.checked}."
  }
}
output "o" {
  value = "${var.n}${var.o.a}"
}
"""


TYPE_ERRORS = {
    "n = each.value": 'suitable for the variable "n" of module "m": a number is required.',
    'n = each.key == "bb" ? null : 1': 'The variable "n" of module "m" may not be null',
}


@pytest.mark.parametrize("argument", TYPE_ERRORS)
def test_wrong_argument_of_a_call_names_its_instance(run: Run, argument: str) -> None:
    call = 'module "m" {\n  source = "./m"\n  for_each = { aa = 1, bb = "x" }\n  ARGUMENT\n}\n'
    inner = 'variable "n" {\n  type = number\n  nullable = false\n}\n'
    files = {"main.nf.hcl": call.replace("ARGUMENT", argument), "m/main.nf.hcl": inner}
    code, printed = run(files, "plan", "-no-color")
    assert code == 1
    text = " ".join(printed.replace("│", " ").split())
    assert TYPE_ERRORS[argument] in text
    assert 'with module.m["bb"],' in text


@pytest.mark.parametrize("count", ["", "  count = 0\n", "  count = 2\n", "  count = var.unset\n"])
@pytest.mark.parametrize(
    ("argument", "kind", "words"),
    [
        ('n = "many"', "invalid-value-for-input-variable", "a number is required"),
        ("o = {}", "invalid-value-for-input-variable", 'attribute "a" is required'),
        ("o = { a = [] }", "invalid-value-for-input-variable", ".a: string required"),
        ("n = local.text", "invalid-value-for-input-variable", "a number is required"),
        ("required = null", "required-variable-not-set", "may not be null"),
        ("checked = 3", "invalid-value-for-variable", "At least 10, not 3."),
        ("checked = var.low", "invalid-value-for-variable", "At least 10, not 5."),
        ("n = var.secret", "ephemeral-value-not-allowed", "takes no ephemeral values"),
    ],
)
def test_validate_checks_values_of_module_calls(
    run: Run, count: str, argument: str, kind: str, words: str
) -> None:
    required = "" if "required" in argument else '  required = "x"\n'
    call = f'module "m" {{\n  source = "./m"\n{count}{required}  {argument}\n}}\n'
    names = 'locals {\n  text = "many"\n  low  = 5\n}\nvariable "unset" {\n  type = number\n}\n'
    names += 'variable "secret" {\n  type = number\n  ephemeral = true\n}\n'
    text = names + call.replace("var.low", "local.low")
    code, printed = run({"main.nf.hcl": text, "m/main.nf.hcl": MODULE}, "validate", "-no-color")
    assert code == 1
    assert words in printed
    assert printed.count("Error: ") == 1
    assert list_ids(run, text) == [kind]
    # The plan reports the same error, also for a module without instances.
    _, planned = run(text, "plan", "-var=unset=1", "-var=secret=1")
    assert words in planned


@pytest.mark.parametrize(
    ("default", "repetition", "rule"),
    [
        ("0", "count = var.x > 0 ? 1 : 0", "validation"),
        ("0", 'for_each = var.x > 0 ? toset(["a"]) : toset([])', "validation"),
        ("0", "count = local.copy > 0 ? 1 : 0", "validation"),
        ("0", "lifecycle {\n    enabled = var.x > 0\n  }", "validation"),
        ("null", "count = var.x == null ? 0 : 1", "nullable"),
        ("null", "for_each = toset(var.x[*])", "nullable"),
    ],
)
def test_calls_without_instances_may_pass_values_that_their_count_excludes(
    run: Run, default: str, repetition: str, rule: str
) -> None:
    names = f'variable "x" {{\n  type = number\n  default = {default}\n}}\n'
    names += "locals {\n  copy = var.x\n}\n"
    # Also in a module, whose variables come from a call.
    call = f'module "m" {{\n  source = "./m"\n  {repetition}\n  size = local.copy\n}}\n'
    outer = 'module "outer" {\n  source = "./outer"\n  x = var.x\n}\n'
    rules = {
        "validation": "validation {\n    condition = var.size >= 1\n"
        '    error_message = "Small."\n  }',
        "nullable": "nullable = false",
    }
    files = {
        "main.nf.hcl": names + call + outer,
        "m/main.nf.hcl": f'variable "size" {{\n  type = number\n  {rules[rule]}\n}}\n',
        "outer/main.nf.hcl": (names + call).replace("./m", "../m"),
    }
    assert run(files, "validate")[0] == 0
    code, printed = run(files["main.nf.hcl"], "plan", "-no-color")
    assert code == 0, printed
    assert "No changes." in printed


def test_validate_accepts_values_known_only_per_instance(run: Run) -> None:
    call = 'module "m" {\n  source = "./m"\n  for_each = toset(["20"])\n'
    call += "  required = each.key\n  n = each.key\n  checked = each.value\n}\n"
    files = {"main.nf.hcl": call, "m/main.nf.hcl": MODULE.replace("var.checked > ", "var.n > ")}
    files["m/main.nf.hcl"] = MODULE
    assert run(files, "validate")[0] == 0
    # The plan knows the keys.
    text = call.replace('"20"', '"5"')
    assert run(text, "validate")[0] == 0
    assert "At least 10, not 5." in run(text, "plan")[1]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ('try(module.many["x"].o, "none")', '"none"'),
        ('try(module.two[4].o, "none")', '"none"'),
        ('try(module.one.nothing, "none")', '"none"'),
        ('can(module.many["a"].nothing)', "false"),
        ("can(module.one.o)", "true"),
        ('length(module.two) > 3 ? module.two[3].o : "none"', '"none"'),
        ('contains(keys(module.many), "z") ? module.many["z"].o : "none"', '"none"'),
        ('false ? module.one.nothing : "none"', '"none"'),
        ('try(module.one["k"].o, "none")', '"none"'),
        ('try(module.two.o, "none")', '"none"'),
        ("try(upper(module.one.nothing), module.one.o)", '"v"'),
    ],
)
def test_missing_outputs_and_instances_can_be_tested(run: Run, expression: str, value: str) -> None:
    calls = 'module "many" {\n  source = "./m"\n  for_each = toset(["a"])\n}\n'
    calls += (
        'module "two" {\n  source = "./m"\n  count = 2\n}\nmodule "one" {\n  source = "./m"\n}\n'
    )
    text = f'{calls}output "r" {{\n  value = {expression}\n}}\n'
    files = {"main.nf.hcl": text, "m/main.nf.hcl": 'output "o" {\n  value = "v"\n}\n'}
    assert run(files, "validate")[0] == 0
    code, printed = run(text, "plan", "-no-color")
    assert code == 0, printed
    assert f"+ r = {value}" in printed
    # Outside of such an expression it is an error.
    if "nothing" in expression:
        wrong = text.replace(expression, "module.one.nothing")
        assert list_ids(run, wrong) == ["unsupported-attribute"]


READER = """
data "nexusform_remote_state" "other" {
  backend = "local"
  config = {
    path = "../a/state/nexusform.nfstate"
  }
}
output "t" {
  value = can(data.nexusform_remote_state.other.outputs.o[0])
}
"""


def test_type_of_output_is_a_change_for_its_readers(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_output(value: str, declared_type: str = "") -> str:
        return f'output "o" {{\n  value = {value}\n{declared_type}}}\n'

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "a")
    assert run(write_output('["a"]'), "apply", "-auto-approve")[0] == 0
    assert run(write_output('["a"]'), "plan", "-detailed-exitcode")[0] == 0
    monkeypatch.chdir(tmp_path / "b")
    assert "+ t = true" in run(READER, "plan", "-no-color")[1]
    monkeypatch.chdir(tmp_path / "a")
    code, printed = run(write_output('toset(["a"])'), "plan", "-detailed-exitcode", "-no-color")
    assert code == 2
    assert "~ o = (set of string, before tuple)" in printed
    assert run(write_output('toset(["a"])'), "apply", "-auto-approve")[0] == 0
    monkeypatch.chdir(tmp_path / "b")
    assert "+ t = false" in run(READER, "plan", "-no-color")[1]
    monkeypatch.chdir(tmp_path / "a")
    typed = write_output('toset(["a"])', "  type = list(string)\n")
    assert run(typed, "plan", "-detailed-exitcode")[0] == 2
    assert run(typed, "apply", "-auto-approve")[0] == 0
    assert run(typed, "plan", "-detailed-exitcode")[0] == 0
