"""Driver of Heat: parses HOT files with Heat's own code, and prints the requests of their servers.

It runs in an environment of its own: `pip install openstack-heat==27.0.1`. Each line of the input
file is a stack {template, files, parameters}. Each line of the output is {servers} or {problem};
the first one has the version. Heat's parser, functions, groups, nested templates and Server
resources do the work. Nothing is created, and no cloud is reached.
"""

import json
import logging
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import novaclient
from heat.common import context, grouputils, template_format
from heat.engine import clients, environment, resources, stack, template
from heat.engine.resources.openstack.cinder.volume import CinderVolume
from heat.engine.resources.openstack.nova.flavor import NovaFlavor
from heat.engine.resources.openstack.nova.server import Server
from heat.engine.resources.openstack.nova.server_group import ServerGroup
from heat.engine.resources.stack_resource import StackResource
from novaclient.v2 import servers as nova_servers
from oslo_config import cfg

MAX_DEPTH = 8


class BodyBuilder(nova_servers.ServerManager):  # type: ignore[misc]  # of another environment
    """Client of Nova that returns the body of a request instead of sending it."""

    def _create(self, _url: str, body: Any, *_arguments: Any, **_options: Any) -> Any:
        return body


class StackReader:
    """Reader of one stack: its servers, and what it creates for them by reference."""

    def __init__(self) -> None:
        """Start without resources."""
        self.context = context.RequestContext(is_admin=True, project_id="p", user_id="u")
        self.groups: dict[str, dict[str, Any]] = {}
        self.flavors: dict[str, dict[str, Any]] = {}
        self.volumes: dict[str, dict[str, Any]] = {}
        # Heat takes the newest version that client and Nova share.
        self.client = BodyBuilder(SimpleNamespace(api_version=novaclient.API_MAX_VERSION))

    def read(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the requests of the servers of a stack in an order of creation.

        Also return the flavors and volumes that the stack creates.
        """
        parsed = template.Template(
            template_format.parse(document["template"]),
            env=environment.Environment({"parameters": document["parameters"]}),
            files=document["files"],
        )
        servers = list(self._list_servers(stack.Stack(self.context, "stack", parsed), (), 0))
        return {"servers": servers, "flavors": self.flavors, "volumes": self.volumes}

    def _list_servers(
        self, current: Any, path: tuple[str, ...], depth: int
    ) -> Iterator[dict[str, Any]]:
        """Yield the servers of a stack and of its nested stacks."""
        if depth > MAX_DEPTH:
            raise ValueError("stacks are nested too deeply")
        # Dependencies come first, so groups are known before their members.
        for resource in current.dependencies:
            # In place of the id that the cloud gives: names repeat in nested stacks.
            reference = "/".join((*path, resource.name))
            resource.resource_id = reference
            if isinstance(resource, ServerGroup):
                self._add_group(resource, reference)
            elif isinstance(resource, NovaFlavor):
                self.flavors[reference] = {
                    name: resource.properties[name]
                    for name in ("ram", "vcpus", "disk", "ephemeral", "swap", "extra_specs")
                }
            elif isinstance(resource, CinderVolume):
                self.volumes[reference] = {
                    name: resource.properties[name] for name in ("image", "size")
                }
        for resource in current.dependencies:
            own_path = (*path, resource.name)
            if isinstance(resource, Server):
                yield {
                    "path": own_path,
                    "needs": self._list_needs(current, resource, path),
                    **self._read_server(resource),
                }
            elif isinstance(resource, StackResource):
                # It counts the resources of all stacks in Heat's database.
                resource._validate_nested_resources = lambda _template: None  # noqa: SLF001
                child = resource._parse_nested_stack(  # noqa: SLF001 - as create_with_template
                    "nested", resource.child_template(), resource.child_params()
                )
                needs = self._list_needs(current, resource, path)
                for server in self._list_servers(child, own_path, depth + 1):
                    yield {**server, "needs": [*needs, *server["needs"]]}

    def _list_needs(
        self, current: Any, resource: Any, path: tuple[str, ...]
    ) -> list[tuple[str, ...]]:
        """Return the paths of all resources that Heat creates before one."""
        found: dict[str, None] = {}
        waiting = [resource]
        while waiting:
            for needed in current.dependencies.requires(waiting.pop()):
                if needed.name not in found:
                    found[needed.name] = None
                    waiting.append(needed)
        return [(*path, name) for name in found]

    def _add_group(self, resource: Any, reference: str) -> None:
        """Add a server group by its reference."""
        rules = resource.properties.get(ServerGroup.RULES) or {}
        policies = resource.properties[ServerGroup.POLICIES]
        self.groups[reference] = {
            "name": reference,
            "policy": policies[0] if policies else "",
            "max": rules.get("max_server_per_host") or 1,
        }

    def _read_server(self, resource: Any) -> dict[str, Any]:
        """Return the request of a server as Heat sends it to Nova, with its group.

        Heat's own exception says which devices it refuses.
        """
        resource._validate_block_device_mapping()  # noqa: SLF001 - a part of validate(), which needs a cloud
        properties = resource.properties
        hints = resource._scheduler_hints(properties[Server.SCHEDULER_HINTS]) or {}  # noqa: SLF001 - as handle_create
        # The same as in handle_create, without networks, keys and user data.
        body = self.client.create(
            name=resource.name,
            image=properties[Server.IMAGE],
            flavor=properties[Server.FLAVOR],
            scheduler_hints=hints,
            nics="auto",
            availability_zone=properties[Server.AVAILABILITY_ZONE],
            block_device_mapping=resource._build_block_device_mapping(  # noqa: SLF001 - as handle_create
                properties[Server.BLOCK_DEVICE_MAPPING]
            ),
            block_device_mapping_v2=resource._build_block_device_mapping_v2(  # noqa: SLF001 - as handle_create
                properties[Server.BLOCK_DEVICE_MAPPING_V2]
            ),
        )
        group = hints.get("group")
        return {
            "body": body,
            "group": self.groups.get(str(group), {"name": str(group)}) if group else None,
        }


def read_stacks() -> None:
    """Read the stacks of the first argument, and write the answers to the second one."""
    logging.disable()
    cfg.CONF([], project="heat", default_config_files=[])
    clients.initialise()
    resources.initialise()
    # Groups of a new stack have no members yet; Heat would ask its engine for them.
    grouputils.GroupInspector.from_parent_resource = classmethod(
        lambda cls, parent: cls(parent.context, None, None)
    )
    with Path(sys.argv[1]).open() as source, Path(sys.argv[2]).open("w") as answers:
        answers.write(json.dumps({"heat": version("openstack-heat")}) + "\n")
        for line in source:
            try:
                answer = StackReader().read(json.loads(line))
            except Exception as problem:  # noqa: BLE001 - any error of Heat refuses the stack
                answer = {"problem": f"{type(problem).__name__}: {problem}"}
            answers.write(json.dumps(answer, default=str) + "\n")
            answers.flush()


if __name__ == "__main__":
    read_stacks()
