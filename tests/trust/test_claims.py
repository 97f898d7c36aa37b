"""Tests of docs/security-claims.md: every claim names existing tests."""

import ast
import re
from pathlib import Path

from nexusform.domain_table import find_domains

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "security-claims.md"


def test_every_claim_names_existing_tests() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Claims and their tests")[2]
    rows = [line for line in section.splitlines() if line.startswith("- ")]
    assert len(rows) > 25
    for row in rows:
        tests = re.fullmatch(r"- .+?: (`[^`]+::\w+`(?:, `[^`]+::\w+`)*)", row)
        assert tests, row
        for test in tests[1].split(", "):
            named = re.fullmatch(r"`((?:\w+/)*\w+\.py)::(\w+)`", test)
            assert named, row
            folders = named[1].split("/")
            if folders[0] == "domains" and folders[1] not in find_domains():
                # removed with the folder of its domain.
                continue
            folder = HERE.parent if "/" in named[1] else HERE
            tree = ast.parse((folder / named[1]).read_text(encoding="utf-8"))
            assert named[2] in {
                node.name for node in tree.body if isinstance(node, ast.FunctionDef)
            }, row
