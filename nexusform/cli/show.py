"""`nexusform show`."""

from __future__ import annotations

import sys
from typing import Any

import click
from msgspec.structs import replace

from nexusform.cli import flags
from nexusform.cli.commands import command, option, switch
from nexusform.cli.reports import MAX_BYTES, Subject, to_stdout, wanted_reports, write_reports
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.rendering.report.placement_rows import Detail
from nexusform.resource_types.registry import registries
from nexusform.workflow.show import Shown, find_shown


@command("show", summary="Show the state, a saved plan, or one resource")
@click.argument("target", required=False, default="")
@switch("json", "As a JSON document", parameter="as_json")
@switch("show-sensitive", "Show sensitive values")
@option("max-bytes", "Keep text and Markdown within so many bytes", metavar="N", kind=click.IntRange(min=1))
@option(
    "status-version",
    "Print placements with the conditions of that year (2023); today's without it",
    metavar="2023",
    default="",
    kind=click.Choice(["", "2023"]),
)
@flags.placement_flags
@flags.state_flags
@flags.view_flags
def show(target: str, **given: Any) -> int:
    """Show the state, or the saved plan or state file TARGET, or the resource with the address TARGET.

    A file of that name wins over an address.
    """
    reports = wanted_reports(given["report"])
    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    shown = find_shown(flags.place_of(given), target)
    screen.diagnostics(shown.diagnostics, shown.sources or {})
    if has_errors(shown.diagnostics):
        return 1
    if reports:
        if shown.saved is None:
            raise click.UsageError("-report shows a saved plan: name its file.")
        write_reports(reports, _subject(shown, given))
        if to_stdout(reports):
            return 0
    if given["as_json"]:
        _json(shown, given)
        return 0
    text = _plan_text(shown, given, screen) if shown.saved else _state_text(shown, given, screen)
    screen.out(_cut(text, given["max_bytes"]), end="")
    return 0


def _subject(shown: Shown, given: dict[str, Any]) -> Subject:
    assert shown.saved is not None, "reports are about plans"
    return Subject(
        shown.saved.plan,
        shown.sources or {},
        registries(),
        Detail(given["placements"]),
        shown.configuration,
        shown.state,
        given["show_sensitive"],
        given["max_bytes"] or MAX_BYTES,
    )


def _json(shown: Shown, given: dict[str, Any]) -> None:
    from nexusform.rendering.json.json_document import plan_document, state_document, write_json

    sensitive = given["show_sensitive"]
    if shown.saved is not None:
        document = plan_document(
            shown.saved.plan,
            shown.configuration,
            shown.state,
            registries=registries(),
            files=shown.sources or {},
            placements=Detail(given["placements"]),
            show_sensitive=sensitive,
        )
    else:
        state = shown.state if shown.instances is None else replace(shown.state, instances=shown.instances)
        document = state_document(state, show_sensitive=sensitive)
    sys.stdout.flush()
    write_json(document, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _plan_text(shown: Shown, given: dict[str, Any], screen: Screen) -> str:
    from nexusform.rendering.text.terminal import PlanTextOptions, render_plan

    assert shown.saved is not None, "checked by the caller"
    options = PlanTextOptions(
        colour=screen.colour,
        width=screen.width,
        placements=Detail(given["placements"]),
        hints=False,
        registries=registries(),
    )
    return "\n" + render_plan(shown.saved.plan, shown.sources or {}, options)


def _state_text(shown: Shown, given: dict[str, Any], screen: Screen) -> str:
    from nexusform.rendering.text.state_text import render_state

    placements = _placements_text(shown, given["status_version"], sensitive=given["show_sensitive"])
    if placements:
        return placements
    state = shown.state
    if shown.instances is not None:
        state = replace(state, instances=shown.instances, outputs={})
    return render_state(state, registries(), colour=screen.colour, show_sensitive=given["show_sensitive"])


def _placements_text(shown: Shown, version: str, *, sensitive: bool) -> str:
    """Fleet placements alone are printed as `kubectl describe` does; "" for anything else."""
    from nexusform.importers.fleet_model import FleetPlacement
    from nexusform.rendering.answers.placement_status_text import PLACEMENTS, render_placement

    if not shown.instances or any(a.type not in PLACEMENTS for a in shown.instances):
        return ""
    types = registries().resource_types
    texts = []
    for address, instance in shown.instances.items():
        read = types[address.type].fleet
        if instance.current is None or read is None or (instance.current.sensitive and not sensitive):
            return ""
        written = read(instance.current.attributes)
        if isinstance(written, FleetPlacement):
            texts.append(render_placement(address.type, instance.current.attributes, written, version))
    return "\n\n".join(texts)


def _cut(text: str, most: int | None) -> str:
    data = text.encode()
    if most is None or len(data) <= most:
        return text
    kept = data[:most].decode(errors="ignore")
    return f"{kept}\n... cut off after {most} of {len(data)} bytes (-max-bytes).\n"
