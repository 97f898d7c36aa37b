nexusform {
  backend "local" {
  }
  lint {
    ignore = ["shared-machine"]
  }
}

variable "size" {}

import {
  to = nexus_site.a
  id = "a"
}
