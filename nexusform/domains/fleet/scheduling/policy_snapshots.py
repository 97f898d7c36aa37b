"""Policy snapshots: detection of policy changes.

The hash covers the policy's JSON without the number of clusters, like KubeFleet's: any other edit,
an added toleration or another order, creates a new snapshot; only the latest is compared.
"""

import json
from hashlib import sha256
from typing import Any, Final

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
from nexusform.json_data.record_forms import RecordForm
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
            map(_PREFERRED, policy.preferred_terms)
        ),
    )
    return _omit_empty(
        placementType=str(policy.placement_type),
        clusterNames=list(policy.cluster_names),
        affinity={"clusterAffinity": affinity} if affinity else None,
        topologySpreadConstraints=list(map(_SPREAD_CONSTRAINT, policy.spread_constraints)),
        # _TOLERATION and the like convert records.
        tolerations=list(map(_TOLERATION, policy.tolerations)),
    )


def _build_term(term: ClusterSelectorTerm) -> dict[str, Any]:
    """Return a term as in a KubeFleet manifest.

    _PROPERTY and _SORTER convert records.
    """
    document: dict[str, Any] = {}
    if term.label_selector is not None:
        document["labelSelector"] = build_selector_document(term.label_selector)
    if term.property_selector is not None:
        document["propertySelector"] = {
            "matchExpressions": list(map(_PROPERTY, term.property_selector))
        }
    if term.property_sorter is not None:
        document["propertySorter"] = _SORTER(term.property_sorter)
    return document


_PREFERRED: Final = RecordForm(PreferredTerm, "weight preference", preference=_build_term)
_SPREAD_CONSTRAINT: Final = RecordForm(
    TopologySpreadConstraint,
    "maxSkew=max_skew topologyKey=topology_key whenUnsatisfiable=when_unsatisfiable",
)
_TOLERATION: Final = RecordForm(Toleration, "[key] [operator] [value] [effect]")
_PROPERTY: Final = RecordForm(PropertyRequirement, "name operator values")
_SORTER: Final = RecordForm(PropertySorter, "name sortOrder=sort_order")
_LABEL_EXPRESSION: Final = RecordForm(Requirement, "[key] [operator] [values]")


def build_selector_document(selector: LabelSelector) -> dict[str, Any]:
    """Return a label selector as in the API, without empty fields.

    _LABEL_EXPRESSION converts a record.
    """
    return _omit_empty(
        matchLabels=dict(selector.match_labels),
        matchExpressions=list(map(_LABEL_EXPRESSION, selector.match_expressions)),
    )


def _omit_empty(**fields: Any) -> dict[str, Any]:
    """Return the fields with a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}
