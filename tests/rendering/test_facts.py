"""Tests of report facts: every fact of a section is on all its screens.

Screens are the terminal, the comment and the page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace

import pytest

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.plans.plan import Plan
from nexusform.rendering.page.html_page import render_html
from nexusform.rendering.pull_request.plan_comment import render_markdown
from nexusform.rendering.report import plan_sections as parts
from nexusform.rendering.report import plan_sections as placements
from nexusform.rendering.report.plan_report_data import PlanReportData
from nexusform.rendering.report.report_tree import Section, Text, get_plain_text
from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan
from tests.rendering.pieces import CHANGE_PLANS
from tests.rendering.real_plans import REGISTRIES, RealPlan, of_examples

Builder = Callable[[PlanReportData], Section | None]
TERMINAL: tuple[Builder, ...] = (
    parts.build_site_section,
    parts.build_change_section,
    parts.build_machine_and_feasibility_section,
    parts.build_rollout_section,
    parts.build_note_section,
    placements.build_pool_section,
    placements.build_vm_section,
    placements.build_workload_section,
)
COMMENT: tuple[Builder, ...] = (
    parts.build_site_section,
    parts.build_change_section,
    parts.build_machine_and_feasibility_section,
    parts.build_rollout_section,
    parts.build_note_section,
    placements.build_pool_section,
    placements.build_listed_vm_section,
    placements.build_workload_section,
)
PAGE: tuple[Builder, ...] = (
    parts.build_site_section,
    parts.build_change_section,
    parts.build_machine_and_feasibility_section,
    parts.build_rollout_section,
    parts.build_note_section,
    parts.build_capacity_section,
    parts.build_count_section,
    placements.build_all_pools_section,
)
EXAMPLES = of_examples(
    "quickstart",
    "inventory",
    "nexus-document-from-nothing",
    "fleet",
    "end-to-end",
    "hardware-aware",
    "separation",
    "repaired",
)


def list_facts(section: Section) -> Iterable[Text]:
    """Return the texts of a section seen by a reader: cells, items, notes and lines."""
    yield from section.lines
    for table in section.all_tables:
        for row in table.rows:
            yield from (
                cell for column, cell in enumerate(row.cells) if column not in table.details
            )
            yield row.note
    for group in section.groups:
        for item in group.items:
            yield from (item.label, item.text)
    for heading, sentence in section.notes:
        yield from (heading, sentence)


def squeeze(text: str) -> str:
    """Remove blanks, line ends, Markdown marks, and the period of an embedded sentence."""
    words = re.sub(r"[\s\\`*~]+|&nbsp;", "", text).replace("\N{RIGHTWARDS ARROW}", "->")
    return words.casefold().removesuffix(".")


def read_page(page: str) -> str:
    """Return the text of a page without its scripts and elements."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", body))


def find_missing(view: PlanReportData, builders: Iterable[Builder], screen: str) -> list[str]:
    """Return the facts of the sections missing on the screen."""
    text = squeeze(screen)
    facts = (fact for build in builders if (section := build(view)) for fact in list_facts(section))
    return [plain for fact in facts if squeeze(plain := get_plain_text(fact)) not in text]


def check_screens(
    plan: Plan, sources: Mapping[str, SourceFile], registries: PluginRegistries
) -> None:
    """Compare the sections of a plan with its three screens."""
    view = PlanReportData(plan, sources, registries)
    text = render_plan(plan, sources, PlanTextOptions(registries=registries, width=4000))
    assert find_missing(view, TERMINAL, text) == []
    assert find_missing(view, COMMENT, render_markdown(plan, sources, registries)) == []
    assert find_missing(view, PAGE, read_page(render_html(plan, sources, registries))) == []


@pytest.mark.parametrize("name", CHANGE_PLANS)
def test_every_screen_has_all_facts(name: str, plans: SimpleNamespace) -> None:
    check_screens(getattr(plans, name)(), plans.files, plans.registries)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_screen_of_an_example_has_all_facts(
    name: str, examples: Mapping[str, RealPlan]
) -> None:
    check_screens(examples[name].saved.plan, examples[name].sources, REGISTRIES)
