"""Policies of observed placements, compared with the hashes that the hub computed of them."""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.documents.object_schemas import build_unread_fact
from nexusform.documents.scalars import parse_integer
from nexusform.domains.fleet.importers.fleet_export import ObservedPlacement
from nexusform.domains.fleet.importers.fleet_records import FleetPlacement
from nexusform.domains.fleet.scheduling.bindings import Policy
from nexusform.domains.fleet.scheduling.policy_snapshots import compute_policy_hash
from nexusform.domains.fleet.types.fleet_placements import (
    FLEET_CLUSTER_RESOURCE_PLACEMENT,
    FLEET_RESOURCE_PLACEMENT,
)
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.doubts.doubt import Doubt
from nexusform.json_data.plain_data import get_text, get_value_at_path

PLACEMENT_TYPES: Final = {
    "ClusterResourcePlacement": FLEET_CLUSTER_RESOURCE_PLACEMENT,
    "ResourcePlacement": FLEET_RESOURCE_PLACEMENT,
}
_GENERATION: Final = "kubernetes-fleet.io/CRP-generation"


def read_last_policy(placement: ObservedPlacement) -> Policy | None:
    """Return the policy of the last picks.

    It is that of the latest captured policy snapshot, else the placement's current one.
    """
    body = placement.manifest.body
    if placement.policy_index is None:
        return _parse_policy(placement, body)
    # The policy of a snapshot, None for none, replaces that of the body.
    spec = {name: value for name, value in body.get("spec", {}).items() if name != "policy"}
    if placement.policy is not None:
        # An annotation of the snapshot, not part of its policy.
        number = placement.number_of_clusters
        spec["policy"] = {
            **placement.policy,
            **({} if number is None else {"numberOfClusters": number}),
        }
    return _parse_policy(placement, {**body, "spec": spec})


def _parse_policy(placement: ObservedPlacement, body: Mapping[str, Any]) -> Policy | None:
    """Parse the policy in the body of a placement; None without one."""
    resource_type = PLACEMENT_TYPES[placement.manifest.kind]
    names = {"name": placement.manifest.name, "namespace": placement.manifest.namespace}
    configuration = resource_type.build_fleet_object({**names, "manifest": json.dumps(body)})
    assert isinstance(configuration, FleetPlacement)
    return configuration.policy


def find_policy_facts(placement: ObservedPlacement) -> Iterator[Doubt]:
    """Yield a fact about each policy that is not the one that the hub computed a hash of.

    An absent policy is valid (PickAll), as are most absent fields of one: only the hash in the
    policy snapshot shows that a dump lacks some. It counts for the placement too, if the snapshot
    is of its generation.
    """
    snapshot = placement.policy_snapshot
    text = "" if snapshot is None else get_text(snapshot.body, "spec", "policyHash")
    if snapshot is None or not text:
        # Reported as not captured, or not read.
        return
    policy_hash = _decode_hash(text)
    if compute_policy_hash(read_last_policy(placement)) != policy_hash:
        yield _build_fact(snapshot, "it is not the policy of policyHash in this object")
    manifest = placement.manifest
    generation = get_value_at_path(manifest.body, "metadata", "generation")
    recorded_generations = (
        parse_integer(get_value_at_path(snapshot.body, "metadata", "annotations", _GENERATION)),
        parse_integer(get_value_at_path(snapshot.body, "status", "observedCRPGeneration")),
    )
    if generation is None or generation not in recorded_generations:
        # The hub has not read this generation yet.
        return
    policy = _parse_policy(placement, manifest.body)
    number = None if policy is None else policy.number_of_clusters
    if (compute_policy_hash(policy), number) != (policy_hash, placement.number_of_clusters):
        yield _build_fact(manifest, f"it is not the policy of {snapshot.title}, of this generation")


def _build_fact(manifest: Manifest, reason: str) -> Doubt:
    doubt = Doubt("", field="spec.policy", reason=reason)
    return build_unread_fact(manifest.body, doubt, manifest.file, manifest.line)


def _decode_hash(text: str) -> str:
    """Return the hash (hex) in a field of bytes, "" for an invalid one."""
    try:
        return b64decode(text, validate=True).decode()
    except ValueError:
        # No Base64, other characters than ASCII, or bytes that are no text.
        return ""
