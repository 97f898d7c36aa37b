"""Tests of planning source code: it uses kinds of resource types, never type names."""

from __future__ import annotations

import ast
from pathlib import Path

from nexusform.resource_types.registry import RESOURCE_TYPES

PLANNING = Path(__file__).parents[2] / "nexusform" / "planning"


def test_planning_source_contains_no_type_names() -> None:
    named = {
        f"{file.name}:{node.lineno} {node.value}"
        for file in PLANNING.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in RESOURCE_TYPES
    }
    assert not named


def test_references_point_to_existing_types_and_attributes() -> None:
    for resource_type in RESOURCE_TYPES.values():
        for attribute in resource_type.schema.attributes.values():
            reference = attribute.refers_to
            for target in reference.types if reference is not None else ():
                assert reference is not None
                assert reference.by in RESOURCE_TYPES[target].schema.attributes
