"""data nexusform_remote_state: outputs and objects of another configuration's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.address import parse_address
from nexusform.plain_data import Path
from nexusform.ports import DataAnswer, Kind, ReadContext, ResourceType, StateQuery
from nexusform.schema import Attribute, BlockSchema, implied_type
from nexusform.state.objects import ObjectState, State
from nexusform.value_types import DYNAMIC, STRING, ObjectType

OUTPUTS: Final = "outputs"
RESOURCES: Final = "resources"

_SCHEMA: Final = BlockSchema(
    {
        "backend": Attribute(STRING, "Backend type of the other state.", required=True),
        "config": Attribute(
            DYNAMIC,
            "Settings as in the backend block. Paths are relative to the root module.",
            optional=True,
        ),
        "workspace": Attribute(STRING, "The workspace to read.", optional=True, default="default"),
        "id": Attribute(STRING, "The lineage of the state.", computed=True),
        "sku_catalogue": Attribute(STRING, "Version of its SKU catalogue.", computed=True),
        OUTPUTS: Attribute(DYNAMIC, "Root outputs by name; sensitive ones stay sensitive.", computed=True),
        RESOURCES: Attribute(
            DYNAMIC,
            "Attributes of every resource instance by address.",
            computed=True,
        ),
    },
    description="Outputs and objects of another configuration's state, read without its lock.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The lineage."""
    return str(attributes.get("id") or "")


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataAnswer:
    """Read the state as it is at this moment."""
    workspace = attributes.get("workspace") or "default"
    query = StateQuery("", attributes["backend"], attributes.get("config") or {}, workspace)
    state, problems = context.read_state(query)
    if state is None:
        return DataAnswer({}, problems)
    objects = _objects(state, context.types)
    types = {address: context.types[parse_address(address).type] for address in objects}
    values = {
        "id": state.lineage,
        "sku_catalogue": state.catalogue,
        OUTPUTS: {name: output.value for name, output in state.outputs.items()},
        RESOURCES: {address: _shown(held, types[address]) for address, held in objects.items()},
    }
    secret: list[Path] = [(OUTPUTS, name) for name, output in state.outputs.items() if output.sensitive]
    secret += [(RESOURCES, address, *path) for address, held in objects.items() for path in held.sensitive]
    outputs = ObjectType.of({name: output.type for name, output in state.outputs.items()})
    resources = ObjectType.of({address: implied_type(kind.schema) for address, kind in types.items()})
    return DataAnswer(values, problems, tuple(secret), {OUTPUTS: outputs, RESOURCES: resources})


def _objects(state: State, types: Mapping[str, ResourceType]) -> dict[str, ObjectState]:
    """The current objects of known types by address, in the order in which they were created."""
    current = [
        (str(address), instance.current)
        for address, instance in state.instances.items()
        if instance.current is not None and address.type in types
    ]
    current.sort(key=lambda pair: (pair[1].creation, pair[0]))
    return dict(current)


def _shown(held: ObjectState, kind: ResourceType) -> dict[str, Any]:
    """An object's attributes as expressions read them."""
    attributes = held.attributes
    if kind.present is None:
        return dict(attributes)
    return {name: kind.present(attributes, name) for name in attributes}


NEXUSFORM_REMOTE_STATE: Final = ResourceType(
    "nexusform_remote_state", 0, _SCHEMA, identify, mode="data", read=read, kind=Kind.REMOTE_STATE
)
