"""Random fleets with edits of `simulate fleet`, and the configuration that states the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from nexusform.domains.whatif.questions.fleet_edits import (
    MemberEditKind,
    build_plan_edits,
    parse_member_edits,
)
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import AddedBlocks
from nexusform.planning.hypothesis.hypothetical_plan import plan_hypothesis
from nexusform.planning.planner import make_plan
from tests.domains.fleet.planning.fleet_harness import build_hub, build_pick_n, build_placement
from tests.planning.harness import build_request, build_state_after

_NODE_COUNT = "kubernetes-fleet.io/node-count"
_CORDON = "cordon-key"
_SELECTOR = """
      affinity {
        cluster_affinity {
          required_during_scheduling_ignored_during_execution {
            cluster_selector_term {
              label_selector {
                match_labels = { ring = "RING" }
              }
            }
          }
        }
      }
"""


class RandomMember(Struct):
    """Member of a random fleet."""

    labels: dict[str, str]
    properties: dict[str, str] = field(default_factory=dict)
    taints: dict[str, str] = field(default_factory=dict)
    health: str = ""

    def render(self, name: str) -> str:
        """Return its block."""
        taints = "".join(
            f'  taint {{\n    key = "{key}"\n    value = "{value}"\n'
            '    effect = "NoSchedule"\n  }\n'
            for key, value in self.taints.items()
        )
        health = f'  health = "{self.health}"\n' if self.health else ""
        return (
            f'resource "fleet_member_cluster" "{name}" {{\n  labels = {json.dumps(self.labels)}\n'
            f"  properties = {json.dumps(self.properties)}\n{taints}{health}}}\n"
        )


Fleet = dict[str, RandomMember]
# Changes the fleet, and returns the text of the flag that means the same.
_Draw = Callable[[random.Random, Fleet], str]


def _draw_leave(draw: random.Random, fleet: Fleet) -> str:
    name = draw.choice(sorted(fleet))
    del fleet[name]
    return name


def _draw_drain(draw: random.Random, fleet: Fleet) -> str:
    name = draw.choice(sorted(fleet))
    fleet[name].taints[_CORDON] = "cordon-value"
    return name


def _draw_join(draw: random.Random, fleet: Fleet) -> str:
    labels = {"kubernetes-fleet.io/cluster": "new"}
    if draw.random() < 0.5:
        fleet["new"] = RandomMember({"fleet.azure.com/member": "new"})
        return "new"
    template = draw.choice(sorted(fleet))
    copied = fleet[template]
    fleet["new"] = RandomMember(
        {**copied.labels, **labels}, dict(copied.properties), dict(copied.taints)
    )
    return f"new={template}"


def _draw_label(draw: random.Random, fleet: Fleet) -> str:
    name = draw.choice(sorted(fleet))
    if draw.random() < 0.3:
        del fleet[name].labels["ring"]
        return f"{name}:ring-"
    ring = draw.choice("123")
    fleet[name].labels["ring"] = ring
    return f"{name}:ring={ring}"


def _draw_taint(draw: random.Random, fleet: Fleet) -> str:
    name = draw.choice(sorted(fleet))
    if "busy" in fleet[name].taints:
        del fleet[name].taints["busy"]
        return f"{name}:busy-"
    fleet[name].taints["busy"] = "yes"
    return f"{name}:busy=yes"


def _draw_property(draw: random.Random, fleet: Fleet) -> str:
    name = draw.choice(sorted(fleet))
    count = str(draw.randint(1, 9))
    fleet[name].properties[_NODE_COUNT] = count
    return f"{name}:{_NODE_COUNT}={count}"


def _draw_health(draw: random.Random, fleet: Fleet) -> str:
    name = draw.choice(sorted(fleet))
    fleet[name].health = draw.choice(["Healthy", "Unhealthy", "NoHeartbeat"])
    return f"{name}:{fleet[name].health}"


MEMBER_EDITS: Mapping[MemberEditKind, _Draw] = {
    MemberEditKind.LEAVE: _draw_leave,
    MemberEditKind.DRAIN: _draw_drain,
    MemberEditKind.JOIN: _draw_join,
    MemberEditKind.TAINT: _draw_taint,
    MemberEditKind.LABEL: _draw_label,
    MemberEditKind.PROPERTY: _draw_property,
    MemberEditKind.HEALTH: _draw_health,
}


def find_fleet_difference(seed: int) -> str:
    """Return the clusters of placements that differ: with an edit, and as written; "" if equal."""
    draw = random.Random(seed)
    fleet = {
        f"c{number}": RandomMember(
            {"ring": draw.choice("123")},
            {_NODE_COUNT: str(draw.randint(1, 9))},
            {"busy": "yes"} if draw.random() < 0.2 else {},
        )
        for number in range(draw.randint(2, 6))
    }
    placements = _draw_placements(draw)
    text = _render(fleet, placements)
    state = build_state_after(make_plan(build_request(text)))
    kind = list(MEMBER_EDITS)[seed % len(MEMBER_EDITS)]
    flag = MEMBER_EDITS[kind](draw, fleet)
    request = build_request(text, state)
    before = make_plan(request)
    changes = build_plan_edits(before.plan, parse_member_edits({kind: [flag]}))
    added = AddedBlocks(build_request(text + changes.blocks).configuration)
    edited = plan_hypothesis(request, [added, *changes.edits]).after
    written = make_plan(build_request(_render(fleet, placements), state))
    clusters, written_clusters = _list_clusters(edited), _list_clusters(written)
    if clusters == written_clusters:
        return ""
    return f"-{kind}={flag}: {clusters}, written: {written_clusters}"


def _draw_placements(draw: random.Random) -> str:
    texts: list[str] = []
    for number in range(draw.randint(1, 3)):
        selector = _SELECTOR.replace("RING", draw.choice("123")) if draw.random() < 0.5 else ""
        policy = f'placement_type = "PickAll"\n{selector}'
        if draw.random() < 0.6:
            policy = build_pick_n(draw.randint(1, 3), selector)
        texts.append(build_placement(policy, name=f"p{number}"))
    return "".join(texts)


def _render(fleet: Fleet, placements: str) -> str:
    members = "".join(member.render(name) for name, member in fleet.items())
    return build_hub() + members + placements


def _list_clusters(result: PlanResult) -> dict[str, list[str]]:
    """Return the clusters of each placement after a plan."""
    return {
        str(change.address): sorted(change.after["bindings"])
        for change in result.plan.changes
        if change.address.type == "fleet_cluster_resource_placement" and change.after is not None
    }
