"""Pods on nodes, placed by the rules of kube-scheduler and the Kubernetes controllers."""

# Public names of the package, by module.
PUBLIC = {"pod_kind": "UNREACHABLE_MEMBERS LEFT_OBJECTS POD PodLocation"}
