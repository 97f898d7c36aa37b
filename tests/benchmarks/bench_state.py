"""Benchmark of the state of many instances.

Encode and decode against the json module on the same document.

Run: python tests/benchmarks/bench_state.py [instances]
"""

import json
import sys
import time
from typing import Any

from nexusform.resources.address import Address
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.state.state_codec import decode_state, encode_state


def build_state(count: int) -> State:
    instances = {}
    for number in range(count):
        attributes = {
            "id": f"lab/vm-{number}",
            "name": f"vm-{number}",
            "site_id": "lab",
            "cpu_cores": 8,
            "memory_size_gb": 64,
            "availability_zone": str(number % 3 + 1),
            "machine": f"rack{number % 40}-bm{number % 16:02}",
            "rack": f"rack{number % 40}",
            "numa_cells": [number % 2],
            "placement_hints": [],
            "tags": {"owner": "team", "env": "lab"},
        }
        address = Address((), "managed", "nexus_virtual_machine", "vm", number)
        made = ObjectState(attributes, number + 1, dependencies=("nexus_rack.r", "nexus_site.s"))
        instances[address] = InstanceState(made)
    return State("l", 1, "0.1.0", "c", instances, last_creation=count)


def measure_best_time(work: Any, times: int = 3) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    state = build_state(count)
    data = encode_state(state)
    document = json.loads(data)
    rows = [
        (
            "save",
            measure_best_time(lambda: encode_state(state)),
            measure_best_time(lambda: json.dumps(document, indent=2, sort_keys=True)),
        ),
        (
            "load",
            measure_best_time(lambda: decode_state(data, "s")),
            measure_best_time(lambda: json.loads(data)),
        ),
    ]
    print(f"{count} instances, {len(data) / 1e6:.0f} MB")
    print(f"{'':6}{'nexusform':>12}{'json module':>14}")
    for name, ours, theirs in rows:
        print(f"{name:6}{ours:>10.2f} s{theirs:>12.2f} s")


if __name__ == "__main__":
    main()
