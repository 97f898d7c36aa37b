module "missing" {
  source = "./nowhere"
}

module "empty" {
  source = "./empty"
}

module "registry" {
  source  = "hashicorp/consul/aws"
  version = "1.0"
}

module "absolute" {
  source = "/etc"
}

module "loop" {
  source = "./loop"
}

module "bare" {
  source = "inner"
}

module "inputs" {
  source = "./inner"
  sze    = 1
}

module "twice" {
  source = "./inner"
  size   = 1
}

module "twice" {
  source = "./inner"
  size   = 1
}

module "none" {
}

module "keys" {
  source   = "./inner"
  size     = 1
  count    = 1
  for_each = {}
}

module "computed" {
  source = "./${var.x}"
}

output "nothing_more_is_said" {
  value = [module.missing.x, module.registry.y, module.none.a]
}

module "null" {
  source = null
}
