resource "nexus_rak" "a" {
}

resource "nexus_inventory" "a" {
  directory = "x"
}

data "nexus_site" "a" {
}

resource "nexus_site" "both" {
  count    = 1
  for_each = {}
  name     = "x"
}

resource "nexus_site" "life" {
  name = "x"
  lifecycle {
    prevent_destroy = var.x
    ignore_changes  = [name, 1 + 1]
    colour          = "red"
  }
  lifecycle {
  }
}

resource "nexus_site" "lists" {
  name       = "x"
  depends_on = nexus_site.life
  provider   = simulated.a.b
  lifecycle {
    ignore_changes       = "*"
    replace_triggered_by = [1]
    precondition {
      condition = path.module != ""
    }
  }
  provisioner "local-exec" {
  }
}

data "nexus_inventory" "d" {
  directory = "x"
  lifecycle {
    prevent_destroy = true
  }
}

resource "nexus_site" "alias" {
  name     = "x"
  provider = simulated.nobody
}

resource "nexus_site" "indexes" {
  name = "x"
  lifecycle {
    ignore_changes = [machine["bm01"].status, machine[1.5].status, machine[true].status]
  }
}

check "nested" {
  data "nexus_inventory" "in_check" {
    provider = simulated.nobody
    stray    = 1
  }
  assert {
    condition     = data.nexus_inventory.in_check != null
    error_message = "x"
  }
}
