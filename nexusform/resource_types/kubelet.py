"""The `kubelet` block: what nodes keep back from pods, what they offer besides, and their NUMA cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.diagnostics import Problem
from nexusform.kubernetes.quantity import Malformed, parse_quantity
from nexusform.plain_data import Path
from nexusform.resource_types.shared_arguments import is_known
from nexusform.scheduling.kubelet import (
    EVICTION_MEMORY,
    MOST_CELLS,
    STORAGE,
    Kubelet,
    Platform,
    Reserve,
    TopologyPolicy,
)
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import DYNAMIC, NUMBER, STRING, MapType

_MOST_CPUS: Final = 4096
_RESERVES: Final = ("kube_reserved", "system_reserved")
_RESERVED: Final = ("cpu", "memory", STORAGE)
_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?\Z", re.ASCII)
_RESOURCE: Final = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?|hugepages-[0-9]+[KMG]i)\Z",
    re.ASCII,
)


def _argument(kind: Any, description: str, **more: Any) -> Attribute:
    return Attribute(kind, description, optional=True, decides_placement=True, **more)


EXTENDED: Final = _argument(
    DYNAMIC,
    'Extra resources per node, such as "intel.com/sriov_netdevice" or "hugepages-1Gi": an amount, or a '
    "list per NUMA cell. Hugepages reduce memory.",
)
KUBELET_BLOCK: Final = NestedBlock(
    BlockSchema(
        {
            "eviction_memory": _argument(
                STRING,
                "Hard eviction threshold (evictionHard memory.available). Default: 100Mi.",
            ),
            "kube_reserved": _argument(
                MapType(STRING),
                'kubeReserved: "cpu", "memory", "ephemeral-storage". Default: none.',
            ),
            "system_reserved": _argument(
                MapType(STRING),
                'systemReserved: "cpu", "memory", "ephemeral-storage". Default: none.',
            ),
            "reserved_cpus": _argument(
                STRING,
                'reservedSystemCPUs, such as "0-1"; replaces the CPUs of both reserves. Default: "0-1" on '
                "NKS (none for NC_G2_8_v1 and NC_P4_28_v1), none elsewhere.",
            ),
            "extended_resources": EXTENDED,
            "topology_manager_policy": _argument(
                STRING,
                "topologyManagerPolicy. If set, pods rejected by kubelet are Failed.",
                choices=tuple(policy.value for policy in TopologyPolicy),
            ),
            "numa_nodes": _argument(
                NUMBER,
                "NUMA cells of a node. Default: those of its VM SKU.",
                minimum=1,
                maximum=MOST_CELLS,
            ),
        }
    ),
    Nesting.SINGLE,
    "Reserved and extra resources of the nodes. Applies to new pods; moves no VM.",
    max_items=1,
)


# --- checks ------------------------------------------------------------------------------------


def kubelet_problems(values: Any, path: Path) -> list[Problem]:
    """What is wrong with a kubelet block; `path` is where it stands."""
    if not isinstance(values, Mapping):
        return []
    problems: list[Problem] = []
    amounts: list[tuple[Path, Any]] = [(("eviction_memory",), values.get("eviction_memory"))]
    for name in _RESERVES:
        reserve = values.get(name)
        items = reserve.items() if isinstance(reserve, Mapping) else ()
        amounts += [((name, key), amount) for key, amount in items]
        problems += [
            _wrong((*path, name, key), f'"{key}" cannot be reserved; write {_listed(_RESERVED)}.')
            for key, _ in items
            if key not in _RESERVED
        ]
    for where, amount in amounts:
        if isinstance(amount, str) and _amount(amount) is None:
            problems.append(_wrong((*path, *where), f'"{amount}" is no amount such as "100Mi" or "500m".'))
    cpus = values.get("reserved_cpus")
    if isinstance(cpus, str) and _cpu_list(cpus) is None:
        text = f'"{cpus}" is no list of CPU numbers such as "0-1" or "0,8" (the first CPU is 0).'
        problems.append(_wrong((*path, "reserved_cpus"), text))
    return problems + extended_problems(values.get("extended_resources"), (*path, "extended_resources"))


def extended_problems(values: Any, path: Path) -> list[Problem]:
    """What is wrong with a map of further resources."""
    if not is_known(values):
        return []
    if not isinstance(values, Mapping):
        return [_wrong(path, 'extended_resources is a map, such as { "nvidia.com/gpu" = 2 }.')]
    problems = []
    for name, amount in values.items():
        if not _RESOURCE.match(name):
            text = (
                f'"{name}" is no extended resource: write its full name, such as "nvidia.com/gpu", or '
                '"hugepages-1Gi". CPU, memory and disk are those of the VM SKU.'
            )
            problems.append(_wrong((*path, name), text))
        elif is_known(amount) and _per_cell(amount) is None:
            text = (
                f'The amount of "{name}" is a whole number, a quantity such as "4Gi", or a list of them with '
                "one item per NUMA cell of the node."
            )
            problems.append(_wrong((*path, name), text))
    return problems


def _wrong(path: Path, detail: str) -> Problem:
    return Problem(path, "invalid-kubelet", detail)


def _listed(words: Iterable[str]) -> str:
    *first, last = [f'"{word}"' for word in words]
    return f"{', '.join(first)} or {last}"


# --- values ------------------------------------------------------------------------------------


def kubelet_of(platform: Platform, *blocks: Any) -> Kubelet:
    """The kubelet that blocks describe; what a later one says goes before the earlier ones."""
    values: dict[str, Any] = {}
    further: dict[str, tuple[int, ...]] = {}
    for block in blocks:
        if isinstance(block, Mapping):
            values |= {name: value for name, value in block.items() if is_known(value)}
            further |= extended_of(block.get("extended_resources"))
    eviction = values.get("eviction_memory")
    cpus = values.get("reserved_cpus")
    return Kubelet(
        platform=platform,
        eviction_memory=EVICTION_MEMORY if eviction is None else _whole(eviction),
        reserved=_reserve(values.get(name) for name in _RESERVES),
        reserved_cpus=None if cpus is None else _cpu_list(cpus),
        extended=further,
        policy=TopologyPolicy(values.get("topology_manager_policy") or TopologyPolicy.NONE),
        cells=int(values.get("numa_nodes") or 0),
    )


def extended_of(values: Any) -> dict[str, tuple[int, ...]]:
    """Further resources by name: an amount, or one per cell."""
    if not isinstance(values, Mapping):
        return {}
    amounts = {name: _per_cell(amount) for name, amount in values.items()}
    return {name: per_cell for name, per_cell in sorted(amounts.items()) if per_cell is not None}


def _reserve(blocks: Iterable[Any]) -> Reserve:
    """What several blocks reserve, added up."""
    cpu = memory = storage = 0
    for block in blocks:
        if isinstance(block, Mapping):
            cpu += _milli(block.get("cpu"))
            memory += _whole(block.get("memory"))
            storage += _whole(block.get(STORAGE))
    return Reserve(cpu, memory, storage)


def _per_cell(amount: Any) -> tuple[int, ...] | None:
    items = amount if isinstance(amount, list) else [amount]
    amounts = [_amount(item) for item in items]
    known = [each for each in amounts if each is not None]
    return tuple(known) if known and len(known) == len(amounts) else None


def _amount(value: Any) -> int | None:
    """A whole number of units, None for what is no amount."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    quantity = parse_quantity(str(value))
    return None if isinstance(quantity, Malformed) or quantity.nano < 0 else quantity.whole()


def _whole(value: Any) -> int:
    return _amount(value) or 0


def _milli(value: Any) -> int:
    quantity = parse_quantity(str(value)) if value is not None else None
    return 0 if quantity is None or isinstance(quantity, Malformed) else quantity.milli()


def _cpu_list(written: str) -> frozenset[int] | None:
    """The numbers in a list such as "0-1,8"; "" is none."""
    numbers: set[int] = set()
    for part in filter(None, written.split(",")):
        bounds = _RANGE.match(part.strip())
        if bounds is None:
            return None
        first, last = int(bounds[1]), int(bounds[2] or bounds[1])
        if last < first or last >= _MOST_CPUS:
            return None
        numbers.update(range(first, last + 1))
    return frozenset(numbers)
