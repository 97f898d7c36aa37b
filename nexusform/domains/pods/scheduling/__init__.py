"""Pods on the workers of one cluster, by kube-scheduler's rules. Pure."""
