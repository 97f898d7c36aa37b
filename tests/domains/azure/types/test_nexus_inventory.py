"""Tests of data nexus_inventory: files to read, values, and errors."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.interfaces.plugins import ReadContext
from nexusform.json_data.plain_data import convert_to_value
from nexusform.resource_types.registry import DATA_SOURCES, RESOURCE_TYPES
from nexusform.schemas.block_schema import compute_implied_type
from tests.resource_types.memory_files import NOW, MemoryFiles

INVENTORY = DATA_SOURCES["nexus_inventory"]
EXAMPLE = Path(__file__).parents[4] / "examples" / "inventory" / "export"


@pytest.fixture(scope="module")
def export() -> dict[str, bytes]:
    return {f"export/{path.name}": path.read_bytes() for path in EXAMPLE.iterdir()}


def read(
    files: dict[str, bytes], stands_for: frozenset[str] = frozenset(), **arguments: Any
) -> tuple[dict[str, Any], list[Problem]]:
    assert INVENTORY.read is not None
    arguments = arguments or {"directory": "export"}
    answer = INVENTORY.read(arguments, ReadContext(MemoryFiles(files), NOW, stands_for))
    return answer.attributes, list(answer.problems)


def check(**arguments: Any) -> list[Problem]:
    assert INVENTORY.check is not None
    return INVENTORY.check(arguments)


class TestBrownfieldExample:
    def test_it_reads_without_diagnostics(self, export: dict[str, bytes]) -> None:
        values, problems = read(export)
        assert problems == []
        assert set(values["racks"]) == {"lon1-compute-1", "lon1-compute-2", "lon1-compute-3"}
        assert len(values["machines"]) == 18
        assert values["exported_at"] == "2026-02-28T06:00:00Z"
        assert convert_to_value(
            {"directory": "export", **values}, compute_implied_type(INVENTORY.schema)
        )

    def test_ten_of_twelve_compute_machines_are_schedulable(self, export: dict[str, bytes]) -> None:
        machines = read(export)[0]["machines"]
        compute = {n: m for n, m in machines.items() if m["roles"] == ["compute-plane"]}
        assert len(compute) == 12
        assert compute["x01lon1c2co03"]["cordon_status"] == "Cordoned"
        assert compute["x01lon1c3co04"]["power_state"] == "Off"
        assert machines["x01lon1c1mg02"]["detailed_status"] == "Available"

    def test_existing_vms_are_occupied(self, export: dict[str, bytes]) -> None:
        machines = read(export)[0]["machines"]
        assert machines["x01lon1c1co01"]["occupied"] == [
            {
                "name": "core-amf-7c41e09d-control-plane-4k2vq",
                "cpu_cores": 12,
                "memory_gib": 56,
                "disk_gib": 300,
                "numa_cells": 1,
                "cells": None,
            },
            {
                "name": "jumpbox01",
                "cpu_cores": 4,
                "memory_gib": 16,
                "disk_gib": 120,
                "numa_cells": 1,
                "cells": None,
            },
        ]
        assert sum(len(m["occupied"]) for m in machines.values()) == 9

    def test_nodes_without_reported_cells(self, export: dict[str, bytes]) -> None:
        cluster = read(export)[0]["kubernetes_clusters"]["core-amf"]
        node = cluster["nodes"]["core-amf-7c41e09d-agentpool1-md-b6rkz"]
        assert (node["machine"], node["rack"], node["availability_zone"]) == (
            "x01lon1c2co02",
            "lon1-compute-2",
            "2",
        )
        assert (node["numa_cells"], node["cpu_cores"]) == (None, 24)
        assert cluster["agent_pools"]["agentpool1"]["count"] == 4

    def test_every_machine_is_a_valid_resource(self, export: dict[str, bytes]) -> None:
        of = RESOURCE_TYPES["nexus_bare_metal_machine"]
        assert of.check is not None
        for name, machine in read(export)[0]["machines"].items():
            known = {
                k: v for k, v in machine.items() if k in of.schema.attributes or k == "occupied"
            }
            assert of.check({"rack_id": "lon1/x", "name": name, **known}) == []


class TestManagedObjects:
    @pytest.mark.parametrize(
        ("managed", "left"),
        [
            (["core-amf"], 2),
            (["core-amf/agentpool1"], 5),
            (["core-amf/control-plane", "jumpbox01"], 5),
            (["core-amf", "jumpbox01", "probe01"], 0),
            (["no-such"], 9),
        ],
    )
    def test_objects_of_resources_are_not_occupied(
        self, export: dict[str, bytes], managed: list[str], left: int
    ) -> None:
        by_argument, _ = read(export, directory="export", managed=managed)
        by_plan, _ = read(export, stands_for=frozenset(managed))
        assert by_argument == by_plan
        assert sum(len(m["occupied"]) for m in by_plan["machines"].values()) == left

    def test_managed_objects_are_still_listed(self, export: dict[str, bytes]) -> None:
        values, _ = read(export, stands_for=frozenset({"core-amf"}))
        assert values["kubernetes_clusters"]["core-amf"]["managed"] is True
        assert values["virtual_machines"]["probe01"]["managed"] is False


class TestInventoryAge:
    def test_recent_export_is_accepted(self, export: dict[str, bytes]) -> None:
        assert read(export, directory="export", max_age="2h")[1] == []

    def test_old_export_is_a_warning(self, export: dict[str, bytes]) -> None:
        values, (problem,) = read(export, directory="export", max_age="1h")
        assert values["machines"]
        assert (problem.severity, problem.path) == (Severity.WARNING, ("max_age",))
        assert "was made 2026-02-28T06:00:00Z, 2 hours ago" in problem.detail

    def test_newest_change_replaces_missing_export_time(self, export: dict[str, bytes]) -> None:
        without = {
            name: content for name, content in export.items() if not name.endswith("exported_at")
        }
        _, (problem,) = read(without, directory="export", max_age="1h")
        assert "has no data newer than 2026-02-28T01:41:00Z" in problem.detail

    def test_unknown_age_is_reported(self) -> None:
        files = {"r.json": b"[]", "m.json": b"[]"}
        _, (problem,) = read(
            files, racks_file="r.json", bare_metal_machines_file="m.json", max_age="1h"
        )
        assert problem.id == "unknown-inventory-age"


class TestInventoryFiles:
    def test_single_files_give_same_values(self, export: dict[str, bytes]) -> None:
        by_directory, _ = read(export)
        by_file, problems = read(
            export,
            bare_metal_machines_file="export/bare_metal_machines.json",
            racks_file="export/racks.json",
            virtual_machines_file="export/virtual_machines.json",
            kubernetes_clusters_file="export/kubernetes_clusters.json",
            agent_pools_file="export/agent_pools.core-amf.json",
        )
        assert not problems
        assert by_file["machines"] == by_directory["machines"]
        assert by_file["kubernetes_clusters"] == by_directory["kubernetes_clusters"]

    def test_error_for_missing_files_has_capture_command(self) -> None:
        values, problems = read({}, directory="nowhere")
        assert values == {}
        assert [
            "racks.json" in p.detail or "bare_metal_machines.json" in p.detail for p in problems
        ] == [True, True]
        assert "az networkcloud rack list" in problems[0].detail

    def test_optional_files_may_be_missing(self, export: dict[str, bytes]) -> None:
        needed = {n: export[n] for n in ("export/racks.json", "export/bare_metal_machines.json")}
        values, problems = read(needed)
        assert values["virtual_machines"] == {}
        assert [problem.severity for problem in problems] == [Severity.WARNING] * 2

    @pytest.mark.parametrize(
        ("without", "said"),
        [
            ("virtual_machines.json", "The export has no list of virtual machines"),
            (
                "agent_pools.core-amf.json",
                "The agent pools of 1 cluster were not captured (core-amf)",
            ),
        ],
    )
    def test_uncaptured_lists_are_reported(
        self, export: dict[str, bytes], without: str, said: str
    ) -> None:
        left = {name: content for name, content in export.items() if not name.endswith(without)}
        problem = read(left)[1][-1]
        assert problem.id == (
            "vms-not-captured" if without == "virtual_machines.json" else "not-captured"
        )
        assert said in problem.detail
        assert "az networkcloud" in problem.detail

    def test_clusters_without_nodes_and_empty_list_are_reported(
        self, export: dict[str, bytes]
    ) -> None:
        listed = json.loads(export["export/kubernetes_clusters.json"])
        without_nodes = [{**cluster, "nodes": None} for cluster in listed]
        _, (problem,) = read(
            {**export, "export/kubernetes_clusters.json": json.dumps(without_nodes).encode()}
        )
        assert "The nodes of 1 cluster were not captured (core-amf)" in problem.detail
        _, (problem,) = read({**export, "export/kubernetes_clusters.json": b"[]"})
        assert "the list of clusters is incomplete" in problem.detail

    def test_one_of_several_sites(self, export: dict[str, bytes]) -> None:
        moved = {"lon1": "osl1", "x01": "y01"}
        both: dict[str, bytes] = {}
        for name, content in export.items():
            text = content.decode()
            for old, new in moved.items():
                text = text.replace(old, new)
            both |= {name: content, name.replace("export/", "export/other_"): text.encode()}
        _, problems = read(both)
        assert [problem.id for problem in problems if problem.severity is Severity.ERROR] == [
            "ambiguous-site"
        ]
        one, problems = read(both, directory="export", site="osl1")
        assert problems == []
        assert len(one["machines"]) == 18
        assert all(name.startswith("y01") for name in one["machines"])
        _, (problem,) = read(both, directory="export", site="par1")
        assert "lon1, osl1" in problem.detail

    def test_error_for_unreadable_file_names_its_argument(self, export: dict[str, bytes]) -> None:
        arguments = {"bare_metal_machines_file": "no.json", "racks_file": "export/racks.json"}
        _, (problem,) = read(export, **arguments)
        assert problem.path == ("bare_metal_machines_file",)

    def test_error_for_broken_json_has_file_line_and_column(self, export: dict[str, bytes]) -> None:
        broken = {**export, "export/racks.json": b"[\n{]"}
        values, problems = read(broken)
        assert values == {}
        assert problems[0].path == ("directory",)
        assert problems[0].detail.startswith("export/racks.json, line 2, column 2: ")

    def test_error_for_wrong_shape_has_json_path(self, export: dict[str, bytes]) -> None:
        machines = json.loads(export["export/bare_metal_machines.json"])
        machines[3]["rackSlot"] = "three"
        broken = {**export, "export/bare_metal_machines.json": json.dumps(machines).encode()}
        _, (problem, *_) = read(broken)
        assert "[3].rackSlot" in problem.detail


class TestInventoryCheck:
    def test_directory_and_single_files_are_exclusive(self) -> None:
        assert check(directory="x") == []
        assert check(bare_metal_machines_file="a", racks_file="b") == []
        (problem,) = check(racks_file="b")
        assert "bare_metal_machines_file missing" in problem.detail
        (problem,) = check(directory="x", racks_file="b")
        assert problem.path == ("racks_file",)
        assert check()[0].id == "missing-required-argument"

    def test_invalid_machine_skus_and_ages(self) -> None:
        (problem,) = check(directory="x", machine_sku_by_id={"a": "bom-3"})
        assert problem.path == ("machine_sku_by_id", "a")
        (problem,) = check(directory="x", max_age="a day")
        assert problem.path == ("max_age",)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize(
    "words", [["plan"], ["import", "-from=export", "-generate-config-out=f.nf.hcl"]]
)
def test_export_entry_must_be_a_regular_file(
    words: list[str],
    make: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(EXAMPLE.parent, tmp_path / "lab")
    monkeypatch.chdir(tmp_path / "lab")
    Path("export/virtual_machines.json").unlink()
    make("export/virtual_machines.json")
    assert run_command_line(words) == 1
    assert 'export/virtual_machines.json" is not a regular file.' in capsys.readouterr().err


PLAN = """
data "nexus_inventory" "i" { directory = "export" }
resource "nexus_site" "s" { name = "s" }
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  name          = "rack1"
  machine_count = length(data.nexus_inventory.i.machines)
}
resource "nexus_kubernetes_cluster" "k" {
  site_id = nexus_site.s.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
}
"""


@pytest.mark.parametrize("machine", ["", "another"])
def test_vm_on_a_machine_that_the_export_lacks_makes_capacity_uncertain(
    machine: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The list of machines may lack more than this one."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLE, "export")
    Path("main.nf.hcl").write_text(PLAN)
    path = Path("export/virtual_machines.json")
    document = json.loads(path.read_text())
    if machine:
        vm = document["value"][0]["properties"]
        vm["bareMetalMachineId"] = f"/x/bareMetalMachines/{machine}"
    path.write_text(json.dumps(document))
    assert run_command_line(["plan"]) == 0
    capacity = capsys.readouterr().out.partition("Capacity:")[2]
    assert ("at most" in capacity.splitlines()[0]) is bool(machine)


@pytest.mark.parametrize(
    ("part", "is_managed", "is_known"),
    [("", False, True), ("nodes", False, False), ("nodes", True, True)],
)
def test_missing_nodes_of_an_unmanaged_cluster_make_capacity_uncertain(
    part: str,
    is_managed: bool,
    is_known: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The platform may create the node that the control plane lacks on any machine."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLE, "export")
    names = '["core-amf"]' if is_managed else "[]"
    block = f'{{\n  directory = "export"\n  managed   = {names}\n}}'
    text = PLAN.replace('{ directory = "export" }', block)
    assert text != PLAN
    Path("main.nf.hcl").write_text(text)
    path = Path("export/kubernetes_clusters.json")
    document = json.loads(path.read_text())
    if part:
        del document[0][part][0]
    path.write_text(json.dumps(document))
    assert run_command_line(["plan"]) == 0
    out = capsys.readouterr().out
    assert ("at most" in out.partition("Capacity:")[2].splitlines()[0]) is not is_known, out
    assert ("nodes of agent pool core-amf/control-plane" in out) is not is_known
