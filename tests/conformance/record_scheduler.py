"""Records decisions of a running kube-scheduler on random clusters, for a given time.

Run: python -m tests.conformance.record_scheduler PROGRAMS MINUTES FILE. Adds cases to FILE (*.jsonl.gz).
"""

from __future__ import annotations

import gzip
import itertools
import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from nexusform.domains.conformance.workflow import scheduler_check
from nexusform.domains.conformance.workflow.loopback_programs import open_programs, read_version
from nexusform.domains.fleet.planning.fleet_phases import find_planned_fleet
from tests.nightly import pod_worlds

Body = dict[str, Any]
_MAX_EQUAL_NODES = 4  # a decision among more is not repeated


class Recorder(scheduler_check.SchedulerCheck):
    """Keeps each decision with the nodes that the scheduler drew."""

    recorded: list[Body]

    def needs_repetition(self, answers: list[str], expected: set[str]) -> bool:
        """Return whether another equal node may be drawn, or the first answer was too early."""
        if answers[-1] not in expected or len(expected) > _MAX_EQUAL_NODES:
            return super().needs_repetition(answers, expected)
        return set(answers) != expected and len(answers) < 8 * len(expected)

    def record_answers(self, pod: Body, answers: list[str], expected: set[str]) -> None:
        """Keep the decision. If the predicted equal nodes were not all drawn, right answers are unknown."""
        if answers[-1] not in expected or expected <= set(answers):
            self.recorded.append(self.build_case(pod, answers))


def record_decisions(programs: str, minutes: float) -> Iterator[Body]:
    """Yield the decisions on random worlds."""
    version = read_version(Path(programs, scheduler_check.PROGRAM), "--version")
    end = time.monotonic() + 60 * minutes
    with open_programs(programs) as running:
        scheduler_check.start_scheduler(running)
        check = Recorder(running, version, end)
        for seed in itertools.count(int(time.time()) % 1_000_000_000):
            check.recorded = []
            with suppress(scheduler_check.TimeIsUp):
                for inputs, pods in list_predictions(seed, version):
                    check.check_prediction(inputs, pods)
            yield from check.recorded
            if time.monotonic() > end:
                return


def list_predictions(seed: int, version: str) -> Iterator[Any]:
    """Yield the predictions of a random world."""
    world = pod_worlds.build_world(seed)
    for node in world.nodes:
        node["status"]["nodeInfo"] = {**pod_worlds._NODE_INFO, "kubeletVersion": f"v{version}"}
    classes = pod_worlds.build_priority_classes(pod_worlds._CLASSES)
    result = pod_worlds.plan_world([*world.nodes, *world.pods, *classes], world.workloads)
    fleet = find_planned_fleet(result)
    assert fleet is not None
    yield from fleet.pods.list_predictions()


def add_cases(path: Path, cases: Iterator[Body]) -> int:
    """Add cases to a file and return their number. Equal cases are written once."""
    lines = set(gzip.decompress(path.read_bytes()).decode().splitlines()) if path.exists() else set()
    before = len(lines)
    lines |= {json.dumps(case, separators=(",", ":"), sort_keys=True) for case in cases}
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in sorted(lines)).encode(), mtime=0))
    return len(lines) - before


if __name__ == "__main__":
    begun = time.monotonic()
    number = add_cases(Path(sys.argv[3]), record_decisions(sys.argv[1], float(sys.argv[2])))
    print(f"{number} decisions, {60 * number / (time.monotonic() - begun):.0f} a minute")
