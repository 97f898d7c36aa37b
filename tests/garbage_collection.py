"""Garbage collection of processes that run many commands after they have loaded all modules."""

from __future__ import annotations

import gc
from typing import Final

# New objects until a collection: more than the tests of one process leave.
_THRESHOLD: Final = 100_000_000


def keep_loaded_objects() -> None:
    """Leave all objects out of collections, and make these rare.

    No command visits them, so forked processes also copy none of their memory. A collection amid a
    test would report what tests before it left open, such as a connection in a failed request.
    """
    gc.freeze()
    gc.set_threshold(_THRESHOLD, 50, 1000)
