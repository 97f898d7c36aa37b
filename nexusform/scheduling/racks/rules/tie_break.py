"""Tie-break: the lowest 8-byte BLAKE2b digest of `seed|cluster|pool|number|candidate`.

A sample draws one digest per VM instead, and indexes the candidates with it.
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct

from nexusform.scheduling.racks.vms import VmName

DIGEST_BYTES = 8
# The upper and the lower half of a digest.
_NUMBERS = Struct(">II")


def format_vm_text(vm: VmName) -> bytes:
    """Return the text of a VM behind the seed: `|CLUSTER|POOL|NUMBER|`."""
    return f"|{vm.cluster}|{vm.pool}|{vm.number}|".encode()


def start_pool_digest(seed: int, vm: VmName) -> blake2b:
    """Return the unfinished digest of `SEED|CLUSTER|POOL|`.

    Copies are extended by the VM's number and a candidate.
    """
    return blake2b(f"{seed}|{vm.cluster}|{vm.pool}|".encode(), digest_size=DIGEST_BYTES)


def build_vm_digest(seed: int, vm: VmName) -> blake2b:
    """Return the unfinished digest of a VM: `SEED|CLUSTER|POOL|NUMBER|`.

    A candidate's name completes it.
    """
    return blake2b(str(seed).encode() + format_vm_text(vm), digest_size=DIGEST_BYTES)


def compute_digest(seed: int, vm: VmName, candidate: str) -> bytes:
    """Return the 8 bytes that rank `candidate` (a rack or machine name); the lowest wins."""
    text = build_vm_digest(seed, vm)
    text.update(candidate.encode())
    return text.digest()


def draw_sample_numbers(vm_text: blake2b) -> tuple[int, int]:
    """Return two random numbers of a VM in a sample, from its digest: for racks and for machines.

    Each has 32 bits. Of N tied racks or machines, the one at position `number % N` is chosen.
    """
    machine_number, rack_number = _NUMBERS.unpack(vm_text.digest())
    return rack_number, machine_number


def break_rack_tie(
    vm_text: blake2b, names: Sequence[bytes], tied: Sequence[int], *, is_sample: bool
) -> int:
    """Choose one of the tied racks for a VM, and return its position in `tied`.

    `tied` are indices into `names`. A sample draws one at random; else the lowest digest of VM
    and rack decides.
    """
    if is_sample:
        return draw_sample_numbers(vm_text)[0] % len(tied)
    return find_lowest_digest(vm_text, names, tied)


def break_machine_tie(
    vm_text: blake2b, names: Sequence[bytes], tied: Sequence[int], *, is_sample: bool
) -> int:
    """Choose one of the tied machines for a VM, and return its position in `tied`.

    The choice is like that of `break_rack_tie`.
    """
    if is_sample:
        return draw_sample_numbers(vm_text)[1] % len(tied)
    return find_lowest_digest(vm_text, names, tied)


def find_lowest_digest(vm_text: blake2b, names: Sequence[bytes], tied: Sequence[int]) -> int:
    """Return the position in `tied` of the candidate with the lowest digest.

    `tied` are indices into `names`.
    """
    # Copying the digest of the text so far takes half the time of digesting the whole text.
    copy = vm_text.copy
    digests = []
    for item in tied:
        text = copy()
        text.update(names[item])
        digests.append(text.digest())
    return digests.index(min(digests))
