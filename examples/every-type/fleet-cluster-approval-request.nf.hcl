resource "fleet_cluster_approval_request" "shop" {
  name                 = "shop-after-first"
  parent_stage_rollout = fleet_cluster_staged_update_run.shop.name
  target_stage         = "first"
}
