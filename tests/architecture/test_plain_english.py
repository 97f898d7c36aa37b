"""Tests of plain English: a table holds the violations left in each package.

A count may only fall, so new code has none: `NEXUSFORM_REWRITE_GOLDEN=1` writes lower counts, never
higher ones.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from pathlib import Path

from tests.architecture.plain_english import MEASURES, count_violations
from tests.architecture.test_size import ROOT, get_package

TABLE = Path(__file__).with_name("plain_english.json")


def count_by_package() -> dict[str, Counter[str]]:
    """Return the violations by package and measure."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path in (ROOT / "nexusform").rglob("*.py"):
        counts[get_package(path)].update(count_violations(path))
    return counts


def test_no_package_gets_less_plain() -> None:
    counts = count_by_package()
    table = json.loads(TABLE.read_text())
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        table = {
            package: {
                measure: min(counts[package][measure], table.get(package, {}).get(measure, 0))
                for measure in MEASURES
            }
            for package in sorted(counts)
        }
        TABLE.write_text(json.dumps(table, indent=2) + "\n")
    worse = [
        f"nexusform/{package}: {count} {measure}, {table.get(package, {}).get(measure, 0)} allowed"
        for package, measured in sorted(counts.items())
        for measure, count in measured.items()
        if count > table.get(package, {}).get(measure, 0)
    ]
    assert not worse, "\n".join(worse)


def test_name_without_verb_is_counted(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        'def told():\n    """What was told."""\n\ndef read_text():\n    """Return the text."""\n'
    )
    assert dict(count_violations(source)) == {
        "names without a verb": 1,
        "participle names": 1,
        "docstrings without a verb": 1,
        "relative words": 1,
        "house words": 1,
    }
