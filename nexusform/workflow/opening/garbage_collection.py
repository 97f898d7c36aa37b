"""Garbage collection of a process that runs commands."""

import gc
from typing import Final

# New objects until the collector searches them for cycles, 700 by default.
_THRESHOLD: Final = 300_000


def collect_garbage_rarely() -> None:
    """Let Python search for cyclic garbage rarely.

    Commands build large documents with few cycles: `advise` of 16,000 VMs spent a third of its time
    in such searches.
    """
    first_threshold, *others = gc.get_threshold()
    gc.set_threshold(max(first_threshold, _THRESHOLD), *others)
