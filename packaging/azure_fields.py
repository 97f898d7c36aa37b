"""Write domains/azure/importers/assets/azure_fields.json.

It has the resource types of Azure Operator Nexus, the fields of those that nexusform reads, what
each field holds, and the values of enumerations. Install azure-mgmt-networkcloud, run this, and
write what it prints to that file. A field that is new in Azure is then unread until
`azure_fields.py` says otherwise.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from enum import Enum
from importlib.metadata import version
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from azure.mgmt.networkcloud import NetworkCloudMgmtClient, models
from azure.mgmt.networkcloud.models import _models
from azure.mgmt.networkcloud.operations import _operations as operations

# Resources that nexusform reads, by the kind of document with them.
ROOTS = {
    "racks": models.Rack,
    "bare_metal_machines": models.BareMetalMachine,
    "virtual_machines": models.VirtualMachine,
    "kubernetes_clusters": models.KubernetesCluster,
    "agent_pools": models.AgentPool,
    "clusters": models.Cluster,
    "rack_skus": models.RackSku,
    "l3_networks": models.L3Network,
    "l2_networks": models.L2Network,
    "trunked_networks": models.TrunkedNetwork,
    "storage_appliances": models.StorageAppliance,
    "volumes": models.Volume,
    "kubernetes_versions": models.KubernetesVersion,
}
SCALARS = {int: "number", float: "number", bool: "boolean", str: "text"}
NAMES = {"models": models, "_models": models}


def describe_kind(hint: Any, types: dict[str, Any], enums: dict[str, Any]) -> str:
    """Return what a field holds: a scalar, a type or an enumeration; `[` a list, `{` a mapping."""
    if get_origin(hint) in (Union, UnionType):
        options = [option for option in get_args(hint) if option is not type(None)]
        # An enumeration comes after `str`: Azure may add values.
        return describe_kind(options[-1], types, enums)
    if get_origin(hint) is list:
        return f"[{describe_kind(get_args(hint)[0], types, enums)}"
    if get_origin(hint) is dict:
        return f"{{{describe_kind(get_args(hint)[1], types, enums)}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        enums[hint.__name__] = [member.value for member in hint]
        return hint.__name__
    if isinstance(hint, type) and hasattr(hint, "as_dict"):
        add_type(hint, types, enums)
        return hint.__name__
    # A time is a text.
    return SCALARS.get(hint, "text")


def add_type(model: Any, types: dict[str, Any], enums: dict[str, Any]) -> None:
    """Add the fields of a model and of the models that it reaches."""
    if model.__name__ in types:
        return
    fields = types.setdefault(model.__name__, {})
    hints = get_type_hints(model, {**vars(_models), **NAMES})
    # The first instance of a model lists its fields.
    model({})
    # The SDK has no public way to the names of the API.
    for name, part in model._attr_to_rest_field.items():  # noqa: SLF001
        rest_name = part._rest_name  # noqa: SLF001
        fields[rest_name] = describe_kind(hints[name], types, enums)


def list_resource_types() -> list[str]:
    """Return all resource types of the provider in lower case, as in ids of its requests."""
    pattern = re.compile(r"/providers/Microsoft\.NetworkCloud/(\w+)(?:/{\w+}/(\w+)/{)?")
    found = pattern.findall(inspect.getsource(operations))
    names = {"/".join(filter(None, parts)).lower() for parts in found}
    # Parts of the pattern that are no types.
    return sorted(names - {"operations"})


def main() -> None:
    """Print the document."""
    types: dict[str, Any] = {}
    enums: dict[str, Any] = {}
    for model in ROOTS.values():
        add_type(model, types, enums)
    # The client names its newest version, and operations the versions that brought them.
    texts = map(inspect.getsource, (sys.modules[NetworkCloudMgmtClient.__module__], operations))
    versions = re.findall(r'"(20\d\d-\d\d-\d\d(?:-preview)?)"', "".join(texts))
    document = {
        "sdk": version("azure-mgmt-networkcloud"),
        "api_versions": sorted(set(versions)),
        "resource_types": list_resource_types(),
        "kinds": {kind: model.__name__ for kind, model in ROOTS.items()},
        "types": dict(sorted(types.items())),
        "enums": dict(sorted(enums.items())),
    }
    sys.stdout.write(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
