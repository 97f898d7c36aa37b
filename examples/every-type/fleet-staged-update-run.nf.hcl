resource "fleet_staged_update_run" "settings" {
  namespace                    = "shop"
  placement_name               = "settings"
  staged_rollout_strategy_name = fleet_staged_update_strategy.slow.name
  state                        = "Run"
}
