"""Tests of the values of an instance in expressions."""

from __future__ import annotations

from nexusform.planning.name_resolution.repetition import InstanceView
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import STRING, ListType
from nexusform.values.typed_value import UNKNOWN, Refinement, get_refinement

_SCHEMA = BlockSchema({"keys": AttributeSchema(ListType(STRING), "Keys.", optional=True)}, {})
_BEGINNING = Refinement(not_null=True, prefix="a-")


def test_refinement_is_visible_in_attribute_and_whole_value() -> None:
    view = InstanceView({"keys": ["x", UNKNOWN]}, (), _SCHEMA, None, ((("keys", 1), _BEGINNING),))
    keys = view.get_attribute("keys")
    assert keys is not None
    assert get_refinement(keys.raw[1]) == _BEGINNING
    assert get_refinement(view.get_value().raw["keys"].raw[1]) == _BEGINNING
