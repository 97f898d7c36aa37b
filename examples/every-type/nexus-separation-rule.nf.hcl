resource "nexus_separation_rule" "probe_apart" {
  scope       = "machine"
  enforcement = "warn" # "deny": an error if the rule may be violated

  group {
    cluster_ids = [nexus_virtual_machine.probe.id]
  }

  group {
    pool_ids = ["${nexus_kubernetes_cluster.core.id}/workers"]
  }
}
