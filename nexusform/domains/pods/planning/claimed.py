"""What the claims of pods ask of storage, cluster by cluster: as it stands, and after a plan."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from nexusform.demands import ClaimDemand
from nexusform.domains.pods.importers.kubernetes_claims import AskedClaim, unsized

Claims = Mapping[str, AskedClaim]


def demand_of(claims: Claims) -> ClaimDemand:
    """What these claims ask, as they stand."""
    size = sum(claim.need for claim in claims.values())
    held = sum(claim.held for claim in claims.values())
    return ClaimDemand(size, size - held, unsized(claims.items()), _unlooked(claims))


def _unlooked(claims: Claims) -> tuple[int, ...]:
    return tuple(claim.held for claim in claims.values() if claim.bound is None)


def demand_after(
    before: Claims, after: Claims, stateful: AbstractSet[tuple[str, str]], gone: AbstractSet[str]
) -> ClaimDemand:
    """What is asked once a plan is applied. `stateful` are the StatefulSets (namespace and name) that stand
    then: claims that were made for pods may stay when these go. With the namespaces that are `gone` they go.
    """
    standing = {
        name: claim
        for name, claim in before.items()
        if name in after or (_stays(claim, stateful) and name.partition("/")[0] not in gone)
    }
    size = sum(claim.need for name, claim in after.items() if name not in before)
    size += sum(_grown(claim, after.get(name)) for name, claim in standing.items())
    held = sum(claim.held for claim in before.values())
    held += sum(claim.need for name, claim in after.items() if name not in before and claim.bound)
    asked = {**standing, **after}
    return ClaimDemand(size, size - held, unsized(asked.items()), _unlooked(standing))


def _stays(claim: AskedClaim, stateful: AbstractSet[tuple[str, str]]) -> bool:
    """Whether a claim stays that nothing brings any more."""
    owner = claim.owner
    if owner is None:
        return False
    return owner.outlives_scaling if owner.stateful in stateful else owner.outlives_deletion


def _grown(before: AskedClaim, after: AskedClaim | None) -> int:
    """What a claim asks that stood already: it may be made larger, unless a StatefulSet made it."""
    if after is None or after.owner is not None:
        return before.need
    return max(before.need, after.need)
