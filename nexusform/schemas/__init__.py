"""Schemas of blocks, and the types of values."""

# Public names of the package, by module.
PUBLIC = {
    "block_schema": (
        "AttributeSchema BlockSchema COMMON_PRIVATE compute_implied_type find_schema FORGOTTEN_KEY "
        "get_order_attribute make_private_entry NestedBlock Nesting ObjectReference OnChange "
        "PLACED_KEY PREVIOUS_MACHINES_KEY UNFINISHED_KEY UNMANAGED_KEY UNREAD_KEY"
    ),
    "value_types": (
        "BOOL build_type_json describe_type DYNAMIC has_dynamic is_same_type ListType MapType "
        "NUMBER ObjectType parse_type_json PrimitiveType SetType STRING TupleType Type"
    ),
}
