"""Assumptions of a prediction: a table.

Each one repeats the scheduling of all pods under other facts. A pod is certain if it keeps its node
under all of them; otherwise its first difference names the assumption.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, islice, permutations, repeat
from math import factorial
from typing import Final, TypeAlias
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.scheduling import pod_orders, pod_outcomes
from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    Node,
    PodCondition,
    PodKey,
    Strategy,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_orders import QUEUE_ORDER, ArrivalOrder
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome, PodsPrediction
from nexusform.domains.pods.scheduling.pod_prediction import PodPredictor
from nexusform.domains.pods.scheduling.random_choices import (
    RandomChoices,
    RandomFacts,
    RepeatedPrediction,
)
from nexusform.domains.pods.scheduling.rules.taints import NO_EXECUTE
from nexusform.domains.pods.scheduling.scheduler_versions import (
    UNAVAILABLE_CHANGE,
    VERSION_DIFFERENCES,
)
from nexusform.domains.pods.scheduling.workload_progress import has_stuck_template
from nexusform.doubts.doubt import Doubt
from nexusform.kubernetes.matching import NO_SCHEDULE, Taint

ARRIVAL_ORDER: Final = "arrival order"
TIES: Final = "ties"
VERSION: Final = "the Kubernetes version"
# Pods to place, over all repetitions: a limit of processor time.
_MOST_PLACEMENTS: Final = 4_000
_FEWEST_SAMPLES: Final = 8
_MOST_SAMPLES: Final = 240
# Samples if none of them changes any pod.
_SAMPLES_WITHOUT_DOUBT: Final = 60
# Up to this number of nodes, samples show every frequent result of random choices.
_MOST_SAMPLED_NODES: Final = 12
_MOST_LATE_WORKLOADS: Final = 16
_MOST_PERMUTED_WORKLOADS: Final = 5
# Samples of the random choices of one scene.
_TIE_SAMPLES: Final = 12
# Samples of the steps of rollouts.
_TIMING_SAMPLES: Final = 60
_HOUR: Final = 3600
_MOST_ORDERS: Final = 16
_RANK_BITS: Final = 32
_ANY_ORDER: Final = "if the pods arrive in another order"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
# A container that was not started for these reasons may still start; one without its
# image does not.
_PERMANENT_REASONS: Final = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
)


class PredictionScenario(Struct, frozen=True):
    """Input of a prediction.

    `waiting_pods` are Pending pods of others, `unready_nodes` will get a taint, or leave.
    """

    cluster: Cluster
    existing_pods: tuple[ExistingPod, ...]
    workloads: tuple[Workload, ...]
    seed: int
    lost_pods: frozenset[PodKey] = frozenset()
    waiting_pods: tuple[ExistingPod, ...] = ()
    unready_nodes: frozenset[str] = frozenset()
    arrival: ArrivalOrder = QUEUE_ORDER
    timing: int = 0

    @property
    def workload_keys(self) -> tuple[str, ...]:
        """Keys of its workloads, in their order."""
        return tuple(workload.key for workload in self.workloads)

    @property
    def random_facts(self) -> RandomFacts:
        """What decides the random choices of its prediction."""
        return RandomFacts(self.seed, self.arrival, self.timing)

    def predict(self, choices: RandomChoices) -> PodsPrediction:
        """Return the prediction of this scene with random choices."""
        return PodPredictor(
            self.cluster,
            self.existing_pods,
            self.workloads,
            choices,
            self.lost_pods,
            removed_workloads=(),
        ).run()


# A condition ("if b arrives first"), and the scene under it.
_Alternative: TypeAlias = tuple[str, PredictionScenario]


class PredictionAssumption(Struct, frozen=True):
    """Assumption of predictions.

    `list_alternatives` yields scenes under other facts, each with its condition ("if b arrives
    first"), as many as the number of samples permits. `has_samples` means that each scene has
    its own seed.
    """

    name: str
    list_alternatives: Callable[[PredictionScenario, int], Iterator[_Alternative]]
    has_samples: bool = False


def find_doubtful_pods(
    scene: PredictionScenario, outcomes: Sequence[PodOutcome]
) -> dict[PodKey, Doubt | None]:
    """Return the doubt about each pod with another outcome under another assumption.

    A pod is its workload and number. Each assumption lists alternatives: the scene under other
    facts, such as another order of arrival. All pods are predicted again in each one, and the first
    difference is the doubt of a pod. A pod placed at random among equal nodes (a tie) is doubtful,
    too: None if all samples agree on its node. Certain pods have no entry.
    """
    if all(outcome.action == pod_outcomes.KEEP for outcome in outcomes):
        # No pod is placed or removed.
        return {}
    placed_pods = [outcome for outcome in outcomes if outcome.feasible_nodes is not None]
    # Cost of one prediction; existing pods cost less.
    placements = len(placed_pods) + len(scene.existing_pods) // 20
    # Maximum number of predictions per assumption.
    samples = min(_MOST_SAMPLES, _MOST_PLACEMENTS // max(1, placements))
    ties = {
        outcome.key: Doubt("pods", reason=TIES) for outcome in placed_pods if not outcome.is_certain
    }
    tied_keys = frozenset(ties)
    sampled_keys = {outcome.key for outcome in outcomes}
    has_enough_samples = (
        samples >= _FEWEST_SAMPLES and len(scene.cluster.nodes) <= _MOST_SAMPLED_NODES
    )
    # Samples do not cover it.
    has_other_doubt = any(outcome.doubt not in ("", TIES) for outcome in placed_pods)
    if not has_enough_samples or has_other_doubt:
        # Agreeing samples would prove nothing, so ties stay in doubt.
        sampled_keys -= tied_keys
    differences = _find_first_differences(scene, outcomes, samples, sampled_keys, tied_keys)
    doubts: dict[PodKey, Doubt | None] = {**ties, **differences}
    unchanged_keys = sampled_keys - differences.keys()
    # There are too few samples to show a difference, so other pods may also be doubtful.
    if samples < _FEWEST_SAMPLES:
        doubts |= _list_unsampled_doubts(scene, placed_pods, unchanged_keys - tied_keys)
    # A tie, but the same node in all samples.
    agreed_keys = unchanged_keys & tied_keys
    return doubts | dict.fromkeys(agreed_keys, None)


def _find_first_differences(
    scene: PredictionScenario,
    outcomes: Sequence[PodOutcome],
    samples: int,
    sampled_keys: AbstractSet[PodKey],
    tied_keys: AbstractSet[PodKey],
) -> dict[PodKey, Doubt]:
    """Predict the alternatives of all assumptions.

    Return the first other outcome of each pod of `sampled_keys`. `samples` is the most alternatives
    per assumption. Pods of `tied_keys` had a random choice in the plan.
    """
    doubts: dict[PodKey, Doubt] = {}
    alternatives = _Alternatives(outcomes)
    # To repeat predictions with other random choices; each is used once.
    tie_seeds = iter(range(1, 1 + samples))
    for assumption in ASSUMPTIONS:
        # No need to repeat alternatives with seeds of their own.
        seeds = () if assumption.has_samples else tie_seeds
        for number, (condition, alternative) in enumerate(
            assumption.list_alternatives(scene, samples)
        ):
            # Pods without another outcome so far.
            unchanged_keys = sampled_keys - doubts.keys()
            # After many samples without any effect, more are useless.
            is_useless = number >= _SAMPLES_WITHOUT_DOUBT and not (doubts or tied_keys)
            if is_useless or not unchanged_keys:
                break
            changed_nodes = alternatives.sample_changed_pods(
                alternative, seeds, sampled_keys=unchanged_keys - tied_keys
            )
            for key, node in changed_nodes.items():
                if key in unchanged_keys:
                    # A tie alone may change the node.
                    name = TIES if key in tied_keys else assumption.name
                    doubts[key] = Doubt(
                        "pods", reason=name, otherwise=f"{node or 'no node'} {condition}"
                    )
    return doubts


def _list_unsampled_doubts(
    scene: PredictionScenario, placed_pods: Iterable[PodOutcome], undecided_keys: Collection[PodKey]
) -> dict[PodKey, Doubt]:
    """Return the possible doubts about the undecided pods of a plan too large for samples.

    No assumption is tried.
    """
    # Their pods may arrive in another order.
    if len(scene.workloads) > 1:
        return dict.fromkeys(undecided_keys, Doubt("pods", reason=ARRIVAL_ORDER))
    # One workload and a known version: no other choice.
    if scene.cluster.version:
        return {}
    # The scores of an unknown version matter only to pods with a choice between nodes.
    keys_with_choice = {outcome.key for outcome in placed_pods if (outcome.feasible_nodes or 0) > 1}
    return dict.fromkeys(
        keys_with_choice.intersection(undecided_keys), Doubt("pods", reason=VERSION)
    )


class _Difference(Struct, frozen=True):
    """Difference of an alternative prediction from the plan.

    `moved_pods` have another outcome, each with its node there ("" for none).
    """

    moved_pods: Mapping[PodKey, str]
    has_more_uncertain_pods: bool


class _Alternatives:
    """Predictions of alternatives, compared with the outcomes of the plan."""

    def __init__(self, outcomes: Sequence[PodOutcome]) -> None:
        """Start without a prediction."""
        self._by_workload = group_by(outcomes, lambda outcome: outcome.workload)
        self._uncertain_counts = _count_uncertain(outcomes)
        # By the identities of the facts that a prediction starts from. Each also has a scene with
        # these facts, so that no other object gets their identities.
        self._repeated: dict[
            tuple[int, ...], tuple[PredictionScenario, RepeatedPrediction[_Difference]]
        ] = {}

    def sample_changed_pods(
        self,
        alternative: PredictionScenario,
        seeds: Iterable[int],
        sampled_keys: Collection[PodKey],
    ) -> dict[PodKey, str]:
        """Return the pods with another outcome in an alternative than in the plan.

        Each has its node there ("" for none). If more pods than in the plan are placed at random,
        the alternative is predicted again with further `seeds`. These further predictions count
        only for the pods of `sampled_keys`.
        """
        difference = self._predict_difference(alternative)
        changed_pods = dict(difference.moved_pods)
        if difference.has_more_uncertain_pods:
            for seed in islice(seeds, _TIE_SAMPLES):
                sample = replace(alternative, seed=alternative.seed + seed)
                for key, node in self._predict_difference(sample).moved_pods.items():
                    if key in sampled_keys:
                        changed_pods.setdefault(key, node)
        return changed_pods

    def _predict_difference(self, scene: PredictionScenario) -> _Difference:
        facts = (scene.cluster, scene.existing_pods, scene.workloads, scene.lost_pods)
        _, repeated = self._repeated.setdefault(
            tuple(map(id, facts)),
            (scene, RepeatedPrediction(lambda choices: self._compare(scene.predict(choices)))),
        )
        return repeated.repeat(scene.random_facts)

    def _compare(self, prediction: PodsPrediction) -> _Difference:
        # A difference of two Counters keeps positive counts only: workloads with more uncertain
        # pods than in the plan.
        further_counts = _count_uncertain(prediction.outcomes) - self._uncertain_counts
        return _Difference(_find_moved_pods(self._by_workload, prediction), bool(further_counts))


def _count_uncertain(outcomes: Iterable[PodOutcome]) -> Counter[str]:
    """Count the uncertain pods by workload."""
    return Counter(outcome.workload for outcome in outcomes if not outcome.is_certain)


def _find_moved_pods(
    by_workload: Mapping[str, Sequence[PodOutcome]], alternative: PodsPrediction
) -> dict[PodKey, str]:
    """Return the pods with another outcome in an alternative prediction.

    Each has its node there, "" for none.
    """
    alternatives = group_by(alternative.outcomes, lambda outcome: outcome.workload)
    differences: dict[PodKey, str] = {}
    for key, outcomes in by_workload.items():
        others = alternatives.get(key, [])
        # Its pods have an identity; pods of other kinds are interchangeable.
        if "/StatefulSet/" in key:
            differences |= _find_moved_numbered_pods(outcomes, others)
        else:
            differences |= _find_pods_removed_in_one_prediction(outcomes, others)
            differences |= _find_surplus_pods_by_node(outcomes, others)
    return differences


def _find_moved_numbered_pods(
    outcomes: Sequence[PodOutcome], others: Sequence[PodOutcome]
) -> Iterator[tuple[PodKey, str]]:
    """Yield the pods with another result in the other prediction.

    Each has its node there, or "another template".
    """
    others_by_number = {other.number: other for other in others}
    for outcome in outcomes:
        # None: not created there.
        other = others_by_number.get(outcome.number)
        if other is None or (other.node, other.is_removed) != (outcome.node, outcome.is_removed):
            yield outcome.key, other.node if other is not None else ""
        elif other.spec.template != outcome.spec.template:
            yield outcome.key, "another template"


def _find_pods_removed_in_one_prediction(
    outcomes: Sequence[PodOutcome], others: Sequence[PodOutcome]
) -> Iterator[tuple[PodKey, str]]:
    """Yield the existing pods removed in one of two predictions only.

    Each has its node in the other ("" = none).
    """
    removed_numbers = _collect_removed_numbers(outcomes)
    differing_numbers = removed_numbers ^ _collect_removed_numbers(others)
    for outcome in outcomes:
        if (
            outcome.action in (pod_outcomes.REMOVE, pod_outcomes.KEEP)
            and outcome.number in differing_numbers
        ):
            # It stays, or is removed there.
            other_node = outcome.previous if outcome.number in removed_numbers else ""
            yield outcome.key, other_node


def _collect_removed_numbers(outcomes: Iterable[PodOutcome]) -> set[int]:
    return {outcome.number for outcome in outcomes if outcome.is_removed}


def _find_surplus_pods_by_node(
    outcomes: Sequence[PodOutcome], others: Sequence[PodOutcome]
) -> Iterator[tuple[PodKey, str]]:
    """Yield the pods in excess on a node compared with the other prediction (`others`).

    Each has its node in the other prediction. Pods of one template are interchangeable. With two
    pods on n0 here, and one on n0 and one on n1 in the other prediction, one of the two pods is in
    excess, and its other node is n1. The node is "" if none is left.
    """
    # Number of pods left to compare, by node ("" without one) and template.
    others_by_location = Counter(
        (other.node, other.spec.template) for other in others if not other.is_removed
    )
    surplus_pods: list[PodOutcome] = []
    # Kept pods (without a decision) are compared first, so a placed pod is in excess rather than a
    # kept one. Removed pods are compared by `_find_pods_removed_in_one_prediction`.
    existing_pods = [outcome for outcome in outcomes if not outcome.is_removed]
    for outcome in sorted(
        existing_pods, key=lambda outcome: (outcome.feasible_nodes is not None, outcome.number)
    ):
        location = (outcome.node, outcome.spec.template)
        if others_by_location[location]:
            others_by_location[location] -= 1
        else:
            surplus_pods.append(outcome)
    other_nodes = sorted(node for node, _ in others_by_location.elements())
    for outcome, node in zip(surplus_pods, chain(other_nodes, repeat("")), strict=False):
        yield outcome.key, node


def _list_resampled_scenarios(scene: PredictionScenario, samples: int) -> Iterator[_Alternative]:
    """Yield the scene with other random choices.

    Another seed, and another order of pods with equal ages.
    """
    for number in range(samples):
        pods = _shuffle_eviction_ages(scene, number)
        yield "at another tie", replace(scene, seed=scene.seed + 1 + number, existing_pods=pods)


def _shuffle_eviction_ages(scene: PredictionScenario, sample: int) -> tuple[ExistingPod, ...]:
    """Return the existing pods with new ages.

    `sample` draws the order of pods of one age. The pods are unchanged if none can be evicted. The
    new age has the old one in its high bits, and a hash in the low bits.
    """
    lowest = min((pod.spec.priority for pod in scene.existing_pods), default=0)
    if all(workload.pod.priority <= lowest for workload in scene.workloads):
        # No pod can be evicted.
        return scene.existing_pods
    texts = [f"{sample}|{pod.workload}|{pod.number}".encode() for pod in scene.existing_pods]
    pairs = zip(scene.existing_pods, texts, strict=True)
    # The order by age stays; the hash decides among equal ages.
    return tuple(replace(pod, age=(pod.age << _RANK_BITS) + crc32(text)) for pod, text in pairs)


def _list_scenarios_with_arrival_orders(
    scene: PredictionScenario, samples: int
) -> Iterator[_Alternative]:
    """Yield `samples` scenes with other orders of arrival and other random choices.

    Each has the condition as text. In the first scenes, the workloads arrive one after the other.
    In later ones, each pod gets a random time. Some evicted pods (victims) hold their capacity
    until all pods have arrived (slow), or get a replacement at once (fast).
    """
    if len(scene.workloads) < 2 and not any(
        map(pod_orders.has_differing_concurrent_pods, scene.workloads)
    ):
        # There is only one order.
        return
    # Pods with claims from a template wait for another controller to create them.
    claiming_keys = frozenset(
        workload.key
        for workload in scene.workloads
        if any(claim.is_own for claim in workload.pod.device_claims)
    )
    ordered_keys = frozenset(workload.key for workload in scene.workloads if workload.is_ordered)
    sequences = _list_sequential_orders(scene.workload_keys, claiming_keys, ordered_keys, samples)
    random_order = ArrivalOrder(
        ranks=scene.workload_keys, ordered_keys=ordered_keys, claiming_keys=claiming_keys
    )
    for number in range(samples):
        if number < len(sequences):
            condition, order = sequences[number]
            arrival = replace(order, has_fast_replacements=number % 2 == 0)
        else:
            # Of four samples, one has fast replacements and two have slow victims.
            condition = _ANY_ORDER
            has_slow_victims = number % 4 in (2, 3)
            arrival = replace(
                random_order,
                sample=number,
                has_slow_victims=has_slow_victims,
                has_fast_replacements=number % 4 == 0,
            )
        pods = _shuffle_eviction_ages(scene, number)
        # 0: removed pods free their capacity at once. From 2, the number selects some to
        # free it later.
        timing = number if arrival.has_slow_victims else 0
        seed = scene.seed + 1 + number
        yield (
            condition,
            replace(scene, arrival=arrival, seed=seed, existing_pods=pods, timing=timing),
        )


def _list_sequential_orders(
    keys: Sequence[str], claiming_keys: Collection[str], ordered_keys: frozenset[str], samples: int
) -> list[tuple[str, ArrivalOrder]]:
    """Return orders of workloads (`keys`) one after another, each with its condition.

    A condition is for example "if b arrives first". The pods of `claiming_keys` wait for claims,
    those of `ordered_keys` for the pod before.
    """
    orders = [
        (condition, ArrivalOrder(ranks=ranks, ordered_keys=ordered_keys))
        for condition, ranks in _rank_workloads(keys, claiming_keys)
    ]
    if ordered_keys and len(keys) <= _MOST_PERMUTED_WORKLOADS:
        # Pods of ordered StatefulSets may start fast, before those of other workloads: no
        # `ordered_keys` here. Every n-th permutation is used (`distance`), so these orders need a
        # third of the samples at most.
        distance = max(1, -(-factorial(len(keys)) // max(1, samples // 3)))
        any_orders = islice(permutations(keys), 0, None, distance)
        orders += [(_ANY_ORDER, ArrivalOrder(ranks=ranks)) for ranks in any_orders]
    return orders


def _rank_workloads(
    keys: Sequence[str], claiming_keys: Collection[str]
) -> list[tuple[str, tuple[str, ...]]]:
    """Return orders of arrival of workloads, each with its condition as a text.

    `keys` are in the order of creation. The first orders are by creation, and by the number of
    controllers between an object and its pods (hops). Then each workload with such controllers, or
    with claims to create first (`claiming_keys`), arrives first, or last.
    """
    rankings: list[tuple[str, tuple[str, ...]]] = []
    for order in (keys, sorted(keys, key=pod_orders.count_controller_hops)):
        _, _, first_name = order[0].rpartition("/")
        rankings.append((f"if {first_name} arrives first", tuple(order)))
    for key in keys[:_MOST_LATE_WORKLOADS]:
        # The time of its controllers is unknown.
        if pod_orders.count_controller_hops(key) or key in claiming_keys:
            _, _, name = key.rpartition("/")
            other_keys = [other for other in keys if other != key]
            rankings.append((f"if {name} arrives first", (key, *other_keys)))
            rankings.append((f"if {name} arrives last", (*other_keys, key)))
    return rankings


def _list_scenarios_with_waiting_pods(scene: PredictionScenario, _: int) -> Iterator[_Alternative]:
    """Yield the scene with the Pending pods outside of the plan placed first."""
    if not scene.waiting_pods:
        # None can be first.
        return
    first = scene.waiting_pods[0].name
    # Each as a bare pod with a name of its own.
    pods = [
        Workload(
            "Pod",
            pod.spec.namespace,
            f"{pod.name}-{index}",
            replicas=1,
            pod=pod.spec,
            strategy=Strategy.RECREATE,
        )
        for index, pod in enumerate(scene.waiting_pods)
    ]
    extended_scene = replace(scene, workloads=(*pods, *scene.workloads))
    arrival = ArrivalOrder(ranks=extended_scene.workload_keys)
    yield f"if {first} is scheduled first", replace(extended_scene, arrival=arrival)


def _list_scenarios_after_terminations(scene: PredictionScenario, _: int) -> Iterator[_Alternative]:
    """Yield the scene after the end of all terminating pods."""
    remaining_pods = tuple(pod for pod in scene.existing_pods if not pod.spec.is_terminating)
    if len(remaining_pods) < len(scene.existing_pods):
        yield "once terminating pods are gone", replace(scene, existing_pods=remaining_pods)


def _list_scenarios_with_other_timing(
    scene: PredictionScenario, samples: int
) -> Iterator[_Alternative]:
    """Yield scenes with other times of removed pods.

    First, all of them hold their capacity until a pod fits nowhere else (slow). Further scenes vary
    the steps: some pods are slow, and rollouts replace their pods one by one.
    """
    # Of pods of the same age.
    orders = list(_list_pod_age_permutations(scene, samples))
    rolling_workloads = {
        workload.key: workload for workload in scene.workloads if workload.has_rolling_update
    }
    has_rollout = any(
        pod.workload in rolling_workloads
        and not rolling_workloads[pod.workload].is_current(pod.spec)
        for pod in scene.existing_pods
    )
    step_samples = _TIMING_SAMPLES if has_rollout else 2 * len(orders)
    for number in range(min(samples, len(orders) + step_samples) if orders else 0):
        # See `predict` for the values of `timing`: 1 = all removed pods are slow, from 2 = number
        # of a sample.
        timing = 2 + number
        condition = "if pods change in other steps"
        if number < len(orders):
            timing = 1
            condition = "if removed pods terminate slowly"
        pods = orders[number % len(orders)]
        yield condition, replace(scene, existing_pods=pods, seed=scene.seed + number, timing=timing)


def _list_scenarios_with_coming_taints(scene: PredictionScenario, _: int) -> Iterator[_Alternative]:
    """Yield the scene with the coming taints of unready and leaving nodes."""
    if not scene.unready_nodes:
        # No taint is coming.
        return
    coming_taints = tuple(
        Taint(_UNREACHABLE, value="", effect=effect) for effect in (NO_SCHEDULE, NO_EXECUTE)
    )
    nodes: list[Node] = []
    for node in scene.cluster.nodes:
        is_unready = node.name in scene.unready_nodes
        nodes.append(replace(node, taints=node.taints + coming_taints) if is_unready else node)
    name = min(scene.unready_nodes)
    yield (
        f"once {name} takes no pods",
        replace(scene, cluster=replace(scene.cluster, nodes=tuple(nodes))),
    )


def _list_scenarios_with_image_sizes(scene: PredictionScenario, _: int) -> Iterator[_Alternative]:
    """Yield the scenes with the smallest and largest sizes of images.

    Their sizes differ between nodes.
    """
    # Without such images, there are no extreme values, and no scenes. Images of unlisted nodes
    # (None) stay unknown.
    for size, values in zip(
        ("smallest", "largest"), scene.cluster.extreme_image_values, strict=False
    ):
        nodes: list[Node] = []
        for node in scene.cluster.nodes:
            images = (
                {name: values.get(name, node.images[name]) for name in node.images}
                if node.images
                else node.images
            )
            nodes.append(replace(node, images=images))
        cluster = replace(scene.cluster, nodes=tuple(nodes))
        yield f"if the {size} size of its image counts", replace(scene, cluster=cluster)


def _list_scenarios_with_other_readiness(
    scene: PredictionScenario, _: int
) -> Iterator[_Alternative]:
    """Yield the scene with all unready pods recovered, and with none of the starting ones ready."""
    recovered_pods = tuple(map(_mark_pod_recovered, scene.existing_pods))
    if recovered_pods != scene.existing_pods:
        yield "if its pods become ready", replace(scene, existing_pods=recovered_pods)
    stopped_pods = tuple(map(_mark_pod_not_starting, scene.existing_pods))
    if stopped_pods != scene.existing_pods:
        yield "if starting pods do not become ready", replace(scene, existing_pods=stopped_pods)


def _mark_pod_recovered(pod: ExistingPod) -> ExistingPod:
    """Return a stuck pod as ready.

    A pod stuck for a permanent reason, or not stuck, is unchanged.
    """
    if pod.condition.stuck_reason in ("", *_PERMANENT_REASONS):
        return pod
    ready_condition = PodCondition(pod.condition.name, pod.condition.uid)
    return replace(pod, condition=ready_condition)


def has_permanent_failure(workload: Workload, pods: Sequence[ExistingPod]) -> bool:
    """Return whether all pods of the current template are stuck for permanent reasons.

    All pods of the template must be stuck, and all stuck pods for permanent reasons.
    """
    has_other_reason = any(
        pod.condition.stuck_reason not in ("", *_PERMANENT_REASONS) for pod in pods
    )
    return not has_other_reason and has_stuck_template(workload, pods)


def _mark_pod_not_starting(pod: ExistingPod) -> ExistingPod:
    """Return a starting pod as stuck; a ready, stuck or predicted one unchanged."""
    condition = pod.condition
    if condition.is_ready or condition.stuck_reason:
        return pod
    return replace(pod, condition=replace(condition, stuck_reason="NotReady"))


def _list_scenarios_with_other_times(
    scene: PredictionScenario, samples: int
) -> Iterator[_Alternative]:
    """Yield other scenes, each with its assumption as a text.

    The first scenes are 1 and 24 hours later. Then pods with equal or unknown start times are in
    other orders (at most `samples`).
    """
    conditions = [pod.condition for pod in scene.existing_pods]
    latest_change = max(
        (max(item.ready_time, item.creation_time) for item in conditions), default=0
    )
    now = scene.cluster.observation_time or latest_change
    # 0: no time is known without observed pods.
    for hours in (1, 24) if now else ():
        cluster = replace(scene.cluster, observation_time=now + hours * _HOUR)
        yield f"{hours} h later", replace(scene, cluster=cluster)
    for pods in _list_pod_age_permutations(scene, samples):
        yield "in another order of start", replace(scene, existing_pods=pods)


def _list_pod_age_permutations(
    scene: PredictionScenario, samples: int
) -> Iterator[tuple[ExistingPod, ...]]:
    """Yield the existing pods with other ages.

    They are several orders of the pods of a workload created in one second: their true order is
    unknown. In turn, each of these pods is the newest. The others follow in their order or in the
    reverse one: with pods a, b, c the orders (newest first) are a c b, b c a, c b a. At most
    `samples` are yielded.
    """
    # By workload and time of creation, else of the predicted start.
    groups = group_by(
        scene.existing_pods,
        lambda pod: (pod.workload, pod.condition.creation_time if pod.is_observed else pod.age),
    )
    keys = set(scene.workload_keys)
    largest = max((len(pods) for (key, _), pods in groups.items() if key in keys), default=0)
    for order in range(min(_MOST_ORDERS, largest, max(1, samples))):
        permuted_pods = []
        for pods in groups.values():
            # The pod at position `order` is the newest.
            oldest = min(pod.age for pod in pods)
            direction = 1 if order % 2 else -1
            for position, pod in enumerate(pods):
                # 0 is the newest.
                distance = (position - order) * direction % len(pods)
                # The shift leaves room for the distance below each age, so groups keep their order.
                permuted_pods.append(replace(pod, age=(oldest << _RANK_BITS) - distance))
        yield tuple(permuted_pods)


def _list_scenarios_with_newer_version(
    scene: PredictionScenario, samples: int
) -> Iterator[_Alternative]:
    """Yield the scene under each version with other scores of its pods.

    There is one only if the version is unknown and samples suffice.
    """
    if scene.cluster.version or samples < _FEWEST_SAMPLES:
        return
    for difference in VERSION_DIFFERENCES:
        if difference.is_repeated and any(
            difference.is_affected(workload.pod) for workload in scene.workloads
        ):
            cluster = replace(scene.cluster, version=difference.since)
            yield (
                f"from Kubernetes {'.'.join(map(str, difference.since))} on",
                replace(scene, cluster=cluster),
            )


def _list_scenarios_with_max_unavailable(
    scene: PredictionScenario, _: int
) -> Iterator[_Alternative]:
    """Yield the scene with StatefulSets replaced within maxUnavailable.

    The Kubernetes version may do so by default: 1.35.0 to 1.35.3 (the patch version is unknown
    here), versions from 1.37 on, or an unknown version.
    """
    # () if unknown.
    version = scene.cluster.version
    is_possible = version in ((), (1, 35)) or version >= UNAVAILABLE_CHANGE
    if is_possible and any(workload.kind == "StatefulSet" for workload in scene.workloads):
        cluster = replace(scene.cluster, limits_unavailable_pods=True)
        yield "if maxUnavailable counts", replace(scene, cluster=cluster)


# In order: the first difference of a pod is reported.
ASSUMPTIONS: Final[tuple[PredictionAssumption, ...]] = (
    PredictionAssumption("Pending pods of others", _list_scenarios_with_waiting_pods),
    PredictionAssumption("terminating pods", _list_scenarios_after_terminations),
    PredictionAssumption("nodes that are not ready", _list_scenarios_with_coming_taints),
    PredictionAssumption("image sizes", _list_scenarios_with_image_sizes),
    PredictionAssumption("pods that are not ready", _list_scenarios_with_other_readiness),
    PredictionAssumption("start times", _list_scenarios_with_other_times),
    PredictionAssumption("the timing of removals", _list_scenarios_with_other_timing),
    PredictionAssumption(VERSION, _list_scenarios_with_newer_version),
    PredictionAssumption("maxUnavailable of StatefulSets", _list_scenarios_with_max_unavailable),
    PredictionAssumption(ARRIVAL_ORDER, _list_scenarios_with_arrival_orders, has_samples=True),
    PredictionAssumption(TIES, _list_resampled_scenarios, has_samples=True),
)
