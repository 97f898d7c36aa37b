"""Tests of the size of product code: a table holds the lines of each package, to limit growth.

A figure may only fall: `NEXUSFORM_REWRITE_GOLDEN=1` writes lower figures, never higher ones. A
feature adds its lines to `growth` in the same file, with the decision record that names the feature
and its lines.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("product_lines.json")


def get_package(path: Path) -> str:
    """Return the package of a product file.

    `planning`, `domains/fleet`, or `` for a file at the root.
    """
    parts = path.relative_to(ROOT / "nexusform").parts[:-1]
    return "/".join(parts[: 2 if parts[:1] == ("domains",) else 1])


def count_lines() -> dict[str, int]:
    """Return the product lines by package."""
    lines: Counter[str] = Counter()
    for path in (ROOT / "nexusform").rglob("*.py"):
        lines[get_package(path)] += len(path.read_text().splitlines())
    return dict(sorted(lines.items()))


def read_table() -> dict[str, dict[str, int]]:
    """Return the table: `lines` by package, and `growth` by decision record and package."""
    return json.loads(TABLE.read_text())


def compute_allowed_lines() -> Counter[str]:
    """Return the allowed lines of each package."""
    table = read_table()
    allowed: Counter[str] = Counter(table["lines"])
    for growth in table["growth"].values():
        allowed.update(growth)
    return allowed


def lower_figures(lines: dict[str, int]) -> None:
    """Write the lower figures."""
    table = read_table()
    allowed = compute_allowed_lines()
    for package, figure in list(table["lines"].items()):
        surplus = allowed[package] - lines.get(package, 0)
        table["lines"][package] = figure - max(surplus, 0)
        if package not in lines:
            del table["lines"][package]
    TABLE.write_text(json.dumps(table, indent=2) + "\n")


def test_no_package_grows_without_a_decision_record() -> None:
    lines = count_lines()
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        lower_figures(lines)
    allowed = compute_allowed_lines()
    grown = {
        package: f"{count} lines, {allowed[package]} allowed"
        for package, count in lines.items()
        if count > allowed[package]
    }
    assert not grown, (
        "remove lines, or add them to `growth` of product_lines.json with a decision record"
    )


def test_figures_follow_the_code() -> None:
    lines, allowed = count_lines(), compute_allowed_lines()
    stale = {
        package: f"{lines.get(package, 0)} lines, {figure} allowed"
        for package, figure in allowed.items()
        if figure > lines.get(package, 0) + max(60, figure // 50)
    }
    assert not stale, (
        "lower the figures: NEXUSFORM_REWRITE_GOLDEN=1 pytest tests/architecture/test_size.py"
    )


def test_growth_is_in_its_decision_record() -> None:
    for name, growth in read_table()["growth"].items():
        decision = (ROOT / "docs" / "decisions" / name).read_text()
        missing = [f"`{package or 'nexusform'}: {lines}`" for package, lines in growth.items()]
        missing = [line for line in missing if line not in decision]
        assert not missing, f"{name} does not name {missing}"


IMPORTED = re.compile(r"^ *(?:import|from) (\w+)", re.MULTILINE)


def test_product_uses_requested_packages() -> None:
    imports = {
        name
        for path in (ROOT / "nexusform").rglob("*.py")
        for name in re.findall(IMPORTED, path.read_text())
    }
    assert {"hcl2", "click", "deepdiff", "networkx", "yaml"} - imports == set()
