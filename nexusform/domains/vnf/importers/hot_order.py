"""Order in which Heat creates the servers of a stack: dependencies between resources.

A resource starts after those that it names in `depends_on`, and those to which its properties
refer. Heat drops the other branch of an `if` with its references. All others start at once. A
nested template is a resource of the template around it. Dependencies that Heat adds by itself lead
to networks only (`add_dependencies` of its classes).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeAlias

from nexusform.documents.yaml_documents import ELISION, Node
from nexusform.domains.vnf.importers.hot_values import Template, resolve_condition, select_branch
from nexusform.domains.vnf.importers.vnf_text import find_first_field

# The scope of a template, and a resource of it.
ResourceId: TypeAlias = tuple[str, str]
_MAX_DEPTH: Final = 40
# Functions with the name of a resource, alone or as the first of a list.
_REFERENCES: Final = frozenset({"get_resource", "get_attr", "Ref", "Fn::GetAtt"})
# Parameters that Heat sets itself.
_PSEUDO_PARAMETERS: Final = ("AWS::", "OS::")
_CONDITIONALS: Final = frozenset({"if", "Fn::If"})


def list_dependencies(template: Template) -> dict[ResourceId, tuple[ResourceId, ...]]:
    """Return the resources that Heat creates before each resource of a template.

    Resources that Heat does not create, or perhaps does not, are left out.
    """
    resources = find_first_field(template.root, "resources", "Resources")
    bodies = {
        name: body
        for name, body in resources.list_fields()
        if body.get_node("external_id").is_absent and resolve_condition(name, template) is True
    }
    return {
        (template.scope, name): tuple(
            (template.scope, needed)
            for needed in dict.fromkeys(_list_needed_names(body, template))
            if needed in bodies and needed != name
        )
        for name, body in bodies.items()
    }


def find_missing_references(template: Template) -> Iterator[tuple[Node, str, str]]:
    """Yield each resource with a name in `depends_on` or a reference that no resource has.

    Also yield the name of the resource, and the missing one. Heat refuses such a template.
    """
    resources = find_first_field(template.root, "resources", "Resources")
    bodies = dict(resources.list_fields())
    # An excerpt leaves resources out.
    if ELISION in bodies or any(body.data == ELISION for body in bodies.values()):
        return
    # `Ref` may name a parameter, too.
    parameters = find_first_field(template.root, "parameters", "Parameters")
    known = {*bodies, *dict(parameters.list_fields())}
    for name, body in bodies.items():
        if resolve_condition(name, template) is not True:
            continue
        for needed in dict.fromkeys(_list_needed_names(body, template)):
            if needed not in known and not needed.startswith(_PSEUDO_PARAMETERS):
                yield body, name, needed


def _list_needed_names(body: Node, template: Template) -> Iterator[str]:
    """Yield the names in `depends_on` and in the references of a resource."""
    explicit = find_first_field(body, "depends_on", "DependsOn").data
    for name in explicit if isinstance(explicit, list) else [explicit]:
        if isinstance(name, str):
            yield name
    for field_name in ("properties", "Properties", "metadata", "Metadata"):
        yield from _list_references(body.get_node(field_name).data, template)


def _list_references(data: Any, template: Template, depth: int = 0) -> Iterator[str]:
    """Yield the names of resources in calls of functions."""
    if depth > _MAX_DEPTH:
        return
    parts: Iterable[Any] = ()
    match data:
        case dict():
            parts = data.values()
            function = next(iter(data), "") if len(data) == 1 else ""
            if function in _CONDITIONALS:
                # An unknown branch has no known references.
                parts = [select_branch(data[function], template, depth)]
            elif function in _REFERENCES:
                yield from _list_argument_names(data[function])
        case list():
            parts = data
    yield from chain.from_iterable(_list_references(part, template, depth + 1) for part in parts)


def _list_argument_names(argument: Any) -> Iterator[str]:
    """Yield the name of a resource in the argument of a function: NAME, or the first of a list."""
    match argument:
        case str(name) | [str(name), *_]:
            yield name


def find_awaited_vdus(
    paths: Mapping[str, tuple[ResourceId, ...]],
    dependencies: Mapping[ResourceId, tuple[ResourceId, ...]],
) -> dict[str, tuple[str, ...]]:
    """Return the VDUs whose servers Heat creates before those of each VDU.

    `paths` are the resources around the servers of a VDU, the outermost first. VDUs that only an
    awaited one awaits are left out.
    """
    vdus_by_resource: dict[ResourceId, list[str]] = {}
    for vdu, path in paths.items():
        for resource in path:
            vdus_by_resource.setdefault(resource, []).append(vdu)
    awaited_by_resource = {
        resource: _find_next_vdus(resource, dependencies, vdus_by_resource)
        for resource in vdus_by_resource
    }
    return {
        vdu: tuple(
            dict.fromkeys(chain.from_iterable(awaited_by_resource[resource] for resource in path))
        )
        for vdu, path in paths.items()
    }


def _find_next_vdus(
    start: ResourceId,
    dependencies: Mapping[ResourceId, tuple[ResourceId, ...]],
    vdus_by_resource: Mapping[ResourceId, list[str]],
) -> list[str]:
    """Return the VDUs reachable from a resource through resources without servers."""
    found: dict[str, None] = {}
    seen = {start}
    stack = [start]
    while stack:
        for resource in dependencies.get(stack.pop(), ()):
            if resource in seen:
                continue
            seen.add(resource)
            if resource in vdus_by_resource:
                found.update(dict.fromkeys(vdus_by_resource[resource]))
            else:
                stack.append(resource)
    return list(found)
