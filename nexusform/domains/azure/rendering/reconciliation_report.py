"""Reports of `reconcile` and `inventory check`, as text and as data."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_first_items, select_word_form
from nexusform.domains.azure.importers.az_records import format_names
from nexusform.domains.azure.questions.reconciliation import (
    CapturedSite,
    ClusterLocationCheck,
    ReconcileResult,
    SiteReplay,
    VerifiedPredictions,
    VmCheck,
)
from nexusform.placement_kinds.registry import build_location_document
from nexusform.placements.prediction_scores import (
    COUNT_PREDICTION,
    MACHINE_PREDICTION,
    RACK_PREDICTION,
    TIE_PREDICTION,
    PredictionRecord,
    compute_score,
)
from nexusform.plans.plan import SeparationVerdict
from nexusform.rendering.json.json_placements import build_listed_site_document
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.rendering.report.plan_sentences import format_prediction_accuracy
from nexusform.rendering.report.plan_verdict import format_current_verdict
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.scheduling.listing.site_listing import LISTED_TITLE, describe_listed_sites

_MAX_ROWS: Final = 20
_WRONG_CERTAIN: Final = (
    "Wrong certain predictions: Azure does not follow the rule, or something else changed in "
    "between."
)
_UNKNOWN_CAUSE: Final = "no reason in the export"
_CERTAIN: Final = 100  # per cent
_MAX_NAMES = 8


def build_reconciliation_report(origin: str, result: ReconcileResult) -> Report:
    """Build the report; a section without content is left out.

    `origin` is the compared source, such as a directory.
    """
    checks = result.checks
    predictions = result.predictions
    # VMs at another location than recorded.
    misses = sum(len(check.misses) for check in checks)
    uncertain = [f"{check.name}: {clause}" for check in checks for clause in check.unread]
    sections = [_build_location_accuracy_section(checks)] if checks else []
    if misses:
        sections.append(_build_wrong_locations_section(checks))
    # Each has a title, lines, and whether they are findings.
    lists = (
        ("Not in the export (state kept)", result.absent, True),
        ("Not captured (state kept)", result.uncaptured, True),
        ("Applies in progress", result.unfinished, True),
        ("Machines that are uncertain", uncertain, True),
        ("Sources read", result.warnings, not result.is_read_completely),
    )
    for title, items, is_finding in lists:
        if items:
            lines = tuple(f"- {item}" for item in items)
            sections.append(Section(title, lines, is_finding=is_finding))
    if result.listed:
        listed_lines = tuple(describe_listed_sites(result.listed))
        sections.append(Section(LISTED_TITLE, listed_lines, is_finding=True))
    if result.rules:
        sections.append(_build_rules_section(result.rules))
    sections += map(_build_replay_section, result.replays)
    sections += [
        _build_predictions_section(site, record) for site, record in predictions.records.items()
    ]
    if predictions.new_count:
        new_lines = [
            f"{format_count(predictions.new_count, 'prediction')} of applied plans verified now."
        ]
        if predictions.wrong_certain:
            new_lines += [
                _WRONG_CERTAIN,
                *(f"- {text}" for text in predictions.wrong_certain[:_MAX_ROWS]),
            ]
        sections.append(
            Section("Verified now", tuple(new_lines), is_finding=bool(predictions.wrong_certain))
        )
    unchecked = (
        result.absent,
        result.uncaptured,
        uncertain,
        not result.is_read_completely,
        result.unfinished,
        result.listed,
        result.unexplained_sites,
    )
    has_findings = any((misses, result.violated_rules, predictions.wrong_certain, *unchecked))
    summary = _build_summary(result, misses)
    facts = (f"Inventory: {result.inventory}.",) if result.inventory else ()
    return Report(f"Reconciliation with {origin}", summary, has_findings, facts, tuple(sections))


def _build_summary(result: ReconcileResult, wrong_count: int) -> str:
    """Build one sentence about all VMs, rules and unfinished changes."""
    if not result.is_compared_with_state:
        return "There is no configuration here, so nothing was compared with a state."
    violated = len(result.violated_rules)
    uncaptured = len(result.uncaptured)
    unfinished = len(result.unfinished)
    vm_count = sum(len(check.vms) for check in result.checks)
    uncertain = sum(bool(check.unread) for check in result.checks)
    parts = [
        "Every VM is where the state records it"
        if vm_count or (not uncaptured and result.is_read_completely)
        else "No VM was compared"
    ]
    if wrong_count:
        vms = format_count(vm_count, "VM")
        pronoun = select_word_form(wrong_count, "it", "them")
        verb = select_word_form(wrong_count, "is", "are")
        parts = [f"{wrong_count:,} of {vms} {verb} not where the state recorded {pronoun}"]
    if violated:
        verb = select_word_form(violated, "does", "do")
        parts.append(f"{format_count(violated, 'separation rule')} {verb} not hold")
    if uncertain:
        parts.append(f"the machines of {format_count(uncertain, 'object')} are uncertain")
    if uncaptured:
        parts.append(f"{format_count(uncaptured, 'object')} not checked")
    if not result.is_read_completely:
        parts.append("the site was not read completely")
    if unfinished:
        parts.append(f"{format_count(unfinished, 'change')} in progress")
    if result.listed:
        parts.append("the site is listed with differences")
    return f"{'; '.join(parts)}."


def _build_location_accuracy_section(checks: Sequence[ClusterLocationCheck]) -> Section:
    """Build the section of VMs in their recorded location, by cluster."""
    rows = []
    for check in checks:
        count = len(check.vms)
        on_machine = count - len(check.misses)
        bound = "at most " if check.unread else ""
        cells = (
            check.name,
            f"{count:,}",
            f"{bound}{check.rack_hits:,}",
            f"{bound}{on_machine:,}",
            f"{count - on_machine:,}",
        )
        rows.append(Row(cells, is_finding=on_machine < count))
    columns = ("Cluster", "VMs", "Rack as predicted", "Machine as predicted", "Misses")
    number_columns = frozenset({1, 2, 3, 4})  # the numbers
    return Section("Clusters", table=Table(columns, tuple(rows), number_columns=number_columns))


def _build_wrong_locations_section(checks: Sequence[ClusterLocationCheck]) -> Section:
    """Build the section of VMs in another location, with counts by cause."""
    rows: list[Row] = []
    causes: Counter[str] = Counter()
    for vm in chain.from_iterable(check.misses for check in checks):
        cause = vm.cause or _UNKNOWN_CAUSE
        machine = vm.observed.machine if vm.observed is not None else "nowhere"
        rows.append(Row((vm.name, vm.recorded.machine, machine, cause), is_finding=True))
        # Without the name of the machine.
        causes[cause.split(": ", 1)[-1]] += 1
    lines = tuple(f"{number:,}: {cause}" for cause, number in causes.most_common())
    return Section(
        "Elsewhere",
        lines,
        table=Table(("VM", "Recorded", "Is", "Cause"), tuple(rows)),
        is_finding=True,
    )


def _build_rules_section(rules: Sequence[SeparationVerdict]) -> Section:
    """Build the section of separation rules, checked against current placement."""
    rows = [
        Row(
            (str(rule.address), rule.scope, format_current_verdict(rule)),
            is_finding=bool(rule.violations),
        )
        for rule in rules
    ]
    table = Table(("Separation rule", "Scope", "Now"), tuple(rows))
    return Section("Separation rules", table=table, is_finding=any(row.is_finding for row in rows))


def _build_replay_section(replay: SiteReplay) -> Section:
    """Build the section of a replay.

    It counts VMs placed as by the rule, VMs elsewhere, and unchecked VMs by reason.
    """
    unchecked = sum(replay.unjudged.values())
    if not replay.judged:
        lines = [f"nothing could be checked ({format_count(unchecked, 'VM')} not checked)"]
    else:
        vms = format_count(replay.judged, "checked VM")
        share = f"{replay.hits / replay.judged:.1%}".replace("%", " %")
        expected = f"{replay.chance / replay.judged:.1%}".replace("%", " %")
        unchecked_text = f", {unchecked:,} not checked" if unchecked else ""
        lines = [
            f"{replay.hits:,} of {vms} ({share}) are where the rule places them{unchecked_text}",
            f"expected for random machines with capacity: {expected}",
        ]
    if replay.sure < replay.hits:
        lines.append(
            f"{replay.sure:,} of them for every possible NUMA use (unknown), the others for some"
        )
    lines += [
        f"not checked: {format_count(count, 'VM')}: {reason}"
        for reason, count in sorted(replay.unjudged.items())
    ]
    rows: list[Row] = []
    for miss in replay.misses:
        best = format_first_items(miss.best, 3) or "no machine had capacity"
        rows.append(Row((miss.vm.name, miss.vm.placement.machine, best), is_finding=True))
    if len(rows) > _MAX_ROWS:
        lines.append(f"the first {_MAX_ROWS} of {len(rows):,} that are not (-format=json has all):")
    table = Table(("VM", "Is", "Best by rule"), tuple(rows[:_MAX_ROWS])) if rows else None
    return Section(
        f'Replay of {replay.site}, rack_spread = "{replay.spread.value}"', tuple(lines), table=table
    )


def _build_predictions_section(site: str, record: PredictionRecord) -> Section:
    """Build the section of verified predictions on a site, by subject and class of predicted share.

    Each class covers 10 %.
    """
    score = compute_score(record)
    rows: list[Row] = []
    for (subject, percent), class_score in sorted(record.items()):
        if subject in _SUBJECTS:
            share = "sure" if percent >= _CERTAIN else f"{percent} % to below {percent + 10} %"
            rows.append(
                Row(
                    (
                        _SUBJECTS[subject],
                        share,
                        f"{class_score.verified:,}",
                        f"{class_score.correct:,}",
                    )
                )
            )
    # The numbers of predictions.
    number_columns = frozenset({2, 3})
    table = Table(
        ("Prediction", "Share", "Verified", "Correct"), tuple(rows), number_columns=number_columns
    )
    lines = (format_prediction_accuracy(score),) if score is not None else ()
    return Section(f"Predictions of applied plans on {site}", lines, table=table)


_SUBJECTS: Final[Mapping[str, str]] = {
    RACK_PREDICTION: "rack of a VM",
    MACHINE_PREDICTION: "machine of a VM",
    COUNT_PREDICTION: "VMs on a rack",
    TIE_PREDICTION: "machine allowed by the rule",
}


def _build_wrong_vm_document(check: VmCheck) -> dict[str, Any]:
    """Build the JSON object of a VM on another machine than recorded."""
    return {
        "vm": check.name,
        "recorded": build_location_document(check.recorded),
        "observed": None if check.observed is None else build_location_document(check.observed),
        "cause": check.cause or None,
    }


def _build_cluster_document(check: ClusterLocationCheck) -> dict[str, Any]:
    """Build the JSON object of a cluster location check."""
    return {
        "address": check.address,
        "id": check.name,
        "vms": len(check.vms),
        "rack_hits": check.rack_hits,
        "machine_hits": len(check.vms) - len(check.misses),
        "wrong_predictions": [_build_wrong_vm_document(miss) for miss in check.misses],
        "not_read": list(check.unread) or None,
    }


def _build_rule_document(verdict: SeparationVerdict) -> dict[str, Any]:
    """Build the JSON object of a separation verdict."""
    return {
        "address": str(verdict.address),
        "enforcement": verdict.enforcement,
        "holds": verdict.satisfied,
    }


def _build_replay_document(replay: SiteReplay) -> dict[str, Any]:
    """Build the JSON object of a replayed site."""
    return {
        "site": replay.site,
        "rack_spread": replay.spread.value,
        "hits": replay.hits,
        "certain_hits": replay.sure,
        "hits_by_chance": round(replay.chance, 3),
        "verified": replay.judged,
        "unverified": dict(sorted(replay.unjudged.items())),
        "wrong_predictions": [
            {"vm": miss.vm.name, "machine": miss.vm.placement.machine, "best": list(miss.best)}
            for miss in replay.misses
        ],
    }


def _build_prediction_documents(predictions: VerifiedPredictions) -> list[dict[str, Any]]:
    """Build a row per site, prediction and certainty class (100: certain)."""
    return [
        {
            "site": site,
            "prediction": subject,
            "share_class": number,
            "correct": score.correct,
            "incorrect": score.incorrect,
            "sum_of_squares": score.squares,
            "sum_of_squares_by_chance": score.chance_squares,
        }
        for site, record in predictions.records.items()
        for (subject, number), score in sorted(record.items())
    ]


def build_reconciliation_document(result: ReconcileResult) -> dict[str, Any]:
    """Build the JSON object of the comparison of a site with its state."""
    return {
        "clusters": [_build_cluster_document(check) for check in result.checks],
        "absent": list(result.absent),
        "not_captured": list(result.uncaptured),
        "unfinished": list(result.unfinished),
        "warnings": list(result.warnings),
        "separation_rules": [_build_rule_document(rule) for rule in result.rules],
        **omit_empty({"listed": [build_listed_site_document(item) for item in result.listed]}),
        "replays": [_build_replay_document(replay) for replay in result.replays],
        "predictions": _build_prediction_documents(result.predictions),
        "verified_now": result.predictions.new_count,
        "wrong_certain_predictions": list(result.predictions.wrong_certain),
    }


def build_inventory_report(
    origin: str, sites: Sequence[CapturedSite], findings: Sequence[Diagnostic]
) -> Report:
    """Build the report of captured inventory: figures of each site, then the findings.

    The report counts as a finding, too, if a section lists machines closed to new VMs, or VMs
    on no machine.
    """
    sections = [section for site in sites for section in _build_sections(site)]
    if findings:
        lines = tuple(f"- {finding.summary}: {finding.detail}" for finding in findings)
        sections.append(Section("Findings", lines, is_finding=True))
    has_findings = bool(findings) or any(site.closed or site.unplaced for site in sites)
    names = f"{format_count(len(sites), 'site')}: {format_names(sites, _MAX_NAMES)}."
    return Report(f"Inventory {origin}", names, has_findings, sections=tuple(sections))


def _build_sections(site: CapturedSite) -> Iterator[Section]:
    """Build the sections of a site.

    They are counts and age, hardware, and, if any, machines closed to new VMs.
    """
    age = "of unknown age"
    # Time of the export if `is_age_certain`, else of its newest change.
    if site.exported_at:
        age = f"{'made' if site.is_age_certain else 'newest change'} {site.exported_at}"
    machines = f"{format_count(site.machines, 'machine')} ({site.compute:,} compute)"
    clusters = format_count(site.clusters, "cluster")
    vms = format_count(site.vms, "VM")
    lines = [f"{format_count(site.racks, 'rack')}, {machines}, {clusters}, {vms}; {age}"]
    if site.unplaced:
        subject = (
            f"{format_count(len(site.unplaced), 'VM')} "
            f"{select_word_form(len(site.unplaced), 'is', 'are')}"
        )
        lines.append(f"{subject} on no machine: {format_first_items(site.unplaced, _MAX_NAMES)}")
    yield Section(site.name, tuple(lines))
    rows = tuple(
        Row((sku_id or "none", sku or "not in the catalogue", f"{count:,}"))
        for sku_id, sku, count in site.skus
    )
    # The numbers of machines.
    number_columns = frozenset({2})
    heads = ("machineSkuId", "Catalogue", "Machines")
    yield Section(
        f"Hardware of {site.name}", table=Table(heads, rows, number_columns=number_columns)
    )
    if site.closed:
        closed = tuple(
            Row(machine_and_reason, is_finding=True) for machine_and_reason in site.closed
        )
        table = Table(("Machine", "Reason"), closed)
        yield Section(f"Machines closed to new VMs on {site.name}", table=table, is_finding=True)


def _build_site_document(site: CapturedSite) -> dict[str, Any]:
    """Build the JSON object of a captured site."""
    return {
        "name": site.name,
        "racks": site.racks,
        "machines": site.machines,
        "compute_machines": site.compute,
        "kubernetes_clusters": site.clusters,
        "vms": site.vms,
        "closed": [{"machine": machine, "reason": reason} for machine, reason in site.closed],
        "machine_skus": [
            {"machine_sku_id": machine_sku_id, "machine_sku": machine_sku, "machines": machines}
            for machine_sku_id, machine_sku, machines in site.skus
        ],
        "without_machine": list(site.unplaced),
        "exported_at": site.exported_at,
    }


def _build_finding_document(finding: Diagnostic) -> dict[str, Any]:
    """Build the JSON object of a diagnostic."""
    return {"severity": finding.severity.value, "id": finding.id, "detail": finding.detail}


def build_inventory_document(
    sites: Sequence[CapturedSite], findings: Sequence[Diagnostic]
) -> dict[str, Any]:
    """Build the contents of an export as JSON data."""
    return {
        "sites": list(map(_build_site_document, sites)),
        "findings": list(map(_build_finding_document, findings)),
    }
