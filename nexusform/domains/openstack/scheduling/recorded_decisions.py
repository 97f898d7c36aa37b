"""Prediction of one recorded decision of Nova: the host of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from nexusform.domains.openstack.scheduling.nova_hosts import Flavor, build_host, build_server
from nexusform.domains.openstack.scheduling.nova_profile import (
    NovaSite,
    build_machine,
    build_nova_profile,
    build_server_sku,
    build_settings,
    build_sku,
)
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import Demand, Hint, HintScope, Placement, PlacementConstraints, VmName


def decide_host(snapshot: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{host: NAME}`, null if no host fits.

    `snapshot` has the `hosts` by name, the `servers` {host, vcpus, memory_mib, disk_gib, group, is_building} in order
    of creation, and the `settings` of nova.conf. `request` has a `flavor` {vcpus, memory_mib, disk_gib, properties},
    a `group` {name, policy, max} or null, optional `zones`, and properties of an `image`. Servers may have the
    `properties` of their flavor. Raises KeyError, TypeError and ValueError if a case is incomplete.
    """
    hosts = [build_host(name, values) for name, values in snapshot["hosts"].items()]
    flavor = msgspec.convert({**request["flavor"], "name": "flavor"}, Flavor)
    flavors = {
        name: msgspec.convert({**server, "name": f"flavor of {name}"}, Flavor)
        for name, server in snapshot["servers"].items()
        if server.get("properties")
    }
    servers = {name: build_server({**server, "name": name}) for name, server in snapshot["servers"].items()}
    site = NovaSite(hosts, [flavor, *flavors.values()], servers, {"image": request.get("image") or {}})
    settings = build_settings(snapshot["settings"])
    profile = build_nova_profile(site, settings)
    table = site.build_usage_table(settings.aliases)
    machines = [build_machine(host, slot) for slot, host in enumerate(hosts, start=1)]
    scheduler = RackScheduler(machines, profile=profile)
    zones = {machine.name: machine.availability_zone for machine in machines}
    members: dict[str, int] = {}
    group = request.get("group")
    for name, server in snapshot["servers"].items():
        host = server["host"]
        own_flavor = flavors.get(name)
        sku = build_sku(own_flavor) if own_flavor else build_server_sku(servers[name], table.build_record(name))
        vm = VmName(name, name, name, 0)
        if server.get("is_building"):
            only_host = Hint(True, True, HintScope.MACHINE, frozenset({host}), frozenset(), name, ((host, 1),))
            scheduler.try_place(Demand(vm, sku, PlacementConstraints(hints=(only_host,))))
        else:
            scheduler.add_existing(vm, sku, Placement(host, zones[host], zones[host], (0,)))
        if group and server.get("group") == group["name"]:
            members[host] = members.get(host, 0) + 1
    zone_names = frozenset(request.get("zones") or ()) or None
    constraints = PlacementConstraints(zone_names, build_server_group_hint(group, members), "image")
    answer = scheduler.try_place(Demand(VmName("v", "v", "p", 0), build_sku(flavor), constraints))
    return {"host": answer[1].machine if answer is not None else None}


def build_server_group_hint(group: Mapping[str, Any] | None, members: Mapping[str, int]) -> tuple[Hint, ...]:
    """Build the hint of a server group {name, policy, max}. `members` are the numbers of its servers by host."""
    if group is None or not members:
        return ()
    is_affinity = not group["policy"].endswith("anti-affinity")
    threshold = 1 if is_affinity else group["max"]
    targets = frozenset(host for host, count in members.items() if count >= threshold)
    is_hard = not group["policy"].startswith("soft")
    vms = tuple(sorted(members.items()))
    return (Hint(is_affinity, is_hard, HintScope.MACHINE, targets, frozenset(), group["name"], vms),)
