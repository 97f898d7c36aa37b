"""Kinds of warnings about the pods of a workload, and the context they are computed from."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.pods.scheduling.cluster_records import Cluster, Node, PodTerm, Workload
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome, WorkloadForecast
from nexusform.domains.pods.scheduling.scheduler_cache import SchedulerCache
from nexusform.domains.pods.scheduling.template_rollout import SurgeCapacityCheck

SHARED_MACHINE: Final = "pods-share-machine"
SHARED_RACK: Final = "pods-share-rack"
NO_ANTI_AFFINITY: Final = "pods-without-anti-affinity"
UNLABELLED: Final = "workers-without-topology-label"
UNKNOWN_KEY: Final = "unknown-topology-key"
TOO_MANY: Final = "unsatisfiable-pod-anti-affinity"
DEADLOCK: Final = "rollout-deadlock"
STUCK: Final = "stuck-rollout"
STUCK_PODS: Final = "stuck-pods"
PENDING: Final = "pending-pods"
FAILED: Final = "pods-rejected-by-kubelet"
GATED: Final = "scheduling-gated-pods"
NOT_MADE: Final = "pods-not-created"
NOWHERE: Final = "daemonset-without-pods"
VOLUMES: Final = "unknown-volume-limits"
VOLUME_ON_NODES: Final = "volume-on-several-nodes"
PREEMPTS: Final = "pods-evicted"
NO_EXECUTE_EVICTS: Final = "no-execute-eviction"
MISSING_OBJECTS: Final = "objects-not-on-cluster"

RISKS: Final = (
    *(SHARED_MACHINE, SHARED_RACK, UNLABELLED, UNKNOWN_KEY, TOO_MANY, DEADLOCK, STUCK, STUCK_PODS),
    *(PENDING, FAILED, GATED, NOT_MADE, NOWHERE, VOLUMES, PREEMPTS, NO_EXECUTE_EVICTS),
    *(MISSING_OBJECTS, NO_ANTI_AFFINITY),
)
_MOST_NAMES: Final = 5


class WorkloadWarning(Struct, frozen=True):
    """One risk of one workload (key).

    `kind` is a constant of this module and the id of the diagnostic; `detail` is the message.
    `location` is the machine or rack shared by its pods ("" for other risks). `summary` is one
    line (`name: text`).
    """

    kind: str
    workload: str
    detail: str
    summary: str
    location: str = ""


class WorkloadContext(Struct, frozen=True):
    """Workload with the nodes allowed for its pods, its forecast and its outcomes."""

    cluster: Cluster
    cache: SchedulerCache
    nodes: tuple[Node, ...]
    node_by_name: dict[str, Node]
    workload: Workload
    forecast: WorkloadForecast
    outcomes: tuple[PodOutcome, ...]
    next_rollout: SurgeCapacityCheck
    running_outcomes: tuple[PodOutcome, ...] = ()
    claims_by_node: Mapping[str, int] = {}

    @property
    def pending_pods(self) -> list[PodOutcome]:
        """Pods that wait for a node."""
        return [outcome for outcome in self.outcomes if outcome.is_pending]

    def select_own_terms(self, terms: Iterable[PodTerm]) -> list[PodTerm]:
        """Return the terms of the workload that select its own pods."""
        group = self.cache.get_group(self.workload.pod)
        return [term for term in terms if self.cache.is_selected(term, group)]

    def build_warning(
        self, kind: str, detail: str, *, location: str = "", summary: str = ""
    ) -> WorkloadWarning:
        """Return a risk of the workload.

        `summary` is its short form, by default the detail itself.
        """
        name = f"{self.workload.namespace}/{self.workload.name}"
        text = f"{self.workload.kind} {name}: {detail}"
        return WorkloadWarning(
            kind, self.workload.key, text, f"{name}: {summary or detail}", location
        )


def format_names(names: Sequence[str]) -> str:
    """Format the first names and the number of further ones."""
    return format_first_items(names, _MOST_NAMES)
