"""Fleet placements: selection of member clusters for workloads by the rules of KubeFleet."""
