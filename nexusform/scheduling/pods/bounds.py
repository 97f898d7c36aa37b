"""The least and the most further pods of a spec that hard rules let through, whatever lots are drawn.

Exact while the rules that pods of the spec impose on each other use one topology key (keys whose domains
have one node each count as none): then every way to place them ends with the same number per domain.
With several keys, or several affinity terms, these are bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nexusform.scheduling.pods.board import Usage
from nexusform.scheduling.pods.counts import SpreadTally, Tally
from nexusform.scheduling.pods.forecast import Reach
from nexusform.scheduling.pods.model import Node, PodSpec
from nexusform.scheduling.pods.rules import inter_pod_affinity
from nexusform.scheduling.pods.run import Run

_UNBOUNDED = 10**9


def reach(run: Run, further: int) -> Reach:
    """How many of `further` further pods can be placed, at least and at most."""
    room = _room(run, further)
    anti, spread = _own_keys(run, room)
    if _starts_company(run):
        return _company(run, room, further, anti, spread)
    keys = {id(t.domain) for t in anti} | {id(t.domain) for t in spread}
    if len(keys) > 1 or len(spread) > 1 or len(run.counts.affinity) > 1:
        return _bounds(run, room, further, anti, spread)
    total = min(_total(room, anti, spread), further)
    return Reach(total, total, exact=True)


def _room(run: Run, further: int) -> dict[int, int]:
    # Pods of the spec that each node could still take, by what is there now and by its own usage.
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
    # A node without the key never takes the pod; one that others made too full stays so if we don't count.
    domain = tally.domain[node]
    if domain < 0:
        return True
    counts_us = tally.matches_itself and tally.constraint.selector is not None and tally.grows
    return (
        not counts_us
        and tally.count[domain] + tally.matches_itself - tally.least() > tally.constraint.max_skew
    )


def _capacity(spec: PodSpec, node: Node, usage: Usage, further: int) -> int:
    # At least 1: the node is known to take one.
    if spec.host_ports:
        return 1
    most = min(further, node.pods - usage.pods)
    asked = spec.requests
    if asked.cpu:
        most = min(most, (node.cpu - usage.cpu) // asked.cpu)
    if asked.memory:
        most = min(most, (node.memory - usage.memory) // asked.memory)
    for name, amount in asked.others:
        if amount and name in node.others:
            most = min(most, (node.others[name] - usage.others.get(name, 0)) // amount)
    return most


def _own_keys(run: Run, room: dict[int, int]) -> tuple[list[Tally], list[SpreadTally]]:
    # The counters by which pods of the spec keep each other away; keys with one node per domain are
    # settled in `room` at once.
    board, group, counts = run.board, run.group, run.counts
    anti: dict[int, Tally] = {}
    for term, tally in zip(group.spec.anti_affinity, counts.anti_affinity, strict=True):
        if not board.chooses(term, group):
            continue
        domains = [tally.domain[node] for node in room if tally.domain[node] >= 0]
        if len(set(domains)) == len(domains):
            for node in room:
                if tally.domain[node] >= 0:
                    room[node] = 1
        else:
            anti[id(tally.domain)] = tally
    return list(anti.values()), [tally for tally in counts.hard if tally.matches_itself and tally.grows]


def _total(room: Mapping[int, int], anti: Sequence[Tally], spread: Sequence[SpreadTally]) -> int:
    if not anti and not spread:
        return sum(room.values())
    tally = (*anti, *spread)[0]
    domains: dict[int, int] = {}
    for node, pods in room.items():
        domains[tally.domain[node]] = domains.get(tally.domain[node], 0) + pods
    if anti:
        # Nodes without the key are never refused, so they keep all their room.
        domains = {domain: min(pods, 1) if domain >= 0 else pods for domain, pods in domains.items()}
    if spread:
        domains = _level(spread[0], domains)
    return sum(domains.values())


def _level(tally: SpreadTally, domains: Mapping[int, int]) -> dict[int, int]:
    # The domain that fills up first holds all others back to its level + maxSkew.
    present = {d for d, counted in zip(tally.domain, tally.eligible, strict=True) if counted and d >= 0}
    least = 0
    if len(present) >= tally.constraint.min_domains:
        least = min((tally.count[d] + domains.get(d, 0) for d in present), default=0)
    ceiling = least + tally.constraint.max_skew
    return {d: min(pods, max(0, ceiling - tally.count[d])) for d, pods in domains.items() if d >= 0}


def _starts_company(run: Run) -> bool:
    # The first pod of a group that wants its own company chooses where all others go.
    return bool(run.counts.affinity) and run.counts.matches_itself and not run.counts.has_company


def _company(
    run: Run, room: Mapping[int, int], further: int, anti: Sequence[Tally], spread: Sequence[SpreadTally]
) -> Reach:
    counts = run.counts
    tally = counts.affinity[0]
    by_domain: dict[int, dict[int, int]] = {}
    for node, pods in room.items():
        if all(t.domain[node] >= 0 for t in counts.affinity) and not _rejected(run, node):
            by_domain.setdefault(tally.domain[node], {})[node] = pods
    totals = [min(further, _total(part, anti, spread)) for part in by_domain.values()] or [0]
    simple = len(counts.affinity) == 1 and not anti and not spread
    if simple:
        return Reach(min(totals), max(totals), exact=True)
    return Reach(min(1, further, max(totals)), max(totals), exact=False)


def _rejected(run: Run, node: int) -> bool:
    tallies = (*run.counts.anti_affinity, *run.counts.existing)
    return any(t.domain[node] >= 0 and t.count[t.domain[node]] for t in tallies)


def _bounds(
    run: Run, room: Mapping[int, int], further: int, anti: Sequence[Tally], spread: Sequence[SpreadTally]
) -> Reach:
    most = min(
        [_total(room, [tally], []) for tally in anti]
        + [_total(room, [], [tally]) for tally in spread]
        + [further],
        default=_UNBOUNDED,
    )
    if spread or len(run.counts.affinity) > 1:
        return Reach(min(1, most) if run.choose() is not None else 0, most, exact=False)
    # Each pod bars at most the nodes of its own domains; a placement that cannot grow bars them all.
    sizes: list[dict[int, int]] = []
    for tally in anti:
        size: dict[int, int] = {}
        for node in room:
            size[tally.domain[node]] = size.get(tally.domain[node], 0) + 1
        sizes.append(size)
    barred = max(
        (
            1 + sum(s[t.domain[node]] - 1 for t, s in zip(anti, sizes, strict=True) if t.domain[node] >= 0)
            for node in room
        ),
        default=1,
    )
    least = min(most, -(-len(room) // barred))
    return Reach(least, most, exact=least == most)
