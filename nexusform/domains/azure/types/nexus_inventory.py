"""data nexus_inventory: a site from `az networkcloud` output, usable in for_each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity, suggest_name
from nexusform.documents.times import parse_duration, parse_time
from nexusform.domains.azure.importers.az_records import (
    STANDARD_FILES,
    AzCluster,
    AzInventory,
    AzMachine,
    AzNode,
    AzPool,
    AzRack,
    AzVirtualMachine,
    AzVmSize,
)
from nexusform.interfaces.plugins import DataResult, FileProblem, Files, ReadContext, ResourceType
from nexusform.json_data.plain_data import get_list, get_text
from nexusform.resource_types.machine_facts import EXPORTED_FACTS, list_machine_sku_names
from nexusform.resource_types.shared_arguments import is_set_and_known
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import (
    BOOL,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    Type,
)

# Few configurations read an inventory.
if TYPE_CHECKING:
    from nexusform.domains.azure.importers.az_capture_commands import AzExport

_LOCATION: Final[dict[str, Type]] = {"machine": STRING, "rack": STRING, "availability_zone": STRING}
_SHAPE: Final[dict[str, Type]] = {"cpu_cores": NUMBER, "memory_gib": NUMBER, "disk_gib": NUMBER}
_OCCUPIED: Final = ObjectType.create(
    {"name": STRING, **_SHAPE, "numa_cells": NUMBER, "cells": ListType(NUMBER)}
)

RACKS_TYPE: Final = MapType(
    ObjectType.create(
        {
            "availability_zone": STRING,
            "machine_sku": STRING,
            "rack_sku_id": STRING,
            "arm_id": STRING,
        }
    )
)
MACHINES_TYPE: Final = MapType(
    ObjectType.create(
        {
            "rack": STRING,
            "slot": NUMBER,
            **dict.fromkeys(("machine_sku", "machine_sku_id", "machine_name"), STRING),
            **{fact.name: fact.attribute.type for fact in EXPORTED_FACTS},
            "occupied": ListType(_OCCUPIED),
            "arm_id": STRING,
        }
    )
)
VIRTUAL_MACHINES_TYPE: Final = MapType(
    ObjectType.create(
        {
            **_SHAPE,
            **_LOCATION,
            "numa_cells": NUMBER,
            "cells": ListType(NUMBER),
            "managed": BOOL,
            "arm_id": STRING,
        }
    )
)
_NODE: Final = ObjectType.create(
    {
        **_SHAPE,
        **_LOCATION,
        **dict.fromkeys(("role", "pool", "vm_sku_name"), STRING),
        "numa_cells": ListType(NUMBER),
        "detailed_status": STRING,
    }
)
_POOL: Final = ObjectType.create(
    {
        "count": NUMBER,
        "vm_sku_name": STRING,
        "mode": STRING,
        "availability_zones": SetType(STRING),
        "labels": MapType(STRING),
    }
)
CLUSTERS_TYPE: Final = MapType(
    ObjectType.create(
        {
            "kubernetes_version": STRING,
            "control_plane": ObjectType.create(
                {"count": NUMBER, "vm_sku_name": STRING, "availability_zones": SetType(STRING)}
            ),
            "agent_pools": MapType(_POOL),
            "nodes": MapType(_NODE),
            "managed": BOOL,
            "arm_id": STRING,
        }
    )
)


_PLACEMENT_FIELDS: Final = (
    "cpu_cores=shape.cpu_cores memory_gib=shape.memory_gib disk_gib=shape.disk_gib "
    "machine=placement.machine rack=placement.rack availability_zone=placement.availability_zone"
)


def _build_rack(rack: AzRack) -> dict[str, Any]:
    """Build the JSON object of a captured rack."""
    return {
        "availability_zone": rack.availability_zone,
        "machine_sku": rack.machine_sku,
        "rack_sku_id": rack.rack_sku_id,
        "arm_id": rack.id,
    }


def _build_machine_values(machine: AzMachine) -> dict[str, Any]:
    """Build the JSON object of a captured machine."""
    return {
        "rack": machine.rack,
        "slot": machine.slot,
        "machine_sku": machine.machine_sku,
        "machine_sku_id": machine.machine_sku_id,
        "machine_name": machine.machine_name,
    }


def _build_shape(shape: AzVmSize) -> dict[str, Any]:
    """Build the JSON object of the size of a VM."""
    return {
        "cpu_cores": shape.cpu_cores,
        "memory_gib": shape.memory_gib,
        "disk_gib": shape.disk_gib,
        "numa_cells": shape.numa_cells,
    }


def _build_vm(vm: AzVirtualMachine) -> dict[str, Any]:
    """Build the JSON object of a captured VM."""
    return {
        "cpu_cores": vm.shape.cpu_cores,
        "memory_gib": vm.shape.memory_gib,
        "disk_gib": vm.shape.disk_gib,
        "machine": None if vm.placement is None else vm.placement.machine,
        "rack": None if vm.placement is None else vm.placement.rack,
        "availability_zone": None if vm.placement is None else vm.placement.availability_zone,
        "numa_cells": vm.shape.numa_cells,
        "cells": None,
    }


def _build_node(node: AzNode) -> dict[str, Any]:
    """Build the JSON object of a captured node."""
    return {
        "cpu_cores": node.shape.cpu_cores,
        "memory_gib": node.shape.memory_gib,
        "disk_gib": node.shape.disk_gib,
        "machine": None if node.placement is None else node.placement.machine,
        "rack": None if node.placement is None else node.placement.rack,
        "availability_zone": None if node.placement is None else node.placement.availability_zone,
        "role": node.role,
        "pool": node.pool,
        "vm_sku_name": node.vm_sku_name,
        "numa_cells": None,
        "detailed_status": node.detailed_status,
    }


def _build_pool(pool: AzPool) -> dict[str, Any]:
    """Build the JSON object of a captured pool."""
    return {
        "count": pool.count,
        "vm_sku_name": pool.vm_sku_name,
        "mode": pool.mode,
        "availability_zones": list(pool.availability_zones),
        "labels": dict(pool.labels),
    }


def _build_cluster(cluster: AzCluster) -> dict[str, Any]:
    """Build the JSON object of a captured cluster."""
    return {
        "kubernetes_version": cluster.kubernetes_version,
        "control_plane": {
            "count": cluster.control_plane_count,
            "vm_sku_name": cluster.control_plane_sku,
            "availability_zones": list(cluster.control_plane_zones),
        },
        "agent_pools": {pool.name: _build_pool(pool) for pool in cluster.pools},
        "nodes": {node.name: _build_node(node) for node in cluster.nodes},
    }


def build_inventory_attributes(
    inventory: AzInventory, managed: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Build the computed attributes as plain data, keys sorted.

    `managed` are the names of clusters, pools ("<cluster>/<pool>") and VMs with a resource; they
    are listed and do not count as occupied.
    """
    occupied = _collect_occupied_capacity(inventory, managed)
    return {
        "exported_at": inventory.exported_at,
        "has_export_time": inventory.is_age_certain,
        "racks": {rack.name: _build_rack(rack) for rack in inventory.racks},
        "machines": {
            m.name: _build_machine(m, occupied.get(m.name, [])) for m in inventory.machines
        },
        "virtual_machines": {
            vm.name: {**_build_vm(vm), "managed": (vm.name in managed), "arm_id": vm.id}
            for vm in inventory.virtual_machines
        },
        "kubernetes_clusters": {
            cluster.name: {
                **_build_cluster(cluster),
                "managed": cluster.name in managed,
                "arm_id": cluster.id,
            }
            for cluster in inventory.clusters
        },
    }


def _build_machine(machine: AzMachine, occupied: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the inventory entry of a machine; `occupied` are the blocks of its used capacity."""
    return {
        **_build_machine_values(machine),
        **{fact.name: machine.facts[fact.name] for fact in EXPORTED_FACTS},
        "occupied": occupied,
        "arm_id": machine.id,
    }


def _collect_occupied_capacity(
    inventory: AzInventory, managed: frozenset[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return `occupied` blocks by machine: the size of each unmanaged VM.

    `managed` are the names of clusters, pools (CLUSTER/POOL) and VMs.
    """
    vms: list[AzNode | AzVirtualMachine] = []
    for cluster in inventory.clusters:
        vms += cluster.duplicate_nodes
        if cluster.name not in managed:
            vms += [node for node in cluster.nodes if f"{node.cluster}/{node.pool}" not in managed]
    vms += [vm for vm in inventory.virtual_machines if vm.name not in managed]
    by_machine: dict[str, list[dict[str, Any]]] = {}
    for vm in sorted(vms, key=lambda item: item.name):
        if vm.placement is None:
            # It uses no machine.
            continue
        entries = by_machine.setdefault(vm.placement.machine, [])
        used_names = {entry["name"] for entry in entries}
        # The names on a machine must differ: append the cluster, and then a number.
        name = vm.name
        if name in used_names and isinstance(vm, AzNode):
            name = f"{vm.name} ({vm.cluster})"
        number = 2
        while name in used_names:
            name = f"{vm.name} ({number})"
            number = number + 1
        entries.append({"name": name, **_build_shape(vm.shape), "cells": None})
    return by_machine


# Kind of document by argument.
_FILE_KINDS: Final = (
    "bare_metal_machines",
    "racks",
    "virtual_machines",
    "kubernetes_clusters",
    "agent_pools",
)
FILE_ARGUMENTS: Final[Mapping[str, str]] = {f"{kind}_file": kind for kind in _FILE_KINDS}


def _make_file_attribute(content: str) -> AttributeSchema:
    return AttributeSchema(STRING, f"File with {content}.", optional=True)


def _make_computed_attribute(value_type: Type, description: str) -> AttributeSchema:
    return AttributeSchema(value_type, description, computed=True)


_SCHEMA: Final = BlockSchema(
    {
        "id": _make_computed_attribute(STRING, "The directory, or the file of machines."),
        "directory": AttributeSchema(
            STRING,
            f"Directory with the exported files: {', '.join(f.name for f in STANDARD_FILES)}.",
            optional=True,
        ),
        "bare_metal_machines_file": _make_file_attribute(
            "bare-metal machines, instead of directory"
        ),
        "racks_file": _make_file_attribute("racks, instead of directory"),
        "virtual_machines_file": _make_file_attribute("virtual machines"),
        "kubernetes_clusters_file": _make_file_attribute("Kubernetes clusters"),
        "agent_pools_file": _make_file_attribute("agent pools"),
        "site": AttributeSchema(
            STRING,
            (
                "Site to read if the files contain several: name of its Nexus cluster, else of "
                "its extended location."
            ),
            optional=True,
        ),
        "machine_sku_by_id": AttributeSchema(
            MapType(STRING),
            "Machine SKU of the catalogue by machineSkuId. Default: from the rack SKU.",
            optional=True,
        ),
        "max_age": AttributeSchema(
            STRING,
            'Maximum age of the export before a warning: "24h", "7d", "1h30m".',
            optional=True,
        ),
        "managed": AttributeSchema(
            SetType(STRING),
            'Names of clusters, pools ("<cluster>/<pool>") and VMs that resources will manage but '
            "state lacks. They do not count as occupied.",
            optional=True,
        ),
        "exported_at": _make_computed_attribute(
            STRING, "Time of the export, or its newest change."
        ),
        "has_export_time": _make_computed_attribute(
            BOOL, "Whether exported_at is the time of the export, not of its newest change."
        ),
        "racks": _make_computed_attribute(RACKS_TYPE, "Compute racks by name."),
        "machines": _make_computed_attribute(MACHINES_TYPE, "Bare-metal machines by name."),
        "virtual_machines": _make_computed_attribute(
            VIRTUAL_MACHINES_TYPE, "Plain virtual machines by name."
        ),
        "kubernetes_clusters": _make_computed_attribute(
            CLUSTERS_TYPE, "NKS clusters by name, with their nodes."
        ),
    },
    description="Inventory of a site, from files exported with `az networkcloud`.",
)


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the directory, or the file of machines, as id."""
    return get_text(attributes, "directory") or get_text(attributes, "bare_metal_machines_file")


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check the arguments: one way to name files, valid SKUs and max_age."""
    problems = _check_source_arguments(attributes)
    by_id = attributes.get("machine_sku_by_id")
    names = list_machine_sku_names()
    if isinstance(by_id, Mapping):
        problems += [
            Problem(
                ("machine_sku_by_id", sku_id),
                "unknown-machine-sku",
                (
                    f'The catalogue has no machine SKU "{sku}".{suggest_name(str(sku), names)} '
                    f"Known: {', '.join(names)}."
                ),
            )
            for sku_id, sku in by_id.items()
            if is_set_and_known(sku) and sku not in names
        ]
    age = attributes.get("max_age")
    if isinstance(age, str) and parse_duration(age) is None:
        detail = f'The age must be like "24h", "7d" or "1h30m", not "{age}".'
        problems.append(Problem(("max_age",), "invalid-duration", detail))
    return problems


def _check_source_arguments(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check the arguments naming directory or files."""
    files = [name for name in FILE_ARGUMENTS if attributes.get(name) is not None]
    if attributes.get("directory") is not None:
        return [
            Problem(
                (name,),
                "conflicting-arguments",
                f'"directory" and "{name}" cannot both be set. Use "directory" with its standard '
                "file names, or set every file.",
            )
            for name in files
        ]
    missing = [name for name in ("bare_metal_machines_file", "racks_file") if name not in files]
    if not missing:
        # Both are set.
        return []
    return [
        Problem(
            (),
            "missing-required-argument",
            'No input given. Set either "directory", or "bare_metal_machines_file" and '
            f'"racks_file" ({" and ".join(missing)} missing).',
        )
    ]


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataResult:
    """Read the files and return the site as maps by name; no attributes after an error."""
    export = _read_files(attributes, context.files)
    if export.problems:
        return DataResult(attributes={}, problems=export.problems)
    # Few configurations read an inventory, so its readers are loaded on demand.
    from nexusform.domains.azure.importers.az_inventory import (
        find_missing_node_facts,
        read_inventory,
    )

    machine_skus = attributes.get("machine_sku_by_id")
    inventory, findings = read_inventory(
        export.documents, machine_skus, site=attributes.get("site")
    )
    # It names the files.
    argument = ("directory",) if attributes.get("directory") is not None else ()
    problems = []
    for finding in findings:
        # A path in a file is no argument.
        path = argument if finding.file else finding.path
        problems.append(
            Problem(path, finding.id, finding.located_detail, finding.severity, brief=finding.brief)
        )
    if any(problem.severity is Severity.ERROR for problem in problems):
        return DataResult(attributes={}, problems=problems)
    managed = context.managed_names.union(get_list(attributes, "managed"))
    problems += _warn_outdated_export(attributes, inventory, context.now)
    values = {"id": build_id(attributes), **build_inventory_attributes(inventory, managed)}
    # A managed cluster is placed by its resource, with its missing nodes.
    unmanaged_clusters = [item for item in inventory.clusters if item.name not in managed]
    missing_nodes = tuple(find_missing_node_facts(unmanaged_clusters))
    return DataResult(values, problems, unread=(*inventory.unread, *missing_nodes))


def _read_files(attributes: Mapping[str, Any], files: Files) -> AzExport:
    """Read the files of the directory, else every named file; report unreadable ones."""
    from nexusform.domains.azure.importers.az_capture_commands import (
        AzExport,
        find_irregular_files,
        read_export_directory,
    )

    directory = attributes.get("directory")
    if directory is not None:
        try:
            names = files.find_files(str(directory).rstrip("/") or "/", "*")
        except FileProblem as problem:
            advice = (
                "A path is relative to where the command runs; in a module write "
                '"${path.module}/...".'
            )
            return AzExport(
                problems=[Problem(("directory",), "unreadable-file", f"{problem} {advice}")]
            )
        names += find_irregular_files(str(directory), names, files.is_file)
        return read_export_directory(str(directory), names, files.read)
    export = AzExport()
    for argument, kind in FILE_ARGUMENTS.items():
        name = attributes.get(argument)
        if name is not None:
            export.add_file(files.read, str(name), kind, (argument,))
    return export


def _warn_outdated_export(
    attributes: Mapping[str, Any], inventory: AzInventory, now: str
) -> Iterable[Problem]:
    """Warn about an export from the future, and about one that is too old.

    The latter is older than a valid max_age, or of unknown age.
    """
    from nexusform.domains.azure.importers.az_capture_commands import build_future_time_warnings

    yield from build_future_time_warnings(inventory.exported_at, now)
    max_age = get_text(attributes, "max_age")
    limit = parse_duration(max_age)
    if limit is None:
        return
    export_time = parse_time(get_text(inventory.exported_at))
    current_time = parse_time(now)
    if export_time is None:
        yield Problem(
            ("max_age",),
            "unknown-inventory-age",
            "The export has no time. Write it into a file exported_at in the same directory: date "
            "-u +%Y-%m-%dT%H:%M:%SZ > exported_at",
            Severity.WARNING,
        )
    elif current_time is not None and current_time - export_time > limit:
        age_clause = "was made" if inventory.is_age_certain else "has no data newer than"
        hours = int((current_time - export_time).total_seconds() // 3600)
        age = f"{hours // 24} days" if hours >= 48 else f"{hours} hours"
        yield Problem(
            ("max_age",),
            "old-inventory",
            f'The export {age_clause} {inventory.exported_at}, {age} ago; max_age is "{max_age}". '
            "Capture it again before you use this plan.",
            Severity.WARNING,
        )


NEXUS_INVENTORY: Final = ResourceType(
    "nexus_inventory", 0, _SCHEMA, build_id, mode="data", check=check, read=read
)
