# Properties and resources come from the nodes of the cluster.
resource "fleet_member_cluster" "core" {
  kubernetes_cluster_id = nexus_kubernetes_cluster.core.id
  labels                = { ring = "1" }
}

# Properties and resources are set here.
resource "fleet_member_cluster" "paris" {
  labels     = { ring = "2" }
  properties = { "kubernetes-fleet.io/node-count" = "5" }

  resources {
    total       = { cpu = "80", memory = "320Gi" }
    allocatable = { cpu = "78", memory = "300Gi" }
    available   = { cpu = "40", memory = "200Gi" }
  }
}
