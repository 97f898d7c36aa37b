"""HTML page of a plan.

A server with a new plan calls `build_page_content` and passes both results to `replace(main, data)`
in `assets/page.js`; `render(data)` there redraws from data alone.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.diagnostics.phrases import enclose
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.plans.plan import Plan, is_fully_decided
from nexusform.rendering.notation.markup import Markup, Part, build_element, join_markup
from nexusform.rendering.page.page_data import build_page_data
from nexusform.rendering.page.page_elements import (
    build_script_placeholder,
    build_section,
    render_page,
)
from nexusform.rendering.page.rack_map import SiteMap, build_rack_maps
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

    The headline, the inside of `main` and the data of the scripts.
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
    main = join_markup(_build_sections(view, report, maps))
    return PageContent(report.title, main, build_page_data(view, maps))


def render_html(
    plan: Plan,
    sources: Mapping[str, SourceFile],
    registries: PluginRegistries,
    origin: CodeOrigin = UNKNOWN_ORIGIN,
) -> str:
    """Render the page of a plan; `origin` is the repository of its configuration, for links."""
    content = build_page_content(plan, sources, registries)
    title = format_plan_title(plan, "nexusform plan", content.headline)
    workspace = f"workspace {plan.workspace}" if plan.workspace != "default" else ""
    facts = [plan.timestamp, workspace, *_list_origin_parts(origin)]
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
        # Code hosts have the commit page next to the files: `/blob/COMMIT` ends the address of the
        # files.
        host_address, separator, _ = origin.url.rpartition(f"/blob/{origin.commit}")
        yield (
            build_element("a", name, href=f"{host_address}/commit/{origin.commit}")
            if separator
            else name
        )


def _build_sections(view: PlanReportData, report: Report, maps: Sequence[SiteMap]) -> list[Part]:
    """Build the sections of the page in the order of a review.

    Verdict, map, explanations, then tables. A failed plan shows only its errors, rules and the
    current placement. An absent section is None.
    """
    plan = view.plan
    findings = build_plan_section(plan_sections.build_finding_section(view), "Findings")
    rules = build_plan_section(plan_sections.build_rule_section(view))
    map_title = "Current placement" if plan.is_failed else "Map"
    map_part = build_section("racks", map_title, build_script_placeholder("map")) if maps else None
    verdict = _build_verdict(view, report)
    if plan.is_failed:
        return [verdict, findings, rules, map_part]
    # They destroy VMs: findings come first.
    has_renames = plan_sections.build_rename_section(view).has_content
    has_vms = any(site.vms for site in maps)
    vm_list = build_section("vms", "VMs", build_script_placeholder("vm-list")) if has_vms else None
    drift = "\n\n".join(map(render_stanza, view.drift_stanzas))
    outputs = "\n".join(render_outputs(view.outputs))
    capacity_and_counts = [
        build_plan_section(plan_sections.build_capacity_section(view), "Capacity"),
        build_plan_section(plan_sections.build_count_section(view)),
    ]
    return [
        verdict,
        findings if has_renames else None,
        build_plan_section(plan_sections.build_machine_and_feasibility_section(view)),
        build_plan_section(plan_sections.build_listed_section(view)),
        build_plan_section(plan_sections.build_site_section(view)),
        map_part,
        _build_domain_sections(view, "map"),
        build_plan_section(plan_sections.build_upgrade_section(view)),
        None if has_renames else findings,
        build_element("div", capacity_and_counts, class_="parts")
        if any(capacity_and_counts)
        else None,
        build_plan_section(plan_sections.build_all_pools_section(view)),
        vm_list,
        _build_domain_sections(view, "vms"),
        build_plan_section(plan_sections.build_rollout_section(view), "Rollouts"),
        rules,
        _build_changes(view),
        build_plan_section(
            Section("Changed outside of nexusform", code=CodeBlock(drift, "diff"), name="drift")
        ),
        build_plan_section(
            Section("Outputs that change", code=CodeBlock(outputs, "diff"), name="outputs"),
            "Outputs",
        ),
        build_plan_section(plan_sections.build_check_section(view)),
    ]


def _build_domain_sections(view: PlanReportData, place: str) -> list[Part]:
    """Build the sections that domains add at a place of the page."""
    return list(map(build_plan_section, view.domain_sections.get(place, ())))


def _build_verdict(view: PlanReportData, report: Report) -> Markup:
    """Build the decision with the counts of placements and changes.

    Below it the notes and the number of findings.
    """
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


def _build_changes(view: PlanReportData) -> Part:
    """Build the summary of changes, and below it every object with its difference.

    None for a plan without objects.
    """
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


def _build_footer(plan: Plan) -> Markup:
    """Build the version and a note about predictions."""
    version = f"nexusform {plan.nexusform_version}" if plan.nexusform_version else "nexusform"
    catalogue = enclose(", SKU catalogue ", plan.catalogue)
    prediction_note = "Placements are predicted: Azure breaks ties."
    if is_fully_decided(plan.placement_tables):
        prediction_note = "nexusform decides the placements and sends them to the sites."
    evaluation_note = enclose(" Evaluation: ", describe_plan_evaluation(plan), ".")
    text = f"Made by {version}{catalogue}. {prediction_note}{evaluation_note}"
    return build_element("footer", build_element("p", text), class_="quiet")
