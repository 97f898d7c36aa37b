"""Record decisions of a running KubeFleet hub on random fleets, for a given time.

Run: python -m tests.conformance.record_kubefleet PROGRAMS CRDS MINUTES FILE. Adds cases
to FILE (*.jsonl.gz).

Placements do not influence each other, so the hub decides on many at once. Then their policies
change, and it decides again. Ties are broken by name, so no other decision is equally right.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from nexusform.domains.fleet.scheduling.bindings import Health, Member
from nexusform.domains.fleet.scheduling.fleet_api_validation import parse_resource_usage
from nexusform.domains.program_checks.workflow import kubefleet_check
from nexusform.domains.program_checks.workflow.loopback_programs import (
    LoopbackPrograms,
    ProgramProblem,
    open_programs,
)
from nexusform.kubernetes.matching import Taint
from tests.conformance.case_writer import run_recorder

Body = dict[str, Any]
_PLACEMENTS = f"{kubefleet_check._PLACEMENTS}/clusterresourceplacements"
_MEMBERS = 12
_AT_ONCE = 40  # placements
# policies of a placement, one after the other.
_ROUNDS = 4
# For the decisions on all placements.
_SECONDS = 60.0
# A member without a heartbeat for 5 minutes gets no placement, and only one is sent.
_FLEET_SECONDS = 200.0
_CPU = "resources.kubernetes-fleet.io/available-cpu"
_COST = "kubernetes.azure.com/per-cpu-core-cost"
_REGIONS = ("east", "west", "north")
_TIERS = ("gold", "base")


def build_members(draw: Random) -> list[Member]:
    """Build members with labels, taints, properties and resources."""
    members = []
    for number in range(_MEMBERS):
        labels = {"region": draw.choice(_REGIONS), "tier": draw.choice(_TIERS)}
        if draw.random() < 0.3:
            del labels[draw.choice(sorted(labels))]
        taints = (Taint("dedicated", "x", "NoSchedule"),) if draw.random() < 0.2 else ()
        total = draw.choice((8, 16, 64))
        free = draw.randint(0, total)
        amounts = (
            {"cpu": str(total), "memory": f"{4 * total}Gi"},
            {"cpu": str(free), "memory": f"{4 * free}Gi"},
        )
        usage, _ = parse_resource_usage(amounts[0], amounts[0], amounts[1])
        properties = {
            "kubernetes-fleet.io/node-count": str(draw.randint(1, 9)),
            _COST: f"0.{draw.randint(10, 99)}",
        }
        members.append(
            Member(f"member-{number:02}", labels, taints, properties, usage, Health.HEALTHY, None)
        )
    return members


def build_policy(draw: Random) -> Body:
    """Build a random policy."""
    kind = draw.choice(("PickN", "PickN", "PickN", "PickAll", "PickFixed"))
    if kind == "PickFixed":
        names = draw.sample(range(_MEMBERS), draw.randint(1, 4))
        return {"placementType": kind, "clusterNames": [f"member-{number:02}" for number in names]}
    policy: Body = {"placementType": kind}
    affinity: Body = {}
    if draw.random() < 0.5:
        terms = [build_term(draw) for _ in range(draw.randint(1, 2))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"clusterSelectorTerms": terms}
    if kind == "PickN":
        policy["numberOfClusters"] = draw.randint(1, 8)
        if draw.random() < 0.5:
            preferred = [
                {"weight": draw.choice((-50, 10, 20, 100)), "preference": build_preference(draw)}
                for _ in range(draw.randint(1, 2))
            ]
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
        if draw.random() < 0.4:
            policy["topologySpreadConstraints"] = [
                {
                    "maxSkew": draw.choice((1, 2)),
                    "topologyKey": draw.choice(("region", "tier")),
                    "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway")),
                }
            ]
    if affinity:
        policy["affinity"] = {"clusterAffinity": affinity}
    if draw.random() < 0.3:
        policy["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    return policy


def build_term(draw: Random) -> Body:
    """Build a required term: labels, or a property."""
    if draw.random() < 0.6:
        return {"labelSelector": {"matchLabels": {"region": draw.choice(_REGIONS)}}}
    rule = {
        "name": _CPU,
        "operator": draw.choice(("Gt", "Ge", "Lt", "Le")),
        "values": [str(draw.randint(1, 30))],
    }
    return {"propertySelector": {"matchExpressions": [rule]}}


def build_preference(draw: Random) -> Body:
    """Build a preference: labels, or the order of a property."""
    if draw.random() < 0.5:
        return {"labelSelector": {"matchLabels": {"tier": draw.choice(_TIERS)}}}
    return {
        "propertySorter": {
            "name": draw.choice((_CPU, _COST)),
            "sortOrder": draw.choice(("Ascending", "Descending")),
        }
    }


class FleetRecorder(kubefleet_check.FleetCheck):
    """Placements of a running hub, and their bindings after the last decision."""

    def record_round(self, bodies: dict[str, Body], previous: dict[str, Body]) -> Iterator[Body]:
        """Create or change placements, and yield a case for each."""
        for name, body in bodies.items():
            if name in previous:
                # A merge patch would keep the terms of the earlier policy.
                current = self._running.call("GET", f"{_PLACEMENTS}/{name}")
                changed = {**current, "spec": {**current["spec"], **body["spec"]}}
                self._running.call("PUT", f"{_PLACEMENTS}/{name}", changed)
            else:
                self._running.call("POST", _PLACEMENTS, body)
        statuses: dict[str, str] = {}

        def is_decided() -> bool:
            for item in self._running.call("GET", _PLACEMENTS)["items"]:
                statuses[item["metadata"]["name"]] = kubefleet_check.find_scheduled_status(item)
            if all(statuses.get(name) for name in bodies):
                return True
            time.sleep(0.1)
            return False

        self._running.wait_for("hubagent", is_decided, _SECONDS)
        for name, body in bodies.items():
            before = previous.get(name)
            yield {
                "system": kubefleet_check.PROGRAM,
                "version": self._version,
                "snapshot": {
                    "members": self._members,
                    "placement": before and before["body"],
                    "bindings": before["bindings"] if before else [],
                    "fulfilled": bool(before and before["fulfilled"]),
                },
                "request": {"members": self._members, "placement": body},
                **self._read_decision(name, body, statuses[name] == "True", previous),
            }

    def _read_decision(
        self, name: str, body: Body, is_fulfilled: bool, previous: dict[str, Body]
    ) -> Body:
        """Return the decision on a placement, and keep its bindings for the next round."""
        bindings = [
            {
                "cluster": item["spec"]["targetCluster"],
                "state": item["spec"]["state"],
                **kubefleet_check.read_binding_scores(item["spec"]),
            }
            for item in self.list_bindings(name)
        ]
        previous[name] = {"body": body, "bindings": bindings, "fulfilled": is_fulfilled}
        clusters = {
            item["cluster"]: {
                "affinity": item["affinity"],
                "topologySpread": item["topologySpread"],
            }
            for item in bindings
            if item["state"] != "Unscheduled"
        }
        return {"decision": {"clusters": clusters, "fulfilled": is_fulfilled}, "equivalent": []}


def record_decisions(programs: str, definitions: str, minutes: float) -> Iterator[Body]:
    """Yield the decisions on random fleets."""
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as directory:
        for name in ("etcd", "kube-apiserver", "hubagent"):
            Path(directory, name).symlink_to(Path(programs, name).absolute())
        Path(directory, "crds").symlink_to(Path(definitions).absolute())
        for seed in itertools.count(int(time.time()) % 1_000_000_000):
            with open_programs(directory) as running:
                try:
                    yield from record_fleet(running, Path(directory), Random(seed), end)
                except ProgramProblem as problem:
                    # An agent with two active policy snapshots of a placement decides nothing
                    # more about it.
                    print(f"fleet {seed}: {problem}", file=sys.stderr)
            if time.monotonic() > end:
                return


def record_fleet(
    running: LoopbackPrograms, directory: Path, draw: Random, end: float
) -> Iterator[Body]:
    """Yield the decisions on one fleet."""
    kubefleet_check.start_hub_agent(running, directory)
    recorder = FleetRecorder(
        running, kubefleet_check.read_agent_version(directory / "hubagent"), {}
    )
    recorder.join_members(tuple(build_members(draw)))
    end = min(end, time.monotonic() + _FLEET_SECONDS)
    for batch in range(20):
        previous: dict[str, Body] = {}
        names = [f"p{batch}-{number}" for number in range(_AT_ONCE)]
        for _ in range(_ROUNDS):
            bodies = {}
            for name in names:
                body = kubefleet_check.build_named_object(
                    "placement.kubernetes-fleet.io/v1beta1", "ClusterResourcePlacement", name
                )
                selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "nothing"}
                body["spec"] = {
                    "policy": change_policy(draw, previous.get(name)),
                    "resourceSelectors": [selector],
                }
                bodies[name] = body
            yield from recorder.record_round(bodies, previous)
            if time.monotonic() > end:
                return


def change_policy(draw: Random, previous: Body | None) -> Body:
    """Return a new policy.

    The type of an existing placement cannot change.
    """
    while True:
        policy = build_policy(draw)
        if (
            previous is None
            or policy["placementType"] == previous["body"]["spec"]["policy"]["placementType"]
        ):
            return policy


if __name__ == "__main__":
    run_recorder(Path(sys.argv[4]), record_decisions(sys.argv[1], sys.argv[2], float(sys.argv[3])))
