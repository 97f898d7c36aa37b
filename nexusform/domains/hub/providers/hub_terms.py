"""What the block and the operator say of how a hub is to be used."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from nexusform.ports import ChangeRequest


class Terms(Struct, frozen=True):
    """What the block and the operator say. `may_judge` says of the hub's URL whether a confined run may ask
    it more than what stands.
    """

    manager: str
    judge: str
    read_only: bool
    timeout: float
    confined: bool = False
    may_judge: Callable[[str], bool] = lambda _server: True
    take_ownership: bool = False


def taking(terms: Terms, request: ChangeRequest) -> str:
    """What lets a step take fields of others over, as users write it; "" for nothing."""
    if terms.take_ownership:
        return "-take-ownership"
    return "force_conflicts" if (request.planned or {}).get("force_conflicts") is True else ""
