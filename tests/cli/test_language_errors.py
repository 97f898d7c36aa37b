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
