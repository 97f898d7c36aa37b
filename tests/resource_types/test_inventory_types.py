"""Tests of sites, racks, machines and VM SKUs: derived values, validation and inventory entries."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.interfaces.plugins import ResourceType
from nexusform.json_data.plain_data import convert_to_value
from nexusform.resource_types.registry import DATA_SOURCES, RESOURCE_TYPES
from nexusform.scheduling.racks.vms import RackSpread
from nexusform.scheduling.site_inventory import OccupiedCapacity, PlanInventory, merge_site_machines
from nexusform.schemas.block_schema import compute_implied_type
from nexusform.values.typed_value import UNKNOWN

SITE = RESOURCE_TYPES["nexus_site"]
RACK = RESOURCE_TYPES["nexus_rack"]
MACHINE = RESOURCE_TYPES["nexus_bare_metal_machine"]
SKU = RESOURCE_TYPES["nexus_vm_sku"]


def add_object(
    of: ResourceType, attributes: dict[str, Any], inventory: PlanInventory, address: str
) -> list[Problem]:
    assert of.add_to_inventory is not None
    return of.add_to_inventory(attributes, address, inventory)


def validate(of: ResourceType, attributes: dict[str, Any]) -> list[Problem]:
    assert of.check is not None
    return of.check(attributes)


def build_rack(**more: Any) -> dict[str, Any]:
    return {"site_id": "lab", "name": "rack1", "machine_count": 2, **more}


def build_machine(**more: Any) -> dict[str, Any]:
    return {"rack_id": "lab/rack1", "name": "spare", "slot": 3, "machine_sku": "bom-1.7.3", **more}


@pytest.fixture
def lab() -> PlanInventory:
    inventory = PlanInventory()
    assert not add_object(SITE, {"name": "lab"}, inventory, "nexus_site.lab")
    assert not add_object(RACK, build_rack(), inventory, "nexus_rack.r1")
    return inventory


class TestRegistry:
    def test_names_and_phases(self) -> None:
        for name, of in [*RESOURCE_TYPES.items(), *DATA_SOURCES.items()]:
            assert of.name == name
        phases = {name: RESOURCE_TYPES[name].phase for name in RESOURCE_TYPES}
        assert phases["nexus_site"] == phases["nexus_vm_sku"] == 1
        assert phases["nexus_rack"] == 2
        assert phases["nexus_bare_metal_machine"] == 3

    @pytest.mark.of_domains("azure")
    def test_attributes_are_described_and_required_optional_or_computed(self) -> None:
        def check_schema(schema: Any) -> None:
            for name, attribute in schema.attributes.items():
                assert attribute.description, name
                assert attribute.required + attribute.optional <= 1, name
                assert attribute.required or attribute.optional or attribute.computed, name
            for block in schema.blocks.values():
                check_schema(block.schema)

        for of in (SITE, RACK, MACHINE, SKU, DATA_SOURCES["nexus_inventory"]):
            check_schema(of.schema)
            assert compute_implied_type(of.schema)


class TestSite:
    def test_defaults(self) -> None:
        inventory = PlanInventory()
        assert not add_object(SITE, {"name": "lab", "scheduler": None}, inventory, "nexus_site.a")
        site = inventory.sites["nexus_site.a"]
        assert (site.id, site.spread, site.seed) == ("lab", RackSpread.POOL, 8)

    def test_scheduler_block(self) -> None:
        inventory = PlanInventory()
        block = {"rack_spread": "cluster", "tie_break_seed": 3}
        add_object(SITE, {"name": "lab", "scheduler": block}, inventory, "nexus_site.a")
        site = inventory.sites["nexus_site.a"]
        assert (site.spread, site.seed) == (RackSpread.CLUSTER, 3)

    def test_duplicate_site_name_is_an_error_naming_the_first(self, lab: PlanInventory) -> None:
        (problem,) = add_object(SITE, {"name": "lab"}, lab, "nexus_site.other")
        assert problem.path == ("name",)
        assert "nexus_site.lab" in problem.detail

    def test_fractional_seed_is_rejected(self) -> None:
        (problem,) = validate(SITE, {"name": "lab", "scheduler": {"tie_break_seed": 1.5}})
        assert problem.path == ("scheduler", "tie_break_seed")

    @pytest.mark.parametrize("name", ["a|b", "a/b", "", "a\nb"])
    def test_names_invalid_in_ids_or_tie_breaks_are_rejected(self, name: str) -> None:
        import re

        for of in (SITE, RACK, MACHINE, SKU):
            assert not re.fullmatch(of.schema.attributes["name"].pattern, name)


class TestRack:
    def test_zone_machines_and_hardware_are_derived(self) -> None:
        assert RACK.derive is not None
        derived = RACK.derive(build_rack(name="rack-1", machine_count=2))
        assert derived["availability_zone"] == "rack1"
        assert derived["machine_sku"] == "bom-1.7.3"
        assert derived["machines"] == {"rack-1-bm01": {"slot": 1}, "rack-1-bm02": {"slot": 2}}
        assert RACK.build_id(build_rack()) == "lab/rack1"

    def test_machine_names_have_at_least_two_digits(self) -> None:
        assert RACK.derive is not None
        names = list(RACK.derive(build_rack(machine_count=120))["machines"])
        assert (names[8], names[119]) == ("rack1-bm09", "rack1-bm120")

    def test_configured_values_are_kept(self) -> None:
        assert RACK.derive is not None
        derived = RACK.derive(build_rack(availability_zone="7", machine_sku="bom-2.0"))
        assert (derived["availability_zone"], derived["machine_sku"]) == ("7", "bom-2.0")

    def test_unknown_arguments_give_unknown_values(self) -> None:
        assert RACK.derive is not None
        derived = RACK.derive(build_rack(name=UNKNOWN, machine_count=UNKNOWN))
        assert derived["availability_zone"] is UNKNOWN
        assert derived["machines"] is UNKNOWN
        assert not validate(
            RACK, build_rack(name=UNKNOWN, machine_count=UNKNOWN, machine_sku=UNKNOWN)
        )
        assert not add_object(RACK, build_rack(site_id=UNKNOWN), PlanInventory(), "nexus_rack.r")

    def test_own_figures_replace_the_default_sku(self, lab: PlanInventory) -> None:
        block = {
            "numa_cells": 4,
            "cpus_per_cell": 10,
            "memory_gib_per_cell": 20,
            "ephemeral_disk_gib": 30,
        }
        attributes = build_rack(name="rack2", machine=block)
        assert RACK.derive is not None
        assert RACK.derive(attributes)["machine_sku"] is None
        assert not validate(RACK, attributes | RACK.derive(attributes))
        add_object(RACK, attributes, lab, "nexus_rack.r2")
        first = lab.racks["nexus_rack.r2"].machines[0]
        assert (first.machine_sku, first.cells, first.cpus_per_cell, first.disk_gib) == (
            None,
            4,
            10,
            30,
        )

    @pytest.mark.parametrize(
        ("name", "words"), [("a-very-long-rack", "13 characters"), ("---", "no letter or digit")]
    )
    def test_name_invalid_as_zone_needs_an_explicit_zone(self, name: str, words: str) -> None:
        (problem,) = validate(RACK, build_rack(name=name, machine_count=0))
        assert problem.id == "invalid-availability-zone"
        assert words in problem.detail
        assert not validate(RACK, build_rack(name=name, machine_count=0, availability_zone="1"))

    def test_override_of_unknown_machine_is_rejected(self) -> None:
        overrides = {"rack1-bm1": {"cordoned": True, "evacuate": False}}
        (problem,) = validate(RACK, build_rack(machine_override=overrides))
        assert problem.path == ("machine_override", "rack1-bm1")
        assert (
            'Did you mean "rack1-bm01"?' in problem.detail
            or "rack1-bm01 to rack1-bm02" in problem.detail
        )

    def test_sku_and_figures_conflict(self) -> None:
        (problem,) = validate(RACK, build_rack(machine_sku="bom-2.0", machine={"numa_cells": 1}))
        assert problem.id == "conflicting-arguments"

    def test_unknown_machine_sku_gets_a_suggestion(self) -> None:
        (problem,) = validate(RACK, build_rack(machine_sku="bom-2.1"))
        assert 'Did you mean "bom-2.0"?' in problem.detail

    def test_overrides_make_machines_unschedulable(self, lab: PlanInventory) -> None:
        overrides = {
            "rack2-bm01": {"cordoned": True, "evacuate": False},
            "rack2-bm02": {"cordoned": False, "evacuate": True},
        }
        assert not add_object(
            RACK, build_rack(name="rack2", machine_override=overrides), lab, "nexus_rack.r2"
        )
        offered = lab.racks["nexus_rack.r2"]
        assert [m.unschedulable_reason for m in offered.machines] == ["cordoned", "being evacuated"]
        assert offered.evacuating_machines == {"rack2-bm02"}

    def test_planned_racks_are_marked(self, lab: PlanInventory) -> None:
        add_object(RACK, build_rack(name="rack2", status="planned"), lab, "nexus_rack.r2")
        assert lab.racks["nexus_rack.r2"].is_planned
        assert not lab.racks["nexus_rack.r1"].is_planned

    def test_unknown_site_is_rejected(self, lab: PlanInventory) -> None:
        (problem,) = add_object(RACK, build_rack(site_id="lba"), lab, "nexus_rack.r2")
        assert problem.path == ("site_id",)
        assert 'Did you mean "lab"?' in problem.detail
        assert "nexus_rack.r2" not in lab.racks

    def test_duplicate_rack_id_is_rejected(self, lab: PlanInventory) -> None:
        (problem,) = add_object(RACK, build_rack(), lab, "nexus_rack.twin")
        assert "nexus_rack.r1" in problem.detail
        assert list(lab.racks) == ["nexus_rack.r1"]

    def test_fractional_machine_count_is_rejected(self) -> None:
        (problem,) = validate(RACK, build_rack(machine_count=1.5))
        assert problem.path == ("machine_count",)


class TestMachine:
    def test_machine_is_added_in_the_zone_of_its_rack(self, lab: PlanInventory) -> None:
        assert not validate(MACHINE, build_machine())
        assert not add_object(MACHINE, build_machine(), lab, "nexus_bare_metal_machine.m")
        machines, clashes = merge_site_machines("lab", lab.racks.values(), lab.machines)
        assert not clashes
        assert [
            (m.name, m.slot, m.availability_zone, m.unschedulable_reason) for m in machines
        ] == [
            ("rack1-bm01", 1, "rack1", ""),
            ("rack1-bm02", 2, "rack1", ""),
            ("spare", 3, "rack1", ""),
        ]
        assert MACHINE.build_id(build_machine()) == "lab/rack1/spare"

    def test_machine_in_slot_of_the_rack_describes_it(self, lab: PlanInventory) -> None:
        described = build_machine(name="rack1-bm02", slot=2, machine_sku="bom-2.0")
        assert not add_object(MACHINE, described, lab, "nexus_bare_metal_machine.m")
        machines, clashes = merge_site_machines("lab", lab.racks.values(), lab.machines)
        assert not clashes
        assert [(m.name, m.machine_sku) for m in machines] == [
            ("rack1-bm01", "bom-1.7.3"),
            ("rack1-bm02", "bom-2.0"),
        ]

    @pytest.mark.parametrize(
        ("state", "refusal"),
        [
            ({}, ""),
            ({"ready_state": "true"}, ""),
            ({"roles": ["platform.afo-nc.microsoft.com/compute-plane=true"]}, ""),
            ({"roles": ["control-plane"]}, "not a compute-plane machine (roles: control-plane)"),
            ({"roles": []}, "without the role compute-plane"),
            ({"cordon_status": "Cordoned"}, "cordoned"),
            ({"evacuate": True}, "being evacuated"),
            ({"power_state": "Off"}, "powered off"),
            ({"ready_state": "False"}, "not ready"),
            ({"ready_state": "false"}, "not ready"),
            ({"detailed_status": "Available"}, 'not provisioned (detailed status "Available")'),
            ({"cordon_status": "Cordoned", "power_state": "Off"}, "cordoned, powered off"),
        ],
    )
    def test_unschedulable_reason_by_machine_state(
        self, lab: PlanInventory, state: dict[str, Any], refusal: str
    ) -> None:
        add_object(MACHINE, build_machine(**state), lab, "nexus_bare_metal_machine.m")
        offered = lab.machines["nexus_bare_metal_machine.m"]
        assert offered.machine.unschedulable_reason == refusal
        assert offered.is_evacuating is state.get("evacuate", False)

    @pytest.mark.parametrize(
        ("state", "fact", "value"),
        [
            ({"evacuate": True}, "evacuate", "true"),
            ({"roles": ["storage", "control-plane"]}, "roles", "control-plane, storage"),
            ({"power_state": "Off"}, "power_state", "Off"),
        ],
    )
    def test_reason_has_the_value_of_its_fact(
        self, lab: PlanInventory, state: dict[str, Any], fact: str, value: str
    ) -> None:
        add_object(MACHINE, build_machine(**state), lab, "nexus_bare_metal_machine.m")
        [reason] = lab.machines["nexus_bare_metal_machine.m"].machine.unschedulable_reasons
        assert (reason.fact, reason.value) == (fact, value)

    def test_hardware_is_required(self) -> None:
        (problem,) = validate(MACHINE, build_machine(machine_sku=None))
        assert problem.id == "missing-required-argument"
        assert "bom-1.7.3" in problem.detail

    def test_unknown_status_is_a_warning(self) -> None:
        (problem,) = validate(MACHINE, build_machine(detailed_status="Provisoned"))
        assert problem.severity is Severity.WARNING
        assert 'Did you mean "Provisioned"?' in problem.detail

    def test_unknown_rack_is_rejected(self, lab: PlanInventory) -> None:
        (problem,) = add_object(
            MACHINE, build_machine(rack_id="lab/rack2"), lab, "nexus_bare_metal_machine.m"
        )
        assert problem.path == ("rack_id",)
        assert 'Did you mean "lab/rack1"?' in problem.detail

    def test_slots_are_unique_in_a_rack(self, lab: PlanInventory) -> None:
        add_object(MACHINE, build_machine(), lab, "nexus_bare_metal_machine.m")
        (problem,) = add_object(
            MACHINE, build_machine(name="other"), lab, "nexus_bare_metal_machine.n"
        )
        assert problem.path == ("slot",)
        assert "nexus_bare_metal_machine.m" in problem.detail

    def test_names_are_unique_on_a_site(self, lab: PlanInventory) -> None:
        add_object(RACK, build_rack(name="rack2", machine_count=0), lab, "nexus_rack.r2")
        add_object(MACHINE, build_machine(), lab, "nexus_bare_metal_machine.m")
        (problem,) = add_object(
            MACHINE, build_machine(rack_id="lab/rack2", slot=1), lab, "nexus_bare_metal_machine.n"
        )
        assert "nexus_bare_metal_machine.m" in problem.detail
        (problem,) = add_object(
            MACHINE, build_machine(name="rack1-bm01", slot=4), lab, "nexus_bare_metal_machine.o"
        )
        assert "nexus_rack.r1 adds a machine" in problem.detail
        assert "slot = 1" in problem.detail

    def test_same_name_on_another_site_is_another_machine(self, lab: PlanInventory) -> None:
        add_object(SITE, {"name": "fab"}, lab, "nexus_site.fab")
        add_object(RACK, build_rack(site_id="fab"), lab, "nexus_rack.f1")
        add_object(MACHINE, build_machine(), lab, "nexus_bare_metal_machine.m")
        assert not add_object(
            MACHINE, build_machine(rack_id="fab/rack1"), lab, "nexus_bare_metal_machine.n"
        )

    def test_occupied_blocks_are_sorted_by_name(self, lab: PlanInventory) -> None:
        blocks = [
            {
                "name": "b",
                "cpu_cores": 4,
                "memory_gib": 8,
                "disk_gib": 0,
                "numa_cells": 2,
                "cells": None,
            },
            {
                "name": "a",
                "cpu_cores": 2,
                "memory_gib": 4,
                "disk_gib": 9,
                "numa_cells": 1,
                "cells": [1, 0],
            },
        ]
        attributes = build_machine(occupied=blocks)
        assert not validate(MACHINE, attributes)
        add_object(MACHINE, attributes, lab, "nexus_bare_metal_machine.m")
        assert lab.machines["nexus_bare_metal_machine.m"].occupied_capacities == (
            OccupiedCapacity("spare", "a", 2, 4, 9, 2, (0, 1)),
            OccupiedCapacity("spare", "b", 4, 8, 0, 2),
        )

    @pytest.mark.parametrize(
        ("block", "kind"),
        [
            ({"cells": [2]}, "invalid-numa-cell"),
            ({"numa_cells": 3}, "invalid-numa-cell"),
            ({"cells": [0, 0]}, "invalid-numa-cell"),
            ({"cells": []}, "conflicting-numa-cells"),
            ({"cpu_cores": 1.5}, "invalid-number"),
        ],
    )
    def test_invalid_occupied_blocks_are_rejected(self, block: dict[str, Any], kind: str) -> None:
        whole = {"name": "a", "cpu_cores": 2, "memory_gib": 4, "numa_cells": 1} | block
        (problem,) = validate(MACHINE, build_machine(occupied=[whole]))
        assert problem.id == kind
        assert problem.path[:2] == ("occupied", 0)

    def test_duplicate_occupied_names_fail_and_overcommitment_warns(self) -> None:
        one = {"name": "a", "cpu_cores": 60, "memory_gib": 4, "numa_cells": 2}
        (problem,) = validate(MACHINE, build_machine(occupied=[one, one]))
        assert problem.id == "duplicate-occupied-block"
        (problem,) = validate(MACHINE, build_machine(occupied=[one, one | {"name": "b"}]))
        assert (problem.id, problem.severity) == ("overcommitted-machine", Severity.WARNING)
        assert "cpu_cores = 120, and the machine has 96" in problem.detail


class TestVmSku:
    def test_figures_are_added_to_the_inventory(self) -> None:
        inventory = PlanInventory()
        attributes = {
            "name": "mine",
            "vcpus": 10,
            "emulator_vcpus": 2,
            "memory_gib": 40,
            "numa_cells": 2,
        }
        assert not validate(SKU, attributes)
        assert not add_object(SKU, attributes | {"disk_gib": 0}, inventory, "nexus_vm_sku.a")
        sku = inventory.skus["nexus_vm_sku.a"]
        assert (sku.host_vcpus, sku.cpus_in_cell, sku.memory_in_cell, sku.disk_gib) == (
            12,
            6,
            20,
            0,
        )
        assert sku.machine_skus == ()
        (problem,) = add_object(SKU, attributes, inventory, "nexus_vm_sku.b")
        assert "nexus_vm_sku.a" in problem.detail

    def test_catalogue_names_are_reserved(self) -> None:
        (problem,) = validate(SKU, {"name": "NC_P46_224_v1", "vcpus": 1, "memory_gib": 1})
        assert problem.path == ("name",)


def test_schemas_accept_values_of_their_types() -> None:
    derived = RACK.derive(build_rack()) if RACK.derive else {}
    assert convert_to_value({**build_rack(), **derived}, compute_implied_type(RACK.schema))
