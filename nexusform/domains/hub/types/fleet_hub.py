"""data fleet_hub: a hub as its API server shows it now. A plan goes on from what stands there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from nexusform.domains.fleet.types.fleet_hub_export import FLEET_HUB_EXPORT, hub_as_read
from nexusform.domains.fleet.types.kubernetes_manifests import Reading, computed
from nexusform.ports import DataAnswer, OutsideProblem, Question, ReadContext, ResourceType
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import STRING

READER: Final = "nexusform.domains.hub.api.hub_dump:read_dump"
_OF_FILES: Final = frozenset({"id", "directory", "files", "lenient", "observed_at"})

KUBECONFIG: Final = Attribute(
    STRING,
    "kubeconfig of the hub. NF_FLEET_KUBECONFIG overrides it. Default: as kubectl. Ignored in a confined "
    "run.",
    optional=True,
)
CONTEXT: Final = Attribute(
    STRING,
    "Context in the kubeconfig. NF_FLEET_CONTEXT overrides it. Default: the current context. Ignored in a "
    "confined run.",
    optional=True,
)
_SCHEMA: Final = BlockSchema(
    {
        "id": computed(STRING, "The URL of the hub."),
        "kubeconfig": KUBECONFIG,
        "context": CONTEXT,
        "read_at": computed(STRING, "When the hub was read (RFC 3339)."),
        **{name: each for name, each in FLEET_HUB_EXPORT.schema.attributes.items() if name not in _OF_FILES},
    },
    description="A live fleet hub. A plan starts from its current placements.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The context, as far as it is said."""
    return str(attributes.get("context") or "hub")


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataAnswer:
    """Ask the hub, and read what it answers as an export is read."""
    import json

    asked = {name: attributes.get(name) for name in ("kubeconfig", "context")}
    try:
        dump = json.loads(context.ask(Question(READER, asked)))
    except OutsideProblem as problem:
        return DataAnswer({}, [problem.problem])
    reading = Reading(lenient=False, shown=True)
    items = {"apiVersion": "v1", "kind": "List", "items": dump["items"]}
    reading.read(dump["server"], json.dumps(items).encode(), ())
    times = {"observed_at": dump["read_at"]}
    answer = hub_as_read(reading, (), times)
    if not answer.attributes:
        return answer
    about = {"id": dump["server"], "read_at": dump["read_at"]}
    return replace(answer, attributes={**answer.attributes, **about})


FLEET_HUB: Final = ResourceType(
    "fleet_hub", 0, _SCHEMA, identify, mode="data", read=read, kind=FLEET_HUB_EXPORT.kind
)
