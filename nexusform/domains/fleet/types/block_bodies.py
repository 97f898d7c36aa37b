"""Blocks of fleet objects as the mappings that a manifest has."""

from collections.abc import Mapping
from typing import Any, Final

from nexusform.domains.fleet.types.fleet_arguments import parse_json
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, Nesting

_METADATA_ARGUMENTS: Final = frozenset(
    {"id", "name", "namespace", "manifest", "lenient", "force_conflicts", "approvals"}
)
_SINGULAR_BLOCKS: Final = frozenset({"preferred_during_scheduling_ignored_during_execution"})
_AMOUNT_ARGUMENTS: Final = frozenset(
    {"max_unavailable", "max_surge", "min_available", "max_concurrency"}
)
# Newer versions lack fields that blocks have.
BLOCK_API_VERSION: Final = "placement.kubernetes-fleet.io/v1beta1"
# Names that blocks accept for another one.
_ALIASES: Final = {"metric_sorter": "property_sorter"}


def _is_argument_needed(
    name: str, attribute: AttributeSchema, arguments: Mapping[str, Any]
) -> bool:
    """Return True if the API needs an argument: it is required, or differs from its default."""
    # required by the API, even for the core group.
    if name == "group":
        return True
    value = arguments.get(name)
    return value is not None and (attribute.required or value != attribute.default)


def build_block_body(schema: BlockSchema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments different from their defaults as a body in the API's form.

    Nested blocks are part of the body. Names become camel case, and those of repeated blocks
    plural: `cluster_selector_term` becomes `clusterSelectorTerms`.
    """
    # nested blocks have none.
    metadata_arguments = _METADATA_ARGUMENTS if "id" in schema.attributes else ()
    body: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        if not attribute.is_configurable or name in metadata_arguments:
            # No field of the spec.
            continue
        if _is_argument_needed(name, attribute, arguments):
            # Of a JSON patch; a taint's value is text.
            is_json = name == "value" and "op" in schema.attributes
            value = _convert_value_to_kubernetes(name, arguments.get(name), is_json=is_json)
            body[convert_to_camel_case(name)] = value
    for name, block in schema.blocks.items():
        value = arguments.get(name)
        if value not in (None, []):
            api_name = convert_to_camel_case(_ALIASES.get(name, name))
            if block.nesting is Nesting.LIST:
                ending = "" if name in _SINGULAR_BLOCKS else "s"
                body[api_name + ending] = [
                    build_block_body(block.schema, content) for content in value
                ]
            else:
                body[api_name] = build_block_body(block.schema, value)
    # An empty selector selects every cluster; the API requires its terms.
    if body.get("clusterSelector") == {}:
        body["clusterSelector"] = {"clusterSelectorTerms": []}
    return body


def _convert_value_to_kubernetes(name: str, value: Any, *, is_json: bool) -> Any:
    """Return a value as in Kubernetes.

    Amounts become numbers, JSON is parsed (with `is_json`), and other text is unchanged.
    """
    if not isinstance(value, str):
        return value
    if name in _AMOUNT_ARGUMENTS and value.isdecimal():
        return int(value)
    return parse_json(value) if is_json else value


def convert_to_camel_case(name: str) -> str:
    """Return the API name of an argument: `maxUnavailable` of `max_unavailable`."""
    first_word, *further_words = name.split("_")
    return first_word + "".join(word.capitalize() for word in further_words)
