"""An export of `az networkcloud` -> a site: racks, machines, and who stands on them.

Machines are joined to racks by ARM id (case does not matter), racks give the zone, SKUs the
capacity. Everything that is wrong comes back as findings; nothing raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final, NoReturn, TypeAlias

from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.importers.arm import Item, newest_change, parse_time, resources, time_text
from nexusform.importers.az_cells import place
from nexusform.importers.az_machines import compute_racks, read_machines, read_racks
from nexusform.importers.az_model import (
    EXPORTED_AT,
    AzCapacity,
    AzCluster,
    AzInventory,
    AzNode,
    AzVirtualMachine,
)
from nexusform.importers.az_workloads import read_clusters, read_pools, read_virtual_machines
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST, Catalogue

# Kind of document (az_files.StandardFile.kind) -> its files as (name for messages, content).
Documents: TypeAlias = Mapping[str, Sequence[tuple[str, bytes]]]

MAX_FINDINGS: Final = 50


def read_inventory(
    documents: Documents,
    machine_sku_by_id: Mapping[str, str] | None = None,
    catalogue: Catalogue | None = None,
) -> tuple[AzInventory, tuple[Problem, ...]]:
    """The site that the documents describe, and what is wrong with them, errors first.

    `machine_sku_by_id` maps machineSkuId to a machine SKU of the catalogue (default: the newest
    one) and wins over the rack's SKU.
    """
    skus = catalogue or CATALOGUES[NEWEST]
    findings: list[Problem] = []
    items, stated = _read_all(documents, findings)
    racks = read_racks(items["racks"])
    machines = read_machines(items["bare_metal_machines"], racks, machine_sku_by_id or {})
    pools = read_pools(items["agent_pools"])
    clusters, nodes = read_clusters(items["kubernetes_clusters"], pools, skus.vm_skus)
    listed = nodes + read_virtual_machines(items["virtual_machines"])
    placed = place(listed, machines, racks, skus.machine_skus)
    newest = newest_change(chain.from_iterable(items.values()))
    exported_at = _exported_at(documents, stated, findings)
    age = exported_at or newest
    inventory = AzInventory(
        racks=compute_racks(racks, machines.values()),
        machines=tuple(sorted(machines.values(), key=lambda m: m.name)),
        virtual_machines=tuple(vm for vm in placed if isinstance(vm, AzVirtualMachine)),
        clusters=_with_nodes(clusters, [vm for vm in placed if isinstance(vm, AzNode)]),
        capacity=_capacity(items["clusters"]),
        exported_at=time_text(age) if age else None,
        age_certain=exported_at is not None,
    )
    return inventory, _limited(findings)


_KINDS: Final = (
    "racks",
    "bare_metal_machines",
    "virtual_machines",
    "kubernetes_clusters",
    "agent_pools",
    "clusters",
)


def _read_all(
    documents: Documents, findings: list[Problem]
) -> tuple[dict[str, list[Item]], list[tuple[str, Any]]]:
    """The resources of every kind, and the `exported_at` that documents state."""
    items: dict[str, list[Item]] = {kind: [] for kind in _KINDS}
    stated: list[tuple[str, Any]] = []
    for kind in _KINDS:
        for name, content in documents.get(kind, ()):
            data, problem = parse_json(name, content)
            if problem is not None:
                findings.append(problem)
                continue
            if isinstance(data, Mapping) and EXPORTED_AT in data:
                stated.append((name, data[EXPORTED_AT]))
            items[kind] += resources(name, data, findings)
    return items, stated


def _exported_at(
    documents: Documents, stated: Iterable[tuple[str, Any]], findings: list[Problem]
) -> datetime | None:
    """The oldest time at which the export says a part of it was made."""
    named: list[tuple[str, Any]] = [
        (name, content.decode("utf-8", "replace").lstrip("\ufeff").strip())
        for name, content in documents.get(EXPORTED_AT, ())
    ]
    moments = []
    for name, text in [*named, *stated]:
        moment = parse_time(text) if isinstance(text, str) else None
        if moment is not None:
            moments.append(moment)
            continue
        shown = str(text)[:40]
        detail = f'"{shown}" is not a time such as 2026-03-01T08:00:00Z; the age is taken from the resources.'
        findings.append(Problem((), "invalid-time", detail, Severity.WARNING, file=name))
    return min(moments, default=None)


def _with_nodes(clusters: Iterable[AzCluster], nodes: Iterable[AzNode]) -> tuple[AzCluster, ...]:
    by_cluster: dict[str, list[AzNode]] = {}
    for node in nodes:
        by_cluster.setdefault(node.cluster, []).append(node)
    filled = [replace(c, nodes=tuple(by_cluster.get(c.name, ()))) for c in clusters]
    return tuple(sorted(filled, key=lambda cluster: cluster.name))


def _capacity(items: Iterable[Item]) -> AzCapacity | None:
    for item in items:
        whole = item.item("clusterCapacity")
        if whole is None:
            continue
        return AzCapacity(
            whole.whole("totalCoreCount"),
            whole.whole("availableCoreCount"),
            whole.whole("totalMemoryGB"),
            whole.whole("availableMemoryGB"),
        )
    return None


def _limited(findings: list[Problem]) -> tuple[Problem, ...]:
    """Errors first, equal ones once, and at most MAX_FINDINGS of them."""
    ordered = sorted(dict.fromkeys(findings), key=lambda finding: finding.severity is not Severity.ERROR)
    if len(ordered) <= MAX_FINDINGS:
        return tuple(ordered)
    rest = len(ordered) - MAX_FINDINGS
    more = Problem(
        (),
        "more-findings",
        f"and {rest} more, not shown.",
        ordered[MAX_FINDINGS].severity,
        file=ordered[MAX_FINDINGS].file,
    )
    return (*ordered[:MAX_FINDINGS], more)


MAX_BYTES: Final = 64 * 1024 * 1024
INVALID: Final = "invalid-json"

# What `>` writes depends on the shell: PowerShell puts a mark first, or writes UTF-16.
_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


def parse_json(file: str, content: bytes) -> tuple[Any, Problem | None]:
    """The data of a JSON document, or (None, what is wrong with it)."""
    if len(content) > MAX_BYTES:
        detail = f"the file has {len(content):,} bytes; at most {MAX_BYTES:,} are read."
        return None, Problem((), "file-too-large", detail, file=file)
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as problem:
        before = content[: problem.start]
        line = before.count(b"\n") + 1
        column = problem.start - (before.rfind(b"\n") + 1) + 1
        return None, _broken(file, line, column, f"this is not {encoding} text.")
    if not text.strip():
        return None, _broken(file, 1, 1, "the file is empty. Capture it again.")
    try:
        return json.loads(text, parse_constant=_refuse_constant), None
    except json.JSONDecodeError as problem:
        detail = f"{problem.msg}. Is this the whole output of the command?"
        return None, _broken(file, problem.lineno, problem.colno, detail)
    except RecursionError:
        return None, _broken(file, 1, 1, "the document is nested too deeply.")
    except ValueError as problem:
        return None, _broken(file, 1, 1, f"a number cannot be read: {str(problem).split(';')[0]}.")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _broken(file: str, line: int, column: int, detail: str) -> Problem:
    return Problem((), INVALID, detail, file=file, line=line, column=column)
