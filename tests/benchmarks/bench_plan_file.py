"""Benchmark of plan files with many changes and placements: write and read.

Run: python tests/benchmarks/bench_plan_file.py [changes]
"""

import sys
import time

from nexusform.diagnostics.diagnostic import Position, Span
from nexusform.plans.plan import (
    Action,
    Change,
    PlacementAction,
    PlacementChange,
    Plan,
    Step,
    StepKind,
)
from nexusform.plans.saved.plan_file import read_plan_file, write_plan_file
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import Placement
from nexusform.values.typed_value import UNKNOWN


def build_plan(count: int) -> Plan:
    changes = []
    steps = []
    placements = []
    span = Span("main.tf", Position(1, 1, 0), Position(9, 2, 200))
    for number in range(count):
        address = Address((), "managed", "nexus_virtual_machine", "vm", number)
        after = {
            "id": UNKNOWN,
            "name": f"vm-{number}",
            "site_id": "lab",
            "cpu_cores": 8,
            "zones": ["1", "2"],
        }
        changes.append(
            Change(address, Action.CREATE, None, after, "simulated", number + 1, 0, source=span)
        )
        steps.append(Step(number, StepKind.CREATE, number, (), None, after))
        target = Placement(f"bm{number % 99}", "r1", "1", (0,))
        placements.append(
            PlacementChange(
                address,
                "vm",
                f"vm-{number}",
                PlacementAction.PLACE,
                None,
                target,
                "new",
                number=number,
            )
        )
    return Plan(changes=tuple(changes), steps=tuple(steps), placements=tuple(placements))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    plan = build_plan(count)
    start = time.perf_counter()
    data = write_plan_file(plan, {})
    written = time.perf_counter()
    read_plan_file(data)
    done = time.perf_counter()
    print(f"{count} changes, steps and placements, {len(data) / 1e6:.1f} MB")
    print(f"write {written - start:.2f} s, read {done - written:.2f} s")


if __name__ == "__main__":
    main()
