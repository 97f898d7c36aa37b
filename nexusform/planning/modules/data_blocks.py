"""Data blocks: all of them read, and how old the figures of inventories are."""

from __future__ import annotations

from nexusform.address import Address
from nexusform.configuration.model import Configuration
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.plan import InventoryRead
from nexusform.planning.preparation.order import modules

# A data source whose result has this attribute tells when its figures were taken.
TAKEN_AT = "exported_at"


def read_all_data(configuration: Configuration, evaluation: Evaluation) -> None:
    """Data blocks that nothing refers to are read all the same: what is wrong with them is to be told."""
    for module in modules(configuration.root):
        for block in module.resources.values():
            if block.mode == "data":
                for instance in evaluation.module_instances(module.path):
                    evaluation.resource(instance, block)


def inventories_read(evaluation: Evaluation) -> tuple[InventoryRead, ...]:
    """Every inventory that was read, by address."""
    inventories = []
    for (module, mode, kind, name), view in evaluation.resources.items():
        if mode != "data":
            continue
        for key, item in view.items.items():
            if item.attributes is not None and TAKEN_AT in item.attributes:
                address = Address(module, "data", kind, name, key)
                taken_at = item.attributes[TAKEN_AT]
                inventories.append(InventoryRead(str(address), taken_at if isinstance(taken_at, str) else ""))
    return tuple(sorted(inventories, key=lambda inventory: inventory.address))
