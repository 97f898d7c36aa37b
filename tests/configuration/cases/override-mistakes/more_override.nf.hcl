resource "nexus_site" "b" {
  name = "b"
}

resource "nexus_site" "a" {
  depends_on = [nexus_site.b]
}

variable "v" {
  default = 1
}

locals {
  l = 1
}

moved {
  from = nexus_site.x
  to   = nexus_site.a
}
