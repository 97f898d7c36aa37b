"""A plan for a pull request: the verdict, then where things go, then what else a reviewer asks.

The report never exceeds a number of bytes (hosts cut comments off at 65,536 characters): what matters
least is cut first, and what was cut is said. Tables have at most three columns, pictures 38: a phone shows
them whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nexusform.diagnostics import Severity
from nexusform.planning.plan import Plan, SeparationVerdict
from nexusform.ports import Registries
from nexusform.rendering.pull_request.markdown_changes import change_lines, every_stanza
from nexusform.rendering.pull_request.markdown_findings import (
    boxes,
    error_lines,
    finding_lines,
    standing_line,
)
from nexusform.rendering.pull_request.markdown_parts import (
    Part,
    as_diff,
    code,
    details,
    fenced,
    fit,
    folded,
    headed,
    plain,
)
from nexusform.rendering.pull_request.markdown_places import (
    binding_lines,
    causes_line,
    kind_lines,
    other_lines,
    pool_rows,
    unexpected_pools,
    vm_rows,
)
from nexusform.rendering.pull_request.markdown_room import all_rooms, room_lines
from nexusform.rendering.pull_request.markdown_verdict import alert, last_line, title_line
from nexusform.rendering.pull_request.origin import NOWHERE, Origin
from nexusform.rendering.pull_request.rack_picture import rack_picture
from nexusform.rendering.report.entries import Entries, plan_entries
from nexusform.rendering.report.machine_counts import changed_racks
from nexusform.rendering.report.overview import Overview, build_overview
from nexusform.rendering.report.placement_rows import Detail
from nexusform.rendering.report.report import Report, build_report, schema_lookup
from nexusform.rendering.text.placement_text import placement_text
from nexusform.rendering.text.stanza_text import output_lines, stanza_text
from nexusform.source import SourceFile

MAX_BYTES: Final = 65_000
_NO_REGISTRIES = Registries()
_CHANGES: Final = 20  # lines of changes that are not folded away
_BOXES: Final = 20


def render_markdown(
    plan: Plan,
    sources: Mapping[str, SourceFile],
    registries: Registries = _NO_REGISTRIES,
    placements: Detail = Detail.CHANGED,
    *,
    max_bytes: int = MAX_BYTES,
    origin: Origin = NOWHERE,
) -> str:
    """The whole report as GitHub-flavoured Markdown, with a newline at the end, in `max_bytes`."""
    report = build_report(plan, registries, placements)
    overview = build_overview(plan, report)
    entries = plan_entries(plan)
    title = title_line(plan, overview)
    verdict = Part("The verdict", 100, (title, *alert(plan, report, overview, entries)), whole=True)
    if report.errored:
        # As in the terminal: what was planned up to an error would only bury it.
        return fit([verdict, *_refusal(plan, entries, sources, origin)], max_bytes)
    parts = [
        verdict,
        *_places(plan, report, origin),
        *_consequences(plan, entries, overview, origin),
        Part("Changes", 60, tuple(change_lines(plan, schema_lookup(registries))), _few_open),
        Part("The last line", 99, (last_line(report, overview, origin),), whole=True),
        *_folded_parts(plan, report, overview, sources),
    ]
    return fit(parts, max_bytes)


def _refusal(plan: Plan, entries: Entries, sources: Mapping[str, SourceFile], origin: Origin) -> list[Part]:
    return [
        Part("Errors and ways out", 95, tuple(error_lines(plan.diagnostics, origin))),
        Part("Warnings", 60, tuple(finding_lines((*entries.caused, *entries.standing), origin))),
        _source_lines(plan, sources),
    ]


def _places(plan: Plan, report: Report, origin: Origin) -> list[Part]:
    """Where things go."""
    picture = rack_picture(changed_racks(plan))
    new_pools = pool_rows(report)
    unexpected = [] if new_pools else unexpected_pools(report)
    return [
        Part("VMs", 92, tuple(vm_rows(plan))),
        Part("Causes", 91, tuple(causes_line(plan, origin))),
        Part("New VMs", 88, tuple(new_pools)),
        Part("Pools that are spread otherwise than expected", 70, tuple(unexpected)),
        Part("Fleet bindings", 87, tuple(binding_lines(plan))),
        Part("Pods and what leaves", 82, tuple(other_lines(report))),
        Part("Racks", 65, tuple(picture), lambda text: fenced(text, "text"), whole=True),
        Part("Counts", 86, tuple(kind_lines(plan, report))),
    ]


def _consequences(plan: Plan, entries: Entries, overview: Overview, origin: Origin) -> list[Part]:
    """What follows for the site: room, rules, warnings."""
    rules = [_rule_line(rule) for rule in plan.separation_rules]
    return [
        Part("Room", 85, tuple(room_lines(overview.sites, overview.room))),
        Part("Separation rules", 75, tuple(rules), headed("Separation rules")),
        Part("Warnings", 90, tuple(finding_lines(entries.caused, origin)), headed("Warnings and advice")),
        Part("What held before", 50, tuple(standing_line(entries.standing))),
    ]


def _rule_line(rule: SeparationVerdict) -> str:
    count = f", violations: {len(rule.violations)}" if rule.violations else ""
    return f"- {code(str(rule.address))} ({plain(rule.enforcement)}) holds {plain(rule.holds)}{count}"


def _folded_parts(
    plan: Plan, report: Report, overview: Overview, sources: Mapping[str, SourceFile]
) -> list[Part]:
    """What a reviewer opens when in doubt."""
    outputs = "\n".join(output_lines(report.outputs))
    return [
        _source_lines(plan, sources),
        _folded("Room of every site", 45, all_rooms(overview)),
        _folded("Placements by pool", 40, placement_text(report, width=120) if report.groups else ""),
        _folded("Every change", 10, as_diff(every_stanza(plan, report)), "diff"),
        _folded("Changed outside of nexusform", 30, as_diff(_drift(report)), "diff"),
        _folded("Changes to outputs", 20, as_diff(outputs), "diff"),
    ]


def _source_lines(plan: Plan, sources: Mapping[str, SourceFile]) -> Part:
    ordered = sorted(plan.diagnostics, key=lambda each: each.severity is not Severity.ERROR)
    return _folded("Source lines and what to do", 50, boxes(ordered[:_BOXES], sources))


def _folded(title: str, importance: int, body: str, language: str = "") -> Part:
    lines = tuple(body.split("\n")) if body else ()
    return Part(title, importance, lines, lambda text: folded(title, text, language))


def _few_open(text: str) -> str:
    """The first lines in sight, the others folded away."""
    lines = text.split("\n")
    end = _end_of_object(lines)
    drawn = headed("Changes")("\n".join(lines[:end]))
    if end == len(lines):
        return drawn
    more = details("More changes", "\n".join(lines[end:]))
    return f"{drawn}\n\n{more}"


def _end_of_object(lines: Sequence[str]) -> int:
    """Where an object begins after as many lines as are in sight, or the end."""
    for number, line in enumerate(lines):
        if number >= _CHANGES and not line.startswith(" "):
            return number
    return len(lines)


def _drift(report: Report) -> str:
    return "\n\n".join(stanza_text(stanza) for stanza in report.drift)
