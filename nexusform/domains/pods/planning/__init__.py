"""Planning of pods on known nodes.

Entry point: pod_phase.py.
"""

# Public names of the package, by module.
PUBLIC = {
    "manifest_blocks": (
        "collect_hub_objects list_prior_pods list_manifest_diagnostics plan_fleet_objects "
        "list_pod_risk_warnings create_pod_phase collect_prior_members find_missing_namespaces "
        "plan_members compute_state_demand list_scheduled_pods"
    ),
    "cluster_pods": "build_cluster",
    "object_pods": "PriorPods parse_pod_number",
    "external_clusters": "list_data_blocks list_read_blocks collect_external_clusters",
    "node_clusters": "NodeCluster build_existing_clusters",
    "cluster_observation": (
        "apply_observed_usage match_cluster_snapshot ExternalClusters ObservedCluster "
        "merge_observed_pods check_unknown_clusters"
    ),
    "snapshot_uncertainty": "list_snapshot_doubts",
    "pod_phase": "BINDING_REMOVED CheckablePrediction PlannedPod PodPhase list_unlocated_pods",
    "pod_rows": "parse_pod_record REASONS",
    "template_matching": "assign_template_specs",
    "pod_feasibility": (
        "find_object_feasibility find_candidate_feasibility ObjectFeasibility ClusterPodCapacity "
        "ClusterLossEffects find_worst_loss"
    ),
}
