"""Answers of `simulate` as people read them: files that are reviewed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nexusform.domains.whatif.questions.capacity import MixPart, find_capacity
from nexusform.domains.whatif.questions.failure import FailureScope, lose_machines
from nexusform.domains.whatif.questions.kubernetes_upgrade import simulate_kubernetes_upgrade
from nexusform.domains.whatif.questions.runtime_upgrade import UpgradeOptions, simulate_runtime_upgrade
from nexusform.domains.whatif.rendering.capacity_outline import capacity_outline
from nexusform.domains.whatif.rendering.failure_outline import failure_outline
from nexusform.domains.whatif.rendering.kubernetes_upgrade_outline import kubernetes_upgrade_outline
from nexusform.domains.whatif.rendering.runtime_upgrade_outline import runtime_upgrade_outline
from nexusform.rendering.answers.answer_page import answer_main, answer_page
from nexusform.rendering.answers.outline import (
    Outline,
    Row,
    Section,
    Table,
    outline_markdown,
    outline_text,
    spans_text,
)
from nexusform.rendering.notation.colours import strip_colours
from nexusform.worlds.world_view import SiteView
from tests.domains.whatif.questions.test_pods_down import ALONE, BUDGET, seen, web
from tests.worlds.small_worlds import document

ORIGIN = "state serial 5"


@pytest.fixture(scope="module")
def lab() -> SiteView:
    site, _ = seen(document("nearly-full"), "", "lab/none")
    return site


def answers(site: SiteView) -> dict[str, Outline]:
    rack = [machine.name for machine in site.machines_of_rack["rack7"]]
    mix = [MixPart(2, site.skus["NC_P46_224_v1"]), MixPart(3, site.skus["NC_G6_28_v1"])]
    d = next(cluster for cluster in site.clusters if cluster.name == "cluster-d")
    return {
        "capacity": capacity_outline([find_capacity(site, mix=mix)], ORIGIN),
        "failure": failure_outline(lose_machines(site, FailureScope.RACK, "lab/rack7", rack), ORIGIN),
        "kubernetes-upgrade": kubernetes_upgrade_outline(simulate_kubernetes_upgrade(site, d), ORIGIN),
    }


@pytest.mark.parametrize("name", ["capacity", "failure", "kubernetes-upgrade"])
def test_the_documents_site_read_as_reviewed(
    name: str, lab: SiteView, golden: Callable[[str, str], None]
) -> None:
    outline = answers(lab)[name]
    golden(f"answers/{name}.txt", outline_text(outline))
    golden(f"answers/{name}.md", outline_markdown(outline))


def test_the_documents_runtime_upgrade_reads_as_reviewed(golden: Callable[[str, str], None]) -> None:
    text = web(24, "40", ALONE) + BUDGET.replace("MIN", "24")
    site, pods = seen(document("nearly-full"), text, "lab/cluster-a")
    outline = runtime_upgrade_outline([simulate_runtime_upgrade(site, UpgradeOptions(), pods)], ORIGIN)
    golden("answers/runtime-upgrade.txt", outline_text(outline))
    golden("answers/runtime-upgrade.md", outline_markdown(outline))
    golden("answers/runtime-upgrade.html", str(answer_main(outline)).replace("><", ">\n<") + "\n")


# --- the three forms -----------------------------------------------------------------------------

ROWS = tuple(Row((f"vm{n}", "x" * 30, "y" * 40), bad=n == 20) for n in range(25))
HEADS = ("name", "a", "b")
SAMPLE = Outline(
    "Title | <b>",
    "It is `so`.",
    bad=True,
    facts=("a fact",),
    sections=(
        Section(
            "Wide", ("line",), ("run --this",), Table((*HEADS, "c"), (Row(("n", "1" * 50, "2" * 50, "")),))
        ),
        Section("Long", table=Table(HEADS, ROWS), folded=True),
    ),
)


def test_colours_change_no_word() -> None:
    assert strip_colours(outline_text(SAMPLE, colour=True)) == outline_text(SAMPLE)


def test_no_line_is_wider_than_the_terminal_unless_a_cell_is() -> None:
    for line in outline_text(SAMPLE, width=80).splitlines():
        assert len(line) <= 80, line


def test_long_details_are_cut_in_text_and_whole_in_markdown() -> None:
    text, markdown = outline_text(SAMPLE), outline_markdown(SAMPLE)
    assert "vm20" in text  # part of the finding
    assert "... and 24 more; -format=markdown shows all." in text
    assert markdown.count("| vm") + markdown.count("| **vm") == 25
    assert "```sh\nrun --this\n```" in markdown
    assert markdown.startswith("### Title \\| &lt;b>\n\n\u274c **It is `so`.**")


def test_control_characters_never_reach_the_terminal() -> None:
    nasty = Outline("\x1b[31mred", "\x07", bad=False, sections=(Section("\x9b", ("\x1b]0;t\x07",)),))
    for form in (outline_text(nasty), outline_markdown(nasty), answer_page(nasty)):
        assert not any(ord(c) < 32 and c != "\n" for c in form)


def test_the_page_says_what_is_bad_in_words() -> None:
    page = answer_page(SAMPLE)
    assert "<strong>Finding</strong>: It is <code>so</code>." in page
    assert "<title>Title | &lt;b&gt;</title>" in page
    assert page.count('<tr class="bad">') == 1


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([4], "4"), ([1, 2, 3], "1-3"), ([1, 3, 4, 8], "1, 3-4, 8")]
)
def test_spans(numbers: list[int], text: str) -> None:
    assert spans_text(numbers) == text
