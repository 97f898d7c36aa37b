"""Extra-large: such VMs of different clusters share machines, so that fewer cells are broken."""

from __future__ import annotations

from nexusform.scheduling.racks.faces import Host, KeyPart
from nexusform.scheduling.racks.model import Demand


def company(demand: Demand, host: Host) -> KeyPart:
    """0 where an extra-large VM of another cluster is (presence, not count), else 1.

    For other SKUs 0 everywhere.
    """
    if not demand.sku.extra_large:
        return KeyPart("extra_large", 0, "")
    if host.houses_other_extra_large:
        return KeyPart("extra_large", 0, "houses an extra-large VM of another cluster")
    return KeyPart("extra_large", 1, "no extra-large VM of another cluster")
