from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.rendering.page import svg_map
from nexusform.rendering.page.map_legend import build_cluster_styles, render_cluster_legend
from nexusform.rendering.page.svg_map import NOTE, render_svg
from tests.planning.harness import (
    build_all_types,
    build_state,
    cluster,
    plan,
    pool,
    require_success,
)
from tests.rendering.real_plans import RealPlan, plan_many_objects
from tests.worlds.small_worlds import build_racks

SVG = "{http://www.w3.org/2000/svg}"
DRAWING = "nexusform.rendering.page.matrix_picture"


def render_and_parse(real: RealPlan) -> ET.Element:
    return ET.fromstring(render_svg(real.saved.plan))


def list_marked_rects(root: ET.Element, kind: str) -> list[ET.Element]:
    found = [r for r in root.iter(f"{SVG}rect") if kind in (r.get("class") or "").split()]
    # The legend has one box of each kind.
    return found[1:]


def test_document_site_is_drawn_before_and_after(examples: Mapping[str, RealPlan]) -> None:
    root = render_and_parse(examples["nexus-document"])
    texts = [t.text or "" for t in root.iter(f"{SVG}text")]
    assert texts.count("Before") == texts.count("After") == 1
    assert texts.count("rack1 \N{MIDDLE DOT} zone 1") == 2
    assert texts.count("16") == 16
    assert "cluster-d (53)" in texts
    # Two legend boxes, and two for each of 128 machines, before and after.
    assert (
        len([r for r in root.iter(f"{SVG}rect") if (r.get("class") or "").startswith("cell")])
        == 2 + 512
    )
    assert len(list_marked_rects(root, "placed")) == 53
    assert texts.count("+d") + texts.count("+") >= 53
    assert float(root.get("width") or 0) < 1300


def test_boxes_have_labels_only_if_they_fit(examples: Mapping[str, RealPlan]) -> None:
    """A letter needs 6 pixels, and the sides 4.

    A kept VM too narrow for the key of its cluster has no label.
    """
    fits = []
    for group in render_and_parse(examples["nexus-document"]).iter():
        for box, label in pairwise(group):
            if (box.get("class") or "").startswith("vm") and (label.get("class") or "").startswith(
                "key"
            ):
                assert label.text
                fits.append(float(box.get("width") or 0) + 2.5 >= 6 * len(label.text) + 4)
    assert fits
    assert all(fits)


def test_removed_machine_is_drawn_before_the_plan_only() -> None:
    state = build_state(build_racks(1, 2) + cluster("a"))
    removal = require_success(plan(build_racks(1, 1) + cluster("a", pools=pool("p", 1)), state))
    root = ET.fromstring(render_svg(add_site_capacity(removal, build_all_types()).plan))
    tips = [(title.text or "").partition(" ")[0] for title in root.iter(f"{SVG}title")]
    assert [tips.count(name) for name in ("r2-bm01", "r2-bm02")] == [2, 1]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 60])
def test_legend_of_clusters_is_as_high_as_its_lines(count: int) -> None:
    styles = list(build_cluster_styles([f"c{number}" for number in range(count)]).values())
    parts, height = render_cluster_legend(styles, {}, {"c7"}, width=460)
    root = ET.fromstring(f"<svg>{''.join(parts)}</svg>")
    tops = [float(element.get("y") or 0) for element in root]
    assert max(tops) < height <= max(tops) + 30, "the next legend starts below it"
    texts = [element.text or "" for element in root.iter("text")]
    assert ("c7 (0)" in texts) is (count > 7)
    assert any(text.startswith("59 more clusters: ") for text in texts) is (count == 60)


def test_map_has_descriptions_for_screen_readers(examples: Mapping[str, RealPlan]) -> None:
    root = render_and_parse(examples["repaired"])
    assert root.get("role") == "img"
    ids = (root.get("aria-labelledby") or "").split()
    by_id = {e.get("id"): e.text or "" for e in root.iter() if e.get("id")}
    assert by_id[ids[0]] == "Rack map of s"
    assert by_id[ids[1]] == (
        "Site s: 3 racks, 12 machines, 12 VMs of 1 cluster: 3 kept, 0 placed, 1 moved, 0 removed, "
        "8 may be removed."
    )
    tips = [t.text or "" for t in root.iter(f"{SVG}title")]
    assert any(
        tip.startswith("web-workers-8\n") and "may be removed (Azure picks" in tip for tip in tips
    )
    assert any("moves (machine_evacuated): r1 / r1-bm01 / cell 0 to" in tip for tip in tips)
    assert any("takes no new VM: being evacuated" in tip for tip in tips)


def test_most_common_change_has_no_mark(examples: Mapping[str, RealPlan]) -> None:
    root = ET.fromstring(render_svg(examples["nexus-document-from-nothing"].saved.plan))
    assert list_marked_rects(root, "placed") == []
    assert "no sign: placed" in "".join(root.itertext())


def test_marks_are_drawn_at_origin_and_target_of_a_vm(examples: Mapping[str, RealPlan]) -> None:
    root = render_and_parse(examples["repaired"])
    assert len(list_marked_rects(root, "moved")) == 2
    # Azure picks the VM to remove: each of the 8 VMs of the pool, before and after the plan.
    assert list_marked_rects(root, "removed") == []
    assert len(list_marked_rects(root, "choice")) == 16


def test_map_has_no_external_references(examples: Mapping[str, RealPlan]) -> None:
    text = render_svg(examples["nexus-document"].saved.plan)
    links = set(re.findall(r"https?://[^\"' <]+", text))
    assert links == {"http://www.w3.org/2000/svg"}
    assert "<script" not in text
    assert text == render_svg(examples["nexus-document"].saved.plan)


def test_names_are_escaped(examples: Mapping[str, RealPlan]) -> None:
    plan = examples["repaired"].saved.plan
    nasty = '"><script>alert(1)</script>'
    changes = tuple(
        replace(c, before={**c.before, "name": nasty}, after={**c.after, "name": nasty})
        if c.before and c.after and c.address.type == "nexus_kubernetes_cluster"
        else c
        for c in plan.changes
    )
    text = render_svg(replace(plan, changes=changes))
    assert "<script" not in text
    ET.fromstring(text)


def test_large_site_is_condensed(tmp_path: Path) -> None:
    real = plan_many_objects(tmp_path, 600)
    text = render_svg(real.saved.plan)
    root = ET.fromstring(text)
    assert len([r for r in root.iter(f"{SVG}rect") if r.get("class") == "cell"]) == 1 + 2400
    assert len(text) < 700_000


def test_oversized_map_is_drawn_by_rack(
    examples: Mapping[str, RealPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = render_svg(examples["repaired"].saved.plan)
    monkeypatch.setattr(svg_map, "MAX_BYTES", len(whole) - 1)
    root = render_and_parse(examples["repaired"])
    texts = [t.text or "" for t in root.iter(f"{SVG}text")]
    assert "Site s, after the plan" in texts
    assert NOTE in texts
    assert {"r1", "r2", "r3"} <= set(texts)
    tips = sorted(t.text or "" for t in root.iter(f"{SVG}title"))
    assert tips[1:] == [
        "r1: 4 machines, 4 VMs\n1 moved from or to it, 2 may be removed",
        "r2: 4 machines, 4 VMs\n3 may be removed",
        "r3: 4 machines, 4 VMs\n3 may be removed",
    ]
    assert len(list_marked_rects(root, "choice")) == 3
    by_id = {e.get("id"): e.text or "" for e in root.iter() if e.get("id")}
    assert by_id["map-desc"].endswith(NOTE)


def test_condensed_map_of_failed_plan_shows_current_placement(
    examples: Mapping[str, RealPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(svg_map, "MAX_BYTES", 1)
    root = ET.fromstring(render_svg(replace(examples["nexus-document"].saved.plan, errored=True)))
    assert "Site lab, current placement" in [t.text for t in root.iter(f"{SVG}text")]
    assert not any(list_marked_rects(root, kind) for kind in ("placed", "moved", "removed"))


def test_omitted_racks_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svg_map, "MAX_BYTES", 1)
    monkeypatch.setattr(svg_map, "MAX_RACKS", 30)
    root = ET.fromstring(render_svg(plan_many_objects(tmp_path, 40).saved.plan))
    assert len([r for r in root.iter(f"{SVG}rect") if r.get("class") == "cell"]) == 1 + 30
    assert any(
        (t.text or "").endswith("10 more racks of this site omitted.")
        for t in root.iter(f"{SVG}text")
    )


def test_plan_without_a_site() -> None:
    root = ET.fromstring(render_svg(Plan()))
    assert "The plan has no site." in [t.text for t in root.iter(f"{SVG}text")]


@pytest.mark.of_domains("fleet")
def test_plan_without_a_site_shows_its_fleet(examples: Mapping[str, RealPlan]) -> None:
    root = render_and_parse(examples["fleet"])
    texts = [t.text or "" for t in root.iter(f"{SVG}text")]
    assert "fleet_cluster_resource_placement.most_cpu" in texts
    assert {"bravelion", "cluster1", "smartfish"} <= set(texts)
    assert texts.count("+ Bound") == 8
    assert "affinity 100, spread 0" in texts
    by_id = {e.get("id"): e.text or "" for e in root.iter() if e.get("id")}
    assert by_id["map-desc"] == "3 placements, 6 clusters, 8 bindings."
    assert (
        len(
            [t for t in root.iter(f"{SVG}title") if "picked by scheduling policy" in (t.text or "")]
        )
        == 8
    )


@pytest.mark.of_domains("fleet")
def test_oversized_fleet_lists_changed_placements_first(
    examples: Mapping[str, RealPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = examples["fleet"].saved.plan
    kept = tuple(
        replace(row, action=PlacementAction.KEEP)
        if not str(row.address).endswith("most_cpu")
        else row
        for row in plan.placements
    )
    monkeypatch.setattr(f"{DRAWING}.MAX_BYTES", 2500)
    monkeypatch.setattr(f"{DRAWING}._FRAME_BYTES", 0)
    text = render_svg(replace(plan, placements=kept))
    drawn_lines = re.findall(r">(fleet_cluster_resource_placement\.\w+)<", text)
    assert drawn_lines == ["fleet_cluster_resource_placement.most_cpu"]
    assert "1 of 3 placements are shown, changed ones first" in text


def test_failed_plan_shows_current_placement(examples: Mapping[str, RealPlan]) -> None:
    refused = replace(examples["nexus-document"].saved.plan, errored=True)
    root = ET.fromstring(render_svg(refused))
    texts = [t.text or "" for t in root.iter(f"{SVG}text")]
    assert texts.count("Current placement") == 1
    assert "Blocked by an error. No changes were made" in texts
    assert "After" not in texts
    assert not any(list_marked_rects(root, kind) for kind in ("placed", "moved", "removed"))
    nothing = ET.fromstring(
        render_svg(replace(refused, site_records=replace(refused.site_records, sites=())))
    )
    assert "The site has no VMs." in [t.text for t in nothing.iter(f"{SVG}text")]
