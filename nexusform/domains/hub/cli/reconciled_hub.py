"""The answer to `reconcile -from=hub`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.cli.answers import Answer
from nexusform.cli.reconciling import Comparison
from nexusform.diagnostics import has_errors
from nexusform.domains.hub.workflow.reconciling import PlacementCheck, ReconciledHub, reconcile_hub
from nexusform.forecasts import score_of
from nexusform.json_forms import Form, columns, six_places
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.report.wording import claims_text
from nexusform.words import counted, form
from nexusform.workflow.opening.place import Place
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.run import Notices


def compare_with_hub(place: Place, locking: Locking, notices: Notices) -> Comparison:
    """Compare the placements of state with the hub, and take over what is."""
    found = reconcile_hub(place, locking, notices)
    if has_errors(found.diagnostics):
        return Comparison(diagnostics=found.diagnostics, sources=found.sources)
    answer = Answer("reconcile", "hub", _outline(found), _RECONCILED(found))
    return Comparison(answer, bool(found.broken), found.diagnostics, found.sources)


def _outline(found: ReconciledHub) -> Outline:
    misses = sum(len(check.misses) for check in found.checks)
    gone = [check for check in found.checks if check.shown is None]
    sections = [
        *_placements(found.checks),
        *_elsewhere(found.checks),
        *_not_through(found),
        *_rules(found),
        *_claims(found.checks),
    ]
    bad = bool(misses or gone or found.broken or found.not_through)
    return Outline("Reconciliation with the hub", _verdict(found, misses), bad, (), tuple(sections))


def _verdict(found: ReconciledHub, misses: int) -> str:
    clusters = sum(len(check.known) for check in found.checks)
    where = f"{counted(len(found.checks), 'placement')} on {counted(clusters, 'cluster')}"
    stand = f"{where}: each stands as state has it"
    if misses:
        stand = f"{where}: {counted(misses, 'binding')} {form(misses, 'is', 'are')} not as state had it"
    left = len(found.not_through)
    if left:
        stand += f"; the hub is not done with {counted(left, 'placement')}"
    broken = len(found.broken)
    if broken:
        stand += f"; {counted(broken, 'separation rule')} {form(broken, 'is', 'are')} broken"
    return f"{stand}."


def _placements(checks: Sequence[PlacementCheck]) -> Iterator[Section]:
    if not checks:
        return
    rows = [
        Row(
            (
                check.address,
                f"{len(check.known):,}",
                "gone" if check.shown is None else f"{len(check.shown):,}",
                f"{len(check.misses):,}",
            ),
            bool(check.misses) or check.shown is None,
        )
        for check in checks
    ]
    heads = ("Placement", "Clusters in state", "On the hub", "Otherwise")
    yield Section("Placements", table=Table(heads, tuple(rows), frozenset({1, 2, 3})))


def _elsewhere(checks: Sequence[PlacementCheck]) -> Iterator[Section]:
    rows = [Row((check.name, *miss), bad=True) for check in checks for miss in check.misses]
    if rows:
        heads = ("Placement", "Cluster", "State had", "The hub shows")
        yield Section("Otherwise than state had it", table=Table(heads, tuple(rows)), bad=True)


def _not_through(found: ReconciledHub) -> Iterator[Section]:
    if found.not_through:
        rows = [Row(each, bad=True) for each in found.not_through]
        table = Table(("Placement", "What the hub has still to do"), tuple(rows))
        yield Section("Not through", table=table, bad=True)


def _rules(found: ReconciledHub) -> Iterator[Section]:
    if found.rules:
        rows = [
            Row((str(r.address), "holds" if r.holds == "always" else "broken"), r.holds != "always")
            for r in found.rules
        ]
        table = Table(("Separation rule", "On what is"), tuple(rows))
        yield Section("Separation rules", table=table, bad=bool(found.broken))


def _claims(checks: Sequence[PlacementCheck]) -> Iterator[Section]:
    """What became of what applied plans claimed."""
    scores = [(check.name, score_of(check.record)) for check in checks]
    lines = [f"{name}: {claims_text(score)}" for name, score in scores if score is not None]
    if lines:
        yield Section("Claims of applied plans", tuple(lines))


_SCORE: Final = Form(
    Struct,
    "settled held brier_score=brier brier_score_by_chance=chance",
    brier_score=six_places,
    brier_score_by_chance=six_places,
)


def _score(check: PlacementCheck) -> dict[str, Any] | None:
    score = score_of(check.record)
    return None if score is None else _SCORE(score)


_PLACEMENT: Final = Form(
    PlacementCheck,
    "address id=name gone=. otherwise=misses claims=.",
    gone=lambda check: check.shown is None,
    otherwise=columns("cluster state hub"),
    claims=_score,
)
_RULE: Final = Form(Struct, "address holds", holds=lambda holds: holds == "always")
_RECONCILED: Final = Form(
    ReconciledHub,
    "placements=checks separation_rules=rules not_through",
    placements=_PLACEMENT,
    separation_rules=_RULE,
    not_through=columns("placement words"),
)
