"""What is risky about the pods of a workload: the kinds of warnings, and what they are made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.domains.pods.scheduling.board import Board
from nexusform.domains.pods.scheduling.forecast import PodOutcome, WorkloadForecast
from nexusform.domains.pods.scheduling.rollouts import NextRollout
from nexusform.domains.pods.scheduling.workloads import Cluster, Node, PodTerm, Workload

SHARED_MACHINE: Final = "pods-share-a-machine"
SHARED_RACK: Final = "pods-share-a-rack"
UNLABELLED: Final = "workers-without-the-topology-label"
UNKNOWN_KEY: Final = "unknown-topology-key"
TOO_MANY: Final = "anti-affinity-of-pods-cannot-be-met"
DEADLOCK: Final = "rollout-will-hang"
STUCK: Final = "rollout-hangs"
PENDING: Final = "pods-stay-pending"
FAILED: Final = "pods-are-refused-by-kubelet"
GATED: Final = "pods-wait-for-scheduling-gates"
NOT_MADE: Final = "pods-are-not-made"
NOWHERE: Final = "daemonset-gets-no-pod"
VOLUMES: Final = "limits-of-volumes-are-not-known"
PREEMPTS: Final = "pods-are-evicted"
NO_EXECUTE_EVICTS: Final = "no-execute-evicts"

RISKS: Final = (
    SHARED_MACHINE,
    SHARED_RACK,
    UNLABELLED,
    UNKNOWN_KEY,
    TOO_MANY,
    DEADLOCK,
    STUCK,
    PENDING,
    FAILED,
    GATED,
    NOT_MADE,
    NOWHERE,
    VOLUMES,
    PREEMPTS,
    NO_EXECUTE_EVICTS,
)
_MOST_NAMES: Final = 5


class PodWarning(Struct, frozen=True):
    """One risk of one workload (key).

    `kind` is the constant of this file and the id of the diagnostic; `detail` is for people. `place` is the
    machine or rack that its pods share ("" = the risk is another one). `brief` says it in a line
    (`name: what`).
    """

    kind: str
    workload: str
    detail: str
    brief: str
    place: str = ""


class Scene(Struct, frozen=True):
    """A workload among the nodes that would take its pods at all."""

    cluster: Cluster
    board: Board
    nodes: tuple[Node, ...]
    by_name: dict[str, Node]
    workload: Workload
    forecast: WorkloadForecast
    outcomes: tuple[PodOutcome, ...]
    next_rollout: NextRollout
    running: tuple[PodOutcome, ...] = ()
    claims_by_node: Mapping[str, int] = {}

    def about_itself(self, terms: Iterable[PodTerm]) -> list[PodTerm]:
        """Those of the workload's terms that choose its own pods."""
        group = self.board.group(self.workload.pod)
        return [term for term in terms if self.board.chooses(term, group)]

    def warn(self, kind: str, detail: str, *, place: str = "", brief: str = "") -> PodWarning:
        """A risk of the workload; `brief` says it in a line where the detail is longer than that."""
        name = f"{self.workload.namespace}/{self.workload.name}"
        text = f"{self.workload.kind} {name}: {detail}"
        return PodWarning(kind, self.workload.key, text, f"{name}: {brief or detail}", place)


def few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:_MOST_NAMES])
    unnamed = len(names) - _MOST_NAMES
    return f"{shown} and {unnamed} more" if unnamed > 0 else shown
