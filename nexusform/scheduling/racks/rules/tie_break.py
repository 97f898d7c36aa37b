"""Tie-break: the lowest 8-byte BLAKE2b digest of `seed|cluster|pool|number|candidate`. A sample draws one digest
per VM instead, and indexes the candidates with it.
"""

from collections.abc import Sequence
from hashlib import blake2b

from nexusform.scheduling.racks.vms import VmName

DIGEST_BYTES = 8


def start_pool_digest(seed: int, vm: VmName) -> blake2b:
    """Return the digest of a pool's text up to the VM's number, to be copied and extended."""
    return blake2b(f"{seed}|{vm.cluster}|{vm.pool}|".encode(), digest_size=DIGEST_BYTES)


def build_vm_digest(seed: int, vm: VmName) -> blake2b:
    """Return the digest of a VM's text up to the candidate's name."""
    text = start_pool_digest(seed, vm)
    text.update(f"{vm.number}|".encode())
    return text


def compute_digest(seed: int, vm: VmName, candidate: str) -> bytes:
    """Return the 8 bytes that rank `candidate` (a rack or machine name); the lowest wins."""
    text = build_vm_digest(seed, vm)
    text.update(candidate.encode())
    return text.digest()


def draw_sample_number(vm_text: blake2b) -> int:
    """Return the number drawn in a sample for the text of a VM: 8 bytes."""
    return int.from_bytes(vm_text.digest(), "big")


def select_tied_rack(drawn_number: int, count: int) -> int:
    """Return the position of the rack among the tied ones in site order: by the lower half of the number."""
    return (drawn_number & 0xFFFFFFFF) % count


def select_tied_machine(drawn_number: int, count: int) -> int:
    """Return the position of the machine among the tied ones in site order: by the upper half."""
    return (drawn_number >> 32) % count


def break_rack_tie(vm_text: blake2b, names: Sequence[bytes], tied: Sequence[int], *, is_sample: bool) -> int:
    """Return the position of the chosen rack in `tied` (indices into `names`) for the text of a VM."""
    if is_sample:
        return select_tied_rack(draw_sample_number(vm_text), len(tied))
    return find_lowest_digest(vm_text, names, tied)


def break_machine_tie(vm_text: blake2b, names: Sequence[bytes], tied: Sequence[int], *, is_sample: bool) -> int:
    """Return the position of the chosen machine in `tied` (indices into `names`) for the text of a VM."""
    if is_sample:
        return select_tied_machine(draw_sample_number(vm_text), len(tied))
    return find_lowest_digest(vm_text, names, tied)


def find_lowest_digest(vm_text: blake2b, names: Sequence[bytes], tied: Sequence[int]) -> int:
    """Return the position in `tied` (indices into `names`) of the lowest digest for a VM's text."""
    # Copying the digest of the text so far takes half the time of digesting the whole text.
    copy = vm_text.copy
    digests = []
    for item in tied:
        text = copy()
        text.update(names[item])
        digests.append(text.digest())
    return digests.index(min(digests))
