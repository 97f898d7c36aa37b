"""How a DaemonSet replaces its pods when its template changes: node by node, as far as its strategy lets it.

Without maxSurge an old pod goes before its successor comes, and where successors hang, no more than
maxUnavailable nodes are without. With maxSurge the successor comes first, and the old pod stays until it
runs. Source: kubernetes pkg/controller/daemon/update.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.domains.pods.scheduling import forecast, profile
from nexusform.domains.pods.scheduling.session import Session, Verdict
from nexusform.domains.pods.scheduling.work import PodToPlace, Work, free_numbers
from nexusform.domains.pods.scheduling.workloads import Node, StandingPod, Strategy
from nexusform.kubernetes.quantity import amount_of


class DaemonRollout:
    """One DaemonSet that replaces its pods. `verdicts` are those on the pods that were missing before."""

    def __init__(
        self, session: Session, work: Work, nodes: Mapping[str, Node], verdicts: Mapping[int, Verdict]
    ) -> None:
        self._session = session
        self._work = work
        self._workload = work.workload
        spec = work.workload.pod
        self._permitted = {name for name, node in nodes.items() if profile.gets_daemon(spec, node)}
        self._waiting = work.not_made + sum(not verdict.node for verdict in verdicts.values())
        self._verdicts: dict[int, Verdict] = {}

    def replace_pods(self) -> dict[int, Verdict]:
        """The verdicts on the successors, by number; what goes and what stays is noted in the work."""
        work, workload = self._work, self._workload
        outdated = [pod for pod in work.keeps if pod.spec.template != workload.pod.template]
        if workload.strategy is not Strategy.ON_DELETE:
            surge = amount_of(workload.surge_written, len(self._permitted))
            if surge:
                self._beside(outdated, surge)
            else:
                most = max(1, amount_of(workload.unavailable_written, len(self._permitted)))
                self._one_after_the_other(outdated, most)
        work.gone += [(pod, forecast.SCALE_IN) for pod in work.beside]
        work.beside = []
        return self._verdicts

    def _one_after_the_other(self, outdated: list[StandingPod], most: int) -> None:
        """Take old pods off their nodes first, until `most` nodes wait for their successors."""
        for pod in outdated:
            if self._waiting >= most:
                self._work.stuck = True
                return
            self._drop(pod)
            if pod.node not in self._permitted:
                self._work.gone.append((pod, forecast.TEMPLATE_CHANGED))
            elif self._workload.forbidden:
                self._work.gone.append((pod, forecast.TEMPLATE_CHANGED))
                self._miss()
            else:
                self._pin(PodToPlace(pod.number, pod.node, pod.node, forecast.TEMPLATE_CHANGED))

    def _miss(self) -> None:
        """A successor is asked for that the API server does not let be made."""
        self._waiting += 1
        self._work.not_made += 1
        self._work.refused = self._workload.forbidden

    def _beside(self, outdated: list[StandingPod], most: int) -> None:
        """Let successors come first, until `most` of them wait; old pods go when theirs run."""
        succeeded = {pod.node for pod in self._work.keeps if pod not in outdated}
        for pod in outdated:
            if pod.node in succeeded or pod.node not in self._permitted:
                self._drop(pod)
                self._work.gone.append((pod, forecast.TEMPLATE_CHANGED))
                continue
            if self._waiting >= most:
                self._work.stuck = True
                return
            if self._workload.forbidden:
                self._miss()
                continue
            verdict = self._session.pin(self._workload.pod, self._workload.key, pod.number, pod.node)
            if verdict.node:
                self._drop(pod)
                self._note(PodToPlace(pod.number, pod.node, pod.node, forecast.TEMPLATE_CHANGED), verdict)
            else:
                self._note(self._that_waits(pod), verdict)

    def _that_waits(self, pod: StandingPod) -> PodToPlace:
        """The successor of a pod that stays, under a number of its own."""
        work = self._work
        if work.beside:
            waiting = work.beside.pop(0)
            return PodToPlace(waiting.number, pod.node, waited=True, age=waiting.age)
        taken = {each.number for each in work.keeps} | {each.number for each in work.to_place}
        (number,) = free_numbers(taken, 0, 1)
        return PodToPlace(number, pod.node, trigger=forecast.TEMPLATE_CHANGED)

    def _pin(self, pod: PodToPlace) -> None:
        self._note(pod, self._session.pin(self._workload.pod, self._workload.key, pod.number, pod.pin))

    def _note(self, pod: PodToPlace, verdict: Verdict) -> None:
        self._work.to_place.append(pod)
        self._verdicts[pod.number] = verdict
        self._waiting += not verdict.node

    def _drop(self, pod: StandingPod) -> None:
        self._work.keeps.remove(pod)
        self._session.remove(pod)
