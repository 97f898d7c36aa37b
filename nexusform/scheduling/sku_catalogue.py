"""VM SKUs and machine SKUs published for Operator Nexus, as data, by catalogue version.

A new version is a new entry in CATALOGUES. Never change an old entry, because states refer to
it by name.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct

from nexusform.scheduling.racks.vms import MachineSku, VmSku


class SkuCatalogue(Struct, frozen=True):
    """SKUs of one version by name, in published order.

    The catalogue has their source and its date (ISO 8601).
    """

    version: str
    vm_skus: Mapping[str, VmSku]
    machine_skus: Mapping[str, MachineSku]
    source: str
    date: str

    def find_largest_sku(self, kind: str, machine_sku: str) -> VmSku | None:
        """Return the largest SKU of a type (G, P, E or L) supported by this hardware, or None."""
        supported_skus = [
            sku
            for sku in self.vm_skus.values()
            if sku.kind == kind and machine_sku in sku.machine_skus
        ]
        return max(supported_skus, key=lambda sku: (sku.host_vcpus, sku.memory_gib), default=None)


DEFAULT_MACHINE_SKU = "bom-1.7.3"
BOM_1_AND_2 = ("bom-1.7.3", "bom-2.0")
BOM_2_0_ONLY = ("bom-2.0",)

# Listed by name on the placement concept page; no other SKU of that size is on the list.
EXTRA_LARGE = frozenset({"NC_G48_224_v1", "NC_P46_224_v1", "NC_G56_224_v1", "NC_P54_224_v1"})
RESERVED_CPUS = 2


def find_largest_sku(skus: Iterable[VmSku]) -> VmSku | None:
    """Return the SKU hardest to place: the most memory per cell, then the largest.

    Return None without SKUs.
    """
    return max(skus, key=compute_size_key, default=None)


def compute_size_key(sku: VmSku) -> tuple[float, float, int, str]:
    """Return the sort key of SKUs by placement difficulty, hardest last."""
    return sku.memory_in_cell, sku.memory_gib, sku.host_vcpus, sku.name


def compute_allocatable_cpus(sku: VmSku) -> int:
    """Return the number of vCPUs of a node for pods.

    The smallest SKUs reserve none for the kubelet.
    """
    if sku.name in ("NC_G2_8_v1", "NC_P4_28_v1") or sku.vcpus <= RESERVED_CPUS:
        return sku.vcpus
    return sku.vcpus - RESERVED_CPUS


def _build_sku(
    name: str,
    vcpus: int,
    emulator_vcpus: int,
    memory_gib: int,
    disk_gib: int,
    machine_skus: tuple[str, ...],
) -> VmSku:
    """Build a SKU of a row of the published table, in its column order.

    Its kind is the fourth letter of its name.
    """
    kind = name[3]
    return VmSku(
        name=name,
        vcpus=vcpus,
        emulator_vcpus=emulator_vcpus,
        memory_gib=memory_gib,
        disk_gib=disk_gib,
        # A memory-optimised VM has a share of both NUMA cells of a machine.
        numa_cells={"E": 2}.get(kind, 1),
        extra_large=name in EXTRA_LARGE,
        machine_skus=machine_skus,
        kind=kind,
    )


# Guest vCPUs, emulator vCPUs, memory GiB, root disk GiB, hardware that lists it
_VM_SKUS_2026_03 = (
    _build_sku("NC_G56_224_v1", 56, 0, 224, 300, BOM_2_0_ONLY),
    _build_sku("NC_G48_224_v1", 48, 0, 224, 300, BOM_1_AND_2),
    _build_sku("NC_G42_168_v1", 42, 0, 168, 300, BOM_1_AND_2),
    _build_sku("NC_G36_168_v1", 36, 0, 168, 300, BOM_1_AND_2),
    _build_sku("NC_G28_112_v1", 28, 0, 112, 300, BOM_1_AND_2),
    _build_sku("NC_G24_112_v1", 24, 0, 112, 300, BOM_1_AND_2),
    _build_sku("NC_G18_74_v1", 18, 0, 74, 300, BOM_1_AND_2),
    _build_sku("NC_G16_74_v1", 16, 0, 74, 300, BOM_1_AND_2),
    _build_sku("NC_G14_56_v1", 14, 0, 56, 300, BOM_1_AND_2),
    _build_sku("NC_G12_56_v1", 12, 0, 56, 300, BOM_1_AND_2),
    _build_sku("NC_G6_28_v1", 6, 0, 28, 300, BOM_1_AND_2),
    _build_sku("NC_G2_8_v1", 2, 0, 8, 300, BOM_1_AND_2),
    _build_sku("NC_P54_224_v1", 54, 2, 224, 300, BOM_2_0_ONLY),
    _build_sku("NC_P46_224_v1", 46, 2, 224, 300, BOM_1_AND_2),
    _build_sku("NC_P40_168_v1", 40, 2, 168, 300, BOM_1_AND_2),
    _build_sku("NC_P34_168_v1", 34, 2, 168, 300, BOM_1_AND_2),
    _build_sku("NC_P26_112_v1", 26, 2, 112, 300, BOM_1_AND_2),
    _build_sku("NC_P22_112_v1", 22, 2, 112, 300, BOM_1_AND_2),
    _build_sku("NC_P16_74_v1", 16, 2, 74, 300, BOM_1_AND_2),
    _build_sku("NC_P14_74_v1", 14, 2, 74, 300, BOM_1_AND_2),
    _build_sku("NC_P12_56_v1", 12, 2, 56, 300, BOM_1_AND_2),
    _build_sku("NC_P10_56_v1", 10, 2, 56, 300, BOM_1_AND_2),
    _build_sku("NC_P4_28_v1", 4, 2, 28, 300, BOM_1_AND_2),
    _build_sku("NC_E110_448_v1", 110, 2, 448, 300, BOM_2_0_ONLY),
    _build_sku("NC_E94_448_v1", 94, 2, 448, 300, BOM_1_AND_2),
    _build_sku("NC_E70_336_v1", 70, 2, 336, 300, BOM_1_AND_2),
    _build_sku("NC_L54_224_v1", 54, 2, 224, 1638, BOM_2_0_ONLY),
    _build_sku("NC_L46_224_v1", 46, 2, 224, 1638, BOM_2_0_ONLY),
)

# NUMA cells, vCPUs and GiB per cell that tenants get, ephemeral disk in GiB ("up to 3.5
# TB per host")
_MACHINE_SKUS_2026_03 = (
    MachineSku("bom-1.7.3", cells=2, cpus_per_cell=48, memory_gib_per_cell=224, disk_gib=3500),
    MachineSku("bom-2.0", cells=2, cpus_per_cell=56, memory_gib_per_cell=224, disk_gib=3500),
)

CATALOGUES: Mapping[str, SkuCatalogue] = MappingProxyType(
    {
        "2026-03": SkuCatalogue(
            version="2026-03",
            vm_skus=MappingProxyType({sku.name: sku for sku in _VM_SKUS_2026_03}),
            machine_skus=MappingProxyType({sku.name: sku for sku in _MACHINE_SKUS_2026_03}),
            source=(
                "Azure Operator Nexus documentation: reference-nexus-kubernetes-cluster-sku (VM "
                "SKUs), concepts-nexus-kubernetes-placement (extra-large SKUs), "
                "reference-near-edge-compute (hardware)"
            ),
            date="2026-03-03",
        )
    }
)
NEWEST = "2026-03"
