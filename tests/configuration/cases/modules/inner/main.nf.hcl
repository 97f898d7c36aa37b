nexusform {
  backend "local" {
  }
}

variable "size" {}

import {
  to = nexus_site.a
  id = "a"
}
