"""`nexusform show`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import choice, group, number, positionals, switch
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of, state_flag
from nexusform.cli.planning_flags import PlacementFlags
from nexusform.cli.report_flag import (
    MAX_BYTES,
    ReportFlag,
    Subject,
    plan_reports,
    to_stdout,
    write_report,
    write_reports,
)
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.domain_table import Loaded, targets_of_domains
from nexusform.plans.plan import Plan
from nexusform.resource_types.registry import registries
from nexusform.workflow.plan_files.show import Shown, find_shown

# Types to what prints objects of them: (instances, -status-version, columns, whether secrets are shown).
Writer: TypeAlias = Callable[..., str]
SHOWN: Final[Mapping[str, Writer]] = Loaded(targets_of_domains("shows"))


class ShowArguments(Struct, frozen=True, kw_only=True):
    """What `show` takes; without `targets` it shows the state."""

    targets: tuple[str, ...] = positionals(metavar="[TARGET]...")
    as_json: bool = switch("Print a JSON document", flag="json")
    show_sensitive: bool = switch("Show sensitive values")
    max_bytes: int | None = number("Limit text and Markdown to N bytes", default=None, at_least=1)
    status_version: str = choice(
        "Print placements with the conditions of 2023",
        ("", "2023"),
        metavar="2023",
    )
    shown: PlacementFlags = group(PlacementFlags)
    state: str = state_flag()
    view: ViewFlags = group(ViewFlags)


@command("show", ShowArguments)
def show(arguments: ShowArguments) -> int:
    """Show the state, a saved plan, a state file or one resource.

    TARGET is a file or an address; a file takes precedence. Several saved plans share one summary,
    as text or -report=markdown:PATH.
    """
    reports = plan_reports(arguments.shown)
    screen = arguments.view.screen()
    if len(arguments.targets) > 1:
        return _show_several(arguments, reports, screen)
    shown = find_shown(place_of(arguments.state), "".join(arguments.targets))
    screen.diagnostics(shown.diagnostics, shown.sources or {})
    if has_errors(shown.diagnostics):
        return 1
    if reports and shown.saved is None:
        raise click.UsageError("-report shows a saved plan: name its file.")
    if reports:
        write_reports(reports, _subject(shown, arguments))
    if to_stdout(reports):
        return 0
    if arguments.as_json:
        _write_json(shown, arguments)
        return 0
    text = _plan_text if shown.saved else _state_text
    screen.out(_cut(text(shown, arguments, screen), arguments.max_bytes), end="")
    return 0


def _show_several(arguments: ShowArguments, reports: Sequence[ReportFlag], screen: Screen) -> int:
    """One summary over several saved plans."""
    from nexusform.rendering.answers.outline import outline_markdown, outline_text
    from nexusform.rendering.answers.plans_outline import plans_outline

    if arguments.as_json or any(report.format not in ("text", "markdown") for report in reports):
        raise click.UsageError("Several plans are shown together as text or Markdown: -report=markdown:PATH.")
    plans: list[tuple[str, Plan]] = []
    for target in arguments.targets:
        shown = find_shown(place_of(arguments.state), target)
        screen.diagnostics(shown.diagnostics, shown.sources or {})
        if has_errors(shown.diagnostics):
            return 1
        if shown.saved is None:
            raise click.UsageError(f'"{target}" is no saved plan, and only plans are shown together.')
        plans.append((target, shown.saved.plan))
    outline = plans_outline(plans, registries())
    for report in reports:
        text = outline_markdown(outline) if report.format == "markdown" else outline_text(outline)
        write_report(text.encode(), report)
    if not to_stdout(reports):
        text = outline_text(outline, colour=screen.colour, width=screen.width)
        screen.out(_cut(text, arguments.max_bytes), end="")
    return 0


def _subject(shown: Shown, arguments: ShowArguments) -> Subject:
    assert shown.saved is not None, "reports are about plans"
    return Subject(
        shown.saved.plan,
        shown.sources or {},
        registries(),
        arguments.shown,
        shown.configuration,
        shown.state,
        arguments.show_sensitive,
        arguments.max_bytes or MAX_BYTES,
    )


def _write_json(shown: Shown, arguments: ShowArguments) -> None:
    from nexusform.rendering.json.json_document import plan_document, state_document, write_json

    if shown.saved is not None:
        document = plan_document(
            shown.saved.plan,
            shown.configuration,
            shown.state,
            registries=registries(),
            files=shown.sources or {},
            placements=arguments.shown.detail,
            show_sensitive=arguments.show_sensitive,
        )
    else:
        state = shown.state if shown.instances is None else replace(shown.state, instances=shown.instances)
        document = state_document(state, show_sensitive=arguments.show_sensitive)
    sys.stdout.flush()
    write_json(document, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _plan_text(shown: Shown, arguments: ShowArguments, screen: Screen) -> str:
    from nexusform.rendering.text.short_plan import PlanTextOptions
    from nexusform.rendering.text.terminal import render_plan

    assert shown.saved is not None, "checked by the caller"
    options = PlanTextOptions(
        colour=screen.colour,
        width=screen.width,
        placements=arguments.shown.detail,
        details=arguments.shown.details,
        terraform=arguments.shown.terraform,
        hints=False,
        registries=registries(),
    )
    return "\n" + render_plan(shown.saved.plan, shown.sources or {}, options)


def _state_text(shown: Shown, arguments: ShowArguments, screen: Screen) -> str:
    from nexusform.rendering.text.state_text import render_state

    told = _of_a_domain(shown, arguments, screen.known_width)
    if told:
        return told
    state = shown.state
    if shown.instances is not None:
        state = replace(state, instances=shown.instances, outputs={})
    return render_state(state, registries(), colour=screen.colour, show_sensitive=arguments.show_sensitive)


def _of_a_domain(shown: Shown, arguments: ShowArguments, width: int) -> str:
    """Objects alone that a domain prints in its own way, such as placements; "" for anything else."""
    types = {address.type for address in shown.instances or ()}
    if not shown.instances or not types <= SHOWN.keys():
        return ""
    writers = {SHOWN[name] for name in types}
    if len(writers) > 1:
        return ""
    (write,) = writers
    return write(shown.instances, arguments.status_version, width, show_sensitive=arguments.show_sensitive)


def _cut(text: str, most: int | None) -> str:
    data = text.encode()
    if most is None or len(data) <= most:
        return text
    kept = data[:most].decode(errors="ignore")
    return f"{kept}\n... cut off after {most} of {len(data)} bytes (-max-bytes).\n"
