"""Objects in state whose block is gone."""

from __future__ import annotations

from msgspec import Struct

from nexusform.address import Address, ConfigAddress, address_order
from nexusform.diagnostics import Diagnostic, error, warning
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import Action
from nexusform.planning.preparation.moves import only_forgets


class Orphans(Struct, frozen=True):
    """Orphans in the order of their creation: those that hold VMs, and all others."""

    with_vms: list[Instance]
    others: list[Instance]
    diagnostics: list[Diagnostic]


def orphans_of(blocks: Blocks) -> Orphans:
    """What goes because nothing in the configuration stands for it, or is left out of this plan."""
    known = {block.address for block in blocks.order.blocks}
    types = blocks.request.registries.resource_types
    instances: list[Instance] = []
    diagnostics: list[Diagnostic] = []
    for block, addresses in blocks.prior.by_block.items():
        if block in known or block.mode == "data":
            continue
        if block.type not in types:
            diagnostics.append(_unknown_type(block))
            continue
        for address in addresses:
            if not blocks.selection.has(address):
                instances.append(blocks.left_alone(address))
                continue
            instance = blocks.going(address, "delete_because_no_resource_config")
            if instance.action is Action.DELETE and only_forgets(blocks.request.configuration, address):
                instance.action, instance.reason = Action.FORGET, ""
                diagnostics.append(_forgets(address))
            instances.append(instance)
    instances.sort(key=_creation)
    with_vms = [instance for instance in instances if instance.type.vms is not None]
    others = [instance for instance in instances if instance.type.vms is None]
    return Orphans(with_vms, others, diagnostics)


def _creation(instance: Instance) -> tuple[object, ...]:
    creation = instance.prior.creation if instance.prior is not None else 0
    return creation, address_order(instance.address)


def _unknown_type(block: ConfigAddress) -> Diagnostic:
    return error(
        "unknown-resource-type-in-state",
        f"The state holds {block}, and this version of nexusform knows no type "
        f'"{block.type}". Use the version that made it, or forget the object with '
        f"`nexusform state rm {block}`.",
    )


def _forgets(address: Address) -> Diagnostic:
    return warning(
        "object-will-be-forgotten",
        f"{address} leaves the state and is not destroyed. Its room counts as free from then on, although "
        "the object may still be there.",
        address=str(address),
    )
