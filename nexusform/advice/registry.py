"""The lint rules, in the order in which findings are shown. To add one, write its file and its line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from msgspec import Struct

from nexusform.advice import (
    no_surge_room,
    shared_machine,
    sku_mismatch,
    small_before_large,
    zones_pinned,
    zones_too_small,
)
from nexusform.advice.facts import Facts
from nexusform.diagnostics import Diagnostic


class Rule(Struct, frozen=True):
    """A lint rule. `literal` rules also speak in `validate`, as far as literals tell."""

    id: str
    check: Callable[[Facts], list[Diagnostic]]
    literal: bool


RULES: Final[tuple[Rule, ...]] = (
    Rule(zones_pinned.ID, zones_pinned.rule, literal=True),
    Rule(zones_too_small.ID, zones_too_small.rule, literal=True),
    Rule(small_before_large.ID, small_before_large.rule, literal=True),
    Rule(sku_mismatch.ID, sku_mismatch.rule, literal=True),
    Rule(shared_machine.ID, shared_machine.rule, literal=False),
    Rule(no_surge_room.ID, no_surge_room.rule, literal=False),
)

RULE_IDS: Final = tuple(rule.id for rule in RULES)


def advise(
    facts: Facts,
    ignored: Collection[str] = (),
    ignored_at: Mapping[str, Collection[str]] | None = None,
    *,
    literal_only: bool = False,
) -> list[Diagnostic]:
    """The findings of all rules, in order of rule and creation.

    `ignored` are rule ids silenced everywhere, `ignored_at` those silenced for an address.
    `literal_only` is what `validate` asks for.
    """
    silenced = ignored_at or {}
    return [
        diagnostic
        for rule in RULES
        if rule.id not in ignored and (rule.literal or not literal_only)
        for diagnostic in rule.check(facts)
        if rule.id not in silenced.get(diagnostic.address, ())
    ]
