"""Tie-break: the lowest 8-byte BLAKE2b digest of `seed|cluster|workload|number|node`.

It stands for the lot that kube-scheduler draws among nodes of equal score. The workload is written
`<namespace>/<kind>/<name>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

DIGEST_BYTES = 8


def lowest(prefix: str, names: Sequence[str], tied: Sequence[int]) -> int:
    """Which of `tied` (indices into `names`) has the lowest digest behind `seed|cluster|workload|number`."""
    if len(tied) == 1:
        return tied[0]
    text = blake2b(f"{prefix}|".encode(), digest_size=DIGEST_BYTES)
    copy = text.copy
    best, best_digest = -1, b""
    for node in tied:
        candidate = copy()
        candidate.update(names[node].encode())
        digest = candidate.digest()
        if best < 0 or digest < best_digest:
            best, best_digest = node, digest
    return best
