"""data openstack_inventory: hosts and servers from files of the openstack command.

The hosts are compute hosts. The files have the output of the command line.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import asdict

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import DataResult, FileProblem, ReadContext, ResourceType
from nexusform.json_data.plain_data import get_text
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import BOOL, NUMBER, STRING, ListType, MapType, ObjectType, Type

_FIGURES: Final[dict[str, Type]] = {"vcpus": NUMBER, "memory_mib": NUMBER, "disk_gib": NUMBER}
_RESOURCE: Final = ObjectType.create(
    dict.fromkeys(
        ("total", "reserved", "allocation_ratio", "min_unit", "max_unit", "step_size"), NUMBER
    )
)
_CELL: Final = ObjectType.create(
    {
        **dict.fromkeys(("id", "memory_mib", "used_memory_mib", "used_vcpus", "socket"), NUMBER),
        **dict.fromkeys(("shared", "dedicated", "pinned"), STRING),
        "siblings": ListType(STRING),
        "pages": ListType(
            ObjectType.create(dict.fromkeys(("size_kib", "total", "used", "reserved"), NUMBER))
        ),
    }
)
_DEVICE_POOL: Final = ObjectType.create(
    {"count": NUMBER, "numa_node": NUMBER, "properties": MapType(STRING)}
)
_HOST: Final = ObjectType.create(
    {
        "availability_zone": STRING,
        "unschedulable_reason": STRING,
        "resources": MapType(_RESOURCE),
        "traits": ListType(STRING),
        "aggregates": MapType(MapType(STRING)),
        "hypervisor_version": NUMBER,
        "hypervisor_type": STRING,
        "has_details": BOOL,
        "numa_cells": ListType(_CELL),
        "device_pools": ListType(_DEVICE_POOL),
        "supported_instances": ListType(ListType(STRING)),
        "failed_builds": NUMBER,
    }
)
# Share of a server in a NUMA cell of its host. Sets of CPUs are texts such as "0-3,8".
_GUEST_CELL: Final = ObjectType.create(
    {**dict.fromkeys(("id", "vcpus", "memory_mib", "page_size"), NUMBER), "pins": STRING}
)
_SERVER: Final = ObjectType.create(
    {
        "name": STRING,
        "host": STRING,
        **_FIGURES,
        **dict.fromkeys(("dedicated_vcpus", "emulator_vcpus"), NUMBER),
        **dict.fromkeys(("flavor", "image"), STRING),
        "numa_cells": ListType(_GUEST_CELL),
        **dict.fromkeys(("other_resources", "unallocated"), MapType(NUMBER)),
    }
)


def _create_computed(value_type: Type, description: str) -> AttributeSchema:
    return AttributeSchema(value_type, description, computed=True)


_SCHEMA: Final = BlockSchema(
    {
        "directory": AttributeSchema(
            STRING,
            "Directory with the files of `nexusform inventory script -for=openstack`.",
            required=True,
        ),
        "id": _create_computed(STRING, "The directory."),
        "exported_at": _create_computed(STRING, "Time of the export, from the file exported_at."),
        "hosts": _create_computed(
            MapType(_HOST), "Compute hosts by name, with their inventories in Placement."
        ),
        "flavors": _create_computed(
            MapType(
                ObjectType.create(
                    {
                        **_FIGURES,
                        **dict.fromkeys(("root_disk_gib", "ephemeral_gib", "swap_mib"), NUMBER),
                        "properties": MapType(STRING),
                    }
                )
            ),
            "Flavors by name.",
        ),
        "servers": _create_computed(
            MapType(_SERVER),
            "Servers on hosts by id. Allocations without a listed server are one entry per host.",
        ),
        "images": _create_computed(
            MapType(MapType(STRING)), "Properties of images by name and id."
        ),
        "image_limits": _create_computed(
            MapType(
                ObjectType.create(
                    {
                        "status": STRING,
                        **dict.fromkeys(("min_ram_mib", "min_disk_gib", "size"), NUMBER),
                    }
                )
            ),
            "Status of images by name and id, and the sizes that Nova's API compares with flavors.",
        ),
        "server_groups": _create_computed(
            MapType(ObjectType.create({"policy": STRING, "members": ListType(STRING)})),
            "Server groups by name.",
        ),
        "other_resource_classes": _create_computed(
            ListType(STRING), "Resource classes of resource providers that are not listed hosts."
        ),
    },
    description="Compute hosts, flavors and servers of an OpenStack, from `openstack ... -f json`.",
)


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the directory as id."""
    return get_text(attributes, "directory")


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataResult:
    """Read the files of the directory."""
    from nexusform.domains.openstack.importers.openstack_files import parse_openstack_files

    # The id is the directory.
    directory = build_id(attributes).rstrip("/") or "/"
    try:
        names = context.files.find_files(directory, "*.json")
        contents = {
            name.removesuffix(".json"): context.files.read(f"{directory}/{name}") for name in names
        }
        has_time = context.files.is_file(f"{directory}/exported_at")
        time = (
            context.files.read(f"{directory}/exported_at").decode("utf-8", "replace").strip()
            if has_time
            else ""
        )
    except FileProblem as problem:
        return DataResult(
            attributes={}, problems=[Problem(("directory",), "unreadable-file", str(problem))]
        )
    # The computed attributes, and the problems.
    tables = asdict(parse_openstack_files(contents))
    problems = tables.pop("problems")
    unread = tuple(tables.pop("unread"))
    values = {"id": build_id(attributes), "exported_at": time, **tables}
    return DataResult(values, problems, unread=unread)


OPENSTACK_INVENTORY: Final = ResourceType(
    "openstack_inventory", 0, _SCHEMA, build_id, mode="data", read=read
)
