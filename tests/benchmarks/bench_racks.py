"""Benchmark of VM placement.

It measures VMs per second of processor time, tie-break digests per VM, memory, and growth.

Run: python tests/benchmarks/bench_racks.py [--large] [--samples]

The site has racks of equal machines (BOM 1.7.3 figures). The VMs belong to clusters with a control
plane and three pools; their SKUs come from a fixed mix in a fixed recurrence. The peers are, on a
smaller site of the same kind: the brute-force greedy of tests/scheduling/racks (placements must
agree) and, if numpy is installed, a score-and-argmin over arrays of machines.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

# For the brute force.
sys.path.insert(0, str(Path(__file__).parents[2]))

from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.rules import tie_break
from nexusform.scheduling.racks.uncertainty import certainty
from nexusform.scheduling.racks.uncertainty.certainty import SamplingResult, repeat_with_samples
from nexusform.scheduling.racks.uncertainty.operations import PlaceOperation
from nexusform.scheduling.racks.vms import (
    Demand,
    Machine,
    NoFitReason,
    Placement,
    RackSpread,
    VmName,
    VmSku,
)
from nexusform.scheduling.sku_catalogue import CATALOGUES
from tests.scheduling.racks.brute_force import BruteForce

SKUS = CATALOGUES["2026-03"].vm_skus
# Mean 33 GiB: ten VMs per machine use three quarters of its 448 GiB (the disk has
# capacity for eleven).
MIX = [
    "NC_G2_8_v1",
    "NC_P4_28_v1",
    "NC_G6_28_v1",
    "NC_P10_56_v1",
    "NC_G2_8_v1",
    "NC_G6_28_v1",
    "NC_P14_74_v1",
]


def build_site(racks: int, machines: int) -> list[Machine]:
    """Return `racks` racks with `machines` machines each."""
    return [
        Machine(f"r{r:04d}-bm{m:03d}", f"r{r:04d}", str(r), m, "bom-1.7.3", 2, 48, 224, 3500)
        for r in range(1, racks + 1)
        for m in range(1, machines + 1)
    ]


def generate_demands(count: int, pool_size: int) -> Iterator[Demand]:
    """Yield the demands of `count` VMs: clusters with a control plane of 3 and three pools."""
    made = 0
    state = 1
    cluster = 0
    while made < count:
        name = f"c{cluster}"
        cluster += 1
        for pool, size in (
            ("control-plane", 3),
            ("p1", pool_size),
            ("p2", pool_size // 2),
            ("p3", pool_size // 4),
        ):
            state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            sku = SKUS[MIX[(state >> 33) % len(MIX)]]
            for number in range(min(size, count - made)):
                yield Demand(VmName(name, name, pool, number), sku)
                made += 1


@contextmanager
def count_digests() -> Iterator[Counter[str]]:
    """Count the candidates with a broken tie until the context ends."""
    lowest = tie_break.find_lowest_digest
    counter = Counter[str]()

    def count_and_find(text: blake2b, names: Sequence[bytes], tied: Sequence[int]) -> int:
        counter["digests"] += len(tied)
        return lowest(text, names, tied)

    tie_break.find_lowest_digest = count_and_find
    try:
        yield counter
    finally:
        tie_break.find_lowest_digest = lowest


def build_used_scheduler(machines: list[Machine]) -> RackScheduler:
    """Return a site with a VM of 1 to 97 GiB on every machine, so that few machines tie."""
    scheduler = RackScheduler(machines)
    sizes = [VmSku(f"own-{gib}", 1, 0, gib, 0) for gib in range(1, 98)]
    for number, machine in enumerate(machines):
        placement = Placement(machine.name, machine.rack, machine.availability_zone, (0,))
        scheduler.add_existing(
            VmName("inventory", "inventory", "vms", number), sizes[number * 31 % 97], placement
        )
    return scheduler


def measure(
    racks: int, machines: int, vms: int, pool_size: int, *, standing: bool = False
) -> tuple[float, int]:
    """Return the seconds of placement and the number of unplaced VMs.

    The time to build site and demands is not counted.
    """
    make = build_used_scheduler if standing else RackScheduler
    scheduler = make(build_site(racks, machines))
    refused = 0
    seconds = 0.0
    source = generate_demands(vms, pool_size)
    while True:
        batch = [demand for _, demand in zip(range(20_000), source, strict=False)]
        if not batch:
            return seconds, refused
        gc.collect()
        start = time.process_time()
        place = scheduler.place
        for demand in batch:
            if isinstance(place(demand), NoFitReason):
                refused += 1
        seconds += time.process_time() - start


def print_row(
    label: str,
    racks: int,
    machines: int,
    vms: int,
    pool_size: int,
    *,
    digests: bool = True,
    standing: bool = False,
) -> float:
    """Measure one shape and print its line."""
    seconds, refused = measure(racks, machines, vms, pool_size, standing=standing)
    each = ""
    if digests:
        with count_digests() as counter:
            measure(racks, machines, vms, pool_size, standing=standing)
        each = f"{counter['digests'] / vms:.1f}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{label:<44}{vms:>9,}{racks * machines:>9,}{seconds:>8.2f} s{vms / seconds:>11,.0f} VMs/s"
        f"{each:>8}{refused:>8}{peak:>8.0f} MB"
    )
    return seconds


def measure_digest_time() -> float:
    """Return the nanoseconds of the tie-break digest of one candidate.

    It is the lower bound of every tie.
    """
    names = [f"r0001-bm{m:03d}".encode() for m in range(100)]
    text = tie_break.build_vm_digest(8, VmName("c", "c", "p", 1))
    start = time.process_time()
    for _ in range(2_000):
        tie_break.find_lowest_digest(text, names, range(100))
    return (time.process_time() - start) / 200_000 * 1e9


def compare_brute_force() -> None:
    """Run the same small job with the engine and with the brute-force greedy.

    The placements must agree.
    """
    machines = build_site(8, 16)
    jobs = list(generate_demands(600, 40))
    start = time.process_time()
    scheduler = RackScheduler(machines)
    fast = [scheduler.place(demand) for demand in jobs]
    engine = time.process_time() - start
    start = time.process_time()
    brute = BruteForce(machines, RackSpread.POOL, 8)
    slow = [brute.place(demand) for demand in jobs]
    other = time.process_time() - start
    assert [None if isinstance(place, NoFitReason) else place for place in fast] == slow, (
        "placements differ"
    )
    print(
        f"600 VMs on 128 machines: engine {600 / engine:,.0f} VMs/s, brute force "
        f"{600 / other:,.0f} VMs/s;"
    )
    print(f"  ratio {other / engine:,.0f}; placements identical")


def measure_score_and_argmin() -> None:
    """Measure a numpy peer: one score per machine, argmin per VM.

    It has no ties, cells or disk, so it does less.
    """
    try:
        import numpy as np
    except ModuleNotFoundError:
        print("numpy is not installed: no score-and-argmin peer")
        return
    racks = 100
    each = 100
    jobs = list(generate_demands(20_000, 1_000))
    scheduler = RackScheduler(build_site(racks, each))
    start = time.process_time()
    scheduler.place_all(jobs)
    engine = time.process_time() - start
    rack_of = np.repeat(np.arange(racks), each)
    memory = np.zeros(racks * each)
    rack_vms = np.zeros(racks)
    pools: dict[tuple[str, str], object] = {}
    start = time.process_time()
    for demand in jobs:
        counts = pools.setdefault((demand.vm.owner, demand.vm.pool), np.zeros(racks))
        score = (counts * 1e12 + rack_vms * 1e6)[rack_of] + memory
        score[memory + demand.sku.memory_gib > 448] = np.inf
        chosen = int(score.argmin())
        memory[chosen] += demand.sku.memory_gib
        rack_vms[rack_of[chosen]] += 1
        counts[rack_of[chosen]] += 1
    other = time.process_time() - start
    print(
        f"20,000 VMs on 10,000 machines: numpy score-and-argmin {20_000 / other:,.0f} VMs/s,",
        end=" ",
    )
    print(f"engine {20_000 / engine:,.0f} VMs/s; ratio {other / engine:,.1f}")


def measure_repetitions() -> None:
    """Measure 100 repetitions of 200 VMs on 128 machines.

    A plan does the same for its confidence figures.
    """
    jobs = [PlaceOperation(demand.vm, demand) for demand in generate_demands(200, 60)]
    start = time.process_time()
    repeat_with_samples(RackScheduler(build_site(8, 16)), jobs, 100)
    print(f"100 repetitions of 200 VMs on 128 machines: {time.process_time() - start:.2f} s")


def measure_small_pools(pool_size: int) -> None:
    """Compare the samples of many small clusters in sessions, and in tables for all samples.

    The results must agree.
    """
    sku = SKUS["NC_P22_112_v1"]
    operations = [
        PlaceOperation((cluster, number), Demand(VmName(cluster, cluster, "p", number), sku))
        for cluster in (f"c-{number}" for number in range(800 // pool_size))
        for number in range(pool_size)
    ]
    machines = build_site(8, 128)
    seconds: list[float] = []
    results: list[SamplingResult] = []
    for largest_session in (0, pool_size):
        certainty.MAX_PLAIN_SESSION_SIZE = largest_session
        start = time.process_time()
        results.append(repeat_with_samples(RackScheduler(machines), operations, 100))
        seconds.append(time.process_time() - start)
    assert results[0] == results[1], "results differ"
    sessions, tables = seconds
    print(
        f"100 samples of 800 VMs in pools of {pool_size}: sessions {sessions:.2f} s, tables "
        f"{tables:.2f} s; ratio {tables / sessions:.2f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--large", action="store_true", help="also 1,000,000 VMs on 100,000 machines"
    )
    parser.add_argument("--samples", action="store_true", help="only samples of small clusters")
    arguments = parser.parse_args()
    large = arguments.large
    if arguments.samples:
        for pool_size in (1, 4, 16):
            measure_small_pools(pool_size)
        return
    print(f"one tie-break digest: {measure_digest_time():.0f} ns")
    print(
        f"{'':<44}{'VMs':>9}{'machines':>9}{'time':>10}{'':>17}{'digests':>8}{'refused':>8}{'peak':>8}"
    )
    if large:
        print_row("1,000 racks of 100, pools of 200", 1000, 100, 1_000_000, 200, digests=False)
        print_row(
            "1,000 racks of 100, in use, pools of 1,000", 1000, 100, 800_000, 1_000, standing=True
        )
        return
    print_row("the document's size: 8 racks of 16", 8, 16, 1_280, 24)
    print_row("625 racks of 16, pools of 200", 625, 16, 100_000, 200)
    print_row("100 racks of 100, pools of 100", 100, 100, 100_000, 100)
    first = print_row("100 racks of 100, pools of 1,000", 100, 100, 100_000, 1_000)
    second = print_row("200 racks of 100, pools of 1,000", 200, 100, 200_000, 1_000)
    print(f"twice the machines and VMs: {second / first:.2f} times the time")
    print_row("40 racks of 250, pools of 200", 40, 250, 100_000, 200)
    print_row("100 racks of 100, in use, pools of 200", 100, 100, 80_000, 200, standing=True)
    print_row("100 racks of 100, in use, pools of 1,000", 100, 100, 80_000, 1_000, standing=True)
    compare_brute_force()
    measure_score_and_argmin()
    measure_repetitions()


if __name__ == "__main__":
    main()
