"""Kubernetes manifests as pods and nodes: parsing, validation as by the API server, conversion."""

# Public names of the package, by module.
PUBLIC = {
    "pod_admission": "collect_resource_quotas",
    "kubernetes_cross_field_checks": "list_metadata_problems",
    "api_resources": "ApiKinds",
    "live_workloads": "LiveWorkload find_current_revisions",
    "manifest_parser": (
        "format_canonical_json list_envelope_problems INVALID is_envelope is_fleet_group "
        "is_reserved_namespace Manifest build_changed_manifest build_manifest ParsedManifests "
        "find_kind_exclusion find_selection_exclusion list_services MAX_KEPT_TEXTS parse_body "
        "parse_manifests unwrap_envelopes DEFAULT_NAMESPACE ENVELOPE_KINDS lacks_namespace "
        "resolve_namespaces is_created_by_owner remove_namespace select_custom_definitions"
    ),
    "kubectl_kind_files": "list_dump_errors",
    "kubectl_snapshot": "KubectlSnapshot list_objects parse_kubectl_files parse_snapshot",
    "dump_fields": "list_wrong_server_values",
    "kubernetes_schemas": "list_schema_problems",
    "kubernetes_workloads": "collect_workloads",
    "object_outcomes": (
        "NeededObjects StorageObjects compute_end compute_scale_in describe_extent "
        "describe_weaker_limits list_local_volumes needs_pods_to_hurt"
    ),
}
