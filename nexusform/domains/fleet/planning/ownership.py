"""Whose an object is where several placements bring it to one cluster.

An object belongs to the first that applies it, and stays its own: others fail to take it over until it goes.
Of those that come in one plan one fails, and which is not foretold; the plan goes on as if the earlier in
its order came first.

Source: KubeFleet pkg/controllers/workapplier (process.go, drift_detection_takeover.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct, field

from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.domains.fleet.importers.fleet_model import IF_NO_DIFF, NEVER, ApplyStrategy
from nexusform.domains.fleet.planning.contents import Loss
from nexusform.domains.fleet.planning.decided import Owned
from nexusform.domains.fleet.planning.overrides import Identity, identities, identity, opened
from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.words import first_of

_MOST_CLUSTERS: Final = 5
_NO_OWNERSHIP: Final = "no ownership of the object in the member cluster; takeover is needed"
_FAILED: Final = "failed to take over a pre-existing object: the object is already owned by"
_DISALLOWED: Final = f"{_FAILED} some other sources(s) and co-ownership is disallowed"
_DUPLICATE: Final = f"{_FAILED} another Fleet AppliedWork object"
_DIFFERS: Final = (
    "cannot take over object: configuration differences are found between the manifest object and the "
    "corresponding object in the member cluster"
)

# What placements hold at one moment, each with the clusters that its rollout has reached.
Holding = tuple[PlacementPlan, Sequence[Binding], AbstractSet[str]]
# The objects that clusters get without a placement: member -> object -> who brings it, and what it is.
Direct = Mapping[str, Mapping[Identity, tuple[str, Manifest]]]


class Sharing(Struct, frozen=True):
    """The objects that more than one placement may bring, or one that a cluster gets otherwise, too."""

    objects: frozenset[Identity] = frozenset()
    direct: Direct = {}


def sharing_of(placements: Sequence[PlacementPlan], direct: Direct) -> Sharing:
    """What placements may have to share: the objects that one of them has, or may have, and another, too."""
    once: set[Identity] = set().union(*direct.values()) if direct else set()
    twice: set[Identity] = set()
    for placement in placements:
        objects = _objects_of(placement)
        twice |= objects & once
        once |= objects
    return Sharing(frozenset(twice), direct)


def _objects_of(placement: PlacementPlan) -> frozenset[Identity]:
    """The objects that a placement selects, has snapshots of, or has on a cluster."""
    objects = identities(placement.offer.selected)
    for snapshot in placement.stock.snapshots:
        objects |= identities(snapshot.objects)
    # Clusters without overrides share one list of objects: it is looked at once.
    on_clusters = placement.standing.contents.on_cluster.values()
    lists = {id(rendered.manifests): rendered.manifests for rendered in on_clusters}
    for manifests in lists.values():
        objects |= identities(manifests)
    return objects


def settle_owners(holdings: Sequence[Holding], sharing: Sharing) -> None:
    """Find for each placement what it does not get on which cluster."""
    claims: dict[tuple[str, Identity], list[_Claim]] = {}
    for placement, bindings, rolled in holdings:
        if sharing.objects and not placement.asked.written.report_diff:
            for binding in bindings:
                for claim in _claimed(placement, binding, rolled, sharing.objects):
                    claims.setdefault((binding.cluster, claim.object), []).append(claim)
    found = {placement.address: _Found() for placement, _, _ in holdings}
    for (cluster, object_id), claimants in claims.items():
        direct_owner = sharing.direct.get(cluster, {}).get(object_id)
        if direct_owner is not None:
            _settle_beside(claimants, cluster, direct_owner, found)
        _settle_among(claimants, cluster, found)
    for placement, _, _ in holdings:
        of_this = found[placement.address]
        placement.owned = Owned(of_this.lost, of_this.doubled)


class _Found(Struct, frozen=True):
    # An `Owned` that is being filled.
    lost: dict[str, dict[Identity, Loss]] = field(default_factory=dict)
    doubled: dict[str, dict[Identity, str]] = field(default_factory=dict)


def _settle_beside(
    claimants: Sequence[_Claim],
    cluster: str,
    direct_owner: tuple[str, Manifest],
    found: Mapping[str, _Found],
) -> None:
    """Settle who gets an object that the cluster gets without a placement, too. `direct_owner` is who brings
    it so, and what it is there.
    """
    owner, manifest = direct_owner
    for claim in claimants:
        if claim.had_before:
            continue
        refusal = _why_not_taken(claim.placement, claim.object, cluster, manifest)
        if refusal:
            lost = found[claim.placement.address].lost
            lost.setdefault(cluster, {})[claim.object] = Loss(owner, refusal)


def _settle_among(claimants: Sequence[_Claim], cluster: str, found: Mapping[str, _Found]) -> None:
    """Settle who owns an object that these placements would have; the others lose it."""
    standing = [claim.placement for claim in claimants if claim.had_before]
    owner = min(standing, key=lambda p: p.asked.creation) if standing else claimants[0].placement
    for claim in claimants:
        placement = claim.placement
        if placement is owner:
            continue
        if claim.keeps:
            doubled = found[placement.address].doubled
            doubled.setdefault(cluster, {})[claim.object] = owner.asked.address
            continue
        loss = Loss(owner.asked.address, _why_not_owned(placement.asked.written.apply), raced=not standing)
        found[placement.address].lost.setdefault(cluster, {})[claim.object] = loss


class _Claim(Struct, frozen=True):
    # An object that a placement would have on a cluster: whether it had it before, and whether it keeps it as
    # it is. Two imported placements may keep one object; nothing changes for that before one of them rolls
    # out.
    placement: PlacementPlan
    object: Identity
    had_before: bool
    keeps: bool


def _claimed(
    placement: PlacementPlan, binding: Binding, rolled: AbstractSet[str], objects: frozenset[Identity]
) -> Iterator[_Claim]:
    """Which of the objects a placement would have on a cluster."""
    given_up = binding.cluster in placement.given_up
    content_before = None if given_up else placement.standing.contents.on_cluster.get(binding.cluster)
    objects_before = identities(content_before.manifests) if content_before is not None else frozenset()
    untouched = binding.cluster not in rolled
    for object_id in identities(placement.claimed(binding, rolled)) & objects:
        had_before = object_id in objects_before
        yield _Claim(placement, object_id, had_before, keeps=had_before and untouched)


def _why_not_owned(strategy: ApplyStrategy) -> str:
    """What the hub says of an object that another placement owns."""
    if strategy.when_to_take_over == NEVER:
        return _NO_OWNERSHIP
    return _DUPLICATE if strategy.allow_co_ownership else _DISALLOWED


def _why_not_taken(placement: PlacementPlan, object_id: Identity, cluster: str, outside: Manifest) -> str:
    """Why an object that nobody owns is not taken over; "" when it is. `outside` is what stands there."""
    strategy = placement.asked.written.apply
    if strategy.when_to_take_over == NEVER:
        return _NO_OWNERSHIP
    if strategy.when_to_take_over != IF_NO_DIFF:
        return ""
    latest = placement.stock.snapshots[-1].index if placement.stock.snapshots else None
    rendered = placement.stock.rendered(latest, cluster)
    brought = opened(rendered.manifests) if rendered is not None else ()
    claimed = next((manifest for manifest in brought if identity(manifest) == object_id), None)
    is_same = claimed is not None and claimed.body == outside.body
    return "" if is_same else _DIFFERS


def ownership_warnings(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """What a placement does not get, object by object, and what state says that two have."""
    for text in (*_brought_twice(placement), *_lost(placement)):
        yield placement.asked.instance.problem(
            Problem((), "object-has-another-owner", text, Severity.WARNING)
        )


def _brought_twice(placement: PlacementPlan) -> Iterator[str]:
    """What state says that two placements brought to one cluster, a sentence for each object and owner."""
    clusters_of: dict[tuple[Identity, str], list[str]] = {}
    for cluster, owners in sorted(placement.owned.doubled.items()):
        for object_and_owner in owners.items():
            clusters_of.setdefault(object_and_owner, []).append(cluster)
    for (object_id, owner), clusters in clusters_of.items():
        yield (
            f"State says that both {owner} and this placement brought {object_id.title} to "
            f"{first_of(clusters, _MOST_CLUSTERS)}. On a hub one of them failed. Nothing is changed for "
            "that; the next rollout of this placement fails there. Let one of them select it."
        )


def _lost(placement: PlacementPlan) -> Iterator[str]:
    """What the placement does not get because others have it, a sentence for each object and cause."""
    clusters_of: dict[tuple[Identity, Loss], list[str]] = {}
    for cluster, losses in sorted(placement.owned.lost.items()):
        for object_and_loss in losses.items():
            clusters_of.setdefault(object_and_loss, []).append(cluster)
    for (object_id, loss), clusters in clusters_of.items():
        where = first_of(clusters, _MOST_CLUSTERS)
        if loss.raced:
            yield (
                f"{loss.owner} and {placement.address} both bring {object_id.title} to {where} in this plan. "
                f"One of them fails ({loss.message}), and which is not foretold: the plan goes on as if "
                f"{loss.owner} came first. Let one of them select it."
            )
        else:
            yield (
                f"{object_id.title} on {where} belongs to {loss.owner}: {loss.message}. This placement does "
                f"not apply it there until {loss.owner} lets go of it."
            )
