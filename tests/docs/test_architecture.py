"""The code path of one VM in docs/how-a-plan-is-made.md: its tables name every module that one VM passes.

One VM is followed through a real plan, its apply and its reports. A module counts when one of its functions
is given that VM (a record of its own, a demand, a name, a row, a place on a map), or reads its record.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from nexusform.domain_table import find_domains
from nexusform.placements.vm_demands import PlacedVm
from nexusform.plans.plan import PlacementChange
from nexusform.rendering.page.rack_map import MapVm
from nexusform.scheduling.racks.vms import Demand, ScheduledVm, VmName
from tests.docs.documented_domains import documented_domains, of_documented_domains
from tests.rendering.real_plans import nexusform, plan_repair

pytestmark = pytest.mark.of_domains("fleet")
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "nexusform"
PAGE = ROOT / "docs" / "how-a-plan-is-made.md"
MOST_MODULES = 25
# It is evacuated, and so is placed again.
TRACED = ("web", "workers", 0)
NAME = "web-workers-0"
RULES = "scheduling/racks/rules/"
# Its cluster has pods, so that it is a node for somebody. What becomes of the node is the walk of pods.
PODS = """
resource "fleet_hub_manifest" "shop" {
  cluster_id = nexus_kubernetes_cluster.web.id
  yaml_body  = <<-YAML
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: shop, namespace: default}
    spec:
      replicas: 3
      selector: {matchLabels: {app: shop}}
      template:
        metadata: {labels: {app: shop}}
        spec: {containers: [{name: shop, image: shop}]}
  YAML
}
"""
# Who may make the record of a VM: its resource type reads it from state, the plan decides it.
MAKERS = {
    "resource_types/nexus_virtual_machine.py",
    "resource_types/nks_pools.py",
    "domains/vnf/types/tacker_vnf.py",
    "domains/pods/planning/node_clusters.py",  # a possible VM of a pool without nodes
    "planning/vm_planning/vm_placement_steps.py",
}


def table(heading: str) -> set[str]:
    """The modules that a table of the page names; a folder stands for all files in it."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([\w/.]+)`", row)}


def entry_of(module: str) -> str:
    """What stands for a module in the tables: the rules are a file each, and one entry."""
    return RULES if module.startswith(RULES) else module


def is_traced(value: object) -> bool:
    """Whether a value stands for the traced VM alone."""
    match value:
        case VmName():
            return (value.cluster, value.pool, value.number) == TRACED
        case Demand() | ScheduledVm():
            return is_traced(value.vm)
        case PlacementChange():
            return value.object == NAME
        case PlacedVm() | MapVm():
            return value.name == NAME
        case _:
            return False


def module_of(frame: FrameType) -> str | None:
    file = Path(frame.f_code.co_filename)
    return str(file.relative_to(PACKAGE)) if file.is_relative_to(PACKAGE) else None


def watched_record(seen: set[str]) -> type[PlacedVm]:
    """The record, which notes the modules that read it."""

    class Watched(PlacedVm, frozen=True):
        def __getattribute__(self, name: str) -> Any:
            if object.__getattribute__(self, "name") == NAME:
                module = module_of(sys._getframe(1))
                if module is not None:
                    seen.add(module)
            return object.__getattribute__(self, name)

    return Watched


def given_to(seen: set[str]) -> Callable[[FrameType, str, Any], None]:
    """A profiler that notes the modules of which a function is given the VM."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = module_of(frame) if event == "call" else None
        if module is None:
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(is_traced(frame.f_locals.get(name)) for name in names):
            seen.add(module)

    return note


def module_named(path: str) -> Any:
    return import_module("nexusform." + path.removesuffix(".py").replace("/", "."))


def constructions(name: str) -> Iterator[str]:
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if f"{name}(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield str(file.relative_to(PACKAGE))


@of_documented_domains
def test_only_state_and_the_plan_make_the_record_of_a_vm() -> None:
    assert set(constructions("PlacedVm")) == MAKERS


def followed(directory: Path, monkeypatch: pytest.MonkeyPatch, *commands: Sequence[str]) -> set[str]:
    """The entries of the modules that the VM passes while these commands run."""
    seen: set[str] = set()
    watched = watched_record(seen)
    for maker in MAKERS:
        monkeypatch.setattr(module_named(maker), "PlacedVm", watched)
    sys.setprofile(given_to(seen))
    try:
        for words in commands:
            nexusform(directory, *words)
    finally:
        sys.setprofile(None)
    return {entry_of(module) for module in seen}


@of_documented_domains
def test_the_table_names_every_module_from_text_to_a_line_in_a_pull_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = plan_repair(tmp_path).file.parent
    with (directory / "main.nf.hcl").open("a") as configuration:
        configuration.write(PODS)
    planned = ("plan", "-out=traced.plan", "-report=markdown:report.md")
    seen = followed(directory, monkeypatch, planned, ("apply", "traced.plan"))
    assert NAME in (directory / "report.md").read_text()
    assert seen == table("Every module that one VM passes")
    assert len(seen) <= MOST_MODULES


@of_documented_domains
def test_the_other_table_names_the_modules_of_the_other_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = plan_repair(tmp_path).file.parent
    reports = [f"-report={name}:report.{name}" for name in ("json", "html", "svg")]
    seen = followed(directory, monkeypatch, ("plan", *reports))
    assert seen - table("Every module that one VM passes") == table("The other reports of a VM")


def test_the_page_names_every_domain_and_every_room_of_the_engine() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    known = next(each["layers"] for each in layers if each["name"].startswith("Domains import one another"))
    assert set(find_domains()) <= documented_domains() == set(re.findall(r"\w+", " ".join(known)))
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} - {"domains"}
    assert rooms <= set(re.findall(r"`(\w+)/`", page))
