"""Hosts predicted for random sites, compared with the real Nova filters, weighers and Placement."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from nexusform.domains.conformance.workflow import nova_check
from nexusform.domains.openstack.scheduling.nova_hosts import Flavor, NovaHost
from nexusform.domains.openstack.scheduling.nova_profile import (
    DEFAULT_FILTERS,
    build_machine,
    build_nova_profile,
    build_sku,
)
from nexusform.domains.openstack.scheduling.recorded_decisions import build_server_group_hint
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import Demand, Placement, PlacementConstraints, VmName, VmSku, convert_to_gib

NOVA = shutil.which(os.environ.get("NEXUSFORM_NOVA", ""))
MISSING = (
    "Nova is not installed (pip install nova==34.0.0 openstack-placement==16.0.0 into an environment of its own, "
    "NEXUSFORM_NOVA=its python)"
)
SITES = int(os.environ.get("NEXUSFORM_NOVA_SITES", "6"))
MINUTES = float(os.environ.get("NEXUSFORM_NOVA_MINUTES", "30"))
BATCH = 50
AGGREGATES = "AggregateInstanceExtraSpecsFilter"


def build_resource(draw: Random, total: int, ratios: tuple[float, ...], reserved: tuple[int, ...]) -> dict[str, Any]:
    return {
        "total": total,
        "reserved": draw.choice(reserved),
        "allocation_ratio": draw.choice(ratios),
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
    }


def build_site(seed: int) -> dict[str, Any]:
    """A random site with flavors, servers, settings and requests."""
    draw = Random(seed)
    sizes = [(16, 65536, 500), (32, 131072, 1000), (48, 196608, 2000)][: draw.randint(1, 3)]
    hosts = {}
    for number in range(draw.randint(3, 14)):
        vcpus, memory, disk = draw.choice(sizes)
        hosts[f"compute{number:02d}"] = {
            "availability_zone": f"az{number % 2}",
            "resources": {
                "VCPU": build_resource(draw, vcpus, (1.0, 4.0) if seed % 3 else (4.0,), (0, 2)),
                "MEMORY_MB": build_resource(draw, memory, (1.0, 1.5) if seed % 3 else (1.0,), (512,)),
                "DISK_GB": build_resource(draw, disk, (1.0,), (0,)),
            },
            "traits": ["CUSTOM_SSD"] if draw.random() < 0.6 else [],
            "aggregates": {"fast": {"tier": "gold"}} if draw.random() < 0.6 else {},
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
        flavors[f"f{number}"] = {
            "vcpus": vcpus,
            "memory_mib": vcpus * draw.choice((1024, 2048, 4096)),
            "disk_gib": draw.choice((0, 20, 40)),
            "properties": properties,
        }
    settings: dict[str, Any] = {"enabled_filters": [*DEFAULT_FILTERS, *([AGGREGATES] if draw.random() < 0.5 else [])]}
    if draw.random() < 0.4:
        names = draw.sample(("cpu", "ram", "disk", "io_ops", "num_instances", "soft_anti_affinity"), 2)
        multipliers = {name: draw.choice((-1.0, 0.0, 2.0, 10.0)) for name in names}
        settings["weight_multipliers"] = {
            name: abs(value) if name.startswith("soft") else value for name, value in multipliers.items()
        }
    if draw.random() < 0.2:
        settings["host_subset_size"] = draw.choice((2, 3))
    servers = {}
    for number in range(draw.randint(0, 2 * len(hosts))):
        size = {"vcpus": draw.choice((1, 2)), "memory_mib": draw.choice((512, 2048)), "disk_gib": draw.choice((0, 10))}
        servers[f"s{number}"] = {"host": draw.choice(sorted(hosts)), **size}
    groups = [
        {"name": f"g{number}", "policy": policy, "max": draw.choice((1, 1, 2)) if policy == "anti-affinity" else 1}
        for number, policy in enumerate(
            draw.sample(("anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"), 2)
        )
    ]
    requests = [
        {"flavor": draw.choice(sorted(flavors)), "group": draw.choice([None, *groups])}
        for _ in range(draw.randint(3, 12))
    ]
    return {"hosts": hosts, "flavors": flavors, "servers": servers, "settings": settings, "requests": requests}


def predict(site: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """The chosen host of every request ("" = none) with those that tie with it."""
    hosts = [msgspec.convert({**values, "name": name}, NovaHost) for name, values in site["hosts"].items()]
    flavors = [msgspec.convert({**values, "name": name}, Flavor) for name, values in site["flavors"].items()]
    settings = site["settings"]
    profile = build_nova_profile(
        hosts,
        flavors,
        settings["enabled_filters"],
        settings.get("weight_multipliers"),
        settings.get("host_subset_size", 1),
    )
    machines = [build_machine(host, slot) for slot, host in enumerate(hosts, start=1)]
    scheduler = RackScheduler(machines, profile=profile)
    zones = {machine.name: machine.availability_zone for machine in machines}
    for name, server in site["servers"].items():
        sku = VmSku(name, server["vcpus"], 0, convert_to_gib(server["memory_mib"]), server["disk_gib"])
        zone = zones[server["host"]]
        scheduler.add_existing(VmName(name, name, name, 0), sku, Placement(server["host"], zone, zone, (0,)))
    skus = {flavor.name: build_sku(flavor) for flavor in flavors}
    members: dict[str, dict[str, int]] = {}
    decisions = []
    for number, request in enumerate(site["requests"]):
        group = request["group"]
        constraints = PlacementConstraints(
            hints=build_server_group_hint(group, members.get(group["name"], {}) if group is not None else {})
        )
        demand = Demand(VmName("v", "v", "p", number), skus[request["flavor"]], constraints)
        tied = scheduler.find_best_machines(demand).in_all_splits
        answer = scheduler.try_place(demand)
        host = answer[1].machine if answer is not None else ""
        if host and group is not None:
            counts = members.setdefault(group["name"], {})
            counts[host] = counts.get(host, 0) + 1
        decisions.append((host, sorted(tied)))
    return decisions


def ask_nova(sites: list[dict[str, Any]]) -> list[list[list[str]]]:
    assert NOVA is not None
    text = "".join(json.dumps(site) + "\n" for site in sites)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    script = str(Path(nova_check.__file__).with_name("nova_driver.py"))
    done = subprocess.run([NOVA, script], input=text, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    return [[next(answers) for _ in site["requests"]] for site in sites]


def add_hosts(site: dict[str, Any], decisions: list[tuple[str, list[str]]]) -> dict[str, Any]:
    """Return a site whose requests have their flavors and predicted hosts."""
    requests = [
        {**request, "flavor": site["flavors"][request["flavor"]], "host": host}
        for request, (host, _) in zip(site["requests"], decisions, strict=True)
    ]
    return {**site, "requests": requests}


@pytest.mark.skipif(NOVA is None, reason=MISSING)
def test_predictions_are_those_of_nova() -> None:
    ends_at = time.monotonic() + 60 * MINUTES
    compared = placed = 0
    for start in range(0, SITES, BATCH):
        if time.monotonic() > ends_at:
            break
        seeds = range(start, min(start + BATCH, SITES))
        predictions = [predict(build_site(seed)) for seed in seeds]
        different = compare_with_nova(seeds, predictions)
        assert different == []
        compared += sum(len(decisions) for decisions in predictions)
        placed += sum(bool(host) for decisions in predictions for host, _ in decisions)
        print(f"{compared} decisions are equal, {placed} of them with a host")
    assert placed > 0


def compare_with_nova(
    seeds: Sequence[int], predictions: list[list[tuple[str, list[str]]]]
) -> list[tuple[int, int, list[str], list[str]]]:
    """The different decisions: seed, number of the request, predicted and actual ties."""
    pairs = zip(seeds, predictions, strict=True)
    documents = [add_hosts(build_site(seed), decisions) for seed, decisions in pairs]
    return [
        (seed, number, tied, hosts)
        for seed, decisions, answer in zip(seeds, predictions, ask_nova(documents), strict=True)
        for number, ((_, tied), hosts) in enumerate(zip(decisions, answer, strict=True))
        if tied != hosts
    ]
