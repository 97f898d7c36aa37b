"""Random scale-ins whose VMs Azure chooses: drawn choices lie in the capacity of the plan.

    python -m tests.nightly.scale_ins MINUTES [SEED]

The exit code is 1 if the figure of a choice lies outside of its range.
"""

from __future__ import annotations

import itertools
import sys
import time
from random import Random

from tests.planning.conclusion.test_scale_in_capacity import measure_choices

SKUS = {"NC_G6_28_v1": 24, "NC_G12_56_v1": 14, "NC_G24_112_v1": 7, "NC_P10_56_v1": 14}
CHOICES = 40


def compare(seed: int) -> list[str]:
    """Return the figures of drawn choices outside of their ranges."""
    draw = Random(seed)
    sku = draw.choice(sorted(SKUS))
    count = draw.randint(2, SKUS[sku])
    removed_count = draw.randint(1, count - 1)
    measured = measure_choices(
        sku,
        count,
        removed_count,
        lambda vms: [draw.sample(vms, removed_count) for _ in range(CHOICES)],
    )
    outside = []
    for name, row in measured.items():
        for interval, figures in (
            (row.free, row.counts),
            (row.free_after_rack_loss, row.counts_after_loss),
        ):
            if min(figures) < interval.minimum or max(figures) > interval.maximum:
                outside.append(
                    f"seed {seed}: {removed_count} of {count} x {sku}: {sorted(figures)} x {name} "
                    f"outside of {interval}"
                )
    return outside


def run(minutes: float, first_seed: int) -> int:
    """Compare random scale-ins; return the number of differences."""
    ends_at = time.monotonic() + 60 * minutes
    differences = 0
    for seed in itertools.count(first_seed):
        if time.monotonic() > ends_at:
            print(f"{seed - first_seed} scale-ins compared, {differences} differences")
            return differences
        for line in compare(seed):
            differences += 1
            print(line, flush=True)
    raise AssertionError


if __name__ == "__main__":
    sys.exit(bool(run(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
