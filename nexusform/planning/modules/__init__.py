"""What stands in no resource: outputs, conditions, inventories, and what holds without any state."""

# What other rooms may use of this one.
DOOR = {
    "outputs": "inventory_read read_all_data",
    "validation": "unknowing validate",
}
