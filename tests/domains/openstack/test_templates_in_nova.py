"""Exact hosts of HOT files, compared with Nova in other orders and at other times.

Heat's own parser builds the requests and their order, so no reader of nexusform takes part in the
comparison.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import yaml

from nexusform.cli.main import run_command_line
from nexusform.domains.openstack.scheduling.nova_profile import DEFAULT_FILTERS
from nexusform.domains.program_checks.workflow.stack_requests import run_driver
from tests.domains.openstack.test_arrival_orders import (
    build_flavor,
    build_resource,
    work_directory,  # noqa: F401 - a fixture
)
from tests.domains.openstack.test_nova_decisions import ALIASES, MISSING, NOVA
from tests.domains.vnf.test_heat_defaults import HEAT, MISSING_HEAT
from tests.kill_points import long_case

pytestmark = [
    pytest.mark.of_domains("program_checks", "openstack", "vnf"),
    pytest.mark.skipif(
        NOVA is None or HEAT is None, reason=MISSING if NOVA is None else MISSING_HEAT
    ),
]
# Orders and times of each template in Nova.
RUNS = int(os.environ.get("NEXUSFORM_NOVA_RUNS", "3"))
SEED = int(os.environ.get("NEXUSFORM_NOVA_FIRST_SEED", "0"))
DETAILS = [*DEFAULT_FILTERS, "NUMATopologyFilter", "PciPassthroughFilter"]
AGGREGATES = [*DEFAULT_FILTERS, "AggregateInstanceExtraSpecsFilter"]
VNF = """
resource "openstack_site" "o" {
  inventory       = jsondecode(file("site.json"))
  enabled_filters = FILTERS
  pci_aliases     = jsondecode(file("aliases.json"))
  # Hosts are in two zones.
  default_schedule_zone = ""
  SETTINGS
}
"""
BLOCK = """
resource "tacker_vnf" "NAME" {
  site_id  = openstack_site.o.id
  base_hot = file("NAME.yaml")
}
"""


REFUSED = -1


class Stack(NamedTuple):
    """Stacks of one plan as YAML, and the settings of their site.

    `least` is the smallest number of exact hosts: a template whose hosts are never exact shows
    nothing. It is REFUSED if a server has no host.
    """

    texts: tuple[str, ...]
    filters: Sequence[str] = DEFAULT_FILTERS
    multipliers: Mapping[str, float] = {}
    least: int = 1


def build_host(
    memory_gib: int, zone: str = "nova", vcpus: int = 32, disk_gib: int = 1000, **more: Any
) -> dict[str, Any]:
    resources = {
        "VCPU": build_resource(vcpus),
        "MEMORY_MB": build_resource(memory_gib * 1024),
        "DISK_GB": build_resource(disk_gib),
        **more.pop("resources", {}),
    }
    return {"availability_zone": zone, "failed_builds": 0, "resources": resources, **more}


def build_cells(dedicated: bool, pages: int = 0) -> list[dict[str, Any]]:
    """Return two cells of 16 CPUs and 16 GiB each, half of them in huge pages with `pages`."""
    cells = []
    for number in range(2):
        first = number * 16
        shared = f"{first}-{first + 7}" if dedicated else f"{first}-{first + 15}"
        total = pages * 2048 // 1024
        sizes = [{"size_kib": 4, "total": (16384 - total) * 256}]
        if pages:
            sizes.append({"size_kib": 2048, "total": pages})
        cells.append(
            {
                "id": number,
                "shared": shared,
                "dedicated": f"{first + 8}-{first + 15}" if dedicated else "",
                "siblings": [f"{cpu},{cpu + 4}" for cpu in range(first, first + 4)]
                + [f"{cpu},{cpu + 4}" for cpu in range(first + 8, first + 12)],
                "memory_mib": 16384,
                "pages": sizes,
                "socket": number,
            }
        )
    return cells


def build_pool(count: int, cell: int | None) -> dict[str, Any]:
    alias = ALIASES["nic"]
    properties = {name: alias[name] for name in ("vendor_id", "product_id")}
    properties |= {"dev_type": "type-VF", "address": f"0000:{count:02x}:00.0"}
    return {"count": count, "numa_node": cell, "properties": properties}


def build_site() -> dict[str, Any]:
    """Return hosts that differ in size, zone, aggregate, cells, devices, traits and state."""
    pinned = {"PCPU": build_resource(16), "VCPU": build_resource(16)}
    details: dict[str, Any] = {
        "has_details": True,
        "supported_instances": [["x86_64", "kvm", "hvm"]],
    }
    hosts = {
        "c1": build_host(64, **details),
        "c2": build_host(60, aggregates={"fast": {"tier": "gold"}}, **details),
        "c3": build_host(56, disk_gib=1010, traits=["CUSTOM_SSD"], **details),
        "c4": build_host(
            32,
            numa_cells=build_cells(dedicated=True),
            resources=pinned,
            **details,
            traits=["HW_CPU_HYPERTHREADING"],
            device_pools=[build_pool(2, 0)],
        ),
        "c5": build_host(
            32,
            numa_cells=build_cells(dedicated=False, pages=4096),
            **details,
            device_pools=[build_pool(1, 1)],
        ),
        "c6": build_host(48, zone="edge", vcpus=16, **details),
        "c7": build_host(44, zone="edge", **details),
        "c8": build_host(
            96,
            unschedulable_reason="its compute service is disabled",
            traits=["COMPUTE_STATUS_DISABLED"],
            **details,
        ),
    }
    hosts["c6"]["aggregates"] = {"heavy": {"ram_weight_multiplier": "-3"}}
    properties = {
        "pinned": {"hw:cpu_policy": "dedicated"},
        "isolated": {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"},
        "two-cells": {"hw:numa_nodes": "2"},
        "huge": {"hw:mem_page_size": "2048"},
        "nic": {"pci_passthrough:alias": "nic:1"},
        "ssd": {"trait:CUSTOM_SSD": "required"},
        "no-ssd": {"trait:CUSTOM_SSD": "forbidden"},
        "gold": {"aggregate_instance_extra_specs:tier": "gold"},
        "half": {"resources:VCPU": "1"},
        "threads": {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
        "bandwidth": {"hw:cpu_realtime": "yes"},
    }
    flavors = {"big": build_flavor(8, 16384), "small": build_flavor(1, 2048)}
    flavors |= {
        name: {**build_flavor(4, 4096), "properties": properties[name]} for name in properties
    }
    flavors["full"] = {
        **build_flavor(2, 4096, 36),
        "root_disk_gib": 20,
        "ephemeral_gib": 15,
        "swap_mib": 1024,
    }
    flavors["diskless"] = build_flavor(2, 4096, 0)
    images = {
        "plain": {},
        "cells": {"hw_numa_nodes": "2"},
        "pages": {"hw_mem_page_size": "2048"},
        "dedicated": {"hw_cpu_policy": "dedicated"},
        "ssd": {"trait:CUSTOM_SSD": "required"},
        "arm": {"hw_architecture": "aarch64"},
    }
    servers = {
        f"old{number}": {"host": host, "vcpus": 4, "memory_mib": 8192, "disk_gib": 40}
        for number, host in enumerate(("c1", "c6", "c2"))
    }
    return {
        "hosts": hosts,
        "flavors": flavors,
        "images": images,
        "image_limits": {name: {"status": "active"} for name in images},
        "servers": servers,
    }


def server(flavor: Any = "small", *, image: Any = "plain", **more: Any) -> dict[str, Any]:
    """Return a server with the properties in `more`, and its dependencies in `after`."""
    after = more.pop("after", None)
    properties = {"flavor": flavor, **({"image": image} if image else {}), **more}
    resource: dict[str, Any] = {"type": "OS::Nova::Server", "properties": properties}
    return {**resource, **({"depends_on": after} if after else {})}


def group(policy: str, most: int = 0) -> dict[str, Any]:
    rules = {"rules": {"max_server_per_host": most}} if most else {}
    return {"type": "OS::Nova::ServerGroup", "properties": {"policies": [policy], **rules}}


def repeat(count: Any, resource: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    properties = {"count": count, "resource_def": resource, **more}
    return {"type": "OS::Heat::ResourceGroup", "properties": properties}


def write(**resources: Any) -> str:
    document = {"heat_template_version": "2018-08-31", "resources": resources}
    return yaml.safe_dump(document, sort_keys=False)


IN_G = {"scheduler_hints": {"group": {"get_resource": "g"}}}
PEER = {"metadata": {"peer": {"get_attr": ["a", "first_address"]}}}
FORCED = {"availability_zone": "nova:c2"}
VOLUME = {"type": "OS::Cinder::Volume", "properties": {"size": 30, "image": "plain"}}
BOOT = {"block_device_mapping_v2": [{"volume_id": {"get_resource": "v"}}]}
STACKS = {
    "chain": Stack((write(a=server("big"), b=server(after="a"), c=server("big", after="b")),)),
    "diamond": Stack(
        (
            write(
                a=server("big"),
                b=server(after="a"),
                c=server(after="a"),
                d=server("big", after=["b", "c"]),
            ),
        )
    ),
    "attribute": Stack((write(b=server(**PEER), a=server("big"), c=server("big", after="b")),)),
    "attribute in a template": Stack(
        (
            write(
                a=server("big"),
                b=server(
                    user_data={
                        "str_replace": {
                            "template": "$x",
                            "params": {"$x": {"get_attr": ["a", "name"]}},
                        }
                    }
                ),
            ),
        )
    ),
    "conditional order": Stack(
        (
            yaml.safe_dump(
                {
                    "heat_template_version": "2018-08-31",
                    "conditions": {"never": False},
                    "resources": {
                        "a": server("big"),
                        "b": server(
                            metadata={
                                "if": ["never", {"x": {"get_attr": ["a", "name"]}}, {"x": "y"}]
                            }
                        ),
                    },
                }
            ),
        ),
        least=0,
    ),
    "hard group": Stack(
        (
            write(
                g=group("anti-affinity"),
                a=server("big", **IN_G),
                b=server("big", **IN_G, after="a"),
                c=server("big", **IN_G, after="b"),
            ),
        )
    ),
    "hard group of two": Stack(
        (
            write(
                g=group("anti-affinity", 2),
                **{
                    f"m{n}": server("big", **IN_G, **({"after": f"m{n - 1}"} if n else {}))
                    for n in range(4)
                },
            ),
        )
    ),
    "soft group": Stack(
        (
            write(
                g=group("soft-anti-affinity"),
                a=server("big", **IN_G),
                b=server(**IN_G, after="a"),
                c=server(**IN_G, after="b"),
            ),
        )
    ),
    "soft affinity": Stack(
        (
            write(
                g=group("soft-affinity"),
                a=server("big", **IN_G),
                b=server("big", **IN_G, after="a"),
                c=server("big", **IN_G),
            ),
        ),
        least=0,
    ),
    "affinity": Stack(
        (write(g=group("affinity"), a=server("big", **IN_G), b=server(**IN_G)),), least=0
    ),
    "two stacks": Stack((write(a=server("big")), write(b=server("small"))), least=0),
    "two stacks with one group name": Stack(
        (
            write(g=group("anti-affinity"), a=server("big", **IN_G, **FORCED)),
            write(g=group("anti-affinity"), a=server("small", **IN_G)),
        )
    ),
    "members": Stack((write(r=repeat(3, server("big")), z=server(after="r")),), least=0),
    "members in a zone": Stack(
        (write(r=repeat(2, server("big", availability_zone="edge"))),), least=0
    ),
    "numbered members": Stack(
        (write(r=repeat(2, server("big", metadata={"n": "%index%"})), z=server(after="r")),),
        least=0,
    ),
    "zone": Stack((write(a=server("big", availability_zone="edge"), b=server(after="a")),)),
    "forced beside free": Stack((write(a=server("big", **FORCED), b=server("small")),), least=1),
    "aggregate": Stack((write(a=server("gold"), b=server("big", after="a")),), AGGREGATES, least=2),
    "aggregate multiplier": Stack(
        (
            write(
                a=server("big", availability_zone="edge"),
                b=server("small", after="a", availability_zone="edge"),
            ),
        ),
        least=2,
    ),
    "boot volume": Stack(
        (write(v=VOLUME, a=server("big", image=None, **BOOT), b=server("small", after="a")),),
        multipliers={"disk": 5, "ram": 0, "cpu": 0},
        least=2,
    ),
    "old devices without an image": Stack(
        (
            write(
                v=VOLUME,
                a=server(
                    "big",
                    image=None,
                    block_device_mapping=[
                        {"device_name": "vda", "volume_id": {"get_resource": "v"}}
                    ],
                ),
                b=server("small", after="a"),
            ),
        ),
        multipliers={"disk": 5, "ram": 0, "cpu": 0},
        least=2,
    ),
    "old devices beside an image": Stack(
        (
            write(
                v=VOLUME,
                a=server(
                    "big",
                    block_device_mapping=[
                        {"device_name": "vda", "volume_id": {"get_resource": "v"}}
                    ],
                ),
                b=server("small", after="a"),
            ),
        ),
        multipliers={"disk": 5, "ram": 0, "cpu": 0},
        least=0,
    ),
    "second device beside an image": Stack(
        (
            write(
                v=VOLUME,
                a=server(
                    "big",
                    block_device_mapping=[
                        {"device_name": "vdb", "volume_id": {"get_resource": "v"}}
                    ],
                ),
                b=server("small", after="a"),
            ),
        ),
        multipliers={"disk": 5, "ram": 0, "cpu": 0},
        least=0,
    ),
    "image on a volume": Stack(
        (
            write(
                a=server(
                    "big",
                    image=None,
                    block_device_mapping_v2=[{"image": "cells", "volume_size": 30}],
                ),
                b=server("small", after="a"),
            ),
        ),
        DETAILS,
    ),
    "local disks": Stack(
        (
            write(
                a=server(
                    "full", block_device_mapping_v2=[{"ephemeral_size": 5}, {"swap_size": 512}]
                ),
                b=server("small", after="a"),
            ),
        ),
        multipliers={"disk": 3},
    ),
    "plain flavor of the stack": Stack(
        (
            write(
                f={
                    "type": "OS::Nova::Flavor",
                    "properties": {"vcpus": 6, "ram": 8192, "disk": 40, "ephemeral": 10},
                },
                v=VOLUME,
                a=server({"get_resource": "f"}, image=None, **BOOT),
                b=server("small", after="a"),
            ),
        ),
        multipliers={"disk": 5},
        least=0,
    ),
    "policies of a function": Stack(
        (
            write(
                g={
                    "type": "OS::Nova::ServerGroup",
                    "properties": {"policies": {"list_concat": [["anti-affinity"]]}},
                },
                a=server("big", **IN_G),
                b=server("big", **IN_G, after="a"),
            ),
        ),
        least=0,
    ),
    "devices of a function": Stack(
        (
            write(
                a=server(
                    "big",
                    image=None,
                    block_device_mapping_v2={
                        "list_concat": [[{"image": "plain", "volume_size": 30}], []]
                    },
                ),
                b=server("small", after="a"),
            ),
        ),
        multipliers={"disk": 5, "ram": 0, "cpu": 0},
        least=0,
    ),
    "image left out": Stack(
        (
            write(
                v=VOLUME,
                a=server("big", image={"if": [{"equals": ["x", "y"]}, "plain"]}, **BOOT),
                b=server("small", after="a"),
            ).replace("2018-08-31", "2021-04-16"),
        ),
        multipliers={"disk": 5, "ram": 0, "cpu": 0},
        least=2,
    ),
    "group left out": Stack(
        (
            yaml.safe_dump(
                {
                    "heat_template_version": "2018-08-31",
                    "conditions": {"never": False},
                    "resources": {
                        "g": {**group("anti-affinity"), "condition": "never"},
                        "a": server("big", **FORCED),
                        "b": server(
                            scheduler_hints={"if": ["never", {"group": {"get_resource": "g"}}, {}]},
                            after="a",
                        ),
                    },
                }
            ),
        ),
        least=2,
    ),
    "index in a zone": Stack(
        (
            write(
                r=repeat(2, server("big", availability_zone="nova:c2%i%"), index_var="%i%"),
                b=server(),
            ),
        ),
        least=0,
    ),
    "index in a flavor": Stack((write(r=repeat(1, server("big", image="%index%"))),), least=0),
    "nested groups": Stack(
        (write(r=repeat(2, repeat(1, server("big"))), z=server(after="r")),), least=0
    ),
    "autoscaling": Stack(
        (
            write(
                r={
                    "type": "OS::Heat::AutoScalingGroup",
                    "properties": {
                        "min_size": 1,
                        "max_size": 3,
                        "desired_capacity": 2,
                        "resource": server("big"),
                    },
                },
                z=server(metadata={"n": {"get_attr": ["r", "current_size"]}}),
            ),
        ),
        least=0,
    ),
    "default zone in text": Stack(
        (write(a=server("big", availability_zone=""), b=server(after="a")),), least=0
    ),
    "node of a zone": Stack(
        (write(a=server("big", availability_zone="nova:c2:c2"), b=server(after="a")),), least=0
    ),
    "host without zone": Stack(
        (write(a=server("big", availability_zone=":c2"), b=server(after="a")),), least=0
    ),
    "forced on a disabled host": Stack(
        (write(a=server("big", availability_zone="nova:c8"), b=server(after="a")),), least=REFUSED
    ),
    "forced against a filter": Stack(
        (write(a=server("gold", availability_zone="nova:c1"), b=server(after="a")),),
        AGGREGATES,
        least=0,
    ),
    "forced in another zone": Stack(
        (write(a=server("small", availability_zone="edge:c1"), b=server("big", after="a")),),
        least=REFUSED,
    ),
    "port of a device": Stack(
        (
            write(
                a=server(
                    "big",
                    networks=[
                        {"network": "n", "port_extra_properties": {"binding:vnic_type": "direct"}}
                    ],
                )
            ),
        ),
        least=0,
    ),
    "flavor of the stack": Stack(
        (
            write(
                f={
                    "type": "OS::Nova::Flavor",
                    "properties": {
                        "vcpus": 6,
                        "ram": 8192,
                        "disk": 40,
                        "ephemeral": 10,
                        "extra_specs": {"trait:CUSTOM_SSD": "required"},
                    },
                },
                a=server({"get_resource": "f"}),
                b=server("small", after="a"),
            ),
        ),
        least=0,
    ),
    "pinned": Stack(
        (write(a=server("pinned"), b=server("pinned", after="a"), c=server("small", after="b")),),
        DETAILS,
    ),
    "isolated threads": Stack(
        (write(a=server("isolated"), b=server("threads", after="a")),), DETAILS, least=0
    ),
    "cells": Stack((write(a=server("two-cells"), b=server("two-cells", after="a")),), DETAILS),
    "cells of an image": Stack(
        (write(a=server("big", image="cells"), b=server("small", after="a")),), DETAILS
    ),
    "huge pages": Stack(
        (write(a=server("huge"), b=server("huge", after="a"), c=server("big", after="b")),),
        DETAILS,
        least=2,
    ),
    "huge pages of an image": Stack(
        (write(a=server("huge", image="pages")),), DETAILS, least=REFUSED
    ),
    "image and flavor": Stack(
        (
            write(
                a=server("pinned", image="dedicated"), b=server("big", image="dedicated", after="a")
            ),
        ),
        DETAILS,
        least=0,
    ),
    "devices": Stack(
        (write(a=server("nic"), b=server("nic", after="a"), c=server("big", after="b")),), DETAILS
    ),
    "devices in any order": Stack(
        (write(a=server("nic"), b=server("big"), c=server("nic")),), DETAILS, least=0
    ),
    "traits": Stack(
        (
            write(
                a=server("ssd"),
                b=server("no-ssd", after="a"),
                c=server("big", image="ssd", after="b"),
            ),
        ),
        least=3,
    ),
    "amounts": Stack((write(a=server("half"), b=server("big", after="a")),)),
    "diskless": Stack(
        (write(v=VOLUME, a=server("diskless", image=None, **BOOT), b=server(after="a")),), least=0
    ),
    "realtime": Stack((write(a=server("bandwidth")),), DETAILS, least=0),
    "packing": Stack(
        (write(a=server("big"), b=server("big"), c=server("small", after=["a", "b"])),),
        multipliers={"ram": -1, "cpu": -1, "io_ops": 0},
        least=0,
    ),
    "spread by number": Stack(
        (write(a=server("big"), b=server("small", after="a")),),
        multipliers={"num_instances": -1000},
    ),
    "building": Stack(
        (write(a=server("big", **FORCED), b=server("small"), c=server("small", after="b")),),
        multipliers={"io_ops": -100},
        least=1,
    ),
    "new zone": Stack(
        (
            write(
                h={
                    "type": "OS::Nova::HostAggregate",
                    "properties": {"name": "n", "availability_zone": "new", "hosts": ["c2"]},
                },
                a=server("big", availability_zone="new", after="h"),
            ),
        ),
        least=0,
    ),
    "policy of a network": Stack(
        (
            write(
                n={"type": "OS::Neutron::Net", "properties": {"qos_policy": "gold"}},
                p={"type": "OS::Neutron::Port", "properties": {"network": {"get_resource": "n"}}},
                a=server("big", networks=[{"port": {"get_resource": "p"}}]),
            ),
        ),
        least=0,
    ),
    "hint of a filter": Stack(
        (
            write(
                a=server("big"),
                b=server(
                    "big", after="a", scheduler_hints={"different_host": [{"get_resource": "a"}]}
                ),
            ),
        ),
        least=1,
    ),
}


def plan_certain_hosts(stack: Stack) -> dict[str, dict[str, str]] | None:
    """Return the exact hosts of a plan: by VNF, then by server. None if it fails."""
    text = VNF.replace("FILTERS", json.dumps(list(stack.filters)))
    if stack.multipliers:
        text = text.replace(
            "SETTINGS", f"weight_multipliers = {json.dumps(dict(stack.multipliers))}"
        )
    text = text.replace("SETTINGS", "")
    for number, template in enumerate(stack.texts):
        Path(f"v{number}.yaml").write_text(template)
        text += BLOCK.replace("NAME", f"v{number}")
    Path("main.nf.hcl").write_text(text)
    Path("site.json").write_text(json.dumps(build_site()))
    Path("aliases.json").write_text(json.dumps(ALIASES))
    if run_command_line(["plan", "-samples=20", "-report=json:p.json"]) == 1:
        return None
    plan = json.loads(Path("p.json").read_text())
    certain: dict[str, dict[str, str]] = {}
    for row in plan["placement_changes"]:
        if (row.get("certainty") or {}).get("machine") == 1:
            name, _, path = row["object"].partition("-")
            certain.setdefault(name, {})[path] = row["to"]["machine"]
    return certain


class Request(NamedTuple):
    """Request of a server: its name in the plan, the driver's fields, and what it awaits."""

    vnf: str
    vm: str
    body: Mapping[str, Any]
    awaited: frozenset[int]


def build_requests(answers: Sequence[Mapping[str, Any]]) -> list[Request]:
    """Return the requests of Heat for the stacks of one plan."""
    requests: list[Request] = []
    for number, answer in enumerate(answers):
        assert "problem" not in answer, answer
        servers = answer["servers"]
        first = len(requests)
        counts: dict[str, int] = {}
        for item in servers:
            awaited = {
                first + index
                for index, other in enumerate(servers)
                if any(other["path"][: len(needed)] == needed for needed in item["needs"])
            }
            pool = item["path"][0]
            vm = f"{pool}-{counts.get(pool, 0)}"
            counts[pool] = counts.get(pool, 0) + 1
            named = item["group"] and {**item["group"], "name": f"{number} {item['group']['name']}"}
            body = {
                "body": item["body"],
                "stack": {name: answer[name] for name in ("flavors", "volumes")},
                "group": named,
            }
            requests.append(Request(f"v{number}", vm, body, frozenset(awaited)))
    return requests


def draw_run(requests: Sequence[Request], draw: Random) -> list[dict[str, Any]]:
    """Draw an order that Heat may use, and which earlier servers have finished."""
    order: list[int] = []
    finished: set[int] = set()
    run = []
    while len(order) < len(requests):
        ready = [
            number
            for number, request in enumerate(requests)
            if number not in order and request.awaited <= set(order)
        ]
        number = draw.choice(ready)
        share = draw.choice((0.0, 0.5, 1.0))
        finished |= requests[number].awaited | {n for n in order if draw.random() < share}
        names = [f"n{n}" for n in sorted(finished)]
        run.append({**requests[number].body, "name": f"n{number}", "finished": names})
        order.append(number)
    return run


def decide_runs(
    sites: Sequence[Mapping[str, Any]], runs: Sequence[list[dict[str, Any]]], draw: Random
) -> list[list[tuple[int, list[str]]]]:
    """Return the hosts that Nova finds for each request; of equal hosts one is drawn."""
    results: list[list[tuple[int, list[str]]]] = [[] for _ in runs]
    for step in range(max(map(len, runs))):
        active = [number for number, run in enumerate(runs) if len(run) > step]
        documents = [{**sites[number], "requests": runs[number][: step + 1]} for number in active]
        _, answers, is_late = run_driver("nova", str(NOVA), documents, 600)
        assert not is_late
        for number in active:
            *_, answer = answers[: step + 1]
            del answers[: step + 1]
            request = runs[number][step]
            hosts = answer.get("hosts", [])
            request["host"] = draw.choice(hosts) if hosts else ""
            results[number].append((int(request["name"].removeprefix("n")), hosts))
    return results


@pytest.mark.slow
@long_case
def test_exact_hosts_are_those_of_nova_in_every_order() -> None:
    draw = Random(SEED)
    plans = {name: plan_certain_hosts(stack) for name, stack in STACKS.items()}
    failed = {name for name, hosts in plans.items() if hosts is None}
    certain = {name: hosts or {} for name, hosts in plans.items()}
    documents = [
        {"template": text, "files": {}, "parameters": {}}
        for stack in STACKS.values()
        for text in stack.texts
    ]
    _, answers, _ = run_driver("heat", str(HEAT), documents, 300)
    requests = {}
    for name, stack in STACKS.items():
        requests[name] = build_requests(answers[: len(stack.texts)])
        del answers[: len(stack.texts)]
    names = [name for name in STACKS for _ in range(RUNS)]
    site = build_site()
    site["images"] = {
        name: {"status": "active", "min_ram": 0, "min_disk": 0, "size": 0, "properties": values}
        for name, values in site["images"].items()
    }
    sites = []
    for name in names:
        stack = STACKS[name]
        settings = {"enabled_filters": list(stack.filters), "pci_aliases": ALIASES}
        settings["weight_multipliers"] = dict(stack.multipliers)
        sites.append({**site, "settings": settings})
    runs = [draw_run(requests[name], draw) for name in names]
    wrong = set()
    count = 0
    results = decide_runs(sites, runs, draw)
    for name, result in zip(names, results, strict=True):
        for number, hosts in result:
            request = requests[name][number]
            predicted = certain[name].get(request.vnf, {}).get(request.vm)
            count += 1
            if predicted is not None and hosts != [predicted]:
                wrong.add((name, request.vnf, request.vm, predicted, tuple(hosts)))
    refused = {
        name
        for name, result in zip(names, results, strict=True)
        if not all(hosts for _, hosts in result)
    }
    # Nova refuses what the plan refuses.
    assert failed == {name for name, stack in STACKS.items() if stack.least == REFUSED}
    assert failed <= refused
    numbers = {name: sum(map(len, hosts.values())) for name, hosts in certain.items()}
    total = sum(map(len, requests.values()))
    print(f"{sum(numbers.values())} of {total} VMs are exact; {count} decisions of Nova")
    print(numbers)
    assert wrong == set()
    too_few = {
        name: (numbers[name], stack.least)
        for name, stack in STACKS.items()
        if numbers[name] < stack.least
    }
    assert too_few == {}
