resource "fleet_staged_update_strategy" "slow" {
  namespace = "shop"

  stage {
    name            = "all"
    max_concurrency = "1"
    label_selector {}

    before_stage_task {
      type = "Approval"
    }
  }
}
