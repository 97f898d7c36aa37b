"""Plan of a configuration with one more placement, without a lock and without changes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.whatif.questions.simulated_placement import (
    SimulatedPlacement,
    build_trial_configuration,
    list_unusable_manifests,
)
from nexusform.interfaces.plugins import FileProblem
from nexusform.plans.plan import Plan
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.opening.system_io import SIZE_CAP, read_file
from nexusform.workflow.runs.run import PlanOptions, begin_run
from nexusform.workflow.runs.state_locking import LockOptions


class PlacementPlanningResult(Struct, frozen=True):
    """The plan with the placement, None after errors."""

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = {}


def read_trial_manifests(
    path: str, count: int | None, clusters: tuple[str, ...], context: CommandContext
) -> tuple[SimulatedPlacement | None, list[Diagnostic]]:
    """Read the manifests of a placement; None after errors."""
    try:
        text = read_file(path, SIZE_CAP, context.confinement.get_operator_confinement(path)).decode()
    except (FileProblem, UnicodeDecodeError) as problem:
        return None, [build_error("unreadable-manifest", f"-f: {problem}")]
    reading = parse_manifests(path, text)
    messages = [finding.detail for finding in reading.findings] + list_unusable_manifests(reading.manifests)
    if not reading.manifests and not messages:
        messages = [f'"{path}" has no manifest.']
    if messages:
        return None, [build_error("unreadable-manifest", message) for message in messages]
    return SimulatedPlacement(text, reading.manifests, count, clusters), []


def plan_trial_placement(trial: SimulatedPlacement, context: CommandContext) -> PlacementPlanningResult:
    """Plan the configuration of the directory together with the placement, without reading providers."""
    opened = open_project(context, (build_trial_configuration(trial),))
    if opened.project is None:
        return PlacementPlanningResult(None, opened.diagnostics, opened.sources)
    locking = LockOptions(enabled=False, is_exclusive=True)
    with begin_run(opened.project, "OperationTypePlan", locking, records_recovery=False) as run:
        if not run.is_ready:
            return PlacementPlanningResult(None, (*opened.diagnostics, *run.diagnostics), opened.sources)
        plan = run.plan(PlanOptions(refresh=False, samples=0, includes_losses=True)).plan
    errors = tuple(problem for problem in plan.diagnostics if has_errors([problem]))
    return PlacementPlanningResult(None if errors else plan, errors, opened.sources)
