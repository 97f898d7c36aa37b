"""Plans of the examples and of small configurations, made as users make them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from msgspec import Struct

from nexusform.cli.main import run_command_line
from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.resource_types.registry import build_registries
from nexusform.workflow.opening.project import CommandContext
from nexusform.workflow.plan_files.saved_plans import read_plan

EXAMPLES = Path(__file__).parents[2] / "examples"
# 28 February 2026, 14:00 UTC: eight hours after the export of the inventory example.
NOW = "1772287200"
REGISTRIES = build_registries()
# The domains whose types an example names.
NEEDS = {
    "inventory": {"azure"},
    "fleet": {"fleet"},
    "end-to-end": {"fleet"},
    "hardware-aware": {"fleet", "vnf"},
    "real-nodes": {"fleet"},
    "terraform-plan": {"azure"},
}


class RealPlan(Struct, frozen=True):
    """A saved plan, the sources it was made from, and where it stands."""

    saved: SavedPlan
    file: Path

    @property
    def sources(self) -> dict[str, SourceFile]:
        return {name: SourceFile(name, text) for name, text in self.saved.configuration_files.items()}


def of_examples(*names: str) -> list[ParameterSet]:
    """Parameters of a test: each example goes with the domains that it needs."""
    return [pytest.param(name, marks=pytest.mark.of_domains(*NEEDS.get(name, ()))) for name in names]


@contextmanager
def inside(directory: Path) -> Iterator[None]:
    here, before = Path.cwd(), os.environ.get("SOURCE_DATE_EPOCH")
    os.chdir(directory)
    os.environ["SOURCE_DATE_EPOCH"] = NOW
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.pop("SOURCE_DATE_EPOCH")
        if before is not None:
            os.environ["SOURCE_DATE_EPOCH"] = before


def nexusform(directory: Path, *words: str, code: int = 0) -> None:
    """Run a command there."""
    with inside(directory):
        assert run_command_line(list(words)) == code, words


def copied(example: str, where: Path) -> Path:
    target = where / example
    shutil.copytree(EXAMPLES / example, target, ignore=shutil.ignore_patterns("state", ".nexusform"))
    return target


def planned(directory: Path, *words: str) -> RealPlan:
    """The plan of a directory as it stands."""
    file = directory / "reviewed.plan"
    nexusform(directory, "plan", f"-out={file}", *words)
    saved, problems = read_plan(str(file), CommandContext(directory=str(directory)))
    assert saved is not None, problems
    return RealPlan(saved, file)


def half_full(where: Path) -> RealPlan:
    """The document's half-full step: cluster D beside A, B and C, which stand."""
    directory = copied("nexus-document", where)
    nexusform(directory, "apply", "-auto-approve", "-var", "step=empty", "-samples=0")
    return planned(directory, "-var", "step=half-full")


def evacuated(where: Path) -> RealPlan:
    """The document's site in full, when two machines of a rack are evacuated: three VMs move."""
    directory = copied("nexus-document", where)
    nexusform(directory, "apply", "-auto-approve", "-samples=0")
    main = directory / "main.nf.hcl"
    evacuation = """
  dynamic "machine_override" {
    for_each = each.key == "3" ? ["rack3-bm11", "rack3-bm12"] : []
    labels   = [machine_override.value]

    content {
      evacuate = true
    }
  }
}
"""
    main.write_text(main.read_text().rstrip().removesuffix("}") + evacuation)
    return planned(directory)


SMALL = """
resource "nexus_site" "s" {}

resource "nexus_rack" "r" {
  count         = 3
  name          = "r${count.index + 1}"
  site_id       = nexus_site.s.id
  machine_count = 4
MORE
}

resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.s.id

  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }

  agent_pool "workers" {
    count       = WORKERS
    vm_sku_name = "NC_P46_224_v1"
  }
}
"""


def repaired(where: Path) -> RealPlan:
    """A machine is evacuated and the pool shrinks: VMs move, leave and stay."""
    directory = where / "repaired"
    directory.mkdir()
    main = directory / "main.nf.hcl"
    main.write_text(SMALL.replace("WORKERS", "9").replace("MORE", ""))
    nexusform(directory, "apply", "-auto-approve", "-samples=0")
    more = '\n  dynamic "machine_override" {\n    for_each = count.index == 0 ? ["r1-bm01"] : []\n'
    more += "    labels   = [machine_override.value]\n\n    content {\n      evacuate = true\n    }\n  }"
    main.write_text(SMALL.replace("WORKERS", "8").replace("MORE", more))
    return planned(directory)


def refused(where: Path) -> str:
    """The comment on a plan with a pool that does not fit."""
    directory = where / "refused"
    directory.mkdir()
    (directory / "main.nf.hcl").write_text(SMALL.replace("WORKERS", "40").replace("MORE", ""))
    return comment_on(directory)


def comment_on(directory: Path, *words: str) -> str:
    """The comment on the plan of a directory, which is in error."""
    nexusform(directory, "plan", "-report=markdown:refused.md", *words, code=1)
    return (directory / "refused.md").read_text(encoding="utf-8")


def many(where: Path, count: int = 5000) -> RealPlan:
    """A plan that creates `count` objects and more, all alike but for their names."""
    directory = where / "many"
    directory.mkdir()
    text = 'resource "nexus_site" "s" {}\n\nresource "nexus_rack" "r" {\n'
    text += f'  count         = {count}\n  name          = "r${{count.index}}"\n'
    text += "  site_id       = nexus_site.s.id\n  machine_count = 2\n}\n"
    (directory / "main.nf.hcl").write_text(text)
    return planned(directory, "-samples=0")
