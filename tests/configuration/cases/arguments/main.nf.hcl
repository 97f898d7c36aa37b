resource "nexus_rack" "a" {
  id            = "x"
  nme           = "r"
  site_id       = null
  machine_count = 300
  status        = "Active"
  zone          = "no/zone"
  tags          = ["a"]
}

resource "nexus_rack" "b" {
  site_id       = "s"
  name          = "b"
  machine_count = "many"
  machine_override "x" {
  }
  machine_override "x" {
    cordned = true
  }
  machine_override {
  }
}

resource "nexus_cluster" "c" {
  name = "c"
  agent_pool "np1" {
    count = -1
    mode  = "SYSTEM"
    taint {
      key = "a"
    }
    taint {
      key = "b"
    }
    taint {
    }
  }
}

resource "nexus_cluster" "d" {
  name = "d"
  control_plane {
    count = 1
  }
  control_plane {
    count = 1
  }
  dynamic "agent_pol" {
    for_each = []
    content {
    }
  }
  dynamic "agent_pool" {
    for_each = []
    content {
      count = 1
      size  = 2
    }
  }
  dynamic "group" {
    for_each = []
    labels   = ["x"]
  }
  dynamic "group" {
    iterator = "1 2"
    content {
    }
  }
}
