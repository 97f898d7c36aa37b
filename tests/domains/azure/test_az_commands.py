"""Every printed or documented line of `az networkcloud` uses only flags of the command."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.azure.importers.az_capture_commands import build_capture_script
from nexusform.domains.azure.rendering.az_script import ARGUMENTS, MACHINE
from nexusform.domains.azure.rendering.azure_objects import CLUSTER, POOL, VM

ROOT: Final = Path(__file__).parents[3]
WRITTEN: Final = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((ROOT / "tests" / "rendering" / "golden" / "answers").glob("*")),
]
TYPES: Final = {
    "kubernetescluster": CLUSTER,
    "kubernetescluster agentpool": POOL,
    "virtualmachine": VM,
    "baremetalmachine": MACHINE,
}
# Flags naming a resource, common to all commands.
RESOURCE_FLAGS: Final = frozenset({"name", "resource-group"})
ALL_COMMANDS: Final = frozenset({"output", "query", "subscription", "no-wait", "yes"})
READING: Final = frozenset({"list", "show", "delete"})


def parse_commands(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Return the group, the verb and the flags of each command in a text."""
    for line in re.findall(r"az networkcloud ([^`|;>#\n]*)", text.replace("\\\n", " ")):
        try:
            words = shlex.split(line)
        except ValueError:
            # The line is a sentence with an apostrophe.
            words = line.split()
        flags = [word[2:].partition("=")[0] for word in words if word.startswith("--")]
        names = [word for word in words if not word.startswith("-")][
            : 3 if "agentpool" in words else 2
        ]
        if len(names) > 1:
            yield " ".join(names[:-1]), names[-1].rstrip(".,"), flags


def find_unknown_flags(text: str) -> list[str]:
    """Return the flags unknown to their commands in a text."""
    found = []
    for group, verb, flags in parse_commands(text):
        kind = TYPES.get(group)
        if kind is None or ((kind, verb) not in ARGUMENTS and verb not in READING):
            continue
        resource_flags = (
            RESOURCE_FLAGS | {"kubernetes-cluster-name"} if kind == POOL else RESOURCE_FLAGS
        )
        known = resource_flags | ALL_COMMANDS | ARGUMENTS.get((kind, verb), frozenset())
        found += [f"az networkcloud {group} {verb} --{flag}" for flag in flags if flag not in known]
    return found


def test_unknown_flag_is_detected() -> None:
    text = "az networkcloud baremetalmachine cordon --name a \\\n --machine b --evacuate True"
    assert find_unknown_flags(text) == ["az networkcloud baremetalmachine cordon --machine"]


def test_documented_commands_use_known_flags() -> None:
    found = {str(path.relative_to(ROOT)): find_unknown_flags(path.read_text()) for path in WRITTEN}
    assert {name: flags for name, flags in found.items() if flags} == {}


def test_capture_script_uses_known_flags() -> None:
    script = build_capture_script("export", "")
    assert len(list(parse_commands(script))) > 10
    assert find_unknown_flags(script) == []


@pytest.mark.parametrize("failure", ["", "rack list", "kubernetescluster list", "agentpool list"])
def test_capture_script_leaves_nothing_of_an_earlier_capture(failure: str, tmp_path: Path) -> None:
    """A file of an earlier capture would count as of the new time."""
    export = tmp_path / "export"
    export.mkdir()
    for name in ("racks.json", "volumes.json", "agent_pools.gone.json", "notes.json"):
        (export / name).write_text("old")
    program = tmp_path / "az"
    program.write_text(
        "#!/bin/sh\n"
        + (f'case "$*" in *"{failure}"*) exit 1 ;; esac\n' if failure else "")
        + 'case "$*" in *"--output tsv") echo "core group" ;; *) echo "[]" ;; esac\n'
    )
    program.chmod(0o755)
    done = subprocess.run(
        ["/bin/bash", "-c", build_capture_script(str(export), "")],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (1 if failure else 0)
    assert ("not listed: az networkcloud" in done.stderr) is bool(failure)
    files = {file.name: file.read_text() for file in export.iterdir()}
    assert files.pop("notes.json") == "old"
    assert files.pop("exported_at") > "2020-01-02"
    assert set(files.values()) == {"[]\n"}
    # Later commands ran.
    assert "volumes.json" in files
    assert ("racks.json" in files) is (failure != "rack list")
    assert ("agent_pools.core.json" in files) is (failure in ("", "rack list"))


@pytest.mark.of_domains("whatif")
def test_repacking_prints_known_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("highspy")
    shutil.copytree(ROOT / "examples" / "brownfield" / "export", tmp_path / "export")
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["import", "-from=export", "-generate-config-out=site.nf.hcl"]) == 0
    capsys.readouterr()
    assert (
        run_command_line(["simulate", "repack", "-sku=NC_P46_224_v1", "-want=2", "-format=json"])
        == 0
    )
    sections = json.loads(capsys.readouterr().out)["sections"]
    text = "\n".join(line for section in sections for line in section.get("commands", ()))
    verbs = {(group, verb): sorted(flags) for group, verb, flags in parse_commands(text)}
    assert verbs == {
        ("baremetalmachine", "cordon"): ["name", "resource-group"],
        ("baremetalmachine", "uncordon"): ["name", "resource-group"],
    }
    assert find_unknown_flags(text) == []
