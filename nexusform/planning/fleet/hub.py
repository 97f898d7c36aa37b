"""What stands on the hub in a plan: objects, what acts on placements, and the member clusters, as state
remembers them and as they stand now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, Problem
from nexusform.importers.fleet_model import (
    FleetBudget,
    FleetEviction,
    FleetMember,
    FleetOverride,
    FleetRun,
    FleetStrategy,
    HubObjects,
)
from nexusform.importers.kubernetes_manifests import Manifest, unwrapped
from nexusform.planning.fleet.world import (
    UNSEEN,
    FleetMemberState,
    Pods,
    member_of,
    remember,
    remembered,
)
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import Action
from nexusform.planning.vms.nodes import NodeCluster
from nexusform.ports import Kind
from nexusform.scheduling.fleet.model import Member
from nexusform.scheduling.fleet.staged import transition_problem

_DOING = (Action.CREATE, Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_ONCE = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


class Hub(Struct):
    """`manifests` in the order of their resources and documents. `evictions` and `runs` are those that
    this plan carries out, with the instance they come from.
    """

    manifests: list[Manifest] = field(default_factory=list)
    overrides: list[FleetOverride] = field(default_factory=list)
    budgets: dict[str, tuple[Instance, FleetBudget]] = field(default_factory=dict)
    evictions: list[tuple[Instance, FleetEviction]] = field(default_factory=list)
    strategies: dict[str, FleetStrategy] = field(default_factory=dict)
    runs: list[tuple[Instance, FleetRun]] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def take(self, instance: Instance) -> None:
        """Add what an instance is."""
        assert instance.type.fleet is not None
        assert instance.planned is not None
        thing = instance.type.fleet(instance.planned)
        match thing:
            case HubObjects():
                self._take_objects(instance, thing)
            case FleetOverride():
                self.overrides.append(thing)
            case FleetBudget():
                self.budgets[thing.placement] = (instance, thing)
            case FleetEviction() if instance.action in _ONCE:
                self.evictions.append((instance, thing))
            case FleetStrategy():
                self.strategies[thing.name] = thing
            case FleetRun():
                self._take_run(instance, thing)
            case _:
                return

    def _take_objects(self, instance: Instance, objects: HubObjects) -> None:
        if not objects.cluster_id:
            self.manifests += objects.manifests
        for finding in unwrapped(objects.manifests).findings:
            line = f":{finding.line}" if finding.line else ""
            detail = f"yaml_body{line}: {finding.detail}"
            problem = Problem(("yaml_body",), finding.id, detail, finding.severity)
            self.diagnostics.append(instance.problem(problem))

    def _take_run(self, instance: Instance, run: FleetRun) -> None:
        if instance.before is not None and not instance.replaced and instance.type.fleet is not None:
            old = instance.type.fleet(instance.before)
            wrong = transition_problem(old.state, run.state) if isinstance(old, FleetRun) else None
            if wrong is not None:
                text = f"{wrong[:1].upper()}{wrong[1:]}. Make another run, or replace it with -replace."
                self.diagnostics.append(instance.error("invalid-state-of-a-staged-run", text, ("state",)))
                return
        if instance.action in _DOING:
            self.runs.append((instance, run))


def read_hub(instances: Iterable[Instance]) -> Hub:
    """The hub of a plan."""
    hub = Hub()
    for instance in instances:
        if instance.type.fleet is None or instance.going or instance.broken or instance.planned is None:
            continue
        hub.take(instance)
    return hub


# --- member clusters ---------------------------------------------------------------------------


def read_members(
    instances: Iterable[Instance], clusters: Mapping[str, NodeCluster], pods: Pods
) -> tuple[dict[str, FleetMemberState], list[Diagnostic]]:
    """The members of the plan by name: those that stay or come, and those that go. `clusters` are those
    that members may stand for, by id.
    """
    members: dict[str, FleetMemberState] = {}
    problems: list[Diagnostic] = []
    for instance in instances:
        if instance.type.kind is not Kind.MEMBER or instance.type.fleet is None:
            continue
        leaving = _leaving(instance)
        if leaving is not None and leaving.before is not None:
            members.setdefault(leaving.before.name, leaving)
        if instance.going or instance.broken or instance.planned is None:
            continue
        written = instance.type.fleet(instance.planned)
        if not isinstance(written, FleetMember):
            continue
        cluster = clusters.get(written.cluster_id) if written.cluster_id else None
        if written.cluster_id and cluster is None:
            problems.append(_unknown_cluster(instance, written.cluster_id, clusters))
            instance.broken = True
        requests = pods.requests(cluster.id) if cluster is not None else (0, 0)
        now = member_of(written, cluster, requests)
        before = _before(instance, now)
        members[written.name] = FleetMemberState(instance.address, written, cluster, before, now)
    return members, problems


def _leaving(instance: Instance) -> FleetMemberState | None:
    """The member that an instance was, when it goes or becomes another."""
    if instance.before is None or not (instance.going or instance.replaced):
        return None
    note = instance.prior.private if instance.prior is not None else None
    before = remembered(str(instance.before.get("name")), note or {})
    return FleetMemberState(instance.address, None, None, before, None)


def _before(instance: Instance, now: Member) -> Member | None:
    """The member as placements saw it last, None when none has seen it. One that state holds without a note
    is taken as it is: nothing tells what changed.
    """
    if instance.prior is None or instance.replaced or instance.prior.private == UNSEEN:
        return None
    note = instance.prior.private
    return remembered(now.name, note) if note else now


def note_members(members: Iterable[FleetMemberState], instances: Mapping[Address, Instance]) -> None:
    """Let state note the members as all placements have seen them. Where a placement was left out of the
    plan, what it has not seen stays to be seen.
    """
    placements = [instance for instance in instances.values() if instance.type.kind is Kind.PLACEMENT]
    left_out = any(instance.block is None and not instance.going for instance in placements)
    for member in members:
        instance = instances.get(member.address)
        if member.now is None or instance is None:
            continue
        if not left_out:
            instance.private = remember(member.now)
        elif member.before is None:
            instance.private = UNSEEN


def _unknown_cluster(instance: Instance, cluster_id: str, known: Mapping[str, NodeCluster]) -> Diagnostic:
    listed = f" Known clusters: {', '.join(sorted(known)[:8])}." if known else ""
    return instance.problem(
        Problem(
            ("kubernetes_cluster_id",),
            "unknown-cluster",
            f'No nexus_kubernetes_cluster or tacker_vnf has the id "{cluster_id}".{listed} Write a reference '
            "such as nexus_kubernetes_cluster.a.id, so that the cluster is planned first.",
        )
    )
