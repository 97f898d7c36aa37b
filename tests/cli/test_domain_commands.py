"""A domain brings its commands: without its folder, help, completion and hints do not name them."""

from pathlib import Path

import pytest

from nexusform.domain_table import find_domains
from tests.partial_installation import install_without, run_installed


def run_without(domains: str, directory: Path, *arguments: str, **variables: str) -> str:
    """Return stdout and stderr of a command in an installation without some domains."""
    target = directory / f"without-{domains}"
    if not target.exists():
        install_without(domains.split(","), target)
    return run_installed(directory, *arguments, PYTHONPATH=str(target), **variables)


@pytest.mark.parametrize("name", [name for name, entry in find_domains().items() if entry.commands])
def test_commands_disappear_with_the_folder_of_their_domain(name: str, tmp_path: Path) -> None:
    commands = find_domains()[name].commands
    help_text = run_without(name, tmp_path, "help", "all")
    assert "  plan " in help_text
    for command in commands:
        assert f"  {command} " not in help_text
        answer = " ".join(run_without(name, tmp_path, command).split())
        assert (
            f'Unknown command "{command}". "{command}" needs the domain "{name}", which this '
            "installation lacks: reinstall nexusform."
        ) in answer
    words = {"COMP_WORDS": "nexusform ", "COMP_CWORD": "1", "_NEXUSFORM_COMPLETE": "bash_complete"}
    completed = set(run_without(name, tmp_path, **words).replace("plain,", "").split())
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
    usage = run_without("openstack", tmp_path, "inventory", "script", "-help")
    assert "openstack" not in usage
    answer = run_without("none", tmp_path, "inventory", "script", "-for=fleet", "-location=x")
    assert "Omit it with -for=fleet." in answer
