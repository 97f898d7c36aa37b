"""Pods on nodes that are known. Start at phase.py."""

# What other rooms may use of this one.
DOOR = {
    "blocks": "manifest_findings objects_in plan_fleet_objects pod_risks pods_over prior_members prior_pods",
    "brought": "pod_number PodKey",
    "disruptions": "as_stated",
    "elsewhere": "data_blocks read_by read_elsewhere",
    "hosted": "claimed_in_state hosted_in_state",
    "nodes": "cluster_attributes node_of NodeCluster standing_clusters",
    "observed": "bind Elsewhere ObservedCluster stand_where_seen unknown_observed",
    "phase": "PodDecision PodPhase",
    "rows": "PodNote read_note REASONS volumes_of",
    "templates": "as_made",
}
