# Every construct of the language, once at least.
resource "nexus_agent_pool" plain {
  name  = "x-${var.a}-${upper(local.b[0])}" // behind a value
  list  = [1, 2.5, "three", true, null, -4, ]
  obj   = { a = 1, "b" : 2, (c) = [for k, v in var.m : "${k}=${v}" if v != null] }
  map   = { for k, v in var.m : k => v... if k != "é" }
  cond  = a.b["k"].c[*].d == 1 && !x || y >= 3 ? f(1, g(2)...) : null
  splat = a.*.b.0[1]
  index = x[y][z.w]["${q}"].r /* inside a line */
  scope = provider::nexus::id(a)
  doc   = <<-EOT
    hello ${name}
      %{ if x }yes%{ else }no%{ endif ~}
    $${lit}
  EOT
  plain = <<EOT
${~ a ~} b
%{ for i, v in w ~}
${i} ${v}
%{ endfor }
EOT
  nested "lab" two {
    k = "\u00e9\n\t\"q\"\\ $$ %% $${a}"
  }
  one { a = 1 }
  empty {}
  sum = (1 +
    2) * 3 % 2 / 4 - 5

  multi = {
    "a" = 1 # behind an item

    b = {
    }
    true = "${
      a
    }"
  }
}
größe-2 = ä.ö
