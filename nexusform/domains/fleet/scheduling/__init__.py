"""Placements on member clusters: KubeFleet's scheduler, rollout and status, as pure functions."""
