"""Contract of every provider, run for every entry of the registry (test_providers.py)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nexusform.interfaces.plugins import ChangeRequest, ObjectKey, Provider, ReadRequest, StateUser

KEY = ObjectKey("nexus_rack", "lab/r1", 1)
SUCCESSOR = ObjectKey("nexus_rack", "lab/r1", 2)
ATTRIBUTES = {
    "id": "lab/r1",
    "name": "r1",
    "machine_count": 4,
    "labels": {"a": "b"},
    "zones": ["1", "2"],
}


def build_creation(key: ObjectKey = KEY, **more: Any) -> ChangeRequest:
    return ChangeRequest(key, "nexus_rack.r1", None, {**ATTRIBUTES, **more})


def check_provider_describes_itself(provider: Provider) -> None:
    assert provider.name.count("/") == 2
    assert provider.sends_changes in (True, False)
    assert provider.observes_objects in (True, False)


def check_object_is_created_updated_and_deleted(provider: Provider) -> None:
    made = provider.create(build_creation()).attributes
    assert made == ATTRIBUTES
    assert read_one(provider, KEY, made) == ATTRIBUTES
    changed = {**ATTRIBUTES, "machine_count": 5}
    answer = provider.update(ChangeRequest(KEY, "nexus_rack.r1", made, changed))
    assert answer.attributes == changed
    assert read_one(provider, KEY, changed) == changed
    provider.delete(ChangeRequest(KEY, "nexus_rack.r1", changed, None))
    assert read_one(provider, KEY, {}) is None


def check_deleting_a_missing_object_is_no_error(provider: Provider) -> None:
    provider.delete(ChangeRequest(KEY, "nexus_rack.r1", ATTRIBUTES, None))
    provider.delete(ChangeRequest(KEY, "nexus_rack.r1", ATTRIBUTES, None))


def check_repeated_create_makes_one_object(provider: Provider) -> None:
    first = provider.create(build_creation()).attributes
    repeated = replace(build_creation(), resumed_operation="")
    assert provider.create(repeated).attributes == first
    provider.delete(ChangeRequest(KEY, "nexus_rack.r1", first, None))
    assert read_one(provider, KEY, {}) is None


def check_objects_of_one_id_are_distinguished_by_creation(provider: Provider) -> None:
    provider.create(build_creation(KEY, machine_count=1))
    assert isinstance(provider, StateUser)
    provider.set_state_objects((), [(KEY.type, KEY.id)])
    provider.create(build_creation(SUCCESSOR, machine_count=2))
    provider.delete(ChangeRequest(KEY, "nexus_rack.r1", {**ATTRIBUTES, "machine_count": 1}, None))
    assert read_one(provider, KEY, {}) is None
    left = read_one(provider, SUCCESSOR, {**ATTRIBUTES, "machine_count": 2})
    assert left is not None
    assert left["machine_count"] == 2


def check_reads_are_answered_in_order(provider: Provider) -> None:
    keys = [ObjectKey("nexus_rack", f"lab/r{n}", n) for n in (3, 1, 2)]
    for key in keys:
        provider.create(ChangeRequest(key, "nexus_rack.r", None, {"id": key.id}))
    answers = provider.read([ReadRequest(key, {"id": key.id}) for key in keys])
    assert [(a.attributes or {})["id"] for a in answers] == [key.id for key in keys]
    assert provider.read([]) == []


def check_arguments_are_not_changed(provider: Provider) -> None:
    planned = {"id": "lab/r1", "labels": {"a": "b"}}
    provider.create(ChangeRequest(KEY, "nexus_rack.r1", None, planned))
    assert planned == {"id": "lab/r1", "labels": {"a": "b"}}


CHECKS = [
    check_provider_describes_itself,
    check_object_is_created_updated_and_deleted,
    check_deleting_a_missing_object_is_no_error,
    check_repeated_create_makes_one_object,
    check_objects_of_one_id_are_distinguished_by_creation,
    check_reads_are_answered_in_order,
    check_arguments_are_not_changed,
]


def read_one(provider: Provider, key: ObjectKey, remembered: Any) -> Any:
    (answer,) = provider.read([ReadRequest(key, remembered, "nexus_rack.r1")])
    return answer.attributes
