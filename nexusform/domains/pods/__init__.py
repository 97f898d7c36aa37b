"""Pods on nodes, as kube-scheduler and the controllers around it place them."""

# What other rooms may use of this one.
DOOR = {
    "pod_kind": "POD PodPlace",
}
