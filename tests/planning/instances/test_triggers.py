"""Tests of replace_triggered_by, by changes of the object or of one of its attributes."""

from __future__ import annotations

import pytest

from nexusform.state.objects import EMPTY, State
from tests.planning.harness import build_state, list_actions, plan, require_success


def build_skus(watched: str, *, count: int = 2, gib: int = 10, name: str = "one") -> str:
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


def triggers_replacement(before: str, after: str) -> bool:
    state: State = build_state(before) if before else EMPTY
    return (
        list_actions(require_success(plan(after, state))).get("nexus_vm_sku.watcher")
        == "delete-create"
    )


@pytest.mark.parametrize("watched", ["", "[0]", "[0].disk_gib"])
def test_update_triggers_replacement(watched: str) -> None:
    assert triggers_replacement(build_skus(watched), build_skus(watched, gib=20))


@pytest.mark.parametrize("watched", ["", "[0]", "[0].name", "[0].id"])
def test_replacement_triggers_replacement(watched: str) -> None:
    assert triggers_replacement(build_skus(watched), build_skus(watched, name="two"))


@pytest.mark.parametrize("watched", ["[0].vcpus", "[0].name"])
def test_change_of_another_attribute_triggers_nothing(watched: str) -> None:
    assert not triggers_replacement(build_skus(watched), build_skus(watched, gib=20))


def test_unchanged_attribute_of_replaced_object_triggers_nothing() -> None:
    """The result equals Terraform 1.11.4 and OpenTofu 1.12.6."""
    assert not triggers_replacement(build_skus("[0].vcpus"), build_skus("[0].vcpus", name="two"))


@pytest.mark.parametrize("watched", ["", "[1]", "[1].disk_gib"])
def test_create_or_delete_triggers_nothing(watched: str) -> None:
    assert not triggers_replacement(build_skus("", count=1), build_skus(watched, count=2))
    assert not triggers_replacement(build_skus("", count=2), build_skus("", count=1))
