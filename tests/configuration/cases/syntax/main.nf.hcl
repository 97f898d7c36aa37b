resource "nexus_site" "a" {
  name = "a
}

resource "nexus_site" "b" {
  name == "b"
}
