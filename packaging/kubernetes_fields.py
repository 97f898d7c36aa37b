"""Write domains/pods/importers/assets/kubernetes_fields.txt.

The fields of Kubernetes' own kinds and what each holds.

From the models of lightkube, which are generated from Kubernetes' OpenAPI document: install
lightkube and lightkube-models, run this, and write what it prints to that file.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from typing import Any

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


main()
