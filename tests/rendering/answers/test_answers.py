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
from nexusform.rendering.answers.answer_page import answer_main
from nexusform.rendering.answers.outline import Outline, outline_markdown, outline_text
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
