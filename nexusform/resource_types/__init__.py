"""One file per resource type, named as in HCL; registry.py lists them."""

# What other rooms may use of this one.
DOOR = {
    "hardware": "hardware_of_sku machine_sku_names machine_with VFS with_vfs",
    "kubelet": "KUBELET_BLOCK kubelet_of kubelet_problems",
    "machine_facts": "default_facts EXPORTED_FACTS refusal_of unwell_of",
    "registry": "registries RESOURCE_TYPES",
    "shared_arguments": (
        "even_control_plane id_attribute is_known joined_id memory_problems name_attribute "
        "parent_attribute unknown_sku unknown_skus whole_number_problems"
    ),
}
