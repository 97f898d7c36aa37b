"""The place of a fleet placement: its hold on a cluster, as `Placement` is the place of a VM."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class BindingState(StrEnum):
    """Scheduled: picked, not yet rolled out. Bound: rolled out. Unscheduled: to be removed."""

    SCHEDULED = "Scheduled"
    BOUND = "Bound"
    UNSCHEDULED = "Unscheduled"


class Binding(Struct, frozen=True):
    """A placement's hold on a cluster.

    `previous_state` stands only beside Unscheduled. The scores are those of the batch that picked it,
    None for PickFixed. `policy_snapshot` is the index under which it was picked, `resource_snapshot` the
    resources it rolled out (None: not yet). `deleting`: evicted or being removed.
    """

    cluster: str
    state: BindingState
    policy_snapshot: int
    affinity_score: int | None = None
    topology_spread_score: int | None = None
    previous_state: BindingState | None = None
    resource_snapshot: int | None = None
    deleting: bool = False
