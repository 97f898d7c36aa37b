"""Markdown report of a plan for a pull request: verdict, placements, errors with remedies, warnings and
advice, and a text picture of changed racks. The report stays below a number of bytes (hosts truncate comments
at 65,536 characters): the least important parts are cut first, with a note. Tables have at most three columns
and pictures 38, to fit on a phone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from textwrap import dedent, indent
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Severity
from nexusform.diagnostics.levels import Level
from nexusform.diagnostics.phrases import compute_natural_key, format_count, format_first, format_list
from nexusform.diagnostics.source import SourceFile
from nexusform.interfaces.plugins import Registries
from nexusform.plans.plan import Plan, SeparationVerdict
from nexusform.plans.site_capacity.occupancy import MachineCount, RackCounts, list_changed_racks
from nexusform.rendering.notation.colours import count_columns, escape_control_characters, fill_to_width
from nexusform.rendering.pull_request.markdown_changes import render_changes, render_drift, render_stanzas
from nexusform.rendering.pull_request.markdown_parts import (
    ReportPart,
    create_heading_renderer,
    escape_plain_text,
    escape_prose,
    fit_parts,
    fold_code,
    fold_details,
    format_code,
    format_code_block,
    format_line_link,
    format_location_link,
    render_diff,
    render_table,
)
from nexusform.rendering.pull_request.markdown_placements import (
    render_all_capacity,
    render_all_vms,
    render_bindings,
    render_capacity,
    render_causes,
    render_new_pools,
    render_other_vms,
    render_pods,
    render_rollouts,
    render_unexpected_pools,
    render_vm_table,
)
from nexusform.rendering.pull_request.markdown_verdict import (
    render_alert,
    render_last_lines,
    render_notes,
    render_title,
)
from nexusform.rendering.report.code_origin import UNKNOWN_ORIGIN, CodeOrigin
from nexusform.rendering.report.conditions import describe_conditions
from nexusform.rendering.report.entries import (
    Entries,
    Entry,
    Finding,
    build_entries,
    collect_findings,
    limit_per_id,
    list_destructive_renames,
    list_shortened_texts,
    list_subjects,
)
from nexusform.rendering.report.folding import format_instances, merge_equal_groups
from nexusform.rendering.report.overview import Overview, build_overview
from nexusform.rendering.report.placement_rows import Detail, PlacementGroup
from nexusform.rendering.report.plan_report import Report, build_report, create_schema_lookup
from nexusform.rendering.report.site_rows import build_site_rows, describe_other_sites, select_changed_rows
from nexusform.rendering.text.diagnostic_text import render_diagnostic
from nexusform.rendering.text.placement_text import render_placements
from nexusform.rendering.text.stanza_text import render_outputs, render_stanza

MAX_BYTES: Final = 65_000
_NO_REGISTRIES = Registries()
_ALL_VMS_TITLE: Final = "Every VM, with machine certainty"
_MAX_OPEN_LINES: Final = 20  # lines of changes that are not folded
_MAX_BOXES: Final = 20


def render_markdown(
    plan: Plan,
    sources: Mapping[str, SourceFile],
    registries: Registries = _NO_REGISTRIES,
    placements: Detail = Detail.CHANGED,
    *,
    max_bytes: int = MAX_BYTES,
    origin: CodeOrigin = UNKNOWN_ORIGIN,
) -> str:
    """Render the whole report as GitHub-flavoured Markdown in `max_bytes`, with a final newline."""
    report = build_report(plan, registries, placements)
    overview = build_overview(plan, report)
    entries = build_entries(plan)
    title = render_title(overview)
    head = (title, *plan.provider_titles, *render_alert(plan, report, overview))
    verdict = ReportPart("The verdict", 100, head, is_atomic=True)
    if report.is_errored:
        # As in the terminal, changes planned before an error would hide it.
        return fit_parts([verdict, *_build_failure_parts(plan, entries, sources, origin)], max_bytes)
    parts = [
        verdict,
        ReportPart("Notes", 96, tuple(render_notes(plan))),
        ReportPart("Conditions", 96, tuple(map(escape_plain_text, describe_conditions(plan)))),
        ReportPart("Renames", 98, tuple(_render_renames(plan, origin))),
        ReportPart("Sites", 93, tuple(_render_sites(plan))),
        *_build_placement_parts(plan, report, origin),
        *_build_consequence_parts(plan, entries, overview, origin),
        ReportPart("Changes", 60, tuple(render_changes(plan, create_schema_lookup(registries))), _fold_changes),
        ReportPart(
            "Changed outside",
            60,
            tuple(render_drift(plan, create_schema_lookup(registries))),
            create_heading_renderer("Changed outside of nexusform"),
        ),
        ReportPart("The last line", 99, render_last_lines(plan, overview, origin), is_atomic=True),
        *_build_folded_parts(plan, report, overview, sources),
    ]
    return fit_parts(parts, max_bytes)


def _build_failure_parts(
    plan: Plan, entries: Entries, sources: Mapping[str, SourceFile], origin: CodeOrigin
) -> list[ReportPart]:
    """Build the parts of the report of a failed plan."""
    diagnostics = [finding.diagnostic for finding in collect_findings(plan)]
    return [
        ReportPart("Errors and suggested fixes", 95, tuple(render_errors(diagnostics, origin))),
        *_build_finding_parts(entries, origin, 60),
        _build_source_part(plan, sources),
    ]


def _build_placement_parts(plan: Plan, report: Report, origin: CodeOrigin) -> list[ReportPart]:
    """Build the parts about placements."""
    picture = render_rack_picture(list_changed_racks(plan.sites), has_several_sites=len(plan.sites) > 1)
    new_pools = render_new_pools(report)
    unexpected = [] if new_pools else render_unexpected_pools(report)
    return [
        ReportPart("VMs", 92, tuple(render_vm_table(plan))),
        ReportPart("Causes", 91, tuple(render_causes(plan, origin))),
        ReportPart("New VMs", 88, tuple(new_pools)),
        ReportPart("Removed VMs", 82, tuple(render_other_vms(report))),
        ReportPart("Pools with an unexpected spread", 70, tuple(unexpected)),
        ReportPart("Fleet bindings", 87, tuple(render_bindings(plan))),
        ReportPart("Rollouts", 83, tuple(render_rollouts(report)), create_heading_renderer("Rollout")),
        ReportPart("Pods", 82, tuple(render_pods(report)), create_heading_renderer("Pods")),
        ReportPart("Racks", 65, tuple(picture), lambda text: format_code_block(text, "text"), is_atomic=True),
    ]


def _render_sites(plan: Plan) -> list[str]:
    """Render a row per changed site and a line for the others; nothing for a single site."""
    rows = build_site_rows(plan)
    rows_with_changes = select_changed_rows(rows)
    if not rows_with_changes:
        return []
    cells = [
        (f"**{escape_plain_text(row.name)}**", row.delta, escape_plain_text(row.summary)) for row in rows_with_changes
    ]
    lines = render_table(("site", "VMs", "changes"), cells)
    other_texts = [f"{escape_plain_text(sentence)}." for sentence in describe_other_sites(rows)]
    return [*lines, "", " ".join(other_texts)] if other_texts else lines


def _build_consequence_parts(plan: Plan, entries: Entries, overview: Overview, origin: CodeOrigin) -> list[ReportPart]:
    """Build the parts about capacity, rules and warnings."""
    rules = [_render_rule(rule) for rule in plan.separation_verdicts]
    return [
        ReportPart("Spare capacity", 85, tuple(render_capacity(overview.sites, overview.capacity))),
        ReportPart("Separation rules", 75, tuple(rules), create_heading_renderer("Separation rules")),
        *_build_finding_parts(entries, origin, 90),
    ]


def _build_finding_parts(entries: Entries, origin: CodeOrigin, importance: int) -> list[ReportPart]:
    """Build the parts of new and pre-existing findings."""
    caused = tuple(render_findings(entries.caused, origin))
    return [
        ReportPart("Warnings", importance, caused, create_heading_renderer("Warnings and advice")),
        ReportPart("Existing issues", 50, tuple(render_existing(entries.existing))),
    ]


def _render_rule(rule: SeparationVerdict) -> str:
    count = f", violations: {len(rule.violations):,}" if rule.violations else ""
    return (
        f"- {format_code(str(rule.address))} ({escape_plain_text(rule.enforcement)}) holds "
        f"{escape_plain_text(rule.satisfied)}{count}"
    )


def _build_folded_parts(
    plan: Plan, report: Report, overview: Overview, sources: Mapping[str, SourceFile]
) -> list[ReportPart]:
    """Build the folded parts with full details."""
    outputs = "\n".join(render_outputs(report.outputs))
    return [
        _build_source_part(plan, sources),
        _build_folded_part("Spare capacity of every site", 45, render_all_capacity(overview)),
        ReportPart("Every VM", 35, tuple(render_all_vms(plan)), lambda text: fold_details(_ALL_VMS_TITLE, text)),
        _build_folded_part("Placements by pool", 40, _render_pools(report)),
        _build_folded_part("Every change", 10, render_diff(render_stanzas(plan, report)), "diff"),
        _build_folded_part("Changed outside of nexusform", 30, render_diff(_render_drift_stanzas(report)), "diff"),
        _build_folded_part("Changes to outputs", 20, render_diff(outputs), "diff"),
    ]


def _render_pools(report: Report) -> str:
    """Render every pool, with equal placements under one heading and pools of equal sites once."""
    if not report.groups:
        return ""
    groups = tuple(map(_count_group, merge_equal_groups(report.groups)))
    tables = tuple(group.table for group in groups if group.table is not None)
    return render_placements(replace(report, groups=groups, tables=tables), width=120)


def _count_group(group: PlacementGroup) -> PlacementGroup:
    """Return the group with the number of its sites behind its cluster."""
    if not group.sites or group.table is None:
        return group
    cluster = f"{group.table.cluster} ({len(group.sites):,} sites)"
    return replace(group, name=f"{cluster}/{group.table.pool}", table=replace(group.table, cluster=cluster))


def _build_source_part(plan: Plan, sources: Mapping[str, SourceFile]) -> ReportPart:
    """Build the folded boxes of findings with source lines, by level."""
    findings = collect_findings(plan)[:_MAX_BOXES]
    return _build_folded_part("Source lines and suggested fixes", 50, render_boxes(findings, sources))


def _build_folded_part(title: str, importance: int, body: str, language: str = "") -> ReportPart:
    lines = tuple(body.split("\n")) if body else ()
    return ReportPart(title, importance, lines, lambda text: fold_code(title, text, language))


def _fold_changes(text: str) -> str:
    """Show the first lines and fold the others."""
    lines = text.split("\n")
    end = _find_object_end(lines)
    visible_part = create_heading_renderer("Changes")("\n".join(lines[:end]))
    if end == len(lines):
        return visible_part
    folded_part = fold_details("More changes", "\n".join(lines[end:]))
    return f"{visible_part}\n\n{folded_part}"


def _find_object_end(lines: Sequence[str]) -> int:
    """Find the first object boundary after the visible lines, or the end."""
    for number, line in enumerate(lines):
        if number >= _MAX_OPEN_LINES and not line.startswith(" "):
            return number
    return len(lines)


def _render_drift_stanzas(report: Report) -> str:
    return "\n\n".join(render_stanza(stanza) for stanza in report.drift)


_MAX_LOCATIONS: Final = 3
_MAX_SUBJECTS: Final = 4
_MAX_NAMES: Final = 12  # subjects of further findings of a kind
_MAX_TEXT_LENGTH: Final = 280  # the remaining text is in the box below
_MAX_ERRORS: Final = 10
# ` 1. count = 9 fits`: a remedy of an error.
_ITEM: Final = re.compile(r" *(\d+\.) (.*)")


def render_errors(diagnostics: Iterable[Diagnostic], origin: CodeOrigin) -> list[str]:
    """Render the first errors with details and remedies, the remaining ones as summaries."""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR]
    lines: list[str] = []
    for error in errors[:_MAX_ERRORS]:
        lines += ["", _render_heading(error, origin), *_render_detail(error.detail)]
    if len(errors) > _MAX_ERRORS:
        lines += ["", *(f"- {_render_heading(error, origin)}" for error in errors[_MAX_ERRORS:])]
    return lines[1:]


def _render_renames(plan: Plan, origin: CodeOrigin) -> list[str]:
    """Render each rename with VMs to destroy, with the moved block."""
    lines: list[str] = []
    for warning in list_destructive_renames(plan):
        text, _, block = warning.detail.partition("\n\n")
        lines += ["", _render_heading(warning, origin), *_render_detail(text), format_code_block(dedent(block), "hcl")]
    return lines[1:]


def _render_heading(error: Diagnostic, origin: CodeOrigin) -> str:
    """Render summary, address and location of an error."""
    parts = [format_code(error.address) if error.address else "", format_location_link(error.subject, origin)]
    location = ", ".join(filter(None, parts))
    return f"**{escape_plain_text(error.summary)}**{f' ({location})' if location else ''}"


def _render_detail(detail: str) -> list[str]:
    """Render the detail of an error, with remedies as a list."""
    if not detail:
        return []
    lines = [""]
    in_list = False
    for line in detail.split("\n"):
        item = _ITEM.fullmatch(line)
        if item:
            lines += [] if in_list else [""]
            lines.append(f"{item[1]} {escape_plain_text(item[2])}")
        else:
            lines += [""] if in_list else []
            lines.append(escape_plain_text(line.strip()))
        in_list = item is not None
    return lines


def render_findings(entries: Sequence[Entry], origin: CodeOrigin) -> list[str]:
    """Render new warnings and advice, one line each; with very many of a kind the first few and the subjects
    of the others.
    """
    listed_entries, remaining_entries = limit_per_id(entries)
    lines = list(chain.from_iterable(_render_entry(entry, origin) for entry in listed_entries))
    for kind, similar in remaining_entries.items():
        subjects = list_subjects(similar)
        subject_note = f": {escape_plain_text(format_instances(subjects, _MAX_NAMES))}" if subjects else ""
        lines.append(f"- {len(similar):,} more {escape_plain_text(kind)}{subject_note}")
    return lines


def _render_entry(entry: Entry, origin: CodeOrigin) -> list[str]:
    """Render an entry with its proposed code below."""
    text = _render_entry_line(entry, origin)
    return [text, *indent(format_code_block(entry.write, "hcl"), "  ").splitlines()] if entry.write else [text]


def _render_entry_line(entry: Entry, origin: CodeOrigin) -> str:
    mark = "**Warning**" if entry.level is Level.WARNING else entry.level.value.capitalize()
    locations = [format_line_link(location, origin) for location in entry.locations]
    location_note = f" ({format_first(locations, _MAX_LOCATIONS)})" if locations else ""
    return f"- {mark} {escape_plain_text(entry.id)}: {_render_text(entry)}{location_note}"


def _render_text(entry: Entry) -> str:
    subject_prefix = f"{escape_plain_text(format_list(entry.subjects, _MAX_SUBJECTS))}: " if entry.subjects else ""
    shortened_texts = list_shortened_texts(entry.text)
    text = next((text for text in shortened_texts if len(text) <= _MAX_TEXT_LENGTH), shortened_texts[-1])
    return f"{subject_prefix}{escape_prose(text.rstrip())}"


def render_existing(entries: Sequence[Entry]) -> list[str]:
    """Render pre-existing findings in one line."""
    if not entries:
        return []
    listed_entries, remaining_entries = limit_per_id(entries)
    texts = [_render_text(entry).rstrip(".") for entry in listed_entries]
    texts += [f"{len(similar):,} more {escape_plain_text(kind)}" for kind, similar in remaining_entries.items()]
    return [f"Not caused by this plan: {'; '.join(texts)}."]


def render_boxes(findings: Iterable[Finding], sources: Mapping[str, SourceFile]) -> str:
    """Render every finding with its source lines as in the terminal, pre-existing ones last."""
    texts: dict[bool, list[str]] = {False: [], True: []}
    for finding in findings:
        box = render_diagnostic(finding.diagnostic, sources, width=76).rstrip()
        texts[finding.is_preexisting].append(box)
    existing = ["", "Not caused by this plan:", *texts[True]] if texts[True] else []
    return "\n".join([*texts[False], *existing]).lstrip("\n")


MAX_WIDTH: Final = 38
_GROUP_SIZE: Final = 4  # machines without a gap between them
_MARGIN_WIDTH: Final = 8
_GROUPS_PER_LINE: Final = 5  # per line
_MAX_RACKS: Final = 4  # shown before and after
_MAX_NEW_RACKS: Final = 12
_NO_MACHINE: Final = "."
_CLOSED: Final = "x"
_TEN_OR_MORE: Final = "+"
_SIGN_MEANINGS: Final = ((_CLOSED, "cordoned"), (_NO_MACHINE, "no machine"), (_TEN_OR_MORE, "ten or more"))


def render_rack_picture(racks: Sequence[RackCounts], *, has_several_sites: bool = False) -> list[str]:
    """Render the lines of the picture, at most MAX_WIDTH wide; none without changed racks. With
    `has_several_sites` rack names include the site.
    """
    racks = [rack for rack in racks if any(machine.before != machine.after for machine in rack.machines)]
    if not racks:
        return []
    existing = [rack for rack in racks if rack.existed_before]
    new = [rack for rack in racks if not rack.existed_before]
    # If not all racks fit, keep those with the most removed VMs, sorted by name.
    visible_racks = [*sorted(existing[:_MAX_RACKS], key=_get_sort_key), *new[:_MAX_NEW_RACKS]]
    lines: list[str] = []
    has_several = len({rack.site for rack in racks}) > 1
    for rack in visible_racks:
        lines += _render_rack(rack, f"{rack.site}/{rack.name}" if has_several or has_several_sites else rack.name)
    figures = "".join(_list_figures(visible_racks))
    if len(racks) > len(visible_racks):
        lines.append(f"and {format_count(len(racks) - len(visible_racks), 'more rack')}")
    lines.append("digit: VMs on that machine")
    lines += [f"{sign}: {meaning}" for sign, meaning in _SIGN_MEANINGS if sign in figures]
    return lines


def _get_sort_key(rack: RackCounts) -> tuple[object, ...]:
    return rack.site, compute_natural_key(rack.name)


def _list_figures(racks: Iterable[RackCounts]) -> Iterable[str]:
    for rack in racks:
        for machine in rack.machines:
            yield _format_figure(machine.after, is_closed=machine.is_closed)
            if rack.existed_before:
                yield _format_figure(machine.before, is_closed=False)


def _render_rack(rack: RackCounts, display_name: str) -> list[str]:
    """Render one rack: its name, the slots above, and a line per existing side."""
    name = _truncate_name(display_name)
    lines: list[str] = []
    if count_columns(name) >= _MARGIN_WIDTH:
        lines.append(name)
        name = ""
    for first in range(0, len(rack.machines), _GROUP_SIZE * _GROUPS_PER_LINE):
        machines = rack.machines[first : first + _GROUP_SIZE * _GROUPS_PER_LINE]
        after = _render_row([_format_figure(machine.after, is_closed=machine.is_closed) for machine in machines])
        if not rack.existed_before:
            lines.append(fill_to_width(name, _MARGIN_WIDTH) + after)
            continue
        before = _render_row([_format_figure(machine.before, is_closed=False) for machine in machines])
        lines.append((fill_to_width(name, _MARGIN_WIDTH) + _render_slots(first, machines)).rstrip())
        lines += [fill_to_width("before", _MARGIN_WIDTH) + before, fill_to_width("after", _MARGIN_WIDTH) + after]
    return lines


def _truncate_name(name: str) -> str:
    text = escape_control_characters(name).replace("\n", " ")
    return text if count_columns(text) <= MAX_WIDTH else f"{text[: MAX_WIDTH // 2 - 3]}..."


def _render_row(figures: Sequence[str]) -> str:
    groups = ["".join(figures[start : start + _GROUP_SIZE]) for start in range(0, len(figures), _GROUP_SIZE)]
    return "  ".join(groups)


def _render_slots(first: int, machines: Sequence[MachineCount]) -> str:
    """Render the number of the first machine above every group."""
    numbers = range(first + 1, first + len(machines) + 1, _GROUP_SIZE)
    return "  ".join(f"{number:<{_GROUP_SIZE}}" for number in numbers)


def _format_figure(vms: int | None, *, is_closed: bool) -> str:
    if vms is None:
        return _NO_MACHINE
    if is_closed and not vms:
        return _CLOSED
    return str(vms) if vms < 10 else _TEN_OR_MORE
