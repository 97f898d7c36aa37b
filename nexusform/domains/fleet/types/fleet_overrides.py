"""Common parts of the two override types: schema, checks and reading."""

from collections.abc import Iterable, Iterator
from typing import Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.domains.fleet.importers.fleet_records import FleetOverride, JsonPatch, OverrideRule
from nexusform.domains.fleet.scheduling.fleet_api_validation import (
    build_error,
    build_violations,
    check_selector,
)
from nexusform.domains.fleet.types.fleet_arguments import (
    parse_json,
    read_label_selector,
    read_resource_selectors,
    read_text,
)
from nexusform.domains.fleet.types.fleet_kinds import FleetKind, Values, build_fleet_type
from nexusform.domains.fleet.types.fleet_schemas import (
    CLUSTER_TERM,
    LABEL_SELECTOR,
    make_block,
    make_block_list,
    make_choice,
    make_text,
)
from nexusform.interfaces.plugins import ResourceType
from nexusform.json_data.plain_data import Path, get_list, get_mapping, get_text
from nexusform.placements.consequences import LASTING_LOSS, ConsequenceTable
from nexusform.schemas.block_schema import BlockSchema, OnChange

MAX_RULES: Final = 20
_VALUE: Final = make_text("New value as JSON (jsonencode(...)); other text is used as is.")

_RULE: Final = BlockSchema(
    {"override_type": make_choice("Patch the object, or omit it.", "JSONPatch", "Delete")},
    {
        "cluster_selector": make_block(
            "The clusters. Empty block: all. No block: none.",
            BlockSchema(
                {},
                {
                    "cluster_selector_term": make_block_list(
                        "Clusters by labels; terms are alternatives.", CLUSTER_TERM
                    )
                },
            ),
        ),
        "json_patch_override": make_block_list(
            "One change, as in a JSON patch.",
            BlockSchema(
                {
                    "op": make_text(
                        "Operation.", required=True, choices=("add", "remove", "replace")
                    ),
                    "path": make_text("JSON pointer into the object.", required=True),
                    "value": _VALUE,
                }
            ),
            max_items=MAX_RULES,
        ),
    },
)
_PLACEMENT: Final = BlockSchema(
    {
        "name": make_text("Name of the placement.", required=True),
        "scope": make_choice("Cluster or Namespaced.", "Cluster", "Namespaced"),
    }
)


def build_override_type(
    name: str, kind: str, description: str, *, selector: str, is_namespaced: bool = False
) -> ResourceType:
    """Build the resource type of an override; `selector` is the name of its selector blocks."""
    selector_arguments = {
        "group": make_text("API group; empty for the core group.", default=""),
        "version": make_text("API version.", required=True),
        "kind": make_text("Kind.", required=True),
        "name": make_text("Name of the object.", required=True)
        if is_namespaced
        else make_text("Name of the object.", default=""),
    }
    selector_blocks = (
        {}
        if is_namespaced
        else {"label_selector": make_block("Selects by labels.", LABEL_SELECTOR)}
    )
    spec = BlockSchema(
        attributes={},
        blocks={
            "placement": make_block(
                "The affected placement. Default: every placement.",
                _PLACEMENT,
                on_change=OnChange.REPLACE,
            ),
            selector: make_block_list(
                "Objects to change.", BlockSchema(selector_arguments, selector_blocks), max_items=20
            ),
            "policy": make_block(
                "The changes.",
                BlockSchema(
                    {},
                    {
                        "override_rule": make_block_list(
                            "Rules in order.", _RULE, max_items=MAX_RULES
                        )
                    },
                ),
            ),
        },
    )

    def read_override(attributes: Values, arguments: Values) -> FleetOverride:
        return FleetOverride(
            name=read_text(attributes, "name"),
            namespace=read_text(attributes, "namespace") if is_namespaced else "",
            placement=_build_placement_key(attributes, get_mapping(arguments, "placement")),
            selectors=read_resource_selectors(get_list(arguments, selector)),
            rules=tuple(_read_override_rules(get_list(arguments, "policy", "override_rule"))),
        )

    return build_fleet_type(
        name,
        FleetKind(kind, spec, is_namespaced),
        description,
        read=read_override,
        findings=lambda _override, arguments: _check_override(arguments, selector),
        consequences=ConsequenceTable(noun="override", delete=LASTING_LOSS),
    )


def _build_placement_key(attributes: Values, placement: Values) -> str:
    """Return the key of an override's placement, "" if it applies to all."""
    name = get_text(placement, "name")
    if name and placement.get("scope") == "Namespaced":
        return f"{get_text(attributes, 'namespace')}/{name}"
    return name


def _read_override_rules(blocks: Iterable[Values]) -> Iterator[OverrideRule]:
    """Yield the rules of override_rule blocks.

    One without a cluster_selector has None and selects no cluster.
    """
    for block in blocks:
        cluster_selector = block.get("cluster_selector")
        clusters = None
        if cluster_selector is not None:
            terms = get_list(cluster_selector, "cluster_selector_term")
            clusters = tuple(read_label_selector(term.get("label_selector")) for term in terms)
        patches = tuple(
            JsonPatch(read_text(p, "op"), read_text(p, "path"), parse_json(p.get("value")))
            for p in get_list(block, "json_patch_override")
        )
        yield OverrideRule(clusters, patches, delete=block.get("override_type") == "Delete")


def _check_override(arguments: Values, selector: str) -> Iterator[Problem]:
    """Yield the problems of an override; `selector` is the name of its selector blocks."""
    selectors = read_resource_selectors(get_list(arguments, selector))
    yield from build_violations(
        (not selectors, (selector,), f"an override needs at least one {selector} block")
    )
    for i, item in enumerate(selectors):
        if item.labels is not None:
            yield build_error(
                (selector, i),
                f"label selector is not supported for resource selection {item.title}",
            )
        elif not item.name:
            yield build_error(
                (selector, i), f"resource name is required for resource selection {item.title}"
            )
        elif item in selectors[:i]:
            yield build_error(
                (selector, i), f"resource selector {item.title} already exists, and must be unique"
            )
    rules = get_list(arguments, "policy", "override_rule")
    limit_path: Path = ("policy", "override_rule", MAX_RULES)
    yield from build_violations(
        (not rules, ("policy",), "an override needs a policy with at least one override_rule"),
        (len(rules) > MAX_RULES, limit_path, f"at most {MAX_RULES} rules, got {len(rules)}"),
    )
    for i, block in enumerate(rules):
        yield from _check_override_rule(block, ("policy", "override_rule", i))


def _check_override_rule(block: Values, path: Path) -> Iterator[Problem]:
    """Yield the problems of one rule: patches or deletion, and its clusters."""
    patches = get_list(block, "json_patch_override")
    deletes = block.get("override_type") == "Delete"
    start = "invalid JSONPatchOverrides: JSONPatchOverrides"
    too_many = f"at most {MAX_RULES} changes in a rule"
    first_path = (*path, "json_patch_override", 0)
    limit_path = (*path, "json_patch_override", MAX_RULES)
    yield from build_violations(
        (
            deletes and patches,
            first_path,
            f"{start} cannot be set when the override type is Delete",
        ),
        (not deletes and not patches, path, f"{start} cannot be empty"),
        (len(patches) > MAX_RULES, limit_path, f"{too_many}, got {len(patches)}"),
    )
    for k, patch in enumerate(patches):
        yield from _check_patch(patch, (*path, "json_patch_override", k))
    for k, term in enumerate(get_list(block, "cluster_selector", "cluster_selector_term")):
        yield from _check_cluster_term(
            term, (*path, "cluster_selector", "cluster_selector_term", k)
        )


def _check_cluster_term(term: Values, path: Path) -> Iterator[Problem]:
    """Yield the webhook's errors about the clusters of a rule."""
    for name in ("property_selector", "property_sorter", "metric_sorter"):
        if term.get(name) is not None:
            yield build_error(
                (*path, name), "invalid clusterSelector: only labelSelector is supported"
            )
            # One error per term is enough.
            return
    text = (
        "invalid clusterSelector: labelSelector is required; omit the terms to select every cluster"
    )
    yield from build_violations((term.get("label_selector") is None, path, text))
    yield from check_selector(
        read_label_selector(term.get("label_selector")), (*path, "label_selector")
    )


def _explain_forbidden_path(path: str) -> str:
    """Return the first reason why a patch may not change the target of `path`, a JSON pointer.

    The result is "" if it may.
    """
    root, *remainder = path.removeprefix("/").split("/")
    is_other_metadata = root == "metadata" and remainder[:1] not in (["annotations"], ["labels"])
    reasons = (
        (not path, "path cannot be empty"),
        (not path.startswith("/"), "path must start with /"),
        (root in ("kind", "apiVersion"), "cannot override typeMeta fields"),
        (root == "metadata" and not remainder, "cannot override field metadata"),
        (is_other_metadata, "cannot override metadata fields except annotations and labels"),
        (root == "status", "cannot override status fields"),
        (any(not step.strip() for step in (root, *remainder)), "path cannot contain empty string"),
    )
    return next((reason for is_forbidden, reason in reasons if is_forbidden), "")


def _check_patch(patch: Values, patch_path: Path) -> list[Problem]:
    """Return the problems of one JSON patch operation."""
    path = read_text(patch, "path")
    reason = _explain_forbidden_path(path)
    start = f"invalid JSONPatchOverride {path}"
    removes_value = patch.get("op") == "remove" and patch.get("value") is not None
    return build_violations(
        (reason, (*patch_path, "path"), f"{start}: {reason}"),
        (removes_value, (*patch_path, "value"), f"{start}: remove operation cannot have value"),
    )


FLEET_CLUSTER_RESOURCE_OVERRIDE: Final = build_override_type(
    "fleet_cluster_resource_override",
    "ClusterResourceOverride",
    "Changes cluster-scoped objects or whole namespaces per cluster.",
    selector="cluster_resource_selector",
)
FLEET_RESOURCE_OVERRIDE: Final = build_override_type(
    "fleet_resource_override",
    "ResourceOverride",
    "Changes objects of one namespace per cluster; overrides fleet_cluster_resource_override.",
    selector="resource_selector",
    is_namespaced=True,
)
