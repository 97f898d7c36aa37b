"""Test of domain marks: tests elsewhere declare their use of a domain.

A domain can then be deleted as a whole. A test with a block of a type, a provider or a backend of a
domain imports the domain, so that the file is deleted with it, or is marked with `of_domains`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from nexusform.domain_table import find_domains

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
