"""Tests of the page in headless Chromium, at desktop and phone widths."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.plan import Plan
from nexusform.rendering.notation.markup import build_element
from nexusform.rendering.page.html_page import build_page_content, render_html
from nexusform.rendering.page.report_page import build_plan_section
from nexusform.rendering.page.svg_map import render_svg
from nexusform.rendering.report.report_tree import ActionText, Row, Section, Style, Table
from tests.kill_points import long_case, select_cases
from tests.planning.harness import build_all_types, build_state, plan, require_success
from tests.rendering.browser import AXE, AXE_MISSING, CHROMIUM, DRIVER, MISSING, Browser
from tests.rendering.real_plans import (
    REGISTRIES,
    SMALL,
    RealPlan,
    nexusform,
    of_examples,
    plan_directory,
    plan_many_objects,
)

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason=MISSING),
    pytest.mark.xdist_group("browser"),
]
READY = "document.documentElement.dataset.ready === 'yes'"
WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    opened = Browser()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def pages(
    examples: Mapping[str, RealPlan], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    where = tmp_path_factory.mktemp("pages")
    found = {}
    for name, real in examples.items():
        found[name] = where / f"{name}.html"
        found[name].write_text(
            render_html(real.saved.plan, real.sources, REGISTRIES), encoding="utf-8"
        )
    return found


def open_page(browser: Browser, page: Path, width: int = 1280) -> Browser:
    browser.wear("light")
    browser.open(page, width)
    browser.wait_for(READY)
    return browser


def list_clipped_elements(browser: Browser) -> list[str]:
    """Unfold everything; return the elements clipped at the side of the page."""
    script = """document.querySelectorAll("main details").forEach((each) => { each.open = true; });
      const cut = (each) => each.scrollWidth > each.clientWidth + 1 && !each.closest("#stage, .unseen")
        && getComputedStyle(each).overflowX !== "visible";
      return [...document.querySelectorAll("main *")].filter(cut).map((each) => each.outerHTML)"""  # noqa: E501
    return list(browser.run(script))


def choose_view(browser: Browser, view: str) -> None:
    browser.click(f"input[name=view][value={view}]")


def open_matrix(browser: Browser, directory: Path, matrix: Table, width: int) -> None:
    """Open a page with the matrix alone."""
    page = render_html(Plan(), {}, REGISTRIES)
    drawn = str(build_element("main", build_plan_section(Section("M", table=matrix, name="m"))))
    (directory / "page.html").write_text(page.partition("<main")[0] + drawn, encoding="utf-8")
    browser.open(directory / "page.html", width)


WORDS = """const name = document.querySelector(".matrix .name");
  const texts = document.createTreeWalker(name, NodeFilter.SHOW_TEXT), broken = [];
  while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[^ -]+/g)) {
    const range = document.createRange();
    range.setStart(texts.currentNode, word.index);
    range.setEnd(texts.currentNode, word.index + word[0].length);
    if (range.getClientRects().length > 1) broken.push(word[0]);
  }
  return broken"""


@pytest.mark.parametrize("width", WIDTHS)
def test_names_of_a_wide_matrix_break_only_between_words(
    browser: Browser, width: int, tmp_path: Path
) -> None:
    keys = ("northernregioncustomer0011720", "southern9851020", "a")
    names = tuple(f'fleet_cluster_resource_placement.p["{key}"]' for key in keys)
    clusters = tuple(f"member-{number}" for number in range(30))
    rejected = ActionText("not picked", Style.ACTION, reason="no label")
    rows = tuple(Row((name, *(rejected for _ in clusters))) for name in names)
    open_matrix(browser, tmp_path, Table(("Placement", *clusters), rows, is_matrix=True), width)
    assert browser.count(".matrix td") == 30
    assert browser.run(WORDS) == []


def test_phone_lists_clusters_below_their_placement_changed_first(
    browser: Browser, tmp_path: Path
) -> None:
    new = ActionText("+ Bound", Style.ACTION, action="place")
    kept = ActionText("Bound", Style.ACTION, action="keep")
    rows = (Row(("p", kept, ActionText("", Style.ACTION), new)),)
    matrix = Table(("Placement", "kept", "not", "new"), rows, is_matrix=True)
    open_matrix(browser, tmp_path, matrix, 390)
    cells = "[...document.querySelectorAll('.matrix tbody th, .matrix tbody td')]"
    place = "each.getBoundingClientRect().top * 1000 + each.getBoundingClientRect().left"
    words = "each.dataset.head || each.innerText.trim()"
    ordered = (
        f"{cells}.map((each) => [{place}, {words}]).sort((a, b) => a[0] - b[0]).map((each) => "
        "each[1])"
    )
    assert browser.run(f"return {ordered}") == ["p", "new", "kept", "not"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "name",
    of_examples(
        "quickstart", "inventory", "nexus-document", "repaired", "fleet", "end-to-end", "separation"
    ),
)
def test_no_console_errors_and_no_horizontal_scrolling(
    name: str, width: int, browser: Browser, pages: dict[str, Path]
) -> None:
    open_page(browser, pages[name], width)
    assert browser.console() == []
    assert browser.run(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    if width == min(WIDTHS):
        assert list_clipped_elements(browser) == []
    shots = os.environ.get("NEXUSFORM_SCREENSHOTS")
    if shots:
        browser.screenshot(Path(shots) / f"{name}-{width}.png")


def test_map_switches_between_before_and_after(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["nexus-document"])
    browser.run("document.getElementById('racks').scrollIntoView()")
    browser.wait_for("document.querySelectorAll('button.vm').length === 178")
    assert browser.count("button.vm.placed") == 53
    assert browser.text("#map-status") == "After the plan: 178 VMs on lab."
    choose_view(browser, "before")
    browser.wait_for("document.querySelectorAll('button.vm').length === 125")
    assert browser.count("button.vm.placed") == 0
    assert browser.text("#map-status") == "Before the plan: 125 VMs on lab."


def test_filters_dim_the_map_and_shorten_the_list(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["nexus-document"])
    browser.run("document.getElementById('racks').scrollIntoView()")
    browser.wait_for("document.querySelectorAll('button.vm').length === 178")
    assert browser.text("#vm-status") == "53 VMs."
    browser.choose("#filter-cluster", "cluster-d")
    browser.choose("#filter-pool", "pool1")
    assert browser.count("button.vm:not(.faded)") == 24
    assert browser.text("#vm-status") == "24 VMs, filtered as in the rack map."
    assert "24 of 178 VMs match" in browser.text("#map-status")
    browser.choose("#filter-pool", "")
    browser.choose("#filter-cluster", "")
    browser.choose("#filter-trigger", "new")
    assert browser.count("button.vm:not(.faded)") == 53
    browser.choose("#filter-trigger", "")
    browser.click(".filters summary")
    browser.click("#filter-changed")
    assert browser.count("button.vm.faded") == 125


def test_hover_and_click_show_vm_details(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["repaired"])
    browser.run("document.getElementById('racks').scrollIntoView()")
    browser.wait_for("document.querySelector('button.vm.moved')")
    browser.hover("button.vm.moved")
    browser.wait_for("!document.querySelector('.tip').hidden")
    assert browser.text(".tip").startswith("web-workers-0\nweb / workers, NC_P46_224_v1\nr1 / ")
    browser.click("button.vm.moved")
    told = browser.text("#detail")
    assert "web-workers-0" in told
    assert "its machine is evacuated" in told
    assert "r1 / r1-bm01 / cell 0" in told
    # It depends on the VM that Azure removes.
    assert "of 100 samples" not in told
    browser.press("Escape")
    assert browser.run("return document.getElementById('detail').hidden")
    assert browser.run("return document.activeElement.matches('button.vm.moved')")
    browser.click("button.slot")
    browser.wait_for("document.getElementById('machine-view')")
    assert "takes no new VM: being evacuated" in browser.text("#machine-view")
    assert browser.text(".crumbs") == "s\nr1\nr1-bm01"


def test_map_has_keyboard_navigation(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["repaired"])
    browser.run("document.getElementById('racks').scrollIntoView()")
    browser.wait_for("document.querySelector('#rack-grid [tabindex=\"0\"]')")
    browser.run("document.querySelector('#rack-grid [tabindex=\"0\"]').focus()")
    first = browser.run("return document.activeElement.textContent")
    browser.press("ArrowDown")
    second = browser.run("return document.activeElement.textContent")
    assert first != second
    browser.press("End")
    browser.press("Enter")
    assert not browser.run("return document.getElementById('detail').hidden")
    assert browser.count('#rack-grid [tabindex="0"]') == 1


def test_arrows_lead_from_old_to_new_places(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["evacuated"])
    browser.wait_for("document.querySelectorAll('.arrows .arrow').length === 3")
    assert browser.count("button.vm.ghost") == 3
    assert browser.count("button.vm.moved:not(.ghost)") == 3
    assert browser.text(".moves").startswith(
        "~cluster-a-pool1-5 rack3-bm12 \N{RIGHTWARDS ARROW} rack3-bm13"
    )
    choose_view(browser, "sides")
    browser.wait_for("document.querySelectorAll('.arrows .arrow').length === 3")
    assert browser.count("button.vm.ghost") == 0
    assert browser.count("#rack-grid-before button.vm.moved") == 3
    choose_view(browser, "after")
    assert browser.count(".arrows .arrow") == 0


def test_removed_machines_are_shown_at_the_start_of_moves(browser: Browser, tmp_path: Path) -> None:
    main = tmp_path / "main.nf.hcl"
    main.write_text(SMALL.replace("WORKERS", "9").replace("MORE", ""))
    nexusform(tmp_path, "apply", "-auto-approve", "-samples=0")
    main.write_text(main.read_text().replace("machine_count = 4", "machine_count = 3"))
    page = tmp_path / "page.html"
    nexusform(tmp_path, "plan", "-samples=0", f"-report=html:{page}")
    open_page(browser, page)
    moves = browser.count(".moves li")
    assert moves == browser.count(".arrows .arrow") == browser.count(".machine.going .ghost") > 0
    starts = """const box = (each) => each.getBoundingClientRect();
      const racks = box(document.getElementById("rack-grid"));
      const arrows = [...document.querySelectorAll(".arrows .arrow")].map(box);
      return arrows.every((each) => each.top >= racks.top && each.left >= racks.left - 20)"""
    assert browser.run(starts)
    assert "machine to be removed" in browser.text(".legend")
    choose_view(browser, "after")
    assert browser.run("return !document.querySelector('.machine.gone').offsetWidth")


def test_failed_plan_shows_current_placement_and_the_misfit(
    browser: Browser, tmp_path: Path
) -> None:
    main = tmp_path / "main.nf.hcl"
    main.write_text(SMALL.replace("WORKERS", "9").replace("MORE", ""))
    nexusform(tmp_path, "apply", "-auto-approve", "-samples=0")
    main.write_text(main.read_text().replace("count       = 9", "count       = 40"))
    page = tmp_path / "refused.html"
    nexusform(tmp_path, "plan", f"-report=html:{page}", code=1)
    open_page(browser, page)
    assert browser.text("h1") == "Plan: planning failed: web/workers does not fit"
    assert "40 x NC_P46_224_v1 do not fit: 21 of 40 placed" in browser.text("#diagnostics")
    assert browser.text("#racks-title") == "Current placement"
    assert browser.text("#map [role=status]") == "No changes were made: 12 VMs on s."
    assert browser.count("button.vm") == 12
    assert browser.count("button.vm.placed, button.vm.ghost, .arrows .arrow") == 0
    assert "placed" not in browser.text(".legend")
    assert browser.console() == []


@pytest.mark.of_domains("whatif")
def test_failure_is_animated_on_the_map(
    browser: Browser, examples: Mapping[str, RealPlan], tmp_path: Path
) -> None:
    page = tmp_path / "failure.html"
    nexusform(
        examples["repaired"].file.parent, "simulate", "failure", "-rack=r1", f"-report=html:{page}"
    )
    open_page(browser, page)
    assert browser.text("#step-title") == "Before the failure"
    assert browser.count(".machine.down") == 0
    browser.click("button[name=on]")
    assert browser.text("#step-title") == "s/r1 is lost: 4 VMs down"
    assert browser.count(".machine.down") == 4
    assert browser.count(".arrows .arrow") == 0
    browser.click("button[name=on]")
    assert browser.text("#step-title") == "4 VMs of 4 re-created elsewhere"
    assert browser.count(".moves li") == 4
    assert browser.count(".arrows .arrow") == 4
    assert browser.run("return document.activeElement.name") == "on"
    assert AXE is None or browser.violations() == []
    assert browser.console() == []


@pytest.mark.parametrize(
    "question",
    [
        pytest.param("simulate capacity", marks=pytest.mark.of_domains("whatif")),
        pytest.param("simulate failure -rack=rack3", marks=pytest.mark.of_domains("whatif")),
        "advise",
    ],
)
def test_answers_look_like_plans_and_fit_a_phone(
    question: str, browser: Browser, examples: Mapping[str, RealPlan], tmp_path: Path
) -> None:
    page = tmp_path / "answer.html"
    code = 2 if question == "advise" else 0
    nexusform(
        examples["evacuated"].file.parent, *question.split(), f"-report=html:{page}", code=code
    )
    for width in WIDTHS:
        open_page(browser, page, width)
        assert browser.run(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
        assert browser.count(".bar #find") == 1
    assert list_clipped_elements(browser) == []
    assert AXE is None or browser.violations() == []
    assert browser.console() == []


@pytest.mark.of_domains("whatif")
def test_capacity_is_shown_on_the_map(
    browser: Browser, examples: Mapping[str, RealPlan], tmp_path: Path
) -> None:
    page = tmp_path / "capacity.html"
    nexusform(examples["evacuated"].file.parent, "simulate", "capacity", f"-report=html:{page}")
    open_page(browser, page)
    assert browser.count(".cell.is-free") == 46
    assert browser.text("#map-status") == "215 VMs on lab."
    assert "Spare capacity by VM SKU" in browser.text("#sections")


@pytest.mark.of_domains("whatif")
def test_runtime_upgrade_is_animated_wave_by_wave(
    browser: Browser, examples: Mapping[str, RealPlan], tmp_path: Path
) -> None:
    page = tmp_path / "upgrade.html"
    nexusform(
        examples["repaired"].file.parent, "simulate", "runtime-upgrade", f"-report=html:{page}"
    )
    open_page(browser, page, 390)
    for number in (1, 2, 3):
        browser.click("button[name=on]")
        assert browser.text("#step-title").startswith(f"Wave {number} of 3: r{number}, 4 VMs down")
        figures = browser.text(".step-figures").split("\n")
        assert figures == ["web / control-plane 2 of 3 up", "web / workers 6 of 9 up"]
        downs = "return [...document.querySelectorAll('.machine.down')].map(m => m.dataset.machine)"
        assert {name.split("-")[0] for name in browser.run(downs)} == {f"r{number}"}
    browser.click("button[name=on]")
    assert browser.count(".machine.down") == 0
    assert browser.run(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    assert browser.console() == []


@pytest.mark.of_domains("whatif")
def test_kubernetes_upgrade_is_animated_batch_by_batch(
    browser: Browser, examples: Mapping[str, RealPlan], tmp_path: Path
) -> None:
    page = tmp_path / "kubernetes.html"
    directory = examples["repaired"].file.parent
    nexusform(directory, "simulate", "kubernetes-upgrade", "web", f"-report=html:{page}")
    open_page(browser, page)
    assert browser.text("#step-title") == "Before the upgrade"
    boxes = "[...document.querySelectorAll('button.vm')]"
    stands = f"return {boxes}.map(b => b.dataset.vm + b.closest('.machine').dataset.machine)"
    before = browser.run(stands)
    assert len(before) == 12
    browser.click("button[name=on]")
    assert (
        browser.text("#step-title")
        == "control-plane, batch 1 of 3: web-control-plane-0, 3 of 3 nodes up"
    )
    assert browser.count("button.vm.moved:not(.ghost)") == browser.count("button.vm.ghost") == 1
    assert browser.count(".arrows .arrow") == 1
    assert "is replaced by a new VM elsewhere" in browser.text(".legend")
    assert "machine down" not in browser.text(".legend")
    assert browser.text(".moves").count("\u2192") == 1
    browser.choose("#step", "99")
    assert browser.text("#step-title") == "After the upgrade"
    assert browser.count("button.vm.ghost") == browser.count(".arrows .arrow") == 0
    after = browser.run(stands)
    assert len(after) == len(before)
    assert set(after) != set(before)
    browser.choose("#step", "0")
    assert browser.run(stands) == before
    assert browser.console() == []


@pytest.mark.of_domains("whatif")
def test_upgrade_without_capacity_shows_its_failed_batch(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(SMALL.replace("WORKERS", "21").replace("MORE", ""))
    nexusform(tmp_path, "apply", "-auto-approve", "-samples=0")
    page = tmp_path / "stuck.html"
    nexusform(tmp_path, "simulate", "kubernetes-upgrade", "web", f"-report=html:{page}", code=2)
    open_page(browser, page)
    browser.choose("#step", "99")
    assert browser.text("#step-title") == "Where the upgrade stops"
    browser.click("button[name=back]")
    title = "workers, batch 1 of 21: no capacity for the new web-workers-0"
    assert browser.text("#step-title") == title
    assert browser.count("button.vm.moved") == 0


def test_small_adjacent_vms_are_legible(browser: Browser, tmp_path: Path) -> None:
    """On a machine full of small VMs every box has space for the key of its cluster."""
    main = (
        SMALL.replace("WORKERS", "390").replace("MORE", "").replace("NC_P46_224_v1", "NC_G6_28_v1")
    )
    (tmp_path / "main.nf.hcl").write_text(main.replace("count         = 3", "count         = 9"))
    page = tmp_path / "small.html"
    nexusform(tmp_path, "plan", "-samples=0", f"-report=html:{page}")
    open_page(browser, page)
    widths = browser.run(
        "return [...document.querySelectorAll('button.vm')].map((each) => each.offsetWidth)"
    )
    assert min(widths) >= 18


def test_most_common_change_has_no_mark(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["nexus-document-from-nothing"])
    assert browser.count("button.vm.placed") == 0
    assert "unmarked: placed, rack count exact" in browser.text(".legend")
    assert browser.count("button.vm.certainty-1") == 0
    assert (
        browser.count("button.vm.certainty-2") + browser.count("button.vm.certainty-3") == 215 - 168
    )
    # No VM box is transparent.
    assert browser.run(
        "return [...document.querySelectorAll('.vm')].every(v => getComputedStyle(v).opacity === "
        "'1')"
    )


def test_link_opens_a_vm(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["evacuated"])
    browser.run("location.hash = 'vm=cluster-e-pool1-9'")
    browser.wait_for("document.querySelector('.vm.chosen')")
    assert browser.text("#detail h3") == "cluster-e-pool1-9"
    browser.run("location.hash = 'rack=rack3'")
    browser.wait_for("document.querySelectorAll('.rack').length === 1")
    browser.run("location.hash = 'site=lab'")
    browser.wait_for("document.querySelectorAll('.rack').length === 8")
    browser.run("location.hash = 'vm=nobody'")
    assert browser.count(".rack") == 8


def test_search_finds_unchanged_vms(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["evacuated"])
    browser.type("#find", "cluster-e-pool1-9")
    browser.wait_for("document.querySelectorAll('#hits a').length === 1")
    assert "rack3-bm02" in browser.text("#hits")
    browser.press("Enter")
    browser.wait_for("!document.getElementById('detail').hidden")
    assert browser.text("#detail h3") == "cluster-e-pool1-9"
    assert browser.run("return document.getElementById('hits').hidden")


def test_layers_colour_cells(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["evacuated"])
    browser.click("input[name=layer][value=free]")
    assert browser.count(".is-free") > 20
    browser.click("input[name=layer][value=load]")
    assert browser.count(".cell.load-5") > 100
    browser.click("input[name=layer][value=loss]")
    browser.choose("#lost-rack", "rack7")
    assert "12 of 24 cluster-d / pool1" in browser.text(".loss")
    assert browser.count(".rack.lost") == 1


@pytest.mark.of_domains("fleet")
def test_pods_are_linked_from_the_map(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["end-to-end"])
    browser.run("location.hash = 'vm=east-workers-0'")
    browser.wait_for("!document.getElementById('detail').hidden")
    told = browser.text("#detail")
    assert "shop-1 east/web/Deployment/shop" in told
    assert "fleet_cluster_resource_placement.web east (Bound)" in told


@pytest.mark.of_domains("fleet")
def test_phone_lists_picked_clusters_of_a_fleet_first(
    browser: Browser, pages: dict[str, Path]
) -> None:
    open_page(browser, pages["fleet"], 390)
    tops = """const top = (cell) => cell.getBoundingClientRect().top;
      const tops = (row, kind) => [...row.querySelectorAll(kind)].map(top);
      const rows = [...document.querySelectorAll(".matrix tbody tr")];
      return rows.map((row) => [tops(row, ".picked"), tops(row, ".not")])"""
    for picked, others in browser.run(tops):
        assert max(picked) <= min(others)
    named = "return getComputedStyle(document.querySelector('.matrix td'), '::before').content"
    assert browser.run(named) == '"bravelion"'
    ends = (
        "[...document.querySelectorAll('.matrix td')].map(td => td.getBoundingClientRect().right)"
    )
    assert browser.run(f"return Math.max(...{ends})") <= 390


def test_long_list_of_vms_is_shortened_on_screen(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["nexus-document-from-nothing"])
    assert browser.count("#vm-list tbody tr") == 15
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.count("#vm-list li") == 215
    first = browser.text(".printed-vms section")
    assert first.startswith(
        "cluster-a / control-plane, NC_G12_56_v1, placed (new), rack count uncertain\n"
    )
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.count("#vm-list tbody tr") == 15


def test_printed_page_shows_everything(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["nexus-document"])
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.count("button.vm") == 178
    assert "nexus_kubernetes_cluster.d" in browser.text(".objects")
    browser.run("dispatchEvent(new Event('afterprint'))")


def test_printed_page_has_the_diffs_of_changed_objects(
    browser: Browser, pages: dict[str, Path]
) -> None:
    open_page(browser, pages["evacuated"])
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.count("#change-tree pre") == 4


@pytest.mark.of_domains("fleet")
def test_printed_page_counts_omitted_new_objects(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["fleet"])
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.count("#change-tree pre") == 0
    left_out = "11 objects; the arguments of 11 of them are not printed; see the page."
    assert browser.text("#change-status") == left_out


@pytest.mark.parametrize(
    ("name", "most"),
    [
        pytest.param("fleet", 4, marks=pytest.mark.of_domains("fleet")),
        ("nexus-document-from-nothing", 7),
        ("evacuated", 5),
    ],
)
def test_page_prints_on_few_sheets(
    name: str, most: int, browser: Browser, pages: dict[str, Path]
) -> None:
    open_page(browser, pages[name])
    assert 1 <= browser.sheets() <= most


def test_empty_column_is_omitted(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["nexus-document-from-nothing"])
    heads = browser.text("#vm-list thead")
    assert "Before" not in heads
    assert "After" in heads


def test_search_finds_vms_and_changes(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["nexus-document"])
    browser.type("#vm-search", "rack7-bm0")
    browser.wait_for("document.querySelector('#vm-status').innerText !== '53 VMs.'")
    rows = browser.run(
        "return [...document.querySelectorAll('#vm-list tbody tr')].map(r => r.innerText)"
    )
    assert rows
    assert all("rack7-bm0" in row for row in rows)
    browser.click("#changes summary")
    assert browser.text("#change-status") == "1 object."
    browser.click("#change-tree input[type=checkbox]")
    assert browser.text("#change-status") == "13 objects."
    browser.type("#change-search", "cluster.d")
    browser.wait_for("document.querySelector('#change-status').innerText === '1 object.'")
    browser.click("#change-tree details details summary")
    browser.wait_for("document.querySelector('#change-tree pre')")
    assert '+ vm_sku_name        = "NC_P46_224_v1"' in browser.text("#change-tree pre")
    assert browser.count("#change-tree pre .added") > 10
    browser.type("#change-search", " nowhere")
    browser.wait_for("document.querySelector('#change-status').innerText === 'Nothing found.'")


@pytest.mark.of_domains("fleet")
def test_manifest_dash_is_no_diff_sign(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["end-to-end"])
    browser.click("#changes summary")
    browser.run(
        "document.querySelectorAll('#change-tree details').forEach(d => { d.open = true; })"
    )
    browser.wait_for("document.querySelector('#change-tree pre')")
    assert "- name: shop" in browser.run(
        "return document.getElementById('change-tree').textContent"
    )
    assert browser.count("#change-tree pre .removed") == 0
    assert browser.count("#change-tree pre .added") > 20


def test_light_and_dark_themes(browser: Browser, pages: dict[str, Path]) -> None:
    open_page(browser, pages["quickstart"])
    colour = "return getComputedStyle(document.body).backgroundColor"
    assert browser.run(colour) == "rgb(255, 255, 255)"
    browser.wear("dark")
    assert browser.run(colour) == "rgb(13, 17, 23)"
    browser.choose("#theme", "light")
    assert browser.run(colour) == "rgb(255, 255, 255)"
    browser.wear("light")
    browser.choose("#theme", "dark")
    assert browser.run(colour) == "rgb(13, 17, 23)"
    browser.choose("#theme", "auto")


@long_case
def test_large_plan_renders_only_visible_parts(browser: Browser, tmp_path: Path) -> None:
    real = plan_many_objects(tmp_path, 5000)
    page = tmp_path / "many.html"
    page.write_text(render_html(real.saved.plan, real.sources, REGISTRIES), encoding="utf-8")
    open_page(browser, page)
    assert (
        browser.text(".objects li:last-child")
        == "+\nnexus_rack.r[0..4999] r0..4999: 2 machines each, bom-1.7.3"
    )
    assert browser.count("#overview rect:not(.plate)") == 10_000
    assert browser.count(".machine") == 0
    browser.run("location.hash = 'rack=r4711'")
    browser.wait_for("document.querySelectorAll('.machine').length === 2")
    browser.click("#changes summary")
    assert browser.text("#change-status") == "5,001 objects."
    assert browser.count("#change-tree details") < 50
    assert browser.console() == []


CLUSTERS = """
variable "workers" { default = 1 }
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  name          = "r"
  machine_count = 8
}
resource "nexus_kubernetes_cluster" "c" {
  count      = 20
  site_id    = nexus_site.s.id
  name       = "c${count.index}"
  depends_on = [nexus_rack.r]
  control_plane {
    count       = 1
    vm_sku_name = "NC_G2_8_v1"
  }
  agent_pool "p" {
    count       = count.index == 7 ? var.workers : 1
    vm_sku_name = "NC_G2_8_v1"
  }
}
"""


TWO_SITES = """
variable "workers" { default = 2 }
resource "nexus_site" "site" {
  for_each = toset(["a", "b"])
  name     = each.key
}
resource "nexus_rack" "rack" {
  for_each      = nexus_site.site
  site_id       = each.value.id
  name          = "rack"
  machine_count = MACHINES
}
resource "nexus_kubernetes_cluster" "c" {
  for_each   = toset(SITES)
  site_id    = nexus_site.site[each.key].id
  name       = "c-${each.key}"
  depends_on = [nexus_rack.rack]
  control_plane {
    count       = 1
    vm_sku_name = "NC_G2_8_v1"
  }
  agent_pool "p" {
    count       = each.key == "a" ? var.workers : 2
    vm_sku_name = "NC_G2_8_v1"
  }
}
"""


@pytest.mark.parametrize("machines", ["8", "250"])
def test_page_opens_at_the_removal(browser: Browser, tmp_path: Path, machines: str) -> None:
    """The other site has more changes, but the removed VMs are on b."""
    before = TWO_SITES.replace("MACHINES", machines).replace("SITES", '["a", "b"]')
    after = before.replace('["a", "b"])\n  site_id', '["a"])\n  site_id').replace("= 2 }", "= 9 }")
    result = require_success(plan(after, state=build_state(before)))
    made = add_site_capacity(result, build_all_types()).plan
    page = tmp_path / "page.html"
    page.write_text(render_html(made, {}, build_all_types()), encoding="utf-8")
    open_page(browser, page)
    assert "VMs on b." in browser.text("#map-status")
    legend = browser.text(".legend")
    assert "removed" in legend
    # Marks that do not occur.
    absent = ("placed", "or moved", "chooses", "machine down", "likely")
    assert [mark for mark in absent if mark in legend] == []
    assert browser.count("#stage .machine, #stage .rack") > 0


def test_changed_clusters_stand_out_among_many(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(CLUSTERS)
    page = tmp_path / "clusters.html"
    new = plan_directory(tmp_path, "-samples=0")
    page.write_text(render_html(new.saved.plan, new.sources, REGISTRIES), encoding="utf-8")
    open_page(browser, page)
    assert browser.text(".legend summary") == "20 clusters"
    assert "20 clusters: c0..19<" in render_svg(new.saved.plan)
    nexusform(tmp_path, "apply", "-auto-approve", "-samples=0")
    real = plan_directory(tmp_path, "-samples=0", "-var=workers=3")
    page.write_text(render_html(real.saved.plan, real.sources, REGISTRIES), encoding="utf-8")
    open_page(browser, page)
    picture = render_svg(real.saved.plan)
    assert ">c7 (4)<" in picture
    assert ">19 more clusters: c0..6,8..19<" in picture
    assert browser.text(".legend > li:first-child") == "c7\nc7 (2 \u2192 4)"
    assert browser.text(".legend summary") == "19 clusters that do not change"
    assert "new VMs in 1 of 20 clusters: c7" in browser.text(".decision")
    browser.click(".legend summary")
    browser.click(".legend .legend li:first-child button")
    assert browser.run("return document.querySelector('.legend details').open")
    assert browser.console() == []


LARGE = """
resource "nexus_site" "s" {}

resource "nexus_rack" "r" {
  count         = 625
  name          = "rack${count.index + 1}"
  site_id       = nexus_site.s.id
  machine_count = 16
}

resource "nexus_kubernetes_cluster" "c" {
  count   = 100
  name    = "cluster-${count.index + 1}"
  site_id = nexus_site.s.id

  control_plane {
    count       = 5
    vm_sku_name = "NC_G12_56_v1"
  }

  agent_pool "large" {
    count       = 75
    vm_sku_name = "NC_P46_224_v1"
  }

  agent_pool "small" {
    count       = 120
    vm_sku_name = "NC_G6_28_v1"
  }
}
"""


@long_case
def test_ten_thousand_machines_fit_three_screens_and_three_sheets(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "main.nf.hcl").write_text(LARGE)
    page = tmp_path / "large.html"
    nexusform(tmp_path, "plan", "-samples=0", f"-report=html:{page}")
    open_page(browser, page)
    assert browser.count("#overview rect:not(.plate)") == 10_000
    assert browser.run("return document.documentElement.scrollHeight") <= 3 * 900
    assert browser.text("#pools tbody tr:last-child").split() == [
        *("cluster-1..100", "small", "NC_G6_28_v1"),
        *("100", "x", "120", "120", "racks", "each", "1"),
    ]
    browser.click("input[name=layer][value=free]")
    assert browser.count("#overview .is-free") > 1000
    browser.choose("#filter-cluster", "cluster-7")
    assert 100 < browser.count("#overview .passing") <= 200
    browser.choose("#filter-cluster", "")
    assert browser.sheets() <= 3
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.text("#vms").endswith(
        "20,000 VMs are not printed: the table of pools counts them; "
        "the list on the page and a report (-report=csv:PATH) have each."
    )
    browser.run("dispatchEvent(new Event('afterprint'))")
    browser.run("location.hash = 'rack=rack471'")
    browser.wait_for("document.querySelectorAll('.machine').length === 16")
    assert browser.count("button.vm") > 0
    assert browser.console() == []


def test_page_can_be_redrawn_with_other_data(
    browser: Browser, pages: dict[str, Path], examples: Mapping[str, RealPlan]
) -> None:
    open_page(browser, pages["repaired"])
    browser.click("button.vm")
    real = examples["nexus-document"]
    content = build_page_content(real.saved.plan, real.sources, REGISTRIES)
    for _ in range(2):
        browser.run("replace(arguments[0], arguments[1])", str(content.main), content.data)
        browser.wait_for("document.querySelectorAll('button.vm').length === 178")
        assert browser.text("#vm-status") == "53 VMs."
        assert browser.run("return document.getElementById('detail').hidden")
    browser.choose("#filter-pool", "pool1")
    assert browser.text("#vm-status") == "24 VMs, filtered as in the rack map."
    assert browser.console() == []


@pytest.mark.skipif(AXE is None, reason=AXE_MISSING)
@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    select_cases(
        [
            ("nexus-document", "light", 1280),
            ("nexus-document", "dark", 390),
            ("inventory", "dark", 1280),
            ("inventory", "light", 390),
            ("repaired", "light", 390),
            ("end-to-end", "dark", 1280),
        ]
    ),
)
def test_axe_finds_no_serious_violation(
    name: str, scheme: str, width: int, browser: Browser, pages: dict[str, Path]
) -> None:
    open_page(browser, pages[name], width)
    browser.wear(scheme)
    browser.run("document.getElementById('racks').scrollIntoView()")
    browser.wait_for("document.querySelector('button.vm, #overview')")
    # A phone shows the racks of a large site first, and then one of them.
    if browser.count("#overview"):
        assert browser.violations() == []
        browser.run("location.hash = document.querySelector('#overview a').getAttribute('href')")
        browser.wait_for("document.querySelector('button.vm')")
    browser.click("button.vm")
    browser.run(
        "document.querySelectorAll('#change-tree details').forEach(d => { d.open = true; })"
    )
    assert browser.violations() == []
