"""Tests of scripts of `az` commands: the real `az` parses each argument as intended.

NEXUSFORM_AZ names a real `az` with the extension networkcloud. It is never signed in: it parses a
command before it checks the credentials.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.azure.rendering.az_script import ARGUMENTS, EXTENSION, MACHINE
from nexusform.domains.azure.rendering.azure_objects import CLUSTER, POOL

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFdYtpZ0kWzTQFgNDnQAMOCKh8LJ5jQ0dOWKZtBTZNLr me@here"
needs_az = pytest.mark.skipif(
    "NEXUSFORM_AZ" not in os.environ, reason="NEXUSFORM_AZ names no az with the extension"
)
CONFIGURATION = """resource "nexus_site" "s" {
}
resource "nexus_rack" "r1" {
  site_id       = nexus_site.s.id
  machine_count = 8
}
resource "nexus_kubernetes_cluster" "c" {
  site_id            = nexus_site.s.id
  kubernetes_version = "v1.31"
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "np" {
    count       = 1
    vm_sku_name = "NC_P4_28_v1"
    labels      = { a = "1.10", "b.c/d" = "it's {x}" }
    azure {
      body = { properties = {
        agentOptions                 = { hugepagesCount = 8, hugepagesSize = "1G" }
        administratorConfiguration   = { adminUsername = "a'b", sshPublicKeys = [{ keyData = "KEY" }] }
        attachedNetworkConfiguration = { l3Networks = [{ networkId = "/n/l3", pluginType = "SRIOV" }] }
      } }
    }
  }
  azure {
    body = {
      tags       = TAGS
      properties = { administratorConfiguration = { sshPublicKeys = [{ keyData = "KEY" }] } }
    }
  }
  depends_on = [nexus_rack.r1]
}
resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 64
  azure {
    body = {
      tags       = TAGS
      properties = {
        networkAttachments = [
          { attachedNetworkId = "/n/l2", ipAllocationMethod = "Disabled", ipv4Address = "" }
        ]
        userData           = "I2Nsb3VkLWNvbmZpZwo=="
      }
    }
  }
  depends_on = [nexus_kubernetes_cluster.c]
}
"""  # noqa: E501
TAGS = {
    "ManagedBy": "nc",
    "Own Er": "x=1",
    "Dot.ted/x": "",
    "it's": "'q'",
    "n": "null",
    "h": "??",
    "v": "1.10",
}


def export_commands(place: Path, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Return the arguments of every command in the script for the configuration."""
    tags = "{ " + ", ".join(f'"{name}" = "{value}"' for name, value in TAGS.items()) + " }"
    (place / "main.nf.hcl").write_text(CONFIGURATION.replace("TAGS", tags).replace("KEY", KEY))
    assert run_command_line(["plan", "-out=p", "-samples=0"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run_command_line(["export", "-format=az", "p"]) == 0, capsys.readouterr().err
    text = capsys.readouterr().out
    assert EXTENSION in text
    lines = text.replace("\\\n", " ").splitlines()
    filled = (re.sub(r"\"?\$[A-Z_]+\"?", "value", line) for line in lines if line.startswith("az "))
    return [shlex.split(line) for line in filled]


def test_tags_keep_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tags keep their names; names with special characters for the shorthand are quoted."""
    monkeypatch.chdir(tmp_path)
    commands = export_commands(tmp_path, capsys)
    assert [words[2] for words in commands] == ["kubernetescluster", "virtualmachine"]
    for words in commands:
        start = words.index("--tags") + 1
        assert words[start : start + len(TAGS)] == [
            "'Dot.ted/x'=''",
            "ManagedBy=nc",
            "'Own Er'=x=1",
            "h='??'",
            "'it'/s'=''/q'/'",
            "n='null'",
            "v=1.10",
        ]


@needs_az
@pytest.mark.slow
def test_real_az_parses_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = export_commands(tmp_path, capsys)
    removed = shlex.split("az networkcloud virtualmachine delete --name v --resource-group g --yes")
    machine = shlex.split(
        "az networkcloud baremetalmachine cordon --name m --resource-group g --evacuate True"
    )
    extensions = Path.home() / ".azure" / "cliextensions"
    environment = {
        "AZURE_EXTENSION_DIR": str(extensions),
        **os.environ,
        "AZURE_CONFIG_DIR": str(tmp_path / "az"),
    }
    for words in [*commands, removed, machine]:
        told = subprocess.run(
            [os.environ["NEXUSFORM_AZ"], *words[1:]],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Please run 'az login' to setup account" in told.stderr, (words, told.stderr)


@needs_az
@pytest.mark.parametrize(("kind", "verb"), ARGUMENTS)
def test_recorded_flags_match_real_az(kind: str, verb: str) -> None:
    nouns = {
        CLUSTER: "kubernetescluster",
        POOL: "kubernetescluster agentpool",
        MACHINE: "baremetalmachine",
    }
    noun = nouns.get(kind, "virtualmachine")
    words = [os.environ["NEXUSFORM_AZ"], "networkcloud", *noun.split(), verb, "--help"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert ARGUMENTS[kind, verb] <= set(re.findall(r"--([a-z-]+)", text))
