"""`nexusform sites status` and `nexusform sites unlock`."""

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_number,
    declare_report_flags,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.interrupts import handle_interrupts
from nexusform.cli.report_output import Answer, AnswerFormatFlags, is_document, write_answer
from nexusform.cli.shared_flags import ViewFlags, create_context
from nexusform.cli.terminal_screen import Screen, is_input_allowed
from nexusform.diagnostics.diagnostic import build_error
from nexusform.diagnostics.phrases import format_count, format_list
from nexusform.domains.sites.cli.site_flags import SiteTargetFlags
from nexusform.domains.sites.rendering.site_reports import (
    build_status_document,
    build_status_report,
    list_lock_hosts,
    select_failed_results,
)
from nexusform.domains.sites.types.site_tasks import (
    QuestionKind,
    SiteQuestion,
    SiteResult,
    SiteStatus,
    select_results,
)
from nexusform.domains.sites.workflow import fleet_tasks
from nexusform.domains.sites.workflow.fleet_tasks import (
    read_fleet_status,
    read_site_locks,
    release_locks,
    run_fleet_question,
)
from nexusform.domains.sites.workflow.undeclared_states import record_state_locations
from nexusform.workflow.opening.system_io import SystemClock


class StatusArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `sites status`."""

    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")
    report: tuple[str, ...] = declare_report_flags()
    samples: int = declare_number(
        "Compute certainty per site with N tie-break samples", default=0, minimum=0
    )
    targets: SiteTargetFlags = declare_flag_group(SiteTargetFlags)
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("status", StatusArguments)
def status(arguments: StatusArguments) -> int:
    """Show the status of every site: applied, interrupted or not applied yet.

    States are read without locks. -samples also plans the sites and computes certainty. Exit code 1
    if a state cannot be read, an apply was interrupted, or a site cannot be planned.
    """
    runs = arguments.samples
    part = fleet_tasks.RUNS_PER_PART
    if runs > part and runs % part:
        raise click.UsageError(f"-samples above {part} are a multiple of it, not {runs}.")
    screen = arguments.view.create_screen()
    format_name = "json" if arguments.as_json else "text"
    flags = AnswerFormatFlags(format=format_name, report=arguments.report)
    is_aside = is_document(flags)
    sites = arguments.targets.select(screen, with_undeclared=True, is_aside=is_aside)
    fleet = sites.fleet
    names = sites.names
    with (
        arguments.targets.engine.open_engine(screen) as engine,
        handle_interrupts(screen.print_error) as interrupts,
    ):
        plan = read_fleet_status(fleet, names, engine, interrupts.is_stopping)
        question = SiteQuestion(QuestionKind.CERTAINTY, runs=runs)
        results = (
            run_fleet_question(fleet, names, engine, question, interrupts.is_stopping)
            if runs
            else []
        )
    problems = record_state_locations(fleet, create_context(), (site.result for site in plan.sites))
    screen.print_diagnostics(problems, sources={}, is_aside=is_aside)
    plan = replace(plan, undeclared=sites.undeclared)
    report = build_status_report(plan, SystemClock().read_time(), results)
    answer = Answer("", "", report, build_status_document(plan, results))
    write_answer(answer, flags, screen)
    failed = plan.select_by_status(SiteStatus.REJECTED, SiteStatus.FAILED)
    is_interrupted = len(plan.sites) < len(names)
    return 1 if failed or select_failed_results(results) or is_interrupted else 0


class UnlockArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `sites unlock`."""

    host: str = declare_text_flag("Release the locks of this host", metavar="HOST")
    force: bool = declare_switch_flag("Skip the confirmation")
    targets: SiteTargetFlags = declare_flag_group(SiteTargetFlags)
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("unlock", UnlockArguments)
def unlock(arguments: UnlockArguments) -> int:
    """Release the locks of a dead host, except those of started sites.

    Make sure no nexusform process runs on the host: the second run stops the first. Locks of
    started sites remain; each is listed with its force-unlock command. Exit code 1 if a lock
    remains or cannot be read.
    """
    if not arguments.host:
        raise click.UsageError(
            "-host=HOST is required. `nexusform sites status` lists the locks and their hosts."
        )
    screen = arguments.view.create_screen()
    targets = arguments.targets.select(screen)
    context = targets.fleet.context
    with (
        arguments.targets.engine.open_engine(screen) as engine,
        handle_interrupts(screen.print_error),
    ):
        locks = read_site_locks(engine, context, targets.names)
        unreadable = select_results(locks, SiteStatus.REJECTED)
        _print_unreadable_locks(unreadable, screen)
        locked_names = [
            result.site for result in locks if result.lock and result.lock.host == arguments.host
        ]
        if not locked_names:
            hosts = list_lock_hosts(locks)
            hosts_text = f" Hosts with locks: {format_list(hosts)}." if hosts else ""
            screen.print_error(f'No site is locked by the host "{arguments.host}".{hosts_text}')
            return 1
        if not arguments.force and not _confirm_unlock(arguments.host, len(locked_names), screen):
            # The reason was printed.
            return 1
        results = release_locks(engine, context, locked_names, arguments.host)
        return max(_print_released_locks(results, arguments.host, screen), int(bool(unreadable)))


def _confirm_unlock(host: str, count: int, screen: Screen) -> bool:
    """Return whether the user confirms; print the reason if not."""
    if not is_input_allowed(flag=True):
        screen.print_error("Input is disabled (NF_INPUT). Use -force to unlock without a prompt.")
        return False
    answer = screen.prompt_user(
        f'Do you really want to release locks of {format_count(count, "site")} held by "{host}"?',
        (
            "A process that still runs there could then write the same states.\nOnly 'yes' will "
            "be accepted to confirm."
        ),
    )
    if answer != "yes":
        screen.print_text("unlock cancelled.")
    return answer == "yes"


def _print_released_locks(results: list[SiteResult], host: str, screen: Screen) -> int:
    """Print the released and the remaining locks.

    Return 1 if some remain or cannot be read, else 0.
    """
    # A release counts as applied, a kept lock as skipped.
    released = select_results(results, SiteStatus.APPLIED)
    screen.print_text(f"Released {format_count(len(released), 'lock')} of {host}.")
    remaining = ""
    for result in select_results(results, SiteStatus.SKIPPED):
        # None: the site has no lock.
        if result.lock is not None:
            reason = (
                "its apply has started"
                if result.lock.has_started
                else "its process is running on this machine"
            )
            remaining += f"\n  {result.site}: {reason}\n    {result.lock.unlock_command}"
    if remaining:
        screen.print_text(f"\nThese locks remain. Check the site, then remove its lock:{remaining}")
    unreadable = select_results(results, SiteStatus.REJECTED)
    _print_unreadable_locks(unreadable, screen)
    return int(bool(remaining or unreadable))


def _print_unreadable_locks(results: list[SiteResult], screen: Screen) -> None:
    problems = [
        build_error("unreadable-lock", f"{result.site}: {result.reason}") for result in results
    ]
    screen.print_diagnostics(problems, sources={})
