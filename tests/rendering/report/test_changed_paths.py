from __future__ import annotations

from typing import Any

import pytest

from nexusform.plans.plan import Action, Change
from nexusform.rendering.notation.hcl_text import build_path_trie
from nexusform.rendering.report import changed_arguments
from nexusform.rendering.report.changed_arguments import describe_changed_paths
from nexusform.resources.address import Address
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import NUMBER, MapType
from nexusform.values.typed_value import UNKNOWN


def test_paths_are_written_in_configuration_syntax() -> None:
    before = {
        "np1": {"count": 3, "labels": {"a b": "x"}},
        "np-2": {"count": 1},
        "zones": ["1", "2"],
    }
    after = {
        "np1": {"count": UNKNOWN, "labels": {}},
        "np-2": {"count": 1},
        "np3": {"count": 1},
        "zones": ["1", "3"],
    }
    assert describe_changed_paths("pools", before, after, None) == [
        "pools.np1.count 3 -> (known after apply)",
        'pools.np1.labels["a b"] removed',
        "pools.np3 = {count = 1}",
        'pools.zones[1] "2" -> "3"',
    ]


def test_secrets_are_hidden_at_above_and_below_their_path() -> None:
    marks = build_path_trie([("a", "token"), ("a", "x", "inner")])
    before = {"token": "s1", "other": 1}
    after = {"token": "s3", "other": 2, "x": {"inner": "s"}}
    assert describe_changed_paths("a", before, after, marks) == [
        "a.other 1 -> 2",
        "a.token (sensitive value)",
        "a.x (sensitive value)",
    ]


def test_parts_of_computed_values_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    # A row names no part of them, and they may be large: bindings, nodes, conditions.
    compared: list[str] = []

    def record_comparison(name: str, *_values: Any) -> list[str]:
        compared.append(name)
        return []

    monkeypatch.setattr(changed_arguments, "describe_changed_paths", record_comparison)
    nested = {"a": {"b": 1}}
    before = {"labels": nested, "status": nested}
    after = {"labels": {"a": {"b": 2}}, "status": {"a": {"b": 2}}}
    schema = BlockSchema(
        attributes={
            "labels": AttributeSchema(MapType(MapType(NUMBER)), "Labels.", optional=True),
            "status": AttributeSchema(MapType(MapType(NUMBER)), "Status.", computed=True),
        }
    )
    address = Address((), "managed", "t", "x")
    change = Change(address, Action.UPDATE, before, after, "", 1, 1)
    changed_arguments.describe_changes(change, schema, ())
    assert compared == ["labels"]
