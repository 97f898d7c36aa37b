variable "size" {
}
module "far" {
  source = "example/far/away"
  size   = var.size
}
output "o" {
  value = module.far.o
}
