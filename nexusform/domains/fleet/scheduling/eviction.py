"""Evictions: a binding is deleted once, if the placement's disruption budget lets it go.

Source: KubeFleet pkg/controllers/clusterresourceplacementeviction. The scheduler runs afterwards and may
pick the same cluster again.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState, PlacementType
from nexusform.kubernetes.quantity import Amount

MISSING_PLACEMENT = "Failed to find ClusterResourcePlacement targeted by eviction"
DELETING_PLACEMENT = "Found deleting ClusterResourcePlacement targeted by eviction"
PICK_FIXED = "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction"
NO_BINDING = "Failed to find scheduler decision for placement in cluster targeted by eviction"
MANY_BINDINGS = "Found more than one scheduler decision for placement in cluster targeted by eviction"
BEING_REMOVED = (
    "Eviction is allowed, resources propagated by placement is currently being removed from cluster"
    " targeted by eviction"
)
NOTHING_PLACED = "Eviction is blocked, placement has not propagated resources to target cluster yet"
FAILED = "Eviction is allowed, placement has failed"
NO_BUDGET = "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified"
MISCONFIGURED = (
    "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is"
    " specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement"
)


class DisruptionBudget(Struct, frozen=True):
    """At most so many bindings not available, or at least so many available: exactly one of the two."""

    max_unavailable: Amount | None = None
    min_available: Amount | None = None


class Target(Struct, frozen=True):
    """The placement an eviction names. `number` is N of a PickN.

    `available`: clusters whose resources are available; `failed`: where they failed for good or are only
    reported as differences.
    """

    placement_type: PlacementType
    bindings: tuple[Binding, ...]
    number: int | None = None
    available: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    deleting: bool = False


class Eviction(Struct, frozen=True):
    """What became of an eviction: invalid, executed, or valid and not executed; and why."""

    cluster: str
    valid: bool
    executed: bool
    message: str


def evict(cluster: str, target: Target | None, budget: DisruptionBudget | None) -> Eviction:
    """Decide on one eviction; `target` None: there is no such placement."""
    invalid = _invalid(cluster, target)
    if invalid is not None or target is None:
        return Eviction(cluster, valid=False, executed=False, message=invalid or MISSING_PLACEMENT)
    binding = next(b for b in target.bindings if b.cluster == cluster)
    if binding.deleting:
        return Eviction(cluster, valid=True, executed=True, message=BEING_REMOVED)
    if not _placed(binding):
        return Eviction(cluster, valid=True, executed=False, message=NOTHING_PLACED)
    if cluster in target.failed:
        return Eviction(cluster, valid=True, executed=True, message=FAILED)
    if budget is None:
        return Eviction(cluster, valid=True, executed=True, message=NO_BUDGET)
    if target.placement_type is PlacementType.PICK_ALL and _misconfigured(budget):
        return Eviction(cluster, valid=True, executed=False, message=MISCONFIGURED)
    available = sum(b.cluster in target.available for b in target.bindings)
    allowed = _allowed(budget, target, available) > 0
    verdict = "allowed" if allowed else "blocked"
    text = (
        f"Eviction is {verdict} by specified"
        f" ClusterResourcePlacementDisruptionBudget, availablePlacements: {available},"
        f" totalPlacements: {len(target.bindings)}"
    )
    return Eviction(cluster, valid=True, executed=allowed, message=text)


def after(eviction: Eviction, bindings: Iterable[Binding]) -> tuple[Binding, ...]:
    """The bindings with the evicted one marked as being deleted, when the eviction was executed."""
    if not eviction.executed:
        return tuple(bindings)
    return tuple(
        replace(binding, deleting=True) if binding.cluster == eviction.cluster else binding
        for binding in bindings
    )


def _invalid(cluster: str, target: Target | None) -> str | None:
    """Why an eviction is invalid; None when it is valid."""
    if target is None:
        return MISSING_PLACEMENT
    if target.deleting:
        return DELETING_PLACEMENT
    if target.placement_type is PlacementType.PICK_FIXED:
        return PICK_FIXED
    count = sum(b.cluster == cluster for b in target.bindings)
    if not count:
        return NO_BINDING
    return MANY_BINDINGS if count > 1 else None


def _placed(binding: Binding) -> bool:
    """Whether the placement's resources are, or were, brought to the cluster."""
    if binding.state is BindingState.UNSCHEDULED:
        return binding.previous_state is BindingState.BOUND
    return binding.state is BindingState.BOUND


def _misconfigured(budget: DisruptionBudget) -> bool:
    """Whether a budget says what means nothing for a PickAll."""
    return budget.max_unavailable is not None or (
        budget.min_available is not None and budget.min_available.percent
    )


def _allowed(budget: DisruptionBudget, target: Target, available: int) -> int:
    """How many more bindings may be evicted; below 0 when the budget is broken already."""
    desired = target.number or 0
    if budget.max_unavailable is not None:
        return budget.max_unavailable.of(desired) - (len(target.bindings) - available)
    if budget.min_available is not None:
        return available - budget.min_available.of(desired)
    return 0
