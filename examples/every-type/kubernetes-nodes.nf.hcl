# Output of `kubectl get ns,nodes,pods,pvc,pv,sc,pdb,quota,limits,priorityclasses -A -o json`.
data "kubernetes_nodes" "paris" {
  files      = ["documents/nodes.json"]
  cluster_id = "paris" # or the id of a nexus_kubernetes_cluster or tacker_vnf
}
