"""Versions of Kubernetes: upgrades and availability."""

# Public names of the package, by module.
PUBLIC = {
    "versions": (
        "ABANDONED describe_abandoned determine_upgrade_kind explain_skipped find_hops find_version_end "
        "has_etcd_gap KubernetesVersion Offers parse_version Rejection select_available SOURCE "
        "UpgradeKind WARNING_DAYS"
    )
}
