"""Compare certain predictions with kube-scheduler on new random clusters, for a given time.

Run: NEXUSFORM_HUB_PROGRAMS=DIR python -m tests.nightly.pods MINUTES VERSION [devices] [record].
With `record`, the recorded worlds are continued (comparison_record.py), with two runs of each.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.nightly import comparison_record, device_worlds
from tests.nightly.live_cluster import start_cluster
from tests.nightly.pod_worlds import Result, run_worlds


def compare(
    minutes: float,
    version: str,
    run: Callable[..., Iterator[tuple[int, Result]]] = run_worlds,
    least_share: float = 0.6,
    source: str = "",
) -> int:
    """Print each wrong prediction and the totals.

    Return 1 if a certain pod ran elsewhere. `source` is the name of the recorded worlds, if any.
    """
    comparison_record.ignore_missing_comparisons()
    total = Result()
    worlds = 0
    # Other seeds each night; a report names them.
    first = int(time.time()) % 1_000_000_000
    if source:
        first = comparison_record.find_next_seed(source, version)
    repetitions = {"repetitions": 2} if source else {}
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as directory, start_cluster(Path(directory)) as cluster:
        for seed, result in run(cluster, itertools.count(first), version, **repetitions):
            worlds += 1
            total.pods += result.pods
            total.certain += result.certain
            total.alike += result.alike
            total.certain_alike += result.certain_alike
            total.wrong += [f"world {seed}: {text}" for text in result.wrong]
            if source:
                comparison_record.add_world(source, version, result.records)
            for text in result.wrong:
                print(f"world {seed}: {text}", flush=True)
            if time.monotonic() > end:
                break
    share = total.certain_alike / max(1, total.alike)
    print(
        f"{worlds} worlds, {total.pods} pods, {total.certain} certain, {len(total.wrong)} "
        "workloads wrong"
    )
    print(
        f"{total.alike} pods alike in all runs, {share:.0%} of them certain (at least "
        f"{least_share:.0%} expected)"
    )
    return int(bool(total.wrong) or share < least_share)


if __name__ == "__main__":
    words = sys.argv[3:]
    # The order of slices is random before Kubernetes 1.36, so fewer pods with devices are certain.
    name, run, least_share = (
        ("device_worlds", device_worlds.run_worlds, 0.4)
        if "devices" in words
        else ("pod_worlds", run_worlds, 0.6)
    )
    source = name if "record" in words else ""
    sys.exit(compare(float(sys.argv[1]), sys.argv[2], run, least_share, source))
