"""Versions of Kubernetes: upgrades and availability."""

# Public names of the package, by module.
PUBLIC = {
    "kubernetes_versions": (
        "ABANDONED describe_abandoned_cluster determine_upgrade_kind explain_skipped_versions "
        "find_upgrade_hops find_availability_end has_etcd_gap KubernetesVersion OfferedVersions "
        "parse_version VersionRejection select_available_versions SOURCE VersionStep WARNING_DAYS"
    )
}
