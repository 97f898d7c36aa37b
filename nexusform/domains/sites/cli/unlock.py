"""`nexusform sites unlock`."""

from __future__ import annotations

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_switch_flag, declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.interrupts import handle_interrupts
from nexusform.cli.shared_flags import ViewFlags, create_context
from nexusform.cli.terminal_screen import Screen, is_input_allowed
from nexusform.diagnostics.diagnostic import build_error
from nexusform.diagnostics.phrases import format_count, format_list
from nexusform.domains.sites.cli.site_flags import ModuleSourceFlags, SiteSelectionFlags, TaskEngineFlags
from nexusform.domains.sites.types.site_tasks import SiteResult, SiteStatus
from nexusform.domains.sites.workflow.fleet_locks import read_site_locks, release_locks
from nexusform.domains.sites.workflow.fleet_planning import FleetOptions, open_fleet, select_sites


class UnlockArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `sites unlock`."""

    host: str = declare_text_flag("Release the locks of this host", metavar="HOST")
    force: bool = declare_switch_flag("Skip the confirmation")
    selection: SiteSelectionFlags = declare_flag_group(SiteSelectionFlags)
    sources: ModuleSourceFlags = declare_flag_group(ModuleSourceFlags)
    engine: TaskEngineFlags = declare_flag_group(TaskEngineFlags)
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("unlock", UnlockArguments)
def unlock(arguments: UnlockArguments) -> int:
    """Release the locks of a dead host, except those of started sites.

    Make sure no nexusform process runs on the host: two runs overwrite each other. Locks of started
    sites remain; each is listed with its force-unlock command. Exit code 1 if a lock remains or
    cannot be read.
    """
    if not arguments.host:
        raise click.UsageError("-host=HOST is required. `nexusform sites status` lists the locks and their hosts.")
    screen = arguments.view.create_screen()
    if not arguments.engine.check_usable(screen):
        return 1
    opened = open_fleet(create_context(), FleetOptions(allowed_sources=arguments.sources.allow_source))
    screen.print_diagnostics(opened.diagnostics, opened.sources)
    if opened.definition is None or opened.fleet is None:
        return 1
    names, problems = select_sites(opened.definition, arguments.selection.site, arguments.selection.wave)
    screen.print_diagnostics(problems, {})
    if problems:
        return 1
    with arguments.engine.open_engine(screen) as engine, handle_interrupts(screen.print_error):
        if engine is None:
            return 1
        locks = read_site_locks(engine, opened.fleet, names)
        unreadable = [result for result in locks if result.status is SiteStatus.REFUSED]
        _print_unreadable_locks(unreadable, screen)
        selected = [result.site for result in locks if result.lock and result.lock.host == arguments.host]
        if not selected:
            screen.print_error(_describe_other_locks(arguments.host, locks))
            return 1
        if not arguments.force and not _confirm_unlock(arguments.host, len(selected), screen):
            return 1
        results = release_locks(engine, opened.fleet, selected, arguments.host)
        return max(_print_released_locks(results, arguments.host, screen), int(bool(unreadable)))
    return 1


def _describe_other_locks(host: str, locked: list[SiteResult]) -> str:
    hosts = sorted({result.lock.host for result in locked if result.lock is not None and result.lock.host})
    others = f" Hosts with locks: {format_list(hosts)}." if hosts else ""
    return f'No site is locked by the host "{host}".{others}'


def _confirm_unlock(host: str, count: int, screen: Screen) -> bool:
    """Return whether the user confirms; print the reason if not."""
    if not is_input_allowed(flag=True):
        screen.print_error("Input is disabled (NF_INPUT). Use -force to unlock without a prompt.")
        return False
    answer = screen.prompt_user(
        f'Do you really want to release locks of {format_count(count, "site")} held by "{host}"?',
        "A process that still runs there could then write the same states.\nOnly 'yes' will be accepted to confirm.",
    )
    if answer != "yes":
        screen.print_text("unlock cancelled.")
    return answer == "yes"


def _print_released_locks(results: list[SiteResult], host: str, screen: Screen) -> int:
    """Print the released and the remaining locks; return the exit code."""
    released = [result for result in results if result.status is SiteStatus.APPLIED]
    screen.print_text(f"Released {format_count(len(released), 'lock')} of {host}.")
    remaining = [result for result in results if result.status is SiteStatus.SKIPPED and result.lock is not None]
    if remaining:
        screen.print_text("\nThese locks remain. Check the site, then remove its lock:")
    for result in remaining:
        assert result.lock is not None, "selected above"
        reason = "its apply has started" if result.lock.has_started else "its process is running on this machine"
        screen.print_text(f"  {result.site}: {reason}\n    {result.lock.unlock_command}")
    failed = [result for result in results if result.status is SiteStatus.REFUSED]
    _print_unreadable_locks(failed, screen)
    return 1 if remaining or failed else 0


def _print_unreadable_locks(results: list[SiteResult], screen: Screen) -> None:
    problems = [build_error("unreadable-lock", f"{result.site}: {result.reason}") for result in results]
    screen.print_diagnostics(problems, {})
