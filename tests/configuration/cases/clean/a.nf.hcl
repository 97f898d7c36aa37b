variable "site" {
  type    = string
  default = "lab"
}

variable "cordoned" {
  type    = list(string)
  default = []
}

locals {
  racks = { for name in keys(data.nexus_inventory.site.racks) : name => "${name}-${nexusform.workspace}" }
}

provider "simulated" {
  alias = "east"
}

data "nexus_inventory" "site" {
  directory = "inventory"
}
