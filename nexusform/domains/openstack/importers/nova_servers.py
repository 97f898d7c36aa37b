"""Servers of servers.json: their state, host and size."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.diagnostics.phrases import format_list
from nexusform.domains.openstack.importers.capture_script import TOPOLOGY
from nexusform.domains.openstack.importers.numa_topologies import parse_server_topology
from nexusform.domains.openstack.importers.openstack_reading import OpenstackReading, build_warning
from nexusform.domains.openstack.importers.openstack_tables import (
    Tables,
    name_file,
    read_first_text,
)
from nexusform.domains.openstack.scheduling.flavor_requests import (
    parse_flavor,
    select_image_requests,
)
from nexusform.domains.openstack.scheduling.nova_host_records import PCPU, Flavor, build_server

# States of servers without a host.
_ABSENT: Final = frozenset({"DELETED", "SHELVED_OFFLOADED"})
HOSTLESS: Final = _ABSENT | {"ERROR", "SOFT_DELETED"}
# States without an operation that loads its host, or changes the host or the size of its server.
# Any other one has such an operation, or is not known. NONE: the column is missing.
_SETTLED: Final = HOSTLESS | {
    *("ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED", "RESCUE", "SHELVED", "VERIFY_RESIZE"),
    *("PASSWORD", "REBOOT", "HARD_REBOOT", "NONE"),
}
# Tasks of other operations: the server keeps its host and its size.
_TASKS_IN_PLACE: Final = frozenset(
    {
        *("updating_password", "pausing", "unpausing", "suspending", "resuming"),
        *("powering-off", "powering-on", "unrescuing", "image_pending_upload", "image_uploading"),
        *("rebooting", "reboot_pending", "reboot_started"),
        *("rebooting_hard", "reboot_pending_hard", "reboot_started_hard"),
    }
)


def get_status(row: Mapping[str, Any]) -> str:
    """Return the status of a server in upper case."""
    return str(row.get("status")).upper()


def takes_capacity(row: Mapping[str, Any]) -> bool:
    """Return whether a server takes capacity of a host.

    A soft-deleted one does until Nova reclaims it.
    """
    return bool(read_first_text(row, "host")) and get_status(row) not in _ABSENT


def find_operation(row: Mapping[str, Any]) -> str:
    """Return the task or the state of a server in an operation that may change hosts, or ""."""
    task = read_first_text(row, "task_state")
    if task not in ("", "None", *_TASKS_IN_PLACE):
        return task
    status = get_status(row)
    return "" if status in _SETTLED else status


def iterate_servers(
    tables: Tables, reading: OpenstackReading
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the id and values of each server with capacity on a host.

    Unknown flavors and NUMA cells are reported.
    """
    flavors = {name: Flavor(name=name, **values) for name, values in reading.flavors.items()}
    unknown_cells = []
    for row in tables["servers"]:
        host = read_first_text(row, "host")
        if not takes_capacity(row):
            continue
        flavor = read_first_text(row, "flavor_name", "flavor")
        key = str(row["id"])
        if flavor not in reading.flavors:
            detail = (
                f'The flavor "{flavor}" of the server "{row["name"]}" is not in flavors.json. It '
                "counts as 0."
            )
            reading.problems.append(build_warning(detail))
        # unknown: 0
        form = flavors.get(flavor, Flavor("", 0, 0, 0))
        is_volume = _is_volume(row)
        if is_volume:
            form = form.volume_form
        image = read_first_text(row, "image_id", "image")
        properties = reading.images.get(image, {})
        request = parse_flavor(form, aliases={}, image=properties)
        unallocated = request.unallocated._asdict()
        amounts = form.weighed_size.subtract(request.unallocated)._asdict()
        # Without dedicated CPUs in Placement, all CPUs of a server are VCPU.
        has_dedicated = PCPU in reading.hosts.get(host, {}).get("resources", {})
        dedicated, emulator = (
            (request.dedicated_vcpus, request.emulator_vcpus) if has_dedicated else (0, 0)
        )
        file = f"{TOPOLOGY}-{key}"
        topology = tables.get(file)
        with name_file(file, str(row["name"])):
            cells = parse_server_topology(topology[0]) if topology else []
            # Its numbers are valid.
            build_server({"host": host, "numa_cells": cells})
        has_cells = bool(reading.hosts.get(host, {}).get("numa_cells"))
        # The image of a volume is not read, and may request cells.
        may_request_cells = is_volume and not topology and has_cells
        if (request.numa.cells and not cells) or may_request_cells:
            unknown_cells.append(str(row["name"]))
        yield (
            key,
            {
                "name": str(row["name"]),
                "host": host,
                **amounts,
                # Without dedicated vCPUs. `dedicated` also has CPUs of emulator threads, which the
                # flavor does not count as vCPUs.
                "vcpus": amounts["vcpus"] - (dedicated - emulator),
                "dedicated_vcpus": dedicated,
                "flavor": flavor,
                "numa_cells": cells,
                **({"emulator_vcpus": emulator} if emulator else {}),
                **({"unallocated": unallocated} if any(request.unallocated) else {}),
                **(
                    {"other_resources": dict(request.other_resources)}
                    if request.other_resources
                    else {}
                ),
                # If it requests anything.
                **({"image": image} if select_image_requests(properties) else {}),
            },
        )
    if unknown_cells:
        detail = (
            f"The NUMA cells of {format_list(unknown_cells)} are unknown (topology-ID.json). They "
            "stay occupied after "
            "a server that nexusform manages is removed."
        )
        reading.problems.append(build_warning(detail))


def _is_volume(row: Mapping[str, Any]) -> bool:
    """Return whether a server boots from a volume: its host has no root disk of it.

    The command line prints no image, or a note in its place.
    """
    columns = [row[name] for name in ("image_id", "image", "image_name") if name in row]
    texts = [str(value or "") for value in columns]
    return bool(texts) and all(text == "" or text.startswith("N/A (booted") for text in texts)
