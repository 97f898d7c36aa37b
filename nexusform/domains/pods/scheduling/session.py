"""A cluster while its pods are being decided: `Session` places one pod, and says how sure that is.

kube-scheduler draws lots among equals, so a choice is certain only where it draws none, and where no
lot drawn before could have mattered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.admission import Cells, rejection
from nexusform.domains.pods.scheduling.board import Board, Group
from nexusform.domains.pods.scheduling.claims import Claims
from nexusform.domains.pods.scheduling.pending import message, missing
from nexusform.domains.pods.scheduling.preemption import Eviction, allowances, preempt
from nexusform.domains.pods.scheduling.rules import node_affinity, tie_break
from nexusform.domains.pods.scheduling.rules.image_locality import MOST_POINTS
from nexusform.domains.pods.scheduling.run import Choice, Run, Statics
from nexusform.domains.pods.scheduling.versions import is_doubtful
from nexusform.domains.pods.scheduling.workloads import (
    Cluster,
    PodSpec,
    PodState,
    StandingPod,
    VolumeNeed,
    is_made_anew,
)
from nexusform.scheduling.decision import Refusal

_ABOVE_ALL = 1 << 31

Identity = tuple[str, int, str]


class Verdict(Struct, frozen=True):
    """Where a pod goes ("" = nowhere, and then it is `without`), how sure that is, and why not elsewhere.

    `victims` are evicted for it.
    """

    node: str
    certain: bool
    feasible: int
    reason: str = ""
    refusals: tuple[Refusal, ...] = ()
    without: PodState = PodState.PENDING
    victims: tuple[StandingPod, ...] = ()


# Told of a pod (workload key, number) and of the rules' view of it, just before it is decided.
Look = Callable[[str, int, Run], None]


class Session:
    """Decides pod after pod on one board."""

    def __init__(
        self,
        cluster: Cluster,
        standing: Iterable[StandingPod],
        seed: int,
        look: Look | None = None,
        expected: Sequence[int] = (),
        lost: Iterable[StandingPod] = (),
    ) -> None:
        on_nodes = tuple(standing)
        self.cluster = cluster
        # Pods that are `lost` have left their nodes, and keep the volumes that they had.
        self.claims = Claims(cluster, (*on_nodes, *lost))
        self._look = look
        self.board = Board(cluster)
        self.statics = Statics(cluster.nodes, cluster.version)
        self.seed = seed
        # Who was evicted and is not spoken of yet; whoever asks takes them away.
        self.evicted: list[Eviction] = []
        self.age = 1  # of every pod that is made here: newer than what stands
        # How many pods belong under each budget of the cluster.
        self._expected = expected
        self._names = [node.name for node in cluster.nodes]
        # By node, pods that wait for room there: what they will hold, nobody of lower priority gets.
        self._promised: dict[int, list[Group]] = {}
        self._run: Run | None = None
        # Nodes whose load depends on a lot that was drawn, as bits.
        self._blurred = 0
        self._failures: dict[int, tuple[int, Verdict]] = {}
        self._cells: dict[int, Cells] = {}
        self._residents: list[dict[Identity, StandingPod]] = [{} for _ in cluster.nodes]
        self._lowest = _ABOVE_ALL  # no pod here that may be evicted has a lower priority
        for pod in on_nodes:
            at = self.board.index.get(pod.node)
            if at is None:
                continue
            self.age = max(self.age, pod.age + 1)
            self.board.place(self.board.group(pod.spec), at)
            self._settle(pod, at)
        for pod in cluster.promised:
            at = self.board.index.get(pod.node)
            if at is not None:
                self._promised.setdefault(at, []).append(self.board.group(pod.spec))
        self.seat()

    def seat(self) -> None:
        """Give the pods that run their NUMA cells anew, by name: what is left depends on who runs, not on
        who came first, which nobody remembers.
        """
        for at, node in enumerate(self.cluster.nodes):
            if node.cells:
                cells = self._cells[at] = Cells(node)
                for _, pod in sorted(self._residents[at].items()):
                    cells.occupy(pod.spec)

    def _settle(self, pod: StandingPod, at: int) -> None:
        """Note a pod as one that stands on a node (its position)."""
        self._residents[at][_identity(pod)] = pod
        if not pod.stays:
            self._lowest = min(self._lowest, pod.spec.priority)

    def run_of(self, spec: PodSpec, needs: tuple[VolumeNeed, ...] = ()) -> Run:
        """The rules' view of a spec as the board stands now; `needs` are what a pod's own claims ask."""
        group = self.board.group(spec)
        run = self._run
        stale = run is None or run.group is not group or run.version != self.board.version
        if run is None or stale or run.needs != needs:
            run = self._run = Run(self.board, group, self.statics, needs, self._promised_before(spec))
        return run

    def _promised_before(self, spec: PodSpec) -> dict[int, list[Group]]:
        """By node, what is promised there to pods that a pod of this spec has no precedence over."""
        promised: dict[int, list[Group]] = {}
        for at, groups in self._promised.items():
            precedent = [group for group in groups if group.spec.priority >= spec.priority]
            if precedent:
                promised[at] = precedent
        return promised

    def run_for(self, spec: PodSpec, number: int) -> Run:
        """The same for one pod, whose claims are bound as far as they wait for nobody."""
        self.claims.settle(spec, number)
        return self.run_of(spec, self.claims.needs(spec, number))

    def remove(self, pod: StandingPod) -> None:
        """Take a pod off its node, if it has one here."""
        at = self.board.index.get(pod.node)
        if at is None:
            return
        self.board.place(self.board.group(pod.spec), at, -1)
        self._residents[at].pop(_identity(pod), None)
        if at in self._cells:
            self._cells[at].release(pod.spec)

    def place(self, spec: PodSpec, workload: str, number: int) -> Verdict:
        """Decide a pod and put it there."""
        group = self.board.group(spec)
        failed = self._failures.get(id(group))
        if self._look is None and failed is not None and failed[0] == self.board.version:
            return failed[1]
        run = self.run_for(spec, number)
        if self._look is not None:
            self._look(workload, number, run)
        if spec.gates:
            return gated(spec)
        pod = StandingPod(workload, number, "", spec, self.age)
        if spec.node_name:
            return self._bound(run, pod)
        choice = run.choose()
        if choice is None:
            return self._refused(run, pod)
        certain = self._certain(run, choice)
        if not certain:
            self._blur(run, choice)
        return self._try(run, pod, choice, certain)

    def _try(self, run: Run, pod: StandingPod, choice: Choice, certain: bool) -> Verdict:
        """Let kubelet run a pod on the node that is drawn. In place of one that is refused its controller
        makes another, for which lots are drawn again: it fails for good where all these nodes refuse it.
        """
        tied = list(choice.tied)
        first_reason = ""
        while tied:
            node = tie_break.lowest(self._lot(pod), self._names, tied)
            objection = self._run_on(run, node, pod)
            if not objection:
                return Verdict(self._names[node], certain, choice.feasible)
            first_reason = first_reason or f"on {self._names[node]}: {objection}."
            tied.remove(node)
            if not is_made_anew(pod.workload):
                break
        return Verdict("", certain, choice.feasible, first_reason, without=PodState.FAILED)

    def _lot(self, pod: StandingPod) -> str:
        """What ties are broken with: the text that a pod's digests begin with."""
        return f"{self.seed}|{self.cluster.name}|{pod.workload}|{pod.number}"

    def _bound(self, run: Run, pod: StandingPod) -> Verdict:
        """A pod that names its node meets no scheduler: kubelet runs it or refuses it."""
        spec = pod.spec
        at = self.board.index.get(spec.node_name)
        if at is None:
            return _failed(spec.node_name, "there is no such node", not self._blurred, 0)
        certain = not self._blurred & 1 << at
        objection = rejection(spec, self.board.nodes[at], self.board.usage[at]) or self._run_on(run, at, pod)
        if objection:
            return _failed(spec.node_name, objection, certain, 0)
        return Verdict(spec.node_name, certain, 1)

    def _run_on(self, run: Run, node: int, pod: StandingPod) -> str:
        """Put a pod of the run on a node; why kubelet refuses it there, "" when it runs."""
        cells = self._cells.get(node)
        objection = cells.admit(pod.spec) if cells is not None else ""
        if not objection:
            run.add(node)
            self._settle(replace(pod, node=self._names[node]), node)
            self.claims.take(pod.spec, pod.number, self._names[node])
        return objection

    def pin(self, spec: PodSpec, workload: str, number: int, node: str) -> Verdict:
        """Decide a DaemonSet's pod, which only this node may take."""
        run = self.run_for(spec, number)
        if self._look is not None:
            self._look(workload, number, run)
        if spec.gates:
            return gated(spec)
        at = self.board.index[node]
        pod = StandingPod(workload, number, "", spec, self.age)
        refusal = run.refusal(at)
        if refusal is not None:
            instead = self._preempt(run, pod, {at: refusal})
            reason = self._pinned_message(refusal)
            return instead or Verdict("", not self._blurred & 1 << at, 0, reason, (refusal,))
        certain = self._is_clear(run, 1 << at) and not spec.unforeseen
        objection = self._run_on(run, at, pod)
        return _failed(node, objection, certain, 1) if objection else Verdict(node, certain, 1)

    def _pinned_message(self, refusal: Refusal) -> str:
        """Why a pod that only one node may take is Pending."""
        others = [name for name in self._names if name != refusal.candidate]
        left_out = [Refusal(name, "node_names", node_affinity.LEFT_OUT) for name in others]
        return message([refusal, *left_out], len(self._names))

    def _refused(self, run: Run, pod: StandingPod) -> Verdict:
        """The verdict where no node is feasible, remembered until something changes."""
        answers = {node: run.refusal(node) for node in range(len(self._names))}
        refusals = {node: refusal for node, refusal in answers.items() if refusal is not None}
        instead = self._preempt(run, pod, refusals)
        if instead is not None:
            return instead
        certain = self._is_clear(run, run.facts.mask) and not self._is_doubtful(run, 0)
        reasons = tuple(refusals.values())
        reason = message(reasons, len(self._names)) + missing(pod.spec, self.cluster.nodes)
        verdict = Verdict("", certain, 0, reason, reasons)
        if not pod.spec.claims:  # else others of the spec may have other volumes
            self._failures[id(run.group)] = (self.board.version, verdict)
        return verdict

    def hindrance(self, spec: PodSpec, number: int) -> str:
        """Why no node takes one more pod of a spec as things stand; "" where one does, or may by evicting."""
        run = self.run_for(spec, number)
        may_evict = spec.preempts and spec.priority > self._lowest
        if spec.gates or spec.node_name or may_evict:
            return ""
        if any(run.refusal(node) is None for node in run.facts.points):
            return ""
        answers = [run.refusal(node) for node in range(len(self._names))]
        return message([refusal for refusal in answers if refusal is not None], len(self._names)).rstrip(".")

    def _preempt(self, run: Run, pod: StandingPod, refusals: Mapping[int, Refusal]) -> Verdict | None:
        """Evict less important pods for one that no node takes, where that helps."""
        if not pod.spec.preempts or pod.spec.priority <= self._lowest:
            return None
        budgets = self.cluster.budgets
        allowed = allowances(budgets, self._expected or [0] * len(budgets), self.board)
        prefix = self._lot(pod)
        choice = preempt(
            run,
            refusals,
            self._residents,
            allowed,
            lambda tied: tie_break.lowest(prefix, self._names, tied),
        )
        if choice is None:
            return None
        certain = choice.certain and self._is_clear(run, run.facts.mask) and not self._is_doubtful(run, 0)
        if not certain:
            for node in choice.considered:
                self._blurred |= 1 << node
        for victim in choice.victims:
            self.remove(victim)
        name = self._names[choice.node]
        objection = self._run_on(self.run_of(pod.spec, run.needs), choice.node, pod)
        if objection:
            # Victims and preemptors would drive each other out for ever: nobody is said to leave.
            for victim in choice.victims:
                self.board.place(self.board.group(victim.spec), choice.node)
                self._settle(victim, choice.node)
            self.seat()
            return _failed(name, objection, certain, 0)
        preemptor = (pod.workload, pod.number)
        self.evicted += [Eviction(victim, preemptor) for victim in choice.victims]
        return Verdict(name, certain, 0, victims=choice.victims)

    def _certain(self, run: Run, choice: Choice) -> bool:
        """Whether no lot decided: one best node, all nodes scored, and nothing blurred that matters to the
        pod.
        """
        if len(choice.tied) > 1:
            return False
        if choice.feasible > 1 and choice.feasible > profile.nodes_scored(len(self._names)):
            return False
        if self._may_turn(run, choice):
            return False
        return self._is_clear(run, run.facts.mask)

    def _may_turn(self, run: Run, choice: Choice) -> bool:
        """Whether another node may be the best by what nobody tells: images on nodes, the scheduler's
        version.
        """
        if run.images_matter and choice.lead is not None and choice.lead <= MOST_POINTS:
            return True
        return self._is_doubtful(run, choice.feasible)

    def _is_doubtful(self, run: Run, feasible: int) -> bool:
        return is_doubtful(run.group.spec, self.cluster.version, feasible)

    def _is_clear(self, run: Run, nodes: int) -> bool:
        """Whether no lot bears on what a run says of these nodes (bits)."""
        if not self._blurred:
            return True
        return not self._blurred & nodes and not _related(run)

    def _blur(self, run: Run, choice: Choice) -> None:
        """Note the nodes on which it depends on a lot what runs there."""
        sampled = choice.feasible > profile.nodes_scored(len(self._names))
        if self._blurred or sampled or self._may_turn(run, choice):
            self._blurred |= run.facts.mask
        else:
            for node in choice.tied:
                self._blurred |= 1 << node


def _identity(pod: StandingPod) -> Identity:
    # Old and new pods of one number stand side by side while a template changes.
    return (pod.workload, pod.number, pod.spec.template)


def gated(spec: PodSpec) -> Verdict:
    """The verdict on a pod at which the scheduler does not look yet."""
    reason = f"scheduling is blocked by {', '.join(spec.gates)}."
    return Verdict("", certain=True, feasible=0, reason=reason, without=PodState.GATED)


def _failed(node: str, reason: str, certain: bool, feasible: int) -> Verdict:
    """The verdict on a pod that kubelet refuses on its node."""
    return Verdict("", certain, feasible, f"on {node}: {reason}.", without=PodState.FAILED)


def _related(run: Run) -> bool:
    """Whether pods elsewhere than on its own nodes can matter to a pod; also those that take volumes."""
    counts = run.counts
    if run.group.spec.claims:
        return True
    return bool(counts.affinity or counts.anti_affinity or counts.existing or counts.preferred or counts.hard)
