"""A cluster while its pods are being decided: places one pod, and says how sure that is.

kube-scheduler draws lots among equals, so a choice is certain only where it draws none, and where no
lot drawn before could have mattered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.pods import profile
from nexusform.scheduling.pods.board import Board, Group
from nexusform.scheduling.pods.model import Cluster, PodSpec, StandingPod
from nexusform.scheduling.pods.rules import tie_break
from nexusform.scheduling.pods.run import Choice, Run
from nexusform.scheduling.pods.statics import Statics


class Verdict(Struct, frozen=True):
    """Where a pod goes ("" = nowhere), how sure that is, and why not elsewhere."""

    node: str
    certain: bool
    feasible: int
    score: int | None = None
    reason: str = ""
    refusals: tuple[Refusal, ...] = ()


# Told of a pod (workload key, number) and of the rules' view of it, just before it is decided.
Look = Callable[[str, int, Run], None]


class Session:
    """Decides pod after pod on one board."""

    def __init__(
        self, cluster: Cluster, standing: Iterable[StandingPod], seed: int, look: Look | None = None
    ) -> None:
        self.cluster = cluster
        self._look = look
        self.board = Board(cluster)
        self.statics = Statics(cluster.nodes)
        self.seed = seed
        self._names = [node.name for node in cluster.nodes]
        self._run: Run | None = None
        # Nodes whose load depends on a lot that was drawn, as bits.
        self._blurred = 0
        self._failures: dict[int, tuple[int, Verdict]] = {}
        for pod in standing:
            at = self.board.index.get(pod.node)
            if at is not None:
                self.board.place(self.board.group(pod.spec), at)

    def run_of(self, spec: PodSpec) -> Run:
        """The rules' view of a spec as the board stands now."""
        group = self.board.group(spec)
        run = self._run
        if run is None or run.group is not group or run.version != self.board.version:
            run = self._run = Run(self.board, group, self.statics)
        return run

    def remove(self, pod: StandingPod) -> None:
        """Take a pod off its node, if it has one here."""
        at = self.board.index.get(pod.node)
        if at is not None:
            self.board.place(self.board.group(pod.spec), at, -1)

    def place(self, spec: PodSpec, workload: str, number: int) -> Verdict:
        """Decide a pod and put it there."""
        group = self.board.group(spec)
        failed = self._failures.get(id(group))
        if self._look is None and failed is not None and failed[0] == self.board.version:
            return failed[1]
        run = self.run_of(spec)
        if self._look is not None:
            self._look(workload, number, run)
        choice = run.choose()
        if choice is None:
            return self._refused(run, group)
        node = tie_break.lowest(
            f"{self.seed}|{self.cluster.name}|{workload}|{number}", self._names, choice.tied
        )
        certain = self._certain(run, choice)
        if not certain:
            self._blur(run, choice)
        run.add(node)
        return Verdict(self._names[node], certain, choice.feasible, choice.total)

    def pin(self, spec: PodSpec, workload: str, number: int, node: str) -> Verdict:
        """Decide a DaemonSet's pod, which only this node may take."""
        run = self.run_of(spec)
        if self._look is not None:
            self._look(workload, number, run)
        at = self.board.index[node]
        refusal = run.refusal(at)
        bit = 1 << at
        if refusal is not None:
            reason = f"0/{len(self._names)} nodes are available: 1 {refusal.reason}."
            return Verdict("", not self._blurred & bit, 0, None, reason, (refusal,))
        certain = not self._blurred & bit and not (self._blurred and _related(run))
        run.add(at)
        return Verdict(node, certain, 1)

    def _refused(self, run: Run, group: Group) -> Verdict:
        answers = [run.refusal(node) for node in range(len(self._names))]
        refusals = tuple(refusal for refusal in answers if refusal is not None)
        certain = not self._blurred & run.facts.mask and not (self._blurred and _related(run))
        verdict = Verdict("", certain, 0, None, message(refusals, len(self._names)), refusals)
        self._failures[id(group)] = (self.board.version, verdict)
        return verdict

    def _certain(self, run: Run, choice: Choice) -> bool:
        if len(choice.tied) > 1:
            return False
        if choice.feasible > 1 and choice.feasible > profile.nodes_scored(len(self._names)):
            return False
        if not self._blurred:
            return True
        return not self._blurred & run.facts.mask and not _related(run)

    def _blur(self, run: Run, choice: Choice) -> None:
        sampled = choice.feasible > profile.nodes_scored(len(self._names))
        if self._blurred or sampled:
            self._blurred |= run.facts.mask
        else:
            for node in choice.tied:
                self._blurred |= 1 << node


def _related(run: Run) -> bool:
    # Whether pods elsewhere than on its own nodes can matter to a pod.
    counts = run.counts
    return bool(counts.affinity or counts.anti_affinity or counts.existing or counts.preferred or counts.hard)


def message(refusals: Iterable[Refusal], nodes: int) -> str:
    """Why a pod is Pending, as Kubernetes prints it: reasons with the number of nodes, in text order."""
    tally = Counter(part for refusal in refusals for part in refusal.reason.split(", "))
    if not nodes:
        return "no nodes available to schedule pods"
    parts = sorted(f"{count} {reason}" for reason, count in tally.items())
    return f"0/{nodes} nodes are available: {', '.join(parts)}."
