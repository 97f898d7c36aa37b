variable "site_id" {
  type = string
}

resource "nexus_rack" "inner" {
  site_id = var.site_id
  name    = "inner"
}

output "id" {
  value = nexus_rack.inner.id
}
