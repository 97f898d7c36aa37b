"""Placement of pods on the nodes of one cluster by the rules of kube-scheduler. Pure functions."""

# Public names of the package, by module.
PUBLIC = {
    "explanation": "evaluate_nodes explain NodeVerdict run_prediction",
    "pod_outcomes": "PodOutcome Prediction PREEMPTED",
    "preemption": "list_applied_budgets",
    "risks": "RISKS",
    "pod_prediction": "predict",
    "workloads": ("DisruptionBudget Cluster Node PodSpec PodState ExistingPod Workload SpreadConstraint PodTerm"),
    "spec_scheduler": "SpecScheduler",
}
