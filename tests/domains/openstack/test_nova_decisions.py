"""Compare predicted hosts of random sites with the real Nova filters, weighers and Placement."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryFile
from typing import Any

import msgspec
import pytest

from nexusform.domains.openstack.scheduling.nova_host_records import (
    Flavor,
    build_host,
    build_server,
    build_sku_name,
    parse_cpus,
)
from nexusform.domains.openstack.scheduling.nova_profile import (
    DEFAULT_FILTERS,
    DEFAULT_ZONE,
    NovaSite,
    build_machine,
    build_nova_profile,
    build_nova_settings,
    build_server_sku,
)
from nexusform.domains.program_checks.workflow import nova_check
from nexusform.scheduling.racks.layout import NumberedSite
from nexusform.scheduling.racks.profile import SchedulerProfile
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.rule import DemandFilter
from nexusform.scheduling.racks.vms import Demand, Machine, Placement, PlacementConstraints, VmName
from tests.conformance.predict_nova import build_server_group_hint

NOVA = shutil.which(os.environ.get("NEXUSFORM_NOVA", ""))
MISSING = (
    "Nova is not installed (pip install nova==34.0.0 openstack-placement==16.0.0 into an "
    "environment of its own, "
    "NEXUSFORM_NOVA=its python)"
)
SITES = int(os.environ.get("NEXUSFORM_NOVA_SITES", "6"))
FIRST_SEED = int(os.environ.get("NEXUSFORM_NOVA_FIRST_SEED", "0"))
MINUTES = float(os.environ.get("NEXUSFORM_NOVA_MINUTES", "30"))
UNPREDICTED = "not predicted"
MASK = "hw:cpu_dedicated_mask"
AGGREGATES = "AggregateInstanceExtraSpecsFilter"
DETAILS = ["NUMATopologyFilter", "PciPassthroughFilter"]
ALIASES = {
    "nic": {"vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"},
    "gpu": {
        "vendor_id": "10de",
        "product_id": "1eb8",
        "device_type": "type-PCI",
        "numa_policy": "required",
    },
    "fpga": {"vendor_id": "10ee", "product_id": "5000", "numa_policy": "preferred"},
    "dpu": {"vendor_id": "15b3", "product_id": "a2d6", "numa_policy": "socket"},
}
IMAGES: tuple[dict[str, str], ...] = (
    {"hw_architecture": "amd64"},
    {"img_hv_type": "kvm", "hw_vm_mode": "hvm"},
    {"architecture": "aarch64"},
)
KVM = ["x86_64", "kvm", "hvm"]
QEMU = ["x86_64", "qemu", "hvm"]
ARM = ["aarch64", "kvm", "hvm"]


def build_resource(
    draw: Random, total: int, ratios: tuple[float, ...], reserved: tuple[int, ...]
) -> dict[str, Any]:
    return {
        "total": total,
        "reserved": draw.choice(reserved),
        "allocation_ratio": draw.choice(ratios),
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
    }


def build_site(seed: int) -> dict[str, Any]:
    """Return a random site with flavors, servers, settings and requests."""
    draw = Random(seed)
    sizes = [(16, 65536, 500), (32, 131072, 1000), (48, 196608, 2000)][: draw.randint(1, 3)]
    hosts = {}
    gold = {
        "tier": "gold",
        **draw.choice(({}, {}, {"cpu_weight_multiplier": "3.0"}, {"ram_weight_multiplier": "-2"})),
    }
    for number in range(draw.randint(3, 14)):
        vcpus, memory, disk = draw.choice(sizes)
        hosts[f"compute{number:02d}"] = {
            "availability_zone": f"az{number % 2}",
            "resources": {
                "VCPU": build_resource(draw, vcpus, (1.0, 4.0) if seed % 3 else (4.0,), (0, 2))
                | {"max_unit": draw.choice((vcpus, vcpus, vcpus, 4))},
                "MEMORY_MB": build_resource(
                    draw, memory, (1.0, 1.5) if seed % 3 else (1.0,), (512,)
                ),
                "DISK_GB": build_resource(draw, disk, (1.0,), (0,))
                | draw.choice(({}, {}, {"min_unit": 10}, {"step_size": 10})),
                "CUSTOM_CARD": build_resource(draw, draw.choice((1, 4)), (1.0,), (0, 1)),
                **({"VGPU": build_resource(draw, 8, (1.0,), (0,))} if draw.random() < 0.5 else {}),
            },
            "traits": ["CUSTOM_SSD"] if draw.random() < 0.6 else [],
            "aggregates": draw.choice(
                ({}, {}, {"fast": gold}, {"fast": gold}, {"fast": gold, "slow": {}})
            ),
            "hypervisor_version": draw.choice((6002000, 8000000)) if seed % 4 == 0 else 8000000,
            "unschedulable_reason": draw.choice(
                ("", "", "", "", "its compute service is disabled", "its compute service is down")
            ),
        }
    flavors = {}
    for number in range(3):
        properties = {}
        if draw.random() < 0.2:
            properties["trait:CUSTOM_SSD"] = draw.choice(("required", "forbidden"))
        if draw.random() < 0.2:
            properties["aggregate_instance_extra_specs:tier"] = "gold"
        vcpus = draw.choice((1, 2, 4, 8))
        properties |= draw_amounts(vcpus, draw)
        flavors[f"f{number}"] = {
            "vcpus": vcpus,
            "memory_mib": vcpus * draw.choice((1024, 2048, 4096)),
            "disk_gib": draw.choice((0, 5, 20, 40)),
            "properties": properties,
        }
    settings: dict[str, Any] = {
        "enabled_filters": [*DEFAULT_FILTERS, *([AGGREGATES] if draw.random() < 0.5 else [])]
    }
    if draw.random() < 0.4:
        names = draw.sample(
            ("cpu", "ram", "disk", "io_ops", "num_instances", "soft_anti_affinity"), 2
        )
        multipliers = {name: draw.choice((-1.0, 0.0, 2.0, 10.0)) for name in names}
        settings["weight_multipliers"] = {
            name: abs(value) if name.startswith("soft") else value
            for name, value in multipliers.items()
        }
    if draw.random() < 0.2:
        settings["host_subset_size"] = draw.choice((2, 3))
    servers = {}
    for number in range(draw.randint(0, 2 * len(hosts))):
        size = {
            "vcpus": draw.choice((1, 2)),
            "memory_mib": draw.choice((512, 2048)),
            "disk_gib": draw.choice((0, 10)),
        }
        servers[f"s{number}"] = {"host": draw.choice(sorted(hosts)), **size}
    groups = [
        {
            "name": f"g{number}",
            "policy": policy,
            "max": draw.choice((1, 1, 2)) if policy == "anti-affinity" else 1,
        }
        for number, policy in enumerate(
            draw.sample(("anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"), 2)
        )
    ]
    zones: tuple[dict[str, list[str]], ...] = ({}, {}, {}, {}, {}, {}, {"zones": ["az0"]})
    requests = [
        {
            "flavor": draw.choice(sorted(flavors)),
            "group": draw.choice([None, *groups]),
            **draw.choice(zones),
        }
        for _ in range(draw.randint(4, 24))
    ]
    site = {
        "hosts": hosts,
        "flavors": flavors,
        "servers": servers,
        "settings": settings,
        "requests": requests,
    }
    if seed % 5 > 1:
        add_details(site, draw)
    return site


def draw_amounts(vcpus: int, draw: Random) -> dict[str, str]:
    """Draw amounts that replace those of the flavor's size, or are of a further class."""
    if draw.random() < 0.8:
        return {}
    return {
        f"resources:{name}": draw.choice(values)
        for name, values in (
            ("VCPU", ("0", "1", "3", "-1", "many")),
            ("PCPU", (str(vcpus), str(vcpus + 1), "0")),
            ("MEMORY_MB", ("0", "512", " 2048")),
            ("DISK_GB", ("0", "10", "1.5")),
            ("CUSTOM_CARD", ("1", "2", "0")),
            ("custom_card", ("1",)),
            ("VGPU", ("1",)),
        )
        if draw.random() < 0.3
    }


def add_details(site: dict[str, Any], draw: Random) -> None:
    """Add NUMA cells, PCI devices and supported instances to the hosts.

    Flavors, images and servers for them are added too.
    """
    for host in site["hosts"].values():
        host |= {
            "has_details": True,
            "supported_instances": draw.choice(([KVM], [KVM, QEMU], [ARM], [])),
        }
        if draw.random() < 0.9:
            add_cells(host, draw)
        host["device_pools"] = [
            {
                "count": draw.randint(1, 4),
                "numa_node": draw.choice((0, 1, None)),
                "properties": {
                    **{key: alias[key] for key in ("vendor_id", "product_id")},
                    "dev_type": draw.choice(
                        (alias.get("device_type", "type-PCI"), "type-PCI", "type-PF")
                    ),
                    "address": f"0000:{number:02x}:00.0",
                    **({"physical_network": "n"} if draw.random() < 0.3 else {}),
                },
            }
            for number, alias in enumerate(
                draw.choices(list(ALIASES.values()), k=draw.randint(0, 4))
            )
        ]
    for server in site["servers"].values():
        resources = site["hosts"][server["host"]]["resources"]
        if "VCPU" not in resources or ("PCPU" in resources and draw.random() < 0.3):
            server |= {"vcpus": 0, "dedicated_vcpus": server["vcpus"]}
    for flavor in site["flavors"].values():
        flavor["properties"] |= draw_requests(flavor, draw)
    images = [{}, {}, *IMAGES, *(draw_image(flavor, draw) for flavor in site["flavors"].values())]
    settings = site["settings"]
    settings["pci_aliases"] = ALIASES
    settings["enabled_filters"] = [*settings["enabled_filters"], *DETAILS]
    for request in site["requests"]:
        request["image"] = draw.choice(images)


def draw_image(flavor: dict[str, Any], draw: Random) -> dict[str, str]:
    """Draw an image with requests of its own."""
    return draw.choice(
        (
            {"hw_numa_nodes": draw.choice("12")},
            {"hw_cpu_policy": draw.choice(("dedicated", "shared", "mixed"))},
            {
                "hw_cpu_policy": "dedicated",
                "hw_cpu_thread_policy": draw.choice(("prefer", "require", "isolate")),
            },
            {"hw_mem_page_size": draw.choice(("2048", "small"))},
            {"hw_numa_nodes": "2", **draw_cells(flavor, "hw_", draw)},
            {"hw_pci_numa_affinity_policy": draw.choice(("required", "preferred", "socket"))},
            {"trait:CUSTOM_SSD": "required"},
        )
    )


def draw_cells(flavor: dict[str, Any], prefix: str, draw: Random) -> dict[str, str]:
    """Draw two cells of different sizes."""
    vcpus = flavor["vcpus"]
    memory = flavor["memory_mib"]
    first = draw.randint(1, max(vcpus - 1, 1))
    share = memory * first // vcpus
    return {
        f"{prefix}numa_cpus.0": f"0-{first - 1}",
        f"{prefix}numa_cpus.1": ",".join(map(str, range(first, vcpus))),
        f"{prefix}numa_mem.0": str(share),
        f"{prefix}numa_mem.1": str(memory - share),
    }


def add_cells(host: dict[str, Any], draw: Random) -> None:
    """Add NUMA cells with random use.

    Dedicated CPUs are PCPU in Placement, except on hosts of the old style.
    """
    resources = host["resources"]
    count = draw.choice((1, 2, 2, 4))
    threads = draw.choice((1, 2, 2))
    cpus = resources["VCPU"]["total"] // count
    memory = resources["MEMORY_MB"]["total"] // count
    style = draw.choice(("shared", "dedicated", "both", "both", "old"))
    cells = []
    for number in range(count):
        numbers = list(range(number * cpus, (number + 1) * cpus))
        cores = [numbers[start :: cpus // threads] for start in range(cpus // threads)]
        split = {"shared": 0, "old": 0, "dedicated": len(cores), "both": len(cores) // 2}[style]
        dedicated = [cpu for core in cores[:split] for cpu in core]
        shared = [cpu for core in cores[split:] for cpu in core]
        pinned = (
            [cpu for cpu in (dedicated or shared) if draw.random() < 0.2]
            if style in ("dedicated", "both")
            else []
        )
        huge = draw.choice((0, memory // 2048 // 2))
        pages = [{"size_kib": 4, "total": (memory - huge * 2) * 256}]
        if huge:
            used = draw.choice((0, huge // 2))
            pages.append(
                {"size_kib": 2048, "total": huge, "used": used, "reserved": draw.choice((0, 64))}
            )
        cells.append(
            {
                "id": number,
                "shared": format_cpus(numbers if style == "old" else shared),
                "dedicated": format_cpus(numbers if style == "old" else dedicated),
                "pinned": format_cpus(pinned),
                "siblings": [format_cpus(core) for core in cores],
                "memory_mib": memory,
                "used_memory_mib": draw.choice((0, 0, memory // 4)),
                "used_vcpus": draw.choice((0, 0, 2)) if shared else 0,
                "pages": pages,
                "socket": draw.choice((number // 2, number // 2, None)),
            }
        )
    host["numa_cells"] = cells
    if style in ("dedicated", "both"):
        total = sum(len(list(parse_cpus(cell["dedicated"]))) for cell in cells)
        resources["PCPU"] = build_resource(draw, total, (1.0,), (0,))
        left = resources["VCPU"]["total"] - total
        if left:
            resources["VCPU"] |= {"total": left, "max_unit": left}
        else:
            del resources["VCPU"]
    if threads > 1 and draw.random() < 0.8:
        host["traits"] = [*host["traits"], "HW_CPU_HYPERTHREADING"]
    if draw.random() < 0.7:
        host["traits"] = [*host["traits"], "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"]


def draw_requests(flavor: dict[str, Any], draw: Random) -> dict[str, str]:
    properties = draw_cpu_policy(flavor["vcpus"], draw)
    cells = draw.choice((1, 2, 2, 4))
    if draw.random() < 0.4 and flavor["vcpus"] % cells == 0:
        properties["hw:numa_nodes"] = str(cells)
        if cells == 2 and draw.random() < 0.6:
            properties |= draw_cells(flavor, "hw:", draw)
    if draw.random() < 0.3:
        properties["hw:mem_page_size"] = draw.choice(
            ("small", "large", "any", "2048", "2MB", "1GB")
        )
    if draw.random() < 0.4:
        names = draw.sample(sorted(ALIASES), draw.choice((1, 1, 2)))
        properties["pci_passthrough:alias"] = ",".join(
            f"{name}:{draw.choice((1, 1, 2))}" for name in names
        )
        if draw.random() < 0.2:
            properties["hw:pci_numa_affinity_policy"] = draw.choice(
                ("required", "preferred", "legacy", "socket")
            )
    return properties


def draw_cpu_policy(vcpus: int, draw: Random) -> dict[str, str]:
    policy = draw.choice(("", "", "", "dedicated", "dedicated", "shared", "mixed"))
    properties = {"hw:cpu_policy": policy} if policy else {}
    if policy == "mixed" and vcpus > 1:
        properties[MASK] = draw.choice(("0", "^0", f"1-{vcpus - 1}", "^1"))
    if policy in ("dedicated", "mixed"):
        if draw.random() < 0.5:
            properties["hw:cpu_thread_policy"] = draw.choice(("prefer", "require", "isolate"))
        if draw.random() < 0.4:
            properties["hw:emulator_threads_policy"] = draw.choice(("isolate", "share"))
    return properties


def format_cpus(numbers: Sequence[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def predict(site: dict[str, Any], *, places: bool = True) -> list[tuple[str, list[str]]]:
    """Return the chosen host of every request ("" = none) and all hosts tied with it.

    The hosts of a request with an unread fact, or rejected as not predicted, are [UNPREDICTED].
    With `places`, the server of a request runs on its host at the next request.
    """
    hosts = [build_host(name, values) for name, values in site["hosts"].items()]
    flavors = [
        msgspec.convert({**values, "name": name}, Flavor)
        for name, values in site["flavors"].items()
    ]
    servers = {
        name: build_server({**server, "name": name}) for name, server in site["servers"].items()
    }
    images = {
        str(number): request.get("image", {}) for number, request in enumerate(site["requests"])
    }
    nova = NovaSite(hosts, flavors, servers, images)
    settings = build_nova_settings({DEFAULT_ZONE: "", **site["settings"]})
    machines = [build_machine(host, slot) for slot, host in enumerate(hosts, start=1)]
    profile = build_nova_profile(nova, settings)
    scheduler = RackScheduler(machines, profile=profile)
    table = nova.build_usage_table(settings.aliases)
    zones = {machine.name: machine.availability_zone for machine in machines}
    for name, server in servers.items():
        sku = build_server_sku(server, table.build_record(name))
        zone = zones[server.host]
        scheduler.add_existing(
            VmName(name, name, name, 0), sku, Placement(server.host, zone, zone, (0,))
        )
    skus = nova.build_skus()
    members: dict[str, dict[str, int]] = {}
    decisions = []
    for number, request in enumerate(site["requests"]):
        group = request["group"]
        constraints = PlacementConstraints(
            hints=build_server_group_hint(
                group, members.get(group["name"], {}) if group is not None else {}
            ),
            image=str(number),
            zones=frozenset(request.get("zones") or ()) or None,
        )
        name = request["flavor"]
        sku = skus.get(build_sku_name(name, str(number))) or skus[name]
        demand = Demand(VmName("v", "v", "p", number), sku, constraints)
        tied = scheduler.find_best_machines(demand).in_all_splits
        if is_unpredicted(profile, machines, demand):
            tied = frozenset({UNPREDICTED})
        answer = scheduler.try_place(demand) if places else None
        host = answer[1].machine if answer is not None else ""
        if host and group is not None:
            counts = members.setdefault(group["name"], {})
            counts[host] = counts.get(host, 0) + 1
        decisions.append((host, sorted(tied)))
    return decisions


def is_unpredicted(profile: SchedulerProfile, machines: Sequence[Machine], demand: Demand) -> bool:
    """Return whether a fact is unread, or a host is rejected because of an unread property."""
    if profile.find_unread_fact(demand.sku, demand.constraints) is not None:
        return True
    rule = next(rule for rule in profile.filters if rule.name == "flavor")
    assert isinstance(rule, DemandFilter)
    check = rule.build_check(NumberedSite(machines), demand)
    return any("not predicted" in (check(number) or "") for number in range(len(machines)))


@contextmanager
def start_nova() -> Iterator[subprocess.Popen[str]]:
    """Start a process of Nova and Placement.

    It reads a site per line, and writes its decisions per line.
    """
    assert NOVA is not None
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    script = str(Path(nova_check.__file__).with_name("nova_driver.py"))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen([NOVA, script], stderr=errors, **pipes) as process,
    ):
        try:
            yield process
        except (BrokenPipeError, ValueError) as problem:
            process.wait()
            errors.seek(0)
            raise AssertionError(errors.read()[-2000:]) from problem
        finally:
            process.kill()


def decide_sites(sites: list[dict[str, Any]]) -> list[list[list[str]]]:
    with start_nova() as nova:
        return [decide_site(nova, site) for site in sites]


def decide_site(nova: subprocess.Popen[str], site: dict[str, Any]) -> list[list[str]]:
    assert nova.stdin is not None
    assert nova.stdout is not None
    nova.stdin.write(json.dumps(site) + "\n")
    nova.stdin.flush()
    answers = (json.loads(line) for line in nova.stdout if line.startswith("["))
    try:
        return [next(answers) for _ in site["requests"]]
    except StopIteration:
        raise ValueError("Nova ended") from None


def add_hosts(site: dict[str, Any], decisions: list[tuple[str, list[str]]]) -> dict[str, Any]:
    """Return a site with the flavor and the predicted host in each request."""
    requests = [
        {**request, "flavor": site["flavors"][request["flavor"]], "host": host}
        for request, (host, _) in zip(site["requests"], decisions, strict=True)
    ]
    return {**site, "requests": requests}


@pytest.mark.skipif(NOVA is None, reason=MISSING)
def test_emulator_threads_are_no_vcpus_of_a_server() -> None:
    """Nova weighs hosts by the vCPUs of flavors; the CPU of emulator threads is not one of them."""
    resources = {
        name: build_resource(Random(0), total, (1.0,), (0,))
        for name, total in (("VCPU", 16), ("PCPU", 16), ("MEMORY_MB", 65536), ("DISK_GB", 100))
    }
    host = {"availability_zone": "az0", "resources": resources, "hypervisor_version": 8000000}
    size = {"memory_mib": 1024, "disk_gib": 1}
    site = {
        "hosts": {"compute00": host, "compute01": host},
        "servers": {
            "plain": {"host": "compute00", "vcpus": 4, **size},
            "pinned": {
                "host": "compute01",
                "vcpus": 0,
                "dedicated_vcpus": 5,
                "emulator_vcpus": 1,
                **size,
            },
        },
        "settings": {"enabled_filters": list(DEFAULT_FILTERS)},
        "requests": [{"flavor": {"vcpus": 2, **size, "properties": {}}, "group": None, "host": ""}],
    }
    assert decide_sites([site]) == [[["compute00", "compute01"]]]


@pytest.mark.skipif(NOVA is None, reason=MISSING)
def test_predictions_match_nova() -> None:
    ends_at = time.monotonic() + 60 * MINUTES
    compared = placed = 0
    with start_nova() as nova:
        for seed in range(FIRST_SEED, FIRST_SEED + SITES):
            if time.monotonic() > ends_at:
                break
            site = build_site(seed)
            decisions = predict(site)
            assert (
                find_differences(seed, decisions, decide_site(nova, add_hosts(site, decisions)))
                == []
            )
            compared += len(decisions)
            placed += sum(bool(host) for host, _ in decisions)
            if seed % 50 == 49 or seed == FIRST_SEED + SITES - 1:
                print(
                    (
                        f"{compared} decisions on {seed + 1 - FIRST_SEED} sites are equal, "
                        f"{placed} of them with a host"
                    ),
                    flush=True,
                )
    assert placed > 0


def find_differences(
    seed: int, decisions: list[tuple[str, list[str]]], answer: list[list[str]]
) -> list[tuple[int, int, list[str], list[str]]]:
    """Return the different decisions: seed, number of the request, predicted and actual ties."""
    pairs = zip(decisions, answer, strict=True)
    return [
        (seed, number, tied, hosts)
        for number, ((_, tied), hosts) in enumerate(pairs)
        if tied not in (hosts, [UNPREDICTED])
    ]
