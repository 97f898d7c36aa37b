"""Decisions of the real Nova filters, Nova weighers and Placement, in process. Runs in an environment of its own:
`pip install nova==34.0.0 openstack-placement==16.0.0`. Reads sites with requests (one JSON document a line), and
writes the tied hosts of each request, after earlier requests ran on the hosts named by them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import uuid
from pathlib import Path

os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "true"

import webob
from nova import context, objects
from nova.conf import CONF
from nova.scheduler import filters, host_manager, weights
from oslo_config import cfg
from placement import conf as placement_conf
from placement import db_api, deploy
from placement.db.sqlalchemy import migration

CLASSES = {"vcpus": "VCPU", "memory_mib": "MEMORY_MB", "disk_gib": "DISK_GB"}
TOLERANCE = 1e-9


class PlacementService:
    """Placement on a SQLite file, called through its WSGI application."""

    def __init__(self, directory: str) -> None:
        settings = cfg.ConfigOpts()
        placement_conf.register_opts(settings)
        settings.set_override("connection", f"sqlite:///{directory}/placement.db", group="placement_database")
        settings([], default_config_files=[])
        settings.set_override("auth_strategy", "noauth2", group="api")
        db_api.configure(settings)
        migration.upgrade("head")
        self.application = deploy.loadapp(settings)

    def call(self, method: str, path: str, body: object = None) -> dict:
        headers = {"x-auth-token": "admin", "OpenStack-API-Version": "placement latest", "Accept": "application/json"}
        request = webob.Request.blank(path, method=method, headers=headers)
        if body is not None:
            request.content_type = "application/json"
            request.body = json.dumps(body).encode()
        response = request.get_response(self.application)
        assert response.status_int < 300, (method, path, response.status, response.text)
        return json.loads(response.body) if response.body else {}


class Site:
    """Hosts of one site, in Placement and as Nova's host states."""

    def __init__(self, placement: PlacementService, document: dict) -> None:
        self.placement = placement
        self.document = document
        self.states = {}
        self.providers = {}
        self.group_members = {}
        self.consumers = []
        settings = document.get("settings", {})
        for name, value in settings.get("weight_multipliers", {}).items():
            CONF.set_override(f"{name}_weight_multiplier", value, group="filter_scheduler")
        for name, host in document["hosts"].items():
            self.create_provider(name, host)
            self.states[name] = self.build_state(name, host)
        for server in document.get("servers", {}).values():
            self.allocate(server["host"], server)
            self.consume(self.states[server["host"]], server, str(uuid.uuid4()))
        for state in self.states.values():
            state.num_io_ops = 0
        names = settings.get("enabled_filters", CONF.filter_scheduler.enabled_filters)
        known = {item.__name__: item for item in filters.all_filters()}
        self.filters = [known[name]() for name in names]
        for item in self.filters:
            if hasattr(item, "servicegroup_api"):
                item.servicegroup_api.service_is_up = lambda service: service["is_up"]
        self.weighers = [weigher() for weigher in weights.all_weighers() if weigher.__name__ != "CrossCellWeigher"]

    def create_provider(self, name: str, host: dict) -> None:
        self.providers[name] = str(uuid.uuid4())
        url = f"/resource_providers/{self.providers[name]}"
        self.placement.call("POST", "/resource_providers", {"name": self.providers[name], "uuid": self.providers[name]})
        self.placement.call(
            "PUT", f"{url}/inventories", {"resource_provider_generation": 0, "inventories": host["resources"]}
        )
        for trait in host.get("traits", ()):
            if trait.startswith("CUSTOM_"):
                self.placement.call("PUT", f"/traits/{trait}")
        if host.get("traits"):
            self.placement.call(
                "PUT", f"{url}/traits", {"resource_provider_generation": 1, "traits": list(host["traits"])}
            )

    def build_state(self, name: str, host: dict) -> host_manager.HostState:
        state = host_manager.HostState(name, name, uuid.uuid4())
        cpu, memory, disk = (host["resources"][resource] for resource in CLASSES.values())
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
            numa_topology=None,
            pci_device_pools=None,
            host_ip="10.0.0.1",
            hypervisor_type="QEMU",
            hypervisor_version=host.get("hypervisor_version", 0),
            hypervisor_hostname=name,
            cpu_info="{}",
            supported_hv_specs=[],
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
        reason = host.get("unschedulable_reason", "")
        state.update(node, {"disabled": "disabled" in reason, "is_up": "down" not in reason}, aggregates, {})
        state.updated = None
        return state

    def allocate(self, host: str, size: dict) -> None:
        resources = {name: size[key] for key, name in CLASSES.items() if size[key]}
        if not resources:
            return
        body = {
            "allocations": {self.providers[host]: {"resources": resources}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        self.consumers.append(str(uuid.uuid4()))
        self.placement.call("PUT", f"/allocations/{self.consumers[-1]}", body)

    def delete(self) -> None:
        """Remove the site from Placement, and its settings from Nova."""
        for consumer in self.consumers:
            self.placement.call("DELETE", f"/allocations/{consumer}")
        for provider in self.providers.values():
            self.placement.call("DELETE", f"/resource_providers/{provider}")
        for name in self.document.get("settings", {}).get("weight_multipliers", {}):
            CONF.clear_override(f"{name}_weight_multiplier", group="filter_scheduler")

    def consume(self, state: host_manager.HostState, size: dict, instance: str) -> None:
        flavor = objects.Flavor(
            vcpus=size["vcpus"], memory_mb=size["memory_mib"], root_gb=size["disk_gib"], ephemeral_gb=0, swap=0
        )
        spec = objects.RequestSpec(flavor=flavor, numa_topology=None, pci_requests=None)
        state.consume_from_request(spec)
        state.instances[instance] = None

    def list_candidates(self, flavor: dict) -> set[str]:
        """Return the hosts of Placement's allocation candidates."""
        amounts = ",".join(f"{name}:{flavor[key]}" for key, name in CLASSES.items() if flavor[key])
        traits = [key[6:] if value == "required" else f"!{key[6:]}" for key, value in self.list_traits(flavor)]
        query = f"/allocation_candidates?resources={amounts}" + (f"&required={','.join(traits)}" if traits else "")
        found = self.placement.call("GET", query)["provider_summaries"]
        return {name for name, provider in self.providers.items() if provider in found}

    def list_traits(self, flavor: dict) -> list[tuple[str, str]]:
        return [(key, value) for key, value in flavor.get("properties", {}).items() if key.startswith("trait:")]

    def decide(self, request: dict) -> list[str]:
        """Return the hosts of the highest weight, then place the request on its own `host`."""
        flavor, group = request["flavor"], request.get("group")
        instance_group = None
        if group is not None:
            members = self.group_members.setdefault(group["name"], {})
            instance_group = objects.InstanceGroup(
                uuid=str(uuid.uuid4()), policy=group["policy"], members=list(members), hosts=list(members.values())
            )
            instance_group.policies = [group["policy"]]
            rules = {"max_server_per_host": group["max"]} if group["policy"] == "anti-affinity" else {}
            instance_group._rules = {name: str(value) for name, value in rules.items()}
        spec = objects.RequestSpec(
            context.get_admin_context(),
            flavor=objects.Flavor(
                vcpus=flavor["vcpus"],
                memory_mb=flavor["memory_mib"],
                root_gb=flavor["disk_gib"],
                ephemeral_gb=0,
                swap=0,
                extra_specs=flavor.get("properties", {}),
            ),
            image=objects.ImageMeta(properties=objects.ImageMetaProps()),
            instance_group=instance_group,
            instance_uuid=str(uuid.uuid4()),
            scheduler_hints={},
            numa_topology=None,
            pci_requests=None,
            requested_destination=None,
        )
        states = [self.states[name] for name in sorted(self.list_candidates(flavor))]
        states = list(filters.HostFilterHandler().get_filtered_objects(self.filters, states, spec) or ())
        weighed = weights.HostWeightHandler().get_weighed_objects(self.weighers, states, spec)
        size = self.document.get("settings", {}).get("host_subset_size", 1)
        best = [item for item in weighed if item.weight >= weighed[min(size, len(weighed)) - 1].weight - TOLERANCE]
        host = request.get("host")
        if host:
            self.allocate(host, flavor)
            self.consume(self.states[host], flavor, spec.instance_uuid)
            if group is not None:
                members[spec.instance_uuid] = host
        return sorted(item.obj.host for item in best)


def main() -> None:
    objects.register_all()
    CONF([], project="nova", default_config_files=[])
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        placement = PlacementService(directory)
        for line in sys.stdin:
            document = json.loads(line)
            site = Site(placement, document)
            sys.stdout.write(json.dumps([site.decide(request) for request in document["requests"]]) + "\n")
            sys.stdout.flush()
            site.delete()


if __name__ == "__main__":
    main()
