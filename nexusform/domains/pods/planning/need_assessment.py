"""Objects that the pods of an object name, compared with those on the cluster.

Observed pods that run have all they need. Pods to place run only if every need is there.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import format_list, select_word_form
from nexusform.domains.pods.importers.object_needs import (
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    ClusterInventory,
    NeedAnswer,
    list_definition_needs,
)
from nexusform.domains.pods.planning.object_pods import ObjectPods
from nexusform.domains.pods.planning.pod_rows import OBSERVED
from nexusform.domains.pods.scheduling import pod_outcomes
from nexusform.domains.pods.scheduling.cluster_records import (
    NeedEffect,
    ObjectNeed,
    PodKey,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.domains.pods.scheduling.workload_warnings import MISSING_OBJECTS, WorkloadWarning
from nexusform.doubts.doubt import Doubt

UNREAD_OBJECTS: Final = "objects that were not read"
ABSENT_OBJECTS: Final = "objects that are not on the cluster"
_NAMESPACE: Final = "Namespace"
_MAX_NAMED: Final = 3


class NeedAssessment(Struct, frozen=True):
    """Needs that are not there (`missing`) or not read.

    Absent needs of `may_come` may be provided by another object of the cluster. Without the Secrets
    of `image_secrets`, images are pulled without credentials.
    """

    missing: tuple[ObjectNeed, ...] = ()
    unread: tuple[ObjectNeed, ...] = ()
    may_come: tuple[ObjectNeed, ...] = ()
    image_secrets: tuple[ObjectNeed, ...] = ()

    @property
    def are_met(self) -> bool:
        """Whether every need is there."""
        return not (self.missing or self.unread or self.may_come or self.image_secrets)

    def describe_doubt(self) -> str:
        """Return a clause about the needs without an answer."""
        if self.unread:
            verb = select_word_form(len(self.unread), "was", "were")
            return f"{_format_needs(self.unread)} {verb} not read"
        if self.may_come:
            verb = select_word_form(len(self.may_come), "is", "are")
            pronoun = select_word_form(len(self.may_come), "it", "them")
            absence = f"{_format_needs(self.may_come)} {verb} not on the cluster"
            return f"{absence}; another object may provide {pronoun}"
        verb = select_word_form(len(self.image_secrets), "is", "are")
        return f"{_format_needs(self.image_secrets)} {verb} missing, so images may not be pulled"


def _format_needs(needs: Iterable[ObjectNeed]) -> str:
    return format_list([need.title for need in needs])


def assess_object_needs(object_pods: ObjectPods, inventory: ClusterInventory) -> NeedAssessment:
    """Return the needs of an object on a cluster that are not there or not read."""
    needs: dict[ObjectNeed, NeedAnswer] = {}
    for workload in object_pods.workloads:
        if not _has_only_running_pods(object_pods, workload):
            needs |= _assess_workload(workload, inventory)
    for need in list_definition_needs(object_pods.manifests):
        needs[need] = inventory.find_answer(need)
    return _build_assessment(needs)


def assess_workload_needs(
    workloads: Iterable[Workload], inventory: ClusterInventory
) -> NeedAssessment:
    """Return the needs of workloads without pods on a cluster that are not there or not read."""
    needs: dict[ObjectNeed, NeedAnswer] = {}
    for workload in workloads:
        needs |= _assess_workload(workload, inventory)
    return _build_assessment(needs)


def _build_assessment(needs: dict[ObjectNeed, NeedAnswer]) -> NeedAssessment:
    absent = [need for need, answer in needs.items() if answer is NeedAnswer.NOT_THERE]
    return NeedAssessment(
        missing=tuple(need for need in absent if need.effect is not NeedEffect.IMAGES),
        unread=tuple(need for need, answer in needs.items() if answer is NeedAnswer.NOT_READ),
        may_come=tuple(need for need, answer in needs.items() if answer is NeedAnswer.MAY_COME),
        image_secrets=tuple(need for need in absent if need.effect is NeedEffect.IMAGES),
    )


def _assess_workload(
    workload: Workload, inventory: ClusterInventory
) -> dict[ObjectNeed, NeedAnswer]:
    """Return the answer to each need of a workload's pods, its namespace and classes included."""
    needs = [ObjectNeed(_NAMESPACE, "", workload.namespace), *workload.needs]
    for need in workload.needs:
        needs += inventory.list_class_needs(need)
    if not any(need.effect is NeedEffect.IMAGES for need in workload.needs):
        needs += inventory.list_pull_secrets(_get_service_account(workload))
    answers = {}
    for need in needs:
        answer = inventory.find_answer(need)
        is_missing = _is_missing_in_prediction(need, workload)
        may_come = answer is NeedAnswer.MAY_COME
        answers[need] = NeedAnswer.NOT_THERE if is_missing and not may_come else answer
    return answers


def _get_service_account(workload: Workload) -> ObjectNeed:
    """Return the ServiceAccount of a workload's pods: the one they name, or `default`."""
    default = ObjectNeed(SERVICE_ACCOUNT, workload.namespace, "default")
    return next((need for need in workload.needs if need.kind == SERVICE_ACCOUNT), default)


def _is_missing_in_prediction(need: ObjectNeed, workload: Workload) -> bool:
    """Return whether the pods are predicted to wait for an object, so that it is not there."""
    absence = f'persistentvolumeclaim "{need.name}" not found'
    return need.kind == workload.rejected_by or absence in workload.pod.missing_objects


def _has_only_running_pods(object_pods: ObjectPods, workload: Workload) -> bool:
    """Return whether all pods of a workload are observed and run."""
    outcomes = object_pods.list_outcomes(workload.key)
    if not outcomes or workload.key in object_pods.uncreated_keys:
        return False
    return all(_is_running(object_pods, outcome) for outcome in outcomes)


def _is_running(object_pods: ObjectPods, outcome: PodOutcome) -> bool:
    record = object_pods.records.get((outcome.workload, outcome.name))
    is_observed = record is not None and record.provenance == OBSERVED
    is_kept = outcome.action == pod_outcomes.KEEP and bool(outcome.node)
    return is_observed and is_kept and not outcome.condition.stuck_reason


def list_need_doubts(
    object_pods: ObjectPods, inventory: ClusterInventory
) -> Iterator[tuple[PodKey, Doubt]]:
    """Yield the doubt about each pod to place with a need that is not there or not read."""
    for workload in object_pods.workloads:
        assessment = _build_assessment(
            {
                need: answer
                for need, answer in _assess_workload(workload, inventory).items()
                if need.kind != _NAMESPACE
            }
        )
        if assessment.are_met:
            continue
        assumption = UNREAD_OBJECTS if assessment.unread else ABSENT_OBJECTS
        for outcome in object_pods.list_outcomes(workload.key):
            # Else no node is chosen for the pod in this plan.
            if outcome.feasible_nodes is not None:
                yield outcome.key, Doubt("pods", reason=assumption)


def list_need_warnings(
    object_pods: ObjectPods, inventory: ClusterInventory
) -> Iterator[WorkloadWarning]:
    """Yield a warning for each workload that names absent ConfigMaps, Secrets or keys.

    Absent objects of other kinds are reported with the manifest, or with the pods not created.
    """
    for workload in object_pods.workloads:
        if _has_only_running_pods(object_pods, workload):
            continue
        answers = _assess_workload(workload, inventory)
        absent = [
            need
            for need, answer in answers.items()
            if answer is NeedAnswer.NOT_THERE and need.kind in (CONFIG_MAP, SECRET)
        ]
        starting = [need for need in absent if need.effect is NeedEffect.START]
        for needs, effect in (
            (starting, "Containers do not start without."),
            ([need for need in absent if need not in starting], "Images may not be pulled."),
        ):
            if needs:
                yield _build_warning(workload, needs, effect)


def _build_warning(workload: Workload, needs: list[ObjectNeed], effect: str) -> WorkloadWarning:
    name = f"{workload.namespace}/{workload.name}"
    verb = select_word_form(len(needs), "is", "are")
    text = f"{_format_needs(needs[:_MAX_NAMED])} {verb} not on the cluster"
    return WorkloadWarning(
        MISSING_OBJECTS,
        workload.key,
        f"{workload.kind} {name}: {text}. {effect}",
        f"{name}: {text}",
    )
