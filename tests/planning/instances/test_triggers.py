"""replace_triggered_by, by what becomes of the object or of one of its attributes."""

from __future__ import annotations

import pytest

from nexusform.state.objects import EMPTY, State
from tests.planning.harness import actions, good, plan, state_of


def skus(watched: str, *, count: int = 2, gib: int = 10, name: str = "one") -> str:
    return f"""
resource "nexus_vm_sku" "watched" {{
  count      = {count}
  name       = "{name}${{count.index}}"
  vcpus      = 2
  memory_gib = 4
  disk_gib   = {gib}
}}
resource "nexus_vm_sku" "watcher" {{
  vcpus      = 2
  memory_gib = 4
  lifecycle {{
    replace_triggered_by = [nexus_vm_sku.watched{watched}]
  }}
}}
"""


def fires(before: str, after: str) -> bool:
    state: State = state_of(before) if before else EMPTY
    return actions(good(plan(after, state))).get("nexus_vm_sku.watcher") == "delete-create"


@pytest.mark.parametrize("watched", ["", "[0]", "[0].disk_gib"])
def test_an_update_triggers(watched: str) -> None:
    assert fires(skus(watched), skus(watched, gib=20))


@pytest.mark.parametrize("watched", ["", "[0]", "[0].name", "[0].id"])
def test_a_replacement_triggers(watched: str) -> None:
    assert fires(skus(watched), skus(watched, name="two"))


@pytest.mark.parametrize("watched", ["[0].vcpus", "[0].name"])
def test_another_attribute_triggers_nothing(watched: str) -> None:
    assert not fires(skus(watched), skus(watched, gib=20))


def test_an_unchanged_attribute_of_a_replaced_object_triggers_nothing() -> None:
    """As in Terraform 1.11.4 and OpenTofu 1.12.6."""
    assert not fires(skus("[0].vcpus"), skus("[0].vcpus", name="two"))


@pytest.mark.parametrize("watched", ["", "[1]", "[1].disk_gib"])
def test_what_is_created_or_destroyed_triggers_nothing(watched: str) -> None:
    assert not fires(skus("", count=1), skus(watched, count=2))
    assert not fires(skus("", count=2), skus("", count=1))
