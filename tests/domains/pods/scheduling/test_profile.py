"""The profile is what runs: every entry, dropped, changes where some pod may go or goes best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.domains.pods.scheduling.rules.volume_binding import NO_DEVICES, TOO_MANY
from nexusform.domains.pods.scheduling.volume_binder import build_node_volume_need
from nexusform.domains.pods.scheduling.workloads import (
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
from nexusform.kubernetes.matching import NodeSelectorTerm, Requirement, Taint, build_label_selector

GIB = 1 << 30
APP = (("app", "a"),)
ITSELF = build_label_selector({"app": "a"})
ON_N1 = Requirement("metadata.name", "In", ("n1",))
IN_Y = NodeSelectorTerm((Requirement(ZONE, "In", ("y",)),))


def node(name: str, zone: str, **more: Any) -> Node:
    return Node(name, {HOSTNAME: name, ZONE: zone}, cpu=4000, memory=4 * GIB, **more)


def asks(cpu: int = 0, memory: int = 0, **more: Any) -> PodSpec:
    return PodSpec(labels=APP, requests=Requests(cpu, memory), scored_requests=Requests(cpu, memory), **more)


def on_n0(spec: PodSpec) -> ExistingPod:
    return ExistingPod("default/Deployment/other", 0, "n0", spec)


TWO = (node("n0", "x"), node("n1", "y"))
OF_PODS: Final = [each.name for each in profile.POD_FILTERS]
SMALL = asks(100, GIB // 40)
# Per table and entry: nodes, pods that stand, and a pod that the entry keeps from n0.
Case = tuple[tuple[Node, ...], tuple[ExistingPod, ...], PodSpec]
CASES: Final[Mapping[tuple[str, str], Case]] = {
    ("NODE_FILTERS", "node_unschedulable"): ((node("n0", "x", unschedulable=True), TWO[1]), (), SMALL),
    ("NODE_FILTERS", "node_name"): (TWO, (), asks(node_name="n1")),
    ("NODE_FILTERS", "taints"): ((node("n0", "x", taints=(Taint("t", "", "NoSchedule"),)), TWO[1]), (), SMALL),
    ("NODE_FILTERS", "node_affinity"): (TWO, (), asks(node_selector=((ZONE, "y"),))),
    ("POD_FILTERS", "volumes_to_be"): (TWO, (), asks(missing_objects=("the claim is not there",))),
    ("NODE_FILTERS", "node_names"): (TWO, (), asks(node_terms=(NodeSelectorTerm(fields=(ON_N1,)),))),
    ("NODE_FILTERS", "volume_zones"): (
        TWO,
        (),
        asks(volumes=(VolumeNeed(None, is_bound=True, zones=(Requirement(ZONE, "In", ("y",)),)),)),
    ),
    ("NODE_FILTERS", "volume_limits"): (TWO, (), asks(volumes=(build_node_volume_need(["n1"], TOO_MANY),))),
    ("NODE_FILTERS", "devices"): (TWO, (), asks(volumes=(build_node_volume_need(["n1"], NO_DEVICES),))),
    ("NODE_FILTERS", "volumes"): (TWO, (), asks(volumes=(VolumeNeed((IN_Y,), is_bound=True),))),
    ("DOMAIN_FILTERS", "claims"): (
        TWO,
        (on_n0(asks(exclusive_claims=("default/one",))),),
        asks(exclusive_claims=("default/one",)),
    ),
    ("USAGE_FILTERS", "node_ports"): (
        TWO,
        (on_n0(asks(host_ports=(HostPort(80),))),),
        asks(host_ports=(HostPort(80),)),
    ),
    ("USAGE_FILTERS", "disks"): (TWO, (on_n0(asks(disks=(InlineVolume("d"),))),), asks(disks=(InlineVolume("d"),))),
    ("USAGE_FILTERS", "resources"): (TWO, (on_n0(asks(3000)),), asks(2000)),
    ("DOMAIN_FILTERS", "topology_spread"): (
        TWO,
        (on_n0(SMALL),),
        asks(spread=(SpreadConstraint(ZONE, 1, is_hard=True, selector=ITSELF),)),
    ),
    ("DOMAIN_FILTERS", "inter_pod_affinity"): (
        TWO,
        (on_n0(SMALL),),
        asks(anti_affinity=(PodTerm(HOSTNAME, ITSELF, ("default",)),)),
    ),
    ("USAGE_SCORES", "least_allocated"): (TWO, (on_n0(asks(1000, GIB)),), asks(1000, GIB)),
    ("USAGE_SCORES", "balanced_allocation"): (
        TWO,
        (on_n0(asks(2000)), ExistingPod("default/Deployment/other", 1, "n1", asks(1000, GIB))),
        asks(400, 4 * GIB // 10),
    ),
    ("NODE_SCORES", "taints"): ((node("n0", "x", taints=(Taint("t", "", "PreferNoSchedule"),)), TWO[1]), (), SMALL),
    ("NODE_SCORES", "node_affinity"): (TWO, (), asks(preferred_nodes=((10, IN_Y),))),
    ("NODE_SCORES", "image_locality"): (
        (node("n0", "x", images={}), node("n1", "y", images={"i:1": GIB})),
        (),
        asks(images=("i:1",)),
    ),
    ("DOMAIN_SCORES", "topology_spread"): (
        TWO,
        (on_n0(asks()),),
        asks(spread=(SpreadConstraint(ZONE, 1, is_hard=False, selector=ITSELF),)),
    ),
    ("DOMAIN_SCORES", "inter_pod_affinity"): (
        TWO,
        (on_n0(asks()),),
        asks(preferred_anti_affinity=(PodTerm(HOSTNAME, ITSELF, ("default",), None, 10),)),
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


def name_of(entry: Any) -> str:
    return entry[0] if isinstance(entry, tuple) else entry.name


def chosen(table: str, case: Case) -> set[str]:
    """For a filter the nodes that may take the pod, for a score those that share the highest total."""
    nodes, standing, spec = case
    verdicts = evaluate_nodes(Cluster("c", nodes), standing, spec)
    totals = {verdict.node: verdict.total for verdict in verdicts if verdict.total is not None}
    if table.endswith("FILTERS"):
        return set(totals)
    return {name for name, total in totals.items() if total == max(totals.values())}


# It decides what is said of a pod that no node takes, whatever else is asked.
SAID_ONLY = "node_terms"


def entries() -> Sequence[tuple[str, str]]:
    every = [(table, name_of(entry)) for table in TABLES for entry in getattr(profile, table)]
    return [(table, name) for table, name in every if name != SAID_ONLY]


@pytest.mark.parametrize(("table", "name"), entries())
def test_every_entry_decides_something(table: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[table, name]
    # A claim for one pod keeps others from every node, as does one that is not there.
    assert chosen(table, case) == (set() if name in ("claims", *OF_PODS) else {"n1"})
    left = tuple(entry for entry in getattr(profile, table) if name_of(entry) != name)
    monkeypatch.setattr(profile, table, left)
    assert "n0" in chosen(table, case)
