"""Tests of repeated predictions: as many as there are sequences of random choices."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from nexusform.domains.pods.scheduling import random_choices
from nexusform.domains.pods.scheduling.cluster_records import Cluster, Node
from nexusform.domains.pods.scheduling.pod_orders import ArrivalOrder
from nexusform.domains.pods.scheduling.pod_prediction import PodPredictor
from nexusform.domains.pods.scheduling.random_choices import (
    RandomChoices,
    RandomFacts,
    RepeatedPrediction,
)
from tests.domains.pods.scheduling.test_pod_prediction import build_cluster, build_workload

TIED = build_cluster(3)
# Of different sizes, so that fewer nodes are tied, and not all pods fit.
SMALL = Cluster("k", tuple(Node(f"n{at}", {}, cpu=1000 * at, memory=4 << 30) for at in (1, 2)))
WORKLOADS = (
    build_workload("a", 2, cpu=600, priority=1),
    build_workload("b", 2, cpu=500),
    build_workload("c", 1, cpu=400),
)


# Orders of arrival are facts of a repetition, and assumptions make its facts.
RANDOM_MODULES = {"random_choices.py", "pod_orders.py", "assumptions.py"}


def test_nothing_else_of_a_prediction_is_random() -> None:
    """A random number drawn elsewhere would differ between repetitions with equal choices."""
    folder = Path(random_choices.__file__).parent
    modules = {
        path.name
        for path in folder.rglob("*.py")
        if re.search(
            r"^(from|import) (hashlib|zlib|random|secrets)\b", path.read_text(), re.MULTILINE
        )
    }
    assert modules == RANDOM_MODULES


def list_facts() -> list[RandomFacts]:
    """Return repetitions of all kinds: queue, orders of workloads and of pods, with evictions."""
    keys = tuple(workload.key for workload in WORKLOADS)
    arrivals = [ArrivalOrder(), ArrivalOrder(ranks=keys), ArrivalOrder(ranks=keys[::-1])]
    arrivals += [
        ArrivalOrder(
            sample, keys, has_slow_victims=sample % 2 == 0, has_fast_replacements=sample % 3 == 0
        )
        for sample in range(1, 12)
    ]
    return [RandomFacts(*facts) for facts in product(range(3), arrivals, (0, 2))]


def predict(cluster: Cluster, choices: RandomChoices) -> list[tuple[str, str, bool]]:
    prediction = PodPredictor(cluster, (), WORKLOADS, choices, (), ()).run()
    return [(item.name, item.node, item.is_certain) for item in prediction.outcomes]


def test_repetitions_equal_single_predictions() -> None:
    for cluster in (TIED, SMALL):
        repeated = RepeatedPrediction(lambda choices, cluster=cluster: predict(cluster, choices))
        results = [repeated.repeat(facts) for facts in list_facts()]
        expected = [predict(cluster, RandomChoices(facts)) for facts in list_facts()]
        assert results == expected
        assert len({tuple(result) for result in results}) > 3


def test_equal_choices_are_predicted_once() -> None:
    count = 0

    def count_predictions(choices: RandomChoices) -> str:
        nonlocal count
        count += 1
        return choices.ask(lambda facts: "even" if facts.seed % 2 == 0 else "odd")

    repeated = RepeatedPrediction(count_predictions)
    assert [repeated.repeat(RandomFacts(seed)) for seed in range(4)] == ["even", "odd"] * 2
    assert count == 2


def test_prediction_without_a_choice_is_not_repeated() -> None:
    """One workload on different nodes: no seed and no sample of timing changes anything."""
    count = 0

    def count_predictions(choices: RandomChoices) -> int:
        nonlocal count
        count += 1
        workload = build_workload("a", 1, cpu=1500)
        prediction = PodPredictor(SMALL, (), (workload,), choices, (), ()).run()
        return len(prediction.outcomes)

    repeated = RepeatedPrediction(count_predictions)
    for seed in range(50):
        assert repeated.repeat(RandomFacts(seed, timing=seed)) == 1
    assert count == 1
