"""Errors about the kinds that a placement's selectors name."""

from collections.abc import Iterator

from nexusform.diagnostics.diagnostic import Problem
from nexusform.domains.fleet.importers.fleet_records import WITH_SELECTED, FleetPlacement
from nexusform.domains.fleet.scheduling.fleet_api_validation import build_error
from nexusform.domains.pods.importers.api_resources import ApiKinds

_NOT_CLUSTER_SCOPED = (
    "not a cluster scoped resource: select its Namespace, or use fleet_resource_placement"
)


def check_selector_kinds(
    placement: FleetPlacement, kinds: ApiKinds, *, is_namespaced: bool
) -> Iterator[Problem]:
    """Yield an error per selector with a kind that is not served, or of the other scope.

    A cluster-scoped placement selects kinds without a namespace, a namespaced one
    (`is_namespaced`) only the others.
    With the scope NamespaceWithResourceSelectors, other selectors select objects of either scope.
    Unknown kinds give no error.
    """
    includes_content = any(
        selector.scope == WITH_SELECTED and selector.is_namespace
        for selector in placement.selectors
    )
    for index, selector in enumerate(placement.selectors):
        path = ("resource_selector", index, "kind")
        if not selector.kind or not selector.version:
            continue
        reason = kinds.explain_unserved_kind(selector.group, selector.version, selector.kind)
        if reason:
            yield build_error(path, reason)
            continue
        known = kinds.find_kind(selector.group, selector.kind)
        if known is None:
            continue
        if is_namespaced and not known.is_namespaced:
            yield build_error(path, f"{selector.kind} is a cluster scoped resource")
        elif known.is_namespaced and not is_namespaced and not includes_content:
            yield build_error(path, f"{selector.kind} is {_NOT_CLUSTER_SCOPED}")
