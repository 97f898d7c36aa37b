"""Phase 4: removed, re-created and new VMs, and their placement.

Start at vm_passes.py.
"""

# Public names of the package, by module.
PUBLIC = {
    "forgotten_vms": "list_forgotten_vms release_forgotten_vm add_forgotten_vms",
    "site_plans": (
        "build_scheduler rebuild_scheduler build_sites build_demand SiteLayout build_inventory "
        "build_site_layout place_unmanaged_vms SitePlan build_object_inventory list_machines "
        "find_sku SiteObject build_vm_name"
    ),
    "vm_object": (
        "get_previous_machine HEAL record_vm_placements find_placement_origin VmKey VmObject"
    ),
}
