"""Common arguments of several resource types.

Names, whole numbers, unknown VM SKUs, and messages for unknown or duplicate ids; at the end the
`azure` block with the additional data for Azure.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity, find_nearest_names, suggest_name
from nexusform.json_data.plain_data import Path, get_value_at_path
from nexusform.json_data.secret_paths import SECRET_FIELDS
from nexusform.schemas.block_schema import (
    AttributeSchema,
    BlockSchema,
    NestedBlock,
    Nesting,
    ObjectReference,
    OnChange,
)
from nexusform.schemas.value_types import DYNAMIC, NUMBER, STRING
from nexusform.values.typed_value import UNKNOWN, Unknown

# Arguments that decide placements.
build_optional_argument: Final = partial(AttributeSchema, optional=True, decides_placement=True)
build_required_argument: Final = partial(AttributeSchema, required=True, decides_placement=True)
# The id of an Azure subscription.
GUID_PATTERN: Final = r"(?i:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"
GUID_HINT: Final = "a GUID (see `az account show --query id`)"


def build_name_attribute(noun: str) -> AttributeSchema:
    """Build the attribute `name`.

    It is required with count or for_each, and another name replaces the object.
    """
    return build_optional_argument(
        STRING,
        (
            f"Name of the {noun}. Default: the current name, else the block's name. Required with "
            "count or for_each."
        ),
        computed=True,
        on_change=OnChange.REPLACE,
        pattern=r"[^|/\x00-\x1f]+",
        pattern_hint=(
            'a name of at least one character, without "|" and "/" (ids and the tie-break use them)'
        ),
    )


def build_id_attribute(form: str) -> AttributeSchema:
    """Build the attribute `id` of an object, computed in the plan already.

    `form` is its format, `<site>/<rack>`.
    """
    return AttributeSchema(STRING, f"The id: `{form}`.", computed=True)


def build_parent_attribute(
    parent_type: str, addition: str = "", other_types: tuple[str, ...] = ()
) -> AttributeSchema:
    """Build the argument with the parent's id; another parent replaces the object.

    `addition` extends the help text.
    """
    return build_required_argument(
        STRING,
        f"Id of the {parent_type}{addition}.",
        on_change=OnChange.REPLACE,
        refers_to=ObjectReference((parent_type, *other_types)),
    )


def build_placement_number(
    description: str, minimum: int, default: int | None = None, **more: Any
) -> AttributeSchema:
    """Build a number that determines placements, such as an amount of memory.

    It is required if it has no default.
    """
    return AttributeSchema(
        NUMBER,
        description,
        required=default is None,
        optional=default is not None,
        default=default,
        minimum=minimum,
        decides_placement=True,
        **more,
    )


def join_id_parts(*parts: Any) -> str:
    """Return names joined by "/"; "" while any of them is unknown."""
    if any(not isinstance(part, str) for part in parts):
        return ""
    return "/".join(parts)


def build_id_builder(*names: str) -> Callable[[Mapping[str, Any]], str]:
    """Build the function for an object id of these attributes.

    Its result is "" while any of them is unknown.
    """
    return lambda attributes: join_id_parts(*map(attributes.get, names))


def is_set_and_known(value: Any) -> bool:
    """Return whether the value is set and known."""
    return value is not None and value is not UNKNOWN


def get_known_blocks(attributes: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the block of a type, or its blocks by label; empty if they are absent or unknown."""
    blocks = attributes.get(name)
    return blocks if isinstance(blocks, Mapping) else {}


def check_whole_numbers(
    values: Mapping[str, Any], names: Iterable[str], path: Path = ()
) -> list[Problem]:
    """Return problems for the named arguments with a fraction."""
    return [
        Problem(
            (*path, name),
            "invalid-number",
            f'"{name}" must be a whole number, not {float(values[name])}.',
        )
        for name in names
        if isinstance(values.get(name), float | Fraction)
    ]


def check_memory(values: Mapping[str, Any], path: Path = ()) -> list[Problem]:
    """Return a problem if `memory_gib` is known and not above 0."""
    memory = values.get("memory_gib")
    if memory is None or not is_set_and_known(memory) or memory > 0:
        # Unset, unknown or valid.
        return []
    return [Problem((*path, "memory_gib"), "invalid-number", '"memory_gib" must be above 0.')]


def build_reference_problem(
    kind: str, argument: str, noun: str, object_id: str, known: Iterable[str], example: str
) -> Problem:
    """Build the problem with id `kind` about an `object_id` without an object in the configuration.

    `noun` names the sort of object ("site"), `known` are its ids, and `example` is
    a correct reference.
    """
    ids = sorted(known)
    known_text = (
        f" Known {noun}s: {', '.join(ids[:8])}{', ...' if len(ids) > 8 else ''}." if ids else ""
    )
    return Problem(
        (argument,),
        kind,
        f'No {noun} has the id "{object_id}".{suggest_name(object_id, ids)}{known_text} Write a '
        f"reference such as {example}, so that the {noun} is planned first.",
    )


def build_duplicate_object_problem(kind: str, noun: str, name: str, other_address: str) -> Problem:
    """Build the problem of a second object with one id.

    `other_address` is the address of the first.
    """
    detail = f'{other_address} already describes the {noun} "{name}". Rename or remove one of them.'
    return Problem(("name",), kind, detail)


def build_unknown_sku_problem(name: str, path: Path, known: Collection[str]) -> Problem:
    """Build the problem of an unknown VM SKU, with the nearest names."""
    nearest = find_nearest_names(name, sorted(known), max_names=3, likeness=0.5)
    nearest_text = f" The nearest are {', '.join(nearest)}." if len(nearest) > 1 else ""
    return Problem(
        path,
        "unknown-vm-sku",
        f'There is no VM SKU "{name}".{suggest_name(name, sorted(known))}{nearest_text} Declare '
        "your own sizes with nexus_vm_sku.",
    )


def check_skus(sku_names: Iterable[tuple[Path, object]], known: Collection[str]) -> list[Problem]:
    """Return the problems of unknown SKUs in a resource, by their path.

    Unknown values are skipped.
    """
    return [
        build_unknown_sku_problem(name, path, known)
        for path, name in sku_names
        if isinstance(name, str) and name not in known
    ]


_BLOCK_PROPERTIES: Final = ("id", "name", "type")


_UnsetOrUnknown: Final = type(None) | Unknown

_BODY: Final = AttributeSchema(
    DYNAMIC,
    "Further request body as in the REST API: location, extendedLocation, tags, properties. "
    "Planned values override it; the rest is sent unchanged. Credentials, passwords, keys and user "
    "data are sensitive.",
    optional=True,
    secret_fields=SECRET_FIELDS,
)
_GROUP: Final = AttributeSchema(
    STRING, "Resource group. Default: that of the provider block.", optional=True
)
AZURE_BLOCK: Final = NestedBlock(
    BlockSchema({"resource_group": _GROUP, "body": _BODY}),
    Nesting.SINGLE,
    'Further Azure properties, for provider "azure".',
    max_items=1,
)
# A pool is in the resource group of its cluster.
POOL_AZURE_BLOCK: Final = NestedBlock(
    BlockSchema({"body": _BODY}),
    Nesting.SINGLE,
    'Further Azure properties, for provider "azure".',
    max_items=1,
)


def check_azure_block(
    values: Mapping[str, Any], argument_properties: Collection[str], path: Path
) -> Iterator[Problem]:
    """Yield the problems of the `azure` block among `values`.

    `values` are the arguments of a resource or pool at `path`. Its body must not repeat
    `argument_properties`: other arguments set them.
    """
    body = get_value_at_path(values, "azure", "body")
    if not is_set_and_known(body):
        # Unset or unknown.
        return
    body_path = (*path, "azure", "body")
    properties = get_value_at_path(body, "properties")
    if (
        not isinstance(body, Mapping)
        or not isinstance(properties, Mapping | _UnsetOrUnknown)
        or any(name != "properties" and name.casefold() == "properties" for name in body)
    ):
        detail = "A body is an object such as { properties = { networkConfiguration = { ... } } }."
        yield Problem(body_path, "invalid-azure-body", detail)
        return
    known_properties = get_known_blocks(body, "properties")
    # Azure ignores the case of names: a second spelling of a property would be sent beside ours.
    ours = {name.casefold() for name in argument_properties}
    misplaced: list[Path] = [
        (name,) for name in sorted(body) if name.casefold() in _BLOCK_PROPERTIES
    ]
    misplaced += [
        ("properties", name) for name in sorted(known_properties) if name.casefold() in ours
    ]
    for property_path in misplaced:
        detail = (
            f"{'.'.join(map(str, property_path))} follows from the arguments of the block: omit "
            "it from the body."
        )
        yield Problem((*body_path, *property_path), "invalid-azure-body", detail)


def check_even_control_plane(count: Any, path: Path) -> Iterator[Problem]:
    """Yield a warning about a control plane with an even number of members."""
    if not isinstance(count, int) or count < 2 or count % 2:
        # Unknown, without redundancy, or odd.
        return
    detail = (
        f"etcd needs more than half of its members. {count} members survive the loss of "
        f"{count // 2 - 1}, "
        f"like {count - 1}, and one more member can fail. Use {count - 1} or {count + 1}."
    )
    summary = f"{count} control-plane nodes survive no more failures than {count - 1} would"
    yield Problem(path, "even-control-plane", detail, Severity.WARNING, brief=summary)
