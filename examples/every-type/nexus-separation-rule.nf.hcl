resource "nexus_separation_rule" "probe_apart" {
  scope       = "machine"
  enforcement = "warn" # "deny" refuses a plan in which the rule may not hold

  group {
    cluster_ids = [nexus_virtual_machine.probe.id]
  }

  group {
    pool_ids = ["${nexus_kubernetes_cluster.core.id}/workers"]
  }
}
