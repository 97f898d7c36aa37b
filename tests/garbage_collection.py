"""Garbage collection of processes that run many commands after they have loaded all modules."""

from __future__ import annotations

import gc


def keep_loaded_objects() -> None:
    """Move all objects to the oldest generation, and make its collections rare.

    No command visits them, so forked processes also copy none of their memory. They are not left
    frozen: the product asks for the number of frozen objects after each parse, and Python counts
    them one by one, 17 ms for a million.
    """
    gc.freeze()
    gc.unfreeze()
    gc.set_threshold(500_000, 50, 1000)
