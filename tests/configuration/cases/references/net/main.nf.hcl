output "id" {
  value = nexus_site.lab.id
}
