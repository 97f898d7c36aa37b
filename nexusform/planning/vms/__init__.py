"""Phase 4: who leaves, who is placed anew, who is new, and where they go. Start at vm_walk.py."""

# What other rooms may use of this one.
DOOR = {
    "forgotten_vms": "forgotten_in released remembering",
    "sites": (
        "build_sites demand_for Ground inventory_of lay_ground occupy_outsiders SitePlan sku_of Thing vm_name"
    ),
    "vm_object": "left_by note_placed PLACED placed_by VmKey VmObject",
}
