resource "fleet_placement_eviction" "shop_leaves_paris" {
  name           = "shop-leaves-paris"
  placement_name = "shop"
  cluster_name   = "paris"
}
