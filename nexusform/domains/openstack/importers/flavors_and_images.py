"""Flavors of flavors.json, and images of the files image-ID.json."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from nexusform.domains.openstack.importers.capture_script import IMAGE
from nexusform.domains.openstack.importers.openstack_tables import (
    Tables,
    name_file,
    read_count,
    read_first_text,
    read_properties,
)
from nexusform.domains.openstack.scheduling.flavor_requests import (
    find_unpredicted_property,
    select_host_properties,
    select_image_requests,
)
from nexusform.domains.openstack.scheduling.nova_host_records import ACTIVE, build_flavor


def read_flavor(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a flavor in the inventory.

    Its disk includes the ephemeral one and the swap. Raises ValueError.
    """
    name = str(row["name"])
    with name_file("flavors", name):
        swap = read_count(row, "swap")
        values = {
            "vcpus": row["vcpus"],
            "memory_mib": row["ram"],
            # MiB of swap, rounded up.
            "disk_gib": int(row["disk"]) + read_count(row, "ephemeral") + -(-swap // 1024),
            "root_disk_gib": row["disk"],
            "ephemeral_gib": read_count(row, "ephemeral"),
            "swap_mib": swap,
            "properties": read_properties(row.get("properties") or row.get("extra_specs")),
        }
        flavor = asdict(build_flavor(name, values))
    del flavor["name"]
    return flavor


def index_images(tables: Tables) -> dict[str, dict[str, str]]:
    """Return the properties of each image by its id, and by its name.

    Images of several projects may have one name. If they differ in what decides a host, the name
    is left out: it is unknown which of them a VM has.
    """
    by_id: dict[str, dict[str, str]] = {}
    ids_by_name: dict[str, list[str]] = {}
    for name, rows in sorted(tables.items()):
        if name.startswith(f"{IMAGE}-") and rows:
            image_id = str(rows[0]["id"])
            properties = read_properties(rows[0].get("properties"))
            # An image may have no name.
            image_name = read_first_text(rows[0], "name")
            by_id[image_id] = properties
            if image_name:
                ids_by_name.setdefault(image_name, []).append(image_id)
    images = dict(by_id)
    for name, ids in ids_by_name.items():
        first, *others = (_select_requirements(by_id[image_id]) for image_id in ids)
        if all(other == first for other in others):
            images.setdefault(name, by_id[ids[0]])
    return images


def index_image_limits(tables: Tables) -> dict[str, dict[str, Any]]:
    """Return what Nova's API checks of each image by its id, and by its name.

    The name is left out if images of this name differ. Raises ValueError.
    """
    limits_by_id: dict[str, dict[str, Any]] = {}
    limits_by_name: dict[str, list[dict[str, Any]]] = {}
    for file, rows in sorted(tables.items()):
        if file.startswith(f"{IMAGE}-") and rows:
            row = rows[0]
            with name_file(file, str(row["id"])):
                limits = {
                    "status": read_first_text(row, "status") or ACTIVE,
                    "min_ram_mib": read_count(row, "min_ram"),
                    "min_disk_gib": read_count(row, "min_disk"),
                    "size": read_count(row, "size"),
                }
            limits_by_id[str(row["id"])] = limits
            limits_by_name.setdefault(read_first_text(row, "name"), []).append(limits)
    unique = {
        name: first
        for name, (first, *others) in limits_by_name.items()
        if name and all(other == first for other in others)
    }
    return {**unique, **limits_by_id}


def _select_requirements(properties: Mapping[str, str]) -> tuple[Any, ...]:
    """Return all that decides the hosts of an image."""
    return (
        select_image_requests(properties),
        select_host_properties(properties),
        find_unpredicted_property(properties),
    )
