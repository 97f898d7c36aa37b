"""Report of `simulate placement`, as text and as data."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose, format_count, format_list
from nexusform.domains.whatif.questions.trial_configuration import NAME, SimulatedPlacement
from nexusform.plans.plan import (
    Feasibility,
    FeasibilityResult,
    LossEffect,
    PlacementAction,
    PlacementChange,
    Plan,
    RejectedCluster,
)
from nexusform.rendering.json.json_placements import FEASIBILITY_FORM
from nexusform.rendering.report.plan_conditions import (
    describe_feasibility,
    describe_suggested_fixes,
    describe_unselected_cluster,
)
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_UNREAD = frozenset({"pods-not-listed", "incomplete-cluster"})
_COLUMNS = (
    "cluster",
    "result",
    "missing nodes",
    "pool",
    "site capacity",
    "replicas",
    "at most",
    "waiting, machine down",
    "waiting, rack down",
    "reason",
)


class PlacementFeasibility(Struct, frozen=True):
    """Bindings of a simulated placement, its rejected clusters, and the bindings of other placements unable to
    run beside it. `candidates` are the rejected clusters with known nodes, `missing` describes the requested
    clusters without a binding ("" = none).
    """

    plan: Plan
    bindings: Sequence[Feasibility]
    rejected: Sequence[RejectedCluster]
    others: Sequence[Feasibility]
    candidates: Sequence[Feasibility]
    missing: str = ""

    @property
    def has_findings(self) -> bool:
        """Whether the placement runs on fewer clusters than requested or selected, or on none."""
        is_complete = bool(self.bindings) and not self.missing
        return not is_complete or any(row.result is not FeasibilityResult.RUNS for row in self.bindings)


def select_placement(plan: Plan, trial: SimulatedPlacement) -> PlacementFeasibility:
    """Select the rows of the simulated placement, and the bindings of other placements unable to run. Compare the
    selected clusters with the requested ones.
    """
    new_bindings = _select_bindings(plan, PlacementAction.PLACE)
    selected = {row.object for row in new_bindings if row.address.name == NAME}  # cluster names
    unselected = [cluster for cluster in dict.fromkeys(trial.clusters) if cluster not in selected]  # PickFixed
    missing = enclose("not selected: ", format_list(unselected))
    if trial.count is not None and trial.count > len(selected):
        missing = f"{trial.count - len(selected):,} of {format_count(trial.count, 'requested cluster')} are missing"
    bindings: list[Feasibility] = []
    candidates: list[Feasibility] = []
    others: list[Feasibility] = []
    for row in plan.feasibility:
        if row.placement.name == NAME:
            rows = bindings if row.is_selected else candidates
            rows.append(row)
        elif row.is_selected and row.result is not FeasibilityResult.RUNS:
            others.append(row)
    rejected = [row for row in plan.rejected_clusters if row.address.name == NAME]
    return PlacementFeasibility(plan, bindings, rejected, others, candidates, missing)


def _select_bindings(plan: Plan, *actions: PlacementAction) -> list[PlacementChange]:
    """Select the bindings with one of these actions."""
    return [row for row in plan.placements if row.kind == "binding" and row.action in actions]


def build_placement_report(answer: PlacementFeasibility, path: str) -> Report:
    """Build the report of one placement."""
    title = f"Placement of {path} (with the configuration of this directory)"
    verdict = "no cluster is selected, or the manifests have no pods"
    if answer.bindings:
        line = next(describe_feasibility(Plan(feasibility=tuple(answer.bindings))))
        _, _, verdict = line.partition(": ")  # without the name of the placement
    prefix = enclose("", answer.missing, "; ")
    sections = tuple(_build_sections(answer))
    return Report(title, f"{prefix}{verdict}.", is_finding=answer.has_findings, sections=sections)


def _build_sections(answer: PlacementFeasibility) -> list[Section]:
    """Build the sections: clusters, fixes, other placements unable to run, data not read, and rejected clusters."""
    sections = []
    if answer.bindings:
        rows = tuple(map(_build_feasibility_row, answer.bindings))
        sections.append(Section("Clusters", table=Table(_COLUMNS, rows, figures=frozenset({2, 5, 6, 7, 8}))))
    fixes = tuple(describe_suggested_fixes(answer.bindings))
    if fixes:
        sections.append(Section(title="", lines=fixes))
    if answer.others:
        title = f"{format_count(len(answer.others), 'binding')} of other placements do not run"
        lines = tuple(f"{row.placement.name} on {row.cluster}: {row.result} ({row.reason})" for row in answer.others)
        sections.append(Section(title, lines, is_finding=True))
    warnings = _list_missing_data_warnings(answer.plan)
    if warnings:
        sections.append(Section("Not read", warnings, is_finding=True))
    if answer.rejected:
        # A rejected cluster with known nodes has a note: whether the pods would run there.
        notes = {row.cluster: f" ({describe_unselected_cluster(row)})" for row in answer.candidates}
        rejections = tuple(f"{row.cluster}: {row.reason}{notes.get(row.cluster, '')}" for row in answer.rejected)
        sections.append(Section("Rejected clusters", rejections))
    return sections


def _list_missing_data_warnings(plan: Plan) -> tuple[str, ...]:
    """Return the warnings about missing pods and objects of clusters: the answer counts them as absent."""
    return tuple(problem.detail for problem in plan.diagnostics if problem.id in _UNREAD)


def _build_feasibility_row(row: Feasibility) -> Row:
    """Build the row of a cluster as in `_COLUMNS`, "" for unknown numbers; a finding if its pods do not all run."""
    missing = "" if row.missing_nodes is None else str(row.missing_nodes)
    maximum = "" if row.replicas_max is None else str(row.replicas_max)
    capacity = row.site_capacity if row.result is FeasibilityResult.RUNS_AFTER else ""  # for the missing nodes
    several_pools = ", ".join(f"{pool} {count}" for pool, count in row.missing_by_pool.items())  # "" for one or none
    pools = several_pools or row.pool
    cells = (row.cluster, row.result.value, missing, pools, capacity, str(row.replicas_requested), maximum)
    losses = map(_format_loss_effect, (row.one_machine_down, row.one_rack_down))
    return Row((*cells, *losses, row.reason), is_finding=row.result is not FeasibilityResult.RUNS)


def _format_loss_effect(effect: LossEffect | None) -> str:
    if effect is None:
        return "unknown"
    return f"{effect.waiting_pods} ({effect.lost})" if effect.waiting_pods else "0"


def build_placement_document(answer: PlacementFeasibility) -> dict[str, Any]:
    """Build the answer as data: feasibility of this and other placements, data not read, changed bindings."""
    changed = _select_bindings(answer.plan, PlacementAction.MOVE, PlacementAction.REMOVE)
    return {
        "feasibility": list(map(FEASIBILITY_FORM, (*answer.bindings, *answer.candidates))),
        "other_feasibility": list(map(FEASIBILITY_FORM, answer.others)),
        "missing": answer.missing,
        "warnings": list(_list_missing_data_warnings(answer.plan)),
        "rejected": [{"cluster": row.cluster, "reason": row.reason} for row in answer.rejected],
        "changed_bindings": [{"placement": str(row.address), "cluster": row.object} for row in changed],
    }
