"""Keys of JSON documents are terms of the field, not words of a dialect."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "nexusform"
# Words and phrases that a reader of Terraform and Kubernetes cannot guess, with the term to use.
DIALECT = {
    "anew": "recreated",
    "asked": "requested",
    "begins": "start",
    "brings": "selected",
    "brought": "selected",
    "came": "origin",
    "comebacks": "recreations",
    "comes": "added",
    "doubts": "uncertainty_reasons",
    "fate": "outcome",
    "fewest": "minimum",
    "foretold": "predicted",
    "goes": "removed",
    "gone": "missing",
    "hangs": "depends",
    "held": "bound",
    "judged": "verified",
    "lands": "hits",
    "leaves": "removed",
    "leaving": "removed",
    "left": "previous",
    "misses": "wrong_predictions",
    "most": "maximum",
    "noted": "recorded",
    "refused": "rejected",
    "room": "capacity",
    "said": "reason",
    "seen": "observed",
    "shown": "displayed",
    "stake": "impact",
    "stands": "current",
    "stays": "unchanged",
    "sure": "certain",
    "told": "reported",
    "want": "requested",
    "wanted": "requested",
    "well": "healthy",
    "who": "owner",
    "whichever": "interval",
    "words": "message",
}
# Keys with such a word that are terms: "no machine off after the action", "left over capacity", and
# the trigger of a binding whose cluster left the fleet.
TERMS = {"left_over", "leaves_off", "cluster_left"}
# Names that earlier versions wrote.
EARLIER = {
    PACKAGE / "plans" / "saved" / "earlier_names.py",
    PACKAGE / "domains" / "vnf" / "types" / "tacker_vnf.py",
}
# A key in a dict literal with such a word. Parsing takes much longer than this search.
_LITERAL = re.compile(rf""""\w*?(?:{"|".join(DIALECT)})\w*"\s*:""")


def list_literal_keys(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the keys of the dict literals of a module that may be dialect, with their lines."""
    source = path.read_text(encoding="utf-8")
    if not _LITERAL.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        for key in node.keys if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, key.lineno


def test_keys_of_json_documents_are_terms_of_the_field() -> None:
    paths = sorted(path for path in PACKAGE.rglob("*.py") if path not in EARLIER)
    keys = [(path, *found) for path in paths for found in list_literal_keys(path)]
    assert keys
    dialect = [
        f"{path.relative_to(PACKAGE)}:{line}: {key}: use {DIALECT[word]}"
        for path, key, line in keys
        for word in key.split("_")
        if word in DIALECT and key not in TERMS
    ]
    assert dialect == []
