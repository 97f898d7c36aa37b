locals {
  clusters = concat(
    [
      { name = "cluster-a", nodes = nexus_kubernetes_cluster.a.nodes },
      { name = "cluster-b", nodes = nexus_kubernetes_cluster.b.nodes },
      { name = "cluster-c", nodes = nexus_kubernetes_cluster.c.nodes },
    ],
    [for cluster in nexus_kubernetes_cluster.d : { name = cluster.name, nodes = cluster.nodes }],
    [for cluster in nexus_kubernetes_cluster.e : { name = cluster.name, nodes = cluster.nodes }],
  )
}

output "vms_per_rack" {
  description = "The document's tables: cluster, pool, rack, number of VMs."
  value = {
    for cluster in local.clusters : cluster.name => {
      for pool in distinct([for node in cluster.nodes : node.pool]) : pool => {
        for rack in distinct([for node in cluster.nodes : node.rack if node.pool == pool]) :
        rack => length([for node in cluster.nodes : node if node.pool == pool && node.rack == rack])
      }
    }
  }
}

output "machines_with_two_vms_of_a_cluster" {
  description = "Per cluster, the machines that house more than one of its VMs."
  value = {
    for cluster in local.clusters : cluster.name => [
      for machine in sort(distinct([for node in cluster.nodes : node.machine])) : machine
      if length([for node in cluster.nodes : node if node.machine == machine]) > 1
    ]
  }
}
