"""Placement of pods on the nodes of one cluster by the rules of kube-scheduler.

All functions are pure.
"""

# Public names of the package, by module.
PUBLIC = {
    "pod_explanation": "evaluate_nodes explain NodeVerdict run_prediction",
    "pod_outcomes": "PodOutcome PREEMPTED",
    "preemption": "compute_eviction_limits find_drain_obstacles",
    "template_rollout": "TEMPLATE_KEY",
    "workload_warnings": "RISKS",
    "pod_prediction": "predict",
    "cluster_records": (
        "Strategy Cluster Node PodKey PodSpec PodState ExistingPod Workload SpreadConstraint "
        "PodTerm"
    ),
    "pod_spec_scheduler": "PodSpecScheduler",
}
