"""Write domains/fleet/importers/assets/fleet_fields.txt.

The fields of the fleet API's kinds and what each holds, in the form of the table of Kubernetes'
kinds. Get the Go module github.com/kubefleet-dev/kubefleet, run this with the path of its directory
config/crd/bases, and write what it prints to that file. A field that is new in KubeFleet is unread
in a dump of a hub until then.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

SCALARS = {"string": "s", "integer": "i", "number": "n", "boolean": "b"}
GROUPS = ("cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io")
# Kinds of other controllers, which no reader uses.
LEFT_OUT = ("AppliedWork", "InternalMemberCluster", "Work")
HEADER = """\
# The fields of the fleet API's kinds and what each holds. Made by packaging/fleet_fields.py.
# Kinds first; after an empty line, the types that they reach. The notation is that of
# domains/pods/importers/assets/kubernetes_fields.txt.
"""


class FieldTable:
    """Types with their fields; a type without a name has the path to it."""

    def __init__(self) -> None:
        self.types: dict[str, dict[str, str]] = {}

    def add_type(self, name: str, schema: dict[str, Any]) -> str:
        """Add the fields of an object, and return the notation of a value of the schema."""
        kind = schema.get("type")
        if schema.get("x-kubernetes-int-or-string"):
            # A quantity has a pattern.
            return "q" if "pattern" in schema else "x"
        if kind == "array":
            return f"[{self.add_type(name, schema['items'])}"
        if kind != "object":
            return SCALARS.get(str(kind), "a")
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            return f"{{{self.add_type(name, values)}"
        properties = schema.get("properties")
        if not properties or schema.get("x-kubernetes-preserve-unknown-fields"):
            return "a"
        self.types[name] = {
            field: self.add_type(f"{name}.{field}", part) for field, part in properties.items()
        }
        return name


def main() -> None:
    """Print the table."""
    table = FieldTable()
    kinds: dict[str, str] = {}
    for path in sorted(Path(sys.argv[1]).glob("*.yaml")):
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        kind = spec["names"]["kind"]
        is_read = spec["group"] in GROUPS and kind not in LEFT_OUT
        for version in spec["versions"] if is_read else ():
            name = f"{version['name']}.{kind}"
            kinds[f"{spec['group']}/{version['name']} {kind}"] = name
            table.add_type(name, version["schema"]["openAPIV3Schema"])
            table.types[name]["metadata"] = "a"
    out = sys.stdout.write
    out(HEADER)
    for title, name in sorted(kinds.items()):
        out(f"{title} {name}\n")
    out("\n")
    for name, fields in sorted(table.types.items()):
        members = " ".join(f"{key}={value}" for key, value in sorted(fields.items()))
        out(f"{name} {members}\n")


if __name__ == "__main__":
    main()
