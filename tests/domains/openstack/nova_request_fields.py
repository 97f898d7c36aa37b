"""Script that prints the fields of a request that Nova knows, each with values to try, as JSON.

Run it with the interpreter of Nova. Extra specs are those of its validators, image properties those
of ImageMetaProps, scheduler hints those of its schema, and unscoped extra specs the attributes of a
host that ComputeCapabilitiesFilter compares.
"""

import json
import os
from collections.abc import Iterable
from typing import Any

os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "true"

from nova import objects
from nova.api.openstack.compute.schemas import servers
from nova.api.validation.extra_specs import validators
from nova.objects import fields
from nova.scheduler.host_manager import HostState

# Of a name with parameters, and of texts without an enumeration.
PARAMETERS = {"group": "", "num": "0", "key": "tier", "filter": "", "trait": "A", "resource": "A"}
TEXTS = ("1", "a")
TEXTS_BY_NAME = {
    "hw:mem_page_size": ("small", "large", "2048"),
    "hw:cpu_dedicated_mask": ("0",),
    "hw:cpu_realtime_mask": ("^0",),
    "pci_passthrough:alias": ("nic:1", "other:1"),
    "hw_mem_page_size": ("small", "2048"),
    "hw_cpu_realtime_mask": ("^0",),
    "hw_architecture": ("x86_64", "aarch64"),
}
HINT_VALUES = {"build_near_host_ip": ["10.0.0.1"], "cidr": ["/24"], "query": ['["=", "$a", "b"]']}


def list_extra_spec_values(name: str, value: dict[str, Any]) -> Iterable[str]:
    """Return the texts to try for an extra spec."""
    if name in TEXTS_BY_NAME:
        return TEXTS_BY_NAME[name]
    if "enum" in value:
        return value["enum"]
    return {bool: ("true", "false"), int: ("0", "1", "2")}.get(value["type"], TEXTS)


def list_image_values(name: str, field: Any) -> Iterable[str]:
    """Return the texts to try for a property of an image."""
    kind = field.AUTO_TYPE if hasattr(field, "AUTO_TYPE") else field._type
    if name in TEXTS_BY_NAME:
        return TEXTS_BY_NAME[name]
    if isinstance(kind, fields.Enum):
        return kind._valid_values
    if isinstance(field, fields.FlexibleBooleanField | fields.BooleanField):
        return ("true", "false")
    return ("1", "2") if isinstance(field, fields.IntegerField) else TEXTS


def print_fields() -> None:
    """Print the names and values by kind of field."""
    objects.register_all()
    validators.load_validators()
    extra_specs = {
        name.format(**PARAMETERS): list_extra_spec_values(name, validator.value)
        for name, validator in validators.VALIDATORS.items()
    }
    attributes = [name for name in vars(HostState("a", "a", None)) if not name.startswith("_")]
    extra_specs |= dict.fromkeys(attributes, TEXTS)
    image = {
        name: list_image_values(name, field)
        for name, field in objects.ImageMetaProps.fields.items()
        # Lists of objects, set by Nova in snapshots: a text is an error.
        if name not in ("img_block_device_mapping", "img_mappings")
    }
    hints = {
        name: HINT_VALUES.get(name, ["00000000-0000-4000-8000-000000000001"])
        for name in servers._hints["properties"]
    }
    document = {"properties": extra_specs, "image": image, "hints": hints}
    print(
        json.dumps(
            {
                kind: {name: list(map(str, values)) for name, values in table.items()}
                for kind, table in document.items()
            }
        )
    )


print_fields()
