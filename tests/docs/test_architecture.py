"""Tests of the code path of one VM in docs/how-a-plan-is-made.md.

Its tables list every module on the path.

One VM is traced through a real plan, its apply and its reports. A module counts if one of its
functions gets this VM as an argument (its own record, a demand, a name, a row, a position on a
map), or reads its record.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from nexusform.domain_table import find_domains
from nexusform.placements.vm_demands import PlacedVm
from nexusform.plans.plan import PlacementChange
from nexusform.rendering.report.rack_map import MapVm
from nexusform.scheduling.racks.vms import Demand, ScheduledVm, VmName
from tests.docs.documented_domains import of_documented_domains, read_documented_domains
from tests.rendering.real_plans import nexusform, plan_repair

pytestmark = pytest.mark.of_domains("fleet")
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "nexusform"
PAGE = ROOT / "docs" / "how-a-plan-is-made.md"
MOST_MODULES = 28
# It is evacuated, and so is placed again.
TRACED = ("web", "workers", 0)
NAME = "web-workers-0"
RULES = "scheduling/racks/rules/"
# Its cluster has pods, so its node is part of pod planning. The path of the node itself is
# that of pods.
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
# Modules allowed to create the record of a VM: its resource type reads it from the state, the
# plan decides it.
MAKERS = {
    "resource_types/nexus_virtual_machine.py",
    "resource_types/nks_pools.py",
    "domains/vnf/types/tacker_vnf.py",
    # A possible VM of a pool without nodes.
    "domains/pods/planning/node_clusters.py",
    "planning/vm_planning/vm_placement_steps.py",
}


def read_table(heading: str) -> set[str]:
    """Return the modules in a table of the page; a folder stands for all its files."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([\w/.]+)`", row)}


def get_table_entry(module: str) -> str:
    """Return the table entry of a module: the rules have one file each, and one entry."""
    return RULES if module.startswith(RULES) else module


def is_traced(value: object) -> bool:
    """Return whether a value refers to the traced VM only."""
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


@cache
def find_module(filename: str) -> str | None:
    """Return the module of a source file, None if it is not part of the product."""
    file = Path(filename)
    return str(file.relative_to(PACKAGE)) if file.is_relative_to(PACKAGE) else None


def build_watched_record(seen: set[str]) -> type[PlacedVm]:
    """Return a record class that notes the modules reading it."""

    class WatchedVm(PlacedVm, frozen=True):
        def __getattribute__(self, name: str) -> Any:
            if object.__getattribute__(self, "name") == NAME:
                module = find_module(sys._getframe(1).f_code.co_filename)
                if module is not None:
                    seen.add(module)
            return object.__getattribute__(self, name)

    return WatchedVm


def build_profiler(seen: set[str]) -> Callable[[FrameType, str, Any], None]:
    """Return a profiler that notes modules with the VM as an argument of a function."""

    def record_call(frame: FrameType, event: str, _: Any) -> None:
        module = find_module(frame.f_code.co_filename) if event == "call" else None
        if module is None:
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        # A property of its record is no module that it passes.
        if any(is_traced(frame.f_locals.get(name)) for name in names if name != "self"):
            seen.add(module)

    return record_call


def import_source(path: str) -> Any:
    return import_module("nexusform." + path.removesuffix(".py").replace("/", "."))


def find_constructions(name: str) -> Iterator[str]:
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if f"{name}(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == name
            ):
                yield str(file.relative_to(PACKAGE))


@of_documented_domains
def test_only_state_and_plan_create_the_record_of_a_vm() -> None:
    assert set(find_constructions("PlacedVm")) == MAKERS


def trace_commands(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *commands: Sequence[str]
) -> set[str]:
    """Return the table entries of modules on the path of the VM in these commands."""
    seen: set[str] = set()
    watched = build_watched_record(seen)
    for maker in MAKERS:
        monkeypatch.setattr(import_source(maker), "PlacedVm", watched)
    sys.setprofile(build_profiler(seen))
    try:
        for words in commands:
            nexusform(directory, *words)
    finally:
        sys.setprofile(None)
    return {get_table_entry(module) for module in seen}


@of_documented_domains
def test_table_lists_modules_from_configuration_to_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = plan_repair(tmp_path).file.parent
    with (directory / "main.nf.hcl").open("a") as configuration:
        configuration.write(PODS)
    planned = ("plan", "-out=traced.plan", "-report=markdown:report.md")
    seen = trace_commands(directory, monkeypatch, planned, ("apply", "traced.plan"))
    assert NAME in (directory / "report.md").read_text()
    assert seen == read_table("Every module that one VM passes")
    assert len(seen) <= MOST_MODULES


@of_documented_domains
def test_second_table_lists_modules_of_other_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = plan_repair(tmp_path).file.parent
    reports = [f"-report={name}:report.{name}" for name in ("json", "html", "svg")]
    seen = trace_commands(directory, monkeypatch, ("plan", *reports))
    assert seen - read_table("Every module that one VM passes") == read_table(
        "The other reports of a VM"
    )


def test_page_lists_every_domain_and_engine_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    known = next(
        each["layers"] for each in layers if each["name"].startswith("Domains import one another")
    )
    assert (
        set(find_domains()) <= read_documented_domains() == set(re.findall(r"\w+", " ".join(known)))
    )
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} - {
        "domains"
    }
    assert rooms <= set(re.findall(r"`(\w+)/`", page))
