"""Identity of a site: its subscription and custom location."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nexusform.providers.identified_provider import IdentityComparison


class SiteIdentity:
    """Identity part of a provider of sites; empty for an export."""

    def __init__(self, identity: Mapping[str, str]) -> None:
        self._identity = identity

    def read_identity(self, _recorded: Mapping[str, Any], _objects: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the subscription and the custom location; empty for an export."""
        return self._identity

    def compare_identity(self, recorded: Mapping[str, Any], observed: Mapping[str, Any]) -> IdentityComparison:
        """Compare the subscriptions and custom locations; a missing one matches every other."""
        for name, value in observed.items():
            known = str(recorded.get(name) or "")
            if known and value and known != value:
                difference = f"{name} is {known} in the state, and {value} here"
                return IdentityComparison(is_known=True, difference=difference, accepted_by=(value,))
        return IdentityComparison(is_known=True)

    def describe_identity(self, _identity: Mapping[str, Any]) -> str:
        """Return no title; reports name the sites."""
        return ""

    def keep_missing_objects(self) -> None:
        """Ignore the request: the identity is always known."""

    def has_missing_objects(self) -> bool:
        """Return False: the identity is always known."""
        return False
