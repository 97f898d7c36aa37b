"""A second implementation of the scheduler, one cluster and one rule at a time.

It is deliberately slow and simple, without caches and sets. It is written from the
published behaviour, not from nexusform's code: it shares only the messages of bindings.py
and the quantity parser.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    Health,
    Member,
    Policy,
    PolicySnapshot,
)
from nexusform.kubernetes.matching import LabelSelector
from nexusform.kubernetes.quantity import InvalidQuantity, Quantity, parse_quantity

S = BindingState.SCHEDULED
U = BindingState.UNSCHEDULED
Row = tuple[str, bool, str]
Pick = tuple[str, int, int]


class Stopped(Exception):
    """Stop of a cycle at an unreadable value."""


class Answer(Struct):
    bindings: list[Binding]
    decisions: list[tuple[str, bool, str]] | None = None
    condition: tuple[str, str] | None = None
    requeue: bool = False
    stopped: bool = False


class Model(Struct):
    members: list[Member]
    policy: Policy
    snapshot: PolicySnapshot
    namespace: str = ""
    bound: list[Binding] = field(default_factory=list)
    scheduled: list[Binding] = field(default_factory=list)
    obsolete: list[Binding] = field(default_factory=list)
    unscheduled: list[Binding] = field(default_factory=list)

    def cycle(self, prior: list[Binding]) -> Answer:
        self.members = sorted(self.members, key=lambda m: m.name)
        by_name = {m.name: m for m in self.members}
        self.bound = []
        self.scheduled = []
        self.obsolete = []
        self.unscheduled = []
        dangling = []
        for b in sorted(prior, key=lambda b: b.cluster):
            if b.is_deleting:
                continue
            if b.state is U:
                self.unscheduled.append(b)
            elif b.cluster not in by_name or by_name[b.cluster].health is Health.LEAVING:
                dangling.append(b)
            elif b.policy_snapshot != self.snapshot.index:
                self.obsolete.append(b)
            elif b.state is S:
                self.scheduled.append(b)
            else:
                self.bound.append(b)
        gone = [unscheduled(b) for b in dangling]
        run = {"PickAll": self.pick_all, "PickFixed": self.pick_fixed, "PickN": self.pick_n}
        try:
            answer = run[self.policy.placement_type.value]()
        except Stopped:
            kept = self.bound + self.scheduled + self.obsolete + self.unscheduled
            answer = Answer(kept, stopped=True)
        answer.bindings = sorted(answer.bindings + gone, key=lambda b: b.cluster)
        return answer

    # Rules

    def affinity(self, member: Member) -> str | None:
        terms = self.policy.required_terms
        if not terms:
            return None
        for term in terms:
            if not select(term.label_selector, member.labels):
                continue
            for requirement in term.property_selector or ():
                value = self.value(member, requirement.name)
                if value is None:
                    break
                asked = parse_quantity(requirement.values[0])
                assert not isinstance(asked, InvalidQuantity)
                a = value.nano
                b = asked.nano
                comparisons = {
                    "Gt": a > b,
                    "Ge": a >= b,
                    "Lt": a < b,
                    "Le": a <= b,
                    "Eq": a == b,
                    "Ne": a != b,
                }
                if not comparisons[requirement.operator]:
                    break
            else:
                return None
        return "cluster does not match with any of the required cluster affinity terms"

    @staticmethod
    def value(member: Member, name: str) -> Quantity | None:
        prefix = "resources.kubernetes-fleet.io/"
        if name.startswith(prefix):
            kind, resource = name[len(prefix) :].split("-")
            return getattr(member.resources, kind).get(resource)
        if name not in member.properties:
            return None
        quantity = parse_quantity(member.properties[name])
        if isinstance(quantity, InvalidQuantity):
            raise Stopped
        return quantity

    @staticmethod
    def eligibility(member: Member) -> str | None:
        start = "cluster is not connected to the fleet: "
        return {
            Health.LEAVING: "cluster has left the fleet",
            Health.NO_AGENT: start + "member agent not online yet",
            Health.NO_HEARTBEAT: start
            + "no recent heartbeat signals (last received more than 5 minutes ago)",
            Health.NOT_JOINED: start + "member agent not joined yet",
            Health.NO_HEALTH: start + "health condition from member agent is not available",
            Health.UNHEALTHY: start
            + (
                "unhealthy for a prolonged period of time (last transitioned more than 5 minutes "
                "ago)"
            ),
        }.get(member.health)

    def namespaces(self, member: Member) -> str | None:
        if not self.namespace or member.namespaces is None:
            return None
        if len(member.namespaces) == 0:
            return "cluster has no namespace information available"
        return (
            None
            if self.namespace in member.namespaces
            else "target namespace does not exist on cluster"
        )

    def taints(self, member: Member) -> str | None:
        for taint in member.taints:
            for t in self.policy.tolerations:
                if t.effect not in ("", taint.effect):
                    continue
                if t.operator == "Exists" and t.key in ("", taint.key):
                    break
                if t.operator == "Equal" and t.key == taint.key and t.value == taint.value:
                    break
            else:
                shown = f"Key:{taint.key} Value:{taint.value} Effect:{taint.effect}"
                return f"taint &{{{shown}}} cannot be tolerated"
        return None

    def held(self) -> set[str]:
        return {b.cluster for b in self.bound + self.scheduled}

    def spread(self) -> tuple[dict[str, str], dict[str, int]]:
        hard = [
            c for c in self.policy.spread_constraints if c.when_unsatisfiable != "ScheduleAnyway"
        ]
        soft = [
            c for c in self.policy.spread_constraints if c.when_unsatisfiable == "ScheduleAnyway"
        ]
        violations: dict[str, str] = {}
        scores = {m.name: 0 for m in self.members}
        for constraint in hard + soft:
            key = constraint.topology_key
            counts: dict[str, int] = {}
            for m in self.members:
                if key in m.labels:
                    counts[m.labels[key]] = counts.get(m.labels[key], 0) + (m.name in self.held())
            ordered = sorted(counts.values())
            for m in self.members:
                if m.name in violations or key not in m.labels:
                    continue
                skew, change = self.skew(counts[m.labels[key]], ordered)
                if skew + change <= constraint.max_skew:
                    scores[m.name] -= change
                elif constraint in hard:
                    said = f'violated doNotSchedule topology spread constraint "{key}"'
                    violations[m.name] = f"{said} (max skew {constraint.max_skew})"
                else:
                    scores[m.name] -= 1000
        return violations, scores

    @staticmethod
    def skew(x: int, ordered: list[int]) -> tuple[int, int]:
        s1 = ordered[0]
        s2 = ordered[min(1, len(ordered) - 1)]
        largest = ordered[-1]
        if largest == s1:
            return largest - s1, 1
        if x == s1 and s1 != s2:
            return largest - s1, -1
        return largest - s1, 1 if x == largest else 0

    def preference(self, member: Member) -> int:
        total = 0
        for term in self.policy.preferred_terms:
            if term.weight == 0 or not select(term.preference.label_selector, member.labels):
                continue
            sorter = term.preference.property_sorter
            if sorter is None:
                total += term.weight
                continue
            mine = self.value(member, sorter.name)
            if mine is None:
                continue
            low = high = None
            for m in self.members:
                q = self.value(m, sorter.name)
                if q is None:
                    continue
                low = q if low is None or q.nano < low.nano else low
                high = q if high is None or q.nano > high.nano else high
            f = mine.convert_to_float()
            a = low.convert_to_float()
            z = high.convert_to_float()
            if f < a or f > z:
                raise Stopped
            if a == z:
                continue
            if sorter.sort_order == "Descending":
                share = ((f - a) / (z - a)) * float(term.weight)
            else:
                share = (1 - (f - a) / (z - a)) * float(term.weight)
            total += int(Decimal(share).quantize(Decimal(1), rounding=ROUND_HALF_UP))
        return total

    def filters(self) -> tuple[list[Member], list[tuple[str, str]]]:
        violations, _ = self.spread()
        passed = []
        filtered = []
        for m in self.members:
            why = self.affinity(m) or self.eligibility(m) or self.namespaces(m) or self.taints(m)
            if why is None:
                if m.name in self.held():
                    continue
                why = violations.get(m.name)
            if why is None:
                passed.append(m)
            else:
                filtered.append((m.name, why))
        return passed, filtered

    # Placement types

    def pick_all(self) -> Answer:
        passed, filtered = self.filters()
        created, patched, dropped = self.cross([(m.name, 0, 0) for m in passed], passed)
        chosen = created + patched + self.scheduled + self.bound
        return Answer(
            chosen + dropped,
            self.report(chosen, [], filtered),
            self.condition(len(chosen), len(chosen)),
        )

    def pick_fixed(self) -> Answer:
        everything = self.bound + self.scheduled + self.obsolete + self.unscheduled
        if not self.policy.cluster_names:
            return Answer(everything)
        by_name = {m.name: m for m in self.members}
        valid = []
        rows = []
        bad = []
        for name in self.policy.cluster_names:
            if name not in by_name:
                bad.append((2, name, f'Specified cluster "{name}" is not found'))
            elif self.eligibility(by_name[name]):
                why = self.eligibility(by_name[name])
                bad.append(
                    (1, name, f'Cluster "{name}" is not eligible for resource placement yet: {why}')
                )
            else:
                valid.append(name)
                said = f'Successfully scheduled resources for placement in "{name}"'
                rows.append((name, True, f"{said}: picked by scheduling policy"))
        bad.sort(key=lambda row: row[0])
        rows += [(name, False, text) for _, name, text in bad]
        result = []
        for b in everything:
            if b in self.obsolete:
                result.append(
                    Binding(
                        b.cluster,
                        b.state,
                        self.snapshot.index,
                        resource_snapshot=b.resource_snapshot,
                    )
                    if b.cluster in valid
                    else unscheduled(b)
                )
            elif b in self.unscheduled and b.cluster in valid:
                if b.previous_state is None:
                    raise Stopped
                result.append(
                    Binding(
                        b.cluster,
                        b.previous_state,
                        self.snapshot.index,
                        resource_snapshot=b.resource_snapshot,
                    )
                )
            else:
                result.append(b)
        have = {b.cluster for b in everything}
        result += [Binding(name, S, self.snapshot.index) for name in valid if name not in have]
        count = len(valid)
        return Answer(result, rows, self.condition(count, count + len(bad)))

    def pick_n(self) -> Answer:
        present = len(self.scheduled) + len(self.bound)
        n = self.snapshot.number_of_clusters
        if n is None:
            n = len({m.name for m in self.members if self.eligibility(m) is None} | self.held())
        if n <= present and present - n + len(self.obsolete) > 0:
            return self.downscale(n, present - n)
        if n <= present:
            chosen = self.bound + self.scheduled
            rest = self.obsolete + self.unscheduled
            return Answer(
                chosen + rest, self.report(chosen, [], []), self.condition(len(chosen), n)
            )
        desired = n - present
        limit = 1 if self.policy.spread_constraints else desired
        passed, filtered = self.filters()
        for term in self.policy.preferred_terms:
            if term.preference.property_sorter:
                for m in self.members:
                    self.value(m, term.preference.property_sorter.name)
        _, spread = self.spread()
        old = {b.cluster for b in self.obsolete}
        scored = [(spread[m.name], self.preference(m), int(m.name in old), m.name) for m in passed]
        scored.sort()
        scored.reverse()
        picks = scored[: min(desired, limit)]
        named = [(name, affinity, topology) for topology, affinity, _, name in picks]
        picked = [m for m in passed if m.name in {p[3] for p in picks}]
        created, patched, dropped = self.cross(named, picked)
        chosen = created + patched + self.scheduled + self.bound
        if desired > limit and len(created) + len(patched) == limit:
            return Answer(chosen + dropped, requeue=True)
        losers = [
            (name, affinity, topology) for topology, affinity, _, name in scored[len(picks) :]
        ]
        return Answer(
            chosen + dropped, self.report(chosen, losers, filtered), self.condition(len(chosen), n)
        )

    def downscale(self, n: int, count: int) -> Answer:
        def compute_removal_order(b: Binding) -> tuple[int, int, int, str]:
            if b.affinity_score is None:
                return (0, 0, 0, b.cluster)
            return (1, b.topology_spread_score, b.affinity_score, b.cluster)

        scheduled = list(self.scheduled)
        bound = list(self.bound)
        if 0 < count < len(scheduled):
            scheduled.sort(key=compute_removal_order)
        if len(scheduled) < count < len(scheduled) + len(bound):
            bound.sort(key=compute_removal_order)
        queue = scheduled + bound
        out = queue[:count]
        chosen = queue[count:]
        rest = [unscheduled(b) for b in out + self.obsolete]
        return Answer(
            chosen + rest + self.unscheduled,
            self.report(chosen, [], []),
            self.condition(len(chosen), n),
        )

    # Bindings and messages

    def cross(
        self, picks: list[Pick], members: list[Member]
    ) -> tuple[list[Binding], list[Binding], list[Binding]]:
        names = {m.name for m in members}
        score = {name: (affinity, spread) for name, affinity, spread in picks}
        created = []
        patched = []
        rest = []
        for b in self.obsolete:
            if b.cluster in names:
                patched.append(self.new(b.cluster, b.state, score, b))
            else:
                rest.append(unscheduled(b))
        for b in self.unscheduled:
            if b.cluster not in names:
                rest.append(b)
                continue
            if b.previous_state is None:
                raise Stopped
            patched.append(self.new(b.cluster, b.previous_state, score, b))
        have = {b.cluster for b in self.obsolete + self.unscheduled}
        created = [self.new(name, S, score, None) for name, _, _ in picks if name not in have]
        return created, patched, rest

    def new(
        self, name: str, state: BindingState, score: dict[str, tuple[int, int]], old: Binding | None
    ) -> Binding:
        affinity, spread = score[name]
        resources = old.resource_snapshot if old else None
        return Binding(name, state, self.snapshot.index, affinity, spread, None, resources)

    @staticmethod
    def condition(count: int, number: int) -> tuple[str, str]:
        if count >= number:
            text = (
                f"found all cluster needed as specified by the scheduling policy, found {count} "
                "cluster(s)"
            )
            return ("True", text)
        text = "could not find all clusters needed as specified by the scheduling policy,"
        return ("False", f"{text} found {count} cluster(s) instead")

    @staticmethod
    def report(
        chosen: list[Binding], losers: list[Pick], filtered: list[tuple[str, str]]
    ) -> list[Row]:
        rows: list[Row] = []
        for b in chosen:
            text = f'Successfully scheduled resources for placement in "{b.cluster}"'
            if b.affinity_score is not None:
                text += (
                    f" (affinity score: {b.affinity_score}, topology spread score: "
                    f"{b.topology_spread_score})"
                )
            rows.append((b.cluster, True, text + ": picked by scheduling policy"))
        seen = {b.cluster for b in chosen}
        room = 20
        for name, affinity, spread in losers:
            if room == 0:
                break
            scores = f"(affinity score: {affinity}, topology spread score: {spread})"
            rows.append((name, False, f'Cluster "{name}" does not score high enough {scores}'))
            room -= 1
        rows += [
            (name, False, f"ClusterUnschedulable, {why}")
            for name, why in filtered[:room]
            if name not in seen
        ]
        return rows


def select(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return True
    for key, value in selector.match_labels:
        if labels.get(key) != value:
            return False
    for r in selector.match_expressions:
        have = r.key in labels
        inside = have and labels[r.key] in r.values
        if not {"In": inside, "NotIn": not inside, "Exists": have, "DoesNotExist": not have}[
            r.operator
        ]:
            return False
    return True


def unscheduled(binding: Binding) -> Binding:
    return replace(binding, state=U, previous_state=binding.state)
