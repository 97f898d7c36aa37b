"""Phase 6 of a plan: all placements as one batch, over the members and hub objects of phase 5.

A batch goes in rounds: every queued placement runs its chain of scheduling cycles on the same member
figures, the pods that come are predicted, members whose figures changed queue placements by the
watcher's table, until no binding changes. Then bindings are rolled out and everything is concluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from nexusform.address import Address, ConfigAddress
from nexusform.configuration.model import ResourceBlock
from nexusform.diagnostics import Diagnostic, Problem, has_errors
from nexusform.importers.fleet_model import FleetMember, FleetPlacement
from nexusform.plain_data import Path
from nexusform.planning.fleet.hub import Hub, read_hub
from nexusform.planning.fleet.outcome import FleetOutcome, conclude_placement
from nexusform.planning.fleet.placement import PlacementPlan, begin
from nexusform.planning.fleet.resources import note_resources, prepare_resources
from nexusform.planning.fleet.rollout import evict_once, roll_out_all
from nexusform.planning.fleet.rounds import place_pods, run_rounds
from nexusform.planning.fleet.rows import binding_rows, removed_rows
from nexusform.planning.fleet.rules import changed_problems
from nexusform.planning.fleet.warnings import placement_warnings
from nexusform.planning.fleet.world import (
    UNSEEN,
    FleetMemberState,
    Pods,
    member_of,
    remember,
    remembered,
)
from nexusform.planning.instances.arguments import undecided, undecided_error
from nexusform.planning.instances.blocks import Blocks, show
from nexusform.planning.instances.difference import planned_attributes
from nexusform.planning.instances.instance import Instance
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.plan import PlacementChange
from nexusform.planning.preparation.order import PLACEMENT_PHASE, Order
from nexusform.planning.vms.nodes import NodeCluster
from nexusform.ports import Kind
from nexusform.scheduling.decision import Refusal


class FleetPhase(Struct):
    """The fleet of one plan. `clusters` are those that members may stand for, by id."""

    blocks: Blocks
    clusters: Mapping[str, NodeCluster]
    pods: Pods
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def run(self, blocks: Sequence[ResourceBlock], order: Order, evaluation: Evaluation) -> FleetOutcome:
        """Plan all placements; `blocks` are theirs, in planning order."""
        members = self._members()
        hub = read_hub(self.blocks.instances.values())
        self.diagnostics += hub.diagnostics
        instances = [i for block in blocks for i in self._evaluated(block, order, evaluation)]
        placements = [p for i in instances if (p := self._begun(i, evaluation)) is not None]
        self._prepare(placements, hub, members)
        rounds = run_rounds(placements, members, self.pods)
        for problem in roll_out_all(placements, hub, rounds.roster):
            self.diagnostics.append(problem)
        place_pods(placements, members, self.pods, rounds.placed)  # what a staged run brought
        planned = {p.instance.address: p for p in placements}
        for instance in instances:
            plan = planned.get(instance.address)
            if plan is not None:
                note_resources(plan, self.blocks.request.state.serial + 1)
                self.blocks.conclude(instance, conclude_placement(plan), evaluation)
            elif instance.configured:
                self.blocks.conclude(instance, {}, evaluation)
            self.blocks.keep(instance, evaluation)
        self._remember(members)
        self.diagnostics += placement_warnings(placements, members, rounds)
        wanted = self.blocks.request.want_rejected
        rows = [*self._rows(placements, members, rounds.refusals(placements) if wanted else {})]
        return FleetOutcome(
            tuple(rows), {p.instance.address: p for p in placements}, rounds.roster, tuple(self.diagnostics)
        )

    def _rows(
        self,
        placements: Sequence[PlacementPlan],
        members: Mapping[str, FleetMemberState],
        refusals: Mapping[Address, tuple[Refusal, ...]],
    ) -> Iterable[PlacementChange]:
        known = {p.instance.address: p for p in placements}
        for address, instance in self.blocks.instances.items():
            if instance.type.kind is not Kind.PLACEMENT:
                continue
            if instance.going or instance.replaced:
                yield from removed_rows(instance)
            plan = known.get(address)
            if plan is not None:
                yield from binding_rows(plan, members, refusals.get(address, ()))

    # --- members ---

    def _members(self) -> dict[str, FleetMemberState]:
        """The members of the plan by name: those that stay or come, and those that go."""
        found: dict[str, FleetMemberState] = {}
        for address, instance in self.blocks.instances.items():
            if instance.type.kind is not Kind.MEMBER or instance.type.fleet is None:
                continue
            self._leaving(instance, found)
            if instance.going or instance.broken or instance.planned is None:
                continue
            written = instance.type.fleet(instance.planned)
            if not isinstance(written, FleetMember):
                continue
            cluster = self.clusters.get(written.cluster_id) if written.cluster_id else None
            if written.cluster_id and cluster is None:
                self.diagnostics.append(
                    unknown_cluster(instance, "kubernetes_cluster_id", written.cluster_id, self.clusters)
                )
                instance.broken = True
            requests = self.pods.requests(cluster.id) if cluster is not None else (0, 0)
            now = member_of(written, cluster, requests)
            before = None
            if instance.prior is not None and not instance.replaced:
                noted = instance.prior.private
                before = remembered(written.name, noted) if noted else now
                before = None if noted == UNSEEN else before
            found[written.name] = FleetMemberState(address, written, cluster, before, now)
        return found

    def _remember(self, members: Mapping[str, FleetMemberState]) -> None:
        """Note the members as all placements have seen them. Where a placement was left out of the plan, what
        it has not seen stays to be seen.
        """
        instances = self.blocks.instances
        placements = [i for i in instances.values() if i.type.kind is Kind.PLACEMENT]
        left_out = any(i.block is None and not i.going for i in placements)
        for member in members.values():
            instance = instances.get(member.address)
            if member.now is None or instance is None:
                continue
            if not left_out:
                instance.private = remember(member.now)
            elif member.before is None:
                instance.private = UNSEEN

    def _leaving(self, instance: Instance, found: dict[str, FleetMemberState]) -> None:
        """The member that an instance was, when it goes or becomes another."""
        if instance.before is None or not (instance.going or instance.replaced):
            return
        name = str(instance.before.get("name"))
        noted = instance.prior.private if instance.prior is not None else None
        before = remembered(name, noted or {})
        found.setdefault(name, FleetMemberState(instance.address, None, None, before, None))

    # --- placements ---

    def _evaluated(self, block: ResourceBlock, order: Order, evaluation: Evaluation) -> list[Instance]:
        """The instances of a block with their arguments; their computed values are not known yet."""
        expanded = self.blocks.expanded(block, evaluation)
        assert expanded is not None
        self.blocks.diagnostics += expanded.diagnostics
        others = [need for need in order.direct_needs(block.address) if order.phases[need] == PLACEMENT_PHASE]
        for instance in expanded.instances:
            if not instance.configured:
                continue
            self.diagnostics += self.blocks.evaluate(instance, evaluation)
            for path in undecided(instance):
                instance.broken = True
                problem = _circle(instance, path, others[0]) if others else undecided_error(instance, path)
                self.diagnostics.append(problem)
            assert instance.config is not None
            known = {} if instance.broken else {"id": instance.type.identify(instance.config)}
            instance.planned = planned_attributes(instance.type.schema, instance.config, None, known)
            show(instance, evaluation)
        return expanded.instances

    def _begun(self, instance: Instance, evaluation: Evaluation) -> PlacementPlan | None:
        if not instance.configured or instance.broken or instance.config is None:
            return None
        assert instance.type.fleet is not None
        written = instance.type.fleet(instance.config)
        if not isinstance(written, FleetPlacement):
            return None
        self.blocks.preview(instance, evaluation)
        plan = begin(instance, written)
        problems = changed_problems(plan)
        self.diagnostics += problems
        if has_errors(problems):
            instance.broken = True
            return None
        return plan

    def _prepare(
        self, placements: Sequence[PlacementPlan], hub: Hub, members: Mapping[str, FleetMemberState]
    ) -> None:
        by_key = {p.written.key: p for p in placements}
        self.diagnostics += evict_once(by_key, hub)
        labels = {name: m.now.labels for name, m in members.items() if m.now is not None}
        for placement in placements:
            prepare_resources(placement, hub, labels)


def unknown_cluster(
    instance: Instance, argument: str, given: str, known: Mapping[str, NodeCluster]
) -> Diagnostic:
    """The error about a cluster id that nothing stands for."""
    listed = f" Known clusters: {', '.join(sorted(known)[:8])}." if known else ""
    return instance.problem(
        Problem(
            (argument,),
            "unknown-cluster",
            f'No nexus_kubernetes_cluster or tacker_vnf has the id "{given}".{listed} Write a reference such '
            "as nexus_kubernetes_cluster.a.id, so that the cluster is planned first.",
        )
    )


def _circle(instance: Instance, path: Path, other: ConfigAddress) -> Diagnostic:
    return instance.error(
        "placement-depends-on-another-placement",
        f"All placements are decided together, so an argument of {instance.address} cannot depend on what "
        f"is decided for {other}. Write the value out, or derive both from the same variable.",
        path,
    )
