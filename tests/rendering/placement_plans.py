"""Plans with added, moved and removed VMs."""

from __future__ import annotations

from nexusform.diagnostics.diagnostic import Position, Span, build_warning
from nexusform.plans.plan import Action, PlacementAction, PlacementFigures, Plan, PlanStart
from nexusform.scheduling.placement_decision import PlacementCertainty, Rejection
from tests.rendering.pieces import (
    MAIN,
    D,
    _build_nodes,
    _build_place,
    _build_places,
    _build_pools,
    _build_tables,
    change,
    cluster_d,
    span_of,
    table,
    vm_row,
)


def added_cluster() -> Plan:
    rows = tuple(
        vm_row(
            name,
            PlacementAction.PLACE,
            "new",
            None,
            spot,
            certainty=PlacementCertainty(1.0, 0.25, 1.0),
            reason="fewest VMs of the pool",
            scores={"pool_vms": 0},
            rejections=(Rejection("rack1-bm01", "fits", "no cell left"),),
        )
        for name, spot in _build_places().items()
    )
    pinned = build_warning(
        "zones-pinned",
        (
            "So 6 machines will run two VMs of cluster-d. Without the pin all 53 VMs "
            "fit on 53 machines."
        ),
        span_of('availability_zones = ["7", "8"]'),
        block='resource "nexus_kubernetes_cluster" "d"',
        headline="zones-pinned: pool1 of cluster-d is pinned to racks 7 and 8",
    )
    source = Span(MAIN.name, Position(1, 1, 0), Position(8, 2, len(MAIN.text) - 1))
    return Plan(
        changes=(change(D, Action.CREATE, None, cluster_d(), source=source, block='resource "x"'),),
        placements=rows,
        figures=PlacementFigures(
            placement_tables=_build_tables(), unchanged_count=125, samples=100
        ),
        diagnostics=(pinned,),
        start=PlanStart(timestamp="2026-03-01T00:00:00Z", nexusform_version="0.1.0"),
    )


def changed_placements() -> Plan:
    spots = _build_places()
    names = list(spots)
    moved = names[7]
    after = dict(spots)
    after[moved] = _build_place(7, 14, 0)
    for gone in names[-3:]:
        del after[gone]
    rows = [
        vm_row(moved, PlacementAction.MOVE, "machine_evacuated", spots[moved], after[moved]),
        *(
            vm_row(gone, PlacementAction.REMOVE, "scale_in", spots[gone], None, chosen_by="Azure")
            for gone in names[-3:]
        ),
        vm_row(names[0], PlacementAction.KEEP, "", spots[names[0]], spots[names[0]]),
    ]
    before_attributes = cluster_d()
    pools = _build_pools()
    pools["pool2"] = pools["pool2"] | {"count": 21}
    after_attributes = cluster_d(nodes=_build_nodes(after), node_count=50, agent_pool=pools)
    per_rack = {f"rack{i}": 3 if i < 6 else 2 for i in range(1, 9)}
    return Plan(
        changes=(change(D, Action.UPDATE, before_attributes, after_attributes),),
        placements=tuple(rows),
        figures=PlacementFigures(
            placement_tables=(
                _build_tables()[1],
                table(
                    "pool2",
                    "NC_P22_112_v1",
                    21,
                    per_rack,
                    minimum_remaining_on_rack=1,
                    possible_vms_per_rack=dict.fromkeys(per_rack, (0, 3)),
                ),
            ),
            unchanged_count=174,
            samples=0,
        ),
    )
