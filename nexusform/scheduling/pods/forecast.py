"""What a prediction says: one outcome per pod, and per workload how many can be placed at all."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.pods.model import PodSpec, StandingPod, Workload

PLACE, MOVE, REMOVE, KEEP = "place", "move", "remove", "keep"

NEW = "new"
SCALE_OUT = "scale_out"
SCALE_IN = "scale_in"
NODE_REMOVED = "node_removed"
TEMPLATE_CHANGED = "template_changed"
WORKLOAD_REMOVED = "workload_removed"


class PodOutcome(Struct, frozen=True):
    """What becomes of one pod.

    `node` "" = Pending (or removed, when `action` says so), and then `reason` says why, as Kubernetes
    would, and `refusals` has the first reason per node. `certain`: any scheduler run would choose this
    node (or leave the pod Pending). `feasible` and `score` are None where nothing was decided.
    """

    workload: str
    number: int
    name: str
    action: str
    node: str
    previous: str = ""
    trigger: str = ""
    certain: bool = True
    feasible: int | None = None
    score: int | None = None
    reason: str = ""
    refusals: tuple[Refusal, ...] = ()
    spec: PodSpec | None = None
    age: int = 0

    @property
    def pending(self) -> bool:
        """Whether the pod exists and has no node."""
        return self.action != REMOVE and not self.node


class Reach(Struct, frozen=True):
    """The least and the most pods that hard rules let through, exactly or as bounds."""

    least: int
    most: int
    exact: bool


class WorkloadForecast(Struct, frozen=True):
    """A workload after the prediction: the pods it asks for, and those that run by machine and zone.

    Counts leave out nodes whose machine or zone nobody knows. `stuck`: a rolling update cannot go on.
    """

    workload: Workload
    replicas: int
    running: int
    reach: Reach
    per_machine: Mapping[str, int]
    per_rack: Mapping[str, int]
    per_zone: Mapping[str, int]
    stuck: bool = False


class Prediction(Struct, frozen=True):
    """The outcomes in order of decision (removed pods last), and a forecast per workload key."""

    outcomes: tuple[PodOutcome, ...]
    forecasts: Mapping[str, WorkloadForecast]
    bystanders: tuple[StandingPod, ...] = ()

    def standing(self) -> tuple[StandingPod, ...]:
        """Every pod that exists afterwards, Pending ones too: what a next prediction starts from."""
        mine = tuple(
            StandingPod(o.workload, o.number, o.node, o.spec, o.age)
            for o in self.outcomes
            if o.action != REMOVE and o.spec is not None
        )
        return self.bystanders + mine

    def pending(self) -> tuple[PodOutcome, ...]:
        """The pods that no node takes."""
        return tuple(o for o in self.outcomes if o.pending)

    def of(self, workload: str) -> tuple[PodOutcome, ...]:
        """The outcomes of one workload (key), by number; removed pods too."""
        return tuple(sorted((o for o in self.outcomes if o.workload == workload), key=lambda o: o.number))
