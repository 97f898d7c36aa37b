"""What `init` offers a directory that is new to nexusform: a first configuration and a .gitignore."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from nexusform.configuration.loader import JSON, NATIVE
from nexusform.configuration.overlooked import listed
from nexusform.regular_files import create

_CONFIGURATION: Final = """\
# Two racks of four servers, and a cluster of seven VMs on them.

resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  for_each = toset(["1", "2"])

  site_id       = nexus_site.lab.id
  name          = "rack${each.key}"
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.lab.id

  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }

  agent_pool "workers" {
    count       = 4
    vm_sku_name = "NC_P22_112_v1"
  }
}

output "machine_of_each_node" {
  value = { for name, node in nexus_kubernetes_cluster.web.nodes : name => node.machine }
}
"""
_GITIGNORE: Final = """\
# nexusform: its working directory, plans and local states, in which secrets may stand
.nexusform/
*.nfplan
state/*.nfstate*
"""
_TEXTS: Final = {"main.nf.hcl": _CONFIGURATION, ".gitignore": _GITIGNORE}


def missing_files(directory: str) -> tuple[str, ...]:
    """The files that could be offered: a configuration where there is none at all, a .gitignore where there
    is none and the directory belongs to a git work tree or is new.
    """
    names = listed(directory)
    new = not any(name.endswith((NATIVE, JSON)) for name in names)
    offered = ["main.nf.hcl"] if new else []
    if ".gitignore" not in names and (new or _in_work_tree(Path(directory))):
        offered.append(".gitignore")
    return tuple(offered)


def write_first_file(directory: str, name: str) -> None:
    """Write one of them; what stands there already stays. Raises OSError."""
    with os.fdopen(create(Path(directory) / name, 0o666), "wb") as stream:
        stream.write(_TEXTS[name].encode())


def _in_work_tree(directory: Path) -> bool:
    top = directory.absolute()
    return any((folder / ".git").exists() for folder in (top, *top.parents))
