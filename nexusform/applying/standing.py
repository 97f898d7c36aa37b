"""What stands at an address before and after a change: small pure functions on InstanceState."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from nexusform.planning.plan import Change
from nexusform.ports import ObjectKey
from nexusform.state.model import InstanceState, ObjectState

NOTHING = InstanceState(None)
DEFAULT_PROVIDER = "simulated"  # serves what names no provider


def deposed_key(key: ObjectKey) -> str:
    """The 8-hex name under which an old object waits for its destruction.

    It follows from what the object is, so that a repeated run gives the same.
    """
    return sha256(f"{key.type}\0{key.id}\0{key.creation}".encode()).hexdigest()[:8]


def with_current(instance: InstanceState | None, current: ObjectState | None) -> InstanceState:
    """Another current object (None: none); deposed ones stay."""
    return InstanceState(current, (instance or NOTHING).deposed)


def with_successor(instance: InstanceState | None, new: ObjectState, object_type: str) -> InstanceState:
    """A new current object; the one before it is kept as deposed."""
    before = instance or NOTHING
    if before.current is None:
        return InstanceState(new, before.deposed)
    old = before.current
    key = deposed_key(ObjectKey(object_type, str(old.attributes.get("id", "")), old.creation))
    return InstanceState(new, {**before.deposed, key: old})


def without_deposed(instance: InstanceState | None, key: str) -> InstanceState:
    """One deposed object less."""
    before = instance or NOTHING
    return InstanceState(before.current, {k: o for k, o in before.deposed.items() if k != key})


def provider_of(change: Change) -> str:
    """The name of the provider that serves a change."""
    return change.provider or DEFAULT_PROVIDER


def remembered(change: Change, attributes: Mapping[str, Any], *, tainted: bool = False) -> ObjectState:
    """The object that a change leaves, as state records it."""
    return ObjectState(
        attributes=attributes,
        creation=change.creation,
        sensitive=change.sensitive_after,
        dependencies=change.dependencies,
        tainted=tainted,
        create_before_destroy=change.create_before_destroy,
        provider=provider_of(change),
        private=change.private,
    )
