"""Plans of the examples and of small configurations, made through the command line."""

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
# 28 February 2026, 14:00 UTC: eight hours after the export in the inventory example.
NOW = "1772287200"
REGISTRIES = build_registries()
# The domains of the types in an example.
NEEDS = {
    "inventory": {"azure"},
    "fleet": {"fleet"},
    "end-to-end": {"fleet"},
    "hardware-aware": {"fleet", "vnf"},
    "real-nodes": {"fleet"},
    "terraform-plan": {"azure"},
}


class RealPlan(Struct, frozen=True):
    """A saved plan, its sources, and its location."""

    saved: SavedPlan
    file: Path

    @property
    def sources(self) -> dict[str, SourceFile]:
        return {
            name: SourceFile(name, text) for name, text in self.saved.configuration_files.items()
        }


def of_examples(*names: str) -> list[ParameterSet]:
    """Return test parameters, each example marked with its domains."""
    return [
        pytest.param(name, marks=pytest.mark.of_domains(*NEEDS.get(name, ()))) for name in names
    ]


@contextmanager
def change_directory(directory: Path) -> Iterator[None]:
    here = Path.cwd()
    before = os.environ.get("SOURCE_DATE_EPOCH")
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
    """Run a command in a directory."""
    with change_directory(directory):
        assert run_command_line(list(words)) == code, words


def copy_example(example: str, where: Path) -> Path:
    target = where / example
    shutil.copytree(
        EXAMPLES / example, target, ignore=shutil.ignore_patterns("state", ".nexusform")
    )
    return target


def plan_directory(directory: Path, *words: str) -> RealPlan:
    """Plan a directory and read the saved plan."""
    file = directory / "reviewed.plan"
    nexusform(directory, "plan", f"-out={file}", *words)
    saved, problems = read_plan(str(file), CommandContext(directory=str(directory)))
    assert saved is not None, problems
    return RealPlan(saved, file)


def plan_half_full_site(where: Path) -> RealPlan:
    """Plan the half-full step of the document: cluster D beside the existing A, B and C."""
    directory = copy_example("nexus-document", where)
    nexusform(directory, "apply", "-auto-approve", "-var", "step=empty", "-samples=0")
    return plan_directory(directory, "-var", "step=half-full")


def plan_evacuation(where: Path) -> RealPlan:
    """Plan the evacuation of two machines of one rack on the full site of the document.

    Three VMs move.
    """
    directory = copy_example("nexus-document", where)
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
    return plan_directory(directory)


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


def plan_repair(where: Path) -> RealPlan:
    """Plan the evacuation of a machine and a smaller pool: VMs move, are removed or stay."""
    directory = where / "repaired"
    directory.mkdir()
    main = directory / "main.nf.hcl"
    main.write_text(SMALL.replace("WORKERS", "9").replace("MORE", ""))
    nexusform(directory, "apply", "-auto-approve", "-samples=0")
    more = '\n  dynamic "machine_override" {\n    for_each = count.index == 0 ? ["r1-bm01"] : []\n'
    more += (
        "    labels   = [machine_override.value]\n\n    content {\n      evacuate = true\n    }\n  "
        "}"
    )
    main.write_text(SMALL.replace("WORKERS", "8").replace("MORE", more))
    return plan_directory(directory)


def render_failed_plan(where: Path) -> str:
    """Return the comment on a plan with a pool without capacity."""
    directory = where / "refused"
    directory.mkdir()
    (directory / "main.nf.hcl").write_text(SMALL.replace("WORKERS", "40").replace("MORE", ""))
    return render_comment(directory)


def render_comment(directory: Path, *words: str) -> str:
    """Return the comment on the failed plan of a directory."""
    nexusform(directory, "plan", "-report=markdown:refused.md", *words, code=1)
    return (directory / "refused.md").read_text(encoding="utf-8")


def plan_many_objects(where: Path, count: int = 5000) -> RealPlan:
    """Plan the creation of at least `count` objects, equal except for their names."""
    directory = where / "many"
    directory.mkdir()
    text = 'resource "nexus_site" "s" {}\n\nresource "nexus_rack" "r" {\n'
    text += f'  count         = {count}\n  name          = "r${{count.index}}"\n'
    text += "  site_id       = nexus_site.s.id\n  machine_count = 2\n}\n"
    (directory / "main.nf.hcl").write_text(text)
    return plan_directory(directory, "-samples=0")
