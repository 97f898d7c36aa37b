"""A domain brings its commands: without its folder, help, completion and hints do not name them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nexusform.domain_table import find_domains

# The folders of some domains count as absent.
PROGRAM = """
import importlib.util
import sys

find_spec = importlib.util.find_spec
absent = {f"nexusform.domains.{name}" for name in sys.argv.pop(1).split(",")}
importlib.util.find_spec = lambda name, package=None: (
    None if name in absent else find_spec(name, package)
)
from nexusform.cli.main import main

main()
"""


def run_without(domains: str, directory: Path, *arguments: str, **variables: str) -> str:
    """Return stdout and stderr of a command in an installation without some domains."""
    command = [sys.executable, "-c", PROGRAM, domains, *arguments]
    result = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **variables},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in result.stderr
    return result.stdout + result.stderr


@pytest.mark.parametrize("name", [name for name, entry in find_domains().items() if entry.commands])
def test_commands_disappear_with_the_folder_of_their_domain(name: str, tmp_path: Path) -> None:
    commands = find_domains()[name].commands
    # Domains that depend on it cannot stay.
    absent = [each for each, entry in find_domains().items() if name in entry.dependencies]
    domains = ",".join([name, *absent])
    help_text = run_without(domains, tmp_path, "help", "all")
    assert "  plan " in help_text
    for command in commands:
        assert f"  {command} " not in help_text
        answer = run_without(domains, tmp_path, command)
        assert f'Unknown command "{command}".' in answer
    words = {"COMP_WORDS": "nexusform ", "COMP_CWORD": "1", "_NEXUSFORM_COMPLETE": "bash_complete"}
    completed = set(run_without(domains, tmp_path, **words).replace("plain,", "").split())
    assert "plan" in completed
    assert not completed & commands.keys()


def test_completion_shows_no_notes_on_variables_of_terraform(tmp_path: Path) -> None:
    words = {"COMP_WORDS": "nexusform wo", "COMP_CWORD": "1"}
    assert "TF_DATA_DIR" in run_without("none", tmp_path, "version", TF_DATA_DIR="x")
    completed = run_without(
        "none", tmp_path, **words, _NEXUSFORM_COMPLETE="bash_complete", TF_DATA_DIR="x"
    )
    assert completed == "plain,workspace\n"


def test_hints_name_no_command_of_an_absent_domain(tmp_path: Path) -> None:
    assert 'Use "nexusform sites".' in run_without("none", tmp_path, "stacks")
    assert "nexusform sites" not in run_without("sites", tmp_path, "stacks")


def test_scripts_are_those_of_the_existing_domains(tmp_path: Path) -> None:
    usage = run_without("none", tmp_path, "inventory", "script", "-help")
    for target in ("azure", "openstack", "fleet", "kubernetes"):
        assert target in usage
    usage = run_without("openstack,vnf,conformance", tmp_path, "inventory", "script", "-help")
    assert "openstack" not in usage
    answer = run_without("none", tmp_path, "inventory", "script", "-for=fleet", "-location=x")
    assert "Omit it with -for=fleet." in answer
