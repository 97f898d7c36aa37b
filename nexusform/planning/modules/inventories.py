"""Which inventories a plan stands on, and how old their figures are."""

from __future__ import annotations

from nexusform.address import Address
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.plan import InventoryRead

# A data source whose result has this attribute tells when its figures were taken.
TAKEN_AT = "exported_at"


def inventories_read(evaluation: Evaluation) -> tuple[InventoryRead, ...]:
    """Every inventory that was read, by address."""
    found = []
    for (module, mode, kind, name), view in evaluation.resources.items():
        if mode != "data":
            continue
        for key, item in view.items.items():
            values = item.attributes
            if values is not None and TAKEN_AT in values:
                address = Address(module, "data", kind, name, key)
                found.append(InventoryRead(str(address), _text(values[TAKEN_AT])))
    return tuple(sorted(found, key=lambda read: read.address))


def _text(taken_at: object) -> str:
    return taken_at if isinstance(taken_at, str) else ""
