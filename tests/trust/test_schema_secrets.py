"""Tests of secrets known from the schema: no output contains one, though nobody marked it."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.cli.report_flag import FORMATS
from nexusform.domains.vnf.providers import tacker_client
from nexusform.json_data.plain_data import Path as ValuePath
from nexusform.json_data.secret_paths import SECRET_FIELDS, find_secret_fields
from nexusform.workflow.plan_files.saved_plans import FORMATS as EXPORTS
from nexusform.workflow.runs import run as run_module
from tests.domains.vnf.providers.memory_tacker import MemoryTacker
from tests.domains.vnf.providers.test_tacker_ownership import VNFD

pytestmark = pytest.mark.of_domains("azure", "fleet", "pods", "vnf")

CANARY = "KANARIENVOGEL"
REQUEST = {
    "flavourId": "simple",
    "vimConnectionInfo": {
        "vim": {"vimType": "x", "accessInfo": {"username": "u", "password": f"{CANARY}-vim"}}
    },
    "additionalParams": {"token_of_driver": f"{CANARY}-request", "plain": f"{CANARY}-plain"},
}
BODIES = {
    "machine": {"bmcCredentials": {"username": f"{CANARY}-user", "password": f"{CANARY}-bmc"}},
    "vm": {
        "properties": {
            "userData": f"{CANARY}-data",
            "networkData": f"{CANARY}-network",
            "vmImageRepositoryCredentials": {"password": f"{CANARY}-acr", "username": "u"},
        },
        "tags": {"team": "net"},
    },
    "pool": {"properties": {"list": [{"sharedKey": f"{CANARY}-key"}]}},
}
SECRET = f"""apiVersion: v1
kind: Secret
metadata: {{name: s, namespace: web}}
stringData: {{password: {CANARY}-manifest}}
"""
CONFIGURATION = f"""
resource "nexus_site" "s" {{
  name = "s"
}}
resource "nexus_rack" "r" {{
  name          = "r"
  site_id       = nexus_site.s.id
  machine_count = 8
}}
resource "nexus_bare_metal_machine_action" "x" {{
  machine_id = "s/r/r-bm01"
  action     = "Replace"
  depends_on = [nexus_rack.r]
  azure {{
    body = {json.dumps(BODIES["machine"])}
  }}
}}
resource "nexus_virtual_machine" "v" {{
  site_id    = nexus_site.s.id
  name       = "v"
  cpu_cores  = 4
  memory_gib = 8
  disk_gib   = 64
  depends_on = [nexus_rack.r]
  azure {{
    body = {json.dumps(BODIES["vm"])}
  }}
}}
resource "nexus_kubernetes_cluster" "c" {{
  name    = "c"
  site_id = nexus_site.s.id
  control_plane {{
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }}
  agent_pool "np" {{
    count       = 1
    vm_sku_name = "NC_P10_56_v1"
    azure {{
      body = {json.dumps(BODIES["pool"])}
    }}
  }}
  depends_on = [nexus_rack.r]
}}
resource "tacker_vnf" "v" {{
  name                = "vnf"
  site_id             = nexus_site.s.id
  vnfd                = file("vnfd.yaml")
  instantiate_request = file("request.json")
  parameters          = {{ admin_password = "{CANARY}-parameter" }}
  depends_on          = [nexus_rack.r]
}}
resource "fleet_hub_manifest" "m" {{
  cluster_id = nexus_kubernetes_cluster.c.id
  yaml_body  = <<-EOT
{SECRET}
EOT
}}
"""
# One value for each marked path.
VALUES = 11


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tacker_client, "TackerClient", MemoryTacker)
    MemoryTacker.reset()
    Path("main.nf.hcl").write_text(CONFIGURATION)
    Path("vnfd.yaml").write_text(VNFD)
    Path("request.json").write_text(json.dumps(REQUEST))
    yield tmp_path
    MemoryTacker.reset()


Capture = pytest.CaptureFixture[str]


def run(capfd: Capture, *arguments: str, code: int = 0) -> str:
    result = run_command_line(list(arguments))
    captured = capfd.readouterr()
    output = captured.out + captured.err
    assert result == code, output
    return output


def check_hidden(label: str, text: str) -> None:
    """Check that a text has no secret."""
    index = text.find(CANARY)
    assert index < 0, f"{label}: {text[max(0, index - 200) : index + 60]}"


def test_no_output_contains_a_secret_of_the_schema(
    capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_LOG", "trace")
    reports = [f"-report={name}:report.{name}" for name in FORMATS if name != "github-review"]
    outputs = {
        "plan": run(capfd, "plan", "-details", "-placements=all", "-out=p.plan", *reports),
        "show plan": run(capfd, "show", "p.plan"),
        "show plan json": run(capfd, "show", "-json", "p.plan"),
        "configuration": run(capfd, "show", "-config", "-json"),
        "plan json": run(capfd, "plan", "-json"),
        "graph": run(capfd, "graph"),
        "validate": run(capfd, "validate", "-json"),
        "advise": run(capfd, "advise", code=2),
    }
    outputs |= {
        f"export {name}": run_any(capfd, "export", f"-format={name}", "p.plan") for name in EXPORTS
    }
    outputs["apply"] = run(capfd, "apply", "-json", "p.plan")
    outputs["show"] = run(capfd, "show")
    outputs["show json"] = run(capfd, "show", "-json")
    lines = run(capfd, "state", "list").splitlines()
    # Lines of the log have spaces.
    addresses = [line for line in lines if " " not in line]
    assert len(addresses) == 7
    for address in addresses:
        outputs[f"state show {address}"] = run(capfd, "state", "show", address)
        outputs[f"explain {address}"] = run_any(capfd, "explain", address)
    # Every secret changes.
    for path in ("main.nf.hcl", "request.json"):
        Path(path).write_text(Path(path).read_text().replace(CANARY, f"NEW-{CANARY}"))
    outputs["change"] = run(capfd, "plan", "-details", *[f"{flag}.2" for flag in reports])
    outputs["destroy"] = run(capfd, "plan", "-destroy", "-details")
    for path in Path().glob("report.*"):
        outputs[str(path)] = path.read_text()
    for label, text in outputs.items():
        check_hidden(label, text)
    assert outputs["plan"].count("(sensitive value)") >= VALUES
    shown = run(capfd, "show", "-show-sensitive")
    assert len(set(find_canaries(shown))) == VALUES


def test_crash_file_and_programs_get_no_secret(
    capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug whose message quotes the configuration, and a program of the operator."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    programs = tmp_path / "programs"
    programs.mkdir()
    dot = programs / "dot"
    dot.write_text(f"#!/bin/sh\n(env; cat) > {tmp_path}/dot.txt\necho '<svg></svg>'\n")
    dot.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("NF_VAR_password", f"{CANARY}-variable")
    monkeypatch.setenv("NF_LOG", "debug")
    output = run(capfd, "graph", "-format=svg")
    assert "<svg>" in output
    check_hidden("program", (tmp_path / "dot.txt").read_text())

    def fail(*_arguments: object, **_options: object) -> None:
        text = Path("main.nf.hcl").read_text()
        try:
            {}[text]
        except KeyError as problem:
            raise ValueError(f"no quantity: {text}") from problem

    monkeypatch.setattr(run_module.Run, "plan", fail)
    output += run(capfd, "plan", code=1)
    assert "Internal error (ValueError)" in output
    (crash,) = tmp_path.glob("nexusform-crash-*.log")
    text = crash.read_text()
    assert "in fail" in text
    assert text.index("KeyError: ...") < text.index("ValueError: ...")
    check_hidden("crash", text)
    check_hidden("output", output)


def test_request_to_a_server_has_its_own_secrets_alone(
    capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    send = MemoryTacker._send

    def record(self: MemoryTacker, method: str, path: str, *more: Any, **options: Any) -> Any:
        sent.append(json.dumps([method, path, more, options], default=str))
        return send(self, method, path, *more, **options)

    monkeypatch.setattr(MemoryTacker, "_send", record)
    provider = 'provider "tacker" {\n  endpoint = "http://127.0.0.1:1"\n  auth     = "none"\n}\n'
    managed = CONFIGURATION.replace(
        'resource "tacker_vnf" "v" {', 'resource "tacker_vnf" "v" {\n  provider = tacker'
    )
    Path("main.nf.hcl").write_text(provider + managed)
    run(capfd, "apply", "-auto-approve")
    secrets = set(find_canaries("\n".join(sent).replace("\\", "")))
    assert secrets == {"-vim", "-request", "-plain", "-parameter"}


def run_any(capfd: Capture, *arguments: str) -> str:
    """Return the output of a command that may have nothing to say."""
    run_command_line(list(arguments))
    captured = capfd.readouterr()
    return captured.out + captured.err


def find_canaries(text: str) -> list[str]:
    """Return the values of secrets in a text."""
    return [word.split('"')[0].split("\\")[0].split()[0] for word in text.split(CANARY)[1:]]


def test_state_of_an_earlier_version_is_redacted(capfd: Capture) -> None:
    run(capfd, "apply", "-auto-approve")
    (path,) = Path().rglob("*.nfstate")
    document = json.loads(path.read_text())
    for entry in document["resources"]:
        for instance in entry["instances"]:
            instance.pop("sensitive_attributes", None)
    path.write_text(json.dumps(document))
    output = run(capfd, "show") + run(capfd, "show", "-json") + run(capfd, "plan", "-destroy")
    for name in ("vim", "bmc", "data", "acr", "key", "parameter"):
        assert f"{CANARY}-{name}" not in output


def test_message_about_a_secret_does_not_quote_it(capfd: Capture) -> None:
    Path("main.nf.hcl").write_text(
        CONFIGURATION.replace("stringData: {", f"immutable: {CANARY}-line\nstringData: {{")
    )
    output = run(capfd, "plan", code=1)
    check_hidden("plan", output)


@pytest.mark.parametrize("wrapper", ['sensitive(file("request.json"))', "var.request"])
def test_sensitive_request_decides_the_placement(capfd: Capture, wrapper: str) -> None:
    text = CONFIGURATION.replace('file("request.json")', wrapper)
    Path("main.nf.hcl").write_text(
        f'{text}\nvariable "request" {{\n  sensitive = true\n  default = ""\n}}\n'
    )
    Path("nexusform.nfvars.json").write_text(json.dumps({"request": json.dumps(REQUEST)}))
    output = run(capfd, "plan", "-placements=all", "-details")
    check_hidden("plan", output)
    assert "vnf-worker-0" in output
    # The parts of a request that somebody marked keep the mark.
    assert "flavour_id          = (sensitive value)" in output
    assert "nonsensitive" not in output


def test_fields_are_secret_by_their_name() -> None:
    body: dict[str, Any] = {
        "bmcCredentials": {"username": "u", "password": "p"},
        "adminPassword": "x",
        "client_secret": "x",
        "accessInfo": {"region": "r"},
        "items": [{"token": "x", "name": "n"}, {"connectionString": None}],
        "sshPublicKeys": [{"keyData": "ssh"}],
        "labels": {"key": "k"},
        "secretArchive": {"keyVaultId": "v"},
        "userData": "x",
    }
    expected: list[ValuePath] = [
        ("bmcCredentials", "username"),
        ("bmcCredentials", "password"),
        ("adminPassword",),
        ("client_secret",),
        ("accessInfo", "region"),
        ("items", 0, "token"),
        ("userData",),
    ]
    assert list(find_secret_fields(body, SECRET_FIELDS, ())) == expected


def write_vnf(version: int, connections: str = "var.vims", more: str = "") -> None:
    Path("main.nf.hcl").write_text(
        f"""provider "tacker" {{
  endpoint = "http://127.0.0.1:1"
  auth     = "none"
}}
variable "vims" {{
  type      = any
  ephemeral = true
}}
resource "nexus_site" "s" {{
  name = "s"
}}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.s.id
  machine_count = 6
}}
resource "tacker_vnf" "v" {{
  provider                       = tacker
  name                           = "v"
  site_id                        = nexus_site.s.id
  vnfd                           = file("vnfd.yaml")
  flavour_id                     = "simple"
  vim_connection_info_wo         = {connections}
  vim_connection_info_wo_version = {version}
  {more}
}}
"""
    )


def read_files() -> str:
    """Return the text of all files of the directory, and of the members of plan files."""
    texts = []
    for path in Path().rglob("*"):
        if path.is_file():
            texts.append(path.read_bytes().decode("utf-8", "replace"))
        if path.is_file() and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                texts += [
                    archive.read(name).decode("utf-8", "replace") for name in archive.namelist()
                ]
    return "\n".join(texts)


def test_write_only_connections_are_sent_and_never_stored(
    capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = {"vim": {"vimType": "x", "accessInfo": {"password": f"{CANARY}-wo"}}}
    monkeypatch.setenv("NF_VAR_vims", json.dumps(connections))
    sent: list[tuple[str, Any]] = []
    send = MemoryTacker._send

    def record(
        self: MemoryTacker, method: str, path: str, body: Any, *more: Any, **options: Any
    ) -> Any:
        sent.append((f"{method} {path.rpartition('/')[2]}", body))
        return send(self, method, path, body, *more, **options)

    monkeypatch.setattr(MemoryTacker, "_send", record)
    Path("request.json").unlink()
    write_vnf(1)
    output = run(capfd, "plan", "-details", "-out=p.plan")
    output += run(capfd, "apply", "-confine=false", "p.plan")
    assert dict(sent)["POST instantiate"]["vimConnectionInfo"] == connections
    sent.clear()
    # The same version sends nothing.
    assert "No changes." in run(capfd, "plan")
    write_vnf(2)
    output += run(capfd, "apply", "-auto-approve")
    assert [body for request, body in sent if request.startswith("PATCH")] == [
        {"vimConnectionInfo": connections}
    ]
    assert "No changes." in run(capfd, "plan")
    output += run(capfd, "show", "-json")
    check_hidden("output", output)
    check_hidden("files", read_files())


@pytest.mark.parametrize(
    ("connections", "version", "more", "message"),
    [
        ("null", "2", "", "has no effect without vim_connection_info_wo"),
        ("{ v = {} }", "null", "", "Set vim_connection_info_wo_version with it"),
        ('["x"]', "1", "", "must be a map of connections by id"),
        ('{ v = "x" }', "1", "", "must be a map of connections by id"),
        ("{ v = {} }", "1", 'instantiate_request = file("request.json")', "Remove it there"),
    ],
)
def test_wrong_connections_are_an_error(
    capfd: Capture, connections: str, version: Any, more: str, message: str
) -> None:
    os.environ.pop("NF_VAR_vims", None)
    write_vnf(version, connections, more)
    Path("main.nf.hcl").write_text(
        Path("main.nf.hcl").read_text().replace("ephemeral = true", "default = null")
    )
    output = " ".join(run(capfd, "plan", code=1).replace("│", " ").split())
    assert message in output
    check_hidden("output", output)
