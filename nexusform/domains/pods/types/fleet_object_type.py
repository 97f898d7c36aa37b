"""Resource types with objects of a fleet hub."""

from collections.abc import Callable, Mapping
from typing import Any

from nexusform.interfaces.plugins import ResourceType


class FleetObjectType(ResourceType, frozen=True, kw_only=True):
    """Resource type with an object of a fleet.

    `build_fleet_object(attributes)` returns the object (a `FleetObject` of the domain fleet); it
    is not called for arguments that `check` rejects. `list_applied_objects(attributes, note)`
    returns the Kubernetes objects that an object of state applies, by member; None if its note
    does not contain them.
    """

    build_fleet_object: Callable[[Mapping[str, Any]], Any]
    list_applied_objects: Callable[[Mapping[str, Any], Mapping[str, Any] | None], Any] | None = None
