"""What the two placement types have in common: schema, checks and reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nexusform.importers.fleet_model import EXTERNAL, FleetPlacement
from nexusform.ports import Problem, ResourceType
from nexusform.resource_types.arguments import id_attribute
from nexusform.resource_types.fleet_kinds import FleetKind, Values, known
from nexusform.resource_types.fleet_reading import amount_problems, read_placement
from nexusform.resource_types.fleet_schemas import (
    MANIFEST,
    PLACEMENT_ARGUMENTS,
    PLACEMENT_BLOCKS,
    PLACEMENT_VALUES,
    filled_name,
    filled_namespace,
)
from nexusform.scheduling.fleet.validation import Finding, check_policy, check_rolling_update, check_selector
from nexusform.schema import BlockSchema
from nexusform.values import Path

_SPEC = BlockSchema(PLACEMENT_ARGUMENTS, PLACEMENT_BLOCKS)


def placement_type(name: str, kind: str, description: str, *, namespaced: bool) -> ResourceType:
    """The resource type of a placement."""
    fleet = FleetKind(kind, _SPEC, namespaced)
    schema = BlockSchema(
        {
            "id": id_attribute("<namespace>/<name>" if namespaced else "<name>"),
            "name": filled_name("placement"),
            **({"namespace": filled_namespace()} if namespaced else {}),
            "manifest": MANIFEST,
            **PLACEMENT_ARGUMENTS,
            **PLACEMENT_VALUES,
        },
        PLACEMENT_BLOCKS,
        description,
    )
    return ResourceType(
        name,
        6,
        schema,
        fleet.identify,
        check=_checker(fleet),
        fill=fleet.fill,
        fleet=_reader(fleet),
    )


def _reader(fleet: FleetKind) -> Callable[[Mapping[str, Any]], FleetPlacement]:
    def read(attributes: Mapping[str, Any]) -> FleetPlacement:
        return read_placement(attributes, fleet.arguments(attributes))

    return read


def _checker(fleet: FleetKind) -> Callable[[Mapping[str, Any]], list[Problem]]:
    def check(attributes: Mapping[str, Any]) -> list[Problem]:
        arguments = fleet.arguments(known(attributes))
        return fleet.problems(attributes, [*_findings(known(attributes), arguments)])

    return check


def _findings(attributes: Values, arguments: Values) -> Iterator[Finding]:
    placement = read_placement(attributes, arguments)
    if placement.policy is not None:
        for found in check_policy(placement.policy):
            yield Finding(("policy", *found.path), found.message, found.warning)
        yield from _fractions(arguments)
    for i, selector in enumerate(placement.selectors):
        here = ("resource_selector", i)
        yield from check_selector(selector.labels, (*here, "label_selector"))
        if selector.name and selector.labels is not None:
            yield Finding(here, "a resource selector has a name or a label_selector, not both")
        if not selector.kind or not selector.version:
            yield Finding(here, "a resource selector needs version and kind")
    strategy = arguments.get("strategy") or {}
    rolling = strategy.get("rolling_update")
    below = ("strategy", "rolling_update")
    yield from amount_problems(rolling, ("max_unavailable", "max_surge"), below)
    if rolling is not None:
        given = placement.rolling
        for found in check_rolling_update(
            given.max_unavailable,
            given.max_surge,
            given.unavailable_period_seconds,
            external=placement.strategy == EXTERNAL,
        ):
            yield Finding((*below, *found.path), found.message, found.warning)


def _fractions(arguments: Values) -> Iterator[Finding]:
    """Numbers with a fraction where the API has whole ones."""
    policy = arguments.get("policy") or {}
    places: list[tuple[Path, Any]] = [(("policy", "number_of_clusters"), policy.get("number_of_clusters"))]
    for i, constraint in enumerate(policy.get("topology_spread_constraint") or ()):
        places.append((("policy", "topology_spread_constraint", i, "max_skew"), constraint.get("max_skew")))
    for path, value in places:
        if isinstance(value, float):
            yield Finding(path, f"{path[-1]} must be a whole number, not {value}")
