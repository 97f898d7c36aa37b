"""Tests of sensitive values: they are in no message, report, key or source line."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pytest

import nexusform
from nexusform.cli.main import run_command_line
from nexusform.cli.report_flag import FORMATS

CANARY = "CANARY"
NUMBER = "987654321987"
VARIABLES = f"""
variable "s" {{
  type      = string
  sensitive = true
  default   = "{CANARY}[("
}}
variable "n" {{
  type      = number
  sensitive = true
  default   = {NUMBER}
}}
variable "m" {{
  type      = map(string)
  sensitive = true
  default   = {{ {CANARY}KEY = "{CANARY}" }}
}}
"""
MISTAKES = """
regex(var.s,"abc") regexall("(",var.s) replace("a","/${var.s}/","b") var.n/0 -var.s var.s+1 var.s?1:2
[1,2][var.n] var.m[var.s] parseint(var.s,10) jsondecode(var.s) yamldecode(var.s) csvdecode(var.s)
tonumber(var.s) tobool(var.s) file(var.s) filebase64(var.s) fileset(".",var.s) templatefile(var.s,{})
templatestring(var.s,{}) timeadd(var.s,"1h") formatdate(var.s,"2020-01-01T00:00:00Z")
timecmp(var.s,var.s) cidrsubnet(var.s,1,1) cidrhost("10.0.0.0/8",var.n) format(var.s,1)
formatlist("%d",var.s) lookup(var.m,var.s) element([],var.n) base64decode(var.s) base64gunzip(var.s)
urlencode(var.m) range(var.n) chunklist([1],-var.n) zipmap([var.s],[1,2]) one([var.s,2])
index(["a"],var.s) setproduct(var.s) merge(var.s) substr("abc",var.n,"x") uuidv5(var.s,"x")
bcrypt(var.s,var.n) "${var.m}" toset(var.n) sum([var.s]) slice([1],var.n,1) keys(var.s) flatten(var.s)
title(var.m) pow(var.s,2) log(var.n,-1)
"""  # noqa: E501


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(VARIABLES)
    return tmp_path


def read_output(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_value_of_a_deleted_object_is_in_no_message(capsys: pytest.CaptureFixture[str]) -> None:
    """It differs from the plan, so the object is kept."""
    Path("main.nf.hcl").write_text(DELETED)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert run_command_line(["plan", "-destroy", "-out=p"]) == 0
    site = Path("site.json")
    site.write_text(site.read_text().replace("77", "78"))
    capsys.readouterr()
    assert run_command_line(["apply", "p"]) == 1
    output = " ".join(read_output(capsys).split())
    assert "wait_time_minutes of nexus_site lab changed since the plan. The object was" in output
    assert "77" not in output
    assert "78" not in output


DELETED = """
variable "size" {
  type      = number
  sensitive = true
  default   = 77
}
provider "simulated" {
  reality = "site.json"
}
resource "nexus_site" "s" {
  name = "lab"
  update_strategy {
    wait_time_minutes = var.size
  }
}
"""
FAULT = """
variable "secret" {
  default   = "canary-7351"
  sensitive = true
}
provider "simulated" {
  fault {
    address   = "*"
    operation = "create"
    answer    = ANSWER
  }
}
resource "nexus_site" "s" {}
"""


def test_no_message_contains_a_sensitive_value(capsys: pytest.CaptureFixture[str]) -> None:
    for position, expression in enumerate(MISTAKES.split()):
        Path(f"o{position}.nf.hcl").write_text(
            f'output "o{position}" {{\n  value = {expression}\n}}\n'
        )
    assert run_command_line(["plan", "-no-color"]) == 1
    text = read_output(capsys)
    assert text.count("Error: ") > 45
    assert CANARY not in text
    assert NUMBER not in text


def test_fixed_problem_texts_are_recorded_unchanged() -> None:
    """The only problems reported for sensitive arguments contain just fixed text."""
    calls = 0
    for path in Path(nexusform.__file__).parent.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "FixedProblem" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "FixedProblem":
                written = ast.unparse(node.args[0])
                assert isinstance(node.args[0], ast.Constant) or written in (
                    "NULL_ARGUMENT",
                    "_REDACTED_MESSAGE",
                    # Of a conversion: types, never values.
                    "problem.message",
                ), f"{path}: {written}"
                calls += 1
    assert calls > 60


def test_value_of_wrong_type_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.nfvars.hcl").write_text(f's = ["{CANARY}"]\nm = "{CANARY}"\n')
    assert run_command_line(["plan", "-var-file=x.nfvars.hcl"]) == 1
    assert run_command_line(["plan", "-var", f"m=[{CANARY}"]) == 1
    assert run_command_line(["plan", "-var", f'm=["{CANARY}"]']) == 1
    monkeypatch.setenv("NF_VAR_n", CANARY)
    assert run_command_line(["plan"]) == 1
    text = read_output(capsys)
    assert CANARY not in text
    assert "(from x.nfvars.hcl:1" in text
    assert "hidden because" in " ".join(text.replace("│", " ").split())


def test_keys_of_sensitive_map_are_in_no_report(capsys: pytest.CaptureFixture[str]) -> None:
    Path("more.nf.hcl").write_text(
        """
output "m" {
  value     = var.m
  sensitive = true
}
output "keys" {
  value     = { (var.s) = 1 }
  sensitive = true
}
resource "nexus_site" "s" {}
"""
    )
    reports = [
        f"-report={kind}:r.{kind}"
        for kind in ("json", "markdown", "html", "sarif", "junit", "text")
    ]
    assert run_command_line(["plan", "-out=p", *reports]) == 0
    assert run_command_line(["show", "p"]) == 0
    assert run_command_line(["show", "-json", "p"]) == 0
    assert run_command_line(["apply", "-auto-approve", "-json"]) == 0
    assert run_command_line(["show", "-json"]) == 0
    assert run_command_line(["show"]) == 0
    assert run_command_line(["state", "show", "nexus_site.s"]) == 0
    assert run_command_line(["output"]) == 0
    text = read_output(capsys) + "".join(path.read_text() for path in Path().glob("r.*"))
    assert CANARY not in text
    assert '"m":{"value":{}}' in "".join(Path("r.json").read_text().split())


BROKEN_VALUES = {
    "nexusform.nfvars.hcl": [
        f's = "{CANARY}',
        f's = {CANARY}"',
        f's = "x" "{CANARY}"',
        f"{CANARY} x {{",
        f's = "%{{{CANARY}"',
        f'other = "{CANARY}"',
        f's = "a"\ns = "{CANARY}"',
    ],
    "nexusform.nfvars.json": [
        f'{{"s": {CANARY}}}',
        f'{{"s": "{CANARY}", "n": []}}',
        f'["{CANARY}"]',
        f'{{"other": "{CANARY}"}}',
        f'{{"s": "\\q{CANARY}"}}',
    ],
}


@pytest.mark.parametrize(
    ("name", "text"), [(n, text) for n, texts in BROKEN_VALUES.items() for text in texts]
)
def test_lines_of_variable_files_are_never_shown(
    name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The value in an invalid line, and its sensitivity, are unknown."""
    Path(name).write_text(text + "\n")
    run_command_line(["plan", "-report=sarif:r.sarif"])
    said = read_output(capsys) + (Path("r.sarif").read_text() if Path("r.sarif").exists() else "")
    assert name in said
    assert CANARY not in said


def test_sensitive_value_is_rejected_as_for_each_key(capsys: pytest.CaptureFixture[str]) -> None:
    Path("more.nf.hcl").write_text('resource "nexus_site" "s" {\n  for_each = var.m\n}\n')
    assert run_command_line(["plan"]) == 1
    assert CANARY not in read_output(capsys)


def test_console_hides_sensitive_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.StringIO("var.s\nvar.m\n[var.n]\nregex(var.s, 1)\n{ (var.s) = 1 }\n")
    )
    run_command_line(["console"])
    text = read_output(capsys)
    assert CANARY not in text
    assert NUMBER not in text


WHERE_SECRETS_BEGIN = f"""
variable "s" {{
  sensitive = true
  default   = "{CANARY}"
}}
provider "simulated" {{
  fault {{
    address   = "nexus_virtual_machine.*"
    operation = "create"
    error     = "boom ${{var.s}}"
  }}
}}
resource "nexus_site" "s" {{}}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.s.id
  machine_count = 2
}}
resource "nexus_kubernetes_cluster" "a" {{
  site_id = nexus_site.s.id
  control_plane {{
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }}
  agent_pool "p" {{
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
    labels      = {{ (var.s) = var.s }}
  }}
}}
resource "nexus_virtual_machine" "v" {{
  site_id    = nexus_site.s.id
  cpu_cores  = 2
  memory_gib = 4
  disk_gib   = 10
}}
"""


def test_messages_of_provider_with_sensitive_settings_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(WHERE_SECRETS_BEGIN)
    assert run_command_line(["apply", "-auto-approve"]) == 1
    told = capfd.readouterr()
    assert "The message of the provider is hidden" in " ".join(told.out.split())
    assert CANARY not in told.out + told.err
    assert f"boom {CANARY}" not in Path("state/nexusform.nfstate.journal").read_text()


@pytest.mark.parametrize(
    "answer", ["{ name = var.secret }", "var.secret", '{ "nodes[0].machine" = "x-${var.secret}" }']
)
def test_planted_answer_must_not_be_sensitive(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would become an attribute of the object and be shown as one."""
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(FAULT.replace("ANSWER", answer))
    assert run_command_line(["apply", "-auto-approve"]) == 1
    told = capsys.readouterr()
    assert "is sensitive, but an answer of a provider" in " ".join(
        told.err.replace("│", " ").split()
    )
    assert "canary" not in (told.out + told.err)
    assert not Path("state").exists()


def test_node_labels_derived_from_sensitive_values_are_sensitive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = "nexus_kubernetes_cluster.a.nodes"
    outputs = f'output "machines" {{\n  value = [for node in values({nodes}) : node.machine]\n}}\n'
    Path("main.nf.hcl").write_text(WHERE_SECRETS_BEGIN.replace("create", "delete") + outputs)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    for expression in (
        "nexus_kubernetes_cluster.a",
        nodes,
        f'{nodes}["a-p-0"].labels',
        f"[{nodes}]",
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{expression}\n"))
        assert run_command_line(["console"]) == 0
    Path("out.nf.hcl").write_text(f'output "nodes" {{\n  value = {nodes}\n}}\n')
    assert run_command_line(["plan"]) == 1
    told = capfd.readouterr()
    assert "sensitive" in told.err
    # Other labels are shown.
    assert "r-bm0" in told.out
    assert CANARY not in told.out + told.err


@pytest.mark.parametrize(
    "value",
    [
        "var.s",
        "[var.s]",
        "{(var.s) = 1}",
        "keys(var.m)",
        "{for k, v in var.m : k => 1}",
        "templatestring(var.s, {})",
    ],
)
def test_rejected_output_is_in_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(
        'variable "s" {\n  sensitive = true\n}\n'
        'variable "m" {\n  sensitive = true\n  type = map(string)\n}\n'
        f'output "o" {{\n  value = {value}\n}}\n'
    )
    monkeypatch.setenv("NF_VAR_s", "hunter2")
    monkeypatch.setenv("NF_VAR_m", '{ hunter2 = "hunter2" }')
    reports = [f"-report={name}:{name}" for name in FORMATS if name != "github-review"]
    assert run_command_line(["plan", *reports]) == 1
    shown = capfd.readouterr()
    assert "hunter2" not in shown.out + shown.err
    for name in FORMATS:
        if name != "github-review":
            assert "hunter2" not in Path(name).read_text(encoding="utf-8"), name


KUBERNETES_SECRETS = f"""
apiVersion: v1
kind: Namespace
metadata:
  name: shop
---
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Secret
    metadata:
      name: s
      namespace: shop
    stringData:
      password: {CANARY}
"""
HUB = """
resource "fleet_hub_manifest" "m" {
  yaml_body = file("m.yaml")
}
"""


@pytest.mark.of_domains("fleet")
def test_kubernetes_secrets_are_in_no_report(capsys: pytest.CaptureFixture[str]) -> None:
    Path("main.nf.hcl").write_text(HUB)
    Path("m.yaml").write_text(KUBERNETES_SECRETS)
    reports = [f"-report={kind}:r.{kind}" for kind in ("json", "markdown", "html", "sarif", "text")]
    assert run_command_line(["plan", "-details", "-out=p", *reports]) == 0
    assert "Secret" in Path("r.json").read_text()
    assert run_command_line(["apply", "p"]) == 0
    marked = (
        '"sensitive_attributes": [\n            [\n              "yaml_body"\n            ]\n     '
        "     ]"
    )
    assert marked in Path("state/nexusform.nfstate").read_text()
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0
    Path("m.yaml").write_text(KUBERNETES_SECRETS.replace(CANARY, CANARY + "2"))
    later = [f"-report={kind}:l.{kind}" for kind in ("json", "markdown", "html", "sarif", "text")]
    for words in (["plan", "-details", *later], ["show"], ["show", "-json"], ["plan", "-json"]):
        assert run_command_line(words) == 0
    assert run_command_line(["state", "show", "fleet_hub_manifest.m"]) == 0
    text = read_output(capsys) + "".join(
        path.read_text() for path in (*Path().glob("r.*"), *Path().glob("l.*"))
    )
    assert CANARY not in text
