from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nexusform.cli.completion import candidates, split_line
from nexusform.cli.main import COMMANDS, ROOT, run


def found(*words: str) -> list[str]:
    return [
        f"{c.kind} {c.value}" if c.kind != "word" else c.value
        for c in candidates(ROOT, words[:-1], words[-1])
    ]


def test_commands() -> None:
    assert found("pl") == ["plan"]
    assert found("") == list(COMMANDS)
    assert found("state", "l") == ["list", "lock"]
    assert found("nonsense", "") == []


def test_flags_with_as_many_dashes_as_typed() -> None:
    assert found("plan", "-det") == ["-detailed-exitcode", "-details"]
    assert found("plan", "--out") == ["--out="]
    assert found("-ch") == ["-chdir="]
    assert "-report=" in found("show", "-re")


def test_values() -> None:
    assert found("plan", "-placements=a") == ["-placements=all"]
    assert found("plan", "-placements", "n") == ["none"]
    assert found("plan", "-lock=f") == ["-lock=false"]
    assert found("graph", "-format", "") == ["dot", "svg", "mermaid"]
    assert found("plan", "-out=x/y") == ["file x/y"]
    assert found("plan", "-report=ht") == ["-report=html:"]
    assert found("plan", "-report=html:pa") == ["file pa"]
    assert found("-chdir=en") == ["directory en"]
    assert found("show", "") == ["file "]


SITE = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  for_each      = toset(["a", "b"])
  site_id       = nexus_site.lab.id
  name          = each.key
  machine_count = 2
}

resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.lab.id

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
}

output "rooms" {
  value = 1
}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration that was applied, and a workspace beside the default one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text(SITE)
    assert run(["apply", "-auto-approve", "-tie-breaks=0"]) == 0
    assert run(["workspace", "new", "proving"]) == 0
    assert run(["workspace", "select", "default"]) == 0
    return tmp_path


@pytest.mark.usefixtures("site")
def test_addresses_of_the_configuration_and_of_its_state() -> None:
    racks = ["nexus_rack.rack", 'nexus_rack.rack["a"]', 'nexus_rack.rack["b"]']
    assert found("explain", "nexus_r") == racks
    assert found("plan", "-target=nexus_r") == [f"-target={rack}" for rack in racks]
    assert found("plan", "-exclude", "nexus_r") == racks
    assert found("state", "rm", "nexus_site.lab", "nexus_s") == ["nexus_site.lab"]
    assert found("show", "nexus_s") == ["nexus_site.lab", "file nexus_s"]
    assert found("simulate", "kubernetes-upgrade", "") == ["nexus_kubernetes_cluster.web"]
    assert found("explain", "nexus_kubernetes_cluster.web", "web-") == ["web-control-plane-0"]
    assert found("output", "") == ["rooms"]


@pytest.mark.usefixtures("site")
def test_workspaces_and_skus() -> None:
    assert found("workspace", "select", "p") == ["proving"]
    assert found("workspace", "delete", "") == ["default", "proving"]
    assert found("simulate", "capacity", "-sku=NC_P4_") == ["-sku=NC_P4_28_v1"]
    assert found("simulate", "capacity", "-mix=2xNC_G6_28_v1,3xNC_P4_") == [
        "-mix=2xNC_G6_28_v1,3xNC_P4_28_v1"
    ]


FLEET = """
resource "fleet_member_cluster" "all" {
  for_each   = toset(["west-1", "west-2", "east"])
  name       = each.key
  labels     = { ring = "a", region = "b" }
  properties = { "kubernetes-fleet.io/node-count" = "3" }

  taint {
    key = "old"
  }
}
"""


@pytest.mark.usefixtures("site")
def test_members_of_the_fleet(site: Path) -> None:
    (site / "fleet.nf.hcl").write_text(FLEET)
    assert run(["apply", "-auto-approve", "-tie-breaks=0"]) == 0
    assert found("simulate", "fleet", "-leave=") == ["-leave=east", "-leave=west-1", "-leave=west-2"]
    assert found("simulate", "fleet", "-drain", "w") == ["west-1", "west-2"]
    assert found("simulate", "fleet", "-join=") == []
    assert found("simulate", "fleet", "-join=new=w") == ["-join=new=west-1", "-join=new=west-2"]
    assert found("simulate", "fleet", "-join=new=l") == ["-join=new=lab/web"]
    assert found("simulate", "fleet", "-label=e") == ["-label=east:"]
    assert found("simulate", "fleet", "-label=east:r") == ["-label=east:region=", "-label=east:ring="]
    assert found("simulate", "fleet", "-taint=east:") == ["-taint=east:old-"]
    assert found("simulate", "fleet", "-property=east:k") == [
        "-property=east:kubernetes-fleet.io/node-count="
    ]
    assert found("simulate", "fleet", "-health=east:No") == [
        "-health=east:NotJoined",
        "-health=east:NoHeartbeat",
        "-health=east:NoAgent",
        "-health=east:NoHealth",
    ]
    assert found("simulate", "fleet", "-health=nobody:H") == ["-health=nobody:Healthy"]


def test_nothing_is_read_from_afar(site: Path) -> None:
    (site / "main.nf.hcl").write_text(SITE + 'nexusform {\n  backend "http" {}\n}\n')
    assert found("explain", "nexus_r") == ["nexus_rack.rack"]
    assert found("workspace", "select", "") == []


def test_a_directory_named_before_the_command_counts(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (site / "empty").mkdir()
    monkeypatch.chdir(site / "empty")
    assert found("explain", "nexus_s") == []
    assert found("-chdir=..", "explain", "nexus_s") == ["nexus_site.lab"]


def test_beside_broken_configuration_state_counts(site: Path) -> None:
    (site / "main.nf.hcl").write_text("resource {")
    assert found("explain", "nexus_s") == ["nexus_site.lab"]
    (site / "state" / "nexusform.nfstate").write_text("{")
    assert found("explain", "nexus_s") == []


def test_words_of_a_line() -> None:
    assert split_line("nexusform plan -out=my\\ plan 'a b' \"c") == [
        "nexusform",
        "plan",
        "-out=my plan",
        "a b",
        "c",
    ]
    assert split_line("nexusform plan ") == ["nexusform", "plan", ""]
    assert split_line("") == [""]


# --- in real shells ----------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with nexusform in the PATH and a file to complete."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "nexusform"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m nexusform "$@"\n')
    program.chmod(0o755)
    (tmp_path / "saved.plan").write_text("")
    return tmp_path


def asked(home: Path, shell: str, script: str) -> list[str]:
    environment = {**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "HOME": str(home)}
    done = subprocess.run(
        [shell, "-c", script], cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


BASH = """
eval "$(nexusform completion bash)"
ask() {
    COMP_LINE="$1"; COMP_POINT=${#1}; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
    _nexusform_completion; echo "${COMPREPLY[*]}"
}
ask "nexusform pl" nexusform pl
ask "nexusform plan -placements=a" nexusform plan -placements = a
ask "nexusform plan -placements=" nexusform plan -placements =
ask "nexusform plan -report=js" nexusform plan -report = js
ask "nexusform show sav" nexusform show sav
ask "nexusform show -no" nexusform show -no
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash(home: Path) -> None:
    # bash cuts words at "=" and ":", and replaces only what follows.
    assert asked(home, "bash", BASH) == [
        "plan",
        "all",
        "changed all none",
        "json:",
        "saved.plan",
        "-no-color",
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_at_a_terminal(home: Path, site: Path) -> None:
    """Keys are pressed in an interactive bash; `echo` tells what the line became."""
    assert home == site
    master, slave = pty.openpty()
    environment = {
        **os.environ,
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "TERM": "dumb",
    }
    words = ["bash", "--norc", "--noprofile", "-i"]
    shell = subprocess.Popen(words, cwd=home, env=environment, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    keys = [
        'eval "$(nexusform completion bash)"; echo read""y\n',
        "nexusform state show nexus_si\t\x01echo \n",
        "nexusform workspace select pro\t\x01echo \n",
        'nexusform explain nexus_rack.rack[\\"a\t\x01echo \n',
        "nexusform plan -target=nexus_s\t\x01echo \n",
        "nexusform simulate capacity -format=ma\t\x01echo \n",
    ]
    expected = [
        "ready",
        "nexusform state show nexus_site.lab",
        "nexusform workspace select proving",
        'nexusform explain nexus_rack.rack["a"]',
        "nexusform plan -target=nexus_site.lab",
        "nexusform simulate capacity -format=markdown",
    ]
    try:
        for strokes, line in zip(keys, expected, strict=True):
            os.write(master, strokes.encode())
            assert line in heard(master, line)
    finally:
        shell.kill()
        shell.wait()
        os.close(master)


def heard(terminal: int, line: str) -> list[str]:
    """The lines that come from a terminal until one of them is `line`, or for half a minute."""
    said, until = "", time.monotonic() + 30
    while line not in said.splitlines() and time.monotonic() < until:
        if select.select([terminal], [], [], 0.2)[0]:
            said += os.read(terminal, 4096).decode().replace("\r", "")
    return said.splitlines()


FISH = """
nexusform completion fish | source
function ask; complete -C $argv | string split -f1 \\t; end
ask "nexusform pl"
ask "nexusform plan -placements=a"
ask "nexusform show -report=json:sav"
ask "nexusform show sav"
true
"""


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish(home: Path) -> None:
    assert asked(home, "fish", FISH) == ["plan", "-placements=all", "-report=json:saved.plan", "saved.plan"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_takes_the_script(home: Path) -> None:
    script = (
        'autoload -Uz compinit; compinit -u -D; eval "$(nexusform completion zsh)"; print $_comps[nexusform]'
    )
    assert asked(home, "zsh", script) == ["_nexusform"]
