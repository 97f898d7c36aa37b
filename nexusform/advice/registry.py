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


class LintRule(Struct, frozen=True):
    """A lint rule. `literal` rules also speak in `validate`, as far as literals tell.

    `help` says why, and what to do: what code hosts show beside a finding.
    """

    id: str
    check: Callable[[Facts], list[Diagnostic]]
    literal: bool
    help: str


RULES: Final[tuple[LintRule, ...]] = (
    LintRule(
        zones_pinned.ID,
        zones_pinned.rule,
        literal=True,
        help="Pinned zones are the main reason for VMs of one cluster on one machine. They also leave"
        " fewer machines for growth and repairs. Omit availability_zones, or name as many zones "
        "as possible.",
    ),
    LintRule(
        zones_too_small.ID,
        zones_too_small.rule,
        literal=True,
        help="The zones of the pool have fewer machines than the pool has VMs. Some VMs share a "
        "machine and fail together. Name more zones, or lower the count.",
    ),
    LintRule(
        small_before_large.ID,
        small_before_large.rule,
        literal=True,
        help="VMs are placed in creation order. Small VMs fragment the cells that extra-large VMs "
        "need. Create larger clusters and pools first.",
    ),
    LintRule(
        sku_mismatch.ID,
        sku_mismatch.rule,
        literal=True,
        help="A SKU for other hardware wastes vCPUs or memory of every NUMA cell. Use the SKU of the "
        "same size for the machines in the pool's zones.",
    ),
    LintRule(
        shared_machine.ID,
        shared_machine.rule,
        literal=False,
        help="VMs of one cluster on one machine fail together. Lower the count, or create larger "
        "clusters first.",
    ),
    LintRule(
        no_surge_room.ID,
        no_surge_room.rule,
        literal=False,
        help="An upgrade adds VMs before it removes any. Without free capacity it fails. Keep "
        'capacity free, allow more zones, or set max_surge = "0" and max_unavailable = "1".',
    ),
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
