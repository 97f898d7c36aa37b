"""Tests of the contract of ownership, for every provider and every type that it creates."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.providers.registry import PROVIDERS
from nexusform.resource_types.registry import RESOURCE_TYPES
from tests.contracts.ownership_contract import (
    OWN,
    SITUATIONS,
    Situation,
    apply,
    make_again_during_the_creation,
    make_at_the_same_time,
    make_object,
    make_without_an_answer,
)

# By provider: the domain and the module with its bed, and the types that it creates.
BEDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "azure": (
        "azure",
        "tests.domains.azure.providers.ownership_bed",
        ("nexus_kubernetes_cluster", "nexus_agent_pool", "nexus_virtual_machine"),
    ),
    "fleet": (
        "hub",
        "tests.domains.hub.ownership_bed",
        (
            "fleet_hub_manifest",
            "fleet_cluster_resource_placement",
            "fleet_resource_placement",
            "fleet_cluster_resource_override",
            "fleet_resource_override",
            "fleet_placement_disruption_budget",
            "fleet_placement_eviction",
            "fleet_cluster_staged_update_strategy",
            "fleet_staged_update_strategy",
            "fleet_cluster_staged_update_run",
            "fleet_staged_update_run",
        ),
    ),
    "simulated": ("", "tests.providers.ownership_bed", ("nexus_site",)),
    "tacker": ("vnf", "tests.domains.vnf.providers.ownership_bed", ("tacker_vnf",)),
}
READ_ONLY = {"azure_export": "reads exports and sends nothing"}
# Types of objects that no provider but `simulated` creates.
NOT_CREATED = {
    "fleet_approval_request": "the hub creates it",
    "fleet_cluster_approval_request": "the hub creates it",
    "fleet_member_cluster": "it joins by another program",
    "nexus_bare_metal_machine": "hardware",
    "nexus_bare_metal_machine_action": "an action on a machine",
    "nexus_rack": "hardware",
    "nexus_separation_rule": "a rule of plans",
    "nexus_vm_sku": "a rule of plans",
    "openstack_site": "hardware",
}
# The controller of the tests does not complete these, so no other apply makes them.
NOT_RACED = (
    "fleet_cluster_staged_update_run",
    "fleet_resource_placement",
    "fleet_staged_update_run",
)
RACES = (make_at_the_same_time, make_without_an_answer)
# Types with several objects, created by a request each.
SEVERAL = ("fleet_hub_manifest",)
CASES = [
    pytest.param(
        name,
        type_name,
        situation,
        id=f"{name}-{type_name}-{situation.__name__}",
        marks=[pytest.mark.of_domains(domain)] if domain else [],
    )
    for name, (domain, _, types) in BEDS.items()
    for type_name in types
    for situation in SITUATIONS
    if situation not in RACES or type_name not in NOT_RACED
    if situation != make_again_during_the_creation or type_name in SEVERAL
    # A file has no requests that could be lost.
    if (name, situation) != ("simulated", make_without_an_answer)
]


def test_contract_covers_every_provider_and_type() -> None:
    assert BEDS.keys() | READ_ONLY.keys() == set(PROVIDERS)
    covered = {type_name for _, _, types in BEDS.values() for type_name in types}
    assert covered | NOT_CREATED.keys() == set(RESOURCE_TYPES)


@pytest.mark.parametrize(("name", "type_name", "situation"), CASES)
def test_existing_object_is_not_written(
    name: str,
    type_name: str,
    situation: Situation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_CONFINE", "false")
    with import_module(BEDS[name][1]).open_bed(tmp_path, monkeypatch) as bed:
        existing = situation(bed, type_name, tmp_path)
        changes = bed.list_changes()
        capfd.readouterr()
        assert apply(*existing.arguments) == 1
        captured = capfd.readouterr()
        output = " ".join((captured.out + captured.err).replace("│", " ").split())
        assert re.search(bed.message, output), output
        assert bed.list_changes() == changes
        assert bed.take_snapshot() == existing.objects
        # The state has no record of the object, so its end touches nothing.
        target = f"-target={type_name}.o"
        assert run_command_line(["destroy", "-auto-approve", target]) == 0
        assert bed.list_changes() == changes
        assert bed.take_snapshot() == existing.objects


IDENTITY_CASES = [
    pytest.param(
        name,
        type_name,
        step,
        id=f"{name}-{type_name}-{step[0].strip('-').partition('=')[0]}",
        marks=[pytest.mark.of_domains(domain)] if domain else [],
    )
    for name, (domain, _, types) in BEDS.items()
    for type_name in types
    if type_name not in NOT_RACED
    for step in (("-destroy", "-target={}.o"), ("-replace={}.o",), ("-target={}.o",))
]


@pytest.mark.parametrize(("name", "type_name", "step"), IDENTITY_CASES)
def test_object_that_others_made_again_is_not_written(
    name: str,
    type_name: str,
    step: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Between plan and apply, others delete the object, and make one of the same name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_CONFINE", "false")
    with import_module(BEDS[name][1]).open_bed(tmp_path, monkeypatch) as bed:
        made = make_object(bed, type_name, tmp_path, OWN)
        options = [part.format(type_name) for part in step]
        is_update = len(step) == 1 and step[0].startswith("-target")
        if is_update and not bed.change(type_name):
            pytest.skip("objects of this type are not updated")
        assert run_command_line(["plan", "-out=p", "-detailed-exitcode", *options]) == 2
        bed.restore(bed.make_again(made))
        objects, changes = bed.take_snapshot(), bed.list_changes()
        capfd.readouterr()
        run_command_line(["apply", "p"])
        captured = capfd.readouterr()
        assert bed.list_changes() == changes, captured.out + captured.err
        assert bed.take_snapshot() == objects
