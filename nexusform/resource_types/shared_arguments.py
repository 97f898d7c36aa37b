"""What the arguments of several resource types have in common.

Names, whole numbers, VM SKUs that nobody knows, and the words for an id that nothing stands for or that
stands twice; at the end the `azure` block: what Azure needs beyond what nexusform plans with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from nexusform.diagnostics import Problem, Severity, did_you_mean, nearest_names
from nexusform.plain_data import Path
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting, OnChange, Reference
from nexusform.value_types import DYNAMIC, NUMBER, STRING
from nexusform.values import UNKNOWN, Unknown

NAME_PATTERN: Final = r"[^|/\x00-\x1f]+"
NAME_HINT: Final = 'a name of at least one character, without "|" and "/" (ids and the tie-break use them)'


def name_attribute(what: str) -> Attribute:
    """`name`: optional in a block without count or for_each: the object keeps its name, and the block's is
    that of a new one.
    """
    return Attribute(
        STRING,
        f"Name of the {what}. Default: the current name, else the block's name. Required with count or "
        "for_each.",
        optional=True,
        computed=True,
        on_change=OnChange.REPLACE,
        decides_placement=True,
        pattern=NAME_PATTERN,
        pattern_hint=NAME_HINT,
    )


def id_attribute(form: str) -> Attribute:
    """`id`: computed, known in the plan, may be written as a literal elsewhere."""
    return Attribute(STRING, f"The id: `{form}`.", computed=True)


def parent_attribute(of: str, more: str = "") -> Attribute:
    """The id of the object that this one belongs to for good, a `nexus_site` for example; `more` is added
    to its description.
    """
    return Attribute(
        STRING,
        f"Id of the {of}{more}.",
        required=True,
        on_change=OnChange.REPLACE,
        decides_placement=True,
        refers_to=Reference((of,)),
    )


def figure_attribute(description: str, minimum: int, default: int | None = None, **more: Any) -> Attribute:
    """A number that decides where VMs go, such as an amount of memory; required without a default."""
    return Attribute(
        NUMBER,
        description,
        required=default is None,
        optional=default is not None,
        default=default,
        minimum=minimum,
        decides_placement=True,
        **more,
    )


def joined_id(*parts: Any) -> str:
    """Names joined by "/"; "" while one of them is not known."""
    if any(not isinstance(part, str) for part in parts):
        return ""
    return "/".join(parts)


def is_known(value: Any) -> bool:
    """Whether the value is there and known."""
    return value is not None and value is not UNKNOWN


def whole_number_problems(values: Mapping[str, Any], names: Iterable[str], path: Path = ()) -> list[Problem]:
    """Problems for those of the named arguments that are numbers with a fraction."""
    return [
        Problem(
            (*path, name),
            "invalid-number",
            f'"{name}" must be a whole number, not {float(values[name])}.',
        )
        for name in names
        if isinstance(values.get(name), float | Fraction)
    ]


def memory_problems(values: Mapping[str, Any], path: Path = ()) -> list[Problem]:
    """A problem for `memory_gib` where it is known and not above 0."""
    memory = values.get("memory_gib")
    if memory is None or not is_known(memory) or memory > 0:
        return []
    return [Problem((*path, "memory_gib"), "invalid-number", '"memory_gib" must be above 0.')]


def reference_problem(
    kind: str, argument: str, what: str, object_id: str, known: Iterable[str], how: str
) -> Problem:
    """The problem of an id that nothing in the configuration stands for.

    `what` names the kind ("site"), `how` shows a reference that would be right.
    """
    ids = sorted(known)
    listed = f" Known {what}s: {', '.join(ids[:8])}{', ...' if len(ids) > 8 else ''}." if ids else ""
    return Problem(
        (argument,),
        kind,
        f'No {what} has the id "{object_id}".{did_you_mean(object_id, ids)}{listed} Write a reference '
        f"such as {how}, so that the {what} is planned first.",
    )


def duplicate_problem(kind: str, argument: str, what: str, name: str, other: str) -> Problem:
    """The problem of a second object under one id; `other` is the address of the first."""
    return Problem(
        (argument,),
        kind,
        f'{other} already describes the {what} "{name}". Give one of the two another name, or remove it.',
    )


def unknown_sku(name: str, path: Path, known: Collection[str]) -> Problem:
    """The problem of a VM SKU that nobody knows, with the nearest names."""
    near = nearest_names(name, sorted(known), most=3, likeness=0.5)
    listed = f" The nearest are {', '.join(near)}." if len(near) > 1 else ""
    return Problem(
        path,
        "unknown-vm-sku",
        f'There is no VM SKU "{name}".{did_you_mean(name, sorted(known))}{listed} A size of your own is '
        "declared with nexus_vm_sku.",
    )


def unknown_skus(named: Iterable[tuple[Path, object]], known: Collection[str]) -> list[Problem]:
    """The problems of the SKUs that a resource names, by their path; names not known yet are let pass."""
    return [
        unknown_sku(name, path, known) for path, name in named if isinstance(name, str) and name not in known
    ]


# --- the azure block ---------------------------------------------------------------------------


_OF_THE_BLOCK: Final = ("id", "name", "type")
_Unread: Final = type(None) | Unknown

_BODY: Final = Attribute(
    DYNAMIC,
    "Further request body as in the REST API: location, extendedLocation, tags, properties. Planned values"
    " override it; the rest is sent unchanged.",
    optional=True,
)
_GROUP: Final = Attribute(
    STRING,
    "Resource group. Default: that of the provider block.",
    optional=True,
)
AZURE_BLOCK: Final = NestedBlock(
    BlockSchema({"resource_group": _GROUP, "body": _BODY}),
    Nesting.SINGLE,
    'Further Azure properties, for provider "azure".',
    max_items=1,
)
# A pool stands in the resource group of its cluster.
POOL_AZURE_BLOCK: Final = NestedBlock(
    BlockSchema({"body": _BODY}),
    Nesting.SINGLE,
    'Further Azure properties, for provider "azure".',
    max_items=1,
)


def azure_problems(values: Mapping[str, Any], said: Collection[str], path: Path) -> Iterator[Problem]:
    """What is wrong with the azure block among the arguments of a resource or pool at `path`. `said` are the
    properties of the body that follow from its arguments.
    """
    block = values.get("azure")
    body = block.get("body") if isinstance(block, Mapping) else None
    if not is_known(body):
        return
    here = (*path, "azure", "body")
    properties = body.get("properties") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or not isinstance(properties, Mapping | _Unread):
        detail = "A body is an object such as { properties = { networkConfiguration = { ... } } }."
        yield Problem(here, "invalid-azure-body", detail)
        return
    known = properties if isinstance(properties, Mapping) else {}
    names: list[Path] = [(name,) for name in _OF_THE_BLOCK if name in body]
    names += [("properties", name) for name in sorted(said) if name in known]
    for at in names:
        detail = (
            f"{'.'.join(map(str, at))} follows from the arguments of the block: leave it out of the body."
        )
        yield Problem((*here, *at), "invalid-azure-body", detail)


def even_control_plane(count: Any, path: Path) -> Iterator[Problem]:
    """A warning about a control plane with an even number of members."""
    if not isinstance(count, int) or count < 2 or count % 2:
        return
    detail = (
        f"etcd needs more than half of its members. {count} of them survive the loss of "
        f"{count // 2 - 1}, no more than {count - 1} do, and there is one more that can fail. Take "
        f"{count - 1} or {count + 1}."
    )
    brief = f"{count} control-plane nodes survive no more failures than {count - 1} would"
    yield Problem(path, "even-control-plane", detail, Severity.WARNING, brief=brief)
