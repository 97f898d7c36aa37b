"""When a machine takes new VMs, and the words for why it does not.

Schedulable = compute-plane, Uncordoned, not evacuating, On, ready, Provisioned. cordonStatus alone
is not enough: a spare control-plane machine may be Uncordoned and still take no tenant VM.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

COMPUTE_PLANE: Final = "compute-plane"
CORDONED: Final = "cordoned"
EVACUATING: Final = "being evacuated"


def is_compute_plane(role: str) -> bool:
    """Whether a role is compute-plane: plainly, or `platform.afo-nc.microsoft.com/compute-plane=true`."""
    name, _, flag = role.lower().rpartition("/")[2].partition("=")
    return name == COMPUTE_PLANE and flag in {"", "true"}


def refusal_of(
    *,
    roles: Iterable[str] = (COMPUTE_PLANE,),
    cordoned: bool = False,
    evacuating: bool = False,
    power_state: str = "On",
    ready_state: str = "True",
    detailed_status: str = "Provisioned",
) -> str:
    """Why a machine takes no new VM, or "" when it is schedulable.

    Every reason is named ("cordoned, powered off"); the words follow "the machine is".
    """
    reasons: list[str] = []
    if not any(is_compute_plane(role) for role in roles):
        listed = ", ".join(sorted(roles))
        reasons.append(
            f"not a compute-plane machine (roles: {listed})" if listed else "without the role compute-plane"
        )
    if evacuating:
        reasons.append(EVACUATING)
    if cordoned:
        reasons.append(CORDONED)
    if power_state.lower() != "on":
        reasons.append("powered off")
    if ready_state.lower() != "true":
        reasons.append("not ready")
    if detailed_status.lower() != "provisioned":
        reasons.append(f'not provisioned (detailed status "{detailed_status}")')
    return ", ".join(reasons)
