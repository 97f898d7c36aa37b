terraform {
  required_version = "1.0"
}

resourc "nexus_site" "a" {
  name = "a"
}

resource "nexus_site" {
  name = "a"
}

resource "nexus_site" "a" "b" {
  name = "a"
}

resource "nexus_site" "1a" {
  name = "a"
}

stray = 1

resource "nexus_site" "x" {
  name = "x"
}

resource "nexus_site" "x" {
  name = "x"
}

data "nexus_inventory" "d" {
  directory = "a"
}

data "nexus_inventory" "d" {
  directory = "a"
}

variable "v" {}
variable "v" {}

locals {
  l      = 1
}

locals {
  l = 2
}

output "o" {
  value = 1
}

output "o" {
  value = 2
}

output "none" {
  ephemeral = "x"
}

provider "simulated" {}
provider "simulated" {}

provider "simulated" {
  alias = "b c"
}

check "c" {
}

check "d" {
  assert {
    condition = path.module != ""
  }
}

check "d" {
  assert {
    condition     = path.module != ""
    error_message = "x"
  }
}

provider "simulated" {
  alias = ""
}
