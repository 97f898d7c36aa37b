"""Tests of the section of placements and clusters: picked and changed ones first.

All others are folded.
"""

from __future__ import annotations

from msgspec.structs import replace

from nexusform.domains.fleet.binding_kind import BINDING
from nexusform.domains.fleet.rendering.fleet_section import build_fleet_section
from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState
from nexusform.domains.pods.pod_kind import PodLocation
from nexusform.domains.pods.rendering.pod_section import build_pod_section
from nexusform.plans.plan import (
    PlacementAction,
    PlacementChange,
    Plan,
    RejectedCluster,
    WorkloadResults,
)
from nexusform.rendering.notation.markup import build_element
from nexusform.rendering.page.report_page import build_plan_section
from nexusform.rendering.page.svg_map import render_svg
from nexusform.rendering.report.report_tree import Table
from nexusform.resources.address import parse_address

WEB = parse_address("fleet_cluster_resource_placement.web")
API = parse_address("fleet_cluster_resource_placement.api")


def build_row(address: object, cluster: str, action: PlacementAction) -> PlacementChange:
    place = Binding(cluster, BindingState.BOUND, 0)
    source = None if action is PlacementAction.PLACE else place
    return PlacementChange(address, BINDING, cluster, action, source, place, "new")


def build_plan(clusters: int) -> Plan:
    """Return two placements: web stays on c10, api is created on c2; no other cluster is picked."""
    names = [f"c{number}" for number in range(clusters)]
    return Plan(
        placements=(
            build_row(WEB, "c10", PlacementAction.KEEP),
            build_row(API, "c2", PlacementAction.PLACE),
        ),
        workloads=WorkloadResults(
            rejected_clusters=tuple(
                RejectedCluster(WEB, name, "no label")
                for name in names
                if name not in ("c2", "c10")
            )
        ),
    )


def build_matrix(plan: Plan) -> Table:
    matrix = build_fleet_section(plan).all_tables[0]
    assert matrix.is_matrix
    return matrix


def test_picked_clusters_and_changed_placements_come_first() -> None:
    matrix = build_matrix(build_plan(12))
    assert [row.cells[0] for row in matrix.rows] == [str(API), str(WEB)]
    assert matrix.headers[1:4] == ("c2", "c10", "c0")
    assert len(matrix.headers) == 1 + 12
    assert build_fleet_section(build_plan(12)).groups == ()


def test_many_unpicked_clusters_are_folded() -> None:
    plan = build_plan(50)
    assert build_matrix(plan).headers == ("Placement", "c2", "c10")
    page = str(build_element("div", build_plan_section(build_fleet_section(plan))))
    assert "<summary>48 clusters not picked by any placement</summary>" in page
    # The reasons for unpicked clusters remain below.
    assert "no label" in page
    picture = render_svg(plan)
    assert "48 clusters not picked by any placement: not shown." in picture
    assert "2 placements, 2 clusters, 2 bindings" in picture


def test_changed_clusters_come_before_unchanged_ones() -> None:
    kept = [build_row(WEB, f"c{number}", PlacementAction.KEEP) for number in range(30)]
    matrix = build_matrix(Plan(placements=(*kept, build_row(WEB, "c9", PlacementAction.REMOVE))))
    assert matrix.headers[1:4] == ("c9", "c0", "c1")


def test_uncertain_bindings_and_pods_have_a_mark() -> None:
    doubt = {"certain": False, "depends_on": "members that are not reachable"}
    row = replace(build_row(API, "c2", PlacementAction.REMOVE), scores=doubt)
    pod = PlacementChange(
        API, "pod", "api-0", PlacementAction.PLACE, None, PodLocation("c2"), "new", scores=doubt
    )
    plan = Plan(placements=(row, pod))
    tables = build_fleet_section(plan).all_tables
    assert "uncertain" in str([table.rows for table in tables])
    (pods,) = build_pod_section(plan).all_tables
    assert pods.rows[0].cells[-1] == "new; uncertain"
