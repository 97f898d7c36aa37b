nexusform {
  required_version = "> 1000"
  sku_catalogue    = "2026-03"
  backend "local" {
  }
  lint {
    ignore = "x"
  }
}

nexusform {
  required_version = "newest"
  sku_catalogue    = "2026-04"
  backend "s3" {
  }
  required_providers {
  }
}

nexusform {
  sku_catalogue = var.x
}
