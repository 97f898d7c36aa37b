data "nexusform_remote_state" "lab" {
  backend = "local"

  config = {
    path = "../../state/nexus-document.nfstate"
  }
}

output "nodes_of_cluster_a" {
  value = data.nexusform_remote_state.lab.resources["nexus_kubernetes_cluster.a"].node_count
}
