resource "nexus_site" "a" {
  name = "a"
}

variable "checked" {
  default = 1
  validation {
    condition     = var.checked == 2
    error_message = "x"
  }
}
