# Limits evictions of the fleet_cluster_resource_placement with the same name.
resource "fleet_placement_disruption_budget" "shop" {
  min_available = "1"
}
