"""The pods that one object brings to one cluster: what state remembers of them, and what became of each.

An object's pods may be looked at several times in one plan, as what comes later can be their company or take
their place; what a plan shows of a pod is the whole of its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.domains.pods.importers.kubernetes_workloads import workloads_of
from nexusform.domains.pods.planning.nodes import NodeCluster
from nexusform.domains.pods.planning.rows import (
    OBSERVED,
    PodNote,
    Refused,
    pod_values,
    read_note,
    read_pod,
    refused_rows,
    written_pod,
)
from nexusform.domains.pods.scheduling import forecast
from nexusform.domains.pods.scheduling.forecast import PodOutcome, WorkloadForecast
from nexusform.domains.pods.scheduling.risks import NO_EXECUTE_EVICTS, PREEMPTS, PodWarning
from nexusform.domains.pods.scheduling.workloads import Cluster, PodSpec, PodState, StandingPod, Workload
from nexusform.plans.plan import PlacementChange

OVERRIDE_CHANGED: Final = "override_changed"

# Of these kinds no other pod is made in place of one that failed: a Job gives up after some.
_FAILED_FOR_GOOD: Final = ("Pod", "Job")

PodMap = dict[str, dict[str, Any]]
PodKey = tuple[str, int]
# What another look may say of a pod whose way an earlier look of the same plan has begun.
_GOES_ON: Final = ("", forecast.NEW, forecast.PREEMPTED)


class PriorPods(Struct, frozen=True):
    """What state holds of the pods that one object brought to one cluster. `manifests` are what they
    were made from, as far as state tells. An object that is `left_out` of the plan keeps its pods as they
    are.
    """

    address: str
    cluster_id: str
    workloads: Mapping[str, Mapping[str, Mapping[str, Any]]]
    manifests: tuple[Manifest, ...] = ()
    left_out: bool = False

    def standing(self, specs: Mapping[str, PodSpec]) -> Iterator[tuple[PodNote, StandingPod]]:
        """The pods as they stand, with what is remembered of each. `specs` are those of workloads (keys)."""
        for key, pods in self.workloads.items():
            spec = specs.get(key, PodSpec(namespace=key.partition("/")[0]))
            for name, values in pods.items():
                note = read_note(values)
                over = note.state == PodState.FAILED and key.split("/")[1] in _FAILED_FOR_GOOD
                refused = note.reason or "" if over else ""
                made = _as_made(spec, note)
                number = pod_number(key, name)
                pod = StandingPod(key, number, note.node, made, 0, refused, note.volumes, self.left_out)
                yield note, pod


def prior_workloads(objects: Iterable[PriorPods]) -> dict[str, dict[str, Workload]]:
    """By cluster id and workload, what the pods of state were made from."""
    manifests: dict[str, list[Manifest]] = {}
    for each in objects:
        manifests.setdefault(each.cluster_id, []).extend(each.manifests)
    # Read together: one object's PriorityClass or LimitRange is there for the pods of all.
    readings = {cluster_id: workloads_of(of_cluster) for cluster_id, of_cluster in manifests.items()}
    return {
        cluster_id: {workload.key: workload for workload in reading.workloads}
        for cluster_id, reading in readings.items()
    }


def as_scaled(workloads: Iterable[Workload], before: Mapping[str, Workload]) -> tuple[Workload, ...]:
    """Workloads with what is known of how many pods they had before."""
    scaled: list[Workload] = []
    for workload in workloads:
        prior = before.get(workload.key)
        changed = prior is not None and prior.replicas != workload.replicas
        most = prior.replicas + prior.max_surge if prior is not None and changed else 0
        scaled.append(replace(workload, most_before=most))
    return tuple(scaled)


def specs_of(workloads: Mapping[str, Workload]) -> dict[str, PodSpec]:
    """The specs of these workloads, by key."""
    return {key: workload.pod for key, workload in workloads.items()}


class Scene(Struct, frozen=True):
    """What a prediction started from, so that it can be replayed for an explanation."""

    model: Cluster
    standing: tuple[StandingPod, ...]
    workloads: tuple[Workload, ...]
    seed: int
    lost: frozenset[PodKey]


class Brought(Struct):
    """The pods of one object on one cluster.

    `before` are those of state, by workload and name, `notes` what state remembers of each;
    `prior_templates` are the hashes by workload of what they were made from. `workloads` and `manifests`
    are those of the last call, `shown` is the value that was given out, `outcomes` what became of each pod
    (by workload and number), `displaced` what became of those that were evicted for pods of other objects.
    `unmade`: some are not made, as a quota refuses them; `refused` are those that are not made later, either.
    """

    before: dict[str, dict[str, StandingPod]] = field(default_factory=dict)
    notes: dict[tuple[str, str], PodNote] = field(default_factory=dict)
    prior_templates: dict[str, str] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    outcomes: dict[str, dict[int, PodOutcome]] = field(default_factory=dict)
    displaced: dict[PodKey, PodOutcome] = field(default_factory=dict)
    removed: list[PodOutcome] = field(default_factory=list)
    shown: PodMap = field(default_factory=dict)
    warnings: tuple[PodWarning, ...] = ()
    overridden: bool = False
    unmade: bool = False
    refused: tuple[Refused, ...] = ()
    scene: Scene | None = None

    def of(self, workload: str) -> list[PodOutcome]:
        """What became of the pods of a workload, by number."""
        by_number = self.outcomes.get(workload, {})
        return [by_number[number] for number in sorted(by_number)]

    def everything(self) -> Iterator[PodOutcome]:
        """What became of all its pods."""
        for by_number in self.outcomes.values():
            yield from by_number.values()

    def removed_and_kept(self) -> list[PodOutcome]:
        """What leaves, then what becomes of the pods of its workloads as they were given."""
        outcomes = list(self.removed)
        for workload in self.workloads:
            outcomes += self.of(workload.key)
        return outcomes

    def keys(self) -> set[str]:
        """The keys of its workloads."""
        return {workload.key for workload in self.workloads}

    def note(self, outcome: PodOutcome) -> PodNote | None:
        """What state remembers of a pod."""
        return self.notes.get((outcome.workload, outcome.name))

    def is_at_rest(self) -> bool:
        """Whether all its pods are made and run, and none is of an older template."""
        if self.unmade:
            return False
        for workload in self.workloads:
            pods = self.of(workload.key)
            running = sum(bool(pod.node) for pod in pods)
            current = all(pod.spec is not None and pod.spec.template == workload.pod.template for pod in pods)
            if running < max(len(pods), workload.replicas * (workload.kind != "DaemonSet")) or not current:
                return False
        return True

    # --- what stands ----------------------------------------------------------------------------

    def stand(self, prior: PriorPods, specs: Mapping[str, PodSpec]) -> Iterator[StandingPod]:
        """Take over what state holds; the pods as they stand."""
        self.prior_templates = {key: specs[key].template for key in prior.workloads if key in specs}
        for note, standing in prior.standing(specs):
            key, name = standing.workload, standing.name
            self.notes[key, name] = note
            self.before.setdefault(key, {})[name] = standing
            yield standing

    def open_nodes(self) -> dict[str, set[str]]:
        """By workload, the nodes where state has pods that were seen there, or are of a former template."""
        nodes: dict[str, set[str]] = {}
        for workload, pods in self.before.items():
            of_workload = nodes.setdefault(workload, set())
            for pod in pods.values():
                note = self.notes[workload, pod.name]
                if note.provenance == OBSERVED or note.former:
                    of_workload.add(pod.node)
        return nodes

    def adopt(self, pod: StandingPod, cluster: NodeCluster, template: str) -> None:
        """A pod of one of its workloads, which has this template by now, was seen: it is its own."""
        node = cluster.node(pod.node)
        is_former = pod.spec.template != template
        self.before.setdefault(pod.workload, {})[pod.name] = pod
        self.notes[pod.workload, pod.name] = PodNote(
            pod.node,
            node.machine if node is not None else None,
            node.zone if node is not None else None,
            certain=True,
            provenance=OBSERVED,
            former=pod.spec.template if is_former else "",
            former_pod=written_pod(pod.spec) if is_former else "",
            state=str(PodState.SCHEDULED),
        )

    def respecify(self, key: str, spec: PodSpec) -> Iterator[StandingPod]:
        """Give the pods of a workload of state this spec; the pods as they stand with it."""
        pods = self.before.get(key, {})
        for name, pod in list(pods.items()):
            pods[name] = replace(pod, spec=_as_made(spec, self.notes.get((key, name))))
            yield pods[name]

    # --- what becomes of it ---------------------------------------------------------------------

    def take(self, outcomes: Iterable[PodOutcome]) -> None:
        """Note what became of each pod."""
        for outcome in outcomes:
            by_number = self.outcomes.setdefault(outcome.workload, {})
            if outcome.action == forecast.REMOVE:
                if outcome.name in self.before.get(outcome.workload, {}):
                    self.removed.append(outcome)
                by_number.pop(outcome.number, None)
            else:
                self._follow(outcome)

    def miss(self, forecasts: Mapping[str, WorkloadForecast]) -> None:
        """Note which of its pods are not made, by the forecasts of workloads."""
        own = [forecasts[workload.key] for workload in self.workloads]
        self.unmade = any(each.not_made for each in own)
        self.refused = tuple(
            Refused(each.workload, each.not_made, each.refused)
            for each in own
            if each.not_made and each.workload.forbidden
        )

    def refused_rows(self, address: Address, cluster: NodeCluster) -> Iterator[PlacementChange]:
        """The rows of pods that the API server refuses."""
        for refused in self.refused:
            yield from refused_rows(address, cluster, refused, self.of(refused.workload.key))

    def displace(self, outcome: PodOutcome) -> None:
        """Note what became of a pod that was evicted for one of another object."""
        self.displaced[outcome.workload, outcome.number] = outcome
        pods = self.before.get(outcome.workload, {})
        if outcome.name in pods:
            pods[outcome.name] = replace(pods[outcome.name], node=outcome.node)
        if outcome.number in self.outcomes.get(outcome.workload, {}):
            self._follow(outcome)

    def _follow(self, outcome: PodOutcome) -> None:
        by_number = self.outcomes.setdefault(outcome.workload, {})
        displaced = self.displaced.get((outcome.workload, outcome.number))
        earlier = by_number.get(outcome.number, displaced)
        if earlier is not None and earlier.trigger and outcome.trigger in _GOES_ON:
            outcome = _on_its_way(earlier, outcome)
        elif outcome.trigger == forecast.TEMPLATE_CHANGED and self.overridden:
            outcome = replace(outcome, trigger=OVERRIDE_CHANGED)
        by_number[outcome.number] = outcome

    def warn(self, warnings: Sequence[PodWarning]) -> None:
        """What is risky by this look. Who is evicted, only the look tells that evicted them."""
        evict_now = {warning.workload for warning in warnings if warning.kind == PREEMPTS}
        takers = {pod.workload for pod in self.everything() if pod.node and pod.victims} - evict_now
        earlier = [each for each in self.warnings if each.kind == PREEMPTS and each.workload in takers]
        # So it is with those that a taint evicted: the next look finds them elsewhere.
        told_now = {warning.workload for warning in warnings if warning.kind == NO_EXECUTE_EVICTS}
        told_before = [each for each in self.warnings if each.kind == NO_EXECUTE_EVICTS]
        earlier += [each for each in told_before if each.workload not in told_now]
        self.warnings = (*warnings, *earlier)

    def show(self, cluster: NodeCluster) -> None:
        """The value of the object that brings the pods, in place: others hold it already."""
        self.shown.clear()
        for workload in self.workloads:
            self.shown[workload.key] = {
                outcome.name: pod_values(cluster, workload, outcome, self.note(outcome))
                for outcome in self.of(workload.key)
            }


def _as_made(spec: PodSpec, note: PodNote | None) -> PodSpec:
    """The spec of a pod of state: that of its workload (`spec`), or what an older template made it."""
    if note is None or not note.former:
        return spec
    made_from = read_pod(note.former_pod) if note.former_pod else None
    return replace(made_from or spec, template=note.former)


def _on_its_way(earlier: PodOutcome, outcome: PodOutcome) -> PodOutcome:
    """A pod after another look at it in the same plan, as one step from where it was before the plan."""
    if earlier.node and earlier.node == outcome.node and not outcome.trigger:
        return earlier
    return replace(
        outcome,
        action=forecast.MOVE if earlier.previous else forecast.PLACE,
        previous=earlier.previous,
        trigger=earlier.trigger,
        preempted_by=earlier.preempted_by,
    )


def pod_number(workload: str, pod: str) -> int:
    """The number in a pod's name as `Workload.pod_name` makes it."""
    digits = pod.rpartition("-")[2]
    return int(digits) if digits.isdecimal() and workload.split("/")[1:2] != ["Pod"] else 0
