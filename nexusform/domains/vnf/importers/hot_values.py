"""Values in a HOT template: intrinsic functions resolved where they can be, marked where they cannot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final

from msgspec import Struct

from nexusform.documents.yaml_text import ELISION, Node, Notes

_DEEPEST: Final = 40
# A str_replace may not make more text than this.
_LONGEST: Final = 100_000


class Unresolved(Struct, frozen=True):
    """A value that only the cloud knows, or a parameter without a value; `what` names it."""

    what: str


class Reference(Struct, frozen=True):
    """A resource of a template: `scope` tells templates apart."""

    scope: str
    name: str


class Template(Struct, frozen=True):
    """One template being read. `values` are the parameters that its user gives, already resolved.

    `scope` tells it from others; `repeated` says that it is instantiated once per member of a group.
    """

    notes: Notes
    root: Node
    values: Mapping[str, Any]
    scope: str = ""
    repeated: bool = False
    chain: tuple[str, ...] = ()

    def parameter(self, name: str) -> Any:
        """A parameter's value, else its default, else Unresolved."""
        for section in ("parameters", "Parameters"):
            declared = self.root.at(section, name)
            kind = (declared.at("type").text or declared.at("Type").text).lower()
            if name in self.values:
                return _of_kind(self.values[name], kind)
            for key in ("default", "Default"):
                default = declared.at(key)
                if not default.absent:
                    return _of_kind(default.data, kind)
        return self.values.get(name, Unresolved(f"the parameter {name}"))

    def value(self, node: Node) -> Any:
        """The resolved value of a part."""
        return resolve(node.data, self)


def _of_kind(value: Any, kind: str) -> Any:
    """A parameter's value by its declared type: JSON and lists may be given as text."""
    if not isinstance(value, str):
        return value
    if kind == "json":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    if kind in {"comma_delimited_list", "commadelimitedlist"}:
        return [part.strip() for part in value.split(",")]
    return value


def resolve(data: Any, template: Template, depth: int = 0) -> Any:
    """Plain data with intrinsic functions replaced; References and Unresolved stand where they must."""
    if depth > _DEEPEST:
        return Unresolved("a value that is nested too deeply")
    if data == ELISION:
        return None
    if isinstance(data, dict):
        if len(data) == 1:
            name, argument = next(iter(data.items()))
            if name in _INTRINSICS:
                return _INTRINSICS[name](argument, template, depth + 1)
            if name.startswith(("get_", "Fn::")) or name in _OPAQUE:
                return Unresolved(name)
        return {key: resolve(part, template, depth + 1) for key, part in data.items()}
    if isinstance(data, list):
        return [resolve(part, template, depth + 1) for part in data]
    return data


# Functions whose result never decides a placement, or needs the cloud.
_OPAQUE: Final = frozenset(
    {
        "str_split",
        "digest",
        "repeat",
        "yaql",
        "make_url",
        "map_merge",
        "map_replace",
        "filter",
        "if",
        "contains",
    }
)


def _get_param(argument: Any, template: Template, depth: int) -> Any:
    """`get_param`: a parameter, or a part of it."""
    path = argument if isinstance(argument, list) else [argument]
    if not path or not isinstance(path[0], str):
        return Unresolved("a parameter")
    value = template.parameter(path[0])
    for step in path[1:]:
        key = resolve(step, template, depth)
        in_map = isinstance(value, Mapping) and isinstance(key, str) and key in value
        in_list = isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value)
        if in_map or in_list:
            value = value[key]
        else:
            return Unresolved("the parameter " + ".".join(str(part) for part in path))
    return value


def _get_resource(argument: Any, template: Template, _depth: int) -> Any:
    return Reference(template.scope, argument) if isinstance(argument, str) else Unresolved("a resource")


def _str_replace(argument: Any, template: Template, depth: int) -> Any:
    """`str_replace`: a text with its parameters put in, up to a length."""
    body = resolve(argument, template, depth)
    if not isinstance(body, dict) or not isinstance(body.get("template"), str):
        return Unresolved("str_replace")
    text: str = body["template"]
    params = body.get("params")
    for key, value in params.items() if isinstance(params, dict) else ():
        if not key or not isinstance(value, (str, int, float)):
            return Unresolved("str_replace")
        text = text.replace(key, str(value))
        if len(text) > _LONGEST:
            return Unresolved("str_replace")
    return text


def _list_join(argument: Any, template: Template, depth: int) -> Any:
    """`list_join`: the texts of lists, joined."""
    body = resolve(argument, template, depth)
    if not isinstance(body, list) or len(body) < 2 or not isinstance(body[0], str):
        return Unresolved("list_join")
    separator, *lists = body
    texts = []
    for part in chain.from_iterable(each for each in lists if isinstance(each, list)):
        if not isinstance(part, (str, int, float)):
            return Unresolved("list_join")
        texts.append(str(part))
    joined: str = separator.join(texts)
    return joined


_INTRINSICS: Final[Mapping[str, Callable[[Any, Template, int], Any]]] = {
    "get_param": _get_param,
    "get_resource": _get_resource,
    "Ref": lambda argument, template, depth: (
        _get_param(argument, template, depth)
        if isinstance(argument, str) and not template.root.at("Parameters", argument).absent
        else _get_resource(argument, template, depth)
    ),
    "str_replace": _str_replace,
    "list_join": _list_join,
}


def vdu_in_path(data: Any, depth: int = 0) -> str:
    """The VDU that a `get_param: [nfv, VDU, NAME, ...]` somewhere in the data speaks of, else ""."""
    if depth > _DEEPEST:
        return ""
    parts: Iterable[Any] = ()
    match data:
        case {"get_param": ["nfv", "VDU", str(vdu), *_]}:
            return vdu
        case dict():
            parts = data.values()
        case list():
            parts = data
    for part in parts:
        vdu = vdu_in_path(part, depth + 1)
        if vdu:
            return vdu
    return ""
