"""A domain can be deleted whole: a test elsewhere that writes something of it says so.

Whoever writes a block of a type, a provider or a backend of a domain imports that domain, so that the file
goes with it, or marks what needs it with `of_domains`.
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


def words_of_domains() -> dict[tuple[str, str], str]:
    """Keyword and name of each block that a domain brings, and that domain."""
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


WORDS = words_of_domains()


def with_used(name: str) -> Iterator[str]:
    """A domain, and those that it may import: they are there where it is."""
    yield name
    for used in find_domains()[name].dependencies:
        yield from with_used(used)


def said(path: Path, text: str) -> set[str]:
    """The domains without which a file is not run, or not in full."""
    folder, *below = path.relative_to(ROOT / "tests").parts
    named = {*IMPORT.findall(text), *([below[0]] if folder == "domains" else [])}
    for marks in MARK.findall(text):
        named |= set(re.findall(r'"(\w+)"', "".join(marks)))
    return {domain for name in named & find_domains().keys() for domain in with_used(name)}


def test_what_a_test_writes_of_a_domain_it_says() -> None:
    unsaid: dict[str, set[str]] = {}
    for path in TESTS:
        text = path.read_text(encoding="utf-8")
        written = {WORDS[block] for block in BLOCK.findall(text) if block in WORDS}
        if written - said(path, text):
            unsaid[str(path.relative_to(ROOT))] = written - said(path, text)
    assert unsaid == {}, "mark what needs it: @pytest.mark.of_domains(...)"
