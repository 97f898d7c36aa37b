"""Lint rules, in the order of their findings.

To add one, write its file and its line.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from msgspec import Struct

from nexusform.advice import (
    no_surge_capacity,
    shared_machine,
    sku_mismatch,
    small_before_large,
    zones_pinned,
    zones_too_small,
)
from nexusform.advice.lint_input import LintInput
from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_warning, suggest_name


class LintRule(Struct, frozen=True):
    """Lint rule.

    `literal` rules also run in `validate`, on literals. `help` has the reason and the fix,
    for code hosts.
    """

    id: str
    check: Callable[[LintInput], list[Diagnostic]]
    literal: bool
    help: str


RULES: Final[tuple[LintRule, ...]] = (
    LintRule(
        zones_pinned.ID,
        zones_pinned.check,
        literal=True,
        help="Pinned zones are the main reason for VMs of one cluster on one machine. They also "
        "leave fewer machines for growth and repairs. Omit availability_zones, or name as "
        "many zones as possible.",
    ),
    LintRule(
        zones_too_small.ID,
        zones_too_small.check,
        literal=True,
        help="The zones of the pool have fewer machines than the pool has VMs. Some VMs share a "
        "machine and fail together. Name more zones, or lower the count.",
    ),
    LintRule(
        small_before_large.ID,
        small_before_large.check,
        literal=True,
        help="VMs are placed in creation order. Small VMs fragment the cells that extra-large VMs "
        "need. Create larger clusters and pools first.",
    ),
    LintRule(
        sku_mismatch.ID,
        sku_mismatch.check,
        literal=True,
        help="A SKU for other hardware wastes vCPUs or memory of every NUMA cell. Use the SKU of "
        "the same size for the machines in the pool's zones.",
    ),
    LintRule(
        shared_machine.ID,
        shared_machine.check,
        literal=False,
        help=(
            "VMs of one cluster on one machine fail together. Lower the count, or create larger "
            "clusters first."
        ),
    ),
    LintRule(
        no_surge_capacity.ID,
        no_surge_capacity.check,
        literal=False,
        help="An upgrade adds VMs before it removes any. Without free capacity it fails. Keep "
        'capacity free, allow more zones, or set max_surge = "0" and max_unavailable = "1".',
    ),
    LintRule(
        no_surge_capacity.JOINT_ID,
        no_surge_capacity.check_joint,
        literal=False,
        help="Each pool has capacity for its surge VMs, but not all pools at once. Upgrade the "
        "pools one after another, or keep more capacity free.",
    ),
)


RULE_IDS: Final = tuple(rule.id for rule in RULES)


def check_ignored_rules(ignored_rules: Iterable[tuple[str, Span]]) -> list[Diagnostic]:
    """Return warnings about ignored rules that do not exist, from their ids and places.

    An id of "" is a comment without an id.
    """
    problems: list[Diagnostic] = []
    for rule_id, span in ignored_rules:
        if rule_id not in RULE_IDS:
            subject = (
                f'There is no lint rule "{rule_id}".'
                if rule_id
                else "This comment names no lint rule."
            )
            detail = f"{subject}{suggest_name(rule_id, RULE_IDS)} Rules: {', '.join(RULE_IDS)}."
            problems.append(build_warning("unknown-lint-rule", detail, span))
    return problems


def run_rules(
    facts: LintInput, disabled_rules: Collection[str] = (), *, literal_only: bool = False
) -> list[Diagnostic]:
    """Return the findings of all rules, in order of rule and creation.

    `disabled_rules` are rule ids disabled everywhere. `literal_only` (for `validate`) runs only the
    `literal` rules, about arguments alone.
    """
    # Rules ignored by a pool, by the position of a finding about it: its block or zones.
    ignored = {
        (pool.address, span): pool.ignored_rules
        for pool in facts.pools
        for span in (pool.span, pool.zones_span)
    }
    findings = []
    for rule in RULES:
        if rule.id in disabled_rules or (literal_only and not rule.literal):
            continue
        for finding in rule.check(facts):
            ignored_rules = ignored.get((finding.address, finding.subject), ())
            if rule.id not in ignored_rules:
                findings.append(finding)
    return findings
