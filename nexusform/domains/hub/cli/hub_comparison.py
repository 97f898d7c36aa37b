"""Answer to `reconcile -from=hub`."""

from collections.abc import Iterator
from typing import Any

from nexusform.cli.report_output import Answer, StateComparison
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.diagnostics.phrases import enclose, format_count, select_word_form
from nexusform.domains.hub.workflow.hub_reconciliation import (
    HubReconciliation,
    PlacementComparison,
    reconcile_hub,
)
from nexusform.placements.prediction_scores import PredictionRecordScore, compute_score
from nexusform.plans.plan import SeparationVerdict
from nexusform.rendering.report.plan_sentences import format_prediction_accuracy
from nexusform.rendering.report.plan_verdict import format_current_verdict
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.runs.run import RunCallbacks
from nexusform.workflow.runs.state_locking import LockOptions


def reconcile_with_hub(
    location: CommandContext, locking: LockOptions, notices: RunCallbacks
) -> StateComparison:
    """Compare the placements of state with the hub, and write the observed ones to state."""
    result = reconcile_hub(location, locking, notices)
    if has_errors(result.diagnostics):
        return StateComparison(diagnostics=result.diagnostics, sources=result.sources)
    answer = Answer("reconcile", "hub", _build_report(result), _build_result_document(result))
    return StateComparison(answer, bool(result.broken_rules), result.diagnostics, result.sources)


def _build_report(result: HubReconciliation) -> Report:
    """Build the report: a verdict in one sentence, and sections with the findings."""
    difference_count = sum(len(check.differences) for check in result.checks)
    missing = [check for check in result.checks if check.observed is None]
    has_findings = any((difference_count, missing, result.broken_rules, result.pending))
    clusters = sum(len(check.recorded) for check in result.checks)
    scope = (
        f"{format_count(len(result.checks), 'placement')} on {format_count(clusters, 'cluster')}"
    )
    verdict = f"{scope}: each equals the state"
    if difference_count:
        verb = select_word_form(difference_count, "is", "are")
        verdict = f"{scope}: {format_count(difference_count, 'binding')} {verb} not as state had it"
    if result.pending:
        verdict += f"; the hub is not done with {format_count(len(result.pending), 'placement')}"
    broken_count = len(result.broken_rules)
    if broken_count:
        verb = select_word_form(broken_count, "is", "are")
        verdict += f"; {format_count(broken_count, 'separation rule')} {verb} broken"
    return Report(
        "Reconciliation with the hub",
        f"{verdict}.",
        has_findings,
        sections=tuple(_list_sections(result)),
    )


def _list_sections(result: HubReconciliation) -> Iterator[Section]:
    """Yield the sections of a comparison of state and hub; none without content."""
    rows: list[Row] = []  # one per placement
    # One per different binding.
    binding_rows: list[Row] = []
    # Verified predictions of applied plans.
    score_lines: list[str] = []
    for check in result.checks:
        observed_text = "gone" if check.observed is None else f"{len(check.observed):,}"
        cells = (
            check.address,
            f"{len(check.recorded):,}",
            observed_text,
            f"{len(check.differences):,}",
        )
        rows.append(Row(cells, is_finding=bool(check.differences) or check.observed is None))
        binding_rows += [
            Row((check.name, *difference), is_finding=True) for difference in check.differences
        ]
        score = compute_score(check.record)
        accuracy = (
            format_prediction_accuracy(score) if score is not None else "no open decisions yet"
        )
        score_lines.append(
            f"{check.name}: {accuracy}{enclose('; not verified: ', check.not_verified)}"
        )
    if rows:
        heads = ("Placement", "Clusters in state", "On the hub", "Otherwise")
        yield Section(
            "Placements", table=Table(heads, tuple(rows), number_columns=frozenset({1, 2, 3}))
        )
    if binding_rows:
        table = Table(("Placement", "Cluster", "State had", "The hub shows"), tuple(binding_rows))
        yield Section("Otherwise than state had it", table=table, is_finding=True)
    if result.pending:
        pending_rows = tuple(Row(item, is_finding=True) for item in result.pending)
        table = Table(("Placement", "What the hub has still to do"), pending_rows)
        yield Section("Not through", table=table, is_finding=True)
    if result.rules:
        rule_rows = [
            Row((str(rule.address), format_current_verdict(rule)), is_finding=bool(rule.violations))
            for rule in result.rules
        ]
        table = Table(("Separation rule", "On what is"), tuple(rule_rows))
        yield Section("Separation rules", table=table, is_finding=bool(result.broken_rules))
    if score_lines:
        yield Section("Predictions of applied plans", tuple(score_lines))


def _build_score_document(score: PredictionRecordScore) -> dict[str, Any]:
    """Build the JSON object of the score of a prediction record."""
    return {
        "verified": score.verified,
        "correct": score.correct,
        "brier_score": round(score.brier, 6),
        "brier_score_by_chance": round(score.chance, 6),
        "skill": None if score.skill is None else round(score.skill, 6),
    }


def _build_prediction_score(check: PlacementComparison) -> dict[str, Any] | None:
    """Build the score of a placement's predictions as JSON data.

    It is None without verified predictions.
    """
    score = compute_score(check.record)
    return None if score is None else _build_score_document(score)


def _build_placement_document(check: PlacementComparison) -> dict[str, Any]:
    """Build the JSON object of a placement comparison."""
    return {
        "address": check.address,
        "id": check.name,
        "missing": check.observed is None,
        "differences": [
            {"cluster": cluster, "state": state, "hub": hub}
            for cluster, state, hub in check.differences
        ],
        "claims": _build_prediction_score(check),
        "not_verified": check.not_verified,
    }


def _build_rule_document(verdict: SeparationVerdict) -> dict[str, Any]:
    """Build the JSON object of a separation verdict."""
    return {
        "address": str(verdict.address),
        "holds": {"always": True, "unknown": None}.get(verdict.satisfied, False),
    }


def _build_result_document(result: HubReconciliation) -> dict[str, Any]:
    """Build the JSON object of the comparison of a hub with its state."""
    return {
        "placements": [_build_placement_document(check) for check in result.checks],
        "separation_rules": [_build_rule_document(rule) for rule in result.rules],
        "pending": [
            {"placement": placement, "message": message} for placement, message in result.pending
        ],
    }
