"""Consequence of a plan: one record per thing that ends, is hurt, or is down for some time."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, field

from nexusform.placements.consequences import ConsequenceSeverity, DataFate

# Another placement avoids that the loss of a rack breaks the quorum of etcd.
QUORUM_ON_ONE_RACK: Final = "control-plane-on-one-rack"
# The loss of a rack leaves no VM of a pool or cluster that was on several racks.
ALL_ON_ONE_RACK: Final = "all-on-one-rack"
RACK_RISKS: Final = frozenset({QUORUM_ON_ONE_RACK, ALL_ON_ONE_RACK})


# Ends of objects, and of all pods of workloads, on clusters whose placement stays.
DESTROYED_CONTENT: Final = "destroyed-content"
STOPPED_WORKLOAD: Final = "stopped-workload"
# A placement leaves one of its clusters.
LEFT_CLUSTER: Final = "placement-leaves-cluster"
# Nothing is left of a workload or pool that stays.
_EMPTIED: Final = frozenset({STOPPED_WORKLOAD, "pool-empty"})
CONTENT_RISKS: Final = frozenset({DESTROYED_CONTENT, STOPPED_WORKLOAD})


class ConsequenceKind(StrEnum):
    """What happens to the subject of a consequence.

    `ends`: it is deleted. `replaced`: it is deleted and created again. `leaves`: it stays,
    unmanaged. `shrinks`: it has fewer VMs or pods. `restarts`: some of its VMs are re-created.
    `down`: nothing of it, or no quorum, is up.
    `loses_redundancy`: the next failure stops it. `loses_rule`: a rule holds no longer.
    `loses_capacity`: nothing more fits.
    """

    ENDS = "ends"
    REPLACED = "replaced"
    LEAVES = "leaves"
    SHRINKS = "shrinks"
    RESTARTS = "restarts"
    DOWN = "down"
    LOSES_REDUNDANCY = "loses_redundancy"
    LOSES_RULE = "loses_rule"
    LOSES_CAPACITY = "loses_capacity"


class ConsequenceCause(StrEnum):
    """Cause of a consequence: this plan, or the state before it."""

    PLAN = "plan"
    STATE = "state"


class Consequence(Struct, frozen=True, kw_only=True):
    """Consequence of a plan for one subject.

    `risk` is its id in SARIF and JSON, `subject` the name of the object, `address` that of its
    resource ("" for several). `runs` counts what ran on it before the plan by placement kind;
    `where` are its clusters or racks. `data` is the fate of its data, None if it has none.
    `before` and `after` are numbers of its VMs, pods or clusters: before the plan, and at the worst
    moment or afterwards. `removed` counts the rows of the plan that it accounts for, by kind: each
    removed, forgotten or lost VM, binding and pod is in one record. `objects` is the number of
    objects on clusters that end with it. `text` is a sentence without its full stop, `title` the
    subject with what runs on it: `web (15 VMs)`. `since` is the cause. No placement on the site
    avoids a consequence that is not `is_avoidable`.
    """

    kind: ConsequenceKind
    risk: str
    severity: ConsequenceSeverity
    subject: str
    text: str
    address: str = ""
    title: str = ""
    runs: Mapping[str, int] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    data: DataFate | None = None
    before: int = 0
    after: int = 0
    removed: Mapping[str, int] = field(default_factory=dict)
    objects: int = 0
    since: ConsequenceCause = ConsequenceCause.PLAN
    is_avoidable: bool = True

    @property
    def is_caused(self) -> bool:
        """Whether the plan causes it, and another placement avoids it."""
        return self.since is ConsequenceCause.PLAN and self.is_avoidable

    @property
    def is_emptied(self) -> bool:
        """Whether it stays, and has no VM or pod afterwards."""
        return self.risk in _EMPTIED

    @property
    def is_risk(self) -> bool:
        """Whether the plan causes it, and it hurts."""
        return self.is_caused and self.severity is not ConsequenceSeverity.NONE

    @property
    def is_lasting(self) -> bool:
        """Whether the plan causes it, and it lasts."""
        return self.is_caused and self.severity is ConsequenceSeverity.LASTING


def build_consequence_document(consequence: Consequence) -> dict[str, Any]:
    """Build the record of a consequence; `runs` and `removed` count objects by placement kind."""
    details = {
        "runs": dict(consequence.runs),
        "where": list(consequence.where),
        "data": consequence.data.value if consequence.data else "",
        "removed": dict(consequence.removed),
        "objects": consequence.objects,
    }
    return {
        "kind": consequence.kind.value,
        "risk": consequence.risk,
        "severity": consequence.severity.value,
        "subject": consequence.subject,
        "address": consequence.address,
        **{name: detail for name, detail in details.items() if detail},
        "before": consequence.before,
        "after": consequence.after,
        "since": consequence.since.value,
        "text": consequence.text,
    }
