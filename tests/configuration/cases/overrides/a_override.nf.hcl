locals {
  a = 10
}

variable "v" {
  default = 2
}

resource "nexus_cluster" "c" {
  name = "overridden"
  agent_pool "np9" {
    count = 9
  }
  lifecycle {
    prevent_destroy = false
  }
}
