"""The two placement types: schema, checks and reading."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem
from nexusform.diagnostics.phrases import enclose, format_list
from nexusform.domains.fleet.binding_kind import BINDING
from nexusform.domains.fleet.importers.fleet_records import (
    EXTERNAL,
    SERVER_SIDE_APPLY,
    FleetObject,
    FleetPlacement,
)
from nexusform.domains.fleet.importers.selector_kinds import check_selector_kinds
from nexusform.domains.fleet.scheduling.bindings import PlacementType
from nexusform.domains.fleet.scheduling.fleet_api_validation import (
    build_error,
    build_violations,
    check_policy,
    check_rolling_update,
    check_selector,
)
from nexusform.domains.fleet.types.fleet_arguments import (
    check_integers_or_percentages,
    read_placement,
)
from nexusform.domains.fleet.types.fleet_kinds import (
    NO_SELECTOR,
    FleetKind,
    Values,
    build_fleet_type,
)
from nexusform.domains.fleet.types.fleet_schemas import (
    PLACEMENT_ARGUMENTS,
    PLACEMENT_BLOCKS,
    PLACEMENT_PRIVATE,
    PLACEMENT_VALUES,
)
from nexusform.domains.pods.importers.api_resources import ApiKinds
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.pod_kind import POD
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import Path, get_list, get_mapping
from nexusform.kubernetes.quantity import find_weaker_amount
from nexusform.placements.consequences import LASTING_LOSS, ConsequenceTable, ObjectChange
from nexusform.schemas.block_schema import BlockSchema

_PREFERRED: Final = "preferred_during_scheduling_ignored_during_execution"
_SPEC = BlockSchema(PLACEMENT_ARGUMENTS, PLACEMENT_BLOCKS)


def _index_by_cluster(
    attributes: Values, note: Mapping[str, Any] | None
) -> dict[str, tuple[Manifest, ...]] | None:
    """Return the objects of a placement in state by cluster.

    The result is None if its private data (`note`) does not have them.
    """
    from nexusform.domains.fleet.planning.placement_records import list_cluster_objects

    return list_cluster_objects(attributes, note)


def _remove_unselectable_objects(attributes: Values, note: Mapping[str, Any] | None) -> Values:
    """Return the attributes of a placement in state without objects that no hub selects."""
    from nexusform.domains.fleet.planning.placement_records import remove_unselectable_objects

    return remove_unselectable_objects(attributes, note)


def build_placement_type(
    name: str, kind: str, description: str, *, is_namespaced: bool = False
) -> FleetObjectType:
    """Build the resource type of a placement."""
    fleet = FleetKind(kind, _SPEC, is_namespaced)
    placement = build_fleet_type(
        name,
        fleet,
        description,
        read=read_placement,
        findings=partial(_check_placement, is_namespaced=is_namespaced),
        values=PLACEMENT_VALUES,
        private=PLACEMENT_PRIVATE,
        # planned after the other fleet types (5).
        phase=6,
    )
    return replace(
        placement,
        kind=PlanningKind.PLACEMENT,
        placement_kinds=(BINDING, POD),
        list_applied_objects=_index_by_cluster,
        correct_recorded_object=_remove_unselectable_objects,
        consequences=ConsequenceTable(
            noun="placement",
            delete=LASTING_LOSS,
            replace=LASTING_LOSS,
            find_weakening=partial(_find_weaker_rollout, fleet),
        ),
    )


def _find_weaker_rollout(fleet: FleetKind, change: ObjectChange) -> str:
    """Return `changes its rollout from max_unavailable 1 to 3`, or "" for no weaker limit."""
    old, new = (
        read_placement(values, fleet.read_arguments(values)).rolling_update
        for values in (change.before, change.after)
    )
    periods = [update.unavailable_period_seconds for update in (old, new)]
    changes = (
        find_weaker_amount("max_unavailable", old.max_unavailable, new.max_unavailable),
        f"unavailable_period_seconds {periods[0]} to {periods[1]}"
        if periods[1] < periods[0]
        else "",
    )
    return enclose("changes its rollout from ", format_list(filter(None, changes)))


def _check_placement(
    placement: FleetObject, arguments: Values, *, is_namespaced: bool
) -> Iterator[Problem]:
    """Yield the problems of a placement: policy, selectors and strategy."""
    assert isinstance(placement, FleetPlacement)
    if placement.policy is not None:
        for problem in check_policy(placement.policy):
            yield problem.prepend_path("policy")
        yield from _check_integer_fields(arguments)
        # The scheduler ignores an empty affinity block, but the API rejects it.
        has_terms = placement.policy.required_terms is not None or placement.policy.preferred_terms
        has_affinity_block = get_mapping(arguments, "policy").get("affinity") is not None
        is_fixed = placement.policy.placement_type is PlacementType.PICK_FIXED
        text = "affinity must be nil for policy type PickFixed, only valid for PickAll and PickN"
        yield from build_violations(
            (is_fixed and has_affinity_block and not has_terms, ("policy", "affinity"), text)
        )
    text = "resourceSelectors should have at least 1 item: add a resource_selector block"
    yield from build_violations((not placement.selectors, NO_SELECTOR, text))
    for i, selector in enumerate(placement.selectors):
        path = ("resource_selector", i)
        yield from check_selector(selector.labels, (*path, "label_selector"))
        has_both = selector.name and selector.labels is not None
        yield from build_violations(
            (has_both, path, "a resource selector has a name or a label_selector, not both"),
            (
                not selector.kind or not selector.version,
                path,
                "a resource selector needs version and kind",
            ),
        )
    # Built-in kinds; the plan knows the CustomResourceDefinitions on the hub.
    yield from check_selector_kinds(placement, ApiKinds(), is_namespaced=is_namespaced)
    yield from _check_strategy(placement, get_mapping(arguments, "strategy"))


def _check_strategy(placement: FleetPlacement, strategy: Values) -> Iterator[Problem]:
    """Yield the problems of a strategy block: its apply strategy and rolling update."""
    apply = get_mapping(strategy, "apply_strategy")
    is_unused = (
        apply.get("server_side_apply_config") is not None
        and placement.apply.type != SERVER_SIDE_APPLY
    )
    text = "serverSideApplyConfig is only valid for ServerSideApply strategy type"
    yield from build_violations(
        (is_unused, ("strategy", "apply_strategy", "server_side_apply_config"), text)
    )
    rolling_update = strategy.get("rolling_update")
    path = ("strategy", "rolling_update")
    yield from check_integers_or_percentages(rolling_update, ("max_unavailable", "max_surge"), path)
    if rolling_update is None:
        # The defaults are valid.
        return
    configured = placement.rolling_update
    problems = check_rolling_update(
        configured.max_unavailable,
        configured.max_surge,
        configured.unavailable_period_seconds,
        is_external=placement.strategy == EXTERNAL,
    )
    for problem in problems:
        yield problem.prepend_path(*path)


def _check_integer_fields(arguments: Values) -> Iterator[Problem]:
    """Yield errors for fractions in integer fields."""
    policy = get_mapping(arguments, "policy")
    fields: list[tuple[Path, Any]] = [
        (("policy", "number_of_clusters"), policy.get("number_of_clusters"))
    ]
    affinity = get_mapping(policy, "affinity", "cluster_affinity")
    terms_path: Path = ("policy", "affinity", "cluster_affinity", _PREFERRED)
    for i, term in enumerate(get_list(affinity, _PREFERRED)):
        fields.append(((*terms_path, i, "weight"), term.get("weight")))
    for i, constraint in enumerate(get_list(policy, "topology_spread_constraint")):
        fields.append(
            (("policy", "topology_spread_constraint", i, "max_skew"), constraint.get("max_skew"))
        )
    for path, value in fields:
        if isinstance(value, float | Fraction):
            yield build_error(path, f"{path[-1]} must be a whole number, not {float(value)}")


FLEET_CLUSTER_RESOURCE_PLACEMENT: Final = build_placement_type(
    "fleet_cluster_resource_placement",
    "ClusterResourcePlacement",
    "Places cluster-scoped objects and namespaces on member clusters.",
)
FLEET_RESOURCE_PLACEMENT: Final = build_placement_type(
    "fleet_resource_placement",
    "ResourcePlacement",
    "Places objects of one namespace on member clusters.",
    is_namespaced=True,
)
