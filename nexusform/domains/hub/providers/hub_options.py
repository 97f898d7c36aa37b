"""Options for the use of a hub, from the provider block and the operator."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from nexusform.interfaces.plugins import ChangeRequest


class HubOptions(Struct, frozen=True):
    """Options of the provider block and the operator. `allows_dry_run` returns for the hub's URL whether a
    confined run may do more than read. `keeps_missing`: missing objects count as unchanged.
    """

    manager: str
    validate_changes: str
    is_read_only: bool
    timeout: float
    is_confined: bool = False
    allows_dry_run: Callable[[str], bool] = lambda _server: True
    takes_ownership: bool = False
    keeps_missing: bool = False


def get_ownership_source(options: HubOptions, request: ChangeRequest) -> str:
    """Return the flag or argument that permits taking over fields; "" for none."""
    if options.takes_ownership:
        return "-take-ownership"
    return "force_conflicts" if (request.planned or {}).get("force_conflicts") is True else ""
