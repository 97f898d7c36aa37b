# It limits evictions from the fleet_cluster_resource_placement of its name.
resource "fleet_placement_disruption_budget" "shop" {
  min_available = "1"
}
