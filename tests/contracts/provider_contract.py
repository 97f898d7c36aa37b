"""What every provider must do, run for every entry of the registry (test_providers.py)."""

from __future__ import annotations

from typing import Any

from nexusform.interfaces.plugins import ChangeRequest, ObjectKey, Provider, ReadRequest

KEY = ObjectKey("nexus_rack", "lab/r1", 1)
SUCCESSOR = ObjectKey("nexus_rack", "lab/r1", 2)
ATTRIBUTES = {"id": "lab/r1", "name": "r1", "machine_count": 4, "labels": {"a": "b"}, "zones": ["1", "2"]}


def creation(key: ObjectKey = KEY, **more: Any) -> ChangeRequest:
    return ChangeRequest(key, "nexus_rack.r1", None, {**ATTRIBUTES, **more})


def check_it_says_what_it_is(provider: Provider) -> None:
    assert provider.name.count("/") == 2
    assert provider.sends_changes in (True, False)
    assert provider.observes_objects in (True, False)


def check_an_object_lives_and_dies(provider: Provider) -> None:
    made = provider.create(creation()).attributes
    assert made == ATTRIBUTES
    assert read(provider, KEY, made) == ATTRIBUTES
    changed = {**ATTRIBUTES, "machine_count": 5}
    answer = provider.update(ChangeRequest(KEY, "nexus_rack.r1", made, changed))
    assert answer.attributes == changed
    assert read(provider, KEY, changed) == changed
    provider.delete(ChangeRequest(KEY, "nexus_rack.r1", changed, None))
    assert read(provider, KEY, {}) is None


def check_deleting_what_is_gone_is_no_error(provider: Provider) -> None:
    provider.delete(ChangeRequest(KEY, "nexus_rack.r1", ATTRIBUTES, None))
    provider.delete(ChangeRequest(KEY, "nexus_rack.r1", ATTRIBUTES, None))


def check_a_repeated_create_makes_one_object(provider: Provider) -> None:
    first = provider.create(creation()).attributes
    assert provider.create(creation()).attributes == first
    provider.delete(ChangeRequest(KEY, "nexus_rack.r1", first, None))
    assert read(provider, KEY, {}) is None


def check_old_and_new_of_one_id_are_two_objects(provider: Provider) -> None:
    provider.create(creation(KEY, machine_count=1))
    provider.create(creation(SUCCESSOR, machine_count=2))
    provider.delete(ChangeRequest(KEY, "nexus_rack.r1", ATTRIBUTES, None))
    assert read(provider, KEY, {}) is None
    left = read(provider, SUCCESSOR, {**ATTRIBUTES, "machine_count": 2})
    assert left is not None
    assert left["machine_count"] == 2


def check_reads_come_back_in_order(provider: Provider) -> None:
    keys = [ObjectKey("nexus_rack", f"lab/r{n}", n) for n in (3, 1, 2)]
    for key in keys:
        provider.create(ChangeRequest(key, "nexus_rack.r", None, {"id": key.id}))
    answers = provider.read([ReadRequest(key, {"id": key.id}) for key in keys])
    assert [(a.attributes or {})["id"] for a in answers] == [key.id for key in keys]
    assert provider.read([]) == []


def check_what_it_is_given_is_not_changed(provider: Provider) -> None:
    planned = {"id": "lab/r1", "labels": {"a": "b"}}
    provider.create(ChangeRequest(KEY, "nexus_rack.r1", None, planned))
    assert planned == {"id": "lab/r1", "labels": {"a": "b"}}


CHECKS = [
    check_it_says_what_it_is,
    check_an_object_lives_and_dies,
    check_deleting_what_is_gone_is_no_error,
    check_a_repeated_create_makes_one_object,
    check_old_and_new_of_one_id_are_two_objects,
    check_reads_come_back_in_order,
    check_what_it_is_given_is_not_changed,
]


def read(provider: Provider, key: ObjectKey, remembered: Any) -> Any:
    (answer,) = provider.read([ReadRequest(key, remembered, "nexus_rack.r1")])
    return answer.attributes
