"""A placement as it stands on a hub once what is written is applied: a server-side apply lays our fields over
those that others own, which stay.

A provider notes what others own (`OF_OTHERS`, as arguments) and who (`OWNERS`, by path in the API).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_documents import read_fleet_document
from nexusform.domains.fleet.importers.fleet_model import FleetPlacement
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.planning.instances.instance import Instance
from nexusform.schema import BlockSchema, Nesting

# Under which key the note of an object holds what a provider knows of it on its hub, and under which keys of
# that which object it is, what others own of it, and who they are.
ON_HUB: Final = "hub"
UID: Final = "uid"
OF_OTHERS: Final = "others"
OWNERS: Final = "owners"
TOLERATIONS: Final = "spec.policy.tolerations"
Values = Mapping[str, Any]


def placement_beside_others(instance: Instance, attributes: Values) -> FleetPlacement | None:
    """The placement that attributes say, with the fields of others; None for another object."""
    assert instance.type.fleet is not None
    written = instance.type.fleet(attributes)
    if not isinstance(written, FleetPlacement):
        return None
    theirs = _noted(instance).get(OF_OTHERS)
    if not theirs:
        return written
    arguments = _laid_over(instance.type.schema, theirs, _arguments(instance, attributes))
    placement = instance.type.fleet({**attributes, "manifest": None, **arguments})
    assert isinstance(placement, FleetPlacement)
    return replace(placement, old_names=written.old_names)


def owner_of(instance: Instance, path: str) -> str:
    """Who else owns a field of a placement, which its path in the API names; "" for nobody."""
    return str((_noted(instance).get(OWNERS) or {}).get(path, ""))


def _noted(instance: Instance) -> Values:
    """What is noted of the object that stands and stays."""
    if instance.prior is None or instance.replaced:
        return {}
    return (instance.prior.private or {}).get(ON_HUB) or {}


def _arguments(instance: Instance, attributes: Values) -> Values:
    """The arguments: of the manifest where there is one, else the blocks."""
    manifest = attributes.get("manifest")
    if not isinstance(manifest, str):
        return attributes
    api = next(api for api in API_KINDS.values() if api.type_name == instance.type.name)
    lenient = attributes.get("lenient") is True
    return read_fleet_document("manifest", manifest, api, instance.type.schema, lenient=lenient).values


def _laid_over(schema: BlockSchema, theirs: Values, written: Values) -> dict[str, Any]:
    """Written arguments over those of others. Repeated blocks are owned as a whole, and what is at its
    default is not sent.
    """
    laid: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        said = written.get(name)
        if name in theirs and (said is None or said == attribute.default):
            laid[name] = theirs[name]
        elif name in written:
            laid[name] = said
    for name, block in schema.blocks.items():
        said = written.get(name)
        if name not in theirs or (said and block.nesting is Nesting.LIST):
            laid[name] = said
        elif said and theirs[name]:
            laid[name] = _laid_over(block.schema, theirs[name], said)
        else:
            laid[name] = said or theirs[name]
    return laid
