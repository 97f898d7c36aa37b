# Empty environment: A, B and C.

resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.lab.id
  name    = "cluster-a"

  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }

  agent_pool "pool1" {
    count       = 24
    vm_sku_name = "NC_P46_224_v1"
  }

  agent_pool "pool2" {
    count       = 6
    vm_sku_name = "NC_G6_28_v1"
  }
}

resource "nexus_kubernetes_cluster" "b" {
  site_id = nexus_site.lab.id
  name    = "cluster-b"

  control_plane {
    count       = 5
    vm_sku_name = "NC_G24_112_v1"
  }

  agent_pool "pool1" {
    count       = 48
    vm_sku_name = "NC_P46_224_v1"
  }

  agent_pool "pool2" {
    count       = 24
    vm_sku_name = "NC_P22_112_v1"
  }
}

resource "nexus_kubernetes_cluster" "c" {
  site_id = nexus_site.lab.id
  name    = "cluster-c"

  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }

  agent_pool "pool1" {
    count              = 12
    vm_sku_name        = "NC_P46_224_v1"
    availability_zones = ["1", "4"]
  }
}

# Half-full environment: D. The document's list gives its control plane as NC_G24_112_v1, its table
# as NC_G12_56_v1; the list is followed here.

resource "nexus_kubernetes_cluster" "d" {
  count = var.step == "empty" ? 0 : 1

  site_id = nexus_site.lab.id
  name    = "cluster-d"

  control_plane {
    count       = 5
    vm_sku_name = "NC_G24_112_v1"
  }

  agent_pool "pool1" {
    count              = 24
    vm_sku_name        = "NC_P46_224_v1"
    availability_zones = ["7", "8"]
  }

  agent_pool "pool2" {
    count       = 24
    vm_sku_name = "NC_P22_112_v1"
  }
}

# Nearly full environment: E.

resource "nexus_kubernetes_cluster" "e" {
  count = var.step == "nearly-full" ? 1 : 0

  site_id = nexus_site.lab.id
  name    = "cluster-e"

  control_plane {
    count       = 5
    vm_sku_name = "NC_G24_112_v1"
  }

  agent_pool "pool1" {
    count       = 32
    vm_sku_name = "NC_P46_224_v1"
  }
}
