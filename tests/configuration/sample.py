"""A small set of resource types and a scope, for the tests of this room."""

from __future__ import annotations

from typing import Any

from nexusform.diagnostics import Diagnostic
from nexusform.language.syntax.nodes import Traversal
from nexusform.plain_data import from_plain
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import DYNAMIC, NUMBER, STRING, ListType, MapType, SetType
from nexusform.values import Value

ID = Attribute(STRING, "", computed=True)
NAME = Attribute(STRING, "", required=True)

SITE = BlockSchema({"id": ID, "name": NAME})
RACK = BlockSchema(
    {
        "id": ID,
        "site_id": Attribute(STRING, "", required=True),
        "name": NAME,
        "machine_count": Attribute(NUMBER, "", optional=True, minimum=0, maximum=256),
        "status": Attribute(STRING, "", optional=True, default="active", choices=("active", "planned")),
        "zone": Attribute(
            STRING,
            "",
            optional=True,
            computed=True,
            pattern="[a-z0-9]{1,10}",
            pattern_hint="1 to 10 letters or digits",
        ),
        "tags": Attribute(MapType(STRING), "", optional=True),
        "secret": Attribute(STRING, "", optional=True, sensitive=True),
    },
    {
        "machine_override": NestedBlock(
            BlockSchema({"cordoned": Attribute(DYNAMIC, "", optional=True)}), Nesting.MAP, "", label="name"
        )
    },
)
TAINT = NestedBlock(
    BlockSchema({"key": NAME, "value": Attribute(STRING, "", optional=True, default="")}),
    Nesting.LIST,
    "",
    max_items=2,
)
POOL = BlockSchema(
    {
        "count": Attribute(NUMBER, "", required=True, minimum=0),
        "zones": Attribute(SetType(STRING), "", optional=True),
        "mode": Attribute(STRING, "", optional=True, default="User", choices=("User", "System")),
        "keys": Attribute(ListType(STRING), "", optional=True, default=["a"]),
    },
    {"taint": TAINT},
)
CLUSTER = BlockSchema(
    {"id": ID, "name": NAME, "nodes": Attribute(MapType(STRING), "", computed=True)},
    {
        "control_plane": NestedBlock(
            BlockSchema({"count": Attribute(NUMBER, "", required=True)}), Nesting.SINGLE, "", min_items=1
        ),
        "agent_pool": NestedBlock(POOL, Nesting.MAP, "", label="name"),
        "group": NestedBlock(
            BlockSchema({"ids": Attribute(ListType(STRING), "", optional=True)}), Nesting.LIST, ""
        ),
    },
)
INVENTORY = BlockSchema({"directory": NAME, "racks": Attribute(MapType(STRING), "", computed=True)})

MANAGED = {"nexus_site": SITE, "nexus_rack": RACK, "nexus_cluster": CLUSTER}
DATA = {"nexus_inventory": INVENTORY}


class Names:
    """A scope that knows values by root name."""

    def __init__(self, **known: Any) -> None:
        self.functions: dict[str, Any] = {}
        self.known = {k: v if isinstance(v, Value) else from_plain(v, DYNAMIC) for k, v in known.items()}

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        return self.known[traversal.root.name], 0, []
