from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nexusform.cli.completion import candidates, split_line
from nexusform.cli.main import COMMANDS, ROOT


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
