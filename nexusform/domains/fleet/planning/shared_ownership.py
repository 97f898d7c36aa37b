"""Placements with fields of other managers: a server-side apply merges the configured fields over them. A
provider records the foreign fields (`FOREIGN_FIELDS`, as arguments) and their managers (`OWNERS`, by API
path).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_documents import read_fleet_document
from nexusform.domains.fleet.importers.fleet_records import FleetPlacement
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.planning.instances.instance import Instance
from nexusform.schemas.block_schema import BlockSchema, Nesting

# Key of the hub record in an object's private note, and its members: UID, foreign fields, their managers, and
# objects in deletion.
ON_HUB: Final = "hub"
UID: Final = "uid"
DELETING: Final = "deleting"
FOREIGN_FIELDS: Final = "others"
OWNERS: Final = "owners"
TOLERATIONS: Final = "spec.policy.tolerations"
Values = Mapping[str, Any]


def build_merged_placement(instance: Instance, attributes: Values) -> FleetPlacement | None:
    """Build the placement from attributes and the fields of other managers; None for another object."""
    assert instance.type.build_fleet_object is not None
    configured = instance.type.build_fleet_object(attributes)
    if not isinstance(configured, FleetPlacement):
        return None
    foreign_fields = _get_recorded_hub_data(instance).get(FOREIGN_FIELDS)
    if not foreign_fields:
        return configured
    arguments = _merge_arguments(instance.type.schema, foreign_fields, _read_arguments(instance, attributes))
    placement = instance.type.build_fleet_object({**attributes, "manifest": None, **arguments})
    assert isinstance(placement, FleetPlacement)
    return replace(placement, accepts_old_names=configured.accepts_old_names)


def find_field_owner(instance: Instance, path: str) -> str:
    """Return the other manager of a placement's field, given its API path; "" if there is none."""
    return str((_get_recorded_hub_data(instance).get(OWNERS) or {}).get(path, ""))


def find_deleting_objects(instance: Instance) -> frozenset[str]:
    """Return the objects of an instance in deletion on its hub: `group/kind/namespace/name`."""
    return frozenset(_get_recorded_hub_data(instance).get(DELETING) or ())


def _get_recorded_hub_data(instance: Instance) -> Values:
    """Return the recorded hub data of an existing object that is kept."""
    if instance.prior is None or instance.is_replaced:
        return {}
    return (instance.prior.private or {}).get(ON_HUB) or {}


def _read_arguments(instance: Instance, attributes: Values) -> Values:
    """Return the arguments, from the manifest if set, else from the blocks."""
    manifest = attributes.get("manifest")
    if not isinstance(manifest, str):
        return attributes
    api = next(api for api in API_KINDS.values() if api.type_name == instance.type.name)
    lenient = attributes.get("lenient") is True
    return read_fleet_document("manifest", manifest, api, instance.type.schema, lenient=lenient).values


def _merge_arguments(schema: BlockSchema, foreign: Values, configured: Values) -> dict[str, Any]:
    """Merge configured arguments over foreign ones. Repeated blocks have one owner as a whole; values at
    their default are not sent.
    """
    merged: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        value = configured.get(name)
        if name in foreign and (value is None or value == attribute.default):
            merged[name] = foreign[name]
        elif name in configured:
            merged[name] = value
    for name, block in schema.blocks.items():
        value = configured.get(name)
        if name not in foreign or (value and block.nesting is Nesting.LIST):
            merged[name] = value
        elif value and foreign[name]:
            merged[name] = _merge_arguments(block.schema, foreign[name], value)
        else:
            merged[name] = value or foreign[name]
    return merged
