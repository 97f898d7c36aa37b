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

from msgspec import Struct

from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.importers.fleet_model import IF_NO_DIFF, NEVER, ApplyStrategy
from nexusform.importers.kubernetes_manifests import Manifest
from nexusform.planning.fleet.overrides import Identity, identities, identity, opened
from nexusform.planning.fleet.placement import Loss, PlacementPlan
from nexusform.scheduling.fleet.bindings import Binding

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
    """What placements may have to share."""
    seen: set[Identity] = set().union(*direct.values()) if direct else set()
    twice: set[Identity] = set()
    for placement in placements:
        own = identities(placement.selected)
        for snapshot in placement.snapshots:
            own |= identities(snapshot.objects)
        # Clusters without overrides share one list of objects.
        lists = {id(each.manifests): each.manifests for each in placement.contents.on_cluster.values()}
        for manifests in lists.values():
            own |= identities(manifests)
        twice |= own & seen
        seen |= own
    return Sharing(frozenset(twice), direct)


def settle_owners(holdings: Sequence[Holding], sharing: Sharing) -> None:
    """Find for each placement what it does not get on which cluster."""
    claims: dict[tuple[str, Identity], list[_Claim]] = {}
    for placement, bindings, rolled in holdings:
        placement.lost.clear()
        if sharing.objects and not placement.written.report_diff:
            for binding in bindings:
                for each, stood in _claimed(placement, binding, rolled, sharing.objects):
                    claims.setdefault((binding.cluster, each), []).append((placement, stood))
    for (cluster, each), claimants in claims.items():
        outside = sharing.direct.get(cluster, {}).get(each)
        for placement, stood in claimants if outside is not None else ():
            assert outside is not None
            why = "" if stood else _why_not_taken(placement, each, cluster, outside[1])
            if why:
                placement.lost.setdefault(cluster, {})[each] = Loss(outside[0], why)
        standing = [placement for placement, stood in claimants if stood]
        owner = min(standing, key=lambda p: p.creation) if standing else claimants[0][0]
        for placement, _ in claimants:
            if placement is not owner:
                loss = Loss(owner.address, _why_not_owned(placement.written.apply), raced=not standing)
                placement.lost.setdefault(cluster, {})[each] = loss


# A placement, and whether it had the object before.
_Claim = tuple[PlacementPlan, bool]


def _claimed(
    placement: PlacementPlan, binding: Binding, rolled: AbstractSet[str], objects: frozenset[Identity]
) -> Iterator[tuple[Identity, bool]]:
    """Which of the objects a placement would have on a cluster, each with whether it had it before."""
    evicted = binding.cluster in placement.evicted
    there = None if evicted else placement.contents.on_cluster.get(binding.cluster)
    before = identities(there.manifests) if there is not None else frozenset()
    for each in identities(placement.claimed(binding, rolled)) & objects:
        yield each, each in before


def _why_not_owned(strategy: ApplyStrategy) -> str:
    """What the hub says of an object that another placement owns."""
    if strategy.when_to_take_over == NEVER:
        return _NO_OWNERSHIP
    return _DUPLICATE if strategy.allow_co_ownership else _DISALLOWED


def _why_not_taken(placement: PlacementPlan, each: Identity, cluster: str, outside: Manifest) -> str:
    """Why an object that nobody owns is not taken over; "" when it is."""
    strategy = placement.written.apply
    if strategy.when_to_take_over == NEVER:
        return _NO_OWNERSHIP
    if strategy.when_to_take_over != IF_NO_DIFF:
        return ""
    latest = placement.snapshots[-1].index if placement.snapshots else None
    rendered = placement.rendered(latest, cluster)
    brought = opened(rendered.manifests) if rendered is not None else ()
    own = next((manifest for manifest in brought if identity(manifest) == each), None)
    return "" if own is not None and own.body == outside.body else _DIFFERS


def ownership_warnings(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """What a placement does not get, object by object."""
    alike: dict[tuple[Identity, Loss], list[str]] = {}
    for cluster, lost in sorted(placement.lost.items()):
        for each, loss in lost.items():
            alike.setdefault((each, loss), []).append(cluster)
    for (each, loss), clusters in alike.items():
        more = f" and {len(clusters) - _MOST_CLUSTERS} more" if len(clusters) > _MOST_CLUSTERS else ""
        where = f"{', '.join(clusters[:_MOST_CLUSTERS])}{more}"
        if loss.raced:
            both = f"{loss.owner} and {placement.address} both bring {each.title} to {where}"
            text = (
                f"{both} in this plan. One of them fails ({loss.message}), and which is not foretold: "
                f"the plan goes on as if {loss.owner} came first. Let one of them select it."
            )
        else:
            text = (
                f"{each.title} on {where} belongs to {loss.owner}: {loss.message}. This placement does not "
                f"apply it there until {loss.owner} lets go of it."
            )
        yield placement.instance.problem(Problem((), "object-has-another-owner", text, Severity.WARNING))
