"""Tie-break: the lowest 8-byte BLAKE2b digest of `seed|cluster|workload|number|node`. It replaces the random
choice of kube-scheduler among nodes of equal score. The workload is written `<namespace>/<kind>/<name>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

DIGEST_BYTES = 8


def select_tied_node(prefix: str, names: Sequence[bytes], tied_nodes: Sequence[int]) -> int:
    """Return the tied node (index into `names`) with the lowest digest of prefix and name."""
    if len(tied_nodes) == 1:
        return tied_nodes[0]
    copy = blake2b(f"{prefix}|".encode(), digest_size=DIGEST_BYTES).copy
    digests = []
    for node in tied_nodes:
        candidate = copy()
        candidate.update(names[node])
        digests.append(candidate.digest())
    return tied_nodes[digests.index(min(digests))]
