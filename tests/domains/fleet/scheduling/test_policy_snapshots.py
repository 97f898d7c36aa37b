"""Tests of policy edits with and without a new snapshot."""

from __future__ import annotations

from hashlib import sha256

from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import Policy, TopologySpreadConstraint
from nexusform.domains.fleet.scheduling.policy_snapshots import (
    build_next_snapshot,
    compute_policy_hash,
)
from nexusform.kubernetes.matching import Toleration
from tests.domains.fleet.scheduling.samples import (
    ALL,
    NODES,
    build_labels_term,
    build_pick_n,
    build_property_term,
    build_sorter,
)

POLICY = build_pick_n(
    3,
    required_terms=(build_labels_term(env="prod"), build_property_term(NODES, "Ge", "5")),
    preferred_terms=(build_sorter(NODES, "Descending", 20),),
    spread_constraints=(TopologySpreadConstraint("region"),),
    tolerations=(Toleration("k", "Exists"),),
)


def test_number_of_clusters_keeps_the_snapshot() -> None:
    first = build_next_snapshot(None, POLICY)
    second = build_next_snapshot(first, replace(POLICY, number_of_clusters=5))
    assert (first.index, second.index) == (0, 0)
    assert (first.number_of_clusters, second.number_of_clusters) == (3, 5)


def test_other_edits_make_a_new_snapshot() -> None:
    edits = [
        replace(POLICY, tolerations=(*POLICY.tolerations, Toleration("l", "Exists"))),
        replace(POLICY, required_terms=tuple(reversed(POLICY.required_terms or ()))),
        replace(POLICY, spread_constraints=(TopologySpreadConstraint("region", 2),)),
        replace(POLICY, preferred_terms=(build_sorter(NODES, "Descending", 21),)),
        replace(POLICY, required_terms=None),
    ]
    assert len({compute_policy_hash(policy) for policy in (POLICY, *edits)}) == 6
    assert {
        build_next_snapshot(build_next_snapshot(None, POLICY), edit).index for edit in edits
    } == {1}


def test_reverted_policy_makes_a_third_snapshot() -> None:
    other = replace(POLICY, spread_constraints=())
    snapshots = [build_next_snapshot(None, POLICY)]
    for policy in (other, POLICY, POLICY):
        snapshots.append(build_next_snapshot(snapshots[-1], policy))
    assert [s.index for s in snapshots] == [0, 1, 2, 2]


def test_missing_policy_differs_from_explicit_pick_all() -> None:
    assert compute_policy_hash(None) == sha256(b"null").hexdigest()
    assert compute_policy_hash(Policy(ALL)) == sha256(b'{"placementType":"PickAll"}').hexdigest()


def test_hash_is_computed_from_json_of_the_hub() -> None:
    text = (
        '{"placementType":"PickN","affinity":{"clusterAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":'
        '{"clusterSelectorTerms":[{"labelSelector":{"matchLabels":{"env":"prod"}}},{"propertySelector":'
        '{"matchExpressions":[{"name":"kubernetes-fleet.io/node-count","operator":"Ge","values":["5"]}]}}]},'
        '"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":20,"preference":{"propertySorter":'
        '{"name":"kubernetes-fleet.io/node-count","sortOrder":"Descending"}}}]}},"topologySpreadConstraints":'
        '[{"maxSkew":1,"topologyKey":"region","whenUnsatisfiable":"DoNotSchedule"}],'
        '"tolerations":[{"key":"k","operator":"Exists"}]}'
    )
    assert compute_policy_hash(POLICY) == sha256(text.encode()).hexdigest()
