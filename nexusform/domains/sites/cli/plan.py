"""`nexusform sites plan` and `nexusform sites sign`."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

import nexusform
from nexusform.cli.arguments import (
    declare_flag_group,
    declare_optional_positional,
    declare_repeatable_text,
    declare_report_flags,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.export import Withdrawal, withdraw_and_report
from nexusform.cli.interrupts import handle_interrupts
from nexusform.cli.plan import parse_limit_flags
from nexusform.cli.report_flag import (
    ReportFlag,
    has_stdout_report,
    parse_reports,
    write_report,
    write_to_stdout,
)
from nexusform.cli.shared_flags import (
    AfterReviewFlags,
    StateLockFlags,
    ViewFlags,
    create_context,
    is_confinement_disabled,
)
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.diagnostics.phrases import format_list
from nexusform.domains.sites.cli.site_flags import (
    ModuleSourceFlags,
    SelectedSites,
    SiteSelectionFlags,
    TaskEngineFlags,
)
from nexusform.domains.sites.rendering.fleet_decision import check_fleet_limits
from nexusform.domains.sites.rendering.fleet_document import (
    build_fleet_document,
    list_fleet_findings,
)
from nexusform.domains.sites.rendering.fleet_summary import (
    build_fleet_markdown,
    build_fleet_summary,
)
from nexusform.domains.sites.types.fleet_plan import FleetDefinition, FleetPlan
from nexusform.domains.sites.types.site_tasks import SiteResult, SiteStatus
from nexusform.domains.sites.workflow.fleet_plan_file import (
    build_failed_plan,
    read_fleet_plan,
    save_failed_plan,
    sign_fleet_plan,
)
from nexusform.domains.sites.workflow.fleet_tasks import (
    FleetPlanningResult,
    open_fleet,
    plan_fleet,
    select_sites,
)
from nexusform.domains.sites.workflow.undeclared_states import (
    find_undeclared_sites,
    record_state_locations,
)
from nexusform.files.external_files import AllowedWriter, ArgumentFile
from nexusform.plans.impact.guard_rails import GuardRailLimit
from nexusform.plans.plan import NOT_READ_IDS
from nexusform.plans.saved.plan_file import MULTI_SITE_PLAN
from nexusform.rendering.json.json_document import encode_document
from nexusform.rendering.text.report_text import render_report_text
from nexusform.workflow.opening.system_io import is_stream_or_directory
from nexusform.workflow.plan_files.plan_signing import check_signable, create_signer
from nexusform.workflow.plan_files.plan_statement import Signer
from nexusform.workflow.plan_files.saved_plans import UNFINISHED, check_plan_path

# Exit code of -detailed-exitcode.
EXIT_CHANGES: Final = 2
_MAX_WAVES: Final = 6


class PlanArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `sites plan`."""

    out: str = declare_text_flag(
        "Save the plans of all sites to a file",
        metavar="FILE",
        file=ArgumentFile("plan of sites", AllowedWriter.COMMAND),
    )
    sign: str = declare_text_flag(
        "Sign the saved plan with a private key (Ed25519, PEM)",
        metavar="KEYFILE",
        file=ArgumentFile("private key of a signer", AllowedWriter.OPERATOR),
    )
    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")
    report: tuple[str, ...] = declare_report_flags()
    detailed_exitcode: bool = declare_switch_flag("Exit with 2 if a site changes")
    fail_on: tuple[str, ...] = declare_repeatable_text(
        "Exit with 1 if the plan exceeds a guard rail", metavar="NAME:LIMIT,..."
    )
    warn_on: tuple[str, ...] = declare_repeatable_text(
        "Ask for a review if the plan exceeds a guard rail", metavar="NAME:LIMIT,..."
    )
    after_review: AfterReviewFlags = declare_flag_group(AfterReviewFlags)
    selection: SiteSelectionFlags = declare_flag_group(SiteSelectionFlags)
    sources: ModuleSourceFlags = declare_flag_group(ModuleSourceFlags)
    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    engine: TaskEngineFlags = declare_flag_group(TaskEngineFlags)
    view: ViewFlags = declare_flag_group(ViewFlags)


def _render_html(plan: FleetPlan) -> bytes:
    from nexusform.domains.sites.rendering.fleet_page import render_fleet_plan_page

    return render_fleet_plan_page(plan).encode()


def _render_sarif(plan: FleetPlan) -> bytes:
    from nexusform.rendering.pull_request.sarif import build_findings_document

    document = build_findings_document(list_fleet_findings(plan), nexusform.__version__)
    return encode_document(document, pretty=True)


FORMATS: Final[Mapping[str, Callable[[FleetPlan], bytes]]] = {
    "text": lambda plan: render_report_text(build_fleet_summary(plan)).encode(),
    "markdown": lambda plan: build_fleet_markdown(plan).encode(),
    "json": lambda plan: encode_document(build_fleet_document(plan)),
    "html": _render_html,
    "sarif": _render_sarif,
}


@define_command("plan", PlanArguments)
def plan(arguments: PlanArguments) -> int:
    """Plan every site of nexusform.sites.hcl and show one summary.

    Sites with equal changes share a row. A failed site is a row with its reason and blocks no
    other. -fail-on=NAME:LIMIT sets guard rails as in `plan`: numbers of objects and risks are sums
    over all sites, other limits hold for each site. Exit code 0, or 1 if a site is rejected or a
    guard rail blocks. With -detailed-exitcode, 2 if sites change, or 1 if one was not read.
    """
    screen = arguments.view.create_screen()
    reports = parse_reports(arguments.report, FORMATS.keys())
    arguments.engine.check_usable(screen)
    max_age = arguments.after_review.choose_max_age(create_context())
    after_merge = arguments.after_review.parse_step()
    limits = parse_limit_flags(arguments.fail_on, arguments.warn_on)
    # Diagnostics go to stderr.
    is_stdout_for_data = arguments.as_json or has_stdout_report(reports)
    if problems := _replace_older_plan_file(arguments):
        screen.print_diagnostics(problems, sources={}, is_aside=is_stdout_for_data)
        return 1
    locking = arguments.lock.build_options()
    opened = open_fleet(
        create_context(),
        has_lock=locking.enabled,
        lock_timeout=locking.timeout,
        allowed_sources=arguments.sources.allow_source,
    )
    signer, problems = _load_signer(arguments)
    sites = None
    if opened.fleet is not None:
        selection = arguments.selection
        undeclared = find_undeclared_sites(opened.fleet, create_context(), selection.site)
        names, name_problems = select_sites(
            opened.fleet.definition, selection.site, selection.wave, undeclared
        )
        problems += name_problems
        sites = SelectedSites(opened.fleet, names, undeclared)
        _check_next_wave(after_merge, opened.fleet.definition)
    problems = [*opened.diagnostics, *problems]
    if sites is None or has_errors(problems):
        problems += save_failed_plan(problems, arguments.out) if arguments.out else []
        failed_plan = replace(build_failed_plan(problems), after_merge=after_merge)
        failed_plan, _ = check_fleet_limits(failed_plan, limits)
        write_plan_reports(failed_plan, reports, as_json=arguments.as_json)
        screen.print_diagnostics(problems, opened.sources, is_aside=is_stdout_for_data)
        return 1
    screen.print_diagnostics(problems, opened.sources, is_aside=is_stdout_for_data)
    result = _plan_sites_on_engine(sites, arguments, signer, screen, max_age, limits)
    write_plan_reports(result.plan, reports, as_json=arguments.as_json)
    if not is_stdout_for_data:
        _print_next_steps(result, screen, arguments.out)
    screen.print_diagnostics(result.diagnostics, opened.sources, is_aside=is_stdout_for_data)
    rejected = result.plan.select_by_status(
        SiteStatus.REJECTED, SiteStatus.FAILED, SiteStatus.SKIPPED
    )
    if rejected or has_errors(result.diagnostics):
        return 1
    if not arguments.detailed_exitcode:
        return 0
    if result.plan.select_by_status(SiteStatus.PLANNED):
        return EXIT_CHANGES
    found_ids = {finding.id for site in result.plan.sites for finding in site.result.diagnostics}
    # A site that was not read may have changes.
    return 0 if found_ids.isdisjoint(NOT_READ_IDS) else 1


def _check_next_wave(step: str, definition: FleetDefinition) -> None:
    """Raise a usage error if -next names a wave that is not defined."""
    names = [wave.name for wave in definition.waves]
    wave = step.removeprefix("wave:")
    if wave != step and wave not in names:
        raise click.UsageError(
            f'-next: there is no wave "{wave}". The waves are {format_list(names, _MAX_WAVES)}.'
        )


def _replace_older_plan_file(arguments: PlanArguments) -> list[Diagnostic]:
    """Check the path of the plan.

    Replace an older plan there by a failed one (not usable) until the new one is written. Return
    the problems, or []. Raises UsageError.
    """
    if arguments.sign and not arguments.out:
        raise click.UsageError("-sign needs a saved plan: add -out=FILE.")
    if not arguments.out:
        return []
    problems = check_plan_path(arguments.out, create_context(), MULTI_SITE_PLAN)
    has_older_plan = os.path.lexists(arguments.out) and not is_stream_or_directory(
        Path(arguments.out)
    )
    if problems or not has_older_plan:
        return problems
    return save_failed_plan([build_error("unfinished-plan", UNFINISHED)], arguments.out)


def _load_signer(arguments: PlanArguments) -> tuple[Signer | None, list[Diagnostic]]:
    """Return the signer of -sign (None without -sign, or if it cannot be used), and problems."""
    if not arguments.sign:
        return None, []
    confinement = create_context().confinement
    unsafe = check_signable(
        is_confined=bool(confinement.root), is_unconfined_accepted=is_confinement_disabled()
    )
    return (None, unsafe) if unsafe else create_signer(arguments.sign, confinement)


def write_plan_reports(plan: FleetPlan, reports: Iterable[ReportFlag], *, as_json: bool) -> None:
    """Write the reports of a plan, and with `as_json` its JSON document to stdout."""
    for report in reports:
        write_report(FORMATS[report.format](plan), report)
    if as_json:
        write_to_stdout(FORMATS["json"](plan) + b"\n", "json")


def _plan_sites_on_engine(
    sites: SelectedSites,
    arguments: PlanArguments,
    signer: Signer | None,
    screen: Screen,
    max_age: float,
    limits: Sequence[GuardRailLimit],
) -> FleetPlanningResult:
    """Plan on the requested engine, with a progress line on a terminal.

    Print the plan unless stdout is for data.
    """
    has_progress = screen.is_live and not arguments.as_json
    has_text_output = not arguments.as_json and not has_stdout_report(
        parse_reports(arguments.report, FORMATS.keys())
    )
    planned_count = 0

    def count_result(_: SiteResult) -> None:
        nonlocal planned_count
        planned_count += 1
        if has_progress:
            screen.print_error(f"\rPlanned {planned_count:,} of {len(sites.names):,} sites", end="")

    def print_plan(plan: FleetPlan) -> None:
        """Print the plan before it is written."""
        if has_progress:
            # This ends the progress line.
            screen.print_error()
        if has_text_output:
            screen.print_text(
                render_report_text(
                    build_fleet_summary(plan), colour=screen.colour, width=screen.width
                )
            )

    with (
        arguments.engine.open_engine(screen) as engine,
        handle_interrupts(screen.print_error) as interrupts,
    ):
        result = plan_fleet(
            sites.fleet,
            sites.names,
            engine,
            location=create_context(),
            out=arguments.out,
            signer=signer,
            undeclared=sites.undeclared,
            max_age=max_age,
            after_merge=arguments.after_review.next,
            limits=limits,
            on_result=count_result,
            on_plan=print_plan,
            is_stopping=interrupts.is_stopping,
        )
    problems = record_state_locations(
        sites.fleet, create_context(), (site.result for site in result.plan.sites)
    )
    return replace(result, diagnostics=(*result.diagnostics, *problems))


def _print_next_steps(result: FleetPlanningResult, screen: Screen, out: str) -> None:
    """Print the plan's file and the next command, or else how to save a plan with changes.

    Then print its digest.
    """
    if out and not has_errors(result.diagnostics):
        screen.print_text(f"Saved the plan to: {out}   (nexusform sites apply {out})")
    elif result.plan.select_by_status(SiteStatus.PLANNED) and not out:
        screen.print_text("Not saved. Use -out=FILE to apply exactly this plan.")
    screen.print_text(f"Digest: {result.plan.digest}")


class SignArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `sites sign`."""

    planfile: str | None = declare_optional_positional(None, file=ArgumentFile("plan of sites"))
    key: str = declare_text_flag(
        "Use this private key (Ed25519, PEM)",
        metavar="KEYFILE",
        file=ArgumentFile("private key of a signer", AllowedWriter.OPERATOR),
    )
    withdraw: bool = declare_switch_flag("Withdraw the plan instead of signing it")
    revocations: str = declare_text_flag(
        "Add the withdrawn plan to this file",
        metavar="FILE",
        file=ArgumentFile("withdrawn plans", AllowedWriter.OPERATOR),
    )
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("sign", SignArguments)
def sign(arguments: SignArguments) -> int:
    """Sign an approved plan of sites, for `sites apply -verify=key:FILE`, or withdraw it.

    It must have been made with -confine, or type -confine=false. With -withdraw, adds the plan to a
    signed file of withdrawn plans: that of -revocations, else PLANFILE.revocations.json.
    """
    if arguments.planfile is None or not arguments.key:
        raise click.UsageError(
            "The plan or the key is missing. Use nexusform sites sign -key=KEYFILE F.nfsites."
        )
    if arguments.revocations and not arguments.withdraw:
        raise click.UsageError("-revocations needs -withdraw.")
    screen = arguments.view.create_screen()
    if arguments.withdraw:
        plan, problems = read_fleet_plan(arguments.planfile, create_context())
        screen.print_diagnostics(problems, sources={})
        if plan is None:
            return 1
        withdrawal = Withdrawal(
            arguments.planfile, plan.identity, arguments.key, arguments.revocations
        )
        return withdraw_and_report(withdrawal, screen, "sites apply")
    problems = sign_fleet_plan(
        arguments.planfile,
        arguments.key,
        create_context(),
        is_unconfined_accepted=is_confinement_disabled(),
    )
    screen.print_diagnostics(problems, sources={})
    if problems:
        return 1
    screen.print_text(f"Signed: {arguments.planfile}")
    return 0
