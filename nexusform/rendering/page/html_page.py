"""HTML page of a plan.

A server with a new plan calls `build_page_content` and passes both results to `replace(main, data)`
in `assets/page.js`; `render(data)` there redraws from data alone.
"""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.diagnostics.phrases import enclose, select_word_form
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.plans.plan import Plan, is_fully_decided
from nexusform.rendering.notation.markup import Markup, Part, build_element, join_markup
from nexusform.rendering.page.page_data import build_page_data
from nexusform.rendering.page.page_elements import (
    build_script_placeholder,
    build_section,
    render_page,
)
from nexusform.rendering.page.report_page import IMPACT_STYLES, build_decision, build_plan_section
from nexusform.rendering.report import plan_sections
from nexusform.rendering.report.plan_report_data import (
    PlanReportData,
    build_count_lines,
    build_plan_report,
)
from nexusform.rendering.report.plan_sentences import (
    describe_assumptions,
    describe_plan_evaluation,
    format_plan_title,
    has_stale_inventory,
)
from nexusform.rendering.report.plan_verdict import INVENTORY, count_findings
from nexusform.rendering.report.rack_map import SiteMap, build_rack_maps
from nexusform.rendering.report.report_tree import (
    UNKNOWN_ORIGIN,
    CodeBlock,
    CodeOrigin,
    Report,
    Section,
)
from nexusform.rendering.text.change_stanza_text import render_outputs, render_stanza


class PageContent(Struct, frozen=True):
    """The contents that depend on the plan.

    They are the headline, the inside of `main` and the data of the scripts.
    """

    headline: str
    main: Markup
    data: dict[str, Any]


def build_page_content(
    plan: Plan, sources: Mapping[str, SourceFile], registries: PluginRegistries
) -> PageContent:
    """Build the HTML of the sections of a plan and the JSON data for their scripts."""
    view = PlanReportData(plan, sources, registries)
    maps = build_rack_maps(plan)
    report = build_plan_report(view)
    page_view = _PageView(view, report, maps)
    parts = [build(page_view) for build in (_FAILED_PAGE if plan.is_failed else _PAGE)]
    return PageContent(report.title, join_markup(parts), build_page_data(view, maps))


def render_html(
    plan: Plan,
    sources: Mapping[str, SourceFile],
    registries: PluginRegistries,
    origin: CodeOrigin = UNKNOWN_ORIGIN,
) -> str:
    """Render the page of a plan; `origin` is the repository of its configuration, for links."""
    content = build_page_content(plan, sources, registries)
    title = format_plan_title(plan, "nexusform plan", content.headline)
    workspace = f"workspace {plan.options.workspace}" if plan.options.workspace != "default" else ""
    facts = [plan.start.timestamp, workspace, *_list_origin_parts(origin)]
    parts: list[Part] = []
    for fact in filter(None, facts):
        # The first dot is dropped.
        parts += [" \N{MIDDLE DOT} ", fact]
    header = build_element(
        "header",
        build_element("h1", format_plan_title(plan, "Plan", content.headline)),
        build_element("p", describe_assumptions(plan)) if plan.assumptions else None,
        build_element("p", parts[1:], class_="quiet") if parts else None,
    )
    return render_page(title, header, content.main, _build_footer(plan), content.data)


_COMMIT_LENGTH: Final = 7


def _list_origin_parts(origin: CodeOrigin) -> Iterator[Part]:
    """Yield the directory and the commit of the configuration, if known.

    They are links if the code host is known.
    """
    if origin.url:
        directory = origin.directory or "top directory"
        address = posixpath.join(origin.url, origin.directory).rstrip("/")
        yield build_element("a", directory, href=address)
    if origin.commit:
        name = f"commit {origin.commit[:_COMMIT_LENGTH]}"
        # Code hosts have the commit page next to the files: `/blob/COMMIT` ends the address
        # of the files.
        host_address, separator, _ = origin.url.rpartition(f"/blob/{origin.commit}")
        yield (
            build_element("a", name, href=f"{host_address}/commit/{origin.commit}")
            if separator
            else name
        )


class _PageView(Struct, frozen=True):
    """A plan with its report and the maps of its sites."""

    plan_view: PlanReportData
    report: Report
    maps: Sequence[SiteMap]


_PagePart: TypeAlias = Callable[[_PageView], Part]


def _create_section(build: Callable[[PlanReportData], Section], short_title: str = "") -> _PagePart:
    """Return a builder of the part with a section of the plan."""
    return lambda view: build_plan_section(build(view.plan_view), short_title)


def _create_domain_sections(place: str) -> _PagePart:
    """Return a builder of the sections that domains add at a place of the page."""
    return lambda view: list(map(build_plan_section, view.plan_view.domain_sections.get(place, ())))


def _build_findings_above_map(view: _PageView) -> Part:
    """Build the findings if they destroy VMs by a new name: they come first."""
    has_renames = plan_sections.build_rename_section(view.plan_view).has_content
    return _build_findings(view) if has_renames else None


def _build_findings_below_map(view: _PageView) -> Part:
    """Build the findings unless they are above the map."""
    has_renames = plan_sections.build_rename_section(view.plan_view).has_content
    return None if has_renames else _build_findings(view)


_build_findings: Final = _create_section(plan_sections.build_finding_section, "Findings")


def _build_map(view: _PageView) -> Part:
    """Build the placeholder of the map; a failed plan has the current placement."""
    title = "Current placement" if view.plan_view.plan.is_failed else "Map"
    return build_section("racks", title, build_script_placeholder("map")) if view.maps else None


def _build_vm_list(view: _PageView) -> Part:
    has_vms = any(site.vms for site in view.maps)
    return build_section("vms", "VMs", build_script_placeholder("vm-list")) if has_vms else None


def _build_capacity_and_counts(view: _PageView) -> Part:
    """Build the sections of capacity and of counts, side by side."""
    parts = [
        build_plan_section(plan_sections.build_capacity_section(view.plan_view), "Capacity"),
        build_plan_section(plan_sections.build_count_section(view.plan_view)),
    ]
    return build_element("div", parts, class_="parts") if any(parts) else None


def _build_drift(view: _PageView) -> Part:
    drift = "\n\n".join(map(render_stanza, view.plan_view.drift_stanzas))
    return build_plan_section(
        Section("Changed outside of nexusform", code=CodeBlock(drift, "diff"), name="drift")
    )


def _build_outputs(view: _PageView) -> Part:
    outputs = "\n".join(render_outputs(view.plan_view.outputs))
    section = Section("Outputs that change", code=CodeBlock(outputs, "diff"), name="outputs")
    return build_plan_section(section, "Outputs")


def _build_verdict(page_view: _PageView) -> Part:
    """Build the decision with the counts of placements and changes.

    Below it are the notes and the number of findings.
    """
    view = page_view.plan_view
    report = page_view.report
    lines = [*report.decision, *build_count_lines(view)]
    # (CSS class, label).
    css_class = "safe" if report.impact is None else IMPACT_STYLES[report.impact][0]
    # The reason of a rejection.
    if report.verdict:
        css_class = "denied"
    notes = plan_sections.build_note_section(view)
    is_stale = has_stale_inventory(view.plan)
    items = []
    for heading, sentence in notes.notes:
        item_class = "old" if heading == INVENTORY and is_stale else None
        items.append(
            build_element("li", build_element("b", f"{heading}: "), sentence, class_=item_class)
        )
    counts = ", ".join(count_findings(view.findings))
    items += (
        [build_element("li", build_element("a", counts, href="#diagnostics"))] if counts else []
    )
    return build_decision(lines, css_class, items)


def _build_changes(page_view: _PageView) -> Part:
    """Build the summary of changes, and below it every object with its difference.

    Return None for a plan without objects.
    """
    view = page_view.plan_view
    if not view.plan.changes:
        return None
    section = plan_sections.build_change_section(view)
    if not section.has_content:
        section = replace(section, lines=("No object changes.",))
    summary = build_element("summary", "Each object, with its difference")
    # A script adds the differences when the page is open.
    placeholder = build_script_placeholder("change-tree")
    tree = build_element("details", summary, placeholder, class_="every")
    return build_plan_section(section, appendix=tree)


# In the order of a review: verdict, map, explanations, then tables.
_PAGE: Final[tuple[_PagePart, ...]] = (
    _build_verdict,
    _build_findings_above_map,
    _create_section(plan_sections.build_loss_section),
    _create_section(plan_sections.build_machine_and_feasibility_section),
    _create_section(plan_sections.build_listed_section),
    _create_section(plan_sections.build_site_section),
    _build_map,
    _create_domain_sections("map"),
    _create_section(plan_sections.build_upgrade_section),
    _build_findings_below_map,
    _build_capacity_and_counts,
    _create_section(plan_sections.build_all_pools_section),
    _build_vm_list,
    _create_domain_sections("vms"),
    _create_section(plan_sections.build_rollout_section, "Rollouts"),
    _create_section(plan_sections.build_rule_section),
    _build_changes,
    _build_drift,
    _build_outputs,
    _create_section(plan_sections.build_check_section),
)
# Errors, rules and the current placement.
_FAILED_PAGE: Final[tuple[_PagePart, ...]] = (
    _build_verdict,
    _build_findings,
    _create_section(plan_sections.build_rule_section),
    _build_map,
)


def _build_footer(plan: Plan) -> Markup:
    """Build the version and a note about predictions."""
    version = (
        f"nexusform {plan.start.nexusform_version}" if plan.start.nexusform_version else "nexusform"
    )
    catalogue = enclose(", SKU catalogue ", plan.start.catalogue)
    platforms = sorted({table.platform or "Azure" for table in plan.figures.placement_tables}) or [
        "Azure"
    ]
    verb = select_word_form(len(platforms), "breaks", "break")
    prediction_note = f"Placements are predicted: {' and '.join(platforms)} {verb} ties."
    if is_fully_decided(plan.figures.placement_tables):
        prediction_note = (
            "Tacker takes the placements from the grants of nexusform, if it asks for them."
        )
    evaluation_note = enclose(" Evaluation: ", describe_plan_evaluation(plan), ".")
    text = f"Made by {version}{catalogue}. {prediction_note}{evaluation_note}"
    return build_element("footer", build_element("p", text), class_="quiet")
