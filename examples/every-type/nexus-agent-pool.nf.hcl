resource "nexus_agent_pool" "batch" {
  kubernetes_cluster_id = nexus_kubernetes_cluster.core.id
  node_count            = 2
  vm_sku_name           = nexus_vm_sku.edge.name
  availability_zones    = [nexus_rack.rack[0].availability_zone, nexus_rack.rack[1].availability_zone]

  taint {
    key    = "batch"
    value  = "true"
    effect = "NoSchedule"
  }
}
