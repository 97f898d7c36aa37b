"""NUMA cells: enough of them for the VM, those with the least free memory first.

Each has the VM's share of vCPUs and memory (fits) and of virtual functions (vfs). A VM never
straddles cells unless its SKU spans more than one. Only VMs of pools with `sriov_vfs` take VFs: 30
per cell are for tenants (near-edge compute reference of Operator Nexus: 32 per NUMA cell, 30 for
tenants). It is inferred: a VM takes them of its own cells.
"""

from collections import Counter
from collections.abc import Iterable

from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.scheduling.racks.layout import FreeCapacity, Share
from nexusform.scheduling.racks.rule import CapacityCheck, CapacityFilter, PoolKey, ShortageContext
from nexusform.scheduling.racks.rules.zones import describe_zones
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku, convert_to_gib, format_pool_name

MAX_BLOCKING_POOLS = 5


def select_fitting_cells(share: Share, capacity: FreeCapacity) -> list[int]:
    """Return the cells with enough free vCPUs and memory for a VM's share, ascending."""
    cpus = share.cpus
    memory = share.memory
    free_memory = capacity.memory
    return [
        cell
        for cell, free_cpus in enumerate(capacity.cpus)
        if free_cpus >= cpus and free_memory[cell] >= memory
    ]


def select_cells_with_vfs(share: Share, capacity: FreeCapacity, fitting: list[int]) -> list[int]:
    """Return those of the fitting cells with enough VFs, too."""
    return [cell for cell in fitting if capacity.vfs[cell] >= share.vfs]


def get_free_memory(capacity: FreeCapacity, cell: int) -> int:
    """Return the MiB free in the cell."""
    return capacity.memory[cell]


def _build_cell_capacity_check(sku: VmSku) -> CapacityCheck:
    """Build a check of a capacity.

    It returns the shortage, or None if as many cells as needed by the SKU have capacity.
    """
    share = Share.compute(sku)
    needed = sku.numa_cells

    def find_rejection(capacity: FreeCapacity) -> str | None:
        """Return why too few cells have enough CPUs and memory for a part of the VM.

        Return None if it fits.
        """
        fitting = len(select_fitting_cells(share, capacity))
        if fitting >= needed:  # it fits
            return None
        if needed == 1:
            max_cpus = max(capacity.cpus, default=0)
            max_memory = max(capacity.memory, default=0)
            if max_memory < sku.memory_mib:
                return (
                    f"no cell of {sku.memory_gib:g} GiB left (most: {convert_to_gib(max_memory):g})"
                )
            if max_cpus < sku.host_vcpus:
                return f"no cell of {sku.host_vcpus} vCPUs left (most: {max_cpus})"
            return f"no cell has both {sku.host_vcpus} vCPUs and {sku.memory_gib:g} GiB left"
        size = f"{share.cpus} vCPUs and {convert_to_gib(share.memory):g} GiB"
        return f"{fitting} of the {needed} cells needed have {size} left"

    return find_rejection


def _describe_fits_remaining(demand: Demand, remaining: Interval, _before: Interval) -> str:
    cells_needed = "a free cell" if demand.sku.numa_cells == 1 else "enough free cells"
    # The text is a number of machines, such as "12".
    return f"{remaining} have {cells_needed} of that size"


def _describe_fits_shortage(context: ShortageContext) -> str:
    """Explain the lack of cells of the requested size.

    No machine is large enough, or small VMs fragment the cells.
    """
    sku = context.demand.sku
    size = f"{sku.cpus_in_cell} vCPUs and {sku.memory_in_cell:g} GiB"
    if sku.numa_cells > 1:
        text = f"No machine with {sku.numa_cells} NUMA cells of {size} each is free"
    else:
        text = f"No NUMA cell with {size} is free"
    text += f" on the site ({describe_zones(context.demand)})."
    large_enough = [
        machine
        for machine in context.machines_in_requested_racks
        if context.can_host_when_empty(machine)
    ]
    if not large_enough:
        return f"{text} No machine can run one even when empty."
    fragmented = _count_fragmented_cells(context, large_enough)
    return f"{text} {_describe_blocking_pools(fragmented)}" if fragmented else text


def _count_fragmented_cells(context: ShortageContext, machines: Iterable[int]) -> Counter[PoolKey]:
    """Count the cells of `machines` with too little left for the demand.

    Only cells taken by smaller VMs alone count. Each counts for the pool of its first VM. Sizes
    compare by the memory in one cell, then by the vCPUs.
    """
    sku = context.demand.sku
    share = Share.compute(sku)
    # Machine and cell.
    taken_cells: set[tuple[int, int]] = set()
    for machine in machines:
        capacity = context.get_free_capacity(machine)
        free = select_fitting_cells(share, capacity)
        taken_cells.update(
            (machine, cell) for cell in range(len(capacity.cpus)) if cell not in free
        )
    first_pool: dict[tuple[int, int], PoolKey] = {}
    for vm in context.list_vms():
        for cell in vm.cells:
            location = vm.machine, cell
            if location not in taken_cells:
                continue
            if (vm.sku.memory_in_cell, vm.sku.cpus_in_cell) < (
                sku.memory_in_cell,
                sku.cpus_in_cell,
            ):
                first_pool.setdefault(location, vm.pool)
            else:
                # A large VM takes the cell: it is not fragmented.
                taken_cells.discard(location)
                first_pool.pop(location, None)
    return Counter(first_pool.values())


def _describe_blocking_pools(cells_by_pool: Counter[PoolKey]) -> str:
    """Describe the number of fragmented cells, in total and by pool.

    Most cells first, then by name.
    """
    ranked = sorted(
        cells_by_pool.items(), key=lambda pool_and_count: (-pool_and_count[1], pool_and_count[0])
    )
    names = ", ".join(
        f"{format_pool_name(pool.cluster, pool.pool)} ({count:,})"
        for pool, count in ranked[:MAX_BLOCKING_POOLS]
    )
    unnamed = sum(count for _, count in ranked[MAX_BLOCKING_POOLS:])
    remainder = f", others ({unnamed:,})" if unnamed else ""
    total = cells_by_pool.total()
    verb = select_word_form(total, "is", "are")
    return f"{format_count(total, 'cell')} {verb} fragmented by small VMs: {names}{remainder}."


FITS = CapacityFilter(
    name="fits",
    build_check=_build_cell_capacity_check,
    describe_shortage=_describe_fits_shortage,
    binding="cells",
    line="1 fits",
    describe_remaining=_describe_fits_remaining,
)


def _build_virtual_function_check(sku: VmSku) -> CapacityCheck:
    """Build a check of a capacity.

    It returns the missing VFs, or None if enough cells with capacity have them.
    """
    # The needs of a VM in each of its cells.
    share = Share.compute(sku)

    def find_rejection(capacity: FreeCapacity) -> str | None:
        """Return why too few cells have enough VFs besides CPUs and memory, None if the VM fits."""
        # The VM needs no VF in its cells.
        if not share.vfs:
            return None
        fitting = select_fitting_cells(share, capacity)
        if len(select_cells_with_vfs(share, capacity, fitting)) >= share.cells:  # it fits
            return None
        maximum = max((capacity.vfs[cell] for cell in fitting), default=0)
        cells = (
            "no cell with capacity has"
            if share.cells == 1
            else f"fewer than {share.cells} cells with capacity have"
        )
        return f"{cells} {share.vfs} VFs left (most: {maximum})"

    return find_rejection


def _describe_vfs_remaining(demand: Demand, remaining: Interval, before: Interval) -> str:
    # "": none is rejected.
    return f"{remaining} have the VFs" if demand.sku.vfs and remaining != before else ""


def _describe_vfs_shortage(context: ShortageContext) -> str:
    vfs = context.demand.sku.vfs_in_cell
    return (
        f"No NUMA cell with capacity on the site ({describe_zones(context.demand)}) has {vfs} "
        "SR-IOV VFs left."
    )


VFS = CapacityFilter(
    name="vfs",
    build_check=_build_virtual_function_check,
    describe_shortage=_describe_vfs_shortage,
    line="1 fits",
    describe_remaining=_describe_vfs_remaining,
)
