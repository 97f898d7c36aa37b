"""Policy snapshots: detection of policy changes.

The hash covers the policy's JSON without the number of clusters, like KubeFleet's: any other edit,
an added toleration or another order, creates a new snapshot; only the latest is compared.
"""

import json
from hashlib import sha256
from typing import Any

from nexusform.domains.fleet.scheduling.bindings import (
    ClusterSelectorTerm,
    Policy,
    PolicySnapshot,
    PreferredTerm,
    PropertyRequirement,
    PropertySorter,
    TopologySpreadConstraint,
)
from nexusform.json_data.plain_data import escape_html
from nexusform.kubernetes.matching import LabelSelector, Requirement, Toleration


def build_next_snapshot(previous: PolicySnapshot | None, policy: Policy | None) -> PolicySnapshot:
    """Return the current snapshot.

    With the previous index if the policy's hash is unchanged, else the next index.
    """
    digest = compute_policy_hash(policy)
    number = policy.number_of_clusters if policy else None
    if previous is None:
        return PolicySnapshot(0, digest, number)
    index = previous.index if previous.hash == digest else previous.index + 1
    return PolicySnapshot(index, digest, number)


def compute_policy_hash(policy: Policy | None) -> str:
    """Return the SHA-256 (hex) of the policy's JSON.

    No policy is `null`, different from an explicit PickAll.
    """
    text = json.dumps(
        _build_policy(policy) if policy else None, separators=(",", ":"), ensure_ascii=False
    )
    return sha256(escape_html(text).encode()).hexdigest()


def build_policy_document(policy: Policy) -> dict[str, Any]:
    """Return the policy as in the API, without empty fields."""
    document = _build_policy(policy)
    if policy.number_of_clusters is not None:
        document["numberOfClusters"] = policy.number_of_clusters
    return document


def _build_policy(policy: Policy) -> dict[str, Any]:
    """Return the policy as in the API, without empty fields, and without its number of clusters.

    That number is not part of the hash.
    """
    required = None
    if policy.required_terms is not None:
        required = {"clusterSelectorTerms": list(map(_build_term, policy.required_terms))}
    affinity = _omit_empty(
        requiredDuringSchedulingIgnoredDuringExecution=required,
        preferredDuringSchedulingIgnoredDuringExecution=list(
            map(_build_preferred_term, policy.preferred_terms)
        ),
    )
    return _omit_empty(
        placementType=str(policy.placement_type),
        clusterNames=list(policy.cluster_names),
        affinity={"clusterAffinity": affinity} if affinity else None,
        topologySpreadConstraints=list(map(_build_spread_constraint, policy.spread_constraints)),
        tolerations=list(map(_build_toleration, policy.tolerations)),
    )


def _build_term(term: ClusterSelectorTerm) -> dict[str, Any]:
    """Return a term as in a KubeFleet manifest."""
    document: dict[str, Any] = {}
    if term.label_selector is not None:
        document["labelSelector"] = build_selector_document(term.label_selector)
    if term.property_selector is not None:
        document["propertySelector"] = {
            "matchExpressions": list(map(_build_property_requirement, term.property_selector))
        }
    if term.property_sorter is not None:
        document["propertySorter"] = _build_property_sorter(term.property_sorter)
    return document


def _build_preferred_term(preferred: PreferredTerm) -> dict[str, Any]:
    """Build the JSON object of a preferred term."""
    return {"weight": preferred.weight, "preference": _build_term(preferred.preference)}


def _build_spread_constraint(constraint: TopologySpreadConstraint) -> dict[str, Any]:
    """Build the JSON object of a topology spread constraint."""
    return {
        "maxSkew": constraint.max_skew,
        "topologyKey": constraint.topology_key,
        "whenUnsatisfiable": constraint.when_unsatisfiable,
    }


def _build_toleration(toleration: Toleration) -> dict[str, Any]:
    """Build the JSON object of a toleration."""
    return _omit_empty(
        key=toleration.key,
        operator=toleration.operator,
        value=toleration.value,
        effect=toleration.effect,
    )


def _build_property_requirement(requirement: PropertyRequirement) -> dict[str, Any]:
    """Build the JSON object of a property requirement."""
    return {
        "name": requirement.name,
        "operator": requirement.operator,
        "values": list(requirement.values),
    }


def _build_property_sorter(sorter: PropertySorter) -> dict[str, Any]:
    """Build the JSON object of a property sorter."""
    return {"name": sorter.name, "sortOrder": sorter.sort_order}


def _build_label_expression(requirement: Requirement) -> dict[str, Any]:
    """Build the JSON object of a requirement on a label."""
    return _omit_empty(
        key=requirement.key, operator=requirement.operator, values=list(requirement.values)
    )


def build_selector_document(selector: LabelSelector) -> dict[str, Any]:
    """Return a label selector as in the API, without empty fields."""
    return _omit_empty(
        matchLabels=dict(selector.match_labels),
        matchExpressions=list(map(_build_label_expression, selector.match_expressions)),
    )


def _omit_empty(**fields: Any) -> dict[str, Any]:
    """Return the fields with a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}
