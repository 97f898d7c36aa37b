"""Test of domain marks: tests elsewhere declare their use of a domain.

A domain can then be deleted as a whole. A test with a block of a type, a provider or a backend of a
domain imports the domain, so that the file is deleted with it, or is marked with `of_domains`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexusform.domain_table import find_domains
from tests.partial_installation import install_without, run_installed

ROOT = Path(__file__).parents[2]
TESTS = sorted(ROOT.glob("tests/**/test_*.py"))
BLOCK = re.compile(r'\b(resource|data|provider|backend) \\?"(\w+)\\?"')
IMPORT = re.compile(r"^from (?:nexusform|tests)\.domains\.(\w+)", re.MULTILINE)
MARK = re.compile(r"of_domains\(([^)]*)\)|\bdomain=(\"\w+\")")


def map_blocks_to_domains() -> dict[tuple[str, str], str]:
    """Return the domain of each block by keyword and name."""
    words: dict[tuple[str, str], str] = {}
    for name, domain in find_domains().items():
        brought = {
            "resource": domain.resource_types,
            "data": domain.data_sources,
            "provider": domain.providers,
            "backend": domain.backends,
        }
        words |= {(keyword, each): name for keyword, names in brought.items() for each in names}
    return words


WORDS = map_blocks_to_domains()


def iterate_dependencies(name: str) -> Iterator[str]:
    """Yield a domain and its dependencies: they are installed with it."""
    yield name
    for used in find_domains()[name].dependencies:
        yield from iterate_dependencies(used)


def find_declared_domains(path: Path, text: str) -> set[str]:
    """Return the domains required to run a file in full."""
    folder, *below = path.relative_to(ROOT / "tests").parts
    named = {*IMPORT.findall(text), *([below[0]] if folder == "domains" else [])}
    for marks in MARK.findall(text):
        named |= set(re.findall(r'"(\w+)"', "".join(marks)))
    return {
        domain for name in named & find_domains().keys() for domain in iterate_dependencies(name)
    }


def test_blocks_of_domains_are_declared() -> None:
    unsaid: dict[str, set[str]] = {}
    for path in TESTS:
        text = path.read_text(encoding="utf-8")
        written = {WORDS[block] for block in BLOCK.findall(text) if block in WORDS}
        if written - find_declared_domains(path, text):
            unsaid[str(path.relative_to(ROOT))] = written - find_declared_domains(path, text)
    assert unsaid == {}, "mark what needs it: @pytest.mark.of_domains(...)"


def list_absent_domains(name: str) -> list[str]:
    """Return a domain and those that need it."""
    return [domain for domain in find_domains() if name in iterate_dependencies(domain)]


@pytest.mark.parametrize("name", find_domains())
def test_blocks_of_absent_domains_name_the_missing_one(name: str, tmp_path: Path) -> None:
    variables = install_without([name], tmp_path / "installed")
    absent = list_absent_domains(name)
    blocks = [
        block for block, domain in WORDS.items() if domain in absent and block[0] != "backend"
    ]
    directory = tmp_path / "work"
    directory.mkdir()
    text = "".join(
        f'{keyword} "{word}" {"" if keyword == "provider" else f"{chr(34)}x{chr(34)} "}{{}}\n'
        for keyword, word in blocks
    )
    (directory / "main.nf.hcl").write_text(text)
    answer = json.loads(run_installed(directory, "validate", "-json", **variables))
    details = {
        diagnostic["range"]["start"]["line"]: diagnostic["detail"]
        for diagnostic in answer["diagnostics"]
    }
    for line, (_, word) in enumerate(blocks, 1):
        assert details[line].endswith(build_hint(word, name)), word


def build_hint(word: str, domain: str) -> str:
    """Return the end of a message about a word of an absent domain."""
    return (
        f'"{word}" needs the domain "{domain}", which this installation lacks: reinstall nexusform.'
    )


@pytest.mark.of_domains("openstack", "remote_state")
def test_other_words_of_absent_domains_name_the_missing_one(tmp_path: Path) -> None:
    variables = install_without(["openstack", "remote_state"], tmp_path / "installed")
    (tmp_path / "main.nf.hcl").write_text('nexusform {\n  backend "s3" {}\n}\n')
    answer = " ".join(run_installed(tmp_path, "plan", **variables).replace("\u2502", "").split())
    assert build_hint("s3", "remote_state") in answer
    (tmp_path / "main.nf.hcl").write_text("")
    answer = run_installed(tmp_path, "plan", "-check-with=nova=x", **variables)
    assert build_hint("nova", "openstack") in " ".join(answer.split())


@pytest.mark.parametrize("name", find_domains())
def test_vms_are_planned_without_a_domain(name: str, tmp_path: Path) -> None:
    variables = install_without([name], tmp_path / "installed")
    directory = tmp_path / "work"
    shutil.copytree(ROOT / "examples" / "quickstart", directory)
    assert "Plan:" in run_installed(directory, "plan", **variables)


@pytest.mark.of_domains("vnf", "fleet")
def test_objects_of_an_absent_domain_in_state_name_the_missing_one(tmp_path: Path) -> None:
    directory = tmp_path / "work"
    shutil.copytree(ROOT / "examples" / "openstack-tacker", directory)
    main = directory / "main.nf.hcl"
    # The VNF alone, simulated.
    text = main.read_text(encoding="utf-8").partition('resource "fleet_hub_manifest"')[0]
    main.write_text(text.replace("  provider            = tacker\n", ""), encoding="utf-8")
    assert "2 added" in run_installed(directory, "apply", "-auto-approve")
    main.write_text("")
    variables = install_without(["openstack"], tmp_path / "installed")
    answer = run_installed(directory, "plan", **variables)
    answer = " ".join(answer.replace("\u2502", "").split())
    for name in ("openstack_site.lab", "tacker_vnf.a"):
        hint = build_hint(name.partition(".")[0], "openstack")
        assert f"{hint} To forget the object: `nexusform state rm {name}`." in answer
    for command in (
        ("show",),
        ("state", "list"),
        ("destroy", "-auto-approve"),
        ("state", "verify"),
    ):
        run_installed(directory, *command, **variables)
