"""Tests of documented commands.

The README's excerpts of plans are current output, and commands in pages exist.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from nexusform.cli.command_groups import LazyGroup
from nexusform.cli.commands import Command
from nexusform.cli.main import ROOT as PROGRAM
from nexusform.cli.main import run_command_line
from tests import commands
from tests.docs.documented_domains import of_documented_domains

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/README.md")]
)


def test_plan_excerpt_is_printed_by_the_first_command(tmp_path: Path) -> None:
    where = tmp_path / "example"
    shutil.copytree(
        ROOT / "examples" / "nexus-document", where, ignore=shutil.ignore_patterns("state")
    )
    words = [*commands.nexusform(), f"-chdir={where}", "plan"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme[readme.index("Excerpt:") :].split("```")[1]
    excerpt = [line for line in block.splitlines() if line.strip()]
    assert len(excerpt) > 5
    printed = iter(done.stdout.splitlines())
    for line in excerpt:
        assert any(each.startswith(line) for each in printed), (
            f"not printed, or not in this order: {line}"
        )


@of_documented_domains
def test_excerpt_of_terraform_plan_is_printed_by_its_command(tmp_path: Path) -> None:
    where = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / "terraform-plan", where)
    flags = ["-terraform-plan=plan.json", "-inventory=export"]
    words = [*commands.nexusform(), f"-chdir={where}", "predict", *flags]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme[readme.index("### A Terraform plan") :]
    assert all(flag in section.split("```")[1] for flag in flags)
    # The whole output: an excerpt could leave out how certain it is. Only the age grows.
    whole, printed = (
        re.sub(r"\d+ days old", "N days old", text).strip()
        for text in (section.split("```")[3], done.stdout)
    )
    assert whole == printed


@of_documented_domains
def test_score_of_the_synthetic_site_is_printed_by_its_command(tmp_path: Path) -> None:
    where = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / "brownfield", where)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme[readme.index("### Your own site") :]
    command = section.split("```")[1].splitlines()[1].partition(" # ")[0]
    words = command.partition("-chdir=examples/brownfield ")[2].split()
    words = [*commands.nexusform(), f"-chdir={where}", *words]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert section.split("```")[3].strip() in done.stdout
    assert sorted(path.name for path in where.iterdir()) == ["README.md", "export", "generate.py"]


def test_spread_of_the_worked_example_is_explained_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ignored = shutil.ignore_patterns("state")
    shutil.copytree(ROOT / "examples" / "nexus-document", tmp_path / "example", ignore=ignored)
    monkeypatch.chdir(tmp_path / "example")
    page = (ROOT / "docs" / "comment.md").read_text(encoding="utf-8")
    title = "Uneven: 5 on rack3,6, 3 on rack7,8; even would be 4"
    section = page[page.index(f"## {title}") :]
    assert run_command_line(["plan"]) == 0
    assert title.lower() in capsys.readouterr().out
    assert run_command_line(["apply", "-auto-approve"]) == 0
    steps = re.split(r"^\$ nexusform ", section.split("```")[1], flags=re.MULTILINE)[1:]
    assert len(steps) == 2
    for step in steps:
        command, *lines = step.splitlines()
        capsys.readouterr()
        assert run_command_line(shlex.split(command)) == 0
        printed = capsys.readouterr().out
        assert [line for line in lines if line != "..." and line not in printed] == []


@of_documented_domains
def test_documented_version_of_azure_is_that_of_requests() -> None:
    from azure.mgmt.networkcloud import NetworkCloudMgmtClient

    from nexusform.domains.azure.rendering.azure_objects import API_VERSION

    answer = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    (documented,) = re.findall(r"sends requests with (\S+) of `Microsoft.NetworkCloud`", answer)
    client = NetworkCloudMgmtClient(credential=object(), subscription_id="s")  # type: ignore[arg-type]
    assert client._config.api_version == documented == API_VERSION


def test_commands_of_examples_overwrite_no_files() -> None:
    for page in ROOT.glob("examples/*/README.md"):
        for name in re.findall(r"^\$ .* > (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            assert not (page.parent / name).exists(), f"{page}: {name}"


@of_documented_domains
def test_commands_and_flags_of_shell_blocks_exist() -> None:
    import click

    context = click.Context(PROGRAM)
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    fences = re.findall(r"^```(console|sh)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for language, block in fences:
        prompt = r"\$ " if language == "console" else ""
        for line in re.findall(rf"^{prompt}nexusform (.*)$", block, re.MULTILINE):
            words = line.partition(" # ")[0].partition(" | ")[0].split()
            # The one option before the command.
            if words[0].startswith("-chdir="):
                words.pop(0)
            command: click.Command | None = PROGRAM
            while isinstance(command, LazyGroup):
                command = command.get_command(context, words.pop(0))
            assert isinstance(command, Command), line
            known = {o.lstrip("-") for p in command.params for o in p.opts}
            used = {w.lstrip("-").partition("=")[0] for w in words if re.match(r"-[a-z]", w)}
            assert used <= known, line
