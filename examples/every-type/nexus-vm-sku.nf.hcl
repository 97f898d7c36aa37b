resource "nexus_vm_sku" "edge" {
  vcpus          = 8
  emulator_vcpus = 2
  memory_gib     = 32
}
