"""data nexusform_remote_state: outputs and objects of another configuration's state."""

from collections.abc import Mapping
from typing import Any, Final

from nexusform.interfaces.plugins import DataResult, PlanningKind, ReadContext, RemoteStateQuery, ResourceType
from nexusform.json_data.plain_data import Path
from nexusform.resources.address import parse_address
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, compute_implied_type
from nexusform.schemas.value_types import DYNAMIC, STRING, ObjectType
from nexusform.state.objects import ObjectState

OUTPUTS: Final = "outputs"
RESOURCES: Final = "resources"

_SCHEMA: Final = BlockSchema(
    {
        "backend": AttributeSchema(STRING, "Backend type of the other state.", required=True),
        "config": AttributeSchema(
            DYNAMIC, "Settings as in the backend block. Paths are relative to the root module.", optional=True
        ),
        "workspace": AttributeSchema(STRING, "The workspace to read.", optional=True, default="default"),
        "id": AttributeSchema(STRING, "The lineage of the state.", computed=True),
        "sku_catalogue": AttributeSchema(STRING, "Version of its SKU catalogue.", computed=True),
        OUTPUTS: AttributeSchema(DYNAMIC, "Root outputs by name; sensitive ones stay sensitive.", computed=True),
        RESOURCES: AttributeSchema(DYNAMIC, "Attributes of every resource instance by address.", computed=True),
    },
    description="Outputs and objects of another configuration's state, read without its lock.",
)


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the lineage."""
    return str(attributes.get("id") or "")


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataResult:
    """Read the state of another configuration: its outputs, and its current objects of known types."""
    workspace = attributes.get("workspace") or "default"
    query = RemoteStateQuery(
        "", attributes["backend"], attributes.get("config") or {}, workspace
    )  # the caller sets the reader
    state, problems = context.read_state(query)
    if state is None:
        return DataResult(attributes={}, problems=problems)
    known_objects = [(str(a), recorded) for a, recorded in state.list_current_objects() if a.type in context.types]
    objects = dict(sorted(known_objects, key=lambda pair: (pair[1].creation, pair[0])))  # by address, as created
    types = {address: context.types[parse_address(address).type] for address in objects}
    values = {
        "id": state.lineage,
        "sku_catalogue": state.catalogue,
        OUTPUTS: {name: output.value for name, output in state.outputs.items()},
        RESOURCES: {address: _build_displayed_values(current, types[address]) for address, current in objects.items()},
    }
    sensitive_paths: list[Path] = [(OUTPUTS, name) for name, output in state.outputs.items() if output.sensitive]
    sensitive_paths += [
        (RESOURCES, address, *path) for address, current in objects.items() for path in current.sensitive
    ]
    outputs = ObjectType.create({name: output.type for name, output in state.outputs.items()})
    resources = ObjectType.create({address: compute_implied_type(kind.schema) for address, kind in types.items()})
    return DataResult(values, problems, tuple(sensitive_paths), {OUTPUTS: outputs, RESOURCES: resources})


def _build_displayed_values(current: ObjectState, kind: ResourceType) -> dict[str, Any]:
    """Return an object's attributes as read by expressions."""
    attributes = current.attributes
    if kind.present is None:
        return dict(attributes)
    return {name: kind.present(attributes, name) for name in attributes}


NEXUSFORM_REMOTE_STATE: Final = ResourceType(
    "nexusform_remote_state", 0, _SCHEMA, build_id, mode="data", read=read, kind=PlanningKind.REMOTE_STATE
)
