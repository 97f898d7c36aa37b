resource "fleet_approval_request" "settings" {
  namespace            = "shop"
  name                 = "settings-before-all"
  parent_stage_rollout = fleet_staged_update_run.settings.name
  target_stage         = "all"
}
