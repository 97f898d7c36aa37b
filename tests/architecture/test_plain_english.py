"""Tests of plain English: the share of violations in each package stays below a limit."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from tests.architecture.plain_english import MEASURES, count_violations

ROOT = Path(__file__).parents[2]
# Violations per 100 functions, docstrings or words of docstrings, in each package.
LIMITS = {
    "names without a verb": 12.0,
    "participle names": 1.0,
    "docstrings without a verb": 5.0,
    "relative words": 2.5,
    "house words": 0.2,
}


def get_package(path: Path) -> str:
    """Return the package of a product file: `planning`, `domains/fleet`, or "" at the root."""
    parts = path.relative_to(ROOT / "nexusform").parts[:-1]
    return "/".join(parts[: 2 if parts[:1] == ("domains",) else 1])


def count_by_package() -> dict[str, Counter[str]]:
    """Return the violations by package and measure."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path in (ROOT / "nexusform").rglob("*.py"):
        counts[get_package(path)].update(count_violations(path))
    return counts


def test_every_package_is_plain() -> None:
    shares = {
        (package, measure): 100 * counts[measure] / max(counts[whole], 1)
        for package, counts in count_by_package().items()
        for measure, whole in MEASURES.items()
    }
    worse = [
        f"nexusform/{package}: {share:.1f} {measure} per 100 {MEASURES[measure]}, "
        f"{LIMITS[measure]} allowed"
        for (package, measure), share in sorted(shares.items())
        if share > LIMITS[measure]
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
        "functions": 2,
        "docstrings": 2,
        "words": 6,
    }
