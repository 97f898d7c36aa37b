"""`nexusform sites plan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import group, switch, text, texts
from nexusform.cli.commands import command
from nexusform.cli.flags import LockFlags, ViewFlags, place_of
from nexusform.cli.interrupts import graceful_interrupts
from nexusform.cli.report_flag import parse_reports, to_stdout, write_report, write_to_stdout
from nexusform.cli.screen import Screen
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.domains.sites.cli.flags import EngineFlags, SelectionFlags, SourceFlags
from nexusform.domains.sites.rendering.fleet_document import fleet_document, fleet_sarif
from nexusform.domains.sites.rendering.summary import fleet_markdown, fleet_outline
from nexusform.domains.sites.types.fleet_plan import FleetPlan, UndeclaredSite
from nexusform.domains.sites.types.work import Answer, Status
from nexusform.domains.sites.workflow.fleet_planning import (
    FleetTerms,
    Made,
    OpenedFleet,
    open_fleet,
    plan_fleet,
    selected,
)
from nexusform.domains.sites.workflow.undeclared import remember_states, undeclared_sites
from nexusform.rendering.answers.outline import outline_text
from nexusform.rendering.json.json_document import json_bytes
from nexusform.workflow.opening.surroundings import unwritable
from nexusform.workflow.plan_files.saved_plans import Signer
from nexusform.workflow.plan_files.signed_plans import signer_of

CHANGES: Final = 2  # exit code of -detailed-exitcode


class PlanArguments(Struct, frozen=True, kw_only=True):
    """What `sites plan` takes."""

    out: str = text("Save the plans of all sites to a file", metavar="FILE")
    sign: str = text("Sign the saved plan with a private key (Ed25519, PEM)", metavar="KEYFILE")
    as_json: bool = switch("Print a JSON document", flag="json")
    report: tuple[str, ...] = texts("Write a report to a file (- is stdout)", metavar="FORMAT:PATH")
    detailed_exitcode: bool = switch("Exit with 2 if a site changes")
    selection: SelectionFlags = group(SelectionFlags)
    sources: SourceFlags = group(SourceFlags)
    lock: LockFlags = group(LockFlags)
    engine: EngineFlags = group(EngineFlags)
    view: ViewFlags = group(ViewFlags)


def _html(plan: FleetPlan) -> bytes:
    from nexusform.domains.sites.rendering.fleet_page import fleet_page

    return fleet_page(plan).encode()


FORMATS: Final[Mapping[str, Callable[[FleetPlan], bytes]]] = {
    "text": lambda plan: outline_text(fleet_outline(plan)).encode(),
    "markdown": lambda plan: fleet_markdown(plan).encode(),
    "json": lambda plan: json_bytes(fleet_document(plan)),
    "html": _html,
    "sarif": lambda plan: json_bytes(fleet_sarif(plan), pretty=True),
}


@command("plan", PlanArguments)
def plan(arguments: PlanArguments) -> int:
    """Plan every site of nexusform.sites.hcl and show one summary.

    Sites with equal changes share a row. A failed site is a row with its reason and blocks no
    other. Exit code 0, or 1 if a site is rejected. With -detailed-exitcode, 2 if sites change.
    """
    screen = arguments.view.screen()
    reports = parse_reports(arguments.report, FORMATS.keys())
    if not arguments.engine.usable(screen):
        return 1
    signer, problems = _output(arguments)
    if problems:
        screen.diagnostics(problems, {})
        return 1
    locking = arguments.lock.locking()
    terms = FleetTerms(locking.enabled, locking.timeout, arguments.sources.allow_source)
    opened = open_fleet(place_of(), terms)
    aside = arguments.as_json or to_stdout(reports)
    screen.diagnostics(opened.diagnostics, opened.sources, aside=aside)
    if opened.definition is None:
        return 1
    selection = arguments.selection
    undeclared = undeclared_sites(opened, place_of(), selection.site)
    names, problems = selected(opened.definition, selection.site, selection.wave, undeclared)
    screen.diagnostics(problems, {}, aside=aside)
    if problems:
        return 1
    made = _made(opened, names, undeclared, arguments, signer, screen)
    if made is None:
        return 1
    for report in reports:
        write_report(FORMATS[report.format](made.plan), report)
    if arguments.as_json:
        write_to_stdout(FORMATS["json"](made.plan) + b"\n", "json")
    elif not to_stdout(reports):
        _tell_what_next(made, screen, arguments.out)
    screen.diagnostics(made.diagnostics, opened.sources, aside=aside)
    return _exit_code(made, detailed=arguments.detailed_exitcode)


def _output(arguments: PlanArguments) -> tuple[Signer | None, list[Diagnostic]]:
    """What signs the plan, and whether it can be written; before anything is planned. Raises UsageError."""
    if arguments.sign and not arguments.out:
        raise click.UsageError("-sign signs a plan that is saved: add -out=FILE.")
    if arguments.out and (reason := unwritable(arguments.out)):
        return None, [error("the-plan-cannot-be-saved", reason)]
    return signer_of(arguments.sign, place_of().confinement) if arguments.sign else (None, [])


def _made(
    opened: OpenedFleet,
    names: list[str],
    undeclared: tuple[UndeclaredSite, ...],
    arguments: PlanArguments,
    signer: Signer | None,
    screen: Screen,
) -> Made | None:
    """Plan on the engine that is asked for, with a line that counts where somebody looks on."""
    made: Made | None = None
    counting = screen.live and not arguments.as_json
    for_people = not arguments.as_json and not to_stdout(parse_reports(arguments.report, FORMATS.keys()))
    done = 0

    def told(_: Answer) -> None:
        nonlocal done
        done += 1
        if counting:
            screen.err(f"\rPlanned {done:,} of {len(names):,} sites", end="")

    def planned(plan: FleetPlan) -> None:
        """Nobody waits for the disk to read what happens."""
        if counting:
            screen.err()
        if for_people:
            screen.out(outline_text(fleet_outline(plan), colour=screen.colour, width=screen.width))

    with arguments.engine.opened(screen) as engine, graceful_interrupts(screen.err) as interrupts:
        if engine is not None:
            made = plan_fleet(
                opened,
                names,
                engine,
                place=place_of(),
                out=arguments.out,
                signer=signer,
                undeclared=undeclared,
                told=told,
                planned=planned,
                stopping=interrupts.stopping,
            )
    if made is not None:
        remember_states(opened, place_of(), (site.answer for site in made.plan.sites))
    return made


def _tell_what_next(made: Made, screen: Screen, out: str) -> None:
    """Where the plan is, what to do with it, and what is approved."""
    if out and not has_errors(made.diagnostics):
        screen.out(f"Saved the plan to: {out}   (nexusform sites apply {out})")
    elif made.plan.of_status(Status.PLANNED) and not out:
        screen.out("Not saved: with -out=FILE, sites apply does exactly this.")
    screen.out(f"Digest: {made.plan.digest}")


def _exit_code(made: Made, *, detailed: bool) -> int:
    if has_errors(made.diagnostics) or made.plan.of_status(Status.REFUSED, Status.FAILED, Status.SKIPPED):
        return 1
    return CHANGES if detailed and made.plan.of_status(Status.PLANNED) else 0
