"""Policy snapshots: which edits of a policy count as a change.

The hash is that of the policy's JSON without the number of clusters, as KubeFleet takes it: anything
else, an added toleration or another order, makes a new snapshot; only the latest is compared.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from nexusform.domains.fleet.scheduling.bindings import ClusterTerm, Policy, PolicySnapshot
from nexusform.kubernetes.matching import LabelSelector


def next_snapshot(previous: PolicySnapshot | None, policy: Policy | None) -> PolicySnapshot:
    """The snapshot that belongs to a policy: the previous one while the hash stays, else the next."""
    digest = policy_hash(policy)
    number = policy.number_of_clusters if policy else None
    if previous is None:
        return PolicySnapshot(0, digest, number)
    return PolicySnapshot(previous.index + (previous.hash != digest), digest, number)


def policy_hash(policy: Policy | None) -> str:
    """sha256 (hex) of the policy's JSON; no policy is `null`, and so differs from an explicit PickAll."""
    text = json.dumps(_policy(policy) if policy else None, separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&":  # Go escapes what HTML minds
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return sha256(text.encode()).hexdigest()


def policy_document(policy: Policy) -> dict[str, Any]:
    """The policy as the API writes it, without what is empty."""
    document = _policy(policy)
    if policy.number_of_clusters is not None:
        document["numberOfClusters"] = policy.number_of_clusters
    return document


def selector_document(selector: LabelSelector) -> dict[str, Any]:
    """A label selector as the API writes it."""
    return _selector(selector)


def _policy(policy: Policy) -> dict[str, Any]:
    """The policy as the API writes it, without its number of clusters."""
    required = None
    if policy.required is not None:
        required = {"clusterSelectorTerms": [_term(term) for term in policy.required]}
    preferred = [{"weight": term.weight, "preference": _term(term.preference)} for term in policy.preferred]
    affinity = _without_empty(
        requiredDuringSchedulingIgnoredDuringExecution=required,
        preferredDuringSchedulingIgnoredDuringExecution=preferred,
    )
    return _without_empty(
        placementType=str(policy.placement_type),
        clusterNames=list(policy.cluster_names),
        affinity={"clusterAffinity": affinity} if affinity else None,
        topologySpreadConstraints=[
            {"maxSkew": c.max_skew, "topologyKey": c.topology_key, "whenUnsatisfiable": c.when_unsatisfiable}
            for c in policy.spread
        ],
        tolerations=[
            _without_empty(key=t.key, operator=t.operator, value=t.value, effect=t.effect)
            for t in policy.tolerations
        ],
    )


def _term(term: ClusterTerm) -> dict[str, Any]:
    """A term as a KubeFleet manifest has it."""
    document: dict[str, Any] = {}
    if term.label_selector is not None:
        document["labelSelector"] = _selector(term.label_selector)
    if term.property_selector is not None:
        document["propertySelector"] = {
            "matchExpressions": [
                {"name": r.name, "operator": r.operator, "values": list(r.values)}
                for r in term.property_selector
            ]
        }
    if term.property_sorter is not None:
        sorter = term.property_sorter
        document["propertySorter"] = {"name": sorter.name, "sortOrder": sorter.sort_order}
    return document


def _selector(selector: LabelSelector) -> dict[str, Any]:
    """A label selector as a manifest has it."""
    return _without_empty(
        matchLabels=dict(selector.match_labels),
        matchExpressions=[
            _without_empty(key=r.key, operator=r.operator, values=list(r.values))
            for r in selector.match_expressions
        ],
    )


def _without_empty(**fields: Any) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}
