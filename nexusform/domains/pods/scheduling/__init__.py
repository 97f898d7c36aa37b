"""Pods on the workers of one cluster, by kube-scheduler's rules. Pure."""

# What other rooms may use of this one.
DOOR = {
    "explanation": "consider explain NodeVerdict",
    "forecast": "PodOutcome Prediction PREEMPTED",
    "preemption": "allowed_now holds",
    "risks": "RISKS",
    "scheduler": "predict",
    "workloads": "Budget Cluster Node PodSpec PodState StandingPod Workload",
}
