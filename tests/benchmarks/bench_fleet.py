"""Benchmark of fleets: schedule placements over clusters from scratch, then after a change.

The change is one property.

Run: python tests/benchmarks/bench_fleet.py [--placements N] [--clusters N]

Every placement has its own policy: PickN with required terms and a property sorter, PickN spread
over regions and days, PickAll by label and property, PickFixed. Then one node count changes: the
watcher's table names the queued placements, and they are scheduled again.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterable

from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import (
    ClusterSelectorTerm,
    Member,
    PlacementType,
    Policy,
    PreferredTerm,
    PropertyRequirement,
    PropertySorter,
    ResourceUsage,
    TopologySpreadConstraint,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.policy_snapshots import build_next_snapshot
from nexusform.domains.fleet.scheduling.scheduling_cycle import CycleResult, run_scheduling_cycles
from nexusform.domains.fleet.scheduling.watcher import WatchedPlacement, enqueue_placements
from nexusform.kubernetes.matching import Taint, build_label_selector
from nexusform.kubernetes.quantity import build_quantity

NODES = "kubernetes-fleet.io/node-count"
CPU = "resources.kubernetes-fleet.io/available-cpu"


def build_members(size: int) -> list[Member]:
    """Return clusters in 20 regions, 7 update days and 3 environments; every tenth is tainted."""
    return [
        Member(
            f"member-{i:05d}",
            {"region": f"r{i % 20}", "day": f"d{i % 7}", "env": ("prod", "test", "dev")[i % 3]},
            (Taint("dedicated"),) if i % 10 == 0 else (),
            {NODES: str(3 + i * 7 % 50)},
            ResourceUsage(available={"cpu": build_quantity(1000 + i * 37 % 9973, scale=-3)}),
        )
        for i in range(size)
    ]


def build_policy(i: int) -> Policy:
    """Return the policy of placement number `i`; no two are equal."""
    nodes = (PropertyRequirement(NODES, "Ge", (str(3 + i % 37),)),)
    term = ClusterSelectorTerm(build_label_selector({"env": ("prod", "test", "dev")[i % 3]}), nodes)
    sorter = ClusterSelectorTerm(property_sorter=PropertySorter(CPU, "Descending"))
    preferred = (
        PreferredTerm(1 + i % 100, sorter),
        PreferredTerm(
            i // 100, ClusterSelectorTerm(build_label_selector({"region": f"r{i % 20}"}))
        ),
    )
    kind = i % 5
    if kind == 0:
        return Policy(PlacementType.PICK_ALL, required_terms=(term,))
    if kind == 1:
        return Policy(
            PlacementType.PICK_FIXED,
            cluster_names=tuple(f"member-{i * j % 1000:05d}" for j in range(1, 11)),
        )
    if kind == 2:
        spread = (
            TopologySpreadConstraint("region", 1),
            TopologySpreadConstraint("day", 1, "ScheduleAnyway"),
        )
        return Policy(
            PlacementType.PICK_N,
            20,
            required_terms=(term,),
            preferred_terms=preferred,
            spread_constraints=spread,
        )
    return Policy(
        PlacementType.PICK_N, 10 + i % 20, required_terms=(term,), preferred_terms=preferred
    )


def schedule_placements(
    roster: MemberList, policies: Iterable[tuple[int, Policy]], prior: dict[int, CycleResult]
) -> dict[int, CycleResult]:
    """Schedule the placements and return the results."""
    found = {}
    for i, asked in policies:
        held = prior[i].bindings if i in prior else ()
        found[i] = run_scheduling_cycles(held, roster, asked, build_next_snapshot(None, asked))
    return found


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--placements", type=int, default=1000)
    arguments.add_argument("--clusters", type=int, default=1000)
    given = arguments.parse_args()
    members = build_members(given.clusters)
    policies = [(i, build_policy(i)) for i in range(given.placements)]
    start = time.process_time()
    first = schedule_placements(MemberList(members), policies, {})
    nothing = time.process_time() - start
    held = sum(len(result.bindings) for result in first.values())
    changed = [replace(m, properties={NODES: "99"}) if i == 5 else m for i, m in enumerate(members)]
    start = time.process_time()
    watched = [
        WatchedPlacement(
            str(i), asked.placement_type, result.status is not None and result.status.is_fulfilled
        )
        for (i, asked), result in zip(policies, first.values(), strict=True)
    ]
    names = set(enqueue_placements(members, changed, watched))
    second = schedule_placements(
        MemberList(changed), [pair for pair in policies if str(pair[0]) in names], first
    )
    again = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{given.placements} placements, {given.clusters} clusters, {held} bindings")
    print(f"  from nothing           {nothing:6.2f} s")
    print(f"  one property changed   {again:6.2f} s  ({len(second)} placements queued)")
    print(f"  peak memory            {peak:6.0f} MB")


if __name__ == "__main__":
    main()
