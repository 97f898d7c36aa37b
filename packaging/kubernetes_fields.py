"""Write domains/pods/importers/assets/kubernetes_fields.txt.

The fields of Kubernetes' own kinds and what each holds.

From the models of lightkube, which are generated from Kubernetes' OpenAPI document: install
lightkube and lightkube-models, run this, and write what it prints to that file.

With the tables of several minor versions, it prints kubernetes_field_versions.txt: the kinds and
fields that some of these versions lack, each with the versions that have it. Install the models of
each version to make its table:

    python packaging/kubernetes_fields.py > 1.37
    python packaging/kubernetes_fields.py 1.34 1.35 1.36 1.37
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

VERSION = re.compile(r"lightkube-models (\d+\.\d+)")
SCALARS = {
    "str": "s",
    "int": "i",
    "float": "n",
    "bool": "b",
    "dict": "a",
    "object": "a",
    "Any": "a",
}
ALIASES = {
    "meta_v1.Time": "s",
    "meta_v1.MicroTime": "s",
    "datetime": "s",
    "resource.Quantity": "q",
    "util_intstr.IntOrString": "x",
    "runtime.RawExtension": "a",
    "meta_v1.FieldsV1": "a",
}
# Mappings without a value type in the models: texts or quantities.
TEXTS = {
    "annotations",
    "labels",
    "matchLabels",
    "nodeSelector",
    "selector",
    "stringData",
    "parameters",
    "options",
    "volumeAttributes",
    "attributes",
    "deviceClassName",
}
QUANTITIES = {
    "limits",
    "requests",
    "capacity",
    "hard",
    "overhead",
    "podFixed",
    "min",
    "max",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
}
TEXT_DATA = {"core_v1.ConfigMap", "core_v1.Secret"}
# Types with mappings to objects under such names.
OBJECT_MAPPINGS = {"resource_v1.Device"}
# Kinds with special schemas: definitions of other kinds, and kinds that embed any object.
LEFT_OUT = {"CustomResourceDefinition", "APIService", "Status", "WatchEvent", "DeleteOptions"}
SKIPPED_MODULES = {
    "apiextensions_v1",
    "apiserverinternal_v1alpha1",
    "authentication_v1",
    "authorization_v1",
    "version",
    "runtime",
    "resource",
    "util_intstr",
}
PREVIEW = re.compile(r"v\d+(alpha|beta)\d+$")


def mapping(owner: str, field: str) -> str:
    """Return the value type of a mapping to anything, inferred from its name."""
    if owner in OBJECT_MAPPINGS and field in TEXTS | QUANTITIES:
        return "{a"
    if field in TEXTS or (field in ("data", "binaryData") and owner in TEXT_DATA):
        return "{s"
    return "{q" if field in QUANTITIES else "a"


def holds(text: str, module: str) -> str:
    """Return the type of a field in the notation of the table."""
    text = text.strip().strip("'\"")
    for pattern, mark in (
        (r"Optional\[(.*)\]", ""),
        (r"List\[(.*)\]", "["),
        (r"Dict\[str, (.*)\]", "{"),
    ):
        match = re.fullmatch(pattern, text)
        if match:
            return mark + holds(match[1], module)
    if text in SCALARS:
        return SCALARS[text]
    qualified = text if "." in text else f"{module}.{text}"
    return ALIASES.get(qualified, ALIASES.get(text, qualified))


def main() -> None:
    """Write the table to stdout."""
    package = importlib.import_module("lightkube.models")
    types: dict[str, dict[str, str]] = {}
    kinds: dict[str, str] = {}
    for info in pkgutil.iter_modules(package.__path__):
        if info.name.startswith("_") or info.name in SKIPPED_MODULES or PREVIEW.search(info.name):
            continue
        module: Any = importlib.import_module(f"lightkube.models.{info.name}")
        for name, cls in vars(module).items():
            if not hasattr(cls, "__struct_fields__") or cls.__module__ != module.__name__:
                continue
            names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
            fields = {}
            for own, encoded in names:
                held = holds(str(cls.__annotations__[own]), info.name)
                fields[encoded] = mapping(f"{info.name}.{name}", encoded) if held == "a" else held
            types[f"{info.name}.{name}"] = fields
            made = getattr(cls, "__post_init__", None)
            if (
                made is None
                or "metadata" not in fields
                or name.endswith("List")
                or name in LEFT_OUT
            ):
                continue
            constants = [each for each in made.__code__.co_consts if isinstance(each, str)]
            kinds[f"{constants[0]} {constants[1]}"] = f"{info.name}.{name}"
    write(types, kinds)


def write(types: dict[str, dict[str, str]], kinds: dict[str, str]) -> None:
    """Return the kinds and the types in use; fields set by the server are of any type."""
    for name in set(kinds.values()):
        if "status" in types[name]:
            types[name]["status"] = "a"
    reached: set[str] = set()
    waiting = list(kinds.values())
    while waiting:
        name = waiting.pop()
        if name in reached or name not in types:
            continue
        reached.add(name)
        waiting += [each.lstrip("[{") for each in types[name].values()]
    out = sys.stdout.write
    version = importlib.import_module("importlib.metadata").version("lightkube-models")
    out(f"""\
# The fields of Kubernetes' kinds and what each holds. Made by packaging/kubernetes_fields.py.
# Kinds first; after an empty line, the types that they reach.
# s a text, i a whole number, n a number, b true or false, q a quantity, x a whole number or a text, a anything;
# [ a list of it, {{ a mapping to it; anything else is a type of the table. What a server sets is anything.
# Source: the OpenAPI document of Kubernetes, by lightkube-models {version}.
""")  # noqa: E501
    for kind, name in sorted(kinds.items()):
        out(f"{kind} {name}\n")
    out("\n")
    for name in sorted(reached):
        fields = " ".join(f"{key}={value}" for key, value in sorted(types[name].items()))
        out(f"{name} {fields}\n")


def list_names(table: str) -> dict[str, str]:
    """Return the kinds and fields of a table, each with its type ("" for a kind)."""
    kinds, types = table.split("\n\n")
    names = {line.rpartition(" ")[0]: "" for line in kinds.splitlines() if line[0] != "#"}
    for line in types.splitlines():
        type_name, *fields = line.split()
        names |= {f"{type_name}.{field.partition('=')[0]}": type_name for field in fields}
    return names


def compare(tables: list[str]) -> None:
    """Write the kinds and fields that some versions lack.

    A version that lacks a type has no row for its fields: it lacks the field or kind above it.
    """
    names = {}
    for table in tables:
        version = VERSION.search(table)
        if version is None:
            sys.exit("A table does not name the version of its models.")
        names[version[1]] = list_names(table)
    out = sys.stdout.write
    out("# Kinds and fields that some minor versions of Kubernetes lack, and the versions that\n")
    out("# have them. Made by packaging/kubernetes_fields.py.\n")
    out(f"versions: {' '.join(names)}\n")
    for name in sorted(set().union(*names.values())):
        having = [version for version, others in names.items() if name in others]
        type_name = names[having[0]][name]
        able = [
            version
            for version, others in names.items()
            if not type_name or type_name in others.values()
        ]
        if having != able:
            out(f"{name}: {' '.join(having)}\n")


if sys.argv[1:]:
    compare([Path(name).read_text() for name in sys.argv[1:]])
else:
    main()
