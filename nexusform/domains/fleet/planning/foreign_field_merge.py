"""Placements and hub objects with fields of other managers.

A server-side apply merges the configured fields over them. A provider records the foreign fields
(`FOREIGN_FIELDS`, as arguments) and their managers (`OWNERS`, by API path).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_documents import read_fleet_document
from nexusform.domains.fleet.importers.fleet_records import FleetObject, FleetPlacement
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.planning.override_rendering import get_object_identity
from nexusform.domains.fleet.planning.placement_records import compute_comparable_hash
from nexusform.domains.pods.importers.manifest_parser import Manifest, build_changed_manifest
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.json_data.plain_data import get_mapping, get_text, get_value_at_path, list_texts
from nexusform.planning.instances.instance import Instance
from nexusform.schemas.block_schema import BlockSchema, Nesting

# Key of the hub record in an object's private note, and its members: UID, foreign fields, their
# managers, and objects in deletion.
ON_HUB: Final = "hub"
UID: Final = "uid"
DELETING: Final = "deleting"
FOREIGN_FIELDS: Final = "others"
OWNERS: Final = "owners"
TOLERATIONS: Final = "spec.policy.tolerations"
Values = Mapping[str, Any]


def build_object(instance: Instance, attributes: Values) -> FleetObject:
    """Build the fleet object of an instance from attributes."""
    assert isinstance(instance.type, FleetObjectType)
    fleet_object: FleetObject = instance.type.build_fleet_object(attributes)
    return fleet_object


def build_merged_placement(instance: Instance, attributes: Values) -> FleetPlacement:
    """Build the placement from attributes and the recorded fields of other managers on its hub."""
    configured = build_object(instance, attributes)
    assert isinstance(configured, FleetPlacement)
    foreign_fields = _get_recorded_hub_data(instance).get(FOREIGN_FIELDS)
    if not foreign_fields:
        return configured
    arguments = _merge_arguments(
        instance.type.schema, foreign_fields, _read_arguments(instance, attributes)
    )
    placement = build_object(instance, {**attributes, "manifest": None, **arguments})
    assert isinstance(placement, FleetPlacement)
    # A property of the dropped manifest.
    return replace(placement, accepts_old_names=configured.accepts_old_names)


def find_field_owner(instance: Instance, path: str) -> str:
    """Return the other manager of a placement's field, given its API path; "" if there is none."""
    return get_text(_get_recorded_hub_data(instance), OWNERS, path)


def find_deleting_objects(instance: Instance) -> frozenset[str]:
    """Return the objects of an instance in deletion on its hub: `group/kind/namespace/name`."""
    return frozenset(list_texts(_get_recorded_hub_data(instance), DELETING))


def _get_recorded_hub_data(instance: Instance) -> Values:
    """Return the record of an object on its hub from the private note.

    The result is {} without one, or for a re-created object.
    """
    return {} if instance.is_replaced else get_mapping(instance.prior_note, ON_HUB)


def _read_arguments(instance: Instance, attributes: Values) -> Values:
    """Return the arguments, from the manifest if set, else from the blocks."""
    manifest = attributes.get("manifest")
    # configured as blocks.
    if not isinstance(manifest, str):
        return attributes
    api = next(api for api in API_KINDS.values() if api.type_name == instance.type.name)
    lenient = attributes.get("lenient") is True
    return read_fleet_document(
        "manifest", manifest, api, instance.type.schema, lenient=lenient
    ).values


def _merge_arguments(schema: BlockSchema, foreign: Values, configured: Values) -> dict[str, Any]:
    """Merge configured arguments over `foreign` ones, like a server-side apply.

    Set on the hub by other managers. Return the arguments of a block with this schema. A foreign
    argument stays where the configuration has none, or only the default, since a default is not
    sent to the hub. Repeated blocks have one owner, so they do not mix.
    """
    merged: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        value = configured.get(name)
        if name in foreign and value in (None, attribute.default):
            merged[name] = foreign[name]
        elif name in configured:
            merged[name] = value
    for name, block in schema.blocks.items():
        value = configured.get(name)
        foreign_value = foreign.get(name)
        if not value:
            merged[name] = foreign_value or value
        elif not foreign_value or block.nesting is Nesting.LIST:
            merged[name] = value
        else:
            merged[name] = _merge_arguments(block.schema, foreign_value, value)
    return merged


def merge_applied_objects(
    configured: Iterable[Manifest], previous: Iterable[Manifest], observed: Iterable[Manifest]
) -> Iterator[Manifest]:
    """Yield the `configured` objects as they are on the hub after an apply.

    Fields of other managers are kept. `previous` are the objects of the last apply, `observed` the
    objects on the hub now.
    """
    observed_by_identity = {get_object_identity(manifest): manifest for manifest in observed}
    previous_by_identity = {get_object_identity(manifest): manifest for manifest in previous}
    for manifest in configured:
        identity = get_object_identity(manifest)
        observed_manifest = observed_by_identity.get(identity)
        previous_manifest = previous_by_identity.get(identity)
        if observed_manifest is None or previous_manifest is None:
            # Missing on the hub, or not applied before.
            yield manifest
            continue
        body = _merge_field(observed_manifest.body, previous_manifest.body, manifest.body)
        applied = build_changed_manifest(body, manifest)
        # Fields added by the server do not count as those of other managers. None: an object
        # no longer readable.
        if applied is None or compute_comparable_hash(applied) == compute_comparable_hash(manifest):
            applied = manifest
        yield applied


def _merge_field(observed: Any, previous: Any, configured: Any) -> Any:
    """Return a value after a server-side apply; `previous` is the value configured before.

    Lists of named elements merge by name, like most lists of Kubernetes; other lists are replaced.
    """
    if isinstance(observed, Mapping) and isinstance(configured, Mapping):
        return _merge_mapping(observed, get_mapping(previous), configured)
    observed_elements = _index_named_elements(observed)
    configured_elements = _index_named_elements(configured)
    # A single value, or a list without names.
    if not observed_elements or not configured_elements:
        return configured
    return list(
        _merge_mapping(
            observed_elements, _index_named_elements(previous), configured_elements
        ).values()
    )


def _merge_mapping(
    observed: Mapping[str, Any], previous: Mapping[str, Any], configured: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge configured fields into observed ones.

    Fields applied before but no longer configured are removed.
    """
    merged: dict[str, Any] = {}
    for name, value in observed.items():
        if name in configured:
            merged[name] = _merge_field(value, previous.get(name), configured[name])
        elif name not in previous:
            # Of another manager.
            merged[name] = value
        elif isinstance(value, Mapping) and isinstance(previous[name], Mapping):
            # Not configured any more, but other managers may have fields inside, which stay.
            foreign_fields = _merge_mapping(value, previous[name], configured={})
            if foreign_fields:
                merged[name] = foreign_fields
    # merged values in the order of the hub, then the fields new to it.
    return {**merged, **configured, **merged}


def _index_named_elements(value: Any) -> dict[str, Any]:
    """Return the elements of a list by their field `name`.

    The containers [{"name": "app", ...}] of a pod become {"app": {"name": "app", ...}}. Return {}
    if the value is no list, or an element has no name.
    """
    elements = value if isinstance(value, list | tuple) else ()
    by_name: dict[str, Any] = {}
    for element in elements:
        name = get_value_at_path(element, "name")
        if not isinstance(name, str):
            return {}
        by_name[name] = element
    return by_name
