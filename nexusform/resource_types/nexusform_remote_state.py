"""data nexusform_remote_state: outputs and objects of another configuration's state."""

from collections.abc import Mapping
from typing import Any, Final

from nexusform.interfaces.plugins import (
    DataResult,
    PlanningKind,
    ReadContext,
    RemoteStateQuery,
    ResourceType,
)
from nexusform.json_data.plain_data import Path
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, compute_implied_type
from nexusform.schemas.value_types import DYNAMIC, STRING, ObjectType, Type

OUTPUTS: Final = "outputs"
RESOURCES: Final = "resources"

_SCHEMA: Final = BlockSchema(
    {
        "backend": AttributeSchema(STRING, "Backend type of the other state.", required=True),
        "config": AttributeSchema(
            DYNAMIC,
            "Settings as in the backend block. Paths are relative to the root module.",
            optional=True,
        ),
        "workspace": AttributeSchema(
            STRING, "The workspace to read.", optional=True, default="default"
        ),
        "id": AttributeSchema(STRING, "The lineage of the state.", computed=True),
        "sku_catalogue": AttributeSchema(STRING, "Version of its SKU catalogue.", computed=True),
        OUTPUTS: AttributeSchema(
            DYNAMIC, "Root outputs by name; sensitive ones stay sensitive.", computed=True
        ),
        RESOURCES: AttributeSchema(
            DYNAMIC, "Attributes of every resource instance by address.", computed=True
        ),
    },
    description="Outputs and objects of another configuration's state, read without its lock.",
)


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the id of the data source: the lineage of the state read by it, "" if unknown."""
    return str(attributes.get("id") or "")


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataResult:
    """Read the state of another configuration: its outputs, and its objects of known types.

    The objects are the current ones.
    """
    workspace = attributes.get("workspace") or "default"
    configuration = attributes.get("config") or {}
    # `reader`, the name of the data block, is set by `read_state`.
    query = RemoteStateQuery(
        reader="", backend=attributes["backend"], config=configuration, workspace=workspace
    )
    state, _, problems = context.read_state(query)
    if state is None:
        return DataResult(attributes={}, problems=problems)
    output_values: dict[str, Any] = {}
    output_types: dict[str, Type] = {}
    resource_values: dict[str, Any] = {}  # by address
    resource_types: dict[str, Type] = {}
    sensitive_paths: list[Path] = []
    for name, output in state.outputs.items():
        output_values[name] = output.value
        output_types[name] = output.type
        if output.sensitive:
            sensitive_paths.append((OUTPUTS, name))
    # In order of creation; objects with one number in order of address.
    objects = sorted(
        state.list_current_objects(), key=lambda pair: (pair[1].creation, str(pair[0]))
    )
    for address, current in objects:
        kind = context.types.get(address.type)
        # Else of a type unknown to this version.
        if kind is not None:
            key = str(address)
            # A type may present attributes to expressions in another form than in state.
            attributes_of_object = dict(current.attributes)
            if kind.present is not None:
                attributes_of_object = {
                    name: kind.present(current.attributes, name) for name in current.attributes
                }
            resource_values[key] = attributes_of_object
            resource_types[key] = compute_implied_type(kind.schema)
            sensitive_paths += [(RESOURCES, key, *path) for path in current.sensitive]
    values = {
        "id": state.lineage,
        "sku_catalogue": state.catalogue,
        OUTPUTS: output_values,
        RESOURCES: resource_values,
    }
    types = {OUTPUTS: ObjectType.create(output_types), RESOURCES: ObjectType.create(resource_types)}
    return DataResult(values, problems, tuple(sensitive_paths), types)


NEXUSFORM_REMOTE_STATE: Final = ResourceType(
    "nexusform_remote_state",
    0,
    _SCHEMA,
    build_id,
    mode="data",
    read=read,
    kind=PlanningKind.REMOTE_STATE,
)
