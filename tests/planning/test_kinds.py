"""Planning knows the objects of a plan by the kind of their type, and never by a type's name."""

from __future__ import annotations

import ast
from pathlib import Path

from nexusform.resource_types.registry import RESOURCE_TYPES

PLANNING = Path(__file__).parents[2] / "nexusform" / "planning"


def test_no_text_in_planning_is_the_name_of_a_type() -> None:
    named = {
        f"{file.name}:{node.lineno} {node.value}"
        for file in PLANNING.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in RESOURCE_TYPES
    }
    assert not named


def test_a_reference_leads_to_a_type_and_to_an_attribute_of_it() -> None:
    for resource_type in RESOURCE_TYPES.values():
        for attribute in resource_type.schema.attributes.values():
            reference = attribute.refers_to
            for target in reference.types if reference is not None else ():
                assert reference is not None
                assert reference.by in RESOURCE_TYPES[target].schema.attributes
