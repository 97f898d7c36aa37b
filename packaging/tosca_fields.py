"""Write domains/vnf/importers/assets/tosca_fields.json.

It has the types of SOL001, and the properties of each with what they hold. Unpack Tacker's sdist
from PyPI, run this with the path of an etsi_nfv_sol001_vnfd_types.yaml in it, and write what it
prints to that file. A property that is new in Tacker is then unread until `tosca_fields.py` says
otherwise.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

SECTIONS = ("node_types", "group_types", "policy_types", "capability_types", "data_types")
SCALARS = ("string", "integer", "float", "boolean", "timestamp")


def describe_kind(field: dict[str, Any]) -> str:
    """Return what a property holds: a scalar or a type; `[` a list of it, `{` a mapping to it."""
    kind = str(field["type"])
    if kind in ("list", "map"):
        prefix = "[" if kind == "list" else "{"
        return f"{prefix}{field.get('entry_schema', {}).get('type', 'string')}"
    # A size such as `4 GB` is a text.
    return "string" if kind.startswith("scalar-unit") else kind


def main() -> None:
    """Print the document."""
    document = yaml.safe_load(Path(sys.argv[1]).read_text(encoding="utf-8"))
    types = {
        name: {
            field: describe_kind(body) for field, body in definition.get("properties", {}).items()
        }
        for section in SECTIONS
        for name, definition in document.get(section, {}).items()
    }
    # `tacker-16.0.0/samples/...`: the sdist.
    sdist = next(part for part in Path(sys.argv[1]).parts if part.startswith("tacker-"))
    printed = {"source": sdist, "scalars": SCALARS, "types": dict(sorted(types.items()))}
    sys.stdout.write(json.dumps(printed, indent=1) + "\n")


if __name__ == "__main__":
    main()
