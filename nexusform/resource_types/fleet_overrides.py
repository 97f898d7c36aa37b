"""What the two override types have in common: schema, checks and reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from nexusform.diagnostics import Problem
from nexusform.importers.fleet_model import FleetObject, FleetOverride, JsonPatch, OverrideRule
from nexusform.ports import ResourceType
from nexusform.resource_types.fleet_kinds import FleetKind, Values, fleet_type
from nexusform.resource_types.fleet_reading import json_value, read_label_selector, read_objects
from nexusform.resource_types.fleet_schemas import LABEL_SELECTOR, many, one, text
from nexusform.scheduling.fleet.validation import check_selector, invalid
from nexusform.schema import BlockSchema, OnChange

MOST_RULES: Final = 20
_FORBIDDEN: Final = ("/kind", "/apiVersion", "/status", "/metadata/name", "/metadata/namespace")
_VALUE: Final = text("The new value, as JSON (jsonencode(...)); text that is no JSON counts as that text.")

_RULE: Final = BlockSchema(
    {
        "override_type": text(
            "Patch the object, or leave it out.", default="JSONPatch", choices=("JSONPatch", "Delete")
        )
    },
    {
        "cluster_selector": one(
            "The clusters; an empty block stands for all, no block for none.",
            BlockSchema(
                {},
                {
                    "cluster_selector_term": many(
                        "Clusters by labels; terms are alternatives.",
                        BlockSchema({}, {"label_selector": one("Labels of the cluster.", LABEL_SELECTOR)}),
                    )
                },
            ),
        ),
        "json_patch_override": many(
            "One change, as in a JSON patch.",
            BlockSchema(
                {
                    "op": text("What to do.", required=True, choices=("add", "remove", "replace")),
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
                "The placement that is changed; without it every placement.",
                _PLACEMENT,
                on_change=OnChange.REPLACE,
            ),
            selector: many("Objects that are changed.", BlockSchema(selected, blocks), max_items=20),
            "policy": one(
                "How they are changed.",
                BlockSchema({}, {"override_rule": many("Rules in order.", _RULE, max_items=MOST_RULES)}),
            ),
        },
    )

    def read(attributes: Values, arguments: Values) -> FleetOverride:
        return FleetOverride(
            str(attributes.get("name") or ""),
            str(attributes.get("namespace") or "") if namespaced else "",
            str((arguments.get("placement") or {}).get("name") or ""),
            read_objects(arguments.get(selector)),
            tuple(_rules((arguments.get("policy") or {}).get("override_rule"))),
        )

    def findings(_found: FleetObject, arguments: Values) -> Iterator[Problem]:
        return _findings(arguments, selector)

    fleet = FleetKind(kind, spec, namespaced, (_VALUE,))
    return fleet_type(name, fleet, description, read=read, findings=findings)


def _rules(blocks: Iterable[Values] | None) -> Iterator[OverrideRule]:
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
    if not arguments.get(selector):
        yield invalid((), f"an override needs at least one {selector} block")
    rules = (arguments.get("policy") or {}).get("override_rule") or ()
    if not rules:
        yield invalid((), "an override needs a policy with at least one override_rule")
    for i, block in enumerate(rules):
        here = ("policy", "override_rule", i)
        patches = block.get("json_patch_override") or ()
        deletes = block.get("override_type") == "Delete"
        if deletes and patches:
            yield invalid((*here, "json_patch_override", 0), "a rule of type Delete has no JSON patch")
        if not deletes and not patches:
            yield invalid(here, "a rule of type JSONPatch needs at least one json_patch_override")
        for k, patch in enumerate(patches):
            yield from _patch_findings(patch, (*here, "json_patch_override", k))
        selected = block.get("cluster_selector") or {}
        for k, term in enumerate(selected.get("cluster_selector_term") or ()):
            below = (*here, "cluster_selector", "cluster_selector_term", k, "label_selector")
            yield from check_selector(read_label_selector(term.get("label_selector")), below)


def _why_not(path: str) -> str:
    """Why a patch may not change what this JSON pointer leads to; "" when it may."""
    if not path.startswith("/") or path.endswith("/"):
        return "it must start with / and not end with /"
    if any(_is_within(path, part) for part in _FORBIDDEN):
        return "cannot override what identifies an object"
    if _is_within(path, "/metadata") and not path.startswith(("/metadata/annotations", "/metadata/labels")):
        return "only annotations and labels of metadata"
    return ""


def _is_within(path: str, part: str) -> bool:
    return path == part or path.startswith(f"{part}/")


def _patch_findings(patch: Values, here: tuple[str | int, ...]) -> Iterator[Problem]:
    path = str(patch.get("path") or "")
    why = _why_not(path)
    if why:
        yield invalid((*here, "path"), f"invalid path {path}: {why}")
    if patch.get("op") == "remove" and patch.get("value") is not None:
        yield invalid((*here, "value"), "remove operation cannot have value")
