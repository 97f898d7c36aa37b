"""Tests of Deployments with pending pods during a template change.

The figures are the numbers of running and pending pods per template. Each scenario was run on a
real kube-controller-manager and kube-scheduler (1.34.4) with three nodes of four CPUs. If the
figures depend on timing, no pod was ready before the next pass of the controller.
"""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    Node,
    PodSpec,
    Requests,
    Strategy,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_outcomes import REMOVE, PodsPrediction
from nexusform.domains.pods.scheduling.pod_prediction import predict

NODES = tuple(Node(f"n{at}", cpu=4000, memory=16 << 30) for at in range(3))


def parse_deployment(text: str) -> Workload:
    """Return a Deployment from text.

    `6 a 100` is six pods of template a with 100 milli-CPUs each, `6 b hung` six unschedulable pods.
    A trailing `0%` sets a surge of half and no unavailable pods.
    """
    replicas, template, size, *more = text.split()
    count = int(replicas)
    asked = 99_000 if size == "hung" else int(size)
    spec = PodSpec(requests=Requests(cpu=asked), template=template)
    surge = (count + 1) // 2 if more else -(-count // 4)
    return Workload(
        "Deployment",
        "default",
        "web",
        count,
        spec,
        Strategy.ROLLING,
        surge,
        0 if more else count // 4,
    )


def summarize_pods(workload: Workload, found: PodsPrediction) -> str:
    """Return a summary without zero counts.

    An example is `5 run, 1 run of old, 4 wait, 3 wait of old`.
    """
    counts: Counter[str] = Counter()
    for outcome in found.outcomes:
        if outcome.action != REMOVE:
            old = outcome.spec is not None and outcome.spec.template != workload.pod.template
            counts[f"{'run' if outcome.node else 'wait'}{' of old' if old else ''}"] += 1
    return ", ".join(f"{counts[key]} {key}" for key in sorted(counts))


def run_steps(steps: str) -> list[str]:
    """Return the summary of each step.

    Repeating a step must not change anything. A leading `-` removes a node.
    """
    standing: list[ExistingPod] = []
    before: Workload | None = None
    tale: list[str] = []
    for step in steps.split("; "):
        nodes = NODES[:2] if step.startswith("-") else NODES
        workload = asked = parse_deployment(step.lstrip("-"))
        if before is not None and before.replicas != asked.replicas:
            workload = replace(asked, previous_max_pods=before.replicas + before.max_surge)
        found = predict(Cluster("k", nodes), standing, [workload])
        tale.append(summarize_pods(workload, found))
        standing = [
            ExistingPod(each.workload, each.number, each.node, each.spec or asked.pod)
            for each in found.outcomes
            if each.action != REMOVE
        ]
        again = predict(Cluster("k", nodes), standing, [asked])
        assert {each.action for each in again.outcomes} <= {"keep"}, step
        before = asked
    return tale


STORIES = [
    # Three blocked templates, and a scale-out together with the third.
    (
        "6 a 100; 6 b hung; 6 c hung; 12 d hung",
        [
            "6 run",
            "5 run of old, 3 wait",
            "5 run of old, 3 wait",
            "5 run of old, 6 wait, 4 wait of old",
        ],
    ),
    (
        "6 a 100; 6 b hung; 12 c hung",
        ["6 run", "5 run of old, 3 wait", "5 run of old, 6 wait, 4 wait of old"],
    ),
    (
        "4 a 100; 4 b hung; 4 c hung; 9 d hung",
        [
            "4 run",
            "3 run of old, 2 wait",
            "3 run of old, 2 wait",
            "3 run of old, 5 wait, 4 wait of old",
        ],
    ),
    (
        "6 a 100 0%; 6 b hung 0%; 6 c hung 0%; 10 d hung 0%",
        [
            "6 run",
            "6 run of old, 3 wait",
            "6 run of old, 3 wait",
            "6 run of old, 5 wait, 4 wait of old",
        ],
    ),
    (
        "6 a 100; 6 b hung; 6 c hung; 6 d hung; 12 d hung",
        ["6 run", *["5 run of old, 3 wait"] * 3, "9 run of old, 6 wait"],
    ),
    (
        "6 a 100; 6 b hung; 7 c hung",
        ["6 run", "5 run of old, 3 wait", "5 run of old, 3 wait, 1 wait of old"],
    ),
    # Then a fourth template, a scale-out, a scale-in, and a template with schedulable pods.
    (
        "6 a 100; 6 b hung; 12 c hung; 12 d hung",
        ["6 run", "5 run of old, 3 wait", *["5 run of old, 6 wait, 4 wait of old"] * 2],
    ),
    (
        "6 a 100; 6 b hung; 12 c hung; 7 c hung",
        [
            "6 run",
            "5 run of old, 3 wait",
            "5 run of old, 6 wait, 4 wait of old",
            "3 run of old, 4 wait, 2 wait of old",
        ],
    ),
    (
        "6 a 100; 6 b hung; 12 c hung; 2 c hung",
        [
            "6 run",
            "5 run of old, 3 wait",
            "5 run of old, 6 wait, 4 wait of old",
            "1 run of old, 1 wait, 1 wait of old",
        ],
    ),
    (
        "6 a 100; 6 b hung; 12 c hung; 12 d 100",
        ["6 run", "5 run of old, 3 wait", "5 run of old, 6 wait, 4 wait of old", "12 run"],
    ),
    ("6 a 100; 6 b hung; 6 c hung; 12 d 100", ["6 run", *["5 run of old, 3 wait"] * 2, "12 run"]),
    # Return to the running template, and the reverse.
    ("4 a 100; 4 b hung; 4 a 100", ["4 run", "3 run of old, 2 wait", "4 run"]),
    ("6 a 100; 6 b hung; 6 c hung; 12 a 100", ["6 run", *["5 run of old, 3 wait"] * 2, "12 run"]),
    (
        "6 a 100; 6 b hung; 6 c hung; 12 b hung",
        ["6 run", *["5 run of old, 3 wait"] * 2, "5 run of old, 6 wait, 4 wait of old"],
    ),
    # No pod has ever run.
    ("4 a hung; 4 b hung", ["4 wait", "2 wait, 3 wait of old"]),
    ("4 a hung; 4 b hung; 4 c hung", ["4 wait", *["2 wait, 3 wait of old"] * 2]),
    ("4 a hung; 9 b hung", ["4 wait", "5 wait, 7 wait of old"]),
    ("8 a hung; 3 b hung", ["8 wait", "1 wait, 3 wait of old"]),
    ("4 a hung; 4 b 100", ["4 wait", "4 run"]),
    ("6 a hung; 9 b 2000; 7 b 2000", ["6 wait", "6 run, 3 wait, 1 wait of old", "6 run, 1 wait"]),
    # The nodes have capacity for three of them.
    ("5 a 4000; 5 b 4000", ["3 run, 2 wait", "3 run of old, 3 wait, 1 wait of old"]),
    ("6 a 4000; 6 b 4000", ["3 run, 3 wait", "3 run of old, 3 wait, 2 wait of old"]),
    ("9 a 4000; 9 b 3000", ["3 run, 6 wait", "3 run of old, 5 wait, 4 wait of old"]),
    ("3 a 4000; 6 b 4000", ["3 run", "3 run of old, 3 wait, 2 wait of old"]),
    ("3 a 4000; 8 b 3000", ["3 run", "3 run of old, 4 wait, 3 wait of old"]),
    ("3 a 4000; 12 b 4000; 12 c 4000", ["3 run", *["3 run of old, 6 wait, 6 wait of old"] * 2]),
    (
        "8 a 4000; 8 b hung; 10 c hung",
        [
            "3 run, 5 wait",
            "3 run of old, 4 wait, 3 wait of old",
            "3 run of old, 5 wait, 5 wait of old",
        ],
    ),
]


@pytest.mark.parametrize(("steps", "expected"), STORIES, ids=[steps for steps, _ in STORIES])
def test_running_and_pending_pods_per_step(steps: str, expected: list[str]) -> None:
    assert run_steps(steps) == expected


def test_pods_of_lost_node_count_in_proportional_scaling() -> None:
    """Eight pods are the maximum."""
    tale = run_steps("1 a 4000; 10 b 3000; -6 b 3000")
    assert tale == [
        "1 run",
        "3 run of old, 5 wait, 5 wait of old",
        "2 run of old, 4 wait, 2 wait of old",
    ]
