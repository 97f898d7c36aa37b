"""Tests of a site that Azure itself lists with one difference to the configuration."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest

from tests.domains.azure.providers.arm_server import HOSTED, NEXUS, Site, build_machine_id
from tests.domains.azure.providers.azure_sites import CommandRunner


def copy_object(site: Site, path: str, target: str, **values: object) -> None:
    """Put a copy of an object with other properties at another path, or at its own."""
    body = deepcopy(site.resources[path.lower()])
    for name in ("id", "name", "type", "systemData", "etag"):
        del body[name]
    body["properties"].update(values)
    site.put(target, body)


def change_machine(**values: object) -> Callable[[Site], None]:
    path = build_machine_id("m3")
    return lambda site: copy_object(site, path, path, **values)


def add_machine(site: Site, name: str = "m7", **values: object) -> None:
    copy_object(site, build_machine_id("m3"), build_machine_id(name), rackSlot=4, **values)


def add_rack(site: Site) -> None:
    rack = f"{HOSTED}/racks/r3"
    copy_object(site, f"{HOSTED}/racks/r1", rack, availabilityZone="3")
    add_machine(site, "m9", rackId=rack)


R760 = "Compute_DellR760_64C_512GB_4d6n"
CONTROL = "platform.afo-nc.microsoft.com/control-plane=true"
DIFFERENCES: dict[str, tuple[Callable[[Site], None], str]] = {
    "machine added": (add_machine, "m7"),
    "rack added": (add_rack, "r3"),
    "other hardware": (change_machine(machineSkuId=R760), "bom-1.7.3 -> bom-2.0"),
    "other role": (change_machine(machineRoles=[CONTROL]), "m3"),
    "upgrade": (
        lambda site: copy_object(site, NEXUS, NEXUS, detailedStatus="Updating"),
        "Updating",
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_difference_of_a_live_site_is_named_and_plans_nothing(
    name: str, nexusform: CommandRunner
) -> None:
    assert nexusform("plan", "-detailed-exitcode") == 0
    assert "as Azure lists it" not in nexusform.said
    change, text = DIFFERENCES[name]
    change(nexusform.server.site)
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert "No changes. Azure lists differences" in nexusform.said
    assert text in nexusform.said, nexusform.said
    assert nexusform("advise") == 2, nexusform.said
    assert text in nexusform.said
