"""Comparison of request bodies with the models of azure-mgmt-networkcloud.

It finds unknown members, wrong types, and missing members.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from azure.mgmt.networkcloud import models

# By method and the type at the end of the path: a PUT sends a resource, a PATCH its patch.
REQUESTS = {
    ("PUT", "kubernetesclusters"): models.KubernetesCluster,
    ("PATCH", "kubernetesclusters"): models.KubernetesClusterPatchParameters,
    ("PUT", "agentpools"): models.AgentPool,
    ("PATCH", "agentpools"): models.AgentPoolPatchParameters,
    ("PUT", "virtualmachines"): models.VirtualMachine,
    ("PATCH", "virtualmachines"): models.VirtualMachinePatchParameters,
    ("POST", "cordon"): models.BareMetalMachineCordonParameters,
    ("POST", "poweroff"): models.BareMetalMachinePowerOffParameters,
    ("POST", "reimage"): models.BareMetalMachineReimageParameters,
    ("POST", "replace"): models.BareMetalMachineReplaceParameters,
}
WITHOUT_BODY = {("POST", "uncordon"), ("POST", "start"), ("POST", "restart")}


def find_request_errors(method: str, path: str, body: Any) -> list[str]:
    """Return the errors of one request; a DELETE has no body."""
    parts = path.split("?", maxsplit=1)[0].lower().split("/")
    key = (method, parts[-1] if method == "POST" else parts[-2])
    if method == "DELETE" or key in WITHOUT_BODY:
        return [f"{method} {path}: a body"] if body else []
    return [f"{method} {path}: {error}" for error in find_errors(REQUESTS[key], body, "")]


def find_errors(kind: Any, value: Any, path: str) -> Iterator[str]:
    """Yield the errors of a value of this type, by path."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        options = [option for option in get_args(kind) if option is not type(None)]
        texts = [option for option in options if option is str or is_enum(option)]
        # The SDK accepts names beyond those of an enumeration, and so does Azure.
        if texts:
            known = [member.value for option in options if is_enum(option) for member in option]
            if not isinstance(value, str) or (known and value not in known):
                yield f"{path}: {value!r} is none of {known or 'a text'}"
        elif value is not None:
            yield from find_errors(options[0], value, path)
    elif origin in (list, dict):
        if not isinstance(value, origin):
            yield f"{path}: {value!r} is no {origin.__name__}"
            return
        elements = enumerate(value) if isinstance(value, list) else value.items()
        for name, element in elements:
            yield from find_errors(get_args(kind)[-1], element, f"{path}[{name}]")
    elif isinstance(kind, type) and hasattr(kind, "as_dict"):
        yield from find_model_errors(kind, value, path)
    elif isinstance(kind, type) and kind in (str, int, bool, float) and type(value) is not kind:
        yield f"{path}: {value!r} is no {kind.__name__}"


def is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def find_model_errors(kind: Any, value: Any, path: str) -> Iterator[str]:
    """Yield errors for unknown, read-only and missing members, and for values of members."""
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is no object"
        return
    fields = kind({})._attr_to_rest_field
    hints = get_type_hints(kind, vars(models) | {"_models": models})
    by_rest_name = {field._rest_name: (name, field) for name, field in fields.items()}
    for name, member in value.items():
        if name not in by_rest_name:
            yield f"{path}.{name}: no member of {kind.__name__}"
            continue
        attribute, field = by_rest_name[name]
        if field._visibility == ["read"]:
            yield f"{path}.{name}: read-only"
            continue
        yield from find_errors(hints[attribute], member, f"{path}.{name}")
    for name, (_, field) in by_rest_name.items():
        is_required = not field._is_optional and field._visibility != ["read"]
        if is_required and name not in value:
            yield f"{path}.{name}: missing"


def list_member_paths(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the members that a request of this model can carry.

    A list and a map of free names are one member.
    """
    hints = get_type_hints(kind, vars(models) | {"_models": models})
    for name, field in kind({})._attr_to_rest_field.items():
        if field._visibility == ["read"]:
            continue
        member_path = (*path, field._rest_name)
        options = [hints[name]]
        while options and get_origin(options[0]) in (Union, UnionType):
            options = [each for each in get_args(options[0]) if each is not type(None)]
        member = options[0]
        if isinstance(member, type) and hasattr(member, "as_dict"):
            yield from list_member_paths(member, member_path)
        else:
            yield member_path
