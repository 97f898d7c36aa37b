"""Warnings about objects on a hub that no block has, and that act on placements."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import format_count, format_first_items
from nexusform.domains.fleet.importers.fleet_records import FleetOverride
from nexusform.domains.fleet.planning.override_rendering import (
    expand_envelopes,
    list_matching_rules,
)
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.planned_hub import (
    PlannedHub,
    UnmanagedObject,
    build_unmanaged_diagnostic,
)
from nexusform.domains.fleet.scheduling.bindings import collect_clusters_with_resources

UNMANAGED: Final = "unmanaged-hub-object"
_MAX_NAMES: Final = 4


def warn_unmanaged_objects(
    hub: PlannedHub, placements: Mapping[str, PlacementPlan]
) -> Iterator[Diagnostic]:
    """Yield a warning per override, eviction and staged run that acts and has no block.

    `placements` are by key, after their rollouts.
    """
    for override in hub.unmanaged_overrides:
        effects = list(_list_effects(override, placements.values()))
        if effects:
            title = f"override {override.key}"
            yield _build_warning(title, format_first_items(effects, _MAX_NAMES))
    for instance, eviction in hub.evictions:
        placement = placements.get(eviction.placement)
        if placement is None or not isinstance(instance, UnmanagedObject):
            continue
        outcomes = [result for name, result in placement.evictions if name == eviction.name]
        if any(outcome.is_executed for outcome in outcomes):
            effect = f"removes {eviction.placement} from {eviction.cluster}"
            yield _build_warning(instance.title, effect)
    for instance, run in hub.runs:
        placement = placements.get(run.build_key(run.placement))
        if placement is None or not isinstance(instance, UnmanagedObject):
            continue
        clusters = _list_clusters_of_run(placement, run.name)
        if clusters:
            effect = (
                f"moves content of {placement.key} to {format_first_items(clusters, _MAX_NAMES)}"
            )
            yield _build_warning(instance.title, effect)


def _build_warning(title: str, effect: str) -> Diagnostic:
    """Build the warning about an object; its `effect` starts with a verb."""
    text = f"It {effect}. Add a block for it to plan its changes, or delete it on the hub."
    return build_unmanaged_diagnostic(
        title, Problem((), UNMANAGED, text, Severity.WARNING, brief=effect)
    )


def _list_clusters_of_run(placement: PlacementPlan, run: str) -> list[str]:
    """Return the clusters that a staged run reaches, in name order."""
    clusters: set[str] = set()
    for timeline in placement.rollout.timelines:
        if timeline.cause == f"staged run {run}":
            clusters |= {*chain.from_iterable(step.clusters for step in timeline.steps)}
    return sorted(clusters)


def _list_effects(override: FleetOverride, placements: Iterable[PlacementPlan]) -> Iterator[str]:
    """Yield what an override does to each object: `deletes ConfigMap settings on 2 clusters`."""
    # Clusters by verb and title of the object.
    clusters: dict[tuple[str, str], set[str]] = {}
    for placement in placements:
        if override not in placement.selection.overrides:
            continue
        objects = tuple(expand_envelopes(placement.selection.manifests))
        for cluster in sorted(collect_clusters_with_resources(placement.bindings)):
            labels = placement.selection.clusters.labels.get(cluster, {})
            for manifest in objects:
                rules = [rule for _, rule in list_matching_rules(manifest, [override], labels)]
                if rules:
                    verb = "deletes" if any(rule.delete for rule in rules) else "changes"
                    clusters.setdefault((verb, manifest.title), set()).add(cluster)
    for (verb, title), names in clusters.items():
        yield f"{verb} {title} on {format_count(len(names), 'cluster')}"
