# Members, placements and bindings on the hub. A plan starts from them.
# The hub: NF_FLEET_KUBECONFIG and NF_FLEET_CONTEXT, else as kubectl.
data "fleet_hub" "hub" {}
