resource "fleet_cluster_staged_update_strategy" "rings" {
  stage {
    name = "first"

    label_selector {
      match_labels = { ring = "1" }
    }

    after_stage_task {
      type = "Approval"
    }
  }

  stage {
    name = "rest"

    label_selector {
      match_labels = { ring = "2" }
    }
  }
}
