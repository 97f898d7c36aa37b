"""Change one field of a request: if Nova's answer changes, the prediction changes or is unread.

The fields are those that Nova itself lists (nova_request_fields.py).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.domains.openstack.test_nova_decisions import (
    AGGREGATES,
    ALIASES,
    DETAILS,
    MISSING,
    NOVA,
    UNPREDICTED,
    add_hosts,
    decide_sites,
    predict,
)

# The nightly run tries every field, in minutes.
STEP = 1 if os.environ.get("NEXUSFORM_NOVA_FIELDS") == "all" else 8
FIELDS = Path(__file__).with_name("nova_request_fields.py")
TRAITS = (
    "COMPUTE_NET_VIRTIO_PACKED COMPUTE_SOUND_MODEL_VIRTIO COMPUTE_EPHEMERAL_ENCRYPTION "
    "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS COMPUTE_SECURITY_UEFI_SECURE_BOOT COMPUTE_SECURITY_TPM_2_0 "
    "COMPUTE_ADDRESS_SPACE_PASSTHROUGH COMPUTE_ACCELERATORS CUSTOM_A HW_CPU_HYPERTHREADING"
)
Field = tuple[str, str, str]


def build_host(traits: str = "", **values: Any) -> dict[str, Any]:
    """Build a host with two cells of 8 CPUs; all hosts have equal weights."""
    figures = {"VCPU": 16, "MEMORY_MB": 65536, "DISK_GB": 500, **values.pop("resources", {})}
    cells = [
        {
            "id": number,
            "shared": ",".join(str(8 * number + cpu) for cpu in range(8)),
            "dedicated": "",
            "siblings": [f"{8 * number + cpu}" for cpu in range(8)],
            "memory_mib": 32768,
            "pages": [{"size_kib": 4, "total": 8388608}],
            "socket": number,
        }
        for number in (0, 1)
    ]
    return {
        "availability_zone": "az0",
        "resources": {
            name: {
                "total": total,
                "reserved": 0,
                "allocation_ratio": 1.0,
                "min_unit": 1,
                "max_unit": total,
                "step_size": 1,
            }
            for name, total in figures.items()
        },
        "traits": traits.split(),
        "hypervisor_version": 8000000,
        "unschedulable_reason": "",
        "has_details": True,
        "numa_cells": cells,
        "device_pools": [],
        "supported_instances": [["x86_64", "kvm", "hvm"]],
        **values,
    }


def build_site() -> dict[str, Any]:
    """Build a site whose hosts differ in what a request may ask for."""
    pool = {**ALIASES["nic"], "dev_type": "type-VF"}
    pool.pop("device_type")
    return {
        "hosts": {
            "plain": build_host(),
            "traits": build_host(TRAITS),
            "aggregate": build_host(aggregates={"a": {"tier": "1", "a": "1"}}),
            "zone": build_host(availability_zone="az1"),
            "classes": build_host(resources={"CUSTOM_A": 4, "VGPU": 4, "PCPU": 4}),
            "small": build_host(resources={"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}),
            "devices": build_host(device_pools=[{"count": 2, "numa_node": 0, "properties": pool}]),
            "arm": build_host(supported_instances=[["aarch64", "kvm", "hvm"]]),
            "no_cells": build_host(numa_cells=[]),
        },
        "servers": {},
        "settings": {
            "enabled_filters": [
                "ComputeFilter",
                "ComputeCapabilitiesFilter",
                "ImagePropertiesFilter",
                AGGREGATES,
                "ServerGroupAntiAffinityFilter",
                "ServerGroupAffinityFilter",
                *DETAILS,
            ],
            "weight_multipliers": dict.fromkeys(("cpu", "ram", "disk", "io_ops", "pci"), 0.0),
            "pci_aliases": {"nic": ALIASES["nic"]},
        },
    }


def list_fields() -> Iterator[Field]:
    """List the fields of a request: kind, name and value."""
    assert NOVA is not None
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    output = subprocess.run(
        [NOVA, "-W", "ignore", str(FIELDS)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    ).stdout
    document = json.loads(output.splitlines()[-1])
    for kind, table in document.items():
        for name, values in table.items():
            yield from ((kind, name, value) for value in values)
    yield from (("size", name, "0") for name in ("vcpus", "memory_mib", "disk_gib"))
    yield from (("zones", name, "") for name in ("az0", "az1", "az9"))
    for policy in ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"):
        yield "group", policy, "1"
    for name in ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB"):
        yield from (("properties", f"resources:{name}", value) for value in "04")


def build_request(field: Field) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build the flavor and the request with one changed field."""
    kind, name, value = field
    flavor: dict[str, Any] = {"vcpus": 2, "memory_mib": 2048, "disk_gib": 20, "properties": {}}
    request: dict[str, Any] = {"group": None, "image": {}, "host": ""}
    if kind == "properties":
        flavor["properties"] = {name: value}
    elif kind == "size":
        flavor[name] *= 2
    elif kind in ("image", "hints"):
        request[kind] = {name: value}
    elif kind == "zones":
        request["zones"] = [name]
    elif kind == "group":
        request["group"] = {"name": "g", "policy": name, "max": 1}
    return flavor, request


def find_ignored_fields(fields: list[Field], *, has_aggregates: bool) -> list[Any]:
    """Return the fields that change Nova's answer, and neither the prediction nor the ledger.

    Each is with the predicted and the actual hosts. Without aggregates, their filter is disabled.
    """
    fields = [("", "", ""), *fields]
    built = [build_request(field) for field in fields]
    flavors = {f"f{number}": flavor for number, (flavor, _) in enumerate(built)}
    requests = [{**request, "flavor": f"f{number}"} for number, (_, request) in enumerate(built)]
    site = {**build_site(), "flavors": flavors, "requests": requests}
    if not has_aggregates:
        site["settings"]["enabled_filters"].remove(AGGREGATES)
    predicted = predict(site, places=False)
    (actual,) = decide_sites([add_hosts(site, predicted)])
    # The request without a change fits more than one host.
    assert len(actual[0]) > 3
    rows = zip(fields, predicted, actual, strict=True)
    return [
        (field, tied, hosts)
        for field, (_, tied), hosts in rows
        if tied not in (hosts, [UNPREDICTED])
    ]


@pytest.mark.skipif(NOVA is None, reason=MISSING)
def test_each_field_that_nova_obeys_is_read_or_unread() -> None:
    fields = list(list_fields())
    assert len(fields) > 1000
    assert find_ignored_fields(fields[::STEP], has_aggregates=True) == []


@pytest.mark.skipif(NOVA is None, reason=MISSING)
def test_property_without_a_prefix_is_read_or_unread() -> None:
    """ComputeCapabilitiesFilter compares it with the state of a host."""
    fields = [field for field in list_fields() if field[0] == "properties" and ":" not in field[1]]
    assert find_ignored_fields(fields[::STEP], has_aggregates=False) == []
