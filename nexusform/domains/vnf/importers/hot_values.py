"""Values in a HOT template: intrinsic functions are resolved if possible, else marked."""

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field

from nexusform.documents.yaml_documents import ELISION, DocumentFindings, Node
from nexusform.domains.vnf.importers.vnf_text import find_first_field
from nexusform.json_data.plain_data import get_mapping, get_value_at_path

_MAX_DEPTH: Final = 40
# Maximum length of a str_replace result.
_MAX_LENGTH: Final = 100_000


class UnresolvedValue(Struct, frozen=True):
    """Value known only in the cloud, or a parameter without a value; `description` names it.

    `advice` is a clause on how to make it known.
    """

    description: str
    advice: str = "set it in parameters"


class ResourceReference(Struct, frozen=True):
    """Resource of a template; `scope` identifies the template."""

    scope: str
    name: str


class _EvaluatedCondition(Struct, frozen=True):
    """Value of a condition, and the depth of its evaluation."""

    value: bool | UnresolvedValue
    depth: int


class Template(Struct, frozen=True):
    """Template being parsed.

    `values` are the resolved parameters of its user. `scope` identifies it. With `is_repeated` it
    is instantiated once per member of a group, which replaces `index_variables` in texts by its
    number. `conditions` are those evaluated so far.
    """

    notes: DocumentFindings
    root: Node
    values: Mapping[str, Any]
    scope: str = ""
    is_repeated: bool = False
    index_variables: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    conditions: dict[tuple[str, ...], _EvaluatedCondition] = field(default_factory=dict)

    def resolve_parameter(self, name: str) -> Any:
        """Return a parameter's value, else its default, else UnresolvedValue."""
        declaration = find_first_field(self.root, "parameters", "Parameters").get_node(name)
        kind = get_declared_type(declaration).lower()
        if name in self.values:
            return _convert_parameter(self.values[name], kind)
        default = find_first_field(declaration, "default", "Default")
        if default.is_absent:
            return UnresolvedValue(f"the parameter {name}")
        return _convert_parameter(default.data, kind)

    def resolve_value(self, node: Node) -> Any:
        """Return the resolved value of a part."""
        return resolve_intrinsic_functions(node.data, self)


def get_declared_type(body: Node) -> str:
    """Return the type of a resource or parameter, "" without one."""
    return find_first_field(body, "type", "Type").text


def _convert_parameter(value: Any, kind: str) -> Any:
    """Convert a parameter's value to its declared type: JSON and lists may be texts.

    Others and invalid JSON stay.
    """
    if not isinstance(value, str):
        return value
    if kind == "json":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    if kind in {"comma_delimited_list", "commadelimitedlist"}:
        return [part.strip() for part in value.split(",")]
    if kind == "boolean":
        return _BOOLEAN_TEXTS.get(value.lower(), value)
    return value


def resolve_intrinsic_functions(data: Any, template: Template, depth: int = 0) -> Any:
    """Return plain data with the calls of Heat's functions in it replaced by their results.

    A call is a mapping with one key: `{get_param: flavor}`. Its result is a value, a
    ResourceReference, or an UnresolvedValue if only the cloud knows it. `depth` counts the levels
    above the data.
    """
    if depth > _MAX_DEPTH:
        return UnresolvedValue("a value that is nested too deeply")
    if data == ELISION:
        # "..." is ignored.
        return None
    if isinstance(data, list):
        return [resolve_intrinsic_functions(part, template, depth + 1) for part in data]
    if isinstance(data, str) and any(name in data for name in template.index_variables):
        return UnresolvedValue("the number of a member", "write the servers one by one")
    if not isinstance(data, dict):
        return data
    function = next(iter(data), "") if len(data) == 1 else ""
    if function in _INTRINSICS:
        return _INTRINSICS[function](data[function], template, depth + 1)
    if is_intrinsic_function(function):
        return UnresolvedValue(function)
    return {
        key: resolve_intrinsic_functions(part, template, depth + 1) for key, part in data.items()
    }


def is_intrinsic_function(name: str) -> bool:
    """Return whether Heat replaces a mapping with this one key by the result of a function."""
    is_known = name in _INTRINSICS or name in _UNRESOLVED_FUNCTIONS
    return is_known or name.startswith(("get_", "Fn::"))


# Functions without effect on placement, or that need the cloud.
_UNRESOLVED_FUNCTIONS: Final = frozenset(
    {
        "and",
        "contains",
        "digest",
        "equals",
        "filter",
        "list_concat",
        "list_concat_unique",
        "make_url",
        "map_merge",
        "map_replace",
        "not",
        "or",
        "repeat",
        "resource_facade",
        "str_replace_strict",
        "str_replace_vstrict",
        "str_split",
        "yaql",
    }
)


def _resolve_get_param(argument: Any, template: Template, depth: int) -> Any:
    """Resolve `get_param`: NAME, or [NAME, KEY, INDEX, ...] for a part of the parameter.

    The keys may be calls, too. Return an UnresolvedValue without a value.
    """
    name, *steps = argument if isinstance(argument, list) and argument else [argument]
    if not isinstance(name, str):
        return UnresolvedValue("a parameter")
    value = template.resolve_parameter(name)
    for step in steps:
        key = resolve_intrinsic_functions(step, template, depth)
        value = get_value_at_path(value, key if isinstance(key, int) else str(key))
        if value is None:
            path = ".".join(str(part) for part in (name, *steps))
            return UnresolvedValue(f"the parameter {path}")
    return value


def _resolve_get_resource(argument: Any, template: Template, depth: int) -> Any:
    if not isinstance(argument, str):
        return UnresolvedValue("a resource")
    # Heat reads a reference to a resource that it does not create as null.
    if resolve_condition(argument, template, depth) is False:
        return None
    return ResourceReference(template.scope, argument)


def _resolve_ref(argument: Any, template: Template, depth: int) -> Any:
    """Resolve `Ref` of CloudFormation: the name of a parameter or of a resource."""
    if isinstance(argument, str) and not template.root.get_node("Parameters", argument).is_absent:
        return _resolve_get_param(argument, template, depth)
    return _resolve_get_resource(argument, template, depth)


def _resolve_str_replace(argument: Any, template: Template, depth: int) -> Any:
    """Resolve `str_replace`: a text with its parameters inserted.

    Return an UnresolvedValue if the text is invalid, unknown or too long.
    """
    body = resolve_intrinsic_functions(argument, template, depth)
    unresolved = UnresolvedValue("str_replace")
    text = get_value_at_path(body, "template")
    if not isinstance(text, str):
        return unresolved
    for key, value in get_mapping(body, "params").items():
        if not key or not isinstance(value, (str, int, float)):
            return unresolved
        text = text.replace(key, str(value))
        if len(text) > _MAX_LENGTH:
            return unresolved
    return text


def _resolve_list_join(argument: Any, template: Template, depth: int) -> Any:
    """Resolve `list_join`: the joined texts of lists.

    Return an UnresolvedValue if the call is invalid or has an unknown text.
    """
    match resolve_intrinsic_functions(argument, template, depth):
        case [str(separator), *lists] if lists:
            parts = list(
                chain.from_iterable(item if isinstance(item, list) else [item] for item in lists)
            )
            if all(isinstance(part, (str, int, float)) for part in parts):
                return separator.join(map(str, parts))
    return UnresolvedValue("list_join")


def resolve_condition(name: str, template: Template, depth: int = 0) -> bool | UnresolvedValue:
    """Return whether the condition of a resource holds; True without one."""
    body = find_first_field(template.root, "resources", "Resources").get_node(name)
    condition = find_first_field(body, "condition", "Condition")
    if condition.is_absent:
        return True
    return _evaluate_once(("resources", name), condition.data, template, depth)


def _evaluate_once(
    path: tuple[str, str], data: Any, template: Template, depth: int
) -> bool | UnresolvedValue:
    """Evaluate the condition at a path of the template, or return its earlier value.

    It is unresolved if it depends on itself.
    """
    known = template.conditions.get(path)
    # At a lower depth, more levels can be evaluated.
    if known is not None and (isinstance(known.value, bool) or known.depth <= depth):
        return known.value
    kind = "the condition" if path[0] == "conditions" else "the condition of resource"
    cycle = UnresolvedValue(f"{kind} {path[1][:40]}, which depends on itself", "remove the cycle")
    # Any use before the end of the evaluation is a cycle.
    template.conditions[path] = _EvaluatedCondition(cycle, depth)
    value = _evaluate_condition(data, template, depth)
    template.conditions[path] = _EvaluatedCondition(value, depth)
    return value


def _evaluate_condition(data: Any, template: Template, depth: int) -> bool | UnresolvedValue:
    """Evaluate a condition: true or false, the name of one, or a function.

    Functions are `equals`, `not`, `and` and `or`; others need the cloud.
    """
    if depth > _MAX_DEPTH:
        return UnresolvedValue("conditions that are nested too deeply")
    match data:
        case bool():
            return data
        case str():
            named = template.root.get_node("conditions", data)
            if named.is_absent:
                return UnresolvedValue(f"the condition {data[:40]}")
            return _evaluate_once(("conditions", data), named.data, template, depth + 1)
        case {"equals": [first, second]}:
            return _are_equal(first, second, template, depth + 1)
        case {"not": part}:
            value = _evaluate_condition(part, template, depth + 1)
            return value if isinstance(value, UnresolvedValue) else not value
        case {"and": [*parts]}:
            return _combine_conditions(parts, template, depth + 1, deciding_value=False)
        case {"or": [*parts]}:
            return _combine_conditions(parts, template, depth + 1, deciding_value=True)
    value = resolve_intrinsic_functions(data, template, depth + 1)
    if isinstance(value, bool | UnresolvedValue):
        return value
    return _BOOLEAN_TEXTS.get(str(value).lower(), UnresolvedValue("a condition"))


# Texts that Heat's parameters of type boolean accept.
_BOOLEAN_TEXTS: Final = {
    **dict.fromkeys(("t", "true", "on", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "off", "n", "no", "0"), False),
}


def _are_equal(first: Any, second: Any, template: Template, depth: int) -> bool | UnresolvedValue:
    values = [resolve_intrinsic_functions(part, template, depth) for part in (first, second)]
    unresolved = _find_unresolved_value(values, template.scope)
    return values[0] == values[1] if unresolved is None else unresolved


def _find_unresolved_value(value: Any, scope: str, depth: int = 0) -> UnresolvedValue | None:
    """Return the first unknown value in resolved data, or None.

    Resources of the template itself are unknown; those passed as parameters exist.
    """
    if depth > _MAX_DEPTH:
        return UnresolvedValue("a value that is nested too deeply")
    parts: Iterable[Any] = ()
    match value:
        case UnresolvedValue():
            return value
        case ResourceReference(scope=own_scope, name=name) if own_scope == scope:
            advice = "Heat accepts no resource in a condition"
            return UnresolvedValue(f"the resource {name}", advice)
        case dict():
            parts = value.values()
        case list():
            parts = value
    unresolved = (_find_unresolved_value(part, scope, depth + 1) for part in parts)
    return next(filter(None, unresolved), None)


def _combine_conditions(
    parts: list[Any], template: Template, depth: int, *, deciding_value: bool
) -> bool | UnresolvedValue:
    """Combine conditions: one with the deciding value decides, else an unknown one."""
    result: bool | UnresolvedValue = not deciding_value
    for part in parts:
        value = _evaluate_condition(part, template, depth)
        if value is deciding_value:
            return value
        # The first unknown one is named.
        if isinstance(result, bool):
            result = value
    return result


def _resolve_if(argument: Any, template: Template, depth: int) -> Any:
    """Resolve `if`: [CONDITION, VALUE, OTHER]."""
    branch = select_branch(argument, template, depth)
    if isinstance(branch, UnresolvedValue):
        return branch
    return resolve_intrinsic_functions(branch, template, depth)


def select_branch(argument: Any, template: Template, depth: int) -> Any:
    """Return VALUE or OTHER of the argument of `if`: [CONDITION, VALUE, OTHER], not yet resolved.

    Without OTHER it is null.
    """
    match argument:
        case [condition, value, *others] if len(others) <= 1:
            holds = _evaluate_condition(condition, template, depth)
            if isinstance(holds, UnresolvedValue):
                return holds
            other = others[0] if others else None
            return value if holds else other
    return UnresolvedValue("if")


_INTRINSICS: Final[Mapping[str, Callable[[Any, Template, int], Any]]] = {
    "get_param": _resolve_get_param,
    "get_resource": _resolve_get_resource,
    "Ref": _resolve_ref,
    "str_replace": _resolve_str_replace,
    "list_join": _resolve_list_join,
    "if": _resolve_if,
}


def find_vdu_name(data: Any, depth: int = 0) -> str:
    """Return the VDU in a call `get_param: [nfv, VDU, NAME, ...]` anywhere in the data, else "".

    A VDU is a kind of VM.
    """
    if depth > _MAX_DEPTH:
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
        vdu = find_vdu_name(part, depth + 1)
        if vdu:
            return vdu
    return ""
