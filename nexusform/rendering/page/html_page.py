"""HTML page of a plan: a single file without external requests, for any screen width. Text and tables need no
scripts. Scripts draw the rack map, the change tree and the lists, and only the visible part of them. Their
data is JSON in the page (`page_data.py`); styles and scripts are files in `assets/`. A server with a new plan
calls `build_page_content` and passes both results to `replace(main, data)` in `assets/page.js`;
`render(data)` there redraws from data alone.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.source import SourceFile
from nexusform.interfaces.plugins import Registries
from nexusform.plans.plan import Plan, is_fully_decided
from nexusform.rendering.notation.markup import (
    Markup,
    Part,
    build_code_element,
    build_data_script,
    build_element,
    join_parts,
)
from nexusform.rendering.page.domain_parts import load_domain_parts
from nexusform.rendering.page.page_data import build_page_data
from nexusform.rendering.page.page_parts import (
    build_changes_section,
    build_checks_section,
    build_drift_section,
    build_findings_section,
    build_outputs_section,
    build_overview_section,
    build_pools_section,
    build_rollouts_section,
    build_rules_section,
    build_section,
    build_sites_section,
    build_upgrades_section,
    build_verdict,
)
from nexusform.rendering.page.rack_map import SiteMap, build_rack_maps
from nexusform.rendering.report.code_origin import UNKNOWN_ORIGIN, CodeOrigin
from nexusform.rendering.report.conditions import describe_conditions
from nexusform.rendering.report.entries import collect_findings, list_destructive_renames
from nexusform.rendering.report.evaluation_sentence import describe_evaluation
from nexusform.rendering.report.object_rows import ObjectFold, build_object_folds
from nexusform.rendering.report.overview import Overview, build_overview
from nexusform.rendering.report.placement_rows import Detail
from nexusform.rendering.report.plan_report import Report, build_report, create_schema_lookup
from nexusform.rendering.report.site_rows import build_site_rows

STYLES: Final = ("page.css", "map.css")
SCRIPTS: Final = (
    "document.js",
    "sites.js",
    "route.js",
    "detail.js",
    "rack_map.js",
    "layers.js",
    "arrows.js",
    "zoom.js",
    "overview.js",
    "map.js",
    "vm_list.js",
    "changes.js",
    "search.js",
    "page.js",
)
# Block all requests, whatever the values in the plan contain.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"


class PageContent(Struct, frozen=True):
    """The contents that depend on the plan: the inside of `main` and the data of the scripts."""

    overview: Overview
    main: Markup
    data: dict[str, Any]


def build_page_content(plan: Plan, sources: Mapping[str, SourceFile], registries: Registries) -> PageContent:
    """Build the sections of a plan and their data."""
    report = build_report(plan, registries, Detail.CHANGED)
    maps = build_rack_maps(plan)
    overview = build_overview(plan, report)
    folds = build_object_folds(plan, create_schema_lookup(registries))
    main = join_parts(_build_sections(plan, report, maps, overview, sources, folds))
    return PageContent(overview, main, build_page_data(plan, report, maps))


def render_html(
    plan: Plan, sources: Mapping[str, SourceFile], registries: Registries, origin: CodeOrigin = UNKNOWN_ORIGIN
) -> str:
    """Render the page of a plan; `origin` is the origin of its configuration."""
    content = build_page_content(plan, sources, registries)
    title = f"nexusform plan: {content.overview.headline}"
    return render_page(
        title, _build_header(plan, content.overview, origin), content.main, _build_footer(plan), content.data
    )


def render_page(
    title: str,
    header: Markup,
    main: Markup,
    footer: Markup,
    data: dict[str, Any],
    *,
    extra_scripts: Sequence[Markup] = (),
    policy: str = _POLICY,
) -> str:
    """Render a page with a map drawn from `data`, as one file; `extra_scripts` follow its own scripts."""
    body = build_element(
        "body",
        build_element("a", "Skip to the content", href="#content", class_="skip"),
        _build_bar(),
        header,
        build_element("main", main, id="content", tabindex="-1"),
        footer,
        build_data_script("plan-data", data),
        [build_code_element("script", _read_asset(name)) for name in SCRIPTS],
        extra_scripts,
    )
    page = build_element("html", _build_head(title, policy), body, lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _read_asset(name: str) -> str:
    return resources.files("nexusform.rendering.page").joinpath("assets", name).read_text(encoding="utf-8")


def _build_head(title: str, policy: str) -> Markup:
    """Build title, policy and style sheets."""
    return build_element(
        "head",
        build_element("meta", charset="utf-8"),
        build_element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        build_element("meta", http_equiv="Content-Security-Policy", content=policy),
        build_element("meta", name="color-scheme", content="light dark"),
        build_element("title", title),
        [build_code_element("style", _read_asset(name)) for name in STYLES],
    )


def _build_bar() -> Markup:
    """Build the fixed bar: sections (filled by a script), search and theme."""
    sections = build_element("nav", build_element("ul", id="sections"), aria_label="Sections")
    placeholder = "Find a VM, rack, site or placement"
    attributes = {"autocomplete": "off", "spellcheck": "false"}
    field = build_element(
        "input", type="search", id="find", placeholder=placeholder, aria_label=placeholder, **attributes
    )
    count = build_element("span", id="hit-count", class_="unseen", role="status")
    hits = build_element("ul", id="hits", hidden=True)
    choices = [build_element("option", text, value=value) for value, text in _THEMES]
    theme = build_element("select", choices, id="theme", aria_label="Theme")
    search = build_element("div", field, count, hits, class_="find", role="search")
    return build_element("div", sections, search, theme, class_="bar")


_THEMES: Final = (("auto", "theme"), ("light", "light"), ("dark", "dark"))


def _build_header(plan: Plan, overview: Overview, origin: CodeOrigin) -> Markup:
    """Build the headline with time, workspace and commit."""
    workspace = f"workspace {plan.workspace}" if plan.workspace != "default" else ""
    facts = [plan.timestamp, workspace, *_build_origin_links(origin)]
    parts: list[Part] = []
    for fact in filter(None, facts):
        parts += [" \N{MIDDLE DOT} ", fact]
    return build_element(
        "header",
        build_element("h1", f"Plan: {overview.headline}"),
        build_element("p", parts[1:], class_="quiet") if parts else None,
    )


def _build_origin_links(origin: CodeOrigin) -> list[Part]:
    """Build the directory and the commit, as links if the code host is known."""
    parts: list[Part] = []
    if origin.url:
        directory = origin.directory or "top directory"
        address = posixpath.join(origin.url, origin.directory).rstrip("/")
        parts.append(build_element("a", directory, href=address))
    if origin.commit:
        name = f"commit {origin.commit[:_COMMIT_LENGTH]}"
        # Code hosts have the commit page next to the files.
        address, is_file_address, _ = origin.url.rpartition(f"/blob/{origin.commit}")
        commit_part = build_element("a", name, href=f"{address}/commit/{origin.commit}") if is_file_address else name
        parts.append(commit_part)
    return parts


_COMMIT_LENGTH: Final = 7


def _build_sections(
    plan: Plan,
    report: Report,
    maps: Sequence[SiteMap],
    overview: Overview,
    sources: Mapping[str, SourceFile],
    folds: Sequence[ObjectFold],
) -> list[Part]:
    """Build verdict and map, then explanations, then tables; for a failed plan the causes and the current
    placement.
    """
    findings = build_findings_section(collect_findings(plan), sources)
    parts: list[Part] = [build_verdict(plan, report, overview)]
    title = "Current placement" if report.is_errored else "Map"
    map_part = build_section("racks", title, build_script_placeholder("map")) if maps else None
    if report.is_errored:
        return [*parts, findings, build_rules_section(plan.separation_verdicts), map_part]
    has_renames = bool(list_destructive_renames(plan))
    parts += [findings if has_renames else None]
    parts += [build_element("p", line) for line in describe_conditions(plan)]
    parts += [build_sites_section(build_site_rows(plan)), map_part]
    pools = build_pools_section(plan)
    domain_parts = load_domain_parts(plan)
    parts += [domain_part.after_map(plan) for domain_part in domain_parts]
    parts += [
        build_upgrades_section(plan.upgrades),
        None if has_renames else findings,
        build_overview_section(overview),
        pools,
    ]
    if any(site.vms for site in maps):
        parts.append(build_section("vms", "VMs", build_script_placeholder("vm-list")))
    parts += [domain_part.after_vms(plan) for domain_part in domain_parts]
    parts += [build_rollouts_section(report), build_rules_section(plan.separation_verdicts)]
    if plan.changes:
        parts.append(build_changes_section(folds, build_script_placeholder("change-tree")))
    return [
        *parts,
        build_drift_section(report.drift),
        build_outputs_section(report.outputs),
        build_checks_section(plan.checks),
    ]


def build_script_placeholder(identifier: str) -> Markup:
    """Build an element that a script fills."""
    note = "This section needs JavaScript, which is disabled."
    return build_element("div", build_element("noscript", note), id=identifier)


def _build_footer(plan: Plan) -> Markup:
    """Build the version and a note about predictions."""
    version = f"nexusform {plan.nexusform_version}" if plan.nexusform_version else "nexusform"
    catalogue = f", SKU catalogue {plan.catalogue}" if plan.catalogue else ""
    prediction_note = "Placements are predicted: Azure breaks ties."
    if is_fully_decided(plan.placement_tables):
        prediction_note = "nexusform decides the placements and sends them to the sites."
    evaluation = describe_evaluation(plan) and f" Evaluation: {describe_evaluation(plan)}."
    return build_element(
        "footer", build_element("p", f"Made by {version}{catalogue}. {prediction_note}{evaluation}"), class_="quiet"
    )
