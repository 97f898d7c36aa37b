"""What expressions see of an instance."""

from __future__ import annotations

from nexusform.planning.names.repetition import ObjectView
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import STRING, ListType
from nexusform.values import UNKNOWN, Refinement, refinement_of

_SCHEMA = BlockSchema({"keys": Attribute(ListType(STRING), "Keys.", optional=True)}, {})
_BEGINNING = Refinement(not_null=True, prefix="a-")


def test_what_is_known_of_unknown_parts_is_seen_in_the_attribute_and_in_the_whole() -> None:
    view = ObjectView({"keys": ["x", UNKNOWN]}, (), _SCHEMA, None, ((("keys", 1), _BEGINNING),))
    keys = view.attribute("keys")
    assert keys is not None
    assert refinement_of(keys.raw[1]) == _BEGINNING
    assert refinement_of(view.value().raw["keys"].raw[1]) == _BEGINNING
