"""Tests of moves, removals, triggers, refreshes and targets.

Plans, reasons and states are as in Terraform 1.11.

`moves_and_triggers/NAME.case` are configurations, planned and applied one after the other;
NAME.terraform is the output of Terraform, with terraform_data for nexus_vm_sku. With
NEXUSFORM_REWRITE_GOLDEN it is recorded again if Terraform is installed; otherwise Terraform
is not needed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from msgspec import Struct

from nexusform.cli.main import run_command_line

CASES = sorted(Path(__file__).with_name("moves_and_triggers").glob("*.case"))
REWRITE = "NEXUSFORM_REWRITE_GOLDEN" in os.environ

Output = tuple[int, str, str]


class Step(Struct):
    """One plan: its options and configuration files."""

    options: list[str]
    files: dict[str, str]


class Tool(Protocol):
    """Tool for plans and applies in the current directory."""

    def write(self, files: Mapping[str, str]) -> None:
        """Write the configuration in the syntax of the tool."""

    def call(self, *arguments: str) -> Output:
        """Run a command line; return exit code, stdout and stderr."""


def parse_steps(text: str) -> list[Step]:
    """Return the steps of a case."""
    steps: list[Step] = []
    for part in re.split(r"^--- ", text, flags=re.MULTILINE)[1:]:
        header, _, body = part.partition("\n")
        word, _, rest = header.partition(" ")
        if word == "plan":
            steps.append(Step(rest.split(), {"main.nf.hcl": body}))
        else:
            steps[-1].files[rest] = body
    return steps


def record_case(steps: Sequence[Step], tool: Tool) -> str:
    """Return the results of a tool for the steps, one paragraph each."""
    has_targets = any(option.startswith("-target") for step in steps for option in step.options)
    return "\n".join(record_step(step, tool, shows_outputs=has_targets) for step in steps)


def record_step(step: Step, tool: Tool, *, shows_outputs: bool) -> str:
    """Return one plan with actions and reasons, and the state after its apply.

    For a rejected plan, return the reason of its rejection.
    """
    tool.write(step.files)
    lines = [" ".join(["plan", *step.options])]
    code, _, complaint = tool.call("plan", "-no-color", "-out=p", *step.options)
    if code:
        summaries = set(re.findall(r"Error: (.*)", complaint))
        return "".join(
            f"{line}\n" for line in lines + [f"  rejected: {each}" for each in sorted(summaries)]
        )
    plan = json.loads(tool.call("show", "-json", "p")[1])
    found = sorted(list_change_rows(plan, "-refresh-only" in step.options))
    if "-destroy" in step.options:
        # Terraform omits the previous address of an object in this case; nexusform shows it
        # in every plan.
        found = [re.sub(r", was \S+", "", row) for row in found]
    lines += [f"  {row}" for row in found]
    if shows_outputs:
        for name, change in sorted(plan.get("output_changes", {}).items()):
            if change["actions"] != ["no-op"]:
                lines.append(f"  {' then '.join(change['actions'])} output {name}")
    code, _, complaint = tool.call("apply", "-no-color", "p")
    assert code == 0 or "not applicable" in complaint or "not applyable" in complaint, complaint
    lines.append("state")
    lines += [f"  {line}" for line in sorted(tool.call("state", "list")[1].split())]
    outputs = json.loads(tool.call("output", "-json")[1])
    lines += [
        f"  {name} = {json.dumps(output['value'])}" for name, output in sorted(outputs.items())
    ]
    return "".join(f"{line}\n" for line in lines)


def list_change_rows(plan: Mapping[str, Any], refresh_only: bool) -> Iterable[str]:
    """Yield action, address, previous address and reason of each change."""
    for change in plan.get("resource_changes", ()):
        row = format_change(change)
        if not row.startswith("no-op") or ", was " in row:
            yield row
    if refresh_only:
        yield from (f"drift: {format_change(drift)}" for drift in plan.get("resource_drift", ()))


def format_change(change: Mapping[str, Any]) -> str:
    row = f"{' then '.join(change['change']['actions'])} {change['address']}"
    if change.get("deposed"):
        row += " (deposed)"
    if change.get("previous_address"):
        row += f", was {change['previous_address']}"
    if change.get("action_reason"):
        row += f": {change['action_reason']}"
    return row


class Nexusform:
    """The tool under test."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def write(self, files: Mapping[str, str]) -> None:
        written = {
            name: re.sub(
                r'(resource "nexus_vm_sku" .*\n)', r"\1  vcpus = 2\n  memory_gib = 4\n", text
            )
            for name, text in files.items()
        }
        replace_files(written, "*.nf.hcl")

    def call(self, *arguments: str) -> Output:
        code = run_command_line(arguments)
        captured = self._capsys.readouterr()
        return code, captured.out, re.sub(r"\n│ *", "\n", captured.err)


class Terraform:
    """The reference tool."""

    def write(self, files: Mapping[str, str]) -> None:
        written = {}
        for name, text in files.items():
            renamed = text.replace("nexus_vm_sku", "terraform_data").replace("disk_gib", "input")
            renamed = re.sub(r"^  name( *=)", r"  triggers_replace\1", renamed, flags=re.MULTILINE)
            written[name.replace(".nf.hcl", ".tf")] = renamed.replace(".name", ".triggers_replace")
        replace_files(written, "*.tf")
        self.call("init", "-no-color")

    def call(self, *arguments: str) -> Output:
        words = [word.replace("nexus_vm_sku", "terraform_data") for word in arguments]
        environment = {**os.environ, "TF_CLI_CONFIG_FILE": "/dev/null", "CHECKPOINT_DISABLE": "1"}
        done = subprocess.run(
            ["terraform", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        out = done.stdout.replace("terraform_data", "nexus_vm_sku")
        error = re.sub(
            "no change found for .*",
            "Invalid reference in replace_triggered_by expression",
            done.stderr,
        )
        return done.returncode, out, error


def replace_files(files: Mapping[str, str], pattern: str) -> None:
    for old in Path.cwd().rglob(pattern):
        old.unlink()
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_results_are_as_in_terraform(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = parse_steps(case.read_text())
    expected = case.with_suffix(".terraform")
    monkeypatch.chdir(tmp_path)
    if REWRITE and shutil.which("terraform"):
        expected.write_text(record_case(steps, Terraform()))
        for each in tmp_path.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    assert record_case(steps, Nexusform(capsys)) == expected.read_text()
