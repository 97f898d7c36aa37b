variable "v" {
  type    = number
  default = 1
}

locals {
  a = 1
  b = 2
}

resource "nexus_cluster" "c" {
  name = "c"
  control_plane {
    count = 1
  }
  agent_pool "np1" {
    count = 1
  }
  agent_pool "np2" {
    count = 1
  }
  lifecycle {
    prevent_destroy       = true
    create_before_destroy = true
  }
}

resource "nexus_rack" "r" {
  site_id = "s"
  name    = "r"
}
