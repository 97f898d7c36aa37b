"""Fleet placements: which member clusters a workload is placed on, as KubeFleet decides it."""
