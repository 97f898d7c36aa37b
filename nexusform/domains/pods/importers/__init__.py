"""Manifests of Kubernetes: what they say, what the API server refuses, and which pods and nodes they mean."""

# What other rooms may use of this one.
DOOR = {
    "kubernetes_admission": "read_budgets read_quotas",
    "kubernetes_checks": "metadata_problems",
    "kubernetes_manifests": (
        "canonical_text envelope_problems fingerprint INVALID is_envelope is_fleet_group is_reserved "
        "Manifest manifest_from manifest_of ManifestReading never_selected read_manifests unwrapped"
    ),
    "kubernetes_nodes": "Observation observation_of",
    "kubernetes_schemas": "schema_problems",
    "kubernetes_volumes": "read_offer",
    "kubernetes_workloads": "workloads_of",
}
