"""Conversion between resources and hub objects: bodies to send, and observed differences.

Besides the configuration, two things are sent: the type of a rollout strategy, otherwise filled in
and owned by the hub, and the defaults in lists owned as a whole.
"""

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.phrases import join_texts
from nexusform.domains.fleet.importers.fleet_documents import read_fleet_document
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.importers.hub_objects import remove_server_fields
from nexusform.domains.fleet.rendering.manifest_export import build_hub_bodies
from nexusform.domains.fleet.types.block_bodies import convert_to_camel_case
from nexusform.domains.hub.api.hub_kinds import KINDS
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.interfaces.plugins import ChangeRequest
from nexusform.json_data.plain_data import (
    Path,
    get_list,
    get_mapping,
    get_text,
    list_mappings,
    list_objects,
)
from nexusform.resource_types.registry import RESOURCE_TYPES
from nexusform.schemas.block_schema import BlockSchema, NestedBlock, Nesting

MANIFEST_TYPE: Final = "fleet_hub_manifest"
MEMBER_TYPE: Final = "fleet_member_cluster"
PLACEMENT_TYPES: Final = frozenset({"fleet_cluster_resource_placement", "fleet_resource_placement"})
RUN_TYPES: Final = frozenset({"fleet_cluster_staged_update_run", "fleet_staged_update_run"})
EVICTION_TYPE: Final = "fleet_placement_eviction"
APPROVAL_TYPES: Final = frozenset({"fleet_cluster_approval_request", "fleet_approval_request"})
# Sent once: if missing on the hub, the object counts as done.
RECORD_TYPES: Final = frozenset({EVICTION_TYPE}) | RUN_TYPES | APPROVAL_TYPES
KINDS_BY_TYPE: Final[Mapping[str, str]] = {
    api.type_name: kind for kind, api in API_KINDS.items() if api.type_name
}
Body = dict[str, Any]
# Group, kind, namespace and name.
ObjectIdentity = tuple[str, str, str, str]
_NAMESPACE_PATH: Final = ("metadata", "namespace")
_SELECTOR: Final = {"selectionScope": "NamespaceWithResources"}


class HubObject(Struct, frozen=True):
    """Object of a resource.

    `path` is "" if discovery has to locate its kind.
    """

    body: Body
    path: str

    @property
    def title(self) -> str:
        """Display name: `ConfigMap shop/settings`."""
        metadata = get_mapping(self.body, "metadata")
        name = join_texts((get_text(metadata, "namespace"), str(metadata.get("name"))), "/")
        return f"{self.body.get('kind')} {name}"

    @property
    def identity(self) -> ObjectIdentity:
        """Identity of the object; the version does not count."""
        metadata = get_mapping(self.body, "metadata")
        group = get_text(self.body, "apiVersion").rpartition("/")[0]
        return (
            group,
            str(self.body.get("kind")),
            get_text(metadata, "namespace"),
            str(metadata.get("name")),
        )

    @property
    def is_namespace(self) -> bool:
        """Whether the object is a Namespace of the core API."""
        return self.identity[:2] == ("", "Namespace")


def build_hub_objects(type_name: str, attributes: Mapping[str, Any]) -> list[HubObject]:
    """Return the hub objects of a resource in order, with defaults as sent.

    An approval has a path and no body.
    """
    if type_name in APPROVAL_TYPES:
        kind = KINDS[KINDS_BY_TYPE[type_name]]
        return [
            HubObject(
                {}, kind.build_path(str(attributes.get("name")), get_text(attributes, "namespace"))
            )
        ]
    bodies = build_hub_bodies(type_name, RESOURCE_TYPES[type_name].schema, attributes)
    # Without labels and taints.
    if type_name == MEMBER_TYPE and not bodies:
        bodies = [build_empty_member(str(attributes["name"]))]
    hub_objects: list[HubObject] = []
    for body in bodies:
        # Controllers write the status.
        body.pop("status", None)
        add_kind_defaults = _DEFAULTERS.get(str(body.get("kind")))
        spec = body.get("spec")
        if add_kind_defaults is not None and isinstance(spec, dict):
            add_kind_defaults(spec)
        hub_objects.append(HubObject(body, build_fleet_object_path(body)))
    return hub_objects


def index_hub_objects(
    type_name: str, attributes: Mapping[str, Any] | None
) -> dict[ObjectIdentity, HubObject]:
    """Return the hub objects of a resource by identity; none without attributes."""
    hub_objects = build_hub_objects(type_name, attributes) if attributes else []
    return {hub_object.identity: hub_object for hub_object in hub_objects}


def build_sent_objects(request: ChangeRequest) -> list[HubObject]:
    """Return the hub objects to send, with write-only arguments."""
    planned = request.planned_attributes
    body = request.write_only.get("yaml_body_wo")
    attributes = planned if body is None else {**planned, "yaml_body": body}
    return build_hub_objects(request.key.type, attributes)


def build_empty_member(name: str) -> Body:
    """Return the body of a member without labels and taints.

    An apply of it releases the labels and taints applied before.
    """
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": name},
    }


def build_fleet_object(type_name: str, attributes: Mapping[str, Any]) -> Any:
    """Return the fleet record of a resource other than a manifest, such as a FleetPlacement."""
    resource_type = RESOURCE_TYPES[type_name]
    assert isinstance(resource_type, FleetObjectType)
    return resource_type.build_fleet_object(attributes)


def build_fleet_object_path(body: Mapping[str, Any]) -> str:
    """Return the path of a fleet object; "" for other kinds."""
    group, _, version = get_text(body, "apiVersion").partition("/")
    kind = KINDS.get(str(body.get("kind")))
    if kind is None or kind.group != group:
        return ""
    metadata = get_mapping(body, "metadata")
    return kind.build_path(
        str(metadata.get("name")), str(metadata.get("namespace") or "default"), version
    )


def _fill_missing_defaults(parts: Iterable[Body], defaults: Mapping[str, Any]) -> None:
    for part in parts:
        part.update({**defaults, **part})


def _add_placement_defaults(spec: Body) -> None:
    """Add the hub's defaults to a placement in place.

    To its strategy, its policy, and the objects in its lists.
    """
    # Malformed parts are skipped.
    _fill_missing_defaults(list_objects(spec, "resourceSelectors"), _SELECTOR)
    _fill_missing_defaults(
        list_objects([spec.setdefault("strategy", {})]), {"type": "RollingUpdate"}
    )
    policy = spec.get("policy")
    _fill_missing_defaults(list_objects([policy]), {"placementType": "PickAll"})
    _fill_missing_defaults(list_objects(policy, "tolerations"), {"operator": "Equal"})
    spread_defaults = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    _fill_missing_defaults(list_objects(policy, "topologySpreadConstraints"), spread_defaults)


def _add_override_defaults(spec: Body) -> None:
    _fill_missing_defaults(list_objects(spec, "clusterResourceSelectors"), _SELECTOR)
    _fill_missing_defaults(
        list_objects(spec.get("policy"), "overrideRules"), {"overrideType": "JSONPatch"}
    )


def _add_stage_defaults(spec: Body) -> None:
    _fill_missing_defaults(list_objects(spec, "stages"), {"maxConcurrency": 1})


_DEFAULTERS: Final[Mapping[str, Callable[[Body], None]]] = {
    "ClusterResourcePlacement": _add_placement_defaults,
    "ResourcePlacement": _add_placement_defaults,
    "ClusterResourceOverride": _add_override_defaults,
    "ResourceOverride": _add_override_defaults,
    "ClusterStagedUpdateStrategy": _add_stage_defaults,
    "StagedUpdateStrategy": _add_stage_defaults,
}


def select_sent_fields(sent: Any, observed: Any) -> Any:
    """Return the observed value with only the sent keys of mappings, also in lists of equal length.

    Other values are returned whole. Of the sent {"a": {"b": 1}} and the observed {"a": {"b": 2,
    "c": 3}, "d": 4} it is {"a": {"b": 2}}.
    """
    if isinstance(sent, Mapping) and isinstance(observed, Mapping):
        common_names = [name for name in sent if name in observed]
        return {name: select_sent_fields(sent[name], observed[name]) for name in common_names}
    if type(sent) is type(observed) is list and len(sent) == len(observed):
        return list(map(select_sent_fields, sent, observed))
    return observed


def find_differences(sent: Any, observed: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths with an observed value different from the sent one, or missing.

    Fields not sent do not count. Lists of another length differ as a whole. `path` is the place of
    both values in their objects. Of the sent {"a": {"b": 1}} and the observed {"a": {"b": 2}, "c":
    3} it is only ("a", "b").
    """
    if isinstance(sent, Mapping) and isinstance(observed, Mapping):
        for name, value in sent.items():
            if name in observed:
                yield from find_differences(value, observed[name], (*path, name))
            elif value not in ({}, [], None) and (*path, name) != _NAMESPACE_PATH:
                # Servers omit empty values, and the namespace of a cluster-scoped object.
                yield (*path, name)
        return
    if type(sent) is type(observed) is list and len(sent) == len(observed):
        for number, (sent_item, observed_item) in enumerate(zip(sent, observed, strict=True)):
            yield from find_differences(sent_item, observed_item, (*path, number))
        return
    if isinstance(sent, str | int) and isinstance(observed, str | int):
        # An int-or-string may be returned in the other form.
        sent = str(sent)
        observed = str(observed)
    if sent != observed:
        yield path


def is_different(sent: Any, observed: Any) -> bool:
    """Return whether an observed value differs from the sent one."""
    return next(find_differences(sent, observed), None) is not None


def build_observed_attributes(
    type_name: str,
    attributes: Mapping[str, Any],
    hub_objects: Sequence[HubObject],
    observed: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the attributes of a resource with the values observed in its sent fields.

    Other fields do not count. `hub_objects` are its objects as sent, `observed` the bodies of
    the existing ones.
    """
    by_identity = {HubObject(dict(body), path="").identity: body for body in observed}
    parts: list[Any] = []
    for hub_object in hub_objects:
        group, kind, _, name = hub_object.identity
        # A hub drops the namespace of a cluster-scoped object.
        body = by_identity.get(hub_object.identity) or by_identity.get((group, kind, "", name))
        if body is not None:
            parts.append(select_sent_fields(hub_object.body, body))
    if type_name == MANIFEST_TYPE:
        documents = [json.dumps(part, ensure_ascii=False, indent=2) for part in parts]
        manifest = {**attributes, "yaml_body": "\n---\n".join(documents)}
        return {**manifest, **RESOURCE_TYPES[type_name].derive(manifest)}
    # Other resources have one object.
    body = parts[0]
    # Only the configured ones of its labels and taints are compared.
    if type_name == MEMBER_TYPE:
        observed_attributes = dict(attributes)
        if attributes.get("labels") is not None:
            observed_attributes["labels"] = dict(get_mapping(body, "metadata", "labels"))
        if attributes.get("taint"):
            observed_attributes["taint"] = read_member_taints(body)
        return observed_attributes
    # One argument holds the object.
    if isinstance(attributes.get("manifest"), str):
        return {**attributes, "manifest": json.dumps(body, ensure_ascii=False, indent=2)}
    return {**attributes, **_read_changed_arguments(type_name, hub_objects[0].body, body)}


def _read_changed_arguments(
    type_name: str, sent_body: Mapping[str, Any], body: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the observed arguments of a fleet object that differ from the sent ones.

    The fields of an argument are compared.
    """
    # A path is ("spec", field, ...).
    changed_fields = {str(path[1]) for path in find_differences(sent_body, body) if path[1:]}
    arguments = read_arguments(type_name, body)
    _remove_hub_defaults(get_spec_schema(type_name), arguments)
    changed_arguments: dict[str, Any] = {}
    for name, value in arguments.items():
        field_name = convert_to_camel_case(name)
        # Fields of repeated blocks are plural.
        if changed_fields & {field_name, f"{field_name}s"}:
            changed_arguments[name] = value
    return changed_arguments


def read_member_taints(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the taints of a member as blocks."""
    return [
        {"key": taint.get("key"), "value": get_text(taint, "value"), "effect": taint.get("effect")}
        for taint in list_mappings(body, "spec", "taints")
    ]


def read_arguments(type_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a fleet object as blocks."""
    api_kind = API_KINDS[KINDS_BY_TYPE[type_name]]
    spec = get_spec_schema(type_name)
    document = read_fleet_document("manifest", json.dumps(body), api_kind, spec, lenient=False)
    values = _fill_schema_defaults(
        RESOURCE_TYPES[type_name].schema, copy.deepcopy(dict(document.values))
    )
    return {name: values[name] for name in (*spec.attributes, *spec.blocks)}


def read_imported_arguments(type_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an existing object for import.

    Values filled in by the hub are omitted.
    """
    arguments = read_arguments(type_name, remove_server_fields(body))
    schema = get_spec_schema(type_name)
    _remove_hub_defaults(schema, arguments)
    for name, block in schema.blocks.items():
        is_single_block = block.nesting is not Nesting.LIST
        # A policy with defaults only is kept: its snapshot has another hash than without a policy.
        if is_single_block and name != "policy" and _has_defaults_only(block, arguments.get(name)):
            arguments[name] = None
    return arguments


@lru_cache(maxsize=32)
def get_spec_schema(type_name: str) -> BlockSchema:
    """Return the part of a type's schema in the spec of its objects."""
    schema = RESOURCE_TYPES[type_name].schema
    shape = API_KINDS[KINDS_BY_TYPE[type_name]].spec.fields
    names = [name for name in schema.attributes if convert_to_camel_case(name) in shape]
    return BlockSchema({name: schema.attributes[name] for name in names}, schema.blocks)


def _fill_schema_defaults(schema: BlockSchema, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with all names of a schema.

    Absent arguments have their default; absent blocks are None, or [] if they may repeat. Nested
    blocks are filled as well.
    """
    result: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        value = values.get(name)
        result[name] = attribute.default if value is None else value
    for name, block in schema.blocks.items():
        value = values.get(name)
        if block.nesting is Nesting.LIST:
            result[name] = [
                _fill_schema_defaults(block.schema, part) for part in get_list(values, name)
            ]
        else:
            result[name] = None if value is None else _fill_schema_defaults(block.schema, value)
    return result


# Defaults of a hub for arguments without a default.
_HUB_DEFAULTS: Final = {
    "selection_scope": "NamespaceWithResources",
    "status_reporting_scope": "ClusterScopeOnly",
    "scope": "Cluster",
}
# Type of a report_back_strategy filled in by a hub.
_REPORT_BACK_DEFAULT: Final = "Disabled"


def _remove_hub_defaults(schema: BlockSchema, values: dict[str, Any]) -> None:
    """Set arguments without a default of their own to None if they are "" or a default of the hub.

    The arguments are changed in place.
    """
    for name, attribute in schema.attributes.items():
        is_hub_default = values.get(name) in (_HUB_DEFAULTS.get(name), "")
        if is_hub_default and attribute.default is None:
            values[name] = None
    for name, block in schema.blocks.items():
        blocks = values.get(name)
        # One block, or None.
        if not isinstance(blocks, list):
            blocks = [blocks]
        for nested_values in list_objects(blocks):  # without None
            _remove_hub_defaults(block.schema, nested_values)


def _has_defaults_only(block: NestedBlock, value: Any) -> bool:
    """Return True if a block is absent or has only values that a hub fills in.

    No items of a repeated block.
    """
    if value in (None, []):
        return True  # absent
    if block.nesting is Nesting.LIST:
        return False
    for name, attribute in block.schema.attributes.items():
        # _REPORT_BACK_DEFAULT is a value of one argument only. It has no default in the schema.
        if value.get(name) not in (None, attribute.default, _REPORT_BACK_DEFAULT):
            return False
    return all(
        _has_defaults_only(nested, value.get(name)) for name, nested in block.schema.blocks.items()
    )
