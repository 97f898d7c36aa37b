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

variable "checked" {
  validation {
    condition     = var.checked == 1
    error_message = "x"
  }
}

resource "nexus_site" "a" {
  lifecycle {
    precondition {
      condition     = var.checked == 1
      error_message = "x"
    }
  }
}
