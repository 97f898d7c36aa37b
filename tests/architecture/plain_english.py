"""Measures of plain English in Python sources: verbs, participles and words of names and docstrings."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

VERBS = frozenset(
    """
    abort accept acquire add adjust align allocate allow analyze append apply approve archive assemble
    assert assign attach authenticate await begin bind block break broadcast build bump cache calculate call
    can cancel capture cast change check choose clean clear clone close coerce collapse collect combine
    commit compare compile complete compose compress compute configure confirm connect consume contains
    convert copy count create decide declare decode decompress decrement decrypt deduce defer define delay
    delegate delete deploy derive describe deserialize destroy detach detect determine diff disable discard
    discover dispatch display distribute download drain draw drop dump emit enable encode encrypt enforce
    enqueue ensure enter enumerate escape estimate evaluate evict examine exclude execute exit expand expect
    expire explain export expose extend extract fail fetch fill filter finalize find finish fit fix flatten
    flush fold follow force forget format forward freeze gather generate get give group guard guess handle
    has hash hide identify ignore import include increment index infer inherit init initialize inject insert
    inspect install interpolate intersect invalidate invert invoke is issue iter iterate join keep label
    launch lex limit link lint list listen load locate lock log lookup lower make map mark mask match may
    measure merge migrate mirror modify monitor mount move must mutate name needs negate normalize notify
    obtain omit open optimize order override pack pair parse partition pass patch pause peek perform persist
    pick ping place plan poll pop populate post predict prefer prepare prepend preserve prevent print
    process produce project prompt propagate provide prune publish pull push put query quote raise rank read
    rebuild receive recompute reconcile record recover recreate redact redirect reduce refer refresh
    register reject release reload remove rename render replace report request require reschedule reserve
    reset resolve respond restore restrict resume retrieve retry return reuse revert review rewrite rollback
    rotate round route run sample save scale scan schedule score search select send serialize serve set
    setup should show shrink shuffle shutdown sign simulate skip sleep slice snapshot solve sort spawn split
    stage start stop store stream strip submit subtract suggest sum summarize supports swap switch sync take
    terminate test throw time toggle tokenize trace track transfer transform translate traverse trigger trim
    truncate try undo unescape unify unload unlock unpack unquote unregister unset unwrap update upgrade
    upload use validate verify visit wait walk warn watch weigh wrap write yield
    """.split()
)
PARTICIPLE = re.compile(r"(ed|en|ing|own|aid|ept|eft|one|old|ought)$")
RELATIVE_WORDS = frozenset("what which that whose where who whom whatever whoever".split())
HOUSE_WORDS = frozenset(
    """
    stand stands stood standing told tell tells said says asked asks foretold foretell brings brought comes came
    goes gone noted
    """.split()
)
MEASURES = ("names without a verb", "participle names", "docstrings without a verb", "relative words", "house words")


def iterate_functions(tree: ast.Module) -> Iterator[tuple[str, str, bool]]:
    """Yield name, docstring and whether it is a property of each function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
            decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
            yield node.name.strip("_"), ast.get_docstring(node) or "", "property" in decorators


def iterate_docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield every docstring of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            yield ast.get_docstring(node) or ""
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
            yield ast.get_docstring(node) or ""


def starts_with_verb(docstring: str) -> bool:
    """Return whether the first word of a docstring is a verb."""
    word = docstring.split()[0].lower().strip("`*.,:")
    return not VERBS.isdisjoint({word, word.rstrip("s"), word.removesuffix("es")})


@cache
def count_violations(path: Path) -> Counter[str]:
    """Count the violations of a file, by measure."""
    tree = ast.parse(path.read_text())
    counts: Counter[str] = Counter(dict.fromkeys(MEASURES, 0))
    for name, docstring, is_property in iterate_functions(tree):
        if is_property:
            continue
        words = name.lower().split("_")
        counts["names without a verb"] += words[0] not in VERBS
        is_participle = len(words) == 1 and words[0] not in VERBS and bool(PARTICIPLE.search(words[0]))
        counts["participle names"] += is_participle
        counts["docstrings without a verb"] += bool(docstring) and not starts_with_verb(docstring)
    for docstring in iterate_docstrings(tree):
        for word in re.findall(r"[A-Za-z']+", docstring):
            counts["relative words"] += word.lower() in RELATIVE_WORDS
            counts["house words"] += word.lower() in HOUSE_WORDS
    return counts
