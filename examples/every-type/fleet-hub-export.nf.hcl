data "fleet_hub_export" "live" {
  files = ["hub.yaml"]
}

output "clusters_of_live_placements" {
  value = { for id, placement in data.fleet_hub_export.live.placements : id => keys(placement.bindings) }
}
