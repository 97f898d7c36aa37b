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

A request may have the `body` of POST /servers, and the `stack` with the flavors and volumes that
are created for it. Nova's API then reads it with the `flavors` and `images` of the site, and may
refuse it. The answer is {hosts}, {rejected} with Nova's reason or {unknown}; if the `host` is not
one of Nova's, it has the decision as a `case`. A server that exists may have a body, too.
"""

import json
import logging
import os
import sys
import uuid
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "true"

import sqlalchemy
import webob
from jsonschema import Draft202012Validator
from nova import block_device, context, exception, objects
from nova.api.openstack.compute import servers as servers_api
from nova.compute import api as compute_api
from nova.compute import utils as compute_utils
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
DEFAULT_ZONE = "default_schedule_zone"


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


class RefusedRequest(Exception):
    """Request that Nova's API refuses; the message is its reason."""


class UnknownFact(Exception):
    """Fact that only the cloud has, such as the image of an existing volume."""


class NamedObjects:
    """Images or volumes of a cloud by name, in place of Glance or Cinder."""

    def __init__(self, kind: str) -> None:
        """Start without objects."""
        self.kind = kind
        self.objects: dict[str, dict[str, Any]] = {}

    def get(self, _context: Any, name: str, **_options: Any) -> dict[str, Any]:
        """Return an object by name. Raises UnknownFact."""
        if name not in self.objects:
            raise UnknownFact(f"the {self.kind} {name}")
        return self.objects[name]

    def get_snapshot(self, _context: Any, name: str) -> dict[str, Any]:
        """Raise UnknownFact: no stack creates a snapshot."""
        raise UnknownFact(f"the snapshot {name}")

    def attachment_create(self, *_arguments: Any, **_options: Any) -> dict[str, Any]:
        """Return the attachment of a volume."""
        return {"id": str(uuid.uuid4())}


class ServersApi(compute_api.API):  # type: ignore[misc]  # of another environment
    """Nova's API for new servers, without quotas and database."""

    def __init__(self, document: dict[str, Any]) -> None:
        """Keep the flavors and images of a site."""
        # The constructor of Nova's class needs other services.
        self.flavors = {
            name: build_api_flavor(name, flavor)
            for name, flavor in document.get("flavors", {}).items()
        }
        self.image_api = NamedObjects("image")
        self.image_api.objects = {
            name: {"id": name, **image} for name, image in document.get("images", {}).items()
        }
        self.volume_api = NamedObjects("volume")

    def _check_metadata_properties_quota(self, *_arguments: Any) -> None:
        """Accept: quotas of a project are unknown."""

    def _check_injected_file_quota(self, *_arguments: Any) -> None:
        """Accept: quotas of a project are unknown."""

    def read_server(self, body: dict[str, Any], stack: dict[str, Any]) -> dict[str, Any]:
        """Return the server of a request, with the properties of its flavor and image.

        `zone` and `host` are requested, "" without a request. `disk_gib` is the size on the host
        that Nova's weighers count. Raises RefusedRequest, UnknownFact.
        """
        try:
            return self._read_server(json.loads(json.dumps(body["server"])), stack)
        except exception.NovaException as problem:
            raise RefusedRequest(problem.format_message()) from None
        except webob.exc.HTTPException as problem:
            raise RefusedRequest(problem.explanation) from None

    def _read_server(self, server: dict[str, Any], stack: dict[str, Any]) -> dict[str, Any]:
        """Do the same as create() of Nova's controller and API, up to the request to the scheduler.

        Raises exceptions of Nova, UnknownFact.
        """
        admin = context.get_admin_context()
        zone, host, _node = self.parse_availability_zone(admin, server.get("availability_zone"))
        flavor = self._find_flavor(server["flavorRef"], stack)
        self.volume_api.objects = {
            name: self._build_volume(name, volume) for name, volume in stack["volumes"].items()
        }
        options: dict[str, Any] = {}
        # Any user may attach volumes.
        with mock.patch.object(context.RequestContext, "can", return_value=True):
            servers_api.ServersController._process_bdms_for_create(  # noqa: SLF001 - a part of create()
                admin, {}, server, options
            )
            devices = options.get("block_device_mapping") or []
            is_legacy = options.get("legacy_bdm", True)
            image_id = server.get("imageRef") or None
            image = (
                self.image_api.get(admin, image_id)
                if image_id
                else self._read_boot_volume(admin, devices, is_legacy=is_legacy)
            )
            root = block_device.properties_root_device_name(image.get("properties", {}))
            base = {"root_device_name": block_device.prepend_dev(root), "image_ref": image_id or ""}
            mappings = self._check_and_transform_bdm(
                admin, base, flavor, image, 1, 1, devices, is_legacy
            )
            self._checks_for_create_and_rebuild(
                admin, image_id, image, flavor, {}, [], mappings.root_bdm(), sys.maxsize
            )
        instance = objects.Instance(uuid=str(uuid.uuid4()), image_ref=image_id)
        volumes = {
            mapping.volume_id: self.volume_api.objects.get(
                mapping.volume_id, {"id": mapping.volume_id, "multiattach": False}
            )
            for mapping in mappings
            if mapping.volume_id is not None
        }
        self._validate_bdm(admin, instance, flavor, mappings, {}, volumes)
        is_volume = compute_utils.is_volume_backed_instance(admin, instance, mappings)
        root_gib = 0 if is_volume else flavor.root_gb
        return {
            "vcpus": flavor.vcpus,
            "memory_mib": flavor.memory_mb,
            "disk_gib": root_gib + flavor.ephemeral_gb,
            "swap_mib": flavor.swap,
            "properties": flavor.extra_specs,
            "image": image.get("properties", {}),
            "zone": zone or "",
            "host": host or "",
        }

    def _find_flavor(self, name: str, stack: dict[str, Any]) -> Any:
        """Return a flavor of the stack or of the site. Raises UnknownFact."""
        if name in stack["flavors"]:
            flavor = stack["flavors"][name]
            return objects.Flavor(
                id=1,
                flavorid=name,
                name=name,
                disabled=False,
                vcpus=flavor["vcpus"],
                memory_mb=flavor["ram"],
                root_gb=flavor["disk"],
                ephemeral_gb=flavor["ephemeral"],
                swap=flavor["swap"],
                extra_specs=flavor["extra_specs"] or {},
            )
        if name not in self.flavors:
            raise UnknownFact(f"the flavor {name}")
        return self.flavors[name]

    def _build_volume(self, name: str, volume: dict[str, Any]) -> dict[str, Any]:
        """Return a volume of the stack as Cinder creates it."""
        image = self.image_api.objects.get(volume["image"] or "", {})
        texts = {key: str(image[key]) for key in ("min_ram", "min_disk") if key in image}
        return {
            "id": name,
            "size": volume["size"] or 0,
            "multiattach": False,
            # Cinder marks volumes of an image as bootable.
            "bootable": bool(volume["image"]),
            "volume_image_metadata": {**image.get("properties", {}), **texts},
        }

    def _read_boot_volume(self, admin: Any, devices: Any, *, is_legacy: bool) -> dict[str, Any]:
        """Return the image of the boot volume. Raises UnknownFact, exceptions of Nova."""
        for device in devices:
            # Nova's function turns each error into one of its own.
            if device.get("boot_index") == 0 or is_legacy:
                if name := device.get("volume_id"):
                    self.volume_api.get(admin, name)
                if name := device.get("image_id"):
                    self.image_api.get(admin, name)
                break
        image: dict[str, Any] = block_device.get_bdm_image_metadata(
            admin, self.image_api, self.volume_api, devices, is_legacy
        )
        return image


def build_api_flavor(name: str, flavor: dict[str, Any]) -> Any:
    """Build a flavor of a site; all of its disks are `disk_gib`."""
    swap = flavor.get("swap_mib") or 0
    root = flavor.get("root_disk_gib") or 0
    return objects.Flavor(
        id=1,
        flavorid=name,
        name=name,
        disabled=False,
        vcpus=flavor["vcpus"],
        memory_mb=flavor["memory_mib"],
        root_gb=root,
        ephemeral_gb=flavor["disk_gib"] - root - compute_utils.convert_mb_to_ceil_gb(swap),
        swap=swap,
        extra_specs=flavor.get("properties") or {},
    )


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
        if DEFAULT_ZONE in settings:
            CONF.set_override(DEFAULT_ZONE, settings[DEFAULT_ZONE] or None)
        self.api = ServersApi(document)
        self.create_providers()
        for name, values in document.get("servers", {}).items():
            server = values
            if "body" in values:
                with suppress(RefusedRequest, UnknownFact):
                    server = self.api.read_server(values["body"], values["stack"])
                group = values.get("group")
                server = {**server, "host": values["host"], "group": group and group["name"]}
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
        amounts["DISK_GB"] = sum_disks(server)
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
        CONF.clear_override(DEFAULT_ZONE)

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

    def decide(self, request: dict[str, Any], number: int) -> Any:
        """Return the hosts of highest weight for a request, [] if none fits.

        Its `released` servers are deleted first, and its `finished` ones no longer build. Add the
        server to the `host` of the request, else to the first one. A server without a name is
        r<number>. The answer to a request with a body is described above.
        """
        for name in request.get("released", ()):
            if name in self.servers:
                self.release(name)
        for name in request.get("finished", ()):
            if name in self.servers:
                self.finish_build(name)
        if "body" not in request:
            return self.schedule(request, number)
        try:
            server = self.api.read_server(request["body"], request["stack"])
        except RefusedRequest as problem:
            return {"rejected": str(problem)}
        except UnknownFact as problem:
            return {"unknown": str(problem)}
        zone, host = server.pop("zone"), server.pop("host")
        case = {
            "flavor": {name: server[name] for name in server if name != "image"},
            "image": server["image"],
            "group": request.get("group"),
            "zones": [zone] if zone else [],
        }
        servers = {name: export_server(other) for name, other in self.servers.items()}
        hosts = self.schedule({**request, **case, "forced": host}, number)
        if not request.get("host") or request["host"] in hosts:
            return {"hosts": hosts}
        site = {
            "hosts": self.document["hosts"],
            "settings": self.document["settings"],
            "servers": servers,
        }
        return {"hosts": hosts, "case": {"snapshot": site, "request": export_request(case)}}

    def schedule(self, request: dict[str, Any], number: int) -> list[str]:
        """Return the hosts of highest weight for a request that Nova's API accepts.

        Add the server.
        """
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
        if forced := request.get("forced"):
            # Nova runs no filter for a requested host.
            states = [state for state in states if state.host == forced]
        else:
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
            names = (*CLASSES, "properties", "swap_mib")
            server = {
                "host": host,
                **{key: flavor[key] for key in names if key in flavor},
                "image": request.get("image"),
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
        # A new state: filters have changed the one of the request.
        self.update_host_state(host)

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


def export_server(server: dict[str, Any]) -> dict[str, Any]:
    """Return a server of a recorded decision."""
    names = set(server) - {"uuid", "resources", "swap_mib", "zone"}
    return {**{name: server[name] for name in names}, "disk_gib": sum_disks(server)}


def export_request(case: dict[str, Any]) -> dict[str, Any]:
    """Return the request of a recorded decision."""
    flavor = {name: case["flavor"][name] for name in case["flavor"] if name != "swap_mib"}
    return {**case, "flavor": {**flavor, "disk_gib": sum_disks(case["flavor"])}}


def sum_disks(server: dict[str, Any]) -> int:
    """Return the GiB of disk that Placement allocates for a server: with its swap."""
    swap: int = compute_utils.convert_mb_to_ceil_gb(server.get("swap_mib") or 0)
    return int(server["disk_gib"]) + swap


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
        swap=flavor.get("swap_mib") or 0,
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
