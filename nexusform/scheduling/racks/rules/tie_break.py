"""Tie-break: the lowest 8-byte BLAKE2b digest of `seed|cluster|pool|number|candidate`."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from nexusform.scheduling.racks.model import VmName

DIGEST_BYTES = 8


def prefix(seed: int, vm: VmName) -> bytes:
    """The digested text of one VM up to the candidate's name, in UTF-8."""
    return f"{seed}|{vm.cluster}|{vm.pool}|{vm.number}|".encode()


def digest(seed: int, vm: VmName, candidate: str) -> bytes:
    """The 8 bytes by which `candidate` (a rack's or a machine's name) is compared; the lowest wins."""
    return blake2b(prefix(seed, vm) + candidate.encode(), digest_size=DIGEST_BYTES).digest()


def lowest(start: bytes, names: Sequence[bytes], tied: Sequence[int]) -> int:
    """Which position in `tied` (indices into `names`) has the lowest digest behind `start`."""
    # The digest of the common start is copied: that halves the cost of a candidate.
    copy = blake2b(start, digest_size=DIGEST_BYTES).copy
    digests = []
    for item in tied:
        text = copy()
        text.update(names[item])
        digests.append(text.digest())
    return digests.index(min(digests))
