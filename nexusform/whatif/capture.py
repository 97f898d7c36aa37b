"""What an export holds of a site, counted: to be looked at before anything is built on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from nexusform.importers.azure.az_machines import COMPUTE
from nexusform.importers.azure.az_model import AzInventory, AzMachine, AzSite
from nexusform.resource_types.hardware import refusal_of


class SiteCapture(Struct, frozen=True):
    """What an export holds of one site.

    `closed` are compute machines that take no new VM, with the reason; `skus` the machine SKU ids with what
    they stand for in the catalogue ("" = figures of their own, or unknown) and how many machines have them;
    `homeless` the VMs and nodes without a machine, by name.
    """

    name: str
    racks: int
    machines: int
    compute: int
    clusters: int
    vms: int
    closed: tuple[tuple[str, str], ...]
    skus: tuple[tuple[str, str, int], ...]
    homeless: tuple[str, ...]
    exported_at: str | None
    age_certain: bool


def capture(site: AzSite) -> SiteCapture:
    """Count a site."""
    inventory = site.inventory
    compute = [machine for machine in inventory.machines if COMPUTE in machine.roles]
    refusals = [(machine.name, machine_refusal(machine)) for machine in compute]
    skus = Counter((m.machine_sku_id or "", m.machine_sku or "") for m in inventory.machines)
    return SiteCapture(
        name=site.name,
        racks=len(inventory.racks),
        machines=len(inventory.machines),
        compute=len(compute),
        clusters=len(inventory.clusters),
        vms=sum(len(cluster.nodes) for cluster in inventory.clusters) + len(inventory.virtual_machines),
        closed=tuple((name, why) for name, why in refusals if why),
        skus=tuple((sku_id, sku, count) for (sku_id, sku), count in sorted(skus.items())),
        homeless=tuple(_homeless(inventory)),
        exported_at=inventory.exported_at,
        age_certain=inventory.age_certain,
    )


def machine_refusal(machine: AzMachine) -> str:
    """Why a machine takes no new VM, "" when it does."""
    return refusal_of(
        roles=list(machine.roles),
        cordoned=machine.cordon_status == "Cordoned",
        evacuating=False,
        power_state=machine.power_state,
        ready_state=machine.ready_state,
        detailed_status=machine.detailed_status,
    )


def _homeless(inventory: AzInventory) -> Iterator[str]:
    for cluster in inventory.clusters:
        yield from (node.name for node in cluster.nodes if node.placement is None)
    yield from (vm.name for vm in inventory.virtual_machines if vm.placement is None)
