"""A plan of a fleet and of pods."""

from __future__ import annotations

from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState
from nexusform.domains.pods.pod_kind import PodLocation
from nexusform.plans.plan import Action, PlacementAction, PlacementChange, PlacementFigures, Plan
from tests.rendering.pieces import address, change


def fleet_and_pods() -> Plan:
    web = address("fleet_cluster_resource_placement", "web")
    rows = [
        PlacementChange(
            web,
            "binding",
            "east",
            PlacementAction.PLACE,
            None,
            Binding("east", BindingState.BOUND, 0),
            "number_of_clusters_increased",
            cluster="",
            pool="web",
        ),
        PlacementChange(
            web,
            "binding",
            "north",
            PlacementAction.KEEP,
            Binding("north", BindingState.BOUND, 0),
            Binding("north", BindingState.BOUND, 0),
            "taint_added",
            cluster="",
            pool="web",
        ),
        PlacementChange(
            web,
            "binding",
            "west",
            PlacementAction.UPDATE,
            Binding("west", BindingState.BOUND, 0),
            Binding("west", BindingState.BOUND, 0),
            "resources_changed",
            cluster="",
            pool="web",
        ),
    ]
    rows += [
        PlacementChange(
            web,
            "pod",
            f"nginx-{i}",
            PlacementAction.PLACE,
            None,
            PodLocation("east", f"east-np1-{i}", f"rack{1 + i % 2}-bm01", "1")
            if i < 3
            else PodLocation("east"),
            "new",
            cluster="east",
            pool="web/Deployment/nginx",
            number=i,
        )
        for i in range(4)
    ]
    before = {
        "id": "web",
        "name": "web",
        "bindings": {"west": {"state": "Bound"}, "north": {"state": "Bound"}},
    }
    after = before | {"bindings": before["bindings"] | {"east": {"state": "Bound"}}}
    return Plan(
        changes=(change(web, Action.UPDATE, before, after),),
        placements=tuple(rows),
        figures=PlacementFigures(unchanged_count=12),
    )
