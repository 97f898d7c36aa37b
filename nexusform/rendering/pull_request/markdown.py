"""A plan for a pull request: the verdict, then where things go, then what else a reviewer asks: errors
with their ways out, warnings and advice, each said once, and changed racks as a picture of characters.

The report never exceeds a number of bytes (hosts cut comments off at 65,536 characters): what matters
least is cut first, and what was cut is said. Tables have at most three columns, pictures 38: a phone shows
them whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from textwrap import indent
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.plans.plan import Plan, SeparationVerdict
from nexusform.plans.room.occupancy import MachineCount, RackCounts, changed_racks
from nexusform.ports import Registries
from nexusform.rendering.notation.colours import columns, harmless, pad
from nexusform.rendering.pull_request.markdown_changes import change_lines, drift_lines, every_stanza
from nexusform.rendering.pull_request.markdown_parts import (
    ReportPart,
    as_diff,
    code,
    details,
    fenced,
    fit,
    folded,
    headed,
    line_of,
    place_of,
    plain,
    prose,
    table,
)
from nexusform.rendering.pull_request.markdown_places import (
    all_rooms,
    binding_lines,
    causes_line,
    every_vm,
    kind_lines,
    leaving_lines,
    pod_lines,
    pool_rows,
    rollout_lines,
    room_lines,
    unexpected_pools,
    vm_rows,
)
from nexusform.rendering.pull_request.markdown_verdict import alert, last_line, title_line
from nexusform.rendering.report.code_origin import NOWHERE, CodeOrigin
from nexusform.rendering.report.entries import (
    Entries,
    Entry,
    Finding,
    few_of_each,
    plan_entries,
    plan_findings,
    subjects_of,
    whole_thoughts,
)
from nexusform.rendering.report.folding import alike_groups, instances_text
from nexusform.rendering.report.overview import Overview, build_overview
from nexusform.rendering.report.placement_rows import Detail
from nexusform.rendering.report.report import Report, build_report, schema_lookup
from nexusform.rendering.report.site_rows import changed_rows, other_sites, site_rows
from nexusform.rendering.text.diagnostic_text import render_diagnostic
from nexusform.rendering.text.placement_text import placement_text
from nexusform.rendering.text.stanza_text import output_lines, stanza_text
from nexusform.source import SourceFile
from nexusform.weights import Level
from nexusform.words import counted, first_of, listed, natural

MAX_BYTES: Final = 65_000
_NO_REGISTRIES = Registries()
_EVERY_VM: Final = "Every VM, and how sure its machine is"
_CHANGES: Final = 20  # lines of changes that are not folded away
_BOXES: Final = 20


def render_markdown(
    plan: Plan,
    sources: Mapping[str, SourceFile],
    registries: Registries = _NO_REGISTRIES,
    placements: Detail = Detail.CHANGED,
    *,
    max_bytes: int = MAX_BYTES,
    origin: CodeOrigin = NOWHERE,
) -> str:
    """The whole report as GitHub-flavoured Markdown, with a newline at the end, in `max_bytes`."""
    report = build_report(plan, registries, placements)
    overview = build_overview(plan, report)
    entries = plan_entries(plan)
    title = title_line(overview)
    verdict = ReportPart("The verdict", 100, (title, *alert(plan, report, overview)), whole=True)
    if report.errored:
        # As in the terminal: what was planned up to an error would only bury it.
        return fit([verdict, *_refusal(plan, entries, sources, origin)], max_bytes)
    parts = [
        verdict,
        ReportPart("Sites", 93, tuple(_sites(plan))),
        *_places(plan, report, origin),
        *_consequences(plan, entries, overview, origin),
        ReportPart("Changes", 60, tuple(change_lines(plan, schema_lookup(registries))), _few_open),
        ReportPart(
            "What changed outside",
            60,
            tuple(drift_lines(plan, schema_lookup(registries))),
            headed("Changed outside of nexusform"),
        ),
        ReportPart("The last line", 99, (last_line(report, overview, origin),), whole=True),
        *_folded_parts(plan, report, overview, sources),
    ]
    return fit(parts, max_bytes)


def _refusal(
    plan: Plan, entries: Entries, sources: Mapping[str, SourceFile], origin: CodeOrigin
) -> list[ReportPart]:
    """The parts of a report of a plan in error."""
    return [
        ReportPart("Errors and ways out", 95, tuple(error_lines(_in_order(plan), origin))),
        *_findings(entries, origin, 60),
        _source_lines(plan, sources),
    ]


def _places(plan: Plan, report: Report, origin: CodeOrigin) -> list[ReportPart]:
    """Where things go."""
    picture = rack_picture(changed_racks(plan.sites), of_several=len(plan.sites) > 1)
    new_pools = pool_rows(report)
    unexpected = [] if new_pools else unexpected_pools(report)
    return [
        ReportPart("VMs", 92, tuple(vm_rows(plan))),
        ReportPart("Causes", 91, tuple(causes_line(plan, origin))),
        ReportPart("New VMs", 88, tuple(new_pools)),
        ReportPart("VMs that leave", 82, tuple(leaving_lines(report))),
        ReportPart("Pools that are spread otherwise than expected", 70, tuple(unexpected)),
        ReportPart("Fleet bindings", 87, tuple(binding_lines(plan))),
        ReportPart("Rollouts", 83, tuple(rollout_lines(report)), headed("How it rolls out")),
        ReportPart("Pods", 82, tuple(pod_lines(report)), headed("Pods")),
        ReportPart("Racks", 65, tuple(picture), lambda text: fenced(text, "text"), whole=True),
        _counts(plan, report),
    ]


def _sites(plan: Plan) -> list[str]:
    """A row per site that changes, the others in a line; none of a single site."""
    rows = site_rows(plan)
    changed = changed_rows(rows)
    if not changed:
        return []
    cells = [(f"**{plain(row.name)}**", row.delta, plain(row.words)) for row in changed]
    lines = table(("site", "VMs", "what happens"), cells)
    others = [f"{plain(sentence)}." for sentence in other_sites(rows)]
    return [*lines, "", " ".join(others)] if others else lines


def _counts(plan: Plan, report: Report) -> ReportPart:
    lines = tuple(kind_lines(plan, report))
    return ReportPart("Counts", 86, lines, headed("In all") if len(lines) > 1 else str)


def _consequences(plan: Plan, entries: Entries, overview: Overview, origin: CodeOrigin) -> list[ReportPart]:
    """What follows for the site: room, rules, warnings."""
    rules = [_rule_line(rule) for rule in plan.separation_rules]
    return [
        ReportPart("Room", 85, tuple(room_lines(overview.sites, overview.room))),
        ReportPart("Separation rules", 75, tuple(rules), headed("Separation rules")),
        *_findings(entries, origin, 90),
    ]


def _findings(entries: Entries, origin: CodeOrigin, importance: int) -> list[ReportPart]:
    """What the plan causes, and beside it what held before."""
    caused = tuple(finding_lines(entries.caused, origin))
    return [
        ReportPart("Warnings", importance, caused, headed("Warnings and advice")),
        ReportPart("What held before", 50, tuple(standing_line(entries.standing))),
    ]


def _in_order(plan: Plan) -> list[Diagnostic]:
    """The diagnostics by weight."""
    return [finding.diagnostic for finding in plan_findings(plan)]


def _rule_line(rule: SeparationVerdict) -> str:
    count = f", violations: {len(rule.violations):,}" if rule.violations else ""
    return f"- {code(str(rule.address))} ({plain(rule.enforcement)}) holds {plain(rule.holds)}{count}"


def _folded_parts(
    plan: Plan, report: Report, overview: Overview, sources: Mapping[str, SourceFile]
) -> list[ReportPart]:
    """What a reviewer opens when in doubt."""
    outputs = "\n".join(output_lines(report.outputs))
    return [
        _source_lines(plan, sources),
        _folded("Room of every site", 45, all_rooms(overview)),
        ReportPart("Every VM", 35, tuple(every_vm(plan)), lambda text: details(_EVERY_VM, text)),
        _folded("Placements by pool", 40, _by_pool(report)),
        _folded("Every change", 10, as_diff(every_stanza(plan, report)), "diff"),
        _folded("Changed outside of nexusform", 30, as_diff(_drift(report)), "diff"),
        _folded("Changes to outputs", 20, as_diff(outputs), "diff"),
    ]


def _by_pool(report: Report) -> str:
    """Every pool, and placements of which the same becomes under one heading."""
    if not report.groups:
        return ""
    return placement_text(replace(report, groups=tuple(alike_groups(report.groups))), width=120)


def _source_lines(plan: Plan, sources: Mapping[str, SourceFile]) -> ReportPart:
    """The boxes of findings with their source lines, by weight, folded away."""
    findings = plan_findings(plan)[:_BOXES]
    return _folded("Source lines and what to do", 50, boxes(findings, sources))


def _folded(title: str, importance: int, body: str, language: str = "") -> ReportPart:
    lines = tuple(body.split("\n")) if body else ()
    return ReportPart(title, importance, lines, lambda text: folded(title, text, language))


def _few_open(text: str) -> str:
    """The first lines in sight, the others folded away."""
    lines = text.split("\n")
    end = _end_of_object(lines)
    drawn = headed("Changes")("\n".join(lines[:end]))
    if end == len(lines):
        return drawn
    folded = details("More changes", "\n".join(lines[end:]))
    return f"{drawn}\n\n{folded}"


def _end_of_object(lines: Sequence[str]) -> int:
    """Where an object begins after as many lines as are in sight, or the end."""
    for number, line in enumerate(lines):
        if number >= _CHANGES and not line.startswith(" "):
            return number
    return len(lines)


def _drift(report: Report) -> str:
    return "\n\n".join(stanza_text(stanza) for stanza in report.drift)


_PLACES: Final = 3
_SUBJECTS: Final = 4
_NAMED_ALIKE: Final = 12  # of whom the others of a kind speak
_LONGEST_SAID: Final = 280  # the rest stands in the box below
_ERRORS: Final = 10
# `  1. count = 9 fits`: an item of what an error offers.
_ITEM: Final = re.compile(r" *(\d+\.) (.*)")


def error_lines(diagnostics: Iterable[Diagnostic], origin: CodeOrigin) -> list[str]:
    """The errors with what they say and offer, the first ones; the rest by their summaries."""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR]
    lines: list[str] = []
    for error in errors[:_ERRORS]:
        lines += ["", _headed(error, origin), *_detail_lines(error.detail)]
    if len(errors) > _ERRORS:
        lines += ["", *(f"- {_headed(error, origin)}" for error in errors[_ERRORS:])]
    return lines[1:]


def _headed(error: Diagnostic, origin: CodeOrigin) -> str:
    """What is wrong, of what, and where."""
    where = [code(error.address) if error.address else "", place_of(error.subject, origin)]
    place = ", ".join(filter(None, where))
    return f"**{plain(error.summary)}**{f' ({place})' if place else ''}"


def _detail_lines(detail: str) -> list[str]:
    """What an error says, what it offers as a list."""
    if not detail:
        return []
    lines = [""]
    in_list = False
    for line in detail.split("\n"):
        item = _ITEM.fullmatch(line)
        if item:
            lines += [] if in_list else [""]
            lines.append(f"{item[1]} {plain(item[2])}")
        else:
            lines += [""] if in_list else []
            lines.append(plain(line.strip()))
        in_list = item is not None
    return lines


def finding_lines(entries: Sequence[Entry], origin: CodeOrigin) -> list[str]:
    """Warnings and advice that the plan causes, a line each; of very many of a kind the first few, and of
    whom the others are.
    """
    told, others = few_of_each(entries)
    lines = list(chain.from_iterable(_entry_lines(entry, origin) for entry in told))
    for kind, alike in others.items():
        subjects = subjects_of(alike)
        whose = f": {plain(instances_text(subjects, _NAMED_ALIKE))}" if subjects else ""
        lines.append(f"- {len(alike):,} more {plain(kind)}{whose}")
    return lines


def _entry_lines(entry: Entry, origin: CodeOrigin) -> list[str]:
    """What it says, and below it what it proposes to write."""
    said = _finding_line(entry, origin)
    return [said, *indent(fenced(entry.write, "hcl"), "  ").splitlines()] if entry.write else [said]


def _finding_line(entry: Entry, origin: CodeOrigin) -> str:
    mark = "**Warning**" if entry.level is Level.WARNING else entry.level.value.capitalize()
    places = [line_of(place, origin) for place in entry.places]
    where = f" ({first_of(places, _PLACES)})" if places else ""
    return f"- {mark} {plain(entry.id)}: {_said(entry)}{where}"


def _said(entry: Entry) -> str:
    whose = f"{plain(listed(entry.subjects, _SUBJECTS))}: " if entry.subjects else ""
    thoughts = whole_thoughts(entry.text)
    text = next((text for text in thoughts if len(text) <= _LONGEST_SAID), thoughts[-1])
    return f"{whose}{prose(text.rstrip())}"


def standing_line(entries: Sequence[Entry]) -> list[str]:
    """What held before the plan as it does after it, in one line."""
    if not entries:
        return []
    told, others = few_of_each(entries)
    said = [_said(entry).rstrip(".") for entry in told]
    said += [f"{len(alike):,} more {plain(kind)}" for kind, alike in others.items()]
    return [f"Not caused by this plan: {'; '.join(said)}."]


def boxes(findings: Iterable[Finding], sources: Mapping[str, SourceFile]) -> str:
    """Every finding with its source lines and what to do, as the terminal draws it; then what held before."""
    texts: dict[bool, list[str]] = {False: [], True: []}
    for finding in findings:
        drawn = render_diagnostic(finding.diagnostic, sources, width=76).rstrip()
        texts[finding.held_before].append(drawn)
    standing = ["", "Not caused by this plan:", *texts[True]] if texts[True] else []
    return "\n".join([*texts[False], *standing]).lstrip("\n")


WIDTH: Final = 38
_GROUP: Final = 4  # machines side by side without a gap
_MARGIN: Final = 8
_GROUPS: Final = 5  # in a line
_RACKS: Final = 4  # that are shown before and after
_NEW_RACKS: Final = 12
_NOT_THERE: Final = "."
_CLOSED: Final = "x"
_MANY: Final = "+"
_MEANINGS: Final = ((_CLOSED, "takes no VM"), (_NOT_THERE, "no machine"), (_MANY, "ten or more"))


def rack_picture(racks: Sequence[RackCounts], *, of_several: bool = False) -> list[str]:
    """The lines of the picture, at most WIDTH wide; none when no rack changes. Racks of one of several sites
    are named with it.
    """
    racks = [rack for rack in racks if any(machine.before != machine.after for machine in rack.machines)]
    if not racks:
        return []
    standing = [rack for rack in racks if rack.stood]
    new = [rack for rack in racks if not rack.stood]
    # Where not all fit, those that most VMs leave; read in the order in which people look for them.
    shown = [*sorted(standing[:_RACKS], key=_by_name), *new[:_NEW_RACKS]]
    lines: list[str] = []
    several = len({rack.site for rack in racks}) > 1
    for rack in shown:
        lines += _rack_lines(rack, f"{rack.site}/{rack.name}" if several or of_several else rack.name)
    drawn = "".join(_figures(shown))
    if len(racks) > len(shown):
        lines.append(f"and {counted(len(racks) - len(shown), 'more rack')}")
    lines.append("a figure: VMs on a machine")
    lines += [f"{sign}: {meaning}" for sign, meaning in _MEANINGS if sign in drawn]
    return lines


def _by_name(rack: RackCounts) -> tuple[object, ...]:
    return rack.site, natural(rack.name)


def _figures(racks: Iterable[RackCounts]) -> Iterable[str]:
    for rack in racks:
        for machine in rack.machines:
            yield _figure(machine.after, closed=machine.closed)
            if rack.stood:
                yield _figure(machine.before, closed=False)


def _rack_lines(rack: RackCounts, called: str) -> list[str]:
    """One rack: its name, the slots above, and a line for each side that stands."""
    name = _shortened(called)
    lines: list[str] = []
    if columns(name) >= _MARGIN:
        lines.append(name)
        name = ""
    for first in range(0, len(rack.machines), _GROUP * _GROUPS):
        machines = rack.machines[first : first + _GROUP * _GROUPS]
        after = _row([_figure(machine.after, closed=machine.closed) for machine in machines])
        if not rack.stood:
            lines.append(pad(name, _MARGIN) + after)
            continue
        before = _row([_figure(machine.before, closed=False) for machine in machines])
        lines.append((pad(name, _MARGIN) + _slots(first, machines)).rstrip())
        lines += [pad("before", _MARGIN) + before, pad("after", _MARGIN) + after]
    return lines


def _shortened(name: str) -> str:
    text = harmless(name).replace("\n", " ")
    return text if columns(text) <= WIDTH else f"{text[: WIDTH // 2 - 3]}..."


def _row(figures: Sequence[str]) -> str:
    groups = ["".join(figures[at : at + _GROUP]) for at in range(0, len(figures), _GROUP)]
    return "  ".join(groups)


def _slots(first: int, machines: Sequence[MachineCount]) -> str:
    """The number of the first machine of every group, above it."""
    numbers = range(first + 1, first + len(machines) + 1, _GROUP)
    return "  ".join(f"{number:<{_GROUP}}" for number in numbers)


def _figure(vms: int | None, *, closed: bool) -> str:
    if vms is None:
        return _NOT_THERE
    if closed and not vms:
        return _CLOSED
    return str(vms) if vms < 10 else _MANY
