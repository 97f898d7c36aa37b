"""Lint findings of a plan: allowed but risky configuration."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Severity,
    SourceFile,
    build_warning,
    convert_problem,
    has_errors,
)
from nexusform.diagnostics.levels import VMS_WITHOUT_MACHINE, Level, get_diagnostic_level
from nexusform.doubts.findings import hides_capacity
from nexusform.interfaces.plugins import CaptureProvider, ProviderProblem
from nexusform.planning.conclusion.site_records import add_site_capacity, list_risk_diagnostics
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.planner import make_plan
from nexusform.plans.plan import NOT_READ_IDS, Plan
from nexusform.scheduling.listing.site_listing import describe_listed_sites
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.linting import lint_plan
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.opening.provider_setup import create_providers
from nexusform.workflow.opening.stored_state import read_stored_state
from nexusform.workflow.plan_files.saved_plans import get_configuration_sources, read_plan
from nexusform.workflow.runs.run import build_base_request
from nexusform.workflow.runs.state_refresh import Refreshed, refresh_objects

_LISTED_LEVELS: Final = frozenset({Level.ADVICE, Level.WARNING})


class LintAdvice(Struct, frozen=True):
    """The findings of one plan or state (`origin`).

    `diagnostics` are other problems, such as errors.
    """

    findings: tuple[Diagnostic, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)
    origin: str = ""


def find_advice(context: CommandContext, plan_path: str = "") -> LintAdvice:
    """Return the lint findings in the saved plan at `plan_path`.

    Without a path, make a plan and evaluate all rules for its existing and new objects. Errors of
    planning are returned, too.
    """
    if plan_path:
        saved, problems = read_plan(plan_path, context)
        if saved is None:
            return LintAdvice(diagnostics=tuple(problems))
        sources = get_configuration_sources(saved)
        return LintAdvice(
            tuple(_list_plan_findings(saved.plan)),
            _select_diagnostics_if_errors(saved.plan.diagnostics),
            sources,
            f"plan {plan_path}",
        )
    opened = open_project(context)
    if opened.project is None:
        return LintAdvice(diagnostics=opened.diagnostics, sources=opened.sources)
    stored, problems = read_stored_state(opened.project.backend)
    if stored is None:
        return LintAdvice(diagnostics=tuple(problems), sources=opened.sources)
    # Samples (plans with other random choices) only show how certain a placement is; findings do
    # not use this.
    request = replace(build_base_request(opened.project, stored), samples=0)
    request, site_findings = _refresh_sites(request, context)
    result = make_plan(request)
    if result.plan.errored:
        return LintAdvice(
            diagnostics=_select_diagnostics_if_errors(result.plan.diagnostics),
            sources=opened.sources,
        )
    # With warnings about sites.
    complete_plan = add_site_capacity(result, opened.project.registries).plan
    findings = (
        *site_findings,
        *_list_plan_findings(complete_plan),
        *lint_plan(result, request, everything=True),
    )
    origin = (
        f"state serial {stored.state.serial}" if stored.state.lineage else "nothing applied yet"
    )
    if result.plan.has_changes:
        origin += ", plus planned changes"
    return LintAdvice(findings, sources=opened.sources, origin=origin)


def _is_about_missing_data(finding_id: str) -> bool:
    """Return whether a finding names data that the plan lacks; VMs without a machine are read."""
    return finding_id in NOT_READ_IDS or (
        hides_capacity(finding_id) and finding_id != VMS_WITHOUT_MACHINE
    )


def _list_plan_findings(plan: Plan) -> Iterator[Diagnostic]:
    """Yield how platforms list the sites of a plan, its risks, warnings and missing data."""
    yield from _build_listed_findings(plan)
    risks = list(list_risk_diagnostics(plan, everything=True))
    yield from risks
    risk_ids = {risk.id for risk in risks}
    for diagnostic in plan.diagnostics:
        level = get_diagnostic_level(diagnostic)
        is_listed = level in _LISTED_LEVELS or hides_capacity(diagnostic.id)
        if is_listed and diagnostic.id not in risk_ids:
            yield diagnostic


def _refresh_sites(
    request: PlanRequest, context: CommandContext
) -> tuple[PlanRequest, list[Diagnostic]]:
    """Return the request with the objects of sites as their providers read them now.

    If a site cannot be read, or its source lacks it, return a finding: the objects are then those
    of the state.
    """
    if not request.configuration.root.providers:
        return request, []
    with ExitStack() as exit_stack:
        providers, problems = create_providers(request, context, exit_stack)
        sites = {
            name: provider
            for name, provider in providers.items()
            if isinstance(provider, CaptureProvider)
        }
        failures = [problem.detail for problem in problems if problem.severity is Severity.ERROR]
        refreshed: Refreshed = {}
        unread: list[Diagnostic] = []
        try:
            if sites and not failures:
                types = request.registries.resource_types
                refreshed = refresh_objects(
                    request.state, sites, types, on_read=lambda _address, _id: None
                )
                warnings = chain.from_iterable(site.list_warnings() for site in sites.values())
                unread += [
                    convert_problem(problem)
                    for problem in warnings
                    if _is_about_missing_data(problem.id)
                ]
        except ProviderProblem as failure:
            failures = [str(failure)]
    if failures:
        detail = f"{failures[0].rstrip('.')}. The findings are those of the recorded state."
        return request, [build_warning("plan-from-state", detail)]
    return replace(request, refreshed_objects=refreshed), unread


def _build_listed_findings(plan: Plan) -> Iterator[Diagnostic]:
    """Yield a finding per site that its platform lists with differences: a line for each."""
    for site in plan.observed.listed:
        yield build_warning("site-differs", "\n".join(describe_listed_sites([site])))


def _select_diagnostics_if_errors(diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics other than lint findings; () if none of these is an error."""
    other_diagnostics = tuple(
        diagnostic for diagnostic in diagnostics if diagnostic.id not in RULE_IDS
    )
    return other_diagnostics if has_errors(other_diagnostics) else ()
