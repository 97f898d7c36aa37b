"""The `vdu` blocks of a tacker_vnf: what size and role each VDU gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.diagnostics import Problem, did_you_mean
from nexusform.importers.vnf_model import Vdu, Vnf
from nexusform.plain_data import Path
from nexusform.ports import Surroundings
from nexusform.resource_types.arguments import is_known, whole_number_problems
from nexusform.resource_types.vm_skus import unknown_sku
from nexusform.scheduling.racks.model import VmSku
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting, OnChange
from nexusform.value_types import NUMBER, STRING

WORKER: Final = "Worker"
CONTROL_PLANE_ROLE: Final = "ControlPlane"
# The VDU that the specification calls so holds the Kubernetes masters.
MASTER: Final = "masterNode"
_SIZES: Final = ("vcpus", "memory_gib", "disk_gib")


def _size(description: str, minimum: int) -> Attribute:
    return Attribute(
        NUMBER,
        description,
        optional=True,
        minimum=minimum,
        on_change=OnChange.REPLACE_POOL,
        decides_placement=True,
    )


VDU_BLOCK: Final = NestedBlock(
    BlockSchema(
        {
            "vm_sku_name": Attribute(
                STRING,
                "VM SKU of its VMs, in place of vcpus and memory_gib.",
                optional=True,
                on_change=OnChange.REPLACE_POOL,
                decides_placement=True,
            ),
            "vcpus": _size("vCPUs of one VM. Default: what the documents say.", 1),
            "memory_gib": _size("Memory of one VM in GiB. Default: what the documents say.", 1),
            "disk_gib": _size("Disk of one VM in GiB. Default: what the documents say, else 0.", 0),
            "role": Attribute(
                STRING,
                f'What its VMs are in the Kubernetes cluster. Default: "{WORKER}", and '
                f'"{CONTROL_PLANE_ROLE}" for a VDU called {MASTER}.',
                optional=True,
                choices=(WORKER, CONTROL_PLANE_ROLE),
                decides_placement=True,
            ),
        }
    ),
    Nesting.MAP,
    "The size and role of the VMs of one VDU. Its label is the VDU's name in the documents.",
    label="name",
)


def role_of(name: str, block: Mapping[str, Any]) -> str:
    """The role of a VDU's VMs."""
    return str(block.get("role") or (CONTROL_PLANE_ROLE if name == MASTER else WORKER))


def sku_text(vdu: Vdu, block: Mapping[str, Any]) -> str:
    """The SKU's name, or the size in words."""
    if block.get("vm_sku_name"):
        return str(block["vm_sku_name"])
    vcpus, memory, _ = figures(vdu, block)
    return f"{vcpus} vCPU / {memory} GiB"


def figures(vdu: Vdu, block: Mapping[str, Any]) -> tuple[int | None, int | None, int]:
    """vCPUs, GiB of memory and of disk: the block's, else the documents'."""
    size = vdu.size
    vcpus = block.get("vcpus")
    memory = block.get("memory_gib")
    disk = block.get("disk_gib")
    return (
        size.vcpus if vcpus is None else int(vcpus),
        size.memory_gib if memory is None else int(memory),
        (size.disk_gib or 0) if disk is None else int(disk),
    )


def sku_of(vdu: Vdu, block: Mapping[str, Any], surroundings: Surroundings) -> VmSku | Problem:
    """The size of one VM of a VDU as a VM SKU."""
    name = block.get("vm_sku_name")
    if name:
        sku = surroundings.sku(str(name))
        known = surroundings.sku_names()
        return sku if sku is not None else unknown_sku(str(name), ("vdu", vdu.name, "vm_sku_name"), known)
    vcpus, memory, disk = figures(vdu, block)
    if vcpus is None or memory is None:
        return missing_size(vdu, vcpus, memory)
    return VmSku(sku_text(vdu, block), vcpus, 0, memory, disk)


def missing_size(vdu: Vdu, vcpus: int | None, memory: int | None) -> Problem:
    """The problem of a VDU whose size nobody says."""
    what = "vCPUs" if vcpus is None else "memory"
    what = "vCPUs and no memory" if vcpus is None and memory is None else what
    return Problem(
        ("vdu", vdu.name),
        "vdu-without-a-size",
        f'The documents give no {what} for the VDU "{vdu.name}" ({vdu.origin}). Add a block '
        f'vdu "{vdu.name}" with vm_sku_name, or with vcpus and memory_gib.',
    )


def block_problems(blocks: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with the blocks by themselves."""
    for name, block in blocks.items():
        path: Path = ("vdu", name)
        yield from whole_number_problems(block, _SIZES, path)
        sized = [size for size in _SIZES if block.get(size) is not None]
        if block.get("vm_sku_name") is not None and sized:
            yield Problem(
                (*path, "vm_sku_name"),
                "conflicting-arguments",
                f'The block vdu "{name}" has vm_sku_name and {", ".join(sized)}. Give a SKU, or '
                "figures, not both.",
            )


def vdu_problems(vnf: Vnf, blocks: Mapping[str, Any]) -> Iterator[Problem]:
    """Blocks for VDUs that the documents do not have, and VDUs without a size."""
    names = [vdu.name for vdu in vnf.vdus]
    for name in blocks:
        if name not in names:
            listed = ", ".join(names)
            yield Problem(
                ("vdu", name),
                "unknown-vdu",
                f'The documents have no VDU "{name}".{did_you_mean(name, names)} They have: {listed}.',
            )
    for vdu in vnf.vdus:
        block = blocks.get(vdu.name) or {}
        sizes = [block.get(key) for key in ("vm_sku_name", "vcpus", "memory_gib")]
        if any(value is not None and not is_known(value) for value in sizes) or sizes[0] is not None:
            continue
        vcpus, memory, _ = figures(vdu, block)
        if vcpus is None or memory is None:
            yield missing_size(vdu, vcpus, memory)
