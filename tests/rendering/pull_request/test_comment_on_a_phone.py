"""Tests of the comment on a small phone: nothing that decides is wider than the screen."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.rendering.pull_request.plan_comment import render_markdown
from tests.planning.harness import build_all_types, build_state, plan, require_success
from tests.rendering.browser import CHROMIUM, DRIVER, MISSING, Browser
from tests.rendering.real_plans import REGISTRIES, RealPlan

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason=MISSING),
    pytest.mark.xdist_group("browser"),
]
WIDTH = 320
# Elements outside of folded parts and code blocks whose right edge is beyond the screen.
WIDE = """
const width = document.documentElement.clientWidth;
const isShown = (each) => !each.closest("pre") && (!each.closest("details:not([open])") || each.closest("summary"));
return [...document.querySelectorAll("article *")].filter(isShown)
  .filter((each) => each.getBoundingClientRect().right > width + 1).map((each) => each.outerHTML.slice(0, 300));
"""  # noqa: E501
# Long names of a cluster and a pool, and the changes with the longest triggers.
LONG = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  count         = 8
  site_id       = nexus_site.lab.id
  name          = "rack${count.index + 1}"
  machine_count = 16
}

resource "nexus_kubernetes_cluster" "edge" {
  site_id            = nexus_site.lab.id
  name               = "edge-core-network-functions-north-01"
  kubernetes_version = "1.29.4"
  depends_on         = [nexus_rack.rack]

  control_plane {
    count       = 3
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "userplaneworkers" {
    count       = 12
    vm_sku_name = "NC_P46_224_v1"
  }
}
"""
CHANGES = {
    "upgrade": ('"1.29.4"', '"1.30.3"'),
    "pool ends": ('"userplaneworkers"', '"controlplaneworkers"'),
    "scale in": ("count       = 12", "count       = 8"),
    "rename": ('"nexus_kubernetes_cluster" "edge"', '"nexus_kubernetes_cluster" "core"'),
    "removal": (LONG[LONG.index('resource "nexus_kubernetes_cluster"') :], ""),
    "another SKU": ("NC_P46_224_v1", "NC_P22_112_v1"),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    opened = Browser()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def pictures() -> Iterator[Any]:
    """Import the script that shows a comment as GitHub does."""
    sys.path.insert(0, str(ROOT / "packaging"))
    import pictures as script

    yield script
    sys.path.remove(str(ROOT / "packaging"))


def list_wide_elements(comment: str, pictures: Any, browser: Browser, directory: Path) -> list[str]:
    page = directory / "comment.html"
    page.write_text(pictures.as_github_shows(comment), encoding="utf-8")
    browser.open(page, WIDTH)
    return list(browser.run(WIDE))


@pytest.mark.parametrize("change", CHANGES)
def test_comment_with_long_names_fits_a_small_phone(
    change: str, pictures: Any, browser: Browser, tmp_path: Path
) -> None:
    changed = LONG.replace(*CHANGES[change])
    result = require_success(plan(changed, state=build_state(LONG)))
    made = add_site_capacity(result, build_all_types()).plan
    comment = render_markdown(made, {}, build_all_types())
    assert list_wide_elements(comment, pictures, browser, tmp_path) == []


@pytest.mark.of_domains("fleet")
def test_comments_of_examples_fit_a_small_phone(
    examples: Mapping[str, RealPlan], pictures: Any, browser: Browser, tmp_path: Path
) -> None:
    wide = {
        name: list_wide_elements(
            render_markdown(real.saved.plan, real.sources, REGISTRIES), pictures, browser, tmp_path
        )
        for name, real in examples.items()
    }
    assert {name: elements for name, elements in wide.items() if elements} == {}
