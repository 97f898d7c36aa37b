"""Small set of resource types and a scope, for the tests of configuration."""

from __future__ import annotations

from typing import Any

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.json_data.plain_data import convert_to_value
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import DYNAMIC, NUMBER, STRING, ListType, MapType, SetType
from nexusform.values.typed_value import Value

ID = AttributeSchema(STRING, "", computed=True)
NAME = AttributeSchema(STRING, "", required=True)

SITE = BlockSchema({"id": ID, "name": NAME})
RACK = BlockSchema(
    {
        "id": ID,
        "site_id": AttributeSchema(STRING, "", required=True),
        "name": NAME,
        "machine_count": AttributeSchema(NUMBER, "", optional=True, minimum=0, maximum=256),
        "status": AttributeSchema(
            STRING, "", optional=True, default="active", choices=("active", "planned")
        ),
        "zone": AttributeSchema(
            STRING,
            "",
            optional=True,
            computed=True,
            pattern="[a-z0-9]{1,10}",
            pattern_hint="1 to 10 letters or digits",
        ),
        "tags": AttributeSchema(MapType(STRING), "", optional=True),
        "secret": AttributeSchema(STRING, "", optional=True, sensitive=True),
    },
    {
        "machine_override": NestedBlock(
            BlockSchema({"cordoned": AttributeSchema(DYNAMIC, "", optional=True)}),
            Nesting.MAP,
            "",
            label="name",
        )
    },
)
TAINT = NestedBlock(
    BlockSchema({"key": NAME, "value": AttributeSchema(STRING, "", optional=True, default="")}),
    Nesting.LIST,
    "",
    max_items=2,
)
POOL = BlockSchema(
    {
        "count": AttributeSchema(NUMBER, "", required=True, minimum=0),
        "zones": AttributeSchema(SetType(STRING), "", optional=True),
        "mode": AttributeSchema(
            STRING, "", optional=True, default="User", choices=("User", "System")
        ),
        "keys": AttributeSchema(ListType(STRING), "", optional=True, default=["a"]),
    },
    {"taint": TAINT},
)
CLUSTER = BlockSchema(
    {"id": ID, "name": NAME, "nodes": AttributeSchema(MapType(STRING), "", computed=True)},
    {
        "control_plane": NestedBlock(
            BlockSchema({"count": AttributeSchema(NUMBER, "", required=True)}),
            Nesting.SINGLE,
            "",
            min_items=1,
        ),
        "agent_pool": NestedBlock(POOL, Nesting.MAP, "", label="name"),
        "group": NestedBlock(
            BlockSchema({"ids": AttributeSchema(ListType(STRING), "", optional=True)}),
            Nesting.LIST,
            "",
        ),
    },
)
INVENTORY = BlockSchema(
    {"directory": NAME, "racks": AttributeSchema(MapType(STRING), "", computed=True)}
)

MANAGED = {"nexus_site": SITE, "nexus_rack": RACK, "nexus_cluster": CLUSTER}
DATA = {"nexus_inventory": INVENTORY}


class Scope:
    """Scope with values by root name."""

    def __init__(self, **known: Any) -> None:
        self.functions: dict[str, Any] = {}
        self.known = {
            k: v if isinstance(v, Value) else convert_to_value(v, DYNAMIC) for k, v in known.items()
        }

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        return self.known[traversal.root.name], 0, []
