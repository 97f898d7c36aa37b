"""Pods on nodes, as kube-scheduler and the controllers around it place them."""
