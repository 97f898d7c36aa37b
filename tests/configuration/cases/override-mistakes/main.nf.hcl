resource "nexus_site" "a" {
  name = "a"
}
