# What stands on the hub: members with their figures, placements with their bindings. A plan goes on from there.
# Which hub: NF_FLEET_KUBECONFIG and NF_FLEET_CONTEXT, else what kubectl would take.
data "fleet_hub" "hub" {}
