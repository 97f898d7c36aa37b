"""Tests of the scheduler profile.

Without any one of its entries, the feasible or best nodes of some pod change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.cluster_records import (
    HOSTNAME,
    ZONE,
    Cluster,
    ExistingPod,
    HostPort,
    InlineVolume,
    Node,
    PodSpec,
    PodTerm,
    Requests,
    SpreadConstraint,
    VolumeNeed,
)
from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.domains.pods.scheduling.rules.volume_binding import NO_DEVICES, TOO_MANY
from nexusform.domains.pods.scheduling.volume_binder import build_node_volume_need
from nexusform.kubernetes.matching import NodeSelectorTerm, Requirement, Taint, build_label_selector

GIB = 1 << 30
APP = (("app", "a"),)
ITSELF = build_label_selector({"app": "a"})
ON_N1 = Requirement("metadata.name", "In", ("n1",))
IN_Y = NodeSelectorTerm((Requirement(ZONE, "In", ("y",)),))


def build_node(name: str, zone: str, **more: Any) -> Node:
    return Node(name, {HOSTNAME: name, ZONE: zone}, cpu=4000, memory=4 * GIB, **more)


def build_spec(cpu: int = 0, memory: int = 0, **more: Any) -> PodSpec:
    return PodSpec(
        labels=APP, requests=Requests(cpu, memory), scored_requests=Requests(cpu, memory), **more
    )


def place_on_n0(spec: PodSpec) -> ExistingPod:
    return ExistingPod("default/Deployment/other", 0, "n0", spec)


TWO = (build_node("n0", "x"), build_node("n1", "y"))
OF_PODS: Final = [each.name for each in profile.POD_FILTERS]
SMALL = build_spec(100, GIB // 40)
# Per table and entry: nodes, existing pods, and a pod kept off n0 by the entry.
Case = tuple[tuple[Node, ...], tuple[ExistingPod, ...], PodSpec]
CASES: Final[Mapping[tuple[str, str], Case]] = {
    ("NODE_FILTERS", "node_unschedulable"): (
        (build_node("n0", "x", unschedulable=True), TWO[1]),
        (),
        SMALL,
    ),
    ("NODE_FILTERS", "node_name"): (TWO, (), build_spec(node_name="n1")),
    ("NODE_FILTERS", "taints"): (
        (build_node("n0", "x", taints=(Taint("t", "", "NoSchedule"),)), TWO[1]),
        (),
        SMALL,
    ),
    ("NODE_FILTERS", "node_affinity"): (TWO, (), build_spec(node_selector=((ZONE, "y"),))),
    ("POD_FILTERS", "volumes_to_be"): (
        TWO,
        (),
        build_spec(missing_objects=("the claim is not there",)),
    ),
    ("NODE_FILTERS", "node_names"): (
        TWO,
        (),
        build_spec(node_terms=(NodeSelectorTerm(fields=(ON_N1,)),)),
    ),
    ("NODE_FILTERS", "volume_zones"): (
        TWO,
        (),
        build_spec(
            volumes=(VolumeNeed(None, is_bound=True, zones=(Requirement(ZONE, "In", ("y",)),)),)
        ),
    ),
    ("NODE_FILTERS", "volume_limits"): (
        TWO,
        (),
        build_spec(volumes=(build_node_volume_need(["n1"], TOO_MANY),)),
    ),
    ("NODE_FILTERS", "declared_features"): (
        (build_node("n0", "x", declared_features=()), TWO[1]),
        (),
        build_spec(required_features=("f",)),
    ),
    ("NODE_FILTERS", "devices"): (
        TWO,
        (),
        build_spec(volumes=(build_node_volume_need(["n1"], NO_DEVICES),)),
    ),
    ("NODE_FILTERS", "volumes"): (
        TWO,
        (),
        build_spec(volumes=(VolumeNeed((IN_Y,), is_bound=True),)),
    ),
    ("DOMAIN_FILTERS", "claims"): (
        TWO,
        (place_on_n0(build_spec(exclusive_claims=("default/one",))),),
        build_spec(exclusive_claims=("default/one",)),
    ),
    ("USAGE_FILTERS", "node_ports"): (
        TWO,
        (place_on_n0(build_spec(host_ports=(HostPort(80),))),),
        build_spec(host_ports=(HostPort(80),)),
    ),
    ("USAGE_FILTERS", "disks"): (
        TWO,
        (place_on_n0(build_spec(disks=(InlineVolume("d"),))),),
        build_spec(disks=(InlineVolume("d"),)),
    ),
    ("USAGE_FILTERS", "resources"): (TWO, (place_on_n0(build_spec(3000)),), build_spec(2000)),
    ("DOMAIN_FILTERS", "topology_spread"): (
        TWO,
        (place_on_n0(SMALL),),
        build_spec(spread=(SpreadConstraint(ZONE, 1, is_hard=True, selector=ITSELF),)),
    ),
    ("DOMAIN_FILTERS", "inter_pod_affinity"): (
        TWO,
        (place_on_n0(SMALL),),
        build_spec(anti_affinity=(PodTerm(HOSTNAME, ITSELF, ("default",)),)),
    ),
    ("USAGE_SCORES", "least_allocated"): (
        TWO,
        (place_on_n0(build_spec(1000, GIB)),),
        build_spec(1000, GIB),
    ),
    ("USAGE_SCORES", "balanced_allocation"): (
        TWO,
        (
            place_on_n0(build_spec(2000)),
            ExistingPod("default/Deployment/other", 1, "n1", build_spec(1000, GIB)),
        ),
        build_spec(400, 4 * GIB // 10),
    ),
    ("NODE_SCORES", "taints"): (
        (build_node("n0", "x", taints=(Taint("t", "", "PreferNoSchedule"),)), TWO[1]),
        (),
        SMALL,
    ),
    ("NODE_SCORES", "node_affinity"): (TWO, (), build_spec(preferred_nodes=((10, IN_Y),))),
    ("NODE_SCORES", "image_locality"): (
        (build_node("n0", "x", images={}), build_node("n1", "y", images={"i:1": GIB})),
        (),
        build_spec(images=("i:1",)),
    ),
    ("NODE_SCORES", "volume_binding"): (
        TWO,
        (),
        build_spec(
            volumes=(VolumeNeed(None, is_bound=False, points=(("n1", 9),)),), scores_storage=True
        ),
    ),
    ("DOMAIN_SCORES", "topology_spread"): (
        TWO,
        (place_on_n0(build_spec()),),
        build_spec(spread=(SpreadConstraint(ZONE, 1, is_hard=False, selector=ITSELF),)),
    ),
    ("DOMAIN_SCORES", "inter_pod_affinity"): (
        TWO,
        (place_on_n0(build_spec()),),
        build_spec(preferred_anti_affinity=(PodTerm(HOSTNAME, ITSELF, ("default",), None, 10),)),
    ),
}
TABLES = (
    "POD_FILTERS",
    "NODE_FILTERS",
    "USAGE_FILTERS",
    "DOMAIN_FILTERS",
    "USAGE_SCORES",
    "NODE_SCORES",
    "DOMAIN_SCORES",
)


def get_entry_name(entry: Any) -> str:
    return entry[0] if isinstance(entry, tuple) else entry.name


def choose_nodes(table: str, case: Case) -> set[str]:
    """Return the feasible nodes for a filter, or the nodes with the highest total for a score."""
    nodes, standing, spec = case
    verdicts = evaluate_nodes(Cluster("c", nodes), standing, spec)
    totals = {verdict.node: verdict.total for verdict in verdicts if verdict.total is not None}
    if table.endswith("FILTERS"):
        return set(totals)
    return {name for name, total in totals.items() if total == max(totals.values())}


# It only determines the message for a pod without a feasible node.
SAID_ONLY = "node_terms"


def list_entries() -> Sequence[tuple[str, str]]:
    every = [
        (table, get_entry_name(entry)) for table in TABLES for entry in getattr(profile, table)
    ]
    return [(table, name) for table, name in every if name != SAID_ONLY]


@pytest.mark.parametrize(("table", "name"), list_entries())
def test_every_entry_changes_a_decision(
    table: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[table, name]
    # A claim in use by another pod excludes every node, as does a missing claim.
    assert choose_nodes(table, case) == (set() if name in ("claims", *OF_PODS) else {"n1"})
    left = tuple(entry for entry in getattr(profile, table) if get_entry_name(entry) != name)
    monkeypatch.setattr(profile, table, left)
    assert "n0" in choose_nodes(table, case)
