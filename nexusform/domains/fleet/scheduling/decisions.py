"""Scheduling decisions per cluster and the Scheduled condition, with KubeFleet's exact texts."""

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from nexusform.domains.fleet.scheduling.bindings import Binding, Condition, Decision, collect_clusters

MAX_UNSELECTED = 20
MAX_DECISIONS = 1000
SCHEDULED = "Scheduled"
FULFILLED = "SchedulingPolicyFulfilled"
UNFULFILLED = "SchedulingPolicyUnfulfilled"


class SchedulingStatus(Struct, frozen=True):
    """Status written by a cycle: the Scheduled condition, bindings of selected clusters (created, patched,
    then existing ones) and decisions on unselected ones.
    """

    condition: Condition
    selected_bindings: tuple[Binding, ...]
    unselected_decisions: tuple[Decision, ...]

    @property
    def is_fulfilled(self) -> bool:
        """Whether all clusters needed by the policy were found."""
        return self.condition.status == "True"

    def list_decisions(self) -> tuple[Decision, ...]:
        """Return all decisions, selected clusters first, at most 1000."""
        return (*map(build_selected_decision, self.selected_bindings[:MAX_DECISIONS]), *self.unselected_decisions)


def build_selected_decision(binding: Binding) -> Decision:
    """Build the decision recorded in a binding."""
    affinity, spread = binding.affinity_score, binding.topology_spread_score
    start = f'Successfully scheduled resources for placement in "{binding.cluster}"'
    if affinity is None or spread is None:  # PickFixed
        return Decision(binding.cluster, is_selected=True, reason=f"{start}: picked by scheduling policy")
    scores = f"(affinity score: {affinity}, topology spread score: {spread})"
    return Decision(binding.cluster, True, f"{start} {scores}: picked by scheduling policy", affinity, spread)


def build_outscored_decision(cluster: str, affinity: int, spread: int) -> Decision:
    """Build the decision on an eligible cluster with too low a score."""
    reason = (
        f'Cluster "{cluster}" does not score high enough (affinity score: {affinity}, topology spread score: {spread})'
    )
    return Decision(cluster, False, reason, affinity, spread)


def build_rejected_decision(cluster: str, reason: str) -> Decision:
    """Build the decision on a cluster rejected by a rule."""
    return Decision(cluster, is_selected=False, reason=f"ClusterUnschedulable, {reason}")


def build_scheduled_condition(count: int, is_fulfilled: bool) -> Condition:
    """Build the Scheduled condition of a policy snapshot; `count` is the number of selected clusters."""
    if is_fulfilled:
        text = f"found all cluster needed as specified by the scheduling policy, found {count} cluster(s)"
        return Condition(SCHEDULED, "True", FULFILLED, text)
    text = f"could not find all clusters needed as specified by the scheduling policy, found {count} cluster(s) instead"
    return Condition(SCHEDULED, "False", UNFULFILLED, text)


def list_unselected_clusters(
    selected: Iterable[Binding], outscored: Iterable[Decision], rejected: Iterable[Decision]
) -> tuple[Decision, ...]:
    """Return at most 20 decisions on unselected clusters (1000 with the selected ones), outscored ones first. As on a
    real hub, a rejected but selected cluster is omitted and still uses a place. The inputs are read only as needed.
    """
    selected_clusters = collect_clusters(selected)
    maximum = max(0, min(MAX_UNSELECTED, MAX_DECISIONS - len(selected_clusters)))
    unselected_outscored = (decision for decision in outscored if decision.cluster not in selected_clusters)
    decisions = list(islice(unselected_outscored, maximum))
    listed_rejections = islice(rejected, maximum - len(decisions))
    return (*decisions, *(decision for decision in listed_rejections if decision.cluster not in selected_clusters))
