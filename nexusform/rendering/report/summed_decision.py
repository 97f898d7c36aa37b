"""Decision block for the plans of several sites: their sums, and equal texts once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import compute_natural_sort_key, format_count, group_by
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placements.consequence_record import Consequence
from nexusform.plans.impact.consequence_texts import describe_risks
from nexusform.plans.impact.consequence_views import (
    list_destroyed_objects,
    list_replaced_objects,
    list_reported_consequences,
    list_unnamed_risks,
)
from nexusform.plans.impact.decision_figures import PlanDecisionSummary, sum_decisions
from nexusform.plans.impact.guard_rails import (
    GuardRailLimit,
    GuardRailMeasurement,
    check_limit,
    is_summed,
)
from nexusform.plans.impact.object_effects import LOSS_EFFECTS, format_effect_clauses
from nexusform.plans.plan_checks import GuardRailResult
from nexusform.rendering.report.decision_lines import (
    COUNT_LABEL,
    DecisionLine,
    describe_guard_rails,
    describe_impact,
    describe_pod_confidence,
    describe_spare_capacity,
    describe_upgrade_capacity,
    describe_vm_confidence,
    limit_objects,
    limit_risks,
)
from nexusform.rendering.report.decision_record import DecisionRecord, sum_impact_parts
from nexusform.rendering.report.folding import SITE, replace_site
from nexusform.rendering.report.plan_sentences import format_resource_counts

# Texts with names of one label.
_MAX_TEXTS: Final = 6
_EACH: Final = "each "
_LIST_COMMAND: Final = "nexusform sites plan -json"
_UNKNOWN: Final = GuardRailMeasurement(value=None, text="planning failed")


def build_summed_lines(
    records: Mapping[str, DecisionRecord], guard_rails: Sequence[GuardRailResult]
) -> tuple[DecisionLine, ...]:
    """Return the lines of the decision block for the plans of several sites, by name of the site.

    Numbers are sums of the plans. Texts with names are listed once for all sites where they are
    equal. `guard_rails` are limits on all plans together.
    """
    figures = sum_decisions([record.figures for record in records.values()])
    named = _fold_named_lines(records)
    lines = (
        DecisionLine("Changed outside", named.get("Changed outside", ())),
        DecisionLine("Destroys", _describe_objects(records, list_destroyed_objects)),
        DecisionLine("Replaces", _describe_objects(records, list_replaced_objects)),
        DecisionLine("Impact", _describe_impact(records, figures, named.get("Impact", ()))),
        DecisionLine("Overrides", named.get("Overrides", ())),
        DecisionLine("Risk", tuple(limit_risks(_fold_risks(records)))),
        DecisionLine("Capacity", tuple(describe_spare_capacity(figures.capacity))),
        DecisionLine("Upgrades", (describe_upgrade_capacity(figures),)),
        DecisionLine(
            "Confidence",
            (
                *describe_vm_confidence(figures.confidence),
                *describe_pod_confidence(figures.confidence),
                *named.get("Confidence", ()),
            ),
        ),
        DecisionLine("Not read", named.get("Not read", ())),
        DecisionLine("Guard rails", tuple(describe_guard_rails(guard_rails, _LIST_COMMAND))),
        DecisionLine("Checked by", named.get("Checked by", ())),
        DecisionLine(COUNT_LABEL, (_format_counts(records.values()),)),
    )
    return tuple(line for line in lines if any(line.texts))


def _format_counts(records: Iterable[DecisionRecord]) -> str:
    """Return the sums of added, changed and destroyed resources, "" without a plan."""
    counts = [record.resource_counts for record in records if record.resource_counts]
    if not counts:
        return ""
    return format_resource_counts([sum(column) for column in zip(*counts, strict=True)])


def _describe_impact(
    records: Mapping[str, DecisionRecord], figures: PlanDecisionSummary, named: Sequence[str]
) -> tuple[str, ...]:
    """Return the sum of the impacts of all sites, then the clauses with names."""
    # Nothing is known of sites without a plan.
    if not any(record.resource_counts for record in records.values()):
        return tuple(named)
    parts = sum_impact_parts([record.parts for record in records.values()])
    hurt_sites = sum(
        any(row.effect in LOSS_EFFECTS for row in record.parts.counts)
        for record in records.values()
    )
    has_numbers = hurt_sites or figures.impact.stopped or parts.waiting or parts.unpredicted
    if named and not has_numbers:
        max_down = figures.impact.max_down
        down = [f"at most {max_down:,} down at a time per cluster"] if max_down else []
        return (*named, *down)
    text = describe_impact(parts, figures.impact)
    if hurt_sites and len(records) > 1:
        text = f"{text} (on {hurt_sites:,} of {format_count(len(records), 'site')})"
    return (text, *named)


def _fold_named_lines(records: Mapping[str, DecisionRecord]) -> dict[str, tuple[str, ...]]:
    """Return the texts with names by label, equal ones of several sites once."""
    texts_by_label: dict[str, list[tuple[str, str]]] = {}
    for site, record in records.items():
        for line in record.named_lines:
            texts = texts_by_label.setdefault(line.label, [])
            texts += [(site, text) for text in line.texts if text]
    return {label: _fold_texts(texts) for label, texts in texts_by_label.items()}


def _fold_texts(texts: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the texts of sites, equal ones once, and the number of those beyond _MAX_TEXTS."""
    groups = list(_group_by_text(texts).values())
    lines = [_name_sites(group) for group in groups[:_MAX_TEXTS]]
    hidden = {site for group in groups[_MAX_TEXTS:] for site, _ in group}
    if hidden:
        lines.append(f"{format_count(len(hidden), 'more site')} with other texts")
    return tuple(lines)


def _group_by_text(texts: Iterable[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Group pairs of site and text by the text with SITE as name, those of most sites first."""
    groups = group_by(texts, lambda pair: replace_site(pair[1], pair[0]))
    return dict(sorted(groups.items(), key=lambda entry: -len(entry[1])))


def _name_sites(texts: Sequence[tuple[str, str]], each: str = "") -> str:
    """Return the equal text of sites behind their names: `lon1..40: web has no replica left`.

    A text that begins with the name of its site needs no other. A text of a single site keeps the
    name of the site.
    """
    site, text = texts[0]
    count = len({name for name, _ in texts})
    if count == 1:
        is_named = replace_site(text, site).startswith(SITE)
        return text if is_named else f"{site}: {text}"
    names = _format_sites(name for name, _ in texts)
    general_text = replace_site(text, site)
    if general_text.startswith(f"{SITE} "):
        return f"{names}: each of {count:,}{general_text.removeprefix(SITE)}"
    return f"{names}: {each}{general_text}"


def _format_sites(names: Iterable[str]) -> str:
    return format_names(sorted(set(names), key=compute_natural_sort_key))


def _describe_objects(
    records: Mapping[str, DecisionRecord],
    list_objects: Callable[[DecisionRecord], Sequence[Consequence]],
) -> tuple[str, ...]:
    """Return the objects that the plans of sites end, those with the most VMs first."""
    objects = [(site, ended) for site, record in records.items() for ended in list_objects(record)]
    groups = group_by(
        objects, lambda pair: (pair[1].risk, replace_site(pair[1].title, pair[0]), pair[1].data)
    )
    largest_first = sorted(
        groups.values(), key=lambda group: -sum(ended.runs.get(VM, 0) for _, ended in group)
    )
    titles = [
        (_name_sites([(site, ended.title) for site, ended in group], _EACH), len(group))
        for group in largest_first
    ]
    return tuple(limit_objects(titles))


def _fold_risks(records: Mapping[str, DecisionRecord]) -> list[tuple[str, int]]:
    """Return the risks of all sites, equal ones once, each with the number of its risks."""
    counts: dict[tuple[str, str], int] = {}
    for site, record in records.items():
        # Not to be repeated as a risk.
        risks = [
            risk for risk in list_unnamed_risks(record) if risk.text not in record.parts.losses
        ]
        for text, count in describe_risks(risks):
            counts[site, text] = counts.get((site, text), 0) + count
    groups = _group_by_text(counts).values()
    return [(_name_sites(group), sum(counts[pair] for pair in group)) for group in groups]


def has_lasting_risks(record: DecisionRecord) -> bool:
    """Return whether the plan of a site causes something that lasts."""
    return any(consequence.is_lasting for consequence in record.consequences)


def describe_interruptions(records: Mapping[str, DecisionRecord]) -> list[str]:
    """Return a clause per effect of a loss over all sites: `4 VMs are removed on 2 sites`."""
    counts = sum_impact_parts([record.parts for record in records.values()]).counts
    clauses = []
    for effect in LOSS_EFFECTS:
        sites = sum(
            any(row.effect is effect for row in record.parts.counts) for record in records.values()
        )
        if sites:
            texts = " and ".join(format_effect_clauses(counts, [effect]))
            clauses.append(f"{texts} on {format_count(sites, 'site')}")
    return clauses


def list_record_risks(record: DecisionRecord | None) -> list[str]:
    """Return what the plan of a site destroys, replaces and puts at risk, a sentence each."""
    if record is None:
        return []
    return [item.text for item in list_reported_consequences(record) if item.is_risk]


def check_summed_limits(
    records: Mapping[str, DecisionRecord | None], limits: Iterable[GuardRailLimit]
) -> tuple[tuple[GuardRailResult, ...], list[Diagnostic]]:
    """Return the results of limits on the plans of several sites, and their diagnostics.

    Numbers of objects and risks are sums over all sites. Other limits hold for each site. A site
    without a plan (None) makes a figure unknown, as does a run without any site.
    """
    results = []
    diagnostics: list[Diagnostic] = []
    for limit in limits:
        measurements = _measure_sites(records, limit.name) or [_UNKNOWN]
        result, breaches = check_limit(limit, measurements)
        results.append(result)
        diagnostics += breaches
    return tuple(results), diagnostics


def _measure_sites(
    records: Mapping[str, DecisionRecord | None], name: str
) -> list[GuardRailMeasurement]:
    """Return the figures of all sites for a limit, with their names."""
    entries: list[tuple[str, GuardRailMeasurement]] = []
    for site, record in records.items():
        measurements = record.measurements.get(name, ()) if record is not None else (_UNKNOWN,)
        entries += [(site, measurement) for measurement in measurements]
    groups = group_by(
        entries, lambda entry: (entry[1].value, replace_site(entry[1].text, entry[0]))
    )
    named = [
        (
            GuardRailMeasurement(
                group[0][1].value, _name_sites([(site, entry.text) for site, entry in group], _EACH)
            ),
            len(group),
        )
        for group in groups.values()
    ]
    if not is_summed(name):
        return [measurement for measurement, _ in named]
    unknown = [measurement for measurement, _ in named if measurement.value is None]
    known = [(entry, count) for entry, count in named if entry.value is not None]
    total = sum((entry.value or 0) * count for entry, count in known)
    text = "; ".join(entry.text for entry, _ in known if entry.value)
    if sum(count for entry, count in known if entry.value) > 1:
        text = f"{total:,.0f} in all: {text}"
    return [GuardRailMeasurement(total, text), *unknown] if known else unknown
