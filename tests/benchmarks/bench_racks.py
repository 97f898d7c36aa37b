"""Placement speed: VMs per second, tie-break digests per VM, memory, and growth.

Run: python tests/benchmarks/bench_racks.py [--large]

The site is made of racks of equal machines (BOM 1.7.3 figures); the VMs come as clusters with a
control plane and three pools, SKUs drawn from a fixed mix by a fixed recurrence. Peers, on a smaller
site of the same kind: the brute-force greedy of tests/scheduling/racks (placements must agree) and,
where numpy is installed, a score-and-argmin over arrays of machines.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from nexusform.scheduling.catalogue import CATALOGUES
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.model import Demand, Machine, RackSpread, VmName
from nexusform.scheduling.racks.rules import tie_break
from nexusform.scheduling.racks.shortage import Shortage

SKUS = CATALOGUES["2026-03"].vm_skus
# Mean 33 GiB, so that ten VMs a machine fill three quarters of its 448 GiB (disk would hold eleven).
MIX = ["NC_G2_8_v1", "NC_P4_28_v1", "NC_G6_28_v1", "NC_P10_56_v1", "NC_G2_8_v1", "NC_G6_28_v1", "NC_P14_74_v1"]


def site(racks: int, machines: int) -> list[Machine]:
    """`racks` racks of `machines` machines each."""
    return [
        Machine(f"r{r:04d}-bm{m:03d}", f"r{r:04d}", str(r), m, "bom-1.7.3", 2, 48, 224, 3500)
        for r in range(1, racks + 1)
        for m in range(1, machines + 1)
    ]


def demands(count: int, pool_size: int) -> Iterator[Demand]:
    """`count` VMs: clusters of a control plane of 3 and three pools."""
    made, state = 0, 1
    cluster = 0
    while made < count:
        name = f"c{cluster}"
        cluster += 1
        for pool, size in (("control-plane", 3), ("p1", pool_size), ("p2", pool_size // 2), ("p3", pool_size // 4)):
            state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            sku = SKUS[MIX[(state >> 33) % len(MIX)]]
            for number in range(min(size, count - made)):
                yield Demand(VmName(name, name, pool, number), sku)
                made += 1


class Digests:
    """Counts the candidates that were digested."""

    def __init__(self) -> None:
        self.count = 0
        self._lowest = tie_break.lowest

    def __enter__(self) -> Digests:
        def counted(text, names, tied):  # noqa: ANN001, ANN202 - same face as tie_break.lowest
            self.count += len(tied)
            return self._lowest(text, names, tied)

        tie_break.lowest = counted
        return self

    def __exit__(self, *_: object) -> None:
        tie_break.lowest = self._lowest


def measure(racks: int, machines: int, vms: int, pool_size: int) -> tuple[float, int]:
    """Seconds for placing, and how many did not fit. Making the demands is not counted."""
    scheduler = RackScheduler(site(racks, machines))
    refused = 0
    seconds = 0.0
    source = demands(vms, pool_size)
    while True:
        batch = [demand for _, demand in zip(range(20_000), source, strict=False)]
        if not batch:
            return seconds, refused
        gc.collect()
        start = time.perf_counter()
        place = scheduler.place
        for demand in batch:
            if isinstance(place(demand), Shortage):
                refused += 1
        seconds += time.perf_counter() - start


def row(label: str, racks: int, machines: int, vms: int, pool_size: int, *, digests: bool = True) -> float:
    """Measure one shape and print its line."""
    seconds, refused = measure(racks, machines, vms, pool_size)
    each = ""
    if digests:
        with Digests() as counter:
            measure(racks, machines, vms, pool_size)
        each = f"{counter.count / vms:.1f}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{label:<44}{vms:>9,}{racks * machines:>9,}{seconds:>8.2f} s{vms / seconds:>11,.0f} VMs/s"
        f"{each:>8}{refused:>8}{peak:>8.0f} MB"
    )
    return seconds


def peers() -> None:
    """The same small job by the engine and by its peers."""
    from tests.scheduling.racks.brute_force import BruteForce

    machines, jobs = site(8, 16), list(demands(600, 40))
    start = time.perf_counter()
    scheduler = RackScheduler(machines)
    fast = [scheduler.place(demand) for demand in jobs]
    engine = time.perf_counter() - start
    start = time.perf_counter()
    brute = BruteForce(machines, RackSpread.POOL, 8)
    slow = [brute.place(demand) for demand in jobs]
    other = time.perf_counter() - start
    assert [None if isinstance(p, Shortage) else p for p in fast] == slow, "placements differ"
    print(f"engine {len(jobs) / engine:,.0f} VMs/s, brute force {len(jobs) / other:,.0f} VMs/s on 128 machines: ", end="")
    print(f"{other / engine:,.0f} times; placements identical")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true", help="also 1,000,000 VMs on 100,000 machines")
    large = parser.parse_args().large
    print(f"{'':<44}{'VMs':>9}{'machines':>9}{'time':>10}{'':>17}{'digests':>8}{'refused':>8}{'peak':>8}")
    if large:
        row("1,000 racks of 100, pools of 800", 1000, 100, 1_000_000, 800, digests=False)
        return
    row("the document's size: 8 racks of 16", 8, 16, 1_280, 24)
    row("625 racks of 16, pools of 200", 625, 16, 100_000, 200)
    row("100 racks of 100, pools of 100", 100, 100, 100_000, 100)
    first = row("100 racks of 100, pools of 1,000", 100, 100, 100_000, 1_000)
    second = row("200 racks of 100, pools of 1,000", 200, 100, 200_000, 1_000)
    print(f"twice the machines and VMs: {second / first:.2f} times the time")
    row("40 racks of 250, pools of 200", 40, 250, 100_000, 200)
    peers()


if __name__ == "__main__":
    main()
