resource "nexus_rack" "rack" {
  count             = 2
  site_id           = nexus_site.lab.id
  name              = "rack${count.index + 1}"
  availability_zone = tostring(count.index + 1)
  machine_count     = 3
  machine_sku       = "bom-1.7.3"
}

resource "nexus_rack" "cordoned" {
  site_id       = nexus_site.lab.id
  name          = "rack3"
  machine_count = 2

  machine_override "rack3-bm02" {
    cordoned = true # accepts no new VMs; existing VMs stay
  }
}
