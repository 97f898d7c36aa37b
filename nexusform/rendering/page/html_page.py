"""The plan as one page: a single file that fetches nothing, for browsers of any width.

The page is whole without scripts as far as words and tables go; scripts draw the rack map, the tree
of changes and the lists, and only what is in sight of them. Everything they work on stands in the page
as JSON (`page_data.py`). Style and scripts are files of our own in `assets/`.

Whoever serves the page and has another plan for it asks `page_content` for the new sections and their
data, and hands both to `replace(main, data)` in `assets/page.js`; `render(data)` there draws anew from data
alone.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

from msgspec import Struct

from nexusform.plans.plan import Plan, all_decided
from nexusform.ports import Registries
from nexusform.rendering.notation.markup import Markup, Part, data_script, element, joined, trusted_code
from nexusform.rendering.page.domain_parts import parts_of_domains
from nexusform.rendering.page.page_data import page_data
from nexusform.rendering.page.page_parts import (
    changes_part,
    checks_part,
    diagnostics_part,
    drift_part,
    outputs_part,
    overview_part,
    rollouts_part,
    rules_part,
    section,
    sites_part,
    tables_part,
    upgrades_part,
    verdict_part,
)
from nexusform.rendering.page.rack_map import SiteMap, build_rack_maps
from nexusform.rendering.page.tiles import room_heading, tiles_part
from nexusform.rendering.report.code_origin import NOWHERE, CodeOrigin
from nexusform.rendering.report.entries import plan_findings
from nexusform.rendering.report.object_rows import ObjectFold, object_folds
from nexusform.rendering.report.overview import Overview, build_overview
from nexusform.rendering.report.placement_rows import Detail
from nexusform.rendering.report.report import Report, build_report, schema_lookup
from nexusform.rendering.report.short_report import INVENTORY, verdict_sentences
from nexusform.rendering.report.site_rows import site_rows
from nexusform.source import SourceFile

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
# Nothing may be fetched or sent, whatever a value in the plan might look like.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"


class PageContent(Struct, frozen=True):
    """What changes on a page with its plan: the inside of `main`, and what its scripts draw from."""

    overview: Overview
    main: Markup
    data: dict[str, Any]


def page_content(
    plan: Plan,
    sources: Mapping[str, SourceFile],
    registries: Registries,
) -> PageContent:
    """The sections of a plan and the data behind them."""
    report = build_report(plan, registries, Detail.CHANGED)
    maps = build_rack_maps(plan)
    overview = build_overview(plan, report)
    folds = object_folds(plan, schema_lookup(registries))
    main = joined(_parts(plan, report, maps, overview, sources, folds))
    return PageContent(overview, main, page_data(plan, report, maps))


def render_html(
    plan: Plan,
    sources: Mapping[str, SourceFile],
    registries: Registries,
    origin: CodeOrigin = NOWHERE,
) -> str:
    """The page of a plan; `origin` is where its configuration is kept."""
    content = page_content(plan, sources, registries)
    title = f"nexusform plan: {content.overview.headline}"
    return whole_page(
        title, _header(plan, content.overview, origin), content.main, _footer(plan), content.data
    )


def whole_page(
    title: str,
    header: Markup,
    main: Markup,
    footer: Markup,
    data: dict[str, Any],
    *,
    extra_scripts: Sequence[Markup] = (),
    policy: str = _POLICY,
) -> str:
    """A page that draws its map from `data`, as one file; `extra_scripts` stand behind its own."""
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        _bar(),
        header,
        element("main", main, id="content", tabindex="-1"),
        footer,
        data_script("plan-data", data),
        [trusted_code("script", _file(name)) for name in SCRIPTS],
        extra_scripts,
    )
    page = element("html", _head(title, policy), body, lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _file(name: str) -> str:
    """A file of the assets, as text."""
    return resources.files("nexusform.rendering.page").joinpath("assets", name).read_text(encoding="utf-8")


def _head(title: str, policy: str) -> Markup:
    """Title, policy and style sheets."""
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        [trusted_code("style", _file(name)) for name in STYLES],
    )


def _bar() -> Markup:
    """What stays in sight: the sections, which a script names, the search, and the choice of a theme."""
    sections = element("nav", element("ul", id="sections"), aria_label="Sections")
    words = "Find a VM, rack, site or placement"
    off = {"autocomplete": "off", "spellcheck": "false"}
    field = element("input", type="search", id="find", placeholder=words, aria_label=words, **off)
    count = element("span", id="hit-count", class_="unseen", role="status")
    hits = element("ul", id="hits", hidden=True)
    choices = [element("option", text, value=value) for value, text in _THEMES]
    theme = element("select", choices, id="theme", aria_label="Theme")
    find = element("div", field, count, hits, class_="find", role="search")
    return element("div", sections, find, theme, class_="bar")


_THEMES: Final = (("auto", "theme"), ("light", "light"), ("dark", "dark"))


def _header(plan: Plan, overview: Overview, origin: CodeOrigin) -> Markup:
    """The headline, when and where the plan was made, and of which commit."""
    workspace = f"workspace {plan.workspace}" if plan.workspace != "default" else ""
    facts = [plan.timestamp, workspace, *_origin_parts(origin)]
    when_and_where: list[Part] = []
    for fact in filter(None, facts):
        when_and_where += [" \N{MIDDLE DOT} ", fact]
    return element(
        "header",
        element("h1", f"Plan: {overview.headline}"),
        element("p", when_and_where[1:], class_="quiet") if when_and_where else None,
    )


def _origin_parts(origin: CodeOrigin) -> list[Part]:
    """The directory and the commit, links where the code host is known."""
    parts: list[Part] = []
    if origin.url:
        directory = origin.directory or "top directory"
        address = posixpath.join(origin.url, origin.directory).rstrip("/")
        parts.append(element("a", directory, href=address))
    if origin.commit:
        name = f"commit {origin.commit[:_SHORT_COMMIT]}"
        # Code hosts keep the page of a commit beside its files.
        address, is_file_address, _ = origin.url.rpartition(f"/blob/{origin.commit}")
        linked = element("a", name, href=f"{address}/commit/{origin.commit}") if is_file_address else name
        parts.append(linked)
    return parts


_SHORT_COMMIT: Final = 7


def _parts(
    plan: Plan,
    report: Report,
    maps: Sequence[SiteMap],
    overview: Overview,
    sources: Mapping[str, SourceFile],
    folds: Sequence[ObjectFold],
) -> list[Part]:
    """Verdict and map first, then why, then tables; of a plan in error what tells why, and what stands."""
    findings = diagnostics_part(plan_findings(plan), sources)
    sentences = [] if report.errored else verdict_sentences(plan)
    # The age of an inventory stands out when it is old.
    tiles = tiles_part(plan, report, overview)
    elsewhere = {INVENTORY, room_heading(plan) if tiles else ""}
    shown = [(heading, sentence) for heading, sentence in sentences if heading not in elsewhere]
    parts: list[Part] = [verdict_part(report, overview, shown, tiles)]
    title = "What stands" if report.errored else "Map"
    map_part = section("racks", title, scripted("map")) if maps else None
    if report.errored:
        return [*parts, findings, rules_part(plan.separation_rules), map_part]
    parts += [sites_part(site_rows(plan)), map_part]
    pools = tables_part(plan)
    of_domains = parts_of_domains(plan)
    parts += [each.after_map(plan) for each in of_domains]
    parts += [upgrades_part(plan.upgrades), findings, overview_part(overview), pools]
    if any(site.vms for site in maps):
        parts.append(section("vms", "VMs", scripted("vm-list")))
    parts += [each.after_vms(plan) for each in of_domains]
    parts += [rollouts_part(report), rules_part(plan.separation_rules)]
    if plan.changes:
        parts.append(changes_part(folds, scripted("change-tree")))
    return [*parts, drift_part(report.drift), outputs_part(report.outputs), checks_part(plan.checks)]


def scripted(identifier: str) -> Markup:
    """A place that a script fills."""
    words = "This part is drawn by a script, which is turned off here."
    return element("div", element("noscript", words), id=identifier)


def _footer(plan: Plan) -> Markup:
    """What made the page, and what predictions are worth."""
    version = f"nexusform {plan.nexusform_version}" if plan.nexusform_version else "nexusform"
    catalogue = f", SKU catalogue {plan.catalogue}" if plan.catalogue else ""
    worth = "Placements are predicted: the platform breaks ties unseen."
    if all_decided(plan.placement_tables):
        worth = "VMs are placed as decided here: their sites are told where they go."
    return element(
        "footer",
        element("p", f"Made by {version}{catalogue}. {worth}"),
        class_="quiet",
    )
