"""Script with the real filters and weighers of Nova, and with Placement, in one process.

It runs in an environment of its own: `pip install nova==34.0.0 openstack-placement==16.0.0`.
Arguments: a file of sites, one JSON document per line, and the file of answers (default: stdin and
stdout). The first answer has the versions. A site has `hosts`, `servers`, `settings` and
`requests`. The answer to a request are its best hosts: Nova draws among these. The new server is
added to the request's `host`, by default the first best one. Before, the servers `released` by the
request are removed. Servers with `properties` of their flavor or of their `image` take NUMA cells
and PCI devices; the `dedicated_vcpus` of other servers are pinned in the `numa_cells` of their
host already. Other servers may have `other_resources` in Placement, and an `unallocated` part of
their flavor's size.
"""

import json
import logging
import os
import sys
import uuid
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "true"

import sqlalchemy
import webob
from jsonschema import Draft202012Validator
from nova import context, exception, objects
from nova.conf import CONF
from nova.pci import request as pci_request
from nova.scheduler import filters, host_manager, request_filter, weights
from nova.scheduler.utils import ResourceRequest
from nova.virt import hardware
from oslo_config import cfg
from oslo_db.sqlalchemy import engines
from placement import conf as placement_conf
from placement import db_api, deploy
from placement.db.sqlalchemy import migration, models

CLASSES = {"vcpus": "VCPU", "memory_mib": "MEMORY_MB", "disk_gib": "DISK_GB"}
TOLERANCE = 1e-9
NO_RESOURCE = {"total": 0, "reserved": 0, "allocation_ratio": 1.0}
ZONES = uuid.UUID(int=0)
NUMA = "NUMATopologyFilter"


class OpenstackPlacementService:
    """Placement on a SQLite database in memory, called through its WSGI application."""

    def __init__(self) -> None:
        """Start Placement in this process, with an empty database in memory."""
        settings = cfg.ConfigOpts()
        placement_conf.register_opts(settings)
        settings.set_override("connection", "sqlite://", group="placement_database")
        # A new one has no tables.
        settings.set_override("connection_recycle_time", -1, group="placement_database")
        settings([], default_config_files=[])
        settings.set_override("auth_strategy", "noauth2", group="api")
        db_api.configure(settings)
        migration.upgrade("head")
        self.application = deploy.loadapp(settings)

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Return the answer of Placement.

        Raises RuntimeError.
        """
        headers = {
            "x-auth-token": "admin",
            "OpenStack-API-Version": "placement latest",
            "Accept": "application/json",
        }
        request = webob.Request.blank(path, method=method, headers=headers)
        if body is not None:
            request.content_type = "application/json"
            request.body = json.dumps(body).encode()
        response = request.get_response(self.application)
        if response.status_int >= 300:
            raise RuntimeError(
                f"Placement rejects {method} {path}: {response.status} {response.text}"
            )
        answer: dict[str, Any] = json.loads(response.body) if response.body else {}
        return answer

    def insert(self, model: Any, rows: list[dict[str, Any]]) -> None:
        """Insert rows into a table of Placement.

        Requests to its API for the same would take most of the time.
        """
        if rows:
            with db_api.get_placement_engine().begin() as connection:
                connection.execute(model.__table__.insert(), rows)

    def delete(self, model: Any, **values: Any) -> None:
        """Delete the rows with these values, by default all."""
        with db_api.get_placement_engine().begin() as connection:
            connection.execute(model.__table__.delete().filter_by(**values))

    def read_ids(self, model: Any) -> dict[str, int]:
        """Return the ids of the rows by name."""
        table = model.__table__
        with db_api.get_placement_engine().begin() as connection:
            return {
                row.name: row.id
                for row in connection.execute(sqlalchemy.select(table.c.name, table.c.id))
            }

    def read_trait_ids(self, names: set[str]) -> dict[str, int]:
        """Return the ids of traits, after creating the missing ones."""
        ids = self.read_ids(models.Trait)
        for name in names - ids.keys():
            self.call("PUT", f"/traits/{name}")
        return self.read_ids(models.Trait) if names - ids.keys() else ids


class NovaSiteState:
    """Hosts and servers of one site, in Placement and as Nova's host states.

    `providers` has the UUIDs of resource providers by host, and `numbers` their rows. `classes` are
    rows of resource classes by name.
    """

    def __init__(self, placement: OpenstackPlacementService, document: dict[str, Any]) -> None:
        """Create the objects of Nova for a site.

        `document` has the settings, hosts and servers of the site.
        """
        self.placement = placement
        self.document = document
        # HostState by host.
        self.states: dict[str, Any] = {}
        # UUID of the resource provider by host.
        self.providers: dict[str, str] = {}
        # Row id by host.
        self.numbers: dict[str, int] = {}
        # Row id by resource class.
        self.classes: dict[str, int] = {}
        self.servers: dict[str, dict[str, Any]] = {}  # by name
        settings = document.get("settings", {})
        for name, value in settings.get("weight_multipliers", {}).items():
            CONF.set_override(f"{name}_weight_multiplier", value, group="filter_scheduler")
        aliases = [
            {**fields, "name": name} for name, fields in (settings.get("pci_aliases") or {}).items()
        ]
        CONF.set_override("alias", list(map(json.dumps, aliases)), group="pci")
        pci_request.get_alias_from_config.cache_clear()
        self.create_providers()
        for name, server in document.get("servers", {}).items():
            self.servers[name] = {
                **server,
                "uuid": str(uuid.uuid4()),
                "resources": self.compute_resources(server),
            }
        self.allocate(self.servers.values())
        for name in document["hosts"]:
            self.update_host_state(name)
        names = settings.get("enabled_filters", CONF.filter_scheduler.enabled_filters)
        filter_classes = {item.__name__: item for item in filters.all_filters()}
        self.filters = [filter_classes[name]() for name in names]
        for item in self.filters:
            if hasattr(item, "servicegroup_api"):
                # Set by update_host_state.
                item.servicegroup_api.service_is_up = lambda service: service["is_up"]
        self.weighers = [
            weigher()
            for weigher in weights.all_weighers()
            if weigher.__name__ != "CrossCellWeigher"
        ]

    def create_providers(self) -> None:
        """Create the rows of hosts in the tables of Placement.

        The rows are providers, inventories, traits, and zones as aggregates.
        """
        hosts = self.document["hosts"]
        insert = self.placement.insert
        self.providers = {name: str(uuid.uuid4()) for name in hosts}
        self.numbers = {name: row for row, name in enumerate(hosts, start=1)}
        names = {name for host in hosts.values() for name in host["resources"]}
        for name in names - self.placement.read_ids(models.ResourceClass).keys():
            self.placement.call("PUT", f"/resource_classes/{name}")
        self.classes = self.placement.read_ids(models.ResourceClass)
        numbers = self.numbers
        classes = self.classes  # row ids
        zones = {
            zone: row
            for row, zone in enumerate(
                sorted({host["availability_zone"] for host in hosts.values()})
            )
        }
        traits = {trait for host in hosts.values() for trait in host.get("traits", ())}
        trait_ids = self.placement.read_trait_ids(traits)
        providers = [
            {
                "id": numbers[name],
                "uuid": identifier,
                "name": name,
                "root_provider_id": numbers[name],
            }
            for name, identifier in self.providers.items()
        ]
        insert(models.ResourceProvider, providers)
        inventories = [
            {
                "resource_provider_id": numbers[name],
                "resource_class_id": classes[resource],
                **figures,
            }
            for name, host in hosts.items()
            for resource, figures in host["resources"].items()
        ]
        insert(models.Inventory, inventories)
        provider_traits = [
            {"resource_provider_id": numbers[name], "trait_id": trait_ids[trait]}
            for name, host in hosts.items()
            for trait in host.get("traits", ())
        ]
        insert(models.ResourceProviderTrait, provider_traits)
        insert(
            models.PlacementAggregate,
            [{"id": zones[zone], "uuid": compute_zone_id(zone)} for zone in zones],
        )
        provider_zones = [
            {
                "resource_provider_id": numbers[name],
                "aggregate_id": zones[host["availability_zone"]],
            }
            for name, host in hosts.items()
        ]
        insert(models.ResourceProviderAggregate, provider_zones)

    def update_host_state(self, name: str) -> None:
        """Set the HostState of a host.

        The state is set first with its reserved amounts only, then with each of its servers.
        """
        host = self.document["hosts"][name]
        state = host_manager.HostState(name, name, uuid.uuid4())
        cpu, memory, disk = (
            host["resources"].get(resource, NO_RESOURCE) for resource in CLASSES.values()
        )
        node = objects.ComputeNode(
            uuid=self.providers[name],
            vcpus=cpu["total"],
            vcpus_used=cpu["reserved"],
            memory_mb=memory["total"],
            memory_mb_used=memory["reserved"],
            free_ram_mb=memory["total"] - memory["reserved"],
            local_gb=disk["total"],
            local_gb_used=disk["reserved"],
            free_disk_gb=disk["total"] - disk["reserved"],
            disk_available_least=None,
            updated_at=None,
            numa_topology=build_numa_topology(host.get("numa_cells") or []),
            pci_device_pools=build_pci_device_pools(host.get("device_pools") or []),
            host_ip="10.0.0.1",
            hypervisor_type="QEMU",
            hypervisor_version=host.get("hypervisor_version", 0),
            hypervisor_hostname=name,
            cpu_info="{}",
            supported_hv_specs=list(
                map(objects.HVSpec.from_list, host.get("supported_instances") or [])
            ),
            stats={"num_instances": 0, "io_workload": 0},
            metrics=None,
            cpu_allocation_ratio=cpu["allocation_ratio"],
            ram_allocation_ratio=memory["allocation_ratio"],
            disk_allocation_ratio=disk["allocation_ratio"],
        )
        aggregates = [
            objects.Aggregate(name=aggregate, metadata=metadata)
            for aggregate, metadata in host.get("aggregates", {}).items()
        ]
        reason = host.get("unschedulable_reason", "")  # "": schedulable
        state.update(
            node, {"disabled": "disabled" in reason, "is_up": "down" not in reason}, aggregates, {}
        )
        state.updated = None
        if NUMA in self.document.get("settings", {}).get("enabled_filters", ()):
            ratios = {
                f"{kind}_allocation_ratio": getattr(state, f"{kind}_allocation_ratio")
                for kind in ("cpu", "ram")
            }
            state.limits["numa_topology"] = objects.NUMATopologyLimits(**ratios)
        servers = [server for server in self.servers.values() if server["host"] == name]
        for server in servers:
            consume(state, server)
        state.num_io_ops = len([server for server in servers if server.get("is_building")])
        self.states[name] = state

    def allocate(self, servers: Any) -> None:
        """Create the allocations of servers."""
        rows = [
            {
                "resource_provider_id": self.numbers[server["host"]],
                "consumer_id": server["uuid"],
                "resource_class_id": self.classes[resource],
                "used": amount,
            }
            for server in servers
            for resource, amount in server["resources"].items()
        ]
        self.placement.insert(models.Allocation, rows)

    def compute_resources(self, server: dict[str, Any]) -> dict[str, int]:
        """Return the amounts by resource class allocated by Placement for an existing server."""
        # Of its flavor or image: then only Nova itself knows the amounts.
        if has_resource_properties(server):
            # The amounts do not depend on the id.
            spec = build_request_spec(server, str(uuid.uuid4()))
            # Nova requests VCPU in place of PCPU if the host has no PCPU.
            has_dedicated = "PCPU" in self.document["hosts"][server["host"]]["resources"]
            resources: dict[str, int] = ResourceRequest.from_request_spec(
                spec, has_dedicated
            ).merged_resources()
            return resources
        # VCPU, memory and disk.
        amounts = {name: server[key] for key, name in CLASSES.items()}
        amounts["PCPU"] = server.get("dedicated_vcpus") or 0
        amounts |= server.get("other_resources") or {}
        return {name: amount for name, amount in amounts.items() if amount}

    def release(self, name: str) -> None:
        """Remove a server."""
        server = self.servers.pop(name)
        self.placement.delete(models.Allocation, consumer_id=server["uuid"])
        self.update_host_state(server["host"])

    def finish_build(self, name: str) -> None:
        """Mark a server as built: it no longer counts for the weigher of I/O operations."""
        self.servers[name]["is_building"] = False
        self.update_host_state(self.servers[name]["host"])

    def remove_members(self, group: dict[str, Any]) -> None:
        """Remove the members that stand for those of a group from their hosts.

        A later group may have its name, or its members other hosts.
        """
        for number, host in enumerate(group.get("members", ())):
            self.states[host].instances.pop(f"{group['name']} {number}", None)

    def delete(self) -> None:
        """Remove the site from Placement, and its settings from Nova."""
        for model in (
            models.Allocation,
            models.Inventory,
            models.ResourceProviderTrait,
            models.ResourceProviderAggregate,
            models.PlacementAggregate,
            models.ResourceProvider,
        ):
            self.placement.delete(model)
        for name in self.document.get("settings", {}).get("weight_multipliers", {}):
            CONF.clear_override(f"{name}_weight_multiplier", group="filter_scheduler")

    def list_candidates(self, spec: Any, zones: list[str]) -> dict[str, list[Any]]:
        """Return Placement's allocation candidates by host.

        Like Nova, dedicated CPUs are PCPU, then VCPU.
        """
        request = ResourceRequest.from_request_spec(spec)
        queries = [request.to_querystring()]
        if request.cpu_pinning_requested:
            queries.append(
                ResourceRequest.from_request_spec(
                    spec, enable_pinning_translate=False
                ).to_querystring()
            )
        candidates: dict[str, list[Any]] = {}
        for text in queries:
            query = f"/allocation_candidates?{text}"
            if zones:
                query += "&member_of=in:" + ",".join(map(compute_zone_id, zones))
            try:
                found = self.placement.call("GET", query)["allocation_requests"]
            except RuntimeError:
                # Like Nova, no host for conflicting traits.
                continue
            for candidate in found:
                for provider in candidate["allocations"]:
                    candidates.setdefault(provider, []).append(candidate)
        return {
            name: candidates[provider]
            for name, provider in self.providers.items()
            if provider in candidates
        }

    def decide(self, request: dict[str, Any], number: int) -> list[str]:
        """Return the hosts of highest weight for a request, [] if none fits.

        Its `released` servers are deleted first, and its `finished` ones no longer build. Add the
        server to the `host` of the request, else to the first one. A server without a name is
        r<number>.
        """
        for name in request.get("released", ()):
            if name in self.servers:
                self.release(name)
        for name in request.get("finished", ()):
            if name in self.servers:
                self.finish_build(name)
        flavor = request["flavor"]
        group = request.get("group")
        instance_group = self.build_group(group) if group else None
        try:
            spec = build_request_spec(
                {**flavor, "image": request.get("image")}, str(uuid.uuid4()), instance_group
            )
            spec.scheduler_hints = {
                name: [value] for name, value in (request.get("hints") or {}).items()
            }
            # Traits for properties as hw:virtio_packed_ring. That of owners reads a database.
            for add_traits in request_filter.ALL_REQUEST_FILTERS:
                if add_traits is not request_filter.owner_nova_filter:
                    add_traits(context.get_admin_context(), spec)
        except (exception.NovaException, ValueError):
            # Nova's API rejects the server.
            return []
        candidates = self.list_candidates(spec, request.get("zones") or [])
        states = [self.states[name] for name in sorted(candidates)]
        for state in states:
            state.allocation_candidates = list(candidates[state.host])
        states = list(
            filters.HostFilterHandler().get_filtered_objects(self.filters, states, spec) or ()
        )
        weighed = weights.HostWeightHandler().get_weighed_objects(self.weighers, states, spec)
        self.remove_members(group or {})
        size = self.document.get("settings", {}).get("host_subset_size", 1)
        # Nova chooses one of the `size` best hosts; others of equal weight may be among them.
        best = [
            item
            for item in weighed
            if item.weight >= weighed[min(size, len(weighed)) - 1].weight - TOLERANCE
        ]
        hosts = sorted(item.obj.host for item in best)
        host = request.get("host", hosts[0] if hosts else None)
        if host:
            sizes = {key: flavor[key] for key in (*CLASSES, "properties") if key in flavor}
            sizes["image"] = request.get("image")
            server = {
                "host": host,
                **sizes,
                "uuid": spec.instance_uuid,
                "group": group and group["name"],
            }
            # Like Nova's claim: the first candidate that passed the filters.
            choice = self.states[host].allocation_candidates[:1] if host in candidates else []
            self.add_server(request.get("name", f"r{number}"), server, choice)
        return hosts

    def add_server(self, name: str, server: dict[str, Any], choice: list[Any]) -> None:
        """Add a server to its host, with resources of the chosen allocation candidate.

        Compute them if there is none.
        """
        host = server["host"]
        provider = self.providers[host]
        server["resources"] = (
            choice[0]["allocations"][provider]["resources"]
            if choice
            else self.compute_resources(server)
        )
        self.servers[name] = {**server, "is_building": True}
        self.allocate([server])
        consume(self.states[host], server)

    def build_group(self, group: dict[str, Any]) -> Any:
        """Build a server group {name, policy, max}.

        Its members are its servers, or one for each host in `members`.
        """
        members = {
            server["uuid"]: server["host"]
            for server in self.servers.values()
            if server.get("group") == group["name"]
        }
        if "members" in group:
            members = {
                f"{group['name']} {number}": host for number, host in enumerate(group["members"])
            }
            for member, host in members.items():
                # Weighers count the members on a host, until remove_members.
                self.states[host].instances[member] = None
        result = objects.InstanceGroup(
            uuid=str(uuid.uuid4()),
            policy=group["policy"],
            members=list(members),
            hosts=list(members.values()),
        )
        result.policies = [group["policy"]]
        rules = (
            {"max_server_per_host": str(group["max"])} if group["policy"] == "anti-affinity" else {}
        )
        result._rules = rules  # noqa: SLF001 - loaded from a database otherwise
        return result


def has_resource_properties(server: dict[str, Any]) -> bool:
    """Return whether the properties of the flavor or of the image of a server are known."""
    return bool(server.get("properties") or server.get("image"))


def consume(state: Any, server: dict[str, Any]) -> None:
    """Subtract a server from the free capacity of a host state."""
    vcpus = (
        server["vcpus"] + (server.get("dedicated_vcpus") or 0) - (server.get("emulator_vcpus") or 0)
    )
    size = {"vcpus": vcpus, "memory_mib": server["memory_mib"], "disk_gib": server["disk_gib"]}
    for name, amount in (server.get("unallocated") or {}).items():
        # Nova's figures of a host count the size of the flavor.
        size[name] += amount
    state.consume_from_request(build_request_spec({**server, **size}, server["uuid"]))
    state.instances[server["uuid"]] = None


def build_request_spec(flavor: dict[str, Any], instance: str, group: Any = None) -> Any:
    """Build the request for a server.

    `instance` is its UUID. The request has the cells and PCI devices of its flavor and image.
    """
    size = objects.Flavor(
        vcpus=flavor["vcpus"],
        memory_mb=flavor["memory_mib"],
        root_gb=flavor["disk_gib"],
        ephemeral_gb=0,
        swap=0,
        extra_specs=flavor.get("properties", {}),
    )
    meta = objects.ImageMeta(
        properties=objects.ImageMetaProps.from_dict(dict(flavor.get("image") or {}))
    )
    affinity = hardware.get_pci_numa_policy_constraint(size, meta)
    return objects.RequestSpec(
        context.get_admin_context(),
        flavor=size,
        image=meta,
        instance_group=group,
        instance_uuid=instance,
        scheduler_hints={},
        numa_topology=hardware.numa_get_constraints(size, meta),
        pci_requests=pci_request.get_pci_requests_from_flavor(size, affinity_policy=affinity),
        requested_destination=None,
        requested_resources=[],
        request_level_params=objects.RequestLevelParams(),
        availability_zone=None,
        project_id="p",
    )


def build_numa_topology(cells: list[dict[str, Any]]) -> str | None:
    """Build the NUMA cells of a host as Nova stores them, None if they are not known."""
    if not cells:
        return None
    numa_cells = [
        objects.NUMACell(
            id=cell["id"],
            cpuset=hardware.parse_cpu_spec(cell["shared"]),
            pcpuset=hardware.parse_cpu_spec(cell["dedicated"]),
            memory=cell["memory_mib"],
            cpu_usage=cell.get("used_vcpus", 0),
            memory_usage=cell.get("used_memory_mib", 0),
            pinned_cpus=hardware.parse_cpu_spec(cell.get("pinned", "")),
            siblings=list(map(hardware.parse_cpu_spec, cell["siblings"])),
            mempages=[
                objects.NUMAPagesTopology(
                    size_kb=pages["size_kib"],
                    total=pages["total"],
                    used=pages.get("used", 0),
                    reserved=pages.get("reserved", 0),
                )
                for pages in cell["pages"]
            ],
            socket=cell.get("socket"),
        )
        for cell in cells
    ]
    return json.dumps(objects.NUMATopology(cells=numa_cells).obj_to_primitive())


def build_pci_device_pools(pools: list[dict[str, Any]]) -> Any:
    """Build the free PCI devices of a host."""
    rows = [
        {**pool["properties"], "numa_node": pool["numa_node"], "count": pool["count"]}
        for pool in pools
    ]
    return objects.PciDevicePoolList(objects=list(map(objects.PciDevicePool.from_dict, rows)))


def compute_zone_id(zone: str) -> str:
    """Return the id of the aggregate of an availability zone."""
    return str(uuid.uuid5(ZONES, zone))


def decide_requests() -> None:
    """Decide the requests of the sites in the first argument or stdin.

    Write to the second one or stdout.
    """
    logging.disable()
    objects.register_all()
    CONF([], project="nova", default_config_files=[])
    # Speed: the schemas of Placement are constant, and no other thread waits for the database.
    Draft202012Validator.check_schema = classmethod(
        lambda _class, _schema, *_arguments, **_options: None
    )
    engines.time = SimpleNamespace(sleep=lambda _seconds: None)
    source = Path(sys.argv[1]).open() if len(sys.argv) > 1 else sys.stdin  # noqa: SIM115 - open until the end
    answers = Path(sys.argv[2]).open("w") if len(sys.argv) > 2 else sys.stdout  # noqa: SIM115 - the same
    answers.write(
        json.dumps({name: version(name) for name in ("nova", "openstack-placement")}) + "\n"
    )
    answers.flush()
    placement = OpenstackPlacementService()
    for line in source:
        document = json.loads(line)
        site = NovaSiteState(placement, document)
        for number, request in enumerate(document["requests"]):
            answers.write(json.dumps(site.decide(request, number)) + "\n")
            answers.flush()
        site.delete()


if __name__ == "__main__":
    decide_requests()
