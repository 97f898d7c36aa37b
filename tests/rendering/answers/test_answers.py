"""Tests of `simulate` answers against reviewed files."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nexusform.domains.whatif.questions.capacity import SkuCount, compute_site_capacity
from nexusform.domains.whatif.questions.kubernetes_upgrade import simulate_kubernetes_upgrade
from nexusform.domains.whatif.questions.runtime_upgrade import (
    UpgradeOptions,
    simulate_runtime_upgrade,
)
from nexusform.domains.whatif.rendering.failure_report import build_failure_report
from nexusform.domains.whatif.rendering.kubernetes_upgrade_report import (
    build_kubernetes_upgrade_report,
)
from nexusform.domains.whatif.rendering.runtime_upgrade_report import build_runtime_upgrade_report
from nexusform.domains.whatif.rendering.site_capacity_report import build_capacity_report
from nexusform.rendering.page.report_page import build_report_main
from nexusform.rendering.pull_request.report_markdown import render_report_markdown
from nexusform.rendering.report.report_tree import Report
from nexusform.rendering.text.report_text import render_report_text
from nexusform.snapshots.snapshot import SiteSnapshot
from tests.domains.whatif.questions.failures import build_start, simulate_rack_failure
from tests.domains.whatif.questions.test_pods_down import (
    ALONE,
    BUDGET,
    build_site_and_pods,
    render_web,
)
from tests.rendering.test_facts import read_page
from tests.worlds.small_worlds import build_document_state

ORIGIN = "state serial 5"


@pytest.fixture(scope="module")
def lab() -> SiteSnapshot:
    site, _ = build_site_and_pods(build_document_state("nearly-full"), "", "lab/none")
    return site


def answers(site: SiteSnapshot) -> dict[str, Report]:
    mix = [SkuCount(2, site.skus["NC_P46_224_v1"]), SkuCount(3, site.skus["NC_G6_28_v1"])]
    d = next(cluster for cluster in site.clusters if cluster.name == "cluster-d")
    return {
        "capacity": build_capacity_report([compute_site_capacity(site, mix=mix)], ORIGIN),
        "failure": build_failure_report(
            simulate_rack_failure(build_document_state("nearly-full"), "rack7", "lab", "lab/rack7"),
            ORIGIN,
        ),
        "kubernetes-upgrade": build_kubernetes_upgrade_report(
            simulate_kubernetes_upgrade(build_start(build_document_state("nearly-full")), site, d),
            ORIGIN,
        ),
    }


def check_dropped_sections(report: Report) -> None:
    """Check that each section of an answer shows something in each format."""
    formats = (
        render_report_text,
        render_report_markdown,
        lambda subject: read_page(str(build_report_main(subject))),
    )
    for number, section in enumerate(report.sections):
        rest = (*report.sections[:number], *report.sections[number + 1 :])
        for render in formats:
            text = render(replace(report, sections=rest))
            assert text != render(report), section.title


@pytest.mark.parametrize("name", ["capacity", "failure", "kubernetes-upgrade"])
def test_answers_on_document_site_match_reviewed_files(
    name: str, lab: SiteSnapshot, golden: Callable[[str, str], None]
) -> None:
    outline = answers(lab)[name]
    golden(f"answers/{name}.txt", render_report_text(outline))
    golden(f"answers/{name}.md", render_report_markdown(outline))
    check_dropped_sections(outline)


def test_runtime_upgrade_of_document_matches_reviewed_file(
    golden: Callable[[str, str], None],
) -> None:
    text = render_web(24, "40", ALONE) + BUDGET.replace("MIN", "24")
    state = build_document_state("nearly-full")
    site, pods = build_site_and_pods(state, text, "lab/cluster-a")
    upgrade = simulate_runtime_upgrade(build_start(state), site, UpgradeOptions(), pods)
    outline = build_runtime_upgrade_report([upgrade], ORIGIN)
    golden("answers/runtime-upgrade.txt", render_report_text(outline))
    golden("answers/runtime-upgrade.md", render_report_markdown(outline))
    check_dropped_sections(outline)
    golden(
        "answers/runtime-upgrade.html", str(build_report_main(outline)).replace("><", ">\n<") + "\n"
    )
