"""State documents with an object tainted by a failed apply."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from nexusform.resources.address import parse_address
from nexusform.state.objects import State
from nexusform.state.state_codec import decode_state, encode_state


def taint_object(state: State, address: str) -> State:
    """Return the state with the object at the address tainted, one serial later."""
    instance = state.instances[parse_address(address)]
    assert instance.current is not None
    tainted = replace(instance, current=replace(instance.current, tainted=True))
    return replace(state.replace_instance(parse_address(address), tainted), serial=state.serial + 1)


def taint_in_document(document: bytes, address: str) -> bytes:
    """Return the state document with the object at the address tainted."""
    state, problems = decode_state(document, "state")
    assert state is not None, problems
    return encode_state(taint_object(state, address))


def taint_in_file(path: Path, address: str) -> None:
    """Mark the object at the address as tainted in a state file."""
    path.write_bytes(taint_in_document(path.read_bytes(), address))
