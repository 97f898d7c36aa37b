"""What a server is, told by the names of SKUs: of its rack, its own, or a list of rack SKUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from nexusform.importers.arm import Item, id_key, name_of
from nexusform.scheduling.racks.vms import MachineSku

# Parts of SKU names and the hardware that they stand for, as published for near-edge racks.
SKU_HARDWARE: Final[tuple[tuple[str, str], ...]] = (
    ("r760", "bom-2.0"),
    ("vnearedge4", "bom-2.0"),
    ("r750", "bom-1.7.3"),
    ("vnearedge1", "bom-1.7.3"),
    ("vnearedge2", "bom-1.7.3"),
    ("vnearedge3", "bom-1.7.3"),
)
COMPUTE: Final = "compute-plane"
MANAGEMENT: Final = "management-plane"
# How a machine's SKU id begins, and the role that it stands for (exports before API 2024-07 name none).
_ROLE_OF_SKU: Final = (("controller", MANAGEMENT), ("compute", COMPUTE))
_FIGURES: Final = re.compile(r"_(\d{1,3})c_(\d{1,4})gb(?:_|$)")


class RackSku(Struct, frozen=True):
    """What a rack SKU houses by slot: a machine SKU of the catalogue (None: one that it lacks) and a role."""

    servers: Mapping[int, tuple[str | None, str]] = field(default_factory=dict)


def machine_sku_of(sku_id: str | None) -> str | None:
    """The catalogue's machine SKU for the id of a SKU; None when its name tells nothing."""
    name = name_of(sku_id or "").lower()
    return next((sku for part, sku in SKU_HARDWARE if part in name), None)


def role_of_sku(sku_id: str | None) -> str | None:
    """The role that a machine's SKU id begins with; None when it tells none."""
    name = name_of(sku_id or "").lower()
    return next((role for start, role in _ROLE_OF_SKU if name.startswith(start)), None)


def figures_of_sku(sku_id: str | None) -> MachineSku | None:
    """The cores and memory that a machine's SKU id names (`Controller_DellR650_8C_128GB_2d8n`), as one
    cell without disk; None when it names none.
    """
    match = _FIGURES.search(name_of(sku_id or "").lower())
    if match is None:
        return None
    return MachineSku(name_of(sku_id or ""), 1, int(match[1]), int(match[2]), 0)


def read_rack_skus(items: Iterable[Item]) -> dict[str, RackSku]:
    """The rack SKUs that `az networkcloud racksku list` prints, by name in lower case."""
    skus: dict[str, RackSku] = {}
    for item in items:
        name = item.needed_text("name")
        if name is None:
            continue
        servers: dict[int, tuple[str | None, str]] = {}
        for key, role in (("computeMachines", COMPUTE), ("controllerMachines", MANAGEMENT)):
            for server in item.items(key):
                slot = server.whole("rackSlot")
                if slot is not None:
                    servers[slot] = (machine_sku_of(server.text("model")), role)
        skus[id_key(name)] = RackSku(servers)
    return skus
