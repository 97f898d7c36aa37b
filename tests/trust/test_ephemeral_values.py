"""Tests of ephemeral variables.

None of 40 canaries, each used in another place, is in a file or message.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.encryption.document_cipher import DocumentCipher
from tests.domains.hub.conftest import *  # noqa: F403 - the fixtures of a hub
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front

SETUP = """
locals {
  object   = { apiVersion = "v1", kind = "ConfigMap" }
  template = "{apiVersion: v1, kind: ConfigMap, metadata: {name: $${name}}, data: {a: $${value}}}"
}
"""
CHILD = """
variable "value" { ephemeral = true }
variable "plain" { default = "" }
output "value" {
  value     = "${var.value}-derived"
  ephemeral = true
}
"""


def build_canary(number: int) -> str:
    return f"canary-{number}-x"


def list_places(name: str) -> list[str]:
    """Read the places of a file: each is a block with `var.c{n}`."""
    return (Path(__file__).parent / "cases" / name).read_text().split("---\n")


def write_configuration(places: list[str], first: int) -> list[str]:
    """Write a configuration with one ephemeral variable per place; return the flags to set them."""
    Path("child").mkdir(exist_ok=True)
    Path("child/main.nf.hcl").write_text(CHILD)
    text = SETUP
    flags = []
    for number, place in enumerate(places, first):
        text += f'variable "c{number}" {{\n  type      = string\n  ephemeral = true\n}}\n'
        text += place.replace("{n}", str(number)) + "\n"
        flags.append(f"-var=c{number}={build_canary(number)}")
    Path("main.nf.hcl").write_text(text)
    return flags


def assert_no_canary(said: str) -> None:
    assert "canary-" not in said, said
    for path in Path().rglob("*"):
        if path.is_file():
            assert b"canary-" not in path.read_bytes(), path


def test_ephemeral_values_of_40_places_are_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    valid = list_places("ephemeral-valid.txt")
    mistakes = list_places("ephemeral-mistakes.txt")
    monkeypatch.chdir(tmp_path)
    assert len(valid) + len(mistakes) == 40

    def run(*words: str, code: int = 0) -> str:
        actual = run_command_line([*words])
        captured = capsys.readouterr()
        said = captured.out + captured.err
        assert actual == code, said
        assert_no_canary(said)
        return said

    flags = write_configuration(valid, 0)
    run("plan", "-out=p.nfplan", *flags)
    run("show", "p.nfplan")
    run("show", "-json", "p.nfplan")
    run("show", "-details", "p.nfplan")
    assert 'The ephemeral variable "c3" was set in the plan' in " ".join(
        run("apply", "p.nfplan", code=1).split()
    )
    run("apply", *flags, "p.nfplan")
    run("plan", "-json", *flags)
    run("show", "-report=markdown:-", "p.nfplan")
    run("show", "-json")
    run("state", "pull")
    run("output", "-json")
    run("apply", "-auto-approve", *flags[1:], "-var=c0=canary-other")
    for number, place in enumerate(mistakes):
        flags = write_configuration([place], number)
        run("plan", "-out=bad.nfplan", *flags, code=1)
        run("plan", "-json", *flags, code=1)
        run("apply", "-auto-approve", *flags, code=1)


@pytest.mark.parametrize(
    ("plan_flags", "apply_flags", "message"),
    [
        ((), ("-var=token=a",), "was not set in the plan, so it cannot be set now"),
        (("-var=token=a",), (), "was set in the plan, and plans do not contain its value"),
        (("-var=token=a",), ("-var=token=b",), ""),
        ((), (), ""),
    ],
)
def test_ephemeral_variable_is_set_in_both_plan_and_apply_or_in_neither(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    plan_flags: tuple[str, ...],
    apply_flags: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(
        'variable "token" {\n  type      = string\n  default   = null\n  ephemeral = true\n}\n'
        'resource "nexus_site" "lab" {}\n'
    )
    assert run_command_line(["plan", "-out=p.nfplan", *plan_flags]) == 0
    capsys.readouterr()
    assert run_command_line(["apply", *apply_flags, "p.nfplan"]) == bool(message)
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


ENCRYPTION = """
nexusform {
  encryption {
    key_provider "pbkdf2" "main" {
      passphrase_variable = "SITE_PASSPHRASE"
      iterations          = "200000"
    }
    method "aes_gcm" "main" {
      keys = key_provider.pbkdf2.main
    }
    state {
      method = method.aes_gcm.main
    }
    plan {
      method = method.aes_gcm.main
    }
  }
}
"""


def test_encrypted_files_contain_no_ephemeral_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cryptography")
    contents: list[bytes] = []
    encrypt = DocumentCipher.encrypt

    def record_content(cipher: DocumentCipher, content: bytes, *rest: Any, **named: Any) -> bytes:
        contents.append(content)
        return encrypt(cipher, content, *rest, **named)

    monkeypatch.setattr(DocumentCipher, "encrypt", record_content)
    monkeypatch.setenv("SITE_PASSPHRASE", "canary-passphrase-long-enough")
    monkeypatch.chdir(tmp_path)
    flags = write_configuration(list_places("ephemeral-valid.txt"), 0)
    Path("main.nf.hcl").write_text(ENCRYPTION + Path("main.nf.hcl").read_text())
    for words in (
        ["plan", "-out=p.nfplan"],
        ["show", "-json", "p.nfplan"],
        ["apply", "p.nfplan"],
        ["state", "pull"],
    ):
        assert (
            run_command_line(
                [*words[:1], *(flags if words[0] in ("plan", "apply") else ()), *words[1:]]
            )
            == 0
        )
    printed = capsys.readouterr()
    assert_no_canary(printed.out + printed.err)
    # plan, journal and state.
    assert len(contents) > 2
    for content in contents:
        texts = [content]
        if zipfile.is_zipfile(io.BytesIO(content)):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                texts = [archive.read(name) for name in archive.namelist()]
        assert not any(b"canary-" in text for text in texts)


MANIFEST = """
variable "token" {
  type      = string
  ephemeral = true
}
provider "fleet" {}
resource "fleet_hub_manifest" "token" {
  provider             = fleet
  yaml_body_wo = yamlencode({
    apiVersion = "v1"
    kind       = "Secret"
    metadata   = { name = "t", namespace = "web" }
    stringData = { token = var.token }
    type       = length(var.token) > 12 ? 1 : "Opaque"
  })
  yaml_body_wo_version = VERSION
}
"""


def test_write_only_body_is_valid_while_its_variable_is_unset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`validate` needs no values; a plan reports the missing value alone."""
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(MANIFEST.replace("VERSION", "1"))
    assert run_command_line(["validate"]) == 0
    assert "The configuration is valid." in capsys.readouterr().out
    assert run_command_line(["plan", "-input=false"]) == 1
    errors = capsys.readouterr().err
    assert "No value for required variable" in errors
    assert "Invalid use of ephemeral value" not in errors


def test_write_only_body_is_sent_only_to_the_hub(hub: Front, run_command: CommandRunner) -> None:
    def read_token() -> str:
        secret = hub.get("Secret", "t", "web")
        assert secret is not None
        return json.dumps(secret)

    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}})
    Path("main.nf.hcl").write_text(MANIFEST.replace("VERSION", "1"))
    for words in (
        ("plan", "-out=p.nfplan", "-var=token=canary-1"),
        ("apply", "-var=token=canary-2", "p.nfplan"),
    ):
        code, said = run_command(*words)
        assert code == 0, said
        assert_no_canary(said)
    assert "canary-2" in read_token() or "Y2FuYXJ5LTI=" in read_token()
    # Only the version counts: a changed text alone is no change.
    code, said = run_command("plan", "-detailed-exitcode", "-var=token=canary-3")
    assert code == 0, said
    Path("main.nf.hcl").write_text(MANIFEST.replace("VERSION", "2"))
    code, said = run_command("apply", "-auto-approve", "-var=token=canary-3")
    assert (code, "yaml_body_wo_version 1 -> 2" in said) == (0, True), said
    assert_no_canary(said)
    assert "canary-3" in read_token() or "Y2FuYXJ5LTM=" in read_token()
    code, said = run_command("apply", "-auto-approve", "-var=token=canary-rejected")
    assert_no_canary(said)
