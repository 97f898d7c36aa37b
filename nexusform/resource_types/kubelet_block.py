"""`kubelet` block: node reservations, extended resources, and NUMA cells."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.json_data.plain_data import Path
from nexusform.kubernetes.quantity import InvalidQuantity, parse_quantity
from nexusform.resource_types.shared_arguments import (
    build_optional_argument,
    get_known_blocks,
    is_set_and_known,
)
from nexusform.scheduling.kubelet import (
    EVICTION_MEMORY,
    MAX_CELLS,
    STORAGE,
    KubeletConfiguration,
    Platform,
    Reserve,
    TopologyPolicy,
)
from nexusform.schemas.block_schema import BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import DYNAMIC, NUMBER, STRING, MapType

_MAXIMUM_CPUS: Final = 4096

_RESERVE_ARGUMENTS: Final = ("kube_reserved", "system_reserved")
_RESERVABLE_RESOURCES: Final = ("cpu", "memory", STORAGE)
_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?\Z", re.ASCII)
_RESOURCE: Final = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?|hugepages-[0-9]+[KMG]i)\Z",
    re.ASCII,
)

EXTENDED: Final = build_optional_argument(
    DYNAMIC,
    'Extra resources per node, such as "intel.com/sriov_netdevice" or "hugepages-1Gi": an amount, '
    "or a list per NUMA cell. Hugepages reduce memory.",
)
KUBELET_BLOCK: Final = NestedBlock(
    BlockSchema(
        {
            "eviction_memory": build_optional_argument(
                STRING, "Hard eviction threshold (evictionHard memory.available). Default: 100Mi."
            ),
            "kube_reserved": build_optional_argument(
                MapType(STRING),
                'kubeReserved: "cpu", "memory", "ephemeral-storage". Default: none.',
            ),
            "system_reserved": build_optional_argument(
                MapType(STRING),
                'systemReserved: "cpu", "memory", "ephemeral-storage". Default: none.',
            ),
            "reserved_cpus": build_optional_argument(
                STRING,
                'reservedSystemCPUs, such as "0-1"; replaces the CPUs of both reserves. Default: '
                '"0-1" on NKS (none for NC_G2_8_v1 and NC_P4_28_v1), none elsewhere.',
            ),
            "extended_resources": EXTENDED,
            "topology_manager_policy": build_optional_argument(
                STRING,
                "topologyManagerPolicy. If set, pods rejected by kubelet are Failed.",
                choices=tuple(policy.value for policy in TopologyPolicy),
            ),
            "numa_nodes": build_optional_argument(
                NUMBER,
                "NUMA cells of a node. Default: those of its VM SKU.",
                minimum=1,
                maximum=MAX_CELLS,
            ),
        }
    ),
    Nesting.SINGLE,
    "Reserved and extra resources of the nodes. Applies to new pods; moves no VM.",
    max_items=1,
)


def check_kubelet(values: Any, path: Path) -> list[Problem]:
    """Return the problems of a kubelet block; `path` is its location.

    Amounts that are unknown yet have none.
    """
    if not isinstance(values, Mapping):
        # Absent or unknown.
        return []
    problems: list[Problem] = []
    # By path in the block.
    amounts: list[tuple[Path, Any]] = [(("eviction_memory",), values.get("eviction_memory"))]
    for name in _RESERVE_ARGUMENTS:
        reserve = get_known_blocks(values, name)
        for key, reserved_amount in reserve.items():
            amounts.append(((name, key), reserved_amount))
            if key not in _RESERVABLE_RESOURCES:
                text = f'"{key}" cannot be reserved; write "cpu", "memory" or "{STORAGE}".'
                problems.append(_build_problem((*path, name, key), text))
    for amount_path, amount in amounts:
        if isinstance(amount, str) and _parse_reservation_amount(amount) is None:
            text = f'"{amount}" is not an amount such as "100Mi" or "500m".'
            problems.append(_build_problem((*path, *amount_path), text))
    cpus = values.get("reserved_cpus")
    if isinstance(cpus, str) and _parse_cpu_list(cpus) is None:
        text = f'"{cpus}" is not a list of CPU numbers such as "0-1" or "0,8" (the first CPU is 0).'
        problems.append(_build_problem((*path, "reserved_cpus"), text))
    return problems + check_extended_resources(
        values.get("extended_resources"), (*path, "extended_resources")
    )


def check_extended_resources(values: Any, path: Path) -> list[Problem]:
    """Return the problems of a map of extended resources."""
    if not is_set_and_known(values):
        # Absent or unknown.
        return []
    if not isinstance(values, Mapping):
        return [
            _build_problem(path, 'extended_resources is a map, such as { "nvidia.com/gpu" = 2 }.')
        ]
    problems = []
    for name, amount in values.items():
        if not _RESOURCE.match(name):
            text = (
                f'"{name}" is not an extended resource: write its full name, such as '
                '"nvidia.com/gpu", or "hugepages-1Gi". CPU, memory and disk are those of the VM '
                "SKU."
            )
            problems.append(_build_problem((*path, name), text))
        elif is_set_and_known(amount) and _parse_reservation_amounts(amount) is None:
            text = (
                f'The amount of "{name}" is a whole number, a quantity such as "4Gi", or a list '
                "of them with "
                "one item per NUMA cell of the node."
            )
            problems.append(_build_problem((*path, name), text))
    return problems


def _build_problem(path: Path, detail: str) -> Problem:
    return Problem(path, "invalid-kubelet", detail)


def build_kubelet(platform: Platform, *blocks: Any) -> KubeletConfiguration:
    """Build the kubelet configuration of blocks.

    Set and known values of later ones override earlier ones.
    """
    values: dict[str, Any] = {}
    extended_resources: dict[str, tuple[int, ...]] = {}
    for block in blocks:
        if isinstance(block, Mapping):
            values |= {name: value for name, value in block.items() if is_set_and_known(value)}
            extended_resources |= parse_extended_resources(block.get("extended_resources"))
    cpu_list = values.get("reserved_cpus")
    # The blocks kube_reserved and system_reserved, None if absent.
    reservations = map(values.get, _RESERVE_ARGUMENTS)
    return KubeletConfiguration(
        platform=platform,
        eviction_memory=_parse_whole_amount(values.get("eviction_memory", EVICTION_MEMORY)),
        reserved=_sum_reservations(reservations),
        reserved_cpus=None if cpu_list is None else _parse_cpu_list(cpu_list),
        extended=extended_resources,
        policy=TopologyPolicy(values.get("topology_manager_policy") or TopologyPolicy.NONE),
        cells=int(values.get("numa_nodes") or 0),
    )


def parse_extended_resources(values: Any) -> dict[str, tuple[int, ...]]:
    """Return the amounts of extended resources by name, without invalid ones.

    An amount is a total (2,) or one per NUMA cell (1, 1).
    """
    if not isinstance(values, Mapping):
        # Absent or unknown.
        return {}
    amounts = {name: _parse_reservation_amounts(amount) for name, amount in values.items()}
    return {name: per_cell for name, per_cell in sorted(amounts.items()) if per_cell is not None}


def _sum_reservations(blocks: Iterable[Any]) -> Reserve:
    """Return the sum of the reservations in milli-CPUs and bytes.

    Invalid amounts (reported by the check) count 0.
    """
    cpu = memory = storage = 0
    for block in blocks:
        if isinstance(block, Mapping):
            value = block.get("cpu")
            quantity = parse_quantity(str(value)) if value is not None else None
            milli = (
                0
                if quantity is None or isinstance(quantity, InvalidQuantity)
                else quantity.round_to_milli()
            )
            cpu += milli
            memory += _parse_whole_amount(block.get("memory"))
            storage += _parse_whole_amount(block.get(STORAGE))
    return Reserve(cpu, memory, storage)


def _parse_reservation_amounts(amount: Any) -> tuple[int, ...] | None:
    """Return an amount, or those of a list by NUMA cell, as a tuple.

    Return None if any is invalid, or for an empty list. "2" gives (2,), and ["1", "1"] gives (1,
    1): one amount for each cell.
    """
    items = amount if isinstance(amount, list) else [amount]
    amounts = []
    for item in items:
        whole_amount = _parse_reservation_amount(item)
        if whole_amount is None:
            return None
        amounts.append(whole_amount)
    return tuple(amounts) or None


def _parse_reservation_amount(value: Any) -> int | None:
    """Return the whole number of units of a quantity, None for an invalid or negative one.

    Examples of quantities are 3, "3" and "2Gi".
    """
    # True is an int, too.
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    quantity = parse_quantity(str(value))
    if isinstance(quantity, InvalidQuantity) or quantity.nano < 0:
        return None
    return quantity.round_to_units()


def _parse_whole_amount(value: Any) -> int:
    """Return the whole number of units of a quantity; 0 for an absent, invalid or negative one."""
    return _parse_reservation_amount(value) or 0


def _parse_cpu_list(text: str) -> frozenset[int] | None:
    """Return the CPU numbers in a list such as "0-1,8".

    The result is empty for "", and None for an invalid list.
    """
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        bounds = _RANGE.match(part.strip())
        if bounds is None:
            return None
        first = int(bounds[1])
        last = int(bounds[2] or bounds[1])
        if last < first or last >= _MAXIMUM_CPUS:
            return None
        numbers.update(range(first, last + 1))
    return frozenset(numbers)
