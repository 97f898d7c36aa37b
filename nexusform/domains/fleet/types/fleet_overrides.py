"""What the two override types have in common: schema, checks and reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nexusform.diagnostics import Problem
from nexusform.domains.fleet.importers.fleet_model import (
    FleetObject,
    FleetOverride,
    JsonPatch,
    ObjectSelector,
    OverrideRule,
)
from nexusform.domains.fleet.scheduling.validation import check_selector, invalid
from nexusform.domains.fleet.types.fleet_kinds import FleetKind, Values, fleet_type
from nexusform.domains.fleet.types.fleet_reading import json_value, read_label_selector, read_objects
from nexusform.domains.fleet.types.fleet_schemas import CLUSTER_TERM, LABEL_SELECTOR, many, one, text
from nexusform.plain_data import Path
from nexusform.ports import ResourceType
from nexusform.schema import BlockSchema, OnChange

MOST_RULES: Final = 20
_VALUE: Final = text("New value as JSON (jsonencode(...)); other text is used as is.")

_RULE: Final = BlockSchema(
    {
        "override_type": text(
            "Patch the object, or omit it.", default="JSONPatch", choices=("JSONPatch", "Delete")
        )
    },
    {
        "cluster_selector": one(
            "The clusters. Empty block: all. No block: none.",
            BlockSchema(
                {},
                {
                    "cluster_selector_term": many(
                        "Clusters by labels; terms are alternatives.",
                        CLUSTER_TERM,
                    )
                },
            ),
        ),
        "json_patch_override": many(
            "One change, as in a JSON patch.",
            BlockSchema(
                {
                    "op": text("Operation.", required=True, choices=("add", "remove", "replace")),
                    "path": text("JSON pointer into the object.", required=True),
                    "value": _VALUE,
                }
            ),
            max_items=MOST_RULES,
        ),
    },
)
_PLACEMENT: Final = BlockSchema(
    {
        "name": text("Name of the placement.", required=True),
        "scope": text("Cluster or Namespaced.", default="Cluster", choices=("Cluster", "Namespaced")),
    }
)


def override_type(name: str, kind: str, description: str, *, selector: str, namespaced: bool) -> ResourceType:
    """The resource type of an override; `selector` names the blocks that select objects."""
    selected = {
        "group": text("API group; empty for the core group.", default=""),
        "version": text("API version.", required=True),
        "kind": text("Kind.", required=True),
        "name": text("Name of the object.", required=True)
        if namespaced
        else text("Name of the object.", default=""),
    }
    blocks = {} if namespaced else {"label_selector": one("Selects by labels.", LABEL_SELECTOR)}
    spec = BlockSchema(
        {},
        {
            "placement": one(
                "The affected placement. Default: every placement.",
                _PLACEMENT,
                on_change=OnChange.REPLACE,
            ),
            selector: many("Objects to change.", BlockSchema(selected, blocks), max_items=20),
            "policy": one(
                "The changes.",
                BlockSchema({}, {"override_rule": many("Rules in order.", _RULE, max_items=MOST_RULES)}),
            ),
        },
    )

    def read(attributes: Values, arguments: Values) -> FleetOverride:
        return FleetOverride(
            name=str(attributes.get("name") or ""),
            namespace=str(attributes.get("namespace") or "") if namespaced else "",
            placement=_placement_key(attributes, arguments.get("placement") or {}),
            selectors=read_objects(arguments.get(selector)),
            rules=tuple(_rules((arguments.get("policy") or {}).get("override_rule"))),
        )

    def findings(_override: FleetObject, arguments: Values) -> Iterator[Problem]:
        return _findings(arguments, selector)

    fleet = FleetKind(kind, spec, namespaced)
    return fleet_type(name, fleet, description, read=read, findings=findings)


def _placement_key(attributes: Values, placement: Values) -> str:
    """The key of the placement that an override is for, "" when it is for every one."""
    name = str(placement.get("name") or "")
    if name and placement.get("scope") == "Namespaced":
        return f"{attributes.get('namespace') or ''}/{name}"
    return name


def _rules(blocks: Iterable[Values] | None) -> Iterator[OverrideRule]:
    """The rules of an override, in their order."""
    for block in blocks or ():
        chosen = block.get("cluster_selector")
        clusters = None
        if chosen is not None:
            terms = chosen.get("cluster_selector_term") or ()
            clusters = tuple(read_label_selector(term.get("label_selector")) for term in terms)
        patches = tuple(
            JsonPatch(str(p.get("op") or ""), str(p.get("path") or ""), json_value(p.get("value")))
            for p in block.get("json_patch_override") or ()
        )
        yield OverrideRule(clusters, patches, delete=block.get("override_type") == "Delete")


def _findings(arguments: Values, selector: str) -> Iterator[Problem]:
    """What is wrong with an override; `selector` is the block by which it selects objects."""
    if not arguments.get(selector):
        yield invalid((selector,), f"an override needs at least one {selector} block")
    yield from _selector_findings(read_objects(arguments.get(selector)), selector)
    rules = (arguments.get("policy") or {}).get("override_rule") or ()
    if not rules:
        yield invalid(("policy",), "an override needs a policy with at least one override_rule")
    if len(rules) > MOST_RULES:
        text_ = f"at most {MOST_RULES} rules, got {len(rules)}"
        yield invalid(("policy", "override_rule", MOST_RULES), text_)
    for i, block in enumerate(rules):
        yield from _rule_findings(block, ("policy", "override_rule", i))


def _rule_findings(block: Values, here: Path) -> Iterator[Problem]:
    """What is wrong with one rule: its patches, or that it deletes, and the clusters that it is for."""
    patches = block.get("json_patch_override") or ()
    deletes = block.get("override_type") == "Delete"
    if deletes and patches:
        text_ = "JSONPatchOverrides cannot be set when the override type is Delete"
        yield invalid((*here, "json_patch_override", 0), f"invalid JSONPatchOverrides: {text_}")
    if not deletes and not patches:
        yield invalid(here, "invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty")
    if len(patches) > MOST_RULES:
        there = (*here, "json_patch_override", MOST_RULES)
        yield invalid(there, f"at most {MOST_RULES} changes in a rule, got {len(patches)}")
    for k, patch in enumerate(patches):
        yield from _patch_findings(patch, (*here, "json_patch_override", k))
    selected = block.get("cluster_selector") or {}
    for k, term in enumerate(selected.get("cluster_selector_term") or ()):
        yield from _term_findings(term, (*here, "cluster_selector", "cluster_selector_term", k))


def _selector_findings(selectors: Sequence[ObjectSelector], block: str) -> Iterator[Problem]:
    """What the webhook says of the objects that an override names."""
    for i, each in enumerate(selectors):
        if each.labels is not None:
            yield invalid((block, i), f"label selector is not supported for resource selection {each.title}")
        elif not each.name:
            yield invalid((block, i), f"resource name is required for resource selection {each.title}")
        elif each in selectors[:i]:
            yield invalid((block, i), f"resource selector {each.title} already exists, and must be unique")


def _term_findings(term: Values, here: Path) -> Iterator[Problem]:
    """What the webhook says of the clusters that a rule is for."""
    for name in ("property_selector", "property_sorter", "metric_sorter"):
        if term.get(name) is not None:
            yield invalid((*here, name), "invalid clusterSelector: only labelSelector is supported")
            return
    if term.get("label_selector") is None:
        text_ = "labelSelector is required; leave the terms out for every cluster"
        yield invalid(here, f"invalid clusterSelector: {text_}")
    yield from check_selector(read_label_selector(term.get("label_selector")), (*here, "label_selector"))


def _why_not(path: str) -> str:
    """Why a patch may not change what this JSON pointer leads to; "" when it may."""
    if not path:
        return "path cannot be empty"
    if not path.startswith("/"):
        return "path must start with /"
    first, *rest = path.split("/")[1:]
    if first in ("kind", "apiVersion"):
        return "cannot override typeMeta fields"
    if first == "metadata" and not rest:
        return "cannot override field metadata"
    if first == "metadata" and rest[0] not in ("annotations", "labels"):
        return "cannot override metadata fields except annotations and labels"
    if first == "status":
        return "cannot override status fields"
    return "" if all(part.strip() for part in (first, *rest)) else "path cannot contain empty string"


def _patch_findings(patch: Values, here: Path) -> Iterator[Problem]:
    """What is wrong with one change of a JSON patch."""
    path = str(patch.get("path") or "")
    why = _why_not(path)
    if why:
        yield invalid((*here, "path"), f"invalid JSONPatchOverride {path}: {why}")
    if patch.get("op") == "remove" and patch.get("value") is not None:
        text_ = "remove operation cannot have value"
        yield invalid((*here, "value"), f"invalid JSONPatchOverride {path}: {text_}")
