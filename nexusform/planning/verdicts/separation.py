"""Separation rules: do groups of clusters, pools and workloads share hardware? In the plan, and in every
repeated tie-break.

A rule moves nobody. It is judged on where everything stands after the plan; VMs that this plan
places are looked up again in each repetition, all others stand where they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import PlacedVm, PoolDemand, VmDemand
from nexusform.diagnostics import Diagnostic, Problem, Severity, did_you_mean, has_errors
from nexusform.plain_data import Path
from nexusform.planning.instances.instance import Instance
from nexusform.planning.phases import HostedWorkload
from nexusform.planning.verdicts.fit import SiteCertainty
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_object import VmKey, VmObject
from nexusform.plans.plan import SeparationVerdict, SeparationViolation
from nexusform.ports import Kind
from nexusform.scheduling.racks.uncertainty.certainty import Token
from nexusform.scheduling.racks.vms import Placement
from nexusform.words import form

BROKEN: Final = "separation"
_PACKED: Final = "extra-large VMs are packed onto machines that house one of another cluster"
_NAMED_PLACES: Final = 5
_NAMED_MEMBERS: Final = 4
_LISTED_PLACES: Final = 100

# Where something is, as far as the rule's scope looks: site, rack ("" = any), machine ("" = any).
Location = tuple[str, str, str]
Outcome = Mapping[str, Mapping[Token, Placement | None]]


class GroupMember(Struct, frozen=True):
    """A VM of a group, or a pod and the VM below it. `rank` orders by arrival; VMs that stood before
    the plan have rank -1. `token` is the VM's handle when this plan placed it.
    """

    label: str
    vm: tuple[Address, VmKey]
    site_id: str
    place: Placement
    token: int | None
    rank: int
    trigger: str
    pool: PoolDemand
    cluster: str


class OpenRule(Struct, frozen=True):
    """A rule that may not hold: what the search for zone sets starts from. `groups` are its members."""

    instance: Instance
    verdict: SeparationVerdict
    groups: tuple[tuple[GroupMember, ...], ...]


class Verdicts(Struct):
    """What came of all rules."""

    verdicts: list[SeparationVerdict] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    open_rules: list[OpenRule] = field(default_factory=list)


def has_rules(instances: Iterable[Instance]) -> bool:
    """Whether there is anything to judge: only then the outcomes of repeated tie-breaks are kept."""
    return any(instance.type.kind is Kind.SEPARATION_RULE for instance in instances)


def judge(
    instances: Iterable[Instance],
    objects: Mapping[Address, VmObject],
    sites: Mapping[str, SitePlan],
    certainty: Mapping[str, SiteCertainty],
    pods: Sequence[HostedWorkload] = (),
) -> Verdicts:
    """Judge every separation rule of a plan, in planning order."""
    verdicts = Verdicts()
    rules = [
        instance
        for instance in instances
        if instance.type.kind is Kind.SEPARATION_RULE and not (instance.going or instance.broken)
    ]
    if not rules:
        return verdicts
    roll = _Roll(objects, sites, pods)
    outcomes = list(_outcomes(certainty))
    for instance in rules:
        groups, problems = _groups(instance, roll)
        verdicts.diagnostics += problems
        if has_errors(problems):
            continue
        verdict = _verdict(instance, groups, outcomes)
        verdicts.verdicts.append(verdict)
        if verdict.holds != "always":
            verdicts.diagnostics.append(_refusal(instance, verdict))
            verdicts.open_rules.append(OpenRule(instance, verdict, groups))
    return verdicts


def _outcomes(certainty: Mapping[str, SiteCertainty]) -> Iterator[Outcome]:
    runs = max((len(sure.outcomes) for sure in certainty.values()), default=0)
    for run in range(runs):
        yield {site: sure.outcomes[run] for site, sure in certainty.items() if sure.outcomes}


class _Roll:
    """All VMs and pods after the plan, by the ids that groups name."""

    def __init__(
        self,
        objects: Mapping[Address, VmObject],
        sites: Mapping[str, SitePlan],
        pods: Sequence[HostedWorkload],
    ) -> None:
        self.clusters: dict[str, list[VmObject]] = {}
        self.pools: dict[str, tuple[VmObject, PoolDemand]] = {}
        self.pods = pods
        self._ranks: dict[str, dict[Token, int]] = {}
        for site in sites.values():
            steps = (getattr(operation, "token", None) for operation in site.operations)
            self._ranks[site.id] = {token: at for at, token in enumerate(steps) if token is not None}
        for vms in objects.values():
            demand = vms.asked.demand
            if vms.going or demand is None:
                continue
            cluster_id = _cluster_id(vms, demand)
            self.clusters.setdefault(cluster_id, []).append(vms)
            for pool in demand.pools:
                self.pools[f"{cluster_id}/{pool.pool}"] = (vms, pool)

    def cluster(self, cluster_id: str) -> Iterator[GroupMember]:
        """The VMs of a cluster, its separate pools included."""
        for vms in self.clusters.get(cluster_id, ()):
            for pool in vms.pools:
                yield from self.pool(vms, pool)

    def pool(self, vms: VmObject, pool: PoolDemand) -> Iterator[GroupMember]:
        """The VMs of one pool that have a place."""
        for number in pool.numbers:
            vm = vms.housing.placed.get((pool.pool, number))
            if vm is not None:
                yield self._member(vms, pool, vm)

    def _member(self, vms: VmObject, pool: PoolDemand, vm: PlacedVm) -> GroupMember:
        """A VM as rules see it; its rank is its turn among those that this plan places, -1 for one that
        stays.
        """
        assert vms.asked.demand is not None
        key = (vm.pool, vm.number)
        token = vms.housing.tokens.get(key)
        rank = self._ranks.get(vms.asked.demand.site_id, {}).get(token, -1) if token is not None else -1
        return GroupMember(
            label=vm.name,
            vm=(vms.instance.address, key),
            site_id=vms.asked.demand.site_id,
            place=vm.placement,
            token=token,
            rank=rank,
            trigger=vms.trigger_of(key) if token is not None else "",
            pool=pool,
            cluster=vms.asked.demand.owner,
        )

    def selected(self, selector: Mapping[str, Any]) -> Iterator[GroupMember]:
        """The pods that a workload_selector chooses, each standing where its node stands."""
        labels = (selector.get("match_labels") or {}).items()
        namespaces = set(selector.get("namespaces") or ())
        nodes: dict[str, dict[str, GroupMember]] = {}
        for pod in self.pods:
            in_namespace = not namespaces or pod.namespace in namespaces
            if not in_namespace or not labels <= pod.labels.items():
                continue
            if pod.cluster_id not in nodes:
                nodes[pod.cluster_id] = {member.label: member for member in self.cluster(pod.cluster_id)}
            vm = nodes[pod.cluster_id].get(pod.node)
            if vm is not None:
                label = f"{pod.namespace}/{pod.name} on {vm.label}"
                yield replace(vm, label=label, trigger=vm.trigger or pod.trigger)


def _cluster_id(vms: VmObject, demand: VmDemand) -> str:
    """Whose VMs groups take them for: a separate pool's are its cluster's."""
    if demand.parent_id:
        return demand.parent_id
    values = vms.instance.config or vms.instance.planned
    if values is not None:
        return vms.instance.type.identify(values)
    return f"{demand.site_id}/{demand.cluster}"


# --- groups ------------------------------------------------------------------------------------


def _asked(instance: Instance) -> Mapping[str, Any]:
    """What a rule asks for: one that a selection leaves out holds as it was applied."""
    values = instance.config if instance.config is not None else instance.planned
    assert values is not None
    return values


def _groups(instance: Instance, roll: _Roll) -> tuple[tuple[tuple[GroupMember, ...], ...], list[Diagnostic]]:
    """The members of each group of a rule; it is an error when one is in two groups."""
    problems: list[Problem] = []
    groups = []
    for index, values in enumerate(_asked(instance).get("group") or ()):
        groups.append(tuple(_members(values, roll, ("group", index), problems)))
    owners: dict[tuple[Address, VmKey, str], int] = {}
    for index, group in enumerate(groups):
        for member in group:
            if owners.get((*member.vm, member.label), index) != index:
                problems.append(_overlap(index, member))
                break
        owners |= {(*member.vm, member.label): index for member in group}
    return tuple(groups), [instance.problem(problem) for problem in problems]


def _overlap(group: int, member: GroupMember) -> Problem:
    return Problem(
        ("group", group),
        "overlapping-separation-groups",
        f"{member.label} belongs to two groups of this rule, so it could never be apart from itself. "
        "Name it in one group only.",
    )


def _members(
    values: Mapping[str, Any], roll: _Roll, path: Path, problems: list[Problem]
) -> Iterator[GroupMember]:
    """What a group names: clusters, pools, and pods that a selector chooses."""
    seen: set[tuple[Address, VmKey]] = set()
    for cluster_id in values.get("cluster_ids") or ():
        if cluster_id not in roll.clusters:
            known = sorted(roll.clusters)
            problems.append(_unknown("unknown-cluster", (*path, "cluster_ids"), "cluster", cluster_id, known))
        for member in roll.cluster(cluster_id):
            seen.add(member.vm)
            yield member
    for pool_id in values.get("pool_ids") or ():
        entry = roll.pools.get(pool_id)
        if entry is None:
            problems.append(
                _unknown("unknown-pool", (*path, "pool_ids"), "pool", pool_id, sorted(roll.pools))
            )
            continue
        yield from (member for member in roll.pool(*entry) if member.vm not in seen)
    selector = values.get("workload_selector")
    if isinstance(selector, Mapping):
        yield from roll.selected(selector)


def _unknown(kind: str, path: Path, what: str, name: str, known: Sequence[str]) -> Problem:
    listed = f" Known: {', '.join(known[:10])}." if known else ""
    return Problem(path, kind, f'No {what} has the id "{name}".{did_you_mean(name, known)}{listed}')


# --- verdict -----------------------------------------------------------------------------------


def _verdict(
    instance: Instance, groups: Sequence[Sequence[GroupMember]], outcomes: Sequence[Outcome]
) -> SeparationVerdict:
    """Whether a rule holds as planned and in all repeated runs (`outcomes`), in some, or in none."""
    asked = _asked(instance)
    scope = str(asked["scope"])
    planned = _violations(groups, scope, None, None)
    broken_runs = [seed for seed, outcome in enumerate(outcomes) if _shares(groups, scope, outcome)]
    held = len(outcomes) - len(broken_runs)
    violations = planned
    if broken_runs and not planned:
        violations = _violations(groups, scope, outcomes[broken_runs[0]], broken_runs[0])
    broken = "sometimes" if held or not planned else "never"
    return SeparationVerdict(
        address=instance.address,
        scope=scope,
        enforcement=str(asked["enforcement"]),
        holds=broken if violations else "always",
        violations=violations,
        runs=len(outcomes),
        held=held,
    )


def _place(member: GroupMember, outcome: Outcome | None) -> Placement | None:
    if outcome is None or member.token is None:
        return member.place
    return outcome.get(member.site_id, {}).get(member.token, member.place)


def _location(member: GroupMember, place: Placement, scope: str) -> Location:
    if scope == "site":
        return member.site_id, "", ""
    return member.site_id, place.rack, place.machine if scope == "machine" else ""


def _shares(groups: Sequence[Sequence[GroupMember]], scope: str, outcome: Outcome) -> bool:
    """Whether two groups share a place in one repeated run."""
    taken: set[Location] = set()
    for group in groups:
        locations = set()
        for member in group:
            place = _place(member, outcome)
            if place is not None:
                locations.add(_location(member, place, scope))
        if not taken.isdisjoint(locations):
            return True
        taken |= locations
    return False


def _violations(
    groups: Sequence[Sequence[GroupMember]], scope: str, outcome: Outcome | None, seed: int | None
) -> tuple[SeparationViolation, ...]:
    """The places that groups share: as planned, or (`seed`, `outcome`) in one repeated run."""
    members_at: dict[Location, list[tuple[int, GroupMember]]] = {}
    for index, group in enumerate(groups):
        for member in group:
            place = _place(member, outcome)
            if place is not None:
                members_at.setdefault(_location(member, place, scope), []).append((index, member))
    shared = [location for location, members in members_at.items() if _groups_of(members) > 1]
    shared.sort(key=_natural)
    return tuple(_violation(location, members_at[location], seed) for location in shared)


def _groups_of(members: Sequence[tuple[int, GroupMember]]) -> int:
    return len({group for group, _ in members})


def _violation(
    location: Location, members: Sequence[tuple[int, GroupMember]], seed: int | None
) -> SeparationViolation:
    """Who shares a location, and who came last: the first member of another group than the first comer's."""
    arrived = sorted(members, key=lambda item: item[1].rank)
    first_group, _ = arrived[0]
    joiner = next(member for group, member in arrived if group != first_group)
    labels = tuple(member.label for _, member in arrived)
    note = _PACKED if _was_packed(joiner, [member for _, member in arrived], location) else ""
    return SeparationViolation(*location, labels, joiner.label, joiner.trigger, note, seed)


def _was_packed(joiner: GroupMember, arrived: Sequence[GroupMember], location: Location) -> bool:
    """Whether the rule that packs extra-large VMs of different clusters may have brought this one there."""
    _, _, machine = location
    was_placed = joiner.token is not None and not joiner.pool.pinned
    if not (joiner.pool.sku.extra_large and machine and was_placed):
        return False
    before = [member for member in arrived if member.rank <= joiner.rank]
    return any(member.pool.sku.extra_large and member.cluster != joiner.cluster for member in before)


def _natural(location: Location) -> tuple[tuple[tuple[int, str], ...], ...]:
    """Digits count as numbers: rack2 before rack10."""
    return tuple(_parts(name) for name in location)


def _parts(name: str) -> tuple[tuple[int, str], ...]:
    """A name as numbers and signs, so that rack10 comes after rack9."""
    parts: list[tuple[int, str]] = []
    digits = ""
    for sign in [*name, ""]:
        if sign.isdecimal() and sign.isascii():
            digits += sign
            continue
        if digits:
            parts.append((int(digits), ""))
            digits = ""
        if sign:
            parts.append((-1, sign))
    return tuple(parts)


# --- words -------------------------------------------------------------------------------------


def _refusal(instance: Instance, verdict: SeparationVerdict) -> Diagnostic:
    severity = Severity.ERROR if verdict.enforcement == "deny" else Severity.WARNING
    return instance.problem(Problem((), BROKEN, refusal_text(verdict), severity))


def refusal_text(verdict: SeparationVerdict) -> str:
    """Which hardware is shared, by whom, and which step brought them together."""
    what = form(len(verdict.violations), verdict.scope)
    count = len(verdict.violations)
    lines = [f"{verdict.address} {_how_often(verdict)}. Its groups share {count} {what}{_where(verdict)}:"]
    lines += [f" - {violation_text(violation)}" for violation in verdict.violations[:_NAMED_PLACES]]
    if count > _NAMED_PLACES:
        rest = [_where_shared(violation) for violation in verdict.violations[_NAMED_PLACES:]]
        more = f" and {len(rest) - _LISTED_PLACES} more" if len(rest) > _LISTED_PLACES else ""
        lines.append(f" - likewise {', '.join(rest[:_LISTED_PLACES])}{more}")
    return "\n".join(lines)


def _how_often(verdict: SeparationVerdict) -> str:
    if verdict.holds == "never":
        in_runs = f", neither in the plan nor in any of {verdict.runs:,} tie-breaks" if verdict.runs else ""
        return f"does not hold{in_runs}"
    return f"holds only sometimes: in {verdict.held:,} of {verdict.runs:,} tie-breaks"


def _where(verdict: SeparationVerdict) -> str:
    seed = verdict.violations[0].tie_break if verdict.violations else None
    return " in the plan" if seed is None else f" with tie-break seed {seed} (none in the plan itself)"


def violation_text(violation: SeparationViolation) -> str:
    """`rack1-bm01 (rack1): a-np1-0, b-np1-3; joined by b-np1-3 (new: ...)`."""
    names = violation.members[:_NAMED_MEMBERS]
    more = len(violation.members) - len(names)
    who = ", ".join(names) + (f" and {more} more" if more else "")
    place = _where_shared(violation)
    inside = f" ({violation.rack})" if violation.machine else ""
    how = violation.trigger or "stands there already"
    why = f": {violation.reason}" if violation.reason else ""
    return f"{place}{inside}: {who}; joined by {violation.joined_by} ({how}{why})"


def _where_shared(violation: SeparationViolation) -> str:
    return violation.machine or violation.rack or violation.site_id
