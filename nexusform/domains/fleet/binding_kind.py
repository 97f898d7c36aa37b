"""Placement kind of fleet bindings to clusters."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import compute_natural_sort_key
from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState
from nexusform.interfaces.plugins import ResourceType
from nexusform.placement_kinds.placement_kind import PlacementKind

BINDING: Final = "binding"
# Clusters named one by one.
_MAX_NAMES: Final = 12


def _list_bound_clusters(_type: ResourceType, attributes: Mapping[str, Any]) -> Iterable[str]:
    bindings = attributes.get("bindings")
    return bindings.keys() if isinstance(bindings, Mapping) else ()


def _format_binding_location(location: Binding) -> str:
    return f"{location.cluster} ({location.state})"


def _format_clusters(locations: Iterable[Binding]) -> str:
    """Format the clusters, many of them as runs: `m0..39`; all are counted before."""
    names = [location.cluster for location in locations]
    if len(names) > _MAX_NAMES:
        return format_names(sorted(names, key=compute_natural_sort_key))
    return ", ".join(names)


KIND: Final = PlacementKind(
    name=BINDING,
    noun="fleet binding",
    short_noun="binding",
    title="Fleet bindings",
    location_class=Binding,
    list_names=_list_bound_clusters,
    get_identity=lambda place: (place.cluster,),
    format_text=_format_binding_location,
    format_brief=_format_binding_location,
    # A binding is named like its cluster, so the state is the only addition.
    format_next_to_name=lambda place, _name: str(place.state),
    build_document=lambda place: {"cluster": place.cluster, "state": str(place.state)},
    format_many=_format_clusters,
    get_link=lambda place: (place.cluster, "", ""),
    get_state=lambda place: str(place.state),
    # An unscheduled binding waits for its removal.
    is_running=lambda place: place is None or place.state is not BindingState.UNSCHEDULED,
    format_waiting_state=lambda place: str(place.state),
    host_noun="member",
    by_resource=True,
    add_verb="picks",
    remove_verb="drops",
    run_noun="cluster",
    is_observable=True,
)
