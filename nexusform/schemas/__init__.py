"""Schemas of blocks, and the types of values."""

# Public names of the package, by module.
PUBLIC = {
    "block_schema": (
        "AttributeSchema BlockSchema compute_implied_type find_schema get_order_attribute "
        "NestedBlock "
        "Nesting ObjectReference OnChange"
    ),
    "value_types": (
        "BOOL build_type_json describe_type DYNAMIC has_dynamic is_same_type ListType MapType "
        "NUMBER ObjectType parse_type_json PrimitiveType SetType STRING TupleType Type"
    ),
}
