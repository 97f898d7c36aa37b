"""Where pods go: start reading here.

`predict` takes a cluster, the pods that stand and the workloads to run, and says what becomes of each
pod. Pods that stand stay (their rules are ignored during execution); surplus ones go, lost ones are
placed anew, missing ones are placed in queue order. Pods that nobody takes may evict others of lower
priority, which are placed anew after them, or are tried again after the rest, as long as that helps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from nexusform.domains.pods.scheduling import forecast, ordered, profile
from nexusform.domains.pods.scheduling.daemons import DaemonRollout
from nexusform.domains.pods.scheduling.forecast import PodOutcome, Prediction, Reach
from nexusform.domains.pods.scheduling.preemption import Eviction, covers
from nexusform.domains.pods.scheduling.quotas import Ledger
from nexusform.domains.pods.scheduling.rolling import TemplateRollout
from nexusform.domains.pods.scheduling.rules import taints
from nexusform.domains.pods.scheduling.session import Look, Session, Verdict
from nexusform.domains.pods.scheduling.work import (
    PodToPlace,
    Work,
    admit_new,
    as_paused,
    forecast_of,
    free_numbers,
    hangs,
    queue_order,
    surplus_pods,
)
from nexusform.domains.pods.scheduling.workloads import (
    DEFAULT_SEED,
    Budget,
    Cluster,
    Node,
    Pairs,
    PodSpec,
    PodState,
    StandingPod,
    Workload,
    is_made_anew,
    pod_name,
)


def predict(
    cluster: Cluster,
    standing: Sequence[StandingPod],
    workloads: Sequence[Workload],
    *,
    seed: int = DEFAULT_SEED,
    lost: Collection[tuple[str, int]] = (),
    removed: Collection[str] = (),
) -> Prediction:
    """The outcome of every pod of `workloads` (in order of creation, then of the document).

    `standing` is everything on the cluster: pods of other workloads stay where they are, unless their
    workload's key is in `removed`. Pods that are `lost` (workload key, number: their node is made anew)
    are placed again, as are those on nodes that are gone.
    """
    return Predictor(cluster, standing, workloads, seed, lost, removed).run()


# Of these no pod is evicted: daemons are their controller's, the others leave anyway.
_NEVER_EVICTED: Final = ("DaemonSet", "Terminating")
# Pods that are evicted from one node and find another where that happens again would never come to rest.
_MOST_EVICTIONS: Final = 10


class Predictor:
    """One prediction on its way. `look` is told of every pod just before it is decided.

    `run` is the order of things: sort the pods of each workload (`_prepare`), leave out those that are not
    made (`_admit`), place workload by workload in queue order (`_decide`), and look again at whoever waits.

    Pods that stand are ours, those of the workloads to run, or of bystanders: they take room, and are touched
    only where they are evicted. A workload of ours is a `Work` in `works`, that of an evicted bystander one
    in `strangers`.
    """

    def __init__(
        self,
        cluster: Cluster,
        standing: Sequence[StandingPod],
        workloads: Sequence[Workload],
        seed: int,
        lost: Collection[tuple[str, int]],
        removed: Collection[str],
        look: Look | None = None,
    ) -> None:
        self.nodes: dict[str, Node] = {node.name: node for node in cluster.nodes}
        self.lost = frozenset(lost)
        self.queue = queue_order(workloads)
        self.creation = {workload.key: at for at, workload in enumerate(workloads)}

        keys = self.creation.keys()
        going = frozenset(removed)
        ours = [pod for pod in standing if pod.workload in keys]
        of_others = [pod for pod in standing if pod.workload not in keys]
        self.bystanders = tuple(pod for pod in of_others if pod.workload not in going)
        self.departed = [pod for pod in of_others if pod.workload in going]
        self.by_workload: dict[str, list[StandingPod]] = {}
        for pod in ours:
            self.by_workload.setdefault(pod.workload, []).append(pod)

        remaining = (*self.bystanders, *ours)
        on_nodes = [pod for pod in remaining if self._stands(pod)]
        off_nodes = [pod for pod in remaining if not self._stands(pod)]
        expected = [self._belonging(budget) for budget in cluster.budgets]
        self.session = Session(cluster, on_nodes, seed, look, expected, off_nodes)
        self.ledger = Ledger(cluster.quotas)
        self.works: dict[str, Work] = {}
        # Workloads of bystanders that lost pods; they are nobody's here, but their pods come again.
        self.strangers: dict[str, Work] = {}
        self.displaced: set[tuple[str, int]] = set()

    def _belonging(self, budget: Budget) -> int:
        """How many pods there should be under a budget."""
        ours = [w.replicas for w in self.queue if w.kind != "DaemonSet" and covers(budget, w.pod)]
        return sum(ours) + sum(covers(budget, pod.spec) for pod in self.bystanders)

    def _stands(self, pod: StandingPod) -> bool:
        """Whether a pod stays on its node: it is not lost with it, and no taint drives it away at once."""
        return not self._is_lost(pod) and self._stays_for(pod) != 0

    def _is_lost(self, pod: StandingPod) -> bool:
        return pod.node not in self.nodes or (pod.workload, pod.number) in self.lost

    def _why_driven_away(self, pod: StandingPod) -> str:
        """The trigger of a pod that had a node and does not stand there any more."""
        return forecast.NODE_REMOVED if self._is_lost(pod) else forecast.NO_EXECUTE

    def _stays_for(self, pod: StandingPod) -> int | None:
        """For how many seconds a NoExecute taint lets a pod go on; None for ever. Daemons are their
        controller's, and nobody is evicted who leaves anyway.
        """
        node = self.nodes[pod.node]
        if not node.taints or pod.stays or pod.workload.split("/")[1] in _NEVER_EVICTED:
            return None
        return taints.stays_for(pod.spec, node)

    def run(self) -> Prediction:
        """Decide everything."""
        works = [self._prepare(workload) for workload in self.queue]
        self.works = {work.workload.key: work for work in works}
        self._admit(works)
        for pod in self.bystanders:
            if pod.node in self.nodes and not self._stands(pod):
                self._displace(pod, self._why_driven_away(pod))
        for work in works:
            self._decide(work)
        self._retry(works)
        self._evict_in_time(works)
        for work in works:
            ordered.hold_back(work)
            if all(outcome.node for outcome in work.made.values()):
                self._shrink_now(work)

        departed = [_removed(pod, forecast.WORKLOAD_REMOVED) for pod in self.departed]
        forecasts = {work.workload.key: forecast_of(work, self.nodes) for work in works}
        displaced = self._outcomes_of_all(self.strangers.values())
        stay = [pod for pod in self.bystanders if (pod.workload, pod.number) not in self.displaced]
        outcomes = (*self._outcomes_of_all(works), *departed)
        return Prediction(outcomes, forecasts, tuple(stay), tuple(displaced))

    def _outcomes_of_all(self, works: Iterable[Work]) -> list[PodOutcome]:
        """What becomes of the pods of these workloads; those that go come last."""
        outcomes: list[PodOutcome] = []
        gone: list[PodOutcome] = []
        for work in works:
            outcomes += self._outcomes(work)
            gone += [_removed(pod, trigger) for pod, trigger in work.gone]
        return outcomes + gone

    # --- what is to be done -------------------------------------------------------------------

    def _prepare(self, workload: Workload) -> Work:
        """Sort the pods of a workload into those that stay, are outdated, come again, and come anew."""
        pods = sorted(self.by_workload.get(workload.key, ()), key=lambda pod: pod.number)
        if workload.paused:
            workload = as_paused(workload, pods)
        work = Work(workload, bool(pods))
        if work.is_daemon:
            self._prepare_daemons(work, pods)
            return work
        pods = self._shrink(work, pods)
        for pod in pods:
            is_current = pod.spec.template == workload.pod.template
            if self._stands(pod):
                (work.keeps if is_current else work.outdated).append(pod)
            elif pod.refused and is_current:
                work.over.append(pod)
            elif pod.node:
                trigger = self._why_driven_away(pod)
                work.to_place.append(PodToPlace(pod.number, "", pod.node, trigger))
            else:  # no node took it
                hung = hangs(workload, pod)
                former = pod.spec if hung or ordered.keeps_template(workload, pod) else None
                again = PodToPlace(pod.number, waited=True, age=pod.age, made_from=former)
                (work.hung if hung else work.to_place).append(again)
        missing = max(0, workload.replicas - len(pods))
        numbers = free_numbers([pod.number for pod in pods], workload.first, missing)
        work.to_place += [PodToPlace(number, trigger=work.growth) for number in numbers]
        return work

    def _shrink(self, work: Work, pods: list[StandingPod]) -> list[StandingPod]:
        """Let go the pods that a workload has too many; those that are left."""
        surplus = surplus_pods(work.workload, pods, self._stands)
        if ordered.waits_to_shrink(work.workload, pods, surplus, self._stands):
            work.spared = [pod for pod in surplus if self._stands(pod)]
        for pod in surplus:
            if pod in work.spared:
                continue
            if self._stands(pod):
                self.session.remove(pod)
            work.gone.append((pod, forecast.SCALE_IN))
        return [pod for pod in pods if pod not in surplus]

    def _prepare_daemons(self, work: Work, pods: list[StandingPod]) -> None:
        """One pod per node that permits it; a pod whose node is gone goes with it. Those that have no node
        yet wait for one of those that have no pod.
        """
        spec = work.workload.pod
        permitted = {name for name, node in self.nodes.items() if profile.gets_daemon(spec, node)}
        waiting = [pod for pod in pods if not pod.node]
        served: set[str] = set()  # nodes that have a pod of it
        for pod in pods:
            if self._stands(pod) and profile.keeps_daemon(spec, self.nodes[pod.node]):
                served.add(pod.node)
                work.keeps.append(pod)
            elif self._stands(pod):
                self.session.remove(pod)
                work.gone.append((pod, forecast.SCALE_IN))
            elif pod.node:
                work.gone.append((pod, forecast.NODE_REMOVED))
        unserved = [name for name in sorted(permitted) if name not in served]
        for pod, node in zip(waiting, unserved, strict=False):
            work.to_place.append(PodToPlace(pod.number, node, waited=True, age=pod.age))
        work.beside = waiting[len(unserved) :]
        open_nodes = unserved[len(waiting) :]
        numbers = free_numbers([pod.number for pod in pods], 0, len(open_nodes))
        work.to_place += [
            PodToPlace(number, node, trigger=work.growth)
            for number, node in zip(numbers, open_nodes, strict=True)
        ]

    def _admit(self, works: list[Work]) -> None:
        """Leave out new pods that are not made. Controllers make theirs in the order of creation."""
        ledger = self.ledger
        if not self.session.cluster.quotas and not any(work.workload.forbidden for work in works):
            return
        for pod in self.bystanders:
            ledger.book(pod.spec)
        for work in works:
            for pod in (*work.keeps, *work.outdated):
                ledger.book(pod.spec)
            for pod_to_place in work.to_place:
                if not pod_to_place.is_new:
                    ledger.book(work.workload.pod)
            for hung in work.hung:
                ledger.book(hung.made_from or work.workload.pod)
        for work in sorted(works, key=lambda work: self.creation[work.workload.key]):
            admit_new(work, ledger)

    # --- deciding -----------------------------------------------------------------------------

    def _decide(self, work: Work) -> None:
        """Place what is asked for, and roll out a new template."""
        workload = work.workload
        work.begun = True
        work.to_place.sort()
        work.reach = self._reach_of(work)

        rollout = TemplateRollout(self.session, self.ledger, work)
        rollout.begin()
        verdicts = self._place(work)
        self._bring_back()
        if all(verdict.node for verdict in verdicts.values()):
            self._shrink_now(work)

        if work.is_daemon:
            verdicts |= DaemonRollout(self.session, work, self.nodes, verdicts).replace_pods()
            self._bring_back()
        elif rollout.is_due:
            verdicts = rollout.go_on(verdicts)
            self._bring_back()
        verdicts |= rollout.left_behind()

        by_number = {pod.number: pod for pod in work.to_place}
        for number, verdict in verdicts.items():
            work.made[number] = self._made(workload, verdict, by_number[number])
        if work.is_daemon:
            running = len(work.keeps) + sum(bool(outcome.node) for outcome in work.made.values())
            work.reach = Reach(running, running, exact=True)

    def _reach_of(self, work: Work) -> Reach:
        """How many pods of a workload run at least and at most, as the nodes are before any of it is placed.
        For daemons, whose nodes are given, it is counted once they are decided.
        """
        spec = work.workload.pod
        stays = len(work.keeps) + len(work.outdated)
        if not work.to_place or work.is_daemon or spec.gates:
            return Reach(stays, stays, exact=True)
        further = forecast.reach(self.session.run_of(spec), len(work.to_place))
        # How many find a volume depends on who comes first.
        least = 0 if spec.claims else further.least
        return Reach(stays + least, stays + further.most, further.exact and least == further.least)

    def _shrink_now(self, work: Work) -> None:
        """Let those go that stayed until all others of an ordered workload ran."""
        for pod in work.spared:
            self.session.remove(pod)
        work.gone += [(pod, forecast.SCALE_IN) for pod in work.spared]
        work.spared = []

    def _place(self, work: Work) -> dict[int, Verdict]:
        """The verdict on each pod that is asked for, by its number."""
        workload = work.workload
        blocked = ""  # the pod that all later ones of an ordered workload wait for
        verdicts: dict[int, Verdict] = {}
        for pod in work.to_place:
            if blocked and not pod.waited:
                verdict = ordered.waiting_for(blocked)
            elif pod.pin:
                verdict = self.session.pin(workload.pod, workload.key, pod.number, pod.pin)
            else:
                verdict = self._place_one(work, pod)
            verdicts[pod.number] = verdict
            if workload.ordered and not verdict.node and not blocked:
                blocked = workload.pod_name(pod.number)
        return verdicts

    def _place_one(self, work: Work, pod: PodToPlace) -> Verdict:
        """The verdict on a pod. One of a former template that finds a node is replaced there and then."""
        workload = work.workload
        if pod.made_from is None:
            return self.session.place(workload.pod, workload.key, pod.number)
        verdict = self.session.place(pod.made_from, workload.key, pod.number)
        if not verdict.node or not workload.ordered:
            work.stuck = work.stuck or not verdict.node
            return verdict
        age = self.session.age
        self.session.remove(StandingPod(workload.key, pod.number, verdict.node, pod.made_from, age))
        work.to_place[work.to_place.index(pod)] = replace(pod, made_from=None)
        return self.session.place(workload.pod, workload.key, pod.number)

    # --- who was evicted ----------------------------------------------------------------------

    def _bring_back(self) -> None:
        """Let the controllers of evicted pods make them anew: they wait for a node like all others."""
        evicted, self.session.evicted = self.session.evicted, []
        for eviction in evicted:
            work = self.works.get(eviction.pod.workload)
            if work is not None:
                self._lose(work, eviction)
            else:
                self._displace(eviction.pod, forecast.PREEMPTED, pod_name(*eviction.by))

    def _lose(self, work: Work, eviction: Eviction) -> None:
        """A pod of a workload of this prediction was evicted: it is asked for again."""
        pod = eviction.pod
        outcome = work.made.get(pod.number)
        if outcome is not None and outcome.node == pod.node:
            # It was placed by this very prediction, and is placed again.
            work.made[pod.number] = replace(outcome, node="", feasible=0, victims=())
            return
        standing = next((pods for pods in (work.keeps, work.outdated) if pod in pods), None)
        if standing is None:
            return  # a rollout has replaced it
        standing.remove(pod)
        self._ask_again(work, pod, forecast.PREEMPTED, pod_name(*eviction.by))

    def _displace(self, pod: StandingPod, trigger: str, by: str = "") -> None:
        """A bystander was evicted: its controller, if it has one, makes it again."""
        namespace, kind, name = pod.workload.split("/", 2)
        work = self.strangers.get(pod.workload)
        if work is None:
            workload = Workload(kind, namespace, name, 0, pod.spec)
            work = self.strangers[pod.workload] = Work(workload, had_pods=True, begun=True)
        outcome = work.made.get(pod.number)
        if outcome is not None and outcome.node == pod.node:
            work.made[pod.number] = replace(outcome, node="", feasible=0, victims=())
            return
        self.displaced.add((pod.workload, pod.number))
        if is_made_anew(pod.workload):
            self._ask_again(work, pod, trigger, by)
        else:
            work.gone.append((pod, trigger))

    def _ask_again(self, work: Work, victim: StandingPod, trigger: str, by: str) -> None:
        """Ask for a pod anew in place of one that was evicted; it is Pending until it is placed."""
        again = PodToPlace(
            number=victim.number,
            pin=victim.node if work.is_daemon else "",
            previous=victim.node,
            trigger=trigger,
            preempted_by=by,
        )
        work.to_place.append(again)
        if work.begun:
            waiting = Verdict("", certain=True, feasible=0)
            work.made[victim.number] = self._made(work.workload, waiting, again)

    # --- whom a taint lets run for a while ----------------------------------------------------

    def _evict_in_time(self, works: list[Work]) -> None:
        """Evict the pods that tolerate a NoExecute taint for some seconds only: they are made anew, and where
        another node suits them better by now, they are there for good.
        """
        if not any(
            taint.effect == taints.NO_EXECUTE for node in self.nodes.values() for taint in node.taints
        ):
            return
        for _ in range(_MOST_EVICTIONS):
            moved = [self._move_in_time(work) for work in works if not work.is_daemon]
            moved += [self._displace_in_time(pod) for pod in self.bystanders]
            if not any(moved):
                return
            self._retry(works)

    def _move_in_time(self, work: Work) -> bool:
        """Evict those of a workload that have had their time; whether one goes elsewhere."""
        key, spec = work.workload.key, work.workload.pod
        by_number = {pod.number: pod for pod in work.to_place}
        made = [StandingPod(key, each.number, each.node, spec) for each in work.made.values() if each.node]
        moved = False
        for pod in (*work.keeps, *made):
            verdict = self._outlast(pod)
            if verdict is None:
                continue
            moved = True
            if pod in work.keeps:
                work.keeps.remove(pod)
                again = PodToPlace(pod.number, "", pod.node, forecast.NO_EXECUTE)
                work.to_place.append(again)
            else:
                again = by_number[pod.number]
            work.made[pod.number] = self._made(work.workload, verdict, again)
        return moved

    def _displace_in_time(self, pod: StandingPod) -> bool:
        """Evict a bystander that has had its time; whether it goes elsewhere."""
        if pod.node not in self.nodes or (pod.workload, pod.number) in self.displaced:
            return False
        verdict = self._outlast(pod)
        if verdict is None:
            return False
        self._displace(pod, forecast.NO_EXECUTE)
        work = self.strangers[pod.workload]
        if is_made_anew(pod.workload):
            work.made[pod.number] = self._made(work.workload, verdict, work.to_place[-1])
        return True

    def _outlast(self, pod: StandingPod) -> Verdict | None:
        """Where a pod goes that a taint lets run for a while; None where it stays or comes back."""
        if not self._stays_for(pod):
            return None
        self.session.remove(pod)
        verdict = self.session.place(pod.spec, pod.workload, pod.number)
        return None if verdict.node == pod.node else verdict

    def _made(self, workload: Workload, verdict: Verdict, pod: PodToPlace) -> PodOutcome:
        """What becomes of a pod by its verdict."""
        action = forecast.MOVE if pod.previous else forecast.PLACE
        trigger = pod.trigger
        still_pending = pod.waited and not verdict.node
        if still_pending:
            action, trigger = forecast.KEEP, ""
        return PodOutcome(
            workload=workload.key,
            number=pod.number,
            name=workload.pod_name(pod.number),
            action=action,
            node=verdict.node,
            previous=pod.previous,
            trigger=trigger,
            certain=verdict.certain,
            feasible=verdict.feasible,
            reason=verdict.reason,
            refusals=verdict.refusals,
            spec=pod.made_from or workload.pod,
            age=pod.age,
            without=verdict.without,
            victims=verdict.victims,
            preempted_by=pod.preempted_by,
            volumes=self._volumes(workload.pod, pod.number),
        )

    def _volumes(self, spec: PodSpec, number: int) -> Pairs:
        return self.session.claims.held(spec, number)

    def _retry(self, works: list[Work]) -> None:
        """Try every pod that waits again, until nothing changes."""
        # Later pods may have brought the company that an earlier one waits for, or have been evicted; and in
        # place of Failed ones others are made, until what stands is such that they fail for good.
        changed = True
        while changed:
            changed = False
            if any(outcome.failed for work in works for outcome in work.made.values()):
                self.session.seat()
            for work in (*works, *self.strangers.values()):
                changed = self._retry_one(work) or changed
                self._bring_back()

    def _retry_one(self, work: Work) -> bool:
        """Try the pods of a workload that wait, or that failed and are made again; whether one got a node."""
        workload = work.workload
        changed = False
        blocked = False  # an earlier pod of an ordered workload has no node: those not made yet wait for it
        by_number = {pod.number: pod for pod in work.to_place}
        failed_come_again = is_made_anew(workload.key)
        waiting = [
            number
            for number, outcome in work.made.items()
            if outcome.pending or (outcome.failed and failed_come_again)
        ]
        for number in sorted(waiting):
            pin = by_number[number].pin
            if blocked and not by_number[number].waited:
                continue
            if pin:
                verdict = self.session.pin(workload.pod, workload.key, number, pin)
            else:
                verdict = self._place_one(work, by_number[number])
            changed = changed or bool(verdict.node)
            blocked = blocked or (workload.ordered and not verdict.node)
            work.made[number] = self._made(workload, verdict, by_number[number])
        return changed

    # --- telling ------------------------------------------------------------------------------

    def _outcomes(self, work: Work) -> list[PodOutcome]:
        """What becomes of every pod of a workload, by number."""
        workload = work.workload
        stays = [
            PodOutcome(
                workload=workload.key,
                number=pod.number,
                name=pod.name,
                action=forecast.KEEP,
                node=pod.node,
                previous=pod.node,
                reason=pod.refused,
                spec=pod.spec,
                age=pod.age,
                without=PodState.FAILED if pod.refused else PodState.PENDING,
                volumes=self._volumes(pod.spec, pod.number),
            )
            for pod in (*work.keeps, *work.outdated, *work.over, *work.spared)
        ]
        stays = [self._as_made_first(work, outcome) for outcome in stays]
        return sorted([*stays, *work.made.values()], key=lambda outcome: outcome.number)

    def _as_made_first(self, work: Work, outcome: PodOutcome) -> PodOutcome:
        """A pod that stays; one that its set was given before the rollout began is placed."""
        came = work.grown.get(outcome.number)
        if came is None or outcome.spec is None or outcome.spec.template == work.workload.pod.template:
            return outcome
        certain, trigger = came
        return replace(outcome, action=forecast.PLACE, previous="", trigger=trigger, certain=certain)


def _removed(pod: StandingPod, trigger: str) -> PodOutcome:
    """A pod that goes and does not come again."""
    return PodOutcome(
        workload=pod.workload,
        number=pod.number,
        name=pod.name,
        action=forecast.REMOVE,
        node="",
        previous=pod.node,
        trigger=trigger,
        age=pod.age,
    )
