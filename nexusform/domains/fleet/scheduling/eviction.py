"""Evictions: deletion of one binding, if the placement's disruption budget allows it.

Source: KubeFleet pkg/controllers/clusterresourceplacementeviction. The scheduler runs afterwards
and may pick the same cluster again.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import Binding, PlacementType
from nexusform.kubernetes.quantity import IntegerOrPercent

MISSING_PLACEMENT = "Failed to find ClusterResourcePlacement targeted by eviction"
DELETING_PLACEMENT = "Found deleting ClusterResourcePlacement targeted by eviction"
PICK_FIXED = "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction"
NO_BINDING = "Failed to find scheduler decision for placement in cluster targeted by eviction"
MANY_BINDINGS = (
    "Found more than one scheduler decision for placement in cluster targeted by eviction"
)
BEING_REMOVED = (
    "Eviction is allowed, resources propagated by placement is currently being removed from cluster"
    " targeted by eviction"
)
NOTHING_PLACED = "Eviction is blocked, placement has not propagated resources to target cluster yet"
FAILED = "Eviction is allowed, placement has failed"
NO_BUDGET = "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified"
MISCONFIGURED = (
    "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either "
    "MaxUnavailable is"
    " specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement"
)

# key of the predicted result in the note of an eviction.
PREDICTED_EVICTION = "predicted"


class PlacementDisruptionBudget(Struct, frozen=True):
    """Maximum of unavailable bindings, or minimum of available ones: exactly one of the two."""

    max_unavailable: IntegerOrPercent | None = None
    min_available: IntegerOrPercent | None = None


class EvictionTarget(Struct, frozen=True):
    """Placement named by an eviction.

    `number` is N of a PickN. `available_clusters` have available resources; in `failed_clusters`
    they failed, are not available, or are only compared.
    """

    placement_type: PlacementType
    bindings: tuple[Binding, ...]
    number: int | None = None
    available_clusters: frozenset[str] = frozenset()
    failed_clusters: frozenset[str] = frozenset()
    is_deleting: bool = False


class EvictionResult(Struct, frozen=True):
    """Result of an eviction: invalid, executed, or valid and blocked; with the reason.

    It is not certain if other readiness of the clusters gives another result.
    """

    cluster: str
    is_valid: bool
    is_executed: bool
    message: str
    is_certain: bool = True


def evaluate_eviction(
    cluster: str, target: EvictionTarget | None, budget: PlacementDisruptionBudget | None
) -> EvictionResult:
    """Decide on one eviction; `target` None: the placement is missing."""
    if target is None:
        return EvictionResult(cluster, is_valid=False, is_executed=False, message=MISSING_PLACEMENT)
    invalid_reason = _explain_invalid(cluster, target)
    if invalid_reason:
        return EvictionResult(cluster, is_valid=False, is_executed=False, message=invalid_reason)
    is_executed, message = _evaluate_valid_eviction(cluster, target, budget)
    return EvictionResult(cluster, is_valid=True, is_executed=is_executed, message=message)


def _evaluate_valid_eviction(
    cluster: str, target: EvictionTarget, budget: PlacementDisruptionBudget | None
) -> tuple[bool, str]:
    """Return whether a valid eviction is executed, and the hub's message.

    Failed resources need no budget.
    """
    binding = next(b for b in target.bindings if b.cluster == cluster)
    if binding.is_deleting:
        return True, BEING_REMOVED
    if not binding.has_resources:
        return False, NOTHING_PLACED
    if cluster in target.failed_clusters:
        return True, FAILED
    return (True, NO_BUDGET) if budget is None else _evaluate_budget(target, budget)


def _evaluate_budget(target: EvictionTarget, budget: PlacementDisruptionBudget) -> tuple[bool, str]:
    """Return whether a budget allows one more unavailable binding, and the hub's message."""
    if target.placement_type is PlacementType.PICK_ALL and (
        budget.max_unavailable is not None
        or (budget.min_available is not None and budget.min_available.is_percent)
    ):
        # Only an absolute min_available suits a PickAll.
        return False, MISCONFIGURED
    available = len(
        [binding for binding in target.bindings if binding.cluster in target.available_clusters]
    )
    # base of percentages; a PickAll has none, and no percentage.
    desired = target.number or 0
    # The number of further allowed evictions; negative if the budget is already violated.
    # For a budget without limits.
    allowed_count = 0
    if budget.max_unavailable is not None:
        allowed_count = budget.max_unavailable.compute(desired) - (len(target.bindings) - available)
    elif budget.min_available is not None:
        allowed_count = available - budget.min_available.compute(desired)
    is_allowed = allowed_count > 0
    verdict = "allowed" if is_allowed else "blocked"
    return is_allowed, (
        f"Eviction is {verdict} by specified"
        f" ClusterResourcePlacementDisruptionBudget, availablePlacements: {available},"
        f" totalPlacements: {len(target.bindings)}"
    )


def apply_eviction(eviction: EvictionResult, bindings: Iterable[Binding]) -> tuple[Binding, ...]:
    """Return the bindings after an eviction.

    If it was executed, the binding of its cluster is marked for deletion.
    """
    return tuple(
        replace(binding, is_deleting=True)
        if eviction.is_executed and binding.cluster == eviction.cluster
        else binding
        for binding in bindings
    )


def _explain_invalid(cluster: str, target: EvictionTarget) -> str:
    """Return why an eviction is invalid; "" if it is valid."""
    if target.is_deleting:
        return DELETING_PLACEMENT
    if target.placement_type is PlacementType.PICK_FIXED:
        return PICK_FIXED
    count = [b.cluster for b in target.bindings].count(cluster)
    if not count:
        return NO_BINDING
    return MANY_BINDINGS if count > 1 else ""
