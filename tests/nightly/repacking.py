"""Compare the answers of repacking with an integer program of scipy on random sites.

It runs for a given time.

The program ignores the order of re-creations, so its answer is a lower bound. An answer equal to it
is optimal if it is feasible on the site with all other machines cordoned. If the product reports a
gap, the program does not decide whether an order exists.

Run: python -m tests.nightly.repacking MINUTES [SITES] [SEED]
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import Any

from nexusform.domains.whatif.questions.repack_context import RepackRequest
from nexusform.domains.whatif.questions.repack_planning import plan_repack
from tests.domains.whatif.questions.repack_sites import LARGE, SKUS, build_site_with_history
from tests.domains.whatif.questions.test_repack_orders import build_site, replay

IMPOSSIBLE = -1
GAP = "gap"
CELL_RESOURCES = (
    ("cpus_in_cell", "cpus_per_cell"),
    ("mib_in_cell", "memory_mib_per_cell"),
    ("vfs_in_cell", "vfs_per_cell"),
)


class IntegerProgram:
    """Variables with costs and bounds, and rows of coefficients."""

    def __init__(self) -> None:
        self.variables: dict[tuple[Any, ...], int] = {}
        self.costs: list[float] = []
        self.maximums: list[float] = []
        self.entries: list[tuple[int, int, float]] = []
        self.lower: list[float] = []
        self.upper: list[float] = []

    def add_variable(self, key: tuple[Any, ...], cost: float, maximum: float) -> None:
        self.variables[key] = len(self.costs)
        self.costs.append(cost)
        self.maximums.append(maximum)

    def add_row(
        self, lower: float, coefficients: Iterable[tuple[tuple[Any, ...], float]], upper: float
    ) -> None:
        self.entries += [
            (len(self.lower), self.variables[key], value) for key, value in coefficients
        ]
        self.lower.append(lower)
        self.upper.append(upper)

    def minimize(self) -> int | None:
        """Return the minimum cost, IMPOSSIBLE, or None if the time was insufficient."""
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_matrix

        rows, columns, values = zip(*self.entries, strict=True)
        matrix = csr_matrix((values, (rows, columns)), shape=(len(self.lower), len(self.costs)))
        found = milp(
            np.array(self.costs),
            constraints=LinearConstraint(matrix, self.lower, self.upper),
            integrality=np.ones(len(self.costs)),
            bounds=Bounds(0, np.array(self.maximums)),
            options={"time_limit": 60},
        )
        return IMPOSSIBLE if found.status == 2 else round(found.fun) if found.status == 0 else None


class RepackProgram:
    """Integer program of one site.

    It has a variable per VM, machine and cell, and one per cell for new VMs.
    """

    def __init__(self, site: Any, request: RepackRequest) -> None:
        self.request = request
        self.machines = list(site.scheduler.machines)
        self.vms = [
            (pool, vm.placement)
            for cluster in site.clusters
            for pool in cluster.pools
            for vm in pool.vms
        ]
        self.program = IntegerProgram()
        self.keys: dict[str, list[tuple[Any, ...]]] = {
            machine.name: [] for machine in self.machines
        }
        for machine in self.machines:
            for cell in range(machine.cells):
                self._add_variables(machine, cell)
        self.all_keys = [key for keys in self.keys.values() for key in keys]
        for number in range(len(self.vms)):
            self.program.add_row(1, [(key, 1) for key in self.all_keys if key[0] == number], 1)
        self.program.add_row(
            request.want, [(key, 1) for key in self.all_keys if key[0] == "new"], float("inf")
        )
        for machine in self.machines:
            self._limit_machine(machine)
        for address in dict.fromkeys(pool.address for pool, _ in self.vms):
            self._limit_racks(address)

    def _add_variables(self, machine: Any, cell: int) -> None:
        """Add the possible VMs of a cell: current ones, movable ones of its zone, and new ones."""
        for number, (pool, placement) in enumerate(self.vms):
            zones = pool.demand.constraints.zones
            stays = placement.machine == machine.name and cell in placement.cells
            if stays or (
                len(pool.vms) > 1 and (zones is None or machine.availability_zone in zones)
            ):
                self._add_variable((number, machine.name, cell), 0 if stays else 1, 1)
        if self.request.zones is None or machine.availability_zone in self.request.zones:
            self._add_variable(("new", machine.name, cell), 0, self.request.want)

    def _add_variable(self, key: tuple[Any, ...], cost: float, maximum: float) -> None:
        self.keys[key[1]].append(key)
        self.program.add_variable(key, cost, maximum)

    def _get_sku(self, key: tuple[Any, ...]) -> Any:
        return self.request.sku if key[0] == "new" else self.vms[key[0]][0].demand.sku

    def _limit_machine(self, machine: Any) -> None:
        keys = self.keys[machine.name]
        for cell in range(machine.cells):
            for demand, capacity in CELL_RESOURCES:
                used = [
                    (key, getattr(self._get_sku(key), demand)) for key in keys if key[2] == cell
                ]
                self.program.add_row(float("-inf"), used, getattr(machine, capacity))
        disks = [(key, self._get_sku(key).disk_gib) for key in keys]
        self.program.add_row(float("-inf"), disks, machine.disk_gib)

    def _limit_racks(self, address: Any) -> None:
        """Keep each pool at least as spread over racks as it is."""
        racks = {machine.name: machine.rack for machine in self.machines}
        own = {number for number, (pool, _) in enumerate(self.vms) if pool.address == address}
        zones = self.vms[min(own)][0].demand.constraints.zones
        open_racks = {
            machine.rack
            for machine in self.machines
            if zones is None or machine.availability_zone in zones
        }
        current = Counter(self.vms[number][1].rack for number in own)
        limit = max(*current.values(), ceil(len(own) / max(1, len(open_racks))))
        for rack in dict.fromkeys(racks.values()):
            here = [(key, 1) for key in self.all_keys if key[0] in own and racks[key[1]] == rack]
            self.program.add_row(float("-inf"), here, max(limit, current[rack]))


def compare_site(seed: int) -> str:
    """Return "equal", or the difference between the answer and the integer program."""
    if seed % 2:
        site, request = build_site(seed)
    else:
        site = build_site_with_history(
            seed, 2 + seed % 4 // 2, 2 + seed % 4 // 2, filled=0.5 + 0.03 * (seed % 8), zoned=0.3
        )
        request = RepackRequest(sku=SKUS[LARGE], want=2 + seed % 4)
    answer = plan_repack(site, request)
    fewest = RepackProgram(site, request).program.minimize()
    count = {"impossible": IMPOSSIBLE, "nothing_to_do": 0}.get(answer.status, answer.recreations)
    if fewest is None:
        return "not decided in 60 s"
    if count is not None and count > 0 and replay(site, answer) < request.want:
        return "the order ends in another site than predicted"
    if count == fewest:
        return "equal"
    if answer.status == "gap" and fewest > 0:
        cut = f", search cut at {answer.orders_cut_at}" if answer.orders_cut_at else ""
        return f"{GAP}: {fewest} without order, no order with up to {answer.searched_orders}{cut}"
    return (
        f"{answer.status} with {count} re-creations, {fewest} without order (orders searched: "
        f"{answer.searched_orders})"
    )


def compare(minutes: float, sites: int, first_seed: int) -> int:
    """Print each difference and the totals.

    Return 1 for a difference.
    """
    end = time.monotonic() + 60 * minutes
    results = Counter[str]()
    for seed in range(first_seed, first_seed + sites):
        result = compare_site(seed)
        results[
            result if result == "equal" else GAP if result.startswith(GAP) else "different"
        ] += 1
        if result != "equal":
            print(f"site {seed}: {result}", flush=True)
        if time.monotonic() > end:
            break
    counts = (
        f"{results['equal']} equal, {results[GAP]} without a known order, {results['different']} "
        "different"
    )
    print(f"{results.total()} sites: {counts}")
    return int(bool(results["different"]))


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[2:]]
    seed = numbers[1] if len(numbers) > 1 else int(time.time()) % 1_000_000_000
    sys.exit(compare(float(sys.argv[1]), numbers[0] if numbers else 100, seed))
