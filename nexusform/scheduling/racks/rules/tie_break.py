"""Tie-break: the lowest 8-byte BLAKE2b digest of `seed|cluster|pool|number|candidate`."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from nexusform.scheduling.racks.vms import VmName

DIGEST_BYTES = 8


def start(seed: int, vm: VmName) -> blake2b:
    """The digest of a pool's text up to the VM's number, to be copied and gone on with."""
    return blake2b(f"{seed}|{vm.cluster}|{vm.pool}|".encode(), digest_size=DIGEST_BYTES)


def of_vm(seed: int, vm: VmName) -> blake2b:
    """The digest of a VM's text up to the candidate's name."""
    text = start(seed, vm)
    text.update(f"{vm.number}|".encode())
    return text


def digest(seed: int, vm: VmName, candidate: str) -> bytes:
    """The 8 bytes by which `candidate` (a rack's or a machine's name) is compared; the lowest wins."""
    text = of_vm(seed, vm)
    text.update(candidate.encode())
    return text.digest()


def lowest(vm_text: blake2b, names: Sequence[bytes], tied: Sequence[int]) -> int:
    """Which position in `tied` (indices into `names`) has the lowest digest behind a VM's text."""
    # Copying the digest of the text so far takes half the time of digesting the whole text.
    copy = vm_text.copy
    digests = []
    for item in tied:
        text = copy()
        text.update(names[item])
        digests.append(text.digest())
    return digests.index(min(digests))
