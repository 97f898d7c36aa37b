"""Versions of Kubernetes: upgrades and availability."""

# Public names of the package, by module.
PUBLIC = {
    "versions": (
        "determine_upgrade_kind explain_not_offered explain_rejection has_etcd_gap is_version KubernetesVersion "
        "list_hops parse_version select_available SOURCE UpgradeKind describe_abandoned find_version_end WARNING_DAYS "
        "VersionEnd"
    )
}
