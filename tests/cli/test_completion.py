from __future__ import annotations

import os
import pty
import re
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nexusform.cli.command_table import COMMANDS
from nexusform.cli.completion import SHELLS, VARIABLE
from nexusform.cli.main import ROOT, run_command_line
from tests import commands
from tests.programs import find_program


def list_completions(*words: str) -> list[str]:
    """Return the completions of the last word after the others."""
    shell = SHELLS["zsh"](ROOT, {}, "nexusform", VARIABLE)
    items = shell.get_completions(list(words[:-1]), words[-1])
    return [item.value if item.type == "plain" else f"{item.type} {item.value}" for item in items]


def test_commands_are_completed() -> None:
    assert list_completions("pl") == ["plan"]
    assert list_completions("") == list(COMMANDS)
    assert list_completions("state", "r") == ["rm", "rollback"]
    assert list_completions("help", "state", "r") == ["rm", "rollback"]
    assert list_completions("-nonsense", "") == []


def test_flags_are_completed() -> None:
    assert list_completions("plan", "-det") == ["-detailed-exitcode", "-details"]
    assert list_completions("plan", "-json", "-det") == ["-detailed-exitcode", "-details"]
    assert "-report" in list_completions("show", "-re")


def test_flag_values_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert list_completions("plan", "-placements=a") == ["-placements=all"]
    assert list_completions("plan", "-placements", "n") == ["none"]
    assert list_completions("plan", "-compat=") == ["-compat=", "-compat=terraform"]
    assert list_completions("plan", "-var-file", "x") == ["file x"]
    assert list_completions("graph", "-format", "") == ["dot", "svg", "mermaid"]
    assert list_completions("plan", "-out", "x/y") == ["file x/y"]
    assert list_completions("show", "") == ["file "]
    assert list_completions("apply", "-auto-approve", "x") == ["file x"]


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
    """An applied configuration, and a second workspace."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text(SITE)
    assert run_command_line(["apply", "-auto-approve", "-samples=0"]) == 0
    assert run_command_line(["workspace", "new", "proving"]) == 0
    assert run_command_line(["workspace", "select", "default"]) == 0
    return tmp_path


@pytest.mark.usefixtures("site")
def test_addresses_from_configuration_and_state_are_completed() -> None:
    racks = ["nexus_rack.rack", 'nexus_rack.rack["a"]', 'nexus_rack.rack["b"]']
    assert list_completions("explain", "nexus_r") == racks
    assert list_completions("plan", "-target=nexus_r") == [f"-target={rack}" for rack in racks]
    assert list_completions("plan", "-exclude", "nexus_r") == racks
    assert list_completions("state", "rm", "nexus_site.lab", "nexus_s") == ["nexus_site.lab"]
    assert list_completions("show", "nexus_s") == ["nexus_site.lab", "file nexus_s"]
    assert list_completions("explain", "nexus_kubernetes_cluster.web", "web-") == [
        "web-control-plane-0"
    ]
    assert list_completions("output", "") == ["rooms"]


@pytest.mark.usefixtures("site")
def test_assumptions_are_completed() -> None:
    assert list_completions("plan", "-assume=lost:rack") == [
        "-assume=lost:rack/lab/a",
        "-assume=lost:rack/lab/b",
    ]
    assert list_completions("plan", "-assume", "lost:machine/lab/b") == [
        "lost:machine/lab/b-bm01",
        "lost:machine/lab/b-bm02",
    ]
    assert list_completions("plan", "-assume", "lost:n") == ["lost:node/web/web-control-plane-0"]
    assert list_completions("plan", "-assume", "nexus_s") == ["nexus_site.lab:"]


@pytest.mark.usefixtures("site")
def test_workspaces_are_completed() -> None:
    assert list_completions("workspace", "select", "p") == ["proving"]
    assert list_completions("workspace", "delete", "") == ["default", "proving"]


@pytest.mark.of_domains("whatif")
@pytest.mark.usefixtures("site")
def test_clusters_and_skus_are_completed() -> None:
    assert list_completions("simulate", "kubernetes-upgrade", "") == [
        "nexus_kubernetes_cluster.web"
    ]
    assert list_completions("simulate", "capacity", "-sku=NC_P4_") == ["-sku=NC_P4_28_v1"]


@pytest.mark.of_domains("whatif")
@pytest.mark.usefixtures("site")
def test_racks_machines_and_clusters_are_completed() -> None:
    assert list_completions("simulate", "failure", "-rack=") == ["-rack=a", "-rack=b"]
    assert list_completions("simulate", "failure", "-machine", "b-") == ["b-bm01", "b-bm02"]
    assert list_completions("simulate", "failure", "-cluster=") == ["-cluster=web"]
    assert list_completions("simulate", "capacity", "-site=") == ["-site=lab"]


@pytest.mark.of_domains("remote_state")
def test_completion_reads_no_remote_backend(site: Path) -> None:
    (site / "main.nf.hcl").write_text(SITE + 'nexusform {\n  backend "http" {}\n}\n')
    assert list_completions("explain", "nexus_r") == ["nexus_rack.rack"]
    assert list_completions("workspace", "select", "") == []


def test_chdir_before_the_command_is_respected(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (site / "empty").mkdir()
    monkeypatch.chdir(site / "empty")
    assert list_completions("explain", "nexus_s") == []
    assert list_completions("-chdir=nowhere", "show", "x") == []
    assert list_completions("-chdir=..", "explain", "nexus_s") == ["nexus_site.lab"]


def test_state_is_used_if_configuration_is_invalid(site: Path) -> None:
    (site / "main.nf.hcl").write_text("resource {")
    assert list_completions("explain", "nexus_s") == ["nexus_site.lab"]
    (site / "state" / "nexusform.nfstate").write_text("{")
    assert list_completions("explain", "nexus_s") == []


# --- in real shells ----------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Directory with nexusform in the PATH and a file to complete."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "nexusform"
    program.write_text(f"#!/bin/sh\n{commands.build_shell_line()}\n")
    program.chmod(0o755)
    (tmp_path / "saved.plan").write_text("")
    return tmp_path


TERMINALS = {
    "bash": (["--norc", "--noprofile", "-i"], 'eval "$(nexusform completion bash)"'),
    "zsh": (
        ["-f", "-i"],
        'autoload -Uz compinit; compinit -u -D; eval "$(nexusform completion zsh)"',
    ),
    "fish": (
        ["--no-config", "-i"],
        "set -g fish_autosuggestion_enabled 0; nexusform completion fish|source",
    ),
}
# Typed text (TAB is the key), and the words after completion by the shell.
STROKES = {
    "wTAB": "workspace",
    "plan -detailed-TAB": "plan -detailed-exitcode",
    "plan -target nexus_siTAB": "plan -target nexus_site.lab",
    "plan -exclude nexus_siTAB -details": "plan -exclude nexus_site.lab -details",
    "explain nexus_kTAB": "explain nexus_kubernetes_cluster.web",
    'explain nexus_rack.rack\\[\\"aTAB': 'explain nexus_rack.rack["a"]',
    "state rm nexus_site.lab nexus_kTAB": "state rm nexus_site.lab nexus_kubernetes_cluster.web",
    "workspace select pTAB": "workspace select proving",
    "simulate capacity -sku NC_P4_TAB": "simulate capacity -sku NC_P4_28_v1",
    "simulate failure -machine b-bm01TAB": "simulate failure -machine b-bm01",
    "apply savTAB": "apply saved.plan",
    "help explaTAB": "help explain",
}


WORDS = {*COMMANDS, "help"}


def select_strokes() -> dict[str, str]:
    """Return the strokes with an installed command."""
    return {typed: words for typed, words in STROKES.items() if words.split()[0] in WORDS}


@pytest.mark.parametrize("shell", TERMINALS)
def test_completion_in_interactive_shell(home: Path, site: Path, shell: str) -> None:
    """Send keys to an interactive shell, and read the completed line."""
    assert home == site
    skip_without_shell(shell)
    flags, setup = TERMINALS[shell]
    lines = [f"nexusform {typed.replace('TAB', chr(9))}" for typed in select_strokes()]
    # Control-A moves to the beginning of the line.
    asking = [f"{line}\x01printf '<%s>' \necho read''y\n" for line in lines]
    with open_terminal([shell, *flags], home) as master:
        press_keys(master, f"{setup}; echo read''y\n", "ready")
        # The prompt of fish ends with `>`, but that of root with `#`.
        said = [
            re.search("<nexusform>((?:<[^<>]*>)+)", press_keys(master, keys, "ready"))
            for keys in asking
        ]
    words = [each and each[1][1:-1].replace("><", " ") for each in said]
    assert words == list(select_strokes().values())


def skip_without_shell(shell: str) -> None:
    # bash is installed everywhere.
    if shell != "bash" and find_program(shell) is None:
        pytest.skip(f"{shell} is not installed")


@contextmanager
def open_terminal(command: list[str], home: Path) -> Iterator[int]:
    """Run a program at a terminal of its own; yield the end of its user."""
    child, master = pty.fork()
    if child == 0:
        os.chdir(home)
        path = f"{home / 'bin'}:{os.environ['PATH']}"
        os.execvpe(
            command[0], command, {**os.environ, "PATH": path, "HOME": str(home), "TERM": "dumb"}
        )
    try:
        yield master
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(master)


def press_keys(master: int, keys: str, end: str) -> str:
    """Return the output of a terminal after these keys, until `end`; for a minute at most."""
    os.write(master, keys.encode())
    said = ""
    until = time.monotonic() + 60
    while end not in said and time.monotonic() < until:
        if select.select([master], [], [], 0.2)[0]:
            said += os.read(master, 4096).decode(errors="replace")
    return said
