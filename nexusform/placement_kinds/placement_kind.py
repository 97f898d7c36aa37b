"""Definition of a kind of placement: its names, its running state, and formats of its locations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.interfaces.plugins import ResourceType
from nexusform.scheduling.placement_decision import ObjectLocation

# The only kind of the engine itself.
VM: Final = "vm"
# Maximum number of machines listed by name.
MAXIMUM_NAMES: Final = 5


class PlacementKind(Struct, frozen=True, kw_only=True):
    """One kind of placement.

    The functions take a location, a record of class `location_class`. `name`: the name in rows
    and JSON. `noun`: `2 fleet bindings`; `short_noun` next to its map. `title`: the title above
    its rows. `list_names(type, attributes)`: its objects in the state of a resource, with
    repetitions, each as formatted by `format_name(pool, object)` from a row's fields. For a
    location: `get_identity` is equal if the object has not moved; `format_text` gives the full
    text, `format_brief` the shortest one, `format_next_to_name(location, object)` the text next
    to the object's name if that contains a part of it; `build_document` is its JSON; `get_link`
    its cluster, node and machine; `get_state` the displayed state if it changes. `format_many`
    formats several locations. `is_running` is whether an object without a location (None) or at
    this one runs, `format_waiting_state` its state otherwise, `build_waiting` its waiting
    location. `host_noun`: the noun of its host. `by_resource`: its rows are listed under their
    resource's address, not under cluster and pool, with the verbs `add_verb` and `remove_verb` in
    comments. `runs_on_vms`: the objects run on VMs, as replicas of a workload. `is_nested`: its
    map has maps inside, by cluster and workload. `run_noun`: the noun for counting rows with the
    same action if the names are no series. `is_observable`: data sources may show existing
    objects, regardless of state.
    """

    name: str
    noun: str
    title: str
    location_class: type[ObjectLocation]
    list_names: Callable[[ResourceType, Mapping[str, Any]], Iterable[str]]
    get_identity: Callable[[Any], tuple[str | None, ...]]
    format_text: Callable[[Any], str]
    format_brief: Callable[[Any], str]
    build_document: Callable[[Any], dict[str, Any]]
    format_many: Callable[[Sequence[Any]], str]
    get_link: Callable[[Any], tuple[str, str, str]]
    short_noun: str = ""
    format_name: Callable[[str, str], str] = lambda _pool, name: name
    format_next_to_name: Callable[[Any, str], str] = lambda _place, _object: ""
    get_state: Callable[[Any], str] = lambda _place: ""
    is_running: Callable[[Any], bool] = lambda _place: True
    format_waiting_state: Callable[[Any], str] = lambda _place: ""
    build_waiting: Callable[[Any], ObjectLocation] | None = None
    host_noun: str = "place"
    by_resource: bool = False
    add_verb: str = "places"
    remove_verb: str = "removes"
    runs_on_vms: bool = False
    is_nested: bool = False
    run_noun: str = ""
    is_observable: bool = False
