resource "fleet_cluster_staged_update_run" "shop" {
  placement_name               = "shop"
  staged_rollout_strategy_name = fleet_cluster_staged_update_strategy.rings.name
  state                        = "Run"
}
