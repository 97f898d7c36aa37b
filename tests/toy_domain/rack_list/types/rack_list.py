"""data rack_list: the racks of a text file with a line `NAME MACHINES` for each."""

from collections.abc import Mapping
from typing import Any

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import DataResult, FileProblem, ReadContext, ResourceType
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import NUMBER, STRING, MapType

_SCHEMA = BlockSchema(
    {
        "file": AttributeSchema(STRING, "The file.", required=True),
        "id": AttributeSchema(STRING, "The file.", computed=True),
        "machines": AttributeSchema(MapType(NUMBER), "Machines by rack.", computed=True),
    }
)


def _read(arguments: Mapping[str, Any], context: ReadContext) -> DataResult:
    try:
        text = context.files.read(arguments["file"]).decode()
        machines = {name: int(count) for name, count in map(str.split, text.splitlines())}
    except FileProblem as problem:
        return DataResult({}, [Problem(("file",), "unreadable-rack-list", str(problem))])
    except ValueError as problem:
        detail = f"A line is not NAME MACHINES: {problem}."
        return DataResult({}, [Problem(("file",), "invalid-rack-list", detail)])
    return DataResult({"id": arguments["file"], "machines": machines})


RACK_LIST = ResourceType(
    "rack_list", 0, _SCHEMA, build_id=lambda values: values["file"], mode="data", read=_read
)
