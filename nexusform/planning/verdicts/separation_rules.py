"""Separation rules: groups must not share hardware, in the plan and in every sample.

The groups have clusters, pools and workloads. A rule moves no VM. It is evaluated on the placements
after the plan; VMs placed by it are looked up in each sample.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity, has_errors, suggest_name
from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    enclose,
    format_count,
    format_first_items,
    select_word_form,
)
from nexusform.doubts.ledger import DoubtLedger, PlacedPool, explain_uncertain_vm
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import Path, get_list, get_mapping
from nexusform.placements.vm_demands import NO_DEMAND, PoolDemand
from nexusform.planning.instances.instance import Instance
from nexusform.planning.phases import ScheduledPod
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.planning.vm_planning.vm_object import VmKey, VmObject
from nexusform.plans.plan import SeparationVerdict, SeparationViolation
from nexusform.resources.address import Address
from nexusform.scheduling.racks.uncertainty.certainty import SamplingResult
from nexusform.scheduling.racks.uncertainty.operations import Token
from nexusform.scheduling.racks.vms import CONTROL_PLANE, Placement

SEPARATION_VIOLATED: Final = "separation"
_SEPARATION_UNKNOWN: Final = "separation-unknown"
_PACKING_REASON: Final = "extra-large VMs are packed onto machines that run one of another cluster"
_EMPTY_LEDGER: Final = DoubtLedger()
_NAMED_LOCATIONS: Final = 5
_NAMED_MEMBERS: Final = 4
_LISTED_LOCATIONS: Final = 100

# Where something is, as far as the rule's scope looks: site, rack ("" = any), machine ("" = any).
Location = tuple[str, str, str]
Outcome = Mapping[str, Mapping[Token, Placement | None]]


class GroupMember(Struct, frozen=True):
    """VM of a group, or a pod and its VM.

    `rank` is the order of placement by this plan, -1 for earlier VMs. `handle` identifies a VM
    placed by this plan, and is None for others. `label` is its name in messages. `is_decided` means
    that nexusform decides its machine.
    """

    label: str
    vm: tuple[Address, VmKey]
    site_id: str
    placement: Placement
    handle: int | None
    rank: int
    trigger: str
    pool: PoolDemand
    cluster: str
    is_decided: bool = False


class _RuleMembers(Struct):
    """Members of each group of a rule, and its errors.

    `unlocated_pods` are selected pods without a known machine, and `uncertain_pods` those that may
    get another node, both with the index of their group.
    """

    groups: list[tuple[GroupMember, ...]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unlocated_pods: list[tuple[int, ScheduledPod]] = field(default_factory=list)
    uncertain_pods: list[tuple[int, ScheduledPod]] = field(default_factory=list)


class UnsatisfiedRule(Struct, frozen=True):
    """Rule with possible violations: input of the search for zone sets.

    `groups` are its members.
    """

    instance: Instance
    verdict: SeparationVerdict
    groups: tuple[tuple[GroupMember, ...], ...]


class SeparationVerdicts(Struct):
    """Verdicts on all rules."""

    verdicts: list[SeparationVerdict] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    open_rules: list[UnsatisfiedRule] = field(default_factory=list)


def evaluate_rules(
    instances: Iterable[Instance],
    objects: Mapping[Address, VmObject],
    sites: Mapping[str, SitePlan],
    certainty: Mapping[str, SamplingResult],
    list_pods: Callable[[], Iterable[ScheduledPod]] = tuple,
    ledger: DoubtLedger = _EMPTY_LEDGER,
) -> SeparationVerdicts:
    """Evaluate every separation rule of a plan, in planning order.

    `list_pods()` is called if a rule selects pods. A rule with members on uncertain machines
    (`ledger`) is unknown unless it is violated.
    """
    verdicts = SeparationVerdicts()
    rules = [
        instance
        for instance in instances
        if instance.type.kind is PlanningKind.SEPARATION_RULE
        and not (instance.is_removed or instance.is_invalid)
    ]
    member_index = _MemberIndex(objects, sites, list_pods)
    # The placements in each sample.
    outcomes = list(_iterate_sample_outcomes(certainty))
    for instance in rules:
        members = _collect_rule_members(instance, member_index)
        problems = instance.build_diagnostics(members.problems)
        verdicts.diagnostics += problems
        # The groups are incomplete or overlap.
        if has_errors(problems):
            continue
        scope = str(get_mapping(instance.argument_values)["scope"])
        unchecked = (
            *_list_uncertain_members(members, ledger),
            *_list_effects_of_choices(members, member_index, scope),
        )
        verdict = _build_rule_verdict(instance, members, member_index, outcomes, unchecked)
        verdicts.verdicts.append(verdict)
        # In the plan or in some sample.
        if verdict.violations:
            severity = Severity.ERROR if verdict.enforcement == "deny" else Severity.WARNING
            diagnostic = instance.build_diagnostic(
                Problem(
                    (), SEPARATION_VIOLATED, format_verdict(verdict), severity, is_multiline=True
                )
            )
            verdicts.diagnostics.append(diagnostic)
            verdicts.open_rules.append(UnsatisfiedRule(instance, verdict, tuple(members.groups)))
        elif verdict.unchecked:
            text = f"It is unknown whether {verdict.address} holds: {'; '.join(verdict.unchecked)}."
            warning = Problem((), _SEPARATION_UNKNOWN, text, Severity.WARNING)
            verdicts.diagnostics.append(instance.build_diagnostic(warning))
    return verdicts


def _iterate_sample_outcomes(certainty: Mapping[str, SamplingResult]) -> Iterator[Outcome]:
    """Yield the placements of each sample, by site; every site has the same number of samples."""
    sample_count = max(
        (len(site_certainty.outcomes) for site_certainty in certainty.values()), default=0
    )
    for sample in range(sample_count):
        yield {site: site_certainty.outcomes[sample] for site, site_certainty in certainty.items()}


class _MemberIndex:
    """Index of all VMs and pods after the plan, by the ids used in groups."""

    def __init__(
        self,
        objects: Mapping[Address, VmObject],
        sites: Mapping[str, SitePlan],
        list_pods: Callable[[], Iterable[ScheduledPod]],
    ) -> None:
        """Index the VMs by cluster and pool, and their ranks.

        The ranks are the order in which the plan places them.
        """
        # By cluster id.
        self.clusters: dict[str, list[VmObject]] = {}
        # By pool id: the pool with its object.
        self.pools: dict[str, tuple[VmObject, PoolDemand]] = {}
        self._list_pods = list_pods
        self._objects = objects
        # Sites on which the platform chooses the VMs that a scale-in removes.
        self.sites_with_choice = frozenset(
            vm_object.prior.site_id
            for vm_object in objects.values()
            if vm_object.list_chosen_removals()
        )
        # By site id and handle of a placed VM: number of its operation.
        self._ranks: dict[str, dict[Token, int]] = {}
        for site in sites.values():
            # The token is the handle; releases without one share the key None.
            operations = enumerate(site.operations)
            self._ranks[site.id] = {
                getattr(operation, "token", None): index for index, operation in operations
            }
        for vm_object in objects.values():
            demand = vm_object.request.demand
            if demand is NO_DEMAND:
                continue
            # The id of the cluster that owns the VMs, also for a separate pool.
            instance = vm_object.instance
            cluster_id = demand.parent_id or instance.type.build_id(
                get_mapping(instance.argument_values)
            )
            self.clusters.setdefault(cluster_id, []).append(vm_object)
            for pool in demand.pools:
                self.pools[f"{cluster_id}/{pool.pool}"] = (vm_object, pool)

    @cached_property
    def _pods(self) -> tuple[ScheduledPod, ...]:
        """All pods after the plan."""
        return tuple(self._list_pods())

    def iterate_cluster(self, cluster_id: str) -> Iterator[GroupMember]:
        """Yield the VMs of a cluster, including its separate pools."""
        for vm_object in self.clusters.get(cluster_id, ()):
            for pool in vm_object.pools:
                yield from self.iterate_pool(vm_object, pool)

    def iterate_pool(self, vm_object: VmObject, pool: PoolDemand) -> Iterator[GroupMember]:
        """Yield the placed VMs of one pool as members of a group, with the reason of a placement.

        trigger.
        """
        demand = vm_object.request.demand
        ranks = self._ranks.get(demand.site_id, {})
        for key in pool.keys:
            vm = vm_object.placements.vms.get(key)
            # The VM has no machine.
            if vm is None:
                continue
            member = GroupMember(
                label=vm.name,
                vm=(vm_object.instance.address, key),
                site_id=demand.site_id,
                placement=vm.placement,
                # As for a VM not placed by this plan.
                handle=None,
                rank=-1,
                trigger="",
                pool=pool,
                cluster=demand.owner,
                is_decided=demand.provenance == "decided",
            )
            handle = vm_object.placements.new_handles.get(key)
            # This plan places the VM.
            if handle is not None:
                member = replace(
                    member,
                    handle=handle,
                    rank=ranks.get(handle, -1),
                    trigger=vm_object.get_trigger(key),
                )
            yield member

    def iterate_possibly_kept(self, member: GroupMember) -> Iterator[Placement]:
        """Yield the places of removed VMs of a member's pool that may stay instead of others."""
        address, (pool, _) = member.vm
        vm_object = self._objects[address]
        for key in vm_object.list_chosen_removals():
            if key[0] == pool and key in vm_object.prior.existing:
                yield vm_object.get_prior_placement(key)

    def select_pods(
        self, selector: Mapping[str, Any]
    ) -> Iterator[tuple[ScheduledPod, GroupMember | None]]:
        """Yield the pods matched by a workload_selector, each located on its node.

        The member is None if the machine of the pod is unknown.
        """
        labels = get_mapping(selector, "match_labels").items()
        namespaces = set(get_list(selector, "namespaces"))
        # By cluster id and VM name, the name of its node.
        cluster_vms: dict[str, dict[str, GroupMember]] = {}
        for pod in self._pods:
            in_namespace = not namespaces or pod.namespace in namespaces
            if not in_namespace or not labels <= pod.labels.items():
                continue
            if pod.cluster_id not in cluster_vms:
                cluster_vms[pod.cluster_id] = {
                    member.label: member for member in self.iterate_cluster(pod.cluster_id)
                }
            node_vm = cluster_vms[pod.cluster_id].get(pod.node)
            # Its node has a machine.
            if node_vm is not None:
                label = f"{pod.namespace}/{pod.name} on {node_vm.label}"
                # Why either is placed.
                node_vm = replace(node_vm, label=label, trigger=node_vm.trigger or pod.trigger)
            yield pod, node_vm


def _collect_rule_members(instance: Instance, member_index: _MemberIndex) -> _RuleMembers:
    """Return the members of each group of a rule, and errors.

    There is one error per group with a member of another group.
    """
    members = _RuleMembers()
    # A rule outside of -target keeps the arguments applied before.
    for index, values in enumerate(get_list(instance.argument_values, "group")):
        group = tuple(_iterate_group_members(values, member_index, ("group", index), members))
        members.groups.append(group)
    # Index of the group, by VM and label (VM, or pod on it).
    owners: dict[tuple[Address, VmKey, str], int] = {}
    for index, group in enumerate(members.groups):
        for member in group:
            # The member is in an earlier group, too.
            if owners.get((*member.vm, member.label), index) != index:
                members.problems.append(
                    Problem(
                        ("group", index),
                        "overlapping-separation-groups",
                        (
                            f"{member.label} belongs to two groups of this rule. List it in one "
                            "group only."
                        ),
                    )
                )
                break
        owners |= {(*member.vm, member.label): index for member in group}
    return members


def _iterate_group_members(
    values: Mapping[str, Any],
    member_index: _MemberIndex,
    path: tuple[str, int],
    members: _RuleMembers,
) -> Iterator[GroupMember]:
    """Yield the members of a group.

    They are the VMs of its clusters, further VMs of its pools, and the pods of its selector. Errors
    for unknown ids, and unlocated and uncertain pods, are added to `members`.
    """
    listed_vms: set[tuple[Address, VmKey]] = set()
    for cluster_id in get_list(values, "cluster_ids"):
        if cluster_id not in member_index.clusters:
            known_ids = sorted(member_index.clusters)
            members.problems.append(
                _build_unknown_id_problem(
                    "unknown-cluster", (*path, "cluster_ids"), "cluster", cluster_id, known_ids
                )
            )
        for member in member_index.iterate_cluster(cluster_id):
            listed_vms.add(member.vm)
            yield member
    for pool_id in get_list(values, "pool_ids"):
        # (VM object, pool).
        entry = member_index.pools.get(pool_id)
        if entry is None:
            members.problems.append(
                _build_unknown_id_problem(
                    "unknown-pool", (*path, "pool_ids"), "pool", pool_id, sorted(member_index.pools)
                )
            )
            # The rule is not evaluated then.
            continue
        yield from (
            member for member in member_index.iterate_pool(*entry) if member.vm not in listed_vms
        )
    selector = values.get("workload_selector")
    if not isinstance(selector, Mapping):
        return
    _, index = path
    for pod, located_pod in member_index.select_pods(selector):
        if located_pod is None:
            members.unlocated_pods.append((index, pod))
            continue
        if not pod.is_certain:
            members.uncertain_pods.append((index, pod))
        yield located_pod


def _list_unchecked_members(
    members: _RuleMembers, member_index: _MemberIndex, scope: str
) -> Iterator[str]:
    """Yield the reasons why a rule without violations may not hold.

    Empty groups, pods without a known machine, and uncertain pods that may run next
    to another group.
    """
    groups_with_unlocated_pods = {index for index, _ in members.unlocated_pods}
    for index, group in enumerate(members.groups):
        if not group and index not in groups_with_unlocated_pods:
            yield f"group {index + 1} selects no VM and no running pod"
    if members.unlocated_pods:
        names = [
            f"{pod.namespace}/{pod.name} on {pod.cluster_id}" for _, pod in members.unlocated_pods
        ]
        yield f"no machine is known for {format_first_items(names, _NAMED_MEMBERS)}"
    count = _count_pods_near_other_groups(members, member_index, scope)
    if count:
        yield f"{format_count(count, 'uncertain pod')} may run on a {scope} of another group"


def _count_pods_near_other_groups(
    members: _RuleMembers, member_index: _MemberIndex, scope: str
) -> int:
    """Count the uncertain pods that may run in a location of another group.

    They may run on each worker of their cluster; the control plane has a taint. A location of a
    group has a member, or may get one of its uncertain pods.
    """
    locations = [
        {_get_location_at_scope(item, item.placement, scope) for item in group}
        for group in members.groups
    ]
    # By cluster id.
    worker_locations: dict[str, set[Location]] = {}
    for index, pod in members.uncertain_pods:
        if pod.cluster_id not in worker_locations:
            vms = member_index.iterate_cluster(pod.cluster_id)
            workers = [vm for vm in vms if vm.pool.pool != CONTROL_PLANE]
            worker_locations[pod.cluster_id] = {
                _get_location_at_scope(vm, vm.placement, scope) for vm in workers
            }
        locations[index] |= worker_locations[pod.cluster_id]
    group_counts = Counter(chain.from_iterable(locations))  # by location
    shared_locations = {location for location, count in group_counts.items() if count > 1}
    return sum(
        not shared_locations.isdisjoint(worker_locations[pod.cluster_id])
        for _, pod in members.uncertain_pods
    )


def _list_uncertain_members(members: _RuleMembers, ledger: DoubtLedger) -> Iterator[str]:
    """Yield a clause for each reason why machines of members are uncertain."""
    counts: Counter[str] = Counter()
    for member in chain.from_iterable(members.groups):
        address, _ = member.vm
        if member.handle is None:
            # Name in nks:SITE/CLUSTER.
            cluster = member.cluster.rpartition("/")[2]
            owners = {"VM": member.label, "cluster": cluster, "agent pool": member.pool.pool}
            reason = explain_uncertain_vm(ledger.unread, member.site_id, owners)
        else:
            pool = PlacedPool(
                member.site_id, str(address), member.pool.pool, is_decided=member.is_decided
            )
            reason = ledger.explain_uncertain_hosts(pool)
        if reason:
            counts[reason] += 1
    for reason, count in counts.items():
        yield f"{reason}, so the machines of {format_count(count, 'member')} are uncertain"


def _list_effects_of_choices(
    members: _RuleMembers, member_index: _MemberIndex, scope: str
) -> Iterator[str]:
    """Yield the reasons why the rule depends on the VMs that the platform chooses to remove."""
    if not member_index.sites_with_choice:
        return
    locations: Counter[Location] = Counter()
    new_count = 0
    for group in members.groups:
        # One member per pool stands for the removed VMs of the pool.
        pools = {(member.vm[0], member.vm[1][0]): member for member in group}
        locations.update(
            {
                *(_get_location_at_scope(member, member.placement, scope) for member in group),
                *(
                    _get_location_at_scope(member, placement, scope)
                    for member in pools.values()
                    for placement in member_index.iterate_possibly_kept(member)
                ),
            }
        )
        new_count += sum(
            member.handle is not None and member.site_id in member_index.sites_with_choice
            for member in group
        )
    if any(count > 1 for count in locations.values()):
        yield f"Azure chooses which VMs of smaller pools stay, and one of them may share a {scope}"
    if new_count:
        yield (
            f"the machines of {format_count(new_count, 'new member')} depend on the VMs that Azure "
            "removes"
        )


def _build_unknown_id_problem(
    kind: str, path: Path, noun: str, name: str, known: Sequence[str]
) -> Problem:
    """Build the error for an unknown id (`name`) with a suggestion and at most ten known ids."""
    known_text = enclose(" Known: ", ", ".join(known[:10]), ".")
    return Problem(
        path, kind, f'No {noun} has the id "{name}".{suggest_name(name, known)}{known_text}'
    )


def _build_rule_verdict(
    instance: Instance,
    members: _RuleMembers,
    member_index: _MemberIndex,
    outcomes: Sequence[Outcome],
    uncertain_members: Sequence[str],
) -> SeparationVerdict:
    """Return the verdict on a rule over the plan and all samples (`outcomes`).

    Satisfied "always", "sometimes", "never" or "unknown". The violations are those of the plan,
    else those of the first violated sample. `uncertain_members` are clauses about machines that
    unread facts may change.
    """
    arguments = get_mapping(instance.argument_values)
    scope = str(arguments["scope"])
    groups = members.groups
    unchecked = (*_list_unchecked_members(members, member_index, scope), *uncertain_members)
    violations_in_plan = _find_violations(groups, scope, outcome=None, seed=None)
    violated_samples = [
        seed
        for seed, outcome in enumerate(outcomes)
        if _has_shared_location(groups, scope, outcome)
    ]
    satisfied_count = len(outcomes) - len(violated_samples)
    violations = violations_in_plan
    if violated_samples and not violations_in_plan:
        violations = _find_violations(
            groups, scope, outcomes[violated_samples[0]], violated_samples[0]
        )
    satisfied = "unknown" if unchecked else "always"
    if violations:
        satisfied = "sometimes"
    # It is violated in the plan and in each sample, if there are any.
    if violations_in_plan and not satisfied_count:
        satisfied = "never"
    return SeparationVerdict(
        address=instance.address,
        scope=scope,
        enforcement=str(arguments["enforcement"]),
        satisfied=satisfied,
        violations=violations,
        sample_count=len(outcomes),
        satisfied_count=satisfied_count,
        unchecked=unchecked,
    )


def _find_member_placement(member: GroupMember, outcome: Outcome | None) -> Placement | None:
    """Return the placement of a member in a sample, None if it does not fit there.

    The `outcome` None means the plan. A VM not placed by this plan (without a handle) has its
    present placement in every sample.
    """
    if outcome is None or member.handle is None:
        return member.placement
    return outcome.get(member.site_id, {}).get(member.handle, member.placement)


def _get_location_at_scope(member: GroupMember, placement: Placement, scope: str) -> Location:
    """Return the location of a member as far as the rule compares it.

    It is (site, rack, machine), with "" for each part below the scope.
    """
    if scope == "site":
        return member.site_id, "", ""
    return member.site_id, placement.rack, placement.machine if scope == "machine" else ""


def _has_shared_location(
    groups: Sequence[Sequence[GroupMember]], scope: str, outcome: Outcome
) -> bool:
    """Return whether two groups share a location in one sample."""
    used_locations: set[Location] = set()
    for group in groups:
        locations = set()
        for member in group:
            placement = _find_member_placement(member, outcome)
            if placement is not None:
                locations.add(_get_location_at_scope(member, placement, scope))
        if not used_locations.isdisjoint(locations):
            return True
        used_locations |= locations
    return False


def _find_violations(
    groups: Sequence[Sequence[GroupMember]], scope: str, outcome: Outcome | None, seed: int | None
) -> tuple[SeparationViolation, ...]:
    """Return a violation for each location with members of several groups.

    Locations have the scope of the rule, such as a rack. Members are at their planned placements,
    or at those of one sample: its `outcome` and `seed`, else None.
    """
    # With the index of their group.
    members_at: dict[Location, list[tuple[int, GroupMember]]] = {}
    for index, group in enumerate(groups):
        for member in group:
            placement = _find_member_placement(member, outcome)
            if placement is not None:
                members_at.setdefault(_get_location_at_scope(member, placement, scope), []).append(
                    (index, member)
                )
    shared = []
    for location, members in members_at.items():
        group_indexes = {index for index, _ in members}
        if len(group_indexes) > 1:
            shared.append(location)
    # Names are in natural order: rack2 comes before rack10.
    shared.sort(key=lambda location: list(map(compute_natural_sort_key, location)))
    return tuple(_build_violation(location, members_at[location], seed) for location in shared)


def _build_violation(
    location: Location, members: Sequence[tuple[int, GroupMember]], seed: int | None
) -> SeparationViolation:
    """Build the violation at a location shared by groups.

    `members` are its VMs and pods, each with the index of its group. The violating member is the
    first of a second group, in order of placement.
    """
    # Members in order of placement.
    placed = sorted(members, key=lambda numbered_member: numbered_member[1].rank)
    first_group, _ = placed[0]
    violating_member = next(member for group, member in placed if group != first_group)
    members_there = [member for _, member in placed]
    # "": no special reason.
    reason = _PACKING_REASON if _is_packed(violating_member, members_there, location) else ""
    labels = tuple(member.label for member in members_there)
    return SeparationViolation(
        *location, labels, violating_member.label, violating_member.trigger, reason, seed
    )


def _is_packed(
    violating_member: GroupMember, ordered_members: Sequence[GroupMember], location: Location
) -> bool:
    """Return whether the member is an extra-large VM packed onto a machine of another cluster.

    Only packing by this plan counts. The placement rule packs extra-large VMs, whatever their
    cluster. A pinned VM has the machine chosen by the user.
    """
    _, _, machine = location
    pool = violating_member.pool
    is_placed_by_plan = violating_member.handle is not None
    # Without a machine: a rule about racks or sites.
    if not machine or not is_placed_by_plan or pool.pinned_machine:
        return False
    # With an extra-large VM there so far.
    clusters_with_large_vms = {
        member.cluster
        for member in ordered_members
        if member.pool.sku.extra_large and member.rank <= violating_member.rank
    }
    # Its own, and another one.
    return pool.sku.extra_large and len(clusters_with_large_vms) > 1


def format_verdict(verdict: SeparationVerdict) -> str:
    """Format a violated rule: each shared location with its members.

    The member that joins those of another group is marked.
    """
    count = len(verdict.violations)
    noun = select_word_form(count, verdict.scope)
    seed = verdict.violations[0].sample
    sample = " in the plan" if seed is None else f" in sample {seed} (none in the plan itself)"
    frequency = (
        f"holds only sometimes: in {verdict.satisfied_count:,} of {verdict.sample_count:,} samples"
    )
    if verdict.satisfied == "never":
        frequency = "does not hold"
        if verdict.sample_count:
            frequency += f", neither in the plan nor in any of {verdict.sample_count:,} samples"
    lines = [f"{verdict.address} {frequency}. Its groups share {count} {noun}{sample}:"]
    lines += [
        f" - {format_violation(violation)}" for violation in verdict.violations[:_NAMED_LOCATIONS]
    ]
    if count > _NAMED_LOCATIONS:
        remaining = [
            _get_shared_location(violation) for violation in verdict.violations[_NAMED_LOCATIONS:]
        ]
        lines.append(f" - likewise {format_first_items(remaining, _LISTED_LOCATIONS)}")
    return "\n".join(lines)


def format_violation(violation: SeparationViolation) -> str:
    """Format `rack1-bm01 (rack1): a-np1-0, b-np1-3; joined by b-np1-3 (new: ...)`."""
    member_text = format_first_items(violation.members, _NAMED_MEMBERS)
    location = _get_shared_location(violation)
    rack_text = f" ({violation.rack})" if violation.machine else ""
    trigger = violation.trigger or "already runs there"
    reason = enclose(": ", violation.reason)
    return (
        f"{location}{rack_text}: {member_text}; joined by {violation.violating_member} "
        f"({trigger}{reason})"
    )


def _get_shared_location(violation: SeparationViolation) -> str:
    """Return the machine, rack or site shared by the groups.

    Below the scope of the rule, fields are empty.
    """
    return violation.machine or violation.rack or violation.site_id
