"""A new template on its way through the pods of a workload: what is scaled first, what is replaced, and what
waits meanwhile.

A Deployment has one set of pods for each template that made some. Its controller first gives each set its
share of a new scale, then makes pods of today's template as long as there may be too many, and takes away
those of former templates that do not run, the oldest set's first, as long as there may be too few: not all of
them where today's pods do not run either. Those that are left wait on with the template that they have.
Source: kubernetes pkg/controller/deployment/rolling.go, reconcileNewReplicaSet and cleanupUnhealthyReplicas.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from nexusform.domains.pods.scheduling import forecast
from nexusform.domains.pods.scheduling.quotas import Ledger
from nexusform.domains.pods.scheduling.rollouts import Rollout, replace_pods
from nexusform.domains.pods.scheduling.session import Session, Verdict
from nexusform.domains.pods.scheduling.work import PodToPlace, Work, free_numbers, grown_first
from nexusform.domains.pods.scheduling.workloads import PodSpec, StandingPod


class TemplateRollout:
    """One workload that replaces its pods, among the others on its cluster."""

    def __init__(self, session: Session, ledger: Ledger, work: Work) -> None:
        self._session = session
        self._ledger = ledger
        self._work = work
        self._waiting: dict[int, Verdict] = {}
        self._further: list[int] = []

    @property
    def is_due(self) -> bool:
        """Whether there is anything of a former template to replace."""
        return bool(self._work.outdated or self._work.hung) and not self._work.workload.paused

    def begin(self) -> None:
        """Scale the sets of former templates, and take away those of their pods that need not wait any more,
        before a rollout goes on; those that stay are tried once more.
        """
        work = self._work
        booked = {pod.number for pod in (*work.to_place, *work.hung)}
        grown = grown_first(work)
        self._clean_up(grown)
        hung, work.hung = work.hung, []
        for number, spec in grown.items():
            if number in booked or not self._ledger.admit(spec):
                hung.append(PodToPlace(number, trigger=work.growth, made_from=spec))
        for pod in hung:
            self._try(pod)

    def _clean_up(self, grown: dict[int, PodSpec]) -> None:
        """Take away pods of former templates that do not run, the oldest set's first: `grown` have just been
        made. Today's template gets theirs.
        """
        work = self._work
        count = _to_clean(work, len(grown))
        running = {pod.spec.template for pod in work.outdated}
        oldest = [number for number, spec in grown.items() if spec.template in running]
        newest = [number for number in grown if number not in oldest]
        hung = sorted(work.hung, key=lambda pod: (_template(pod) not in running, pod.number))
        going = [*oldest, *(pod.number for pod in hung), *newest][:count]
        self._further = [number for number in going if grown.pop(number, None) is not None]
        for pod in [pod for pod in work.hung if pod.number in going]:
            work.hung.remove(pod)
            if len(work.keeps) + len(work.to_place) < work.workload.replicas:
                work.to_place.append(replace(pod, made_from=None))
            else:
                work.gone.append((self._as_it_waits(pod), forecast.SCALE_IN))

    def _as_it_waits(self, pod: PodToPlace) -> StandingPod:
        workload = self._work.workload
        return StandingPod(workload.key, pod.number, "", pod.made_from or workload.pod)

    def _try(self, pod: PodToPlace) -> None:
        """Look for a node for a pod of a former template."""
        work = self._work
        spec = pod.made_from or work.workload.pod
        verdict = self._session.place(spec, work.workload.key, pod.number)
        if not verdict.node:
            work.hung.append(pod)
            self._waiting[pod.number] = verdict
            return
        age = self._session.age
        work.outdated.append(StandingPod(work.workload.key, pod.number, verdict.node, spec, age))
        work.grown[pod.number] = (verdict.certain, pod.trigger)

    def go_on(self, verdicts: Mapping[int, Verdict]) -> dict[int, Verdict]:
        """Replace outdated pods step by step; the verdicts on all pods then, by their final numbers."""
        work, workload = self._work, self._work.workload
        hung = {pod.number: pod for pod in work.hung}
        state = Rollout(list(work.outdated), dict(verdicts), len(work.keeps), further=self._further)
        state.hung = {pod.number: pod.made_from or workload.pod for pod in work.hung}
        state.unmade = work.not_made
        old_nodes = {pod.number: pod.node for pod in work.outdated if pod.number not in work.grown}
        replace_pods(self._session, workload, state, self._ledger)
        work.outdated, work.stuck = state.remaining, state.stuck
        work.hung = [pod for pod in work.hung if pod.number in state.hung]
        if state.unmade:
            work.not_made, work.refused = state.unmade, state.refused or work.refused
        final = self._numbered(state, verdicts, old_nodes, hung)
        not_replaced = [pod for pod in state.gone if pod.number not in state.made and pod.number in old_nodes]
        not_replaced += [
            self._as_it_waits(pod)
            for pod in hung.values()
            if pod.waited and pod.number not in state.hung and pod.number not in state.made
        ]
        work.gone += [(pod, forecast.TEMPLATE_CHANGED) for pod in not_replaced]
        return final

    def _numbered(
        self,
        state: Rollout,
        verdicts: Mapping[int, Verdict],
        old_nodes: Mapping[int, str],
        hung: Mapping[int, PodToPlace],
    ) -> dict[int, Verdict]:
        """The verdicts on new pods by their numbers: where a rollout hangs, old and new pods stand side by
        side, and the new ones take other numbers.
        """
        work, first = self._work, self._work.workload.first
        kept_numbers = {pod.number for pod in state.remaining} | set(state.hung)
        taken_numbers = kept_numbers | {pod.number for pod in work.keeps} | set(state.made)
        final: dict[int, Verdict] = {}
        for number, verdict in state.made.items():
            if number in verdicts:
                final[number] = verdict
                continue
            trigger = forecast.TEMPLATE_CHANGED if number in old_nodes or number in hung else work.growth
            come = PodToPlace(number, "", old_nodes.get(number, ""), trigger)
            if number in kept_numbers:
                come = PodToPlace(free_numbers(taken_numbers, first, 1)[0], trigger=trigger)
                taken_numbers.add(come.number)
            elif number in hung:
                come = replace(hung[number], made_from=None)
            final[come.number] = verdict
            work.to_place.append(come)
        return final

    def left_behind(self) -> dict[int, Verdict]:
        """The verdicts on pods of former templates that wait on."""
        work = self._work
        work.to_place += work.hung
        return {pod.number: self._waiting[pod.number] for pod in work.hung}


def _to_clean(work: Work, grown: int) -> int:
    """How many pods of former templates that do not run go at once, `grown` new ones among them: as many as
    may be missing beside those of today's template, which do not run yet either.
    """
    workload = work.workload
    if workload.paused:
        return 0
    total = len(work.keeps) + len(work.to_place) + len(work.outdated) + len(work.hung) + grown
    return max(0, total - (workload.replicas - workload.max_unavailable) - len(work.to_place))


def _template(pod: PodToPlace) -> str:
    return pod.made_from.template if pod.made_from is not None else ""
