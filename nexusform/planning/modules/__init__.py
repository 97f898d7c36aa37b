"""What stands in no resource: outputs, conditions, inventories, and what holds without any state."""
