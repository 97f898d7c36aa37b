"""Resource types: one file per type, named as in HCL; registry.py lists them."""

# Public names of the package, by module.
PUBLIC = {
    "kubelet_block": "KUBELET_BLOCK build_kubelet check_kubelet",
    "machine_facts": (
        "get_default_facts EXPORTED_FACTS describe_unschedulable_reasons STATUS_FACTS ROLES "
        "CORDON_FACTS find_observed_reasons CordonOwner CORDONED_STATUS UNCORDONED build_hardware "
        "list_machine_sku_names list_role_names build_machine VFS add_vfs_to_sku"
    ),
    "nks_pools": "MACHINE_LABEL",
    "registry": "build_registries RESOURCE_TYPES",
    "shared_arguments": (
        "check_even_control_plane build_id_attribute is_set_and_known join_id_parts check_memory "
        "build_name_attribute build_parent_attribute build_unknown_sku_problem check_skus "
        "check_whole_numbers get_known_blocks build_duplicate_object_problem GUID_PATTERN GUID_HINT"
    ),
}
