"""Interfaces of providers for systems with an identity, and for objects found by the arguments of their block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from nexusform.interfaces.plugins import ObjectKey


@runtime_checkable
class ConfiguredObjectFinder(Protocol):
    """Provider with imports by the arguments of a block instead of an id."""

    def needs_arguments(self, resource_type: str) -> bool:
        """Return whether objects of a type are found by their arguments."""
        ...

    def find_configured(self, resource_type: str, arguments: Mapping[str, Any]) -> tuple[ObjectKey, Mapping[str, Any]]:
        """Find the objects of a block. Raises ProviderProblem with the missing ones."""
        ...


class IdentityComparison(Struct, frozen=True):
    """Comparison of the recorded identity of a system with the observed one. `is_known`: they were compared.
    `difference` names both if they differ, `accepted_by` are the values accepting the observed one, and
    `obstacle` is why they cannot be compared.
    """

    is_known: bool = False
    difference: str = ""
    accepted_by: tuple[str, ...] = ()
    obstacle: str = ""


@runtime_checkable
class IdentifiedProvider(Protocol):
    """Provider of a system with an identity."""

    def read_identity(self, recorded: Mapping[str, Any], objects: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Read the identity; `objects` are the attributes of the recorded objects. Raises ProviderProblem."""
        ...

    def compare_identity(self, recorded: Mapping[str, Any], observed: Mapping[str, Any]) -> IdentityComparison:
        """Compare a recorded identity with the observed one."""
        ...

    def describe_identity(self, identity: Mapping[str, Any]) -> str:
        """Describe the system for the head of a plan; "" if it was not read."""
        ...

    def keep_missing_objects(self) -> None:
        """Report missing objects as unchanged from now on, because their system is unknown."""
        ...

    def has_missing_objects(self) -> bool:
        """Return whether objects were missing since then."""
        ...
