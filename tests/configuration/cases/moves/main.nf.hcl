moved {
  from = nexus_site.a
}

moved {
  from = nexus_site
  to   = nexus_site.b
}

moved {
  from = module.a
  to   = nexus_site.b
}

moved {
  from = var.x + 1
  to   = nexus_site.b
}

removed {
  from = nexus_site.a[0]
}

removed {
  from = module.a["x"].nexus_site.b
}

import {
  to = data.nexus_inventory.a
  id = "x"
}

import {
  to = module.a
  id = "x"
}

import {
  to = module.a["x"].nexus_site.b
}

moved {
  from = nexusform.a
  to   = var.b
}

moved {
  from = module.a.nexus_site.b["x"]
  to   = module.a.nexus_site.b["x"]
}
