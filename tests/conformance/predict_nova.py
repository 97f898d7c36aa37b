"""Prediction of one recorded decision of Nova: the host of a server."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from nexusform.domains.openstack.scheduling.nova_host_records import (
    Flavor,
    build_host,
    build_server,
    build_sku_name,
)
from nexusform.domains.openstack.scheduling.nova_profile import (
    DEFAULT_ZONE,
    NovaSite,
    build_machine,
    build_nova_profile,
    build_nova_settings,
    build_server_sku,
)
from nexusform.json_data.plain_data import get_mapping
from nexusform.planning.vm_planning.site_plans import build_scheduler
from nexusform.scheduling.racks.vms import (
    Demand,
    Hint,
    HintScope,
    Placement,
    PlacementConstraints,
    VmName,
    VmSku,
)

_FLAVOR: Final = "flavor"


def decide_host(snapshot: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the host chosen for a request as {"host": NAME}, None as name if no host fits.

    `snapshot` has the `hosts` by name, the `servers` {host, vcpus, memory_mib, disk_gib, group,
    is_building} in order of creation, and the `settings` of nova.conf. `request` has a `flavor`
    {vcpus, memory_mib, disk_gib, properties}, a `group` {name, policy, max} or null, optional
    `zones`, and properties of an `image`. Servers may have the `properties` of their flavor. Raises
    KeyError, TypeError and ValueError if a case is incomplete.
    """
    hosts = [build_host(name, values) for name, values in snapshot["hosts"].items()]
    servers = {}
    flavors = {_FLAVOR: msgspec.convert({**request["flavor"], "name": _FLAVOR}, Flavor)}
    # properties of images, by name of the flavor.
    images = {_FLAVOR: get_mapping(request, "image")}
    for name, server in snapshot["servers"].items():
        servers[name] = build_server({**server, "name": name, "image": ""})
        if server.get("properties") or server.get("image"):
            flavor_name = f"flavor of {name}"
            flavors[flavor_name] = msgspec.convert({**server, "name": flavor_name}, Flavor)
            images[flavor_name] = get_mapping(server, "image")
    site = NovaSite(hosts, list(flavors.values()), servers, images)
    skus = site.build_skus()
    # The zone of a request is in it.
    settings = build_nova_settings({DEFAULT_ZONE: "", **snapshot["settings"]})
    profile = build_nova_profile(site, settings)
    table = site.build_usage_table(settings.aliases)
    machines = [build_machine(host, slot) for slot, host in enumerate(hosts, start=1)]
    scheduler = build_scheduler(machines, profile=profile)
    zones = {machine.name: machine.availability_zone for machine in machines}
    # servers of the requested group, by host.
    members: dict[str, int] = {}
    group = request.get("group")
    for name, server in snapshot["servers"].items():
        host = server["host"]
        flavor_name = f"flavor of {name}"
        # It has properties or an image.
        has_flavor = flavor_name in flavors
        sku = (
            _find_sku(skus, flavor_name)
            if has_flavor
            else build_server_sku(servers[name], table.build_record(name))
        )
        vm = VmName(name, name, name, 0)
        if server.get("is_building"):
            # Placed like a request that only its host satisfies, not added as an existing server.
            only_host = Hint(
                is_affinity=True,
                is_hard=True,
                scope=HintScope.MACHINE,
                machines=frozenset({host}),
                racks=frozenset(),
                target=name,
                vms_by_machine=((host, 1),),
            )
            scheduler.try_place(Demand(vm, sku, PlacementConstraints(hints=(only_host,))))
        else:
            # The rack of a host is its zone; cell 0 has all of its capacity.
            scheduler.add_existing(vm, sku, Placement(host, zones[host], zones[host], (0,)))
        if group and server.get("group") == group["name"]:
            members[host] = members.get(host, 0) + 1
    zone_names = frozenset(request.get("zones") or ()) or None
    constraints = PlacementConstraints(zone_names, build_server_group_hint(group, members), _FLAVOR)
    # With any name.
    demand = Demand(VmName("v", "v", "p", 0), _find_sku(skus, _FLAVOR), constraints)
    # The VM's handle and placement, or None.
    placed = scheduler.try_place(demand)
    return {"host": placed[1].machine if placed is not None else None}


def _find_sku(skus: Mapping[str, VmSku], name: str) -> VmSku:
    """Return the SKU of a flavor with its image of the same name, else of the flavor alone."""
    return skus.get(build_sku_name(name, name)) or skus[name]


def build_server_group_hint(
    group: Mapping[str, Any] | None, members: Mapping[str, int]
) -> tuple[Hint, ...]:
    """Build the hint of a server group {name, policy, max}; () without a group or servers in it.

    `members` are the numbers of its servers by host. The hint is to join the hosts of its servers
    (affinity), or to avoid those with `max` servers. A "soft" policy is a preference.
    """
    if group is None or not members:
        return ()
    is_affinity = not group["policy"].endswith("anti-affinity")
    threshold = 1 if is_affinity else group["max"]
    targets = frozenset(host for host, count in members.items() if count >= threshold)
    is_hard = not group["policy"].startswith("soft")
    name = group["name"]
    vms = tuple(sorted(members.items()))
    return (
        Hint(
            is_affinity,
            is_hard,
            HintScope.MACHINE,
            targets,
            racks=frozenset(),
            target=name,
            vms_by_machine=vms,
        ),
    )
