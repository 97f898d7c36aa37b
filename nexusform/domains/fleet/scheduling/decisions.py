"""What the scheduler says: a decision per cluster, and whether the policy is fulfilled.

The texts are KubeFleet's, letter for letter.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from nexusform.domains.fleet.scheduling.bindings import Binding, Condition, Decision

MOST_UNSELECTED = 20
MOST_DECISIONS = 1000
SCHEDULED = "Scheduled"
FULFILLED = "SchedulingPolicyFulfilled"
UNFULFILLED = "SchedulingPolicyUnfulfilled"


class SchedulingStatus(Struct, frozen=True):
    """The status that a cycle writes: the Scheduled condition, the bindings of selected clusters (created
    ones, patched ones, then those that stood) and the decisions on unselected ones.
    """

    condition: Condition
    selected: tuple[Binding, ...]
    unselected: tuple[Decision, ...]

    @property
    def fulfilled(self) -> bool:
        """Whether the policy found all clusters it needs."""
        return self.condition.status == "True"

    def decisions(self) -> tuple[Decision, ...]:
        """All decisions, selected clusters first, at most 1000."""
        return (*map(selected, self.selected[:MOST_DECISIONS]), *self.unselected)


def selected(binding: Binding) -> Decision:
    """The decision recorded in a binding when its cluster was picked."""
    affinity, spread = binding.affinity_score, binding.topology_spread_score
    start = f'Successfully scheduled resources for placement in "{binding.cluster}"'
    if affinity is None or spread is None:
        return Decision(binding.cluster, True, f"{start}: picked by scheduling policy")
    scores = f"(affinity score: {affinity}, topology spread score: {spread})"
    return Decision(binding.cluster, True, f"{start} {scores}: picked by scheduling policy", affinity, spread)


def not_picked(cluster: str, affinity: int, spread: int) -> Decision:
    """A cluster that passed every rule and was outscored."""
    reason = (
        f'Cluster "{cluster}" does not score high enough (affinity score: {affinity},'
        f" topology spread score: {spread})"
    )
    return Decision(cluster, False, reason, affinity, spread)


def filtered(cluster: str, reason: str) -> Decision:
    """A cluster that a rule refused."""
    return Decision(cluster, False, f"ClusterUnschedulable, {reason}")


def not_eligible(cluster: str, reason: str) -> Decision:
    """A cluster named in a PickFixed policy that takes no placement."""
    return Decision(
        cluster, False, f'Cluster "{cluster}" is not eligible for resource placement yet: {reason}'
    )


def not_found(cluster: str) -> Decision:
    """A cluster named in a PickFixed policy that is not in the fleet."""
    return Decision(cluster, False, f'Specified cluster "{cluster}" is not found')


def scheduled_condition(count: int, fulfilled: bool) -> Condition:
    """The Scheduled condition of a policy snapshot; `count` counts selected clusters."""
    if fulfilled:
        text = f"found all cluster needed as specified by the scheduling policy, found {count} cluster(s)"
        return Condition(SCHEDULED, "True", FULFILLED, text)
    text = (
        "could not find all clusters needed as specified by the scheduling policy,"
        f" found {count} cluster(s) instead"
    )
    return Condition(SCHEDULED, "False", UNFULFILLED, text)


def unselected(
    chosen: Iterable[Binding], outscored: Iterable[Decision], refused: Iterable[Decision]
) -> tuple[Decision, ...]:
    """At most 20 clusters that were not selected, outscored ones first.

    A refused cluster that is selected all the same is left out but, as on a real hub, uses up a place.
    """
    chosen_clusters = {binding.cluster for binding in chosen}
    slots = MOST_DECISIONS - len(chosen_clusters)
    if slots <= 0:
        return ()
    most = min(MOST_UNSELECTED, slots)
    not_chosen = (decision for decision in outscored if decision.cluster not in chosen_clusters)
    listed = list(islice(not_chosen, most))
    refused_in_list = islice(refused, most - len(listed))
    return (*listed, *(decision for decision in refused_in_list if decision.cluster not in chosen_clusters))
