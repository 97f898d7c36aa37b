# Twelve sites of one kind, applied in two waves. `nexusform sites` reads this file.

defaults {
  source = "./modules/site"

  backend "local" {
    path = "states/${site.name}.nfstate"
  }
}

# The first site: errors appear here before other sites are changed.
site "lon1" {
  inputs = { name = "lon1", racks = 4, workers = 6 }
  labels = { region = "uk" }
  wave   = "canary"
}

# All other sites are rows of a file from an inventory.
sites {
  for_each = jsondecode(file("sites.json"))
  name     = each.key
  inputs   = { name = each.key, racks = each.value.racks, workers = each.value.workers }
  labels   = { region = each.value.region }
}

strategy {
  max_unavailable = 3

  wave "canary" {
    max_failures = 0
    soak         = "1s"
  }

  wave "rest" {
    max_parallel = 20
    gate         = "approve"
  }
}
