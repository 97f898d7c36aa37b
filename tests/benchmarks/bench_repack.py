"""Benchmark of repacking: time, memory and gap.

Run `bench_repack.py [RACKS IN_RACK FILLED WANT [SEED]]`.

Without arguments it prints a table of sites with up to 1,008 machines. Seconds are processor time.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

from nexusform.domains.whatif.questions.repack_context import (
    NOTHING_LIFTED,
    RepackRequest,
    build_repack_context,
)
from nexusform.domains.whatif.questions.repack_planning import plan_repack
from nexusform.domains.whatif.questions.repack_program import NoRepackSolution, RepackProgram
from tests.domains.whatif.questions.repack_sites import LARGE, SKUS, build_site_with_history

MIX = (
    "NC_G6_28_v1",
    "NC_P10_56_v1",
    "NC_G12_56_v1",
    "NC_P16_74_v1",
    "NC_G18_74_v1",
    "NC_P22_112_v1",
    "NC_G24_112_v1",
    "NC_P34_168_v1",
    "NC_G48_224_v1",
    "NC_E70_336_v1",
)
CASES = (
    (8, 16, 0.8, 10),
    (63, 16, 0.71, 20),
    (63, 16, 0.8, 20),
    (63, 16, 0.8, 100),
    (63, 16, 0.88, 50),
)


def measure(racks: int, in_rack: int, filled: float, want: int, seed: int = 1) -> None:
    """Print one line of the table."""
    site = build_site_with_history(
        seed, racks, in_rack, filled=filled, skus=MIX, pool_sizes=(3, 5, 8, 12, 20), zoned=0.2
    )
    request = RepackRequest(sku=SKUS[LARGE], want=0)
    more = site.scheduler.count_free_slots(request.demand).minimum + want
    request = RepackRequest(sku=SKUS[LARGE], want=more)
    start = time.process_time()
    ground = build_repack_context(site, request, {}, NOTHING_LIFTED)
    program = RepackProgram(ground, request)
    built = time.process_time() - start
    solution = program.solve()
    solved = time.process_time() - start
    first = (
        "-"
        if isinstance(solution, NoRepackSolution)
        else f"{solution.recreations}/{solution.bound}"
    )
    start = time.process_time()
    made = plan_repack(site, request)
    whole = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    vms = sum(cluster.vm_count for cluster in site.clusters)
    taken = sum(vm.sku.memory_gib for vm in site.scheduler.list_vms())
    filled = taken / sum(
        machine.cells * machine.memory_gib_per_cell for machine in site.scheduler.machines
    )
    print(
        f"{racks * in_rack:5} machines {filled:4.0%} {vms:6} VMs, {want:3} more | rows, columns "
        f"{program.size} | built {built:5.2f} s, solved {solved:6.2f} s ({first}) | with steps "
        f"{whole:6.2f} s, {made.status} {made.recreations} of {made.bound}, {len(made.windows)} "
        f"windows | {memory} MB",
        flush=True,
    )


def main() -> None:
    """Print the table, each line in a separate process."""
    if len(sys.argv) > 1:
        racks, in_rack, filled, want, *seed = sys.argv[1:]
        measure(int(racks), int(in_rack), float(filled), int(want), *map(int, seed))
        return
    for case in CASES:
        subprocess.run([sys.executable, __file__, *map(str, case)], check=True)


if __name__ == "__main__":
    main()
