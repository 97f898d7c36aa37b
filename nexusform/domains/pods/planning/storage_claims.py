"""Storage demand of pod claims, cluster by cluster, before and after a plan."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from nexusform.domains.pods.importers.appliance_claims import ApplianceClaim, find_unsized_claim
from nexusform.placements.vm_demands import ClaimDemand

Claims = Mapping[str, ApplianceClaim]


def compute_storage_demand(claims: Claims) -> ClaimDemand:
    """Return the current demand of these claims."""
    size = sum(claim.final_size for claim in claims.values())
    possible_existing_size = sum(claim.possible_existing_size for claim in claims.values())
    return ClaimDemand(
        size, size - possible_existing_size, find_unsized_claim(claims.items()), _list_sizes_of_unknown_claims(claims)
    )


def _list_sizes_of_unknown_claims(claims: Claims) -> tuple[int, ...]:
    return tuple(claim.possible_existing_size for claim in claims.values() if claim.is_bound is None)


def compute_planned_storage_demand(
    prior_claims: Claims,
    planned_claims: Claims,
    stateful_sets: AbstractSet[tuple[str, str]],
    removed_namespaces: AbstractSet[str],
) -> ClaimDemand:
    """Return the demand after a plan is applied. `stateful_sets` are the remaining StatefulSets (namespace
    and name): claims of removed ones may be retained. Claims in `removed_namespaces` are deleted.
    """
    retained_claims = {
        name: claim
        for name, claim in prior_claims.items()
        if name in planned_claims
        or (_is_retained(claim, stateful_sets) and name.partition("/")[0] not in removed_namespaces)
    }
    size = sum(claim.final_size for name, claim in planned_claims.items() if name not in prior_claims)
    size += sum(_compute_final_size(claim, planned_claims.get(name)) for name, claim in retained_claims.items())
    possible_existing_size = sum(claim.possible_existing_size for claim in prior_claims.values())
    possible_existing_size += sum(
        claim.final_size for name, claim in planned_claims.items() if name not in prior_claims and claim.is_bound
    )
    all_claims = {**retained_claims, **planned_claims}
    return ClaimDemand(
        size,
        size - possible_existing_size,
        find_unsized_claim(all_claims.items()),
        _list_sizes_of_unknown_claims(retained_claims),
    )


def _is_retained(claim: ApplianceClaim, stateful_sets: AbstractSet[tuple[str, str]]) -> bool:
    """Return whether a claim without an object is retained."""
    owner = claim.owner
    if owner is None:
        return False
    return owner.outlives_scaling if owner.stateful_set in stateful_sets else owner.outlives_deletion


def _compute_final_size(prior_claim: ApplianceClaim, planned_claim: ApplianceClaim | None) -> int:
    """Return the final size of an existing claim: it may be enlarged, unless a StatefulSet created it."""
    if planned_claim is None or planned_claim.owner is not None:
        return prior_claim.final_size
    return max(prior_claim.final_size, planned_claim.final_size)
