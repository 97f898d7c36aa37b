"""Closed lists of the columns of OpenStack's files, and the facts that are not read.

Columns are those of the `openstack` command, with the fields of Nova's response schemas (nova 34.0,
nova/api/openstack/compute/schemas): servers 2.100, flavors 2.102, hypervisors 2.88, aggregates 2.41
and server groups 2.64. A column in neither part of a list is unread.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from msgspec.structs import replace

from nexusform.documents.field_lists import FieldList, build_field_list
from nexusform.documents.json_positions import find_json_lines
from nexusform.documents.object_schemas import LocatedDoubt, ObjectSchema, locate_doubt
from nexusform.documents.yaml_documents import describe_kind
from nexusform.domains.openstack.importers.nova_objects import (
    parse_json_column,
    unwrap_versioned_object,
)
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.json_data.plain_data import get_mapping, list_mappings

_LABEL: Final = "a label"
_TIME: Final = "the past of the object"
_STATE: Final = "its host is read, and its status"
_GUEST: Final = "the guest, inside of its server"
_NETWORK: Final = "networks and addresses"
_USAGE: Final = "use of the host: Placement's figures count"
_CAPACITY: Final = (Influence.PLACEMENT, Influence.CAPACITY)
# Kind of a row for messages, and its list, by file.
_LISTS_OF_TABLES: Final[Mapping[str, tuple[str, FieldList]]] = {
    "servers": (
        "server",
        build_field_list(
            "id name status host flavor_name flavor image_id image image_name",
            {
                _LABEL: (
                    "description tags metadata properties project_id user_id tenant_id locked "
                    "locked_reason links hostname instance_name reservation_id flavor_id"
                ),
                _TIME: "created_at created updated_at updated launched_at terminated_at",
                _STATE: (
                    "task_state power_state vm_state progress fault host_status "
                    "hypervisor_hostname hostid availability_zone launch_index"
                ),
                _GUEST: (
                    "config_drive key_name user_data kernel_id ramdisk_id root_device_name "
                    "accessipv4 accessipv6 attached_volumes volumes_attached diskconfig "
                    "trusted_image_certificates"
                ),
                _NETWORK: "networks addresses security_groups",
                "a request at its creation; its host is fixed until it moves": (
                    "pinned_availability_zone scheduler_hints"
                ),
            },
        ),
    ),
    "flavors": (
        "flavor",
        build_field_list(
            "name ram disk ephemeral vcpus swap properties extra_specs",
            {
                _LABEL: "id description is_public links",
                "a flavor that is disabled keeps its servers": "disabled",
                "not used by Nova's scheduler": "rxtx_factor",
            },
            default=_CAPACITY,
        ),
    ),
    "hypervisors": (
        "hypervisor",
        build_field_list(
            "id hypervisor_hostname hypervisor_type",
            {
                _LABEL: "host_ip",
                "the compute service has the state": "state status service",
                _USAGE: (
                    "vcpus vcpus_used memory_mb memory_mb_used local_gb local_gb_used "
                    "free_ram_mb free_disk_gb disk_available_least running_vms current_workload "
                    "cpu_info servers uptime"
                ),
                "hypervisor-ID.json has it": "hypervisor_version",
            },
            default=_CAPACITY,
        ),
    ),
    "compute_services": (
        "compute service",
        build_field_list(
            "host zone status state disabled_reason",
            {_LABEL: "id binary", _TIME: "updated_at", "the state is down then": "forced_down"},
            default=_CAPACITY,
        ),
    ),
    "aggregates": (
        "aggregate",
        build_field_list(
            "name properties hosts metadata",
            {
                _LABEL: "id uuid",
                _TIME: "created_at updated_at deleted_at deleted",
                "the compute services have their zone": "availability_zone",
            },
        ),
    ),
    "server_groups": (
        "server group",
        build_field_list(
            "name policy policies members", {_LABEL: "id project_id user_id metadata"}
        ),
    ),
    "resource_providers": (
        "resource provider",
        build_field_list(
            "uuid name",
            {_LABEL: "generation", "every host is a root": "root_provider_uuid"},
            default=_CAPACITY,
        ),
    ),
    "inventory": (
        "inventory",
        build_field_list(
            "resource_class total reserved allocation_ratio min_unit max_unit step_size used",
            {},
            default=_CAPACITY,
        ),
    ),
    "traits": ("trait", build_field_list("name", {})),
    "image": (
        "image",
        build_field_list(
            "id name properties status min_disk min_ram size",
            {
                _LABEL: "owner protected schema tags visibility os_hidden",
                _TIME: "created_at updated_at",
                "the data of the image": (
                    "checksum container_format direct_url disk_format file locations "
                    "os_hash_algo os_hash_value stores virtual_size"
                ),
            },
        ),
    ),
}
_SHOWN_USAGE: Final = (
    "vcpus vcpus_used memory_mb memory_mb_used local_gb local_gb_used free_ram_mb free_disk_gb "
    "disk_available_least running_vms current_workload cpu_info"
)
_LISTS_OF_DETAILS: Final[Mapping[str, tuple[str, FieldList]]] = {
    "hypervisor": (
        "hypervisor",
        build_field_list(
            "hypervisor_version service_host",
            {
                _LABEL: "links location",
                "hypervisors.json has it": (
                    "id name hypervisor_hostname hypervisor_type host_ip state status"
                ),
                "compute_services.json has it": ("service service_id service_disabled_reason"),
                "aggregates.json has them": "aggregates",
                "servers.json has them": "servers",
                _USAGE: f"{_SHOWN_USAGE} uptime users host_time load_average",
            },
        ),
    ),
    "compute_nodes": (
        "compute node",
        build_field_list(
            "hypervisor_hostname numa_topology pci_stats supported_instances stats",
            {
                _LABEL: "id uuid host host_ip service_id mapped",
                _TIME: "created_at updated_at deleted_at deleted",
                _USAGE: _SHOWN_USAGE,
                "Placement has it": (
                    "ram_allocation_ratio cpu_allocation_ratio disk_allocation_ratio"
                ),
                "hypervisor-ID.json has it": "hypervisor_type hypervisor_version",
                "not used by Nova's scheduler": "extra_resources",
            },
            default=_CAPACITY,
        ),
    ),
    # Of `server show --topology`.
    "topology": (
        "server",
        build_field_list(
            "topology",
            {
                "servers.json has it": " ".join(
                    (
                        *sorted(_LISTS_OF_TABLES["servers"][1].read),
                        *sorted(_LISTS_OF_TABLES["servers"][1].without_influence),
                        "hostid server_groups volumes_attached",
                        "os_dcf:diskconfig os_extended_volumes:volumes_attached",
                        "os_ext_az:availability_zone os_ext_srv_attr:host",
                        "os_ext_srv_attr:hostname os_ext_srv_attr:hypervisor_hostname",
                        "os_ext_srv_attr:instance_name os_ext_srv_attr:kernel_id",
                        "os_ext_srv_attr:launch_index os_ext_srv_attr:ramdisk_id",
                        "os_ext_srv_attr:reservation_id os_ext_srv_attr:root_device_name",
                        "os_ext_srv_attr:user_data os_ext_sts:power_state os_ext_sts:task_state",
                        "os_ext_sts:vm_state os_srv_usg:launched_at os_srv_usg:terminated_at",
                    )
                )
            },
            default=_CAPACITY,
        ),
    ),
}
LISTS: Final = {**_LISTS_OF_TABLES, **_LISTS_OF_DETAILS}
# Columns with JSON, often in a text; its parts are escaped after parsing.
JSON_COLUMNS: Final = frozenset(
    {"numa_topology", "pci_stats", "supported_instances", "stats", "topology"}
)
# Key of the parts in a column with JSON, and their list. All fields of PCI devices are read.
_LISTS_OF_PARTS: Final[Mapping[str, tuple[str, FieldList]]] = {
    "numa_topology": (
        "cells",
        build_field_list(
            "id cpuset pcpuset pinned_cpus siblings mempages memory memory_usage cpu_usage socket",
            {},
            default=_CAPACITY,
        ),
    ),
    "topology": (
        "nodes",
        build_field_list(
            "host_node vcpu_set memory_mb cpu_pinning", {_GUEST: "siblings"}, default=_CAPACITY
        ),
    ),
}
_PAGES: Final = build_field_list("size_kb total used reserved", {}, default=_CAPACITY)
# Networks of a cell, if none is configured.
_NO_NETWORKS: Final = {"physnets": [], "tunneled": False}
# Kinds of the values of read columns, by file; a number ("q") may be a text.
_KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "servers": {"id": "s", "name": "s", "status": "s", "host": "s", "flavor_name": "s"},
    "flavors": dict.fromkeys(("ram", "disk", "ephemeral", "vcpus", "swap"), "q") | {"name": "s"},
    "hypervisors": {"id": "x", "hypervisor_hostname": "s", "hypervisor_type": "s"},
    "compute_services": dict.fromkeys(("host", "zone", "status", "state", "disabled_reason"), "s"),
    "aggregates": {"name": "s"},
    "server_groups": {"name": "s", "policy": "s"},
    "resource_providers": {"uuid": "s", "name": "s"},
    "inventory": dict.fromkeys(LISTS["inventory"][1].read, "q") | {"resource_class": "s"},
    "traits": {"name": "s"},
    "hypervisor": {"hypervisor_version": "q", "service_host": "s"},
    "compute_nodes": {"hypervisor_hostname": "s"},
    "topology": {},
    "image": {"id": "s", "name": "s", "status": "s"},
}
_NUMBER: Final = "q"
_SUBJECTS: Final = ("name", "resource_class", "hypervisor_hostname", "host")
# Columns that may have several forms: a text, a list or a mapping.
_PLURAL_COLUMNS: Final = frozenset(
    {"properties", "hosts", "members", "policies", "flavor", "image"}
)
MISSING_COLUMN: Final = "the column is missing"
# Columns without which a row has unknown values, by file. Older clients name some differently.
_NEEDED_COLUMNS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "servers": (("status",),),
    "hypervisors": (("hypervisor_type",),),
    "hypervisor": (("hypervisor_version",),),
    "compute_services": (("zone",),),
    "flavors": (("properties", "extra_specs"), ("ephemeral",), ("swap",)),
    "aggregates": (("properties", "metadata"), ("hosts",)),
    "server_groups": (("policy", "policies"), ("members",)),
    "image": (("properties",),),
}
# A value that requests nothing, by file and column.
_HARMLESS_VALUES: Final[Mapping[tuple[str, str], tuple[Any, ...]]] = {
    ("server_groups", "rules"): ({}, ""),
    ("resource_providers", "parent_provider_uuid"): ("", "None"),
}


def list_unread_facts(
    name: str,
    text: bytes,
    rows: Sequence[tuple[Mapping[str, Any], Mapping[str, str]]],
    *,
    is_list: bool,
) -> list[Doubt]:
    """List the facts of the rows of a file that are not read.

    A row has its values by column, and the column as written by column. A file that is no list is
    the object of its only row.
    """
    # inventory-UUID is a file of the inventory.
    table = name if name in LISTS else name.partition("-")[0]
    if table not in LISTS:
        return []
    kind, field_list = LISTS[table]
    kinds = _KINDS[table]
    schema = ObjectSchema(lambda _: kinds, lambda _: field_list)
    located: list[tuple[tuple[str | int, ...], Doubt]] = []
    needed_columns = _NEEDED_COLUMNS.get(table, ())
    for index, (values, columns) in enumerate(rows):
        place = (index,) if is_list else ()
        subject = next((str(values[name]) for name in _SUBJECTS if values.get(name)), "")
        present = {
            column: value
            for column, value in values.items()
            if value not in _HARMLESS_VALUES.get((name, column), ())
        }
        wrong_parts = (
            *_list_wrong_plurals(present),
            *_list_wrong_numbers(present, kinds),
            *_list_unread_parts_of_columns(present),
        )
        for path, doubt in (*schema.list_unread_parts(present, ""), *wrong_parts):
            fact = replace(doubt, kind=kind, name=subject, file=f"{name}.json")
            located.append(((*place, columns[str(path[0])]), fact))
        for names in needed_columns:
            if all(values.get(column) is None for column in names):
                fact = Doubt(kind, subject, names[0], f"{name}.json", 0, reason=MISSING_COLUMN)
                located += [(place, replace(fact, may_change=influence)) for influence in _CAPACITY]
    if not located:
        return []
    lines = find_json_lines(text.decode("utf-8", "replace"), [path for path, _ in located])
    return [replace(fact, line=lines.get(path, 0)) for path, fact in located]


def _list_unread_parts_of_columns(values: Mapping[str, Any]) -> Iterator[LocatedDoubt]:
    """List the unread fields of NUMA cells in columns with JSON, each once."""
    fields: dict[LocatedDoubt, None] = {}
    for column, (key, field_list) in _LISTS_OF_PARTS.items():
        try:
            document = unwrap_versioned_object(parse_json_column(values.get(column)))
        except (ValueError, RecursionError):
            # Reported by the reader of the values.
            continue
        for cell in list_mappings(document, key):
            parts = _select_present(unwrap_versioned_object(cell))
            if unwrap_versioned_object(parts.get("network_metadata")) == _NO_NETWORKS:
                del parts["network_metadata"]
            for name, influence in field_list.list_unread(parts):
                fields[locate_doubt((column,), f"{column}.{key}.{name}", influence)] = None
            for page in list_mappings(parts, "mempages"):
                page_parts = _select_present(unwrap_versioned_object(page))
                for name, influence in _PAGES.list_unread(page_parts):
                    fields[
                        locate_doubt((column,), f"{column}.{key}.mempages.{name}", influence)
                    ] = None
    yield from fields


def _select_present(values: Any) -> dict[str, Any]:
    """Return the fields of an object with a value."""
    return {name: part for name, part in get_mapping(values).items() if part is not None}


def _list_wrong_numbers(
    values: Mapping[str, Any], kinds: Mapping[str, str]
) -> Iterator[LocatedDoubt]:
    """List the texts in columns of numbers that are no number."""
    for column, value in values.items():
        if kinds.get(column) == _NUMBER and isinstance(value, str) and not _is_number(value):
            yield locate_doubt((column,), column, reason=f'it is "{value}", not a number')


def _is_number(text: str) -> bool:
    """Return whether a text is a number or empty."""
    try:
        return not text or isfinite(float(text))
    except ValueError:
        return False


def _list_wrong_plurals(values: Mapping[str, Any]) -> Iterator[LocatedDoubt]:
    """List the values of columns with several forms that have none of them."""
    for column, value in values.items():
        # A text has a list of names, or of properties such as `a='b'`.
        is_readable = not isinstance(value, bool | int | float)
        if column == "properties":
            is_readable = isinstance(value, Mapping) or "=" in str(value) or not value
        if column in _PLURAL_COLUMNS and not is_readable:
            yield locate_doubt((column,), column, reason=f"it is {describe_kind(value)}")
