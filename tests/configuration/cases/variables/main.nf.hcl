variable "count" {}

variable "1x" {}

variable "a" {
  type = strin
}

variable "b" {
  type    = number
  default = "many"
}

variable "c" {
  default = var.a
}

variable "d" {
  default = max(1, 2)
}

variable "e" {
  type     = string
  default  = null
  nullable = false
}

variable "f" {
  sensitive = "maybe"
  validation {
    condition = path.module != ""
  }
}

variable "i" {
  validation {
    condition     = var.e == "" && path.module != ""
    error_message = "It is about another variable."
  }
}

variable "g" {
  defualt = 1
}

variable "j" {
  default    = 1
  deprecated = " "
}

output "k" {
  value      = 1
  deprecated = ""
}
