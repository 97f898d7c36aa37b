# Files exported with `nexusform inventory script`.
data "nexus_inventory" "lon1" {
  directory = "documents/export"
}

output "racks_of_lon1" {
  value = keys(data.nexus_inventory.lon1.racks)
}
