data "nexusform_remote_state" "lab" {
  backend = "local"

  config = {
    path = "documents/lab.nfstate"
  }
}

output "nodes_of_cluster_a" {
  value = data.nexusform_remote_state.lab.resources["nexus_kubernetes_cluster.a"].node_count
}
