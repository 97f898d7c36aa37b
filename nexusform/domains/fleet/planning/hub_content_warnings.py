"""Warnings about hub objects without a namespace, and about kinds that nothing defines.

A kind may be undefined on the hub, or on a cluster that gets custom resources.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import format_count, format_list
from nexusform.domains.fleet.planning.fleet_snapshot import FleetPodPredictor
from nexusform.domains.fleet.planning.object_ownership import DirectObjects
from nexusform.domains.fleet.planning.override_rendering import collect_namespace_names
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.planned_hub import PlannedHub
from nexusform.domains.pods.importers.api_resources import ApiKinds
from nexusform.domains.pods.importers.manifest_parser import (
    DEFAULT_NAMESPACE,
    Manifest,
    is_fleet_group,
    lacks_namespace,
    select_custom_definitions,
)
from nexusform.planning.instances.instance import Instance

NO_NAMESPACE: Final = "object-without-namespace"
UNKNOWN_KIND: Final = "unknown-resource-kind"
NO_DEFINITION: Final = "missing-cluster-definition"
_MAX_NAMES: Final = 3


class _UnnamedObjects(Struct, frozen=True):
    """Objects of a block without a namespace that no placement selects.

    `defaulted` are read as objects in default. `undefined` are of kinds that nothing defines, so
    they are read as cluster-scoped.
    """

    instance: Instance
    defaulted: Sequence[Manifest]
    undefined: Sequence[Manifest]


def warn_objects_without_namespace(
    hub: PlannedHub, placements: Sequence[PlacementPlan]
) -> Iterator[Diagnostic]:
    """Yield one warning about the hub objects that lack a namespace.

    Without placements nothing is selected anyway. A placement may select them as they are.
    """
    selected = {
        manifest.identity for placement in placements for manifest in placement.selection.manifests
    }
    affected: list[_UnnamedObjects] = []
    for instance, manifests in hub.configured_objects:
        unselected = [manifest for manifest in manifests if manifest.identity not in selected]
        defaulted = list(filter(lacks_namespace, unselected))
        undefined = [manifest for manifest in unselected if _has_unknown_scope(manifest, hub)]
        if defaulted or undefined:
            affected.append(_UnnamedObjects(instance, defaulted, undefined))
    if affected and placements:
        namespaces = _collect_selected_namespaces(placements)
        yield _build_namespace_warning(affected, sorted(namespaces - {DEFAULT_NAMESPACE}))


def _has_unknown_scope(manifest: Manifest, hub: PlannedHub) -> bool:
    """Return whether an object names no namespace, and nothing says whether its kind needs one."""
    is_defined = hub.api_kinds.find_kind(manifest.group, manifest.kind) is not None
    return not (manifest.namespace or is_fleet_group(manifest.group) or is_defined)


def warn_unknown_kinds(
    hub: PlannedHub, placements: Sequence[PlacementPlan]
) -> Iterator[Diagnostic]:
    """Yield a warning per placement with selectors of kinds that nothing defines.

    A live hub has the definitions, so its dry run checks them.
    """
    for placement in placements:
        instance = placement.spec.instance
        if instance.block is None or instance.block.provider:
            continue
        titles = [
            selector.title
            for selector in placement.spec.configuration.selectors
            if not is_fleet_group(selector.group)
            and hub.api_kinds.find_kind(selector.group, selector.kind) is None
        ]
        if titles:
            names = format_list(titles, _MAX_NAMES)
            fact = f"{names}: no CustomResourceDefinition of the configuration defines the kind"
            text = f"{fact}. Its scope and version are not checked. Add the definition."
            yield instance.build_diagnostic(
                Problem(
                    (),
                    UNKNOWN_KIND,
                    text,
                    Severity.WARNING,
                    brief=f"{placement.key}: {fact}, so its scope and version are not checked",
                )
            )


def warn_missing_definitions(
    placements: Sequence[PlacementPlan], direct: DirectObjects, pods: FleetPodPredictor
) -> Iterator[Diagnostic]:
    """Yield a warning per placement and kind that a placement defines on other clusters only.

    `direct` are the objects added to clusters without a placement. A kind without any placed
    definition may be installed by other means, so it gives no warning. Neither does a kind that a
    dump of the cluster defines.
    """
    selected = chain.from_iterable(placement.selection.manifests for placement in placements)
    if not any(True for _definition in select_custom_definitions(selected)):
        return
    contents = [(placement, placement.compute_final_resources()) for placement in placements]
    defined: dict[str, set[tuple[str, str]]] = {}
    for cluster, objects in direct.items():
        manifests = [manifest for _address, manifest in objects.values()]
        defined.setdefault(cluster, set()).update(ApiKinds(manifests).custom_kinds)
    for _placement, by_cluster in contents:
        for cluster, content in by_cluster.items():
            defined.setdefault(cluster, set()).update(ApiKinds(content.manifests).custom_kinds)
    placed_kinds = set().union(*defined.values())
    for cluster, kinds in defined.items():
        kinds.update(ApiKinds(pods.list_objects(cluster)).custom_kinds)
    for placement, by_cluster in contents:
        missing: dict[tuple[str, str], list[str]] = {}
        for cluster, content in by_cluster.items():
            kinds = {(manifest.group, manifest.kind) for manifest in content.manifests}
            for kind in sorted((kinds & placed_kinds) - defined[cluster]):
                missing.setdefault(kind, []).append(cluster)
        for (group, kind_name), clusters in missing.items():
            fact = (
                f"no placement adds the CustomResourceDefinition of {kind_name} ({group}) to "
                f"{format_list(clusters, _MAX_NAMES)}"
            )
            text = (
                f"{placement.key} adds {kind_name} there, but {fact}. Such objects cannot be "
                "applied without it. Place the definition on the same clusters."
            )
            yield placement.spec.instance.build_diagnostic(
                Problem((), NO_DEFINITION, text, Severity.WARNING, brief=f"{placement.key}: {fact}")
            )


def _collect_selected_namespaces(placements: Iterable[PlacementPlan]) -> set[str]:
    """Return the namespaces whose objects placements select, or that they name."""
    namespaces: set[str] = set()
    for placement in placements:
        configuration = placement.spec.configuration
        if configuration.namespace:
            namespaces.add(configuration.namespace)
        namespaces |= {
            selector.name
            for selector in configuration.selectors
            if selector.is_namespace and selector.name
        }
        namespaces |= collect_namespace_names(placement.selection.manifests)
    return namespaces


def _build_namespace_warning(
    affected: Sequence[_UnnamedObjects], namespaces: Sequence[str]
) -> Diagnostic:
    """Build the warning about objects without a namespace, at the first of their blocks."""
    first = affected[0]
    defaulted = [manifest for objects in affected for manifest in objects.defaulted]
    undefined = [manifest for objects in affected for manifest in objects.undefined]
    count = len(defaulted) + len(undefined)
    verb = "has" if count == 1 else "have"
    kinds = format_list(sorted({manifest.kind for manifest in undefined}), _MAX_NAMES)
    if not undefined:
        reading = f"read as {DEFAULT_NAMESPACE}"
    elif not defaulted:
        reading = f"read as cluster-scoped (no definition of {kinds})"
    else:
        reading = (
            f"{len(defaulted):,} read as {DEFAULT_NAMESPACE}, {len(undefined):,} as "
            f"cluster-scoped (no definition of {kinds})"
        )
    names = format_list(namespaces, _MAX_NAMES)
    selection = f"placements select {names}" if namespaces else "no placement selects it"
    if len(namespaces) == 1:
        selection = f"the placement selects {names}"
    name = namespaces[0] if len(namespaces) == 1 else "NAME"
    advice = " If such a kind is cluster-scoped, add its definition." if undefined else ""
    text = (
        f"{format_count(count, 'object')} {verb} no namespace: {reading}; {selection}. "
        f'Set namespace = "{name}".'
    )
    line = min(manifest.line for manifest in (*first.defaulted, *first.undefined))
    return first.instance.build_diagnostic(
        Problem(
            ("yaml_body",),
            NO_NAMESPACE,
            f"yaml_body:{line}: {text}{advice}",
            Severity.WARNING,
            brief=text,
            line=line,
        )
    )
