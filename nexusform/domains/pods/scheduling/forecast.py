"""What a prediction says: one outcome per pod, and per workload how many pods can be placed at all.

The least and the most further pods of a spec (`reach`) are what hard rules let through, whatever lots are
drawn. They are exact while the rules that pods of the spec impose on each other use one topology key (keys
whose domains have one node each count as none): then every way to place them ends with the same number per
domain. With several keys, or several affinity terms, they are bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from nexusform.domains.pods.scheduling.board import Usage
from nexusform.domains.pods.scheduling.counts import SpreadTally, Tally
from nexusform.domains.pods.scheduling.rules import disks, inter_pod_affinity
from nexusform.domains.pods.scheduling.run import Run
from nexusform.domains.pods.scheduling.workloads import (
    Node,
    Pairs,
    PodSpec,
    PodState,
    StandingPod,
    Workload,
    is_made_anew,
)
from nexusform.scheduling.decision import Refusal

PLACE, MOVE, REMOVE, KEEP = "place", "move", "remove", "keep"

NEW = "new"
SCALE_OUT = "scale_out"
SCALE_IN = "scale_in"
NODE_REMOVED = "node_removed"
TEMPLATE_CHANGED = "template_changed"
WORKLOAD_REMOVED = "workload_removed"
PREEMPTED = "preempted"
NO_EXECUTE = "no_execute"


class PodOutcome(Struct, frozen=True):
    """What becomes of one pod.

    `node` "" = it has none, and is `without` (or removed, when `action` says so), and then `reason` says
    why, as Kubernetes would, and `refusals` has the first reason per node. `certain`: any scheduler run
    would choose this node (or leave the pod Pending). `feasible` is None where nothing was decided.
    `victims` are evicted for it; `preempted_by` is the pod for which it was evicted itself. `volumes`:
    claims of it that have a volume, each with its name.
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
    reason: str = ""
    refusals: tuple[Refusal, ...] = ()
    spec: PodSpec | None = None
    age: int = 0
    without: PodState = PodState.PENDING
    victims: tuple[StandingPod, ...] = ()
    preempted_by: str = ""
    volumes: Pairs = ()

    @property
    def state(self) -> PodState:
        """What the pod is, if it exists."""
        return PodState.SCHEDULED if self.node else self.without

    @property
    def pending(self) -> bool:
        """Whether the pod exists and waits for a node."""
        return self.action != REMOVE and self.state is PodState.PENDING

    @property
    def gated(self) -> bool:
        """Whether the pod exists and the scheduler does not look at it yet."""
        return self.action != REMOVE and self.state is PodState.GATED

    @property
    def failed(self) -> bool:
        """Whether kubelet refuses the pod."""
        return self.action != REMOVE and self.state is PodState.FAILED


class Reach(Struct, frozen=True):
    """The least and the most pods that hard rules let through, exactly or as bounds."""

    least: int
    most: int
    exact: bool


class WorkloadForecast(Struct, frozen=True):
    """A workload after the prediction: the pods it asks for, and those that run by machine and rack.

    Counts leave out nodes whose machine or rack nobody knows. `stuck`: a rolling update cannot go on.
    `not_made` pods do not exist, as a quota or a LimitRange refuses them: `refused` says why.
    """

    workload: Workload
    replicas: int
    reach: Reach
    per_machine: Mapping[str, int]
    per_rack: Mapping[str, int]
    stuck: bool = False
    not_made: int = 0
    refused: str = ""


class Prediction(Struct, frozen=True):
    """The outcomes in order of decision (removed pods last), and a forecast per workload key. `bystanders`
    are pods of other workloads that stay; `displaced` those that were evicted, and what became of them.
    """

    outcomes: tuple[PodOutcome, ...]
    forecasts: Mapping[str, WorkloadForecast]
    bystanders: tuple[StandingPod, ...] = ()
    displaced: tuple[PodOutcome, ...] = ()

    def standing(self) -> tuple[StandingPod, ...]:
        """Every pod that exists afterwards, Pending ones too: what a next prediction starts from."""
        decided = tuple(
            StandingPod(
                outcome.workload,
                outcome.number,
                outcome.node,
                outcome.spec,
                outcome.age,
                _refused_for_good(outcome),
                outcome.volumes,
            )
            for outcome in (*self.outcomes, *self.displaced)
            if outcome.action != REMOVE and outcome.spec is not None
        )
        return self.bystanders + decided

    def of(self, workload: str) -> tuple[PodOutcome, ...]:
        """The outcomes of one workload (key), by number; removed pods too."""
        return tuple(sorted((o for o in self.outcomes if o.workload == workload), key=lambda o: o.number))


def _refused_for_good(outcome: PodOutcome) -> str:
    """Why kubelet refuses a pod in whose place no other one is made; "" for all others."""
    return outcome.reason if outcome.failed and not is_made_anew(outcome.workload) else ""


def tally(names: Iterable[str]) -> dict[str, int]:
    """How often each name comes, in their order, those that nobody knows left out."""
    return dict(sorted(Counter(name for name in names if name).items()))


def reach(run: Run, further: int) -> Reach:
    """How many of `further` further pods can be placed, at least and at most."""
    spec = run.group.spec
    if spec.exclusive:
        further = 0 if run.board.claimed(spec) else min(further, 1)
    room = _room(run, further)
    anti, spread = _own_keys(run, room)
    if _starts_company(run):
        return _company(run, room, further, anti, spread)
    keys = {id(tally.domain) for tally in (*anti, *spread)}
    several = len(keys) > 1 or len(spread) > 1 or len(run.counts.affinity) > 1
    if several:
        return _bounds(run, room, further, anti, spread)
    total = min(_total(room, anti, spread), further)
    return Reach(total, total, exact=True)


def _room(run: Run, further: int) -> dict[int, int]:
    """Pods of the spec that each node could still take, by what is there now and by its own usage."""
    room = {}
    counts, starts = run.counts, _starts_company(run)
    spec, nodes, usage = run.group.spec, run.board.nodes, run.board.usage
    for bucket in run.buckets():
        node = next(bucket)
        if not starts and inter_pod_affinity.refuse(counts, node):
            continue
        if any(_skewed_by_others(tally, node) for tally in counts.hard):
            continue
        for at in (node, *bucket):
            room[at] = _capacity(spec, nodes[at], usage[at], further)
    return room


def _skewed_by_others(tally: SpreadTally, node: int) -> bool:
    """Whether a node never takes the pod: it lacks the key, or others made it too full and we don't count."""
    domain = tally.domain[node]
    if domain < 0:
        return True
    constraint = tally.constraint
    counts_us = tally.matches_itself and constraint.selector is not None and tally.grows
    if counts_us:
        return False
    skew = tally.count[domain] + tally.matches_itself - tally.least()
    return skew > constraint.max_skew


def _capacity(spec: PodSpec, node: Node, usage: Usage, further: int) -> int:
    """How many pods of a spec a node takes, `further` at most; at least 1, for it is known to take one."""
    if spec.host_ports or not disks.share(spec):
        return 1
    most = min(further, node.pods - usage.pods)
    requests = spec.requests
    if requests.cpu:
        most = min(most, (node.cpu - usage.cpu) // requests.cpu)
    if requests.memory:
        most = min(most, (node.memory - usage.memory) // requests.memory)
    for name, amount in requests.others:
        if amount and name in node.others:
            most = min(most, (node.others[name] - usage.others.get(name, 0)) // amount)
    return most


def _own_keys(run: Run, room: dict[int, int]) -> tuple[list[Tally], list[SpreadTally]]:
    """The counters by which pods of the spec keep each other away; keys with one node per domain are settled
    in `room` at once.
    """
    board, group, counts = run.board, run.group, run.counts
    anti: dict[int, Tally] = {}
    for term, tally in zip(group.spec.anti_affinity, counts.anti_affinity, strict=True):
        if not board.chooses(term, group):
            continue
        labelled = [node for node in room if tally.domain[node] >= 0]
        domains = {tally.domain[node] for node in labelled}
        if len(domains) == len(labelled):
            room.update(dict.fromkeys(labelled, 1))
        else:
            anti[id(tally.domain)] = tally
    spread = [tally for tally in counts.hard if tally.matches_itself and tally.grows]
    return list(anti.values()), spread


def _total(room: Mapping[int, int], anti: Sequence[Tally], spread: Sequence[SpreadTally]) -> int:
    """How many pods the nodes take together, one counter of each kind limiting them."""
    if not anti and not spread:
        return sum(room.values())
    tally = (*anti, *spread)[0]
    domains: dict[int, int] = {}
    for node, pods in room.items():
        domain = tally.domain[node]
        domains[domain] = domains.get(domain, 0) + pods
    if anti:
        # Nodes without the key (-1) are never refused, so they keep all their room.
        domains = {domain: pods if domain < 0 else min(pods, 1) for domain, pods in domains.items()}
    if spread:
        domains = _level(spread[0], domains)
    return sum(domains.values())


def _level(tally: SpreadTally, domains: Mapping[int, int]) -> dict[int, int]:
    """The domain that fills up first holds all others back to its level + maxSkew."""
    least = 0
    if len(tally.present) >= tally.constraint.min_domains:
        levels = [tally.count[domain] + domains.get(domain, 0) for domain in tally.present]
        least = min(levels, default=0)
    ceiling = least + tally.constraint.max_skew
    return {
        domain: min(pods, max(0, ceiling - tally.count[domain]))
        for domain, pods in domains.items()
        if domain >= 0
    }


def _starts_company(run: Run) -> bool:
    # The first pod of a group that wants its own company chooses where all others go.
    return bool(run.counts.affinity) and run.counts.matches_itself and not run.counts.has_company


def _company(
    run: Run, room: Mapping[int, int], further: int, anti: Sequence[Tally], spread: Sequence[SpreadTally]
) -> Reach:
    """How many find a place beside their own: all of them go to one domain, and nobody knows which."""
    counts = run.counts
    tally = counts.affinity[0]
    by_domain: dict[int, dict[int, int]] = {}
    for node, pods in room.items():
        has_keys = all(key.domain[node] >= 0 for key in counts.affinity)
        if has_keys and not _rejected(run, node):
            by_domain.setdefault(tally.domain[node], {})[node] = pods
    totals = [min(further, _total(room_there, anti, spread)) for room_there in by_domain.values()] or [0]
    most = max(totals)
    one_rule = len(counts.affinity) == 1 and not anti and not spread
    if one_rule:
        return Reach(min(totals), most, exact=True)
    return Reach(min(1, further, most), most, exact=False)


def _rejected(run: Run, node: int) -> bool:
    """Whether anti-affinity, of the pod or of those that stand, refuses a node."""
    tallies = (*run.counts.anti_affinity, *run.counts.existing)
    return any(tally.domain[node] >= 0 and tally.count[tally.domain[node]] for tally in tallies)


def _bounds(
    run: Run, room: Mapping[int, int], further: int, anti: Sequence[Tally], spread: Sequence[SpreadTally]
) -> Reach:
    """How many fit at least and at most, by each counter alone."""
    ceilings = [_total(room, [tally], []) for tally in anti]
    ceilings += [_total(room, [], [tally]) for tally in spread]
    most = min([further, *ceilings])
    if spread or len(run.counts.affinity) > 1:
        least = 0 if run.choose() is None else min(1, most)
        return Reach(least, most, exact=False)
    least = min(most, _certainly(room, anti))
    return Reach(least, most, exact=least == most)


def _certainly(room: Mapping[int, int], anti: Sequence[Tally]) -> int:
    """Each pod bars at most the nodes of its own domains; a placement that cannot grow bars them all."""
    sizes = [(tally, _nodes_per_domain(tally, room)) for tally in anti]
    barred = max((_barred(node, sizes) for node in room), default=1)
    return -(-len(room) // barred)


def _nodes_per_domain(tally: Tally, room: Mapping[int, int]) -> Mapping[int, int]:
    return Counter(tally.domain[node] for node in room)


def _barred(node: int, sizes: Sequence[tuple[Tally, Mapping[int, int]]]) -> int:
    """How many nodes a pod there keeps the next one off at most: the node itself, and per key the other nodes
    of its domain. `sizes` are the nodes of every domain, by key.
    """
    neighbours = 0
    for tally, nodes_in in sizes:
        domain = tally.domain[node]
        if domain >= 0:
            neighbours += nodes_in[domain] - 1
    return 1 + neighbours
