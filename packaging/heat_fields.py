"""Write domains/vnf/importers/assets/heat_fields.json.

It has Heat's resource types, the properties of those that nexusform reads with their defaults, and
the template versions. Install openstack-heat, run this, and write what it prints to that file. A
property that is new in Heat is then unread until `hot_fields.py` says otherwise, and a new default
fails a test until `hot_defaults.py` has it.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from importlib.metadata import entry_points, version
from typing import Any

import heat.engine.resources

# Types that nexusform reads: their properties are listed.
READ_TYPES = (
    "AWS::AutoScaling::AutoScalingGroup",
    "AWS::AutoScaling::ScalingPolicy",
    "AWS::EC2::Instance",
    "OS::Heat::AutoScalingGroup",
    "OS::Heat::InstanceGroup",
    "OS::Heat::ResourceGroup",
    "OS::Heat::ScalingPolicy",
    "OS::Neutron::Port",
    "OS::Nova::Flavor",
    "OS::Nova::Server",
    "OS::Nova::ServerGroup",
)
KINDS = {
    "String": "a text",
    "Integer": "a whole number",
    "Number": "a number",
    "Boolean": "true or false",
    "List": "a list",
    "Map": "a mapping",
    "Any": "anything",
}


def collect_resource_types() -> dict[str, Any]:
    """Return the classes of Heat's resource types by name."""
    classes: dict[str, Any] = {}
    package = heat.engine.resources
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        mapping = getattr(importlib.import_module(module.name), "resource_mapping", None)
        if mapping is not None:
            classes.update(mapping())
    return classes


def collect_defaults(schemas: dict[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Return the defaults of properties by path: `block_device_mapping_v2.*.boot_index`."""
    defaults: dict[str, Any] = {}
    for name, schema in sorted(schemas.items(), key=lambda item: str(item[0])):
        path = f"{prefix}{name}"
        if schema.default is not None:
            defaults[path] = schema.default
        if schema.schema is not None:
            defaults.update(collect_defaults(dict(schema.schema), f"{path}."))
    return defaults


def list_template_versions() -> list[str]:
    """Return the versions of HOT templates, without those of CloudFormation and aliases."""
    names = (entry.name for entry in entry_points(group="heat.templates"))
    prefix = "heat_template_version."
    return sorted(re.sub(f"^{prefix}", "", name) for name in names if name.startswith(prefix))


def main() -> None:
    """Print the document."""
    classes = collect_resource_types()
    document = {
        "heat": version("openstack-heat"),
        "versions": list_template_versions(),
        "types": sorted(classes),
        "properties": {
            name: {
                field: KINDS[schema.type]
                for field, schema in sorted(classes[name].properties_schema.items())
            }
            for name in READ_TYPES
        },
        "defaults": {
            name: collect_defaults(classes[name].properties_schema) for name in READ_TYPES
        },
    }
    sys.stdout.write(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
