resource "nexus_site" "a" {
  for_eech = toset(["a"])
  lifecyle {
    prevent_destroy = true
  }
}

resource "nexus_cluster" "a" {
  coutn = 2
  control_plane {
    count    = 1
    for_eech = 1
  }
  dynamic {
    for_each = [1]
    content {}
  }
  dynamic "group" "more" {
    for_each = [1]
    content {}
  }
}

module "a" {
  source   = "./child"
  for_eech = toset(["a"])
}
