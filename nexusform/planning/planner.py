"""make_plan: configuration + variables + what stands -> a Plan. Start reading here.

The journey of one VM: its block takes its turn (order), its arguments get values (evaluation,
blocks), its resource type says what it wants (ports.VmFamily.demand), triggers say why it comes,
goes or stays, the site's scheduler gives it a machine (vm_walk, vm_phase, sites), the difference to what
stands becomes a Change (changes), and steps say in which order apply follows (steps).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from nexusform.address import Address, ConfigAddress, address_order, parse_address
from nexusform.diagnostics import Diagnostic, Severity, error, has_errors, warning
from nexusform.graph import ordered
from nexusform.planning.conclusion.changes import find_drift, missing_targets
from nexusform.planning.conclusion.conclusion import Results, Work, conclude, finished
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.fleet.outcome import FleetOutcome, destroyed
from nexusform.planning.fleet.phase import FleetPhase
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.instance import UNDECIDED, Instance
from nexusform.planning.modules.conditions import check_modules, check_variables
from nexusform.planning.modules.inventories import inventories_read
from nexusform.planning.modules.outputs import plan_outputs
from nexusform.planning.modules.validation import validate
from nexusform.planning.names.bodies import PreparedBodies
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.setting import setting_for
from nexusform.planning.plan import Action, CheckResult, Mode, Plan
from nexusform.planning.pods.blocks import MANIFEST_TYPE, manifest_batches, plan_manifests, pods_over
from nexusform.planning.pods.phase import PodPhase
from nexusform.planning.preparation.importing import drop_unselected, with_imports
from nexusform.planning.preparation.moves import apply_moves, forgotten, refreshed_after
from nexusform.planning.preparation.order import Order, modules, planning_order
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.preparation.selection import Selection, select, unmatched
from nexusform.planning.replanning.remedies import with_ways_out
from nexusform.planning.replanning.zone_sets import with_zone_sets
from nexusform.planning.request import PlanRequest
from nexusform.planning.vms.destroying import destroy
from nexusform.planning.vms.hint_targets import HintTargets
from nexusform.planning.vms.sites import SitePlan, build_sites
from nexusform.planning.vms.surroundings import PlanSurroundings, surroundings_before, vm_skus
from nexusform.planning.vms.vm_phase import VmObject, VmPhase, Wishes
from nexusform.planning.vms.vm_walk import VmWalk
from nexusform.ports import Kind
from nexusform.scheduling.world import Inventory, MachineClash

VM_PHASE = 4
FLEET_PHASE = 5
PLACEMENT_PHASE = 6

# What follows from another mistake when one was found before: a site that is in error cannot be
# found by its racks. Said only when nothing else is wrong.
CONSEQUENCES = frozenset(
    {
        "unknown-site",
        "unknown-rack",
        "unknown-cluster",
        "unknown-availability-zone",
        UNDECIDED,
    }
)


def make_plan(request: PlanRequest) -> PlanResult:
    """Plan. Never raises for what the user wrote: errors are in the plan's diagnostics, and a plan
    with errors is `errored`.
    """
    result = _Planner(request).run()
    if request.ways_out and result.unplaced:
        return with_ways_out(request, result, make_plan)
    if request.ways_out and result.separations:
        return with_zone_sets(request, result, make_plan)
    return result


class _Planner:
    def __init__(self, given: PlanRequest) -> None:
        moved, self.diagnostics = apply_moves(given.configuration, given.state)
        found = refreshed_after(given.refreshed, moved.previous)
        if given.mode is not Mode.NORMAL:
            given = replace(given, imports={})
        self.given = given
        state = with_imports(moved.state, given.imports)
        self.request = request = replace(given, state=state, refreshed=found)
        self.previous = moved.previous
        self.inventory = Inventory()
        self.prior = Prior.of(request)
        self.sites: dict[str, SitePlan] = {}
        self.walked: list[Diagnostic] = []
        self.objects: dict[Address, VmObject] = {}
        self.before = PlanSurroundings({})
        self.fleet = FleetOutcome()
        self.pods: PodPhase | None = None
        self.explained_for: frozenset[tuple[str, str]] | None = (
            None if request.want_rejected else frozenset(request.explain)
        )

    def run(self) -> PlanResult:
        request = self.request
        if request.mode is Mode.REFRESH_ONLY:
            return self._finished(Plan(mode=request.mode, drift=find_drift(self.given)))
        order, problems = planning_order(request.configuration, request.registries.resource_types)
        self.diagnostics += validate(request.configuration, request.registries, request)
        if problems:
            return self._finished(Plan(mode=request.mode))
        flawed = has_errors(self.diagnostics)
        selection, problems = select(request.targets, request.excludes, request.replaces, order)
        self.diagnostics += problems
        if has_errors(problems):
            return self._finished(Plan(mode=request.mode))
        drop_unselected(self.prior, request.imports, selection)
        order = self._reordered(order)
        bodies = PreparedBodies(request.registries.schemas)
        setting = setting_for(request, bodies)
        evaluation = Evaluation(setting)
        blocks = Blocks(request, selection, self.prior, bodies, self.inventory)
        blocks.needs = order.needs
        blocks.create_first = _create_first(order)
        if request.mode is Mode.DESTROY:
            self.objects, self.before = destroy(blocks, order, selection, self.inventory)
            self.fleet = destroyed(blocks.instances.values())
            self.pods = pods_over(blocks, self.prior, self.objects.values())
        else:
            evaluation = self._walk(blocks, order, evaluation)
        self.diagnostics += missing_targets(blocks.instances, selection, request.imports)
        standing = {a: [vm.name for vm in o.standing.values()] for a, o in self.objects.items()}
        self.diagnostics += unmatched(selection, blocks.instances, standing)
        checks = self._conditions(evaluation, selection)
        outputs, planned_outputs, problems = plan_outputs(request, evaluation, selection)
        found = [*self.walked, *blocks.diagnostics, *bodies.diagnostics, *evaluation.diagnostics, *problems]
        found = _without_followers(found, order.needs)
        self.diagnostics += _causes(found, flawed=flawed)
        work = Work(
            given=self.given,
            request=self.request,
            diagnostics=self.diagnostics,
            previous=self.previous,
            prior=self.prior,
            sites=self.sites,
            objects=self.objects,
            before=self.before,
            fleet=self.fleet,
            pods=self.pods,
        )
        results = Results(outputs, planned_outputs, checks, inventories_read(evaluation))
        return conclude(work, blocks, order, results)

    # --- the walk ---

    def _walk(self, blocks: Blocks, order: Order, evaluation: Evaluation) -> Evaluation:
        types = self.request.registries.resource_types
        orphans = self._orphans(blocks, order)
        for block in order.blocks:
            if types[block.type].phase < VM_PHASE:
                blocks.plan_ordinary(block, evaluation)
        for instance in orphans:
            if instance.type.vms is None:
                blocks.keep(instance, evaluation)
        self.sites, clashes = build_sites(self.inventory)
        self.diagnostics += [self._clash(clash, blocks) for clash in clashes]
        skus, problems = vm_skus(self.request, self.inventory)
        self.diagnostics += problems
        before = self.before = surroundings_before(self.prior, skus, types)
        after = PlanSurroundings(skus)
        hints = HintTargets(self.inventory, self.sites)
        after.targets = hints
        heal = (
            {str(a): blocks.selection.heals(a) for a in self.prior.instances} if blocks.selection.heal else {}
        )
        phase = VmPhase(self.sites, before, after, Wishes(heal, self.explained_for))
        walk = VmWalk(blocks, phase, self.inventory, hints)
        vm_blocks = [b for b in order.blocks if types[b.type].phase == VM_PHASE]
        earlier = evaluation
        evaluation = walk.run(vm_blocks, [i for i in orphans if i.type.vms is not None], evaluation)
        evaluation.diagnostics += earlier.diagnostics
        self.objects = walk.objects
        self.walked += walk.diagnostics
        self._plan_fleet(blocks, order, evaluation)
        self._read_all_data(evaluation)
        return evaluation

    def _plan_fleet(self, blocks: Blocks, order: Order, evaluation: Evaluation) -> None:
        """Phases 5 and 6, and what comes after them."""
        types = self.request.registries.resource_types
        pods = self.pods = pods_over(blocks, self.prior, self.objects.values())
        here = [b for b in order.blocks if types[b.type].phase == FLEET_PHASE]
        for batch in manifest_batches(here, order.needs):
            if batch[0].type == MANIFEST_TYPE:
                self.walked += plan_manifests(batch, blocks, evaluation, pods)
            else:
                blocks.plan_ordinary(batch[0], evaluation)
        placements = [b for b in order.blocks if types[b.type].phase == PLACEMENT_PHASE]
        phase = FleetPhase(blocks, pods.clusters, pods)
        self.fleet = phase.run(placements, order, evaluation)
        self.walked += self.fleet.diagnostics
        for block in order.blocks:
            if types[block.type].phase > PLACEMENT_PHASE:
                blocks.plan_ordinary(block, evaluation)

    def _read_all_data(self, evaluation: Evaluation) -> None:
        """Data blocks that nothing refers to are read all the same."""
        for module in modules(self.request.configuration.root):
            for block in module.resources.values():
                if block.mode == "data":
                    for instance in evaluation.module_instances(module.path):
                        evaluation.resource(instance, block)

    def _orphans(self, blocks: Blocks, order: Order) -> list[Instance]:
        """Objects in state whose block is gone, in the order of their creation."""
        known = {b.address for b in order.blocks}
        found = []
        for config, addresses in self.prior.by_block.items():
            if config in known or config.mode == "data":
                continue
            if config.type not in self.request.registries.resource_types:
                self.diagnostics.append(
                    error(
                        "unknown-resource-type-in-state",
                        f"The state holds {config}, and this version of nexusform knows no type "
                        f'"{config.type}". Use the version that made it, or forget the object with '
                        f"`nexusform state rm {config}`.",
                    )
                )
                continue
            for address in addresses:
                in_plan = blocks.selection.has(address)
                instance = blocks.going(address, None) if in_plan else blocks.left_alone(address)
                _, forget = forgotten(self.request.configuration, address)
                if forget and instance.action is Action.DELETE:
                    instance.action, instance.reason = Action.FORGET, ""
                    self.diagnostics.append(_forgets(address))
                found.append(instance)
        return sorted(found, key=lambda i: (i.prior.creation if i.prior else 0, address_order(i.address)))

    # --- small things ---

    def _finished(self, plan: Plan) -> PlanResult:
        return PlanResult(finished(plan, self.given, self.diagnostics))

    def _conditions(self, evaluation: Evaluation, selection: Selection) -> tuple[CheckResult, ...]:
        """What stands in no managed resource. Only variables are checked when everything is to go, or
        when what the others refer to may be left out.
        """
        configuration = self.request.configuration
        found = [check_variables(configuration, evaluation)]
        if self.request.mode is not Mode.DESTROY and not selection.partial:
            found.append(check_modules(configuration, evaluation))
        self.diagnostics += [problem for each in found for problem in each.problems]
        return tuple(check for each in found for check in each.checks)

    def _reordered(self, order: Order) -> Order:
        """With `first`, these blocks take their turn before the others, as far as references allow."""
        if not self.request.first:
            return order
        rank = {address.config: i for i, address in enumerate(self.request.first)}
        types = self.request.registries.resource_types
        here = [b for b in order.blocks if types[b.type].phase == VM_PHASE]
        known = {b.address: b for b in here}
        position = {b.address: rank.get(b.address, len(rank) + i) for i, b in enumerate(here)}
        needs = {a: [n for n in order.needs[a] if n in known] for a in known}
        taken = [known[a] for a in ordered(needs, position)]
        before = [b for b in order.blocks if types[b.type].phase < VM_PHASE]
        after = [b for b in order.blocks if types[b.type].phase > VM_PHASE]
        return replace(order, blocks=(*before, *taken, *after))

    def _clash(self, clash: MachineClash, blocks: Blocks) -> Diagnostic:
        second = blocks.instances.get(_address_in(blocks, clash.second))
        detail = (
            f'The machine "{clash.name}" stands twice on site {clash.site_id}: {clash.first} and '
            f"{clash.second} both describe it. A machine is known by its site and name; give one of them "
            "another name, or remove it."
            if clash.what == "name"
            else f"{clash.first} and {clash.second} describe the same slot of one rack. Give one of them "
            "another slot."
        )
        if second is not None:
            path = ("name",) if clash.what == "name" else ("slot",)
            at_machine = second.type.kind is Kind.MACHINE
            return second.error("duplicate-machine", detail, path if at_machine else ())
        return error("duplicate-machine", detail)


def _causes(found: list[Diagnostic], *, flawed: bool) -> list[Diagnostic]:
    """What was found, without what only follows from something else: from what was wrong before
    (`flawed`), or from an unknown value where a rack or site is described.
    """
    if flawed:
        return [d for d in found if d.id not in CONSEQUENCES]
    if any(d.id == UNDECIDED for d in found):
        return [d for d in found if d.id == UNDECIDED or d.id not in CONSEQUENCES]
    return found


def _without_followers(
    found: list[Diagnostic], needs: Mapping[ConfigAddress, Iterable[ConfigAddress]]
) -> list[Diagnostic]:
    """What was found, without arguments that are unknown only because what they refer to is in error."""
    wrong: set[ConfigAddress] = set()
    for d in found:
        if d.severity is Severity.ERROR and d.id != UNDECIDED and d.address:
            wrong.add(parse_address(d.address).config)

    def follows(d: Diagnostic) -> bool:
        seen: set[ConfigAddress] = set()
        stack = list(needs.get(parse_address(d.address).config, ()))
        while stack:
            at = stack.pop()
            if at in wrong:
                return True
            if at not in seen:
                seen.add(at)
                stack += needs.get(at, ())
        return False

    return [d for d in found if not (wrong and d.id == UNDECIDED and d.address and follows(d))]


def _forgets(address: Address) -> Diagnostic:
    return warning(
        "object-will-be-forgotten",
        f"{address} leaves the state and is not destroyed. Its room counts as free from then on, although "
        "the "
        "object may still be there.",
        address=str(address),
    )


def _address_in(blocks: Blocks, text: str) -> Address:
    return next((a for a in blocks.instances if str(a) == text), Address((), "managed", "", ""))


def _create_first(order: Order) -> frozenset[ConfigAddress]:
    """Blocks under create_before_destroy: those that say so, and all they depend on."""
    found: set[ConfigAddress] = set()
    stack = [b.address for b in order.blocks if b.lifecycle.create_before_destroy]
    while stack:
        at = stack.pop()
        if at not in found:
            found.add(at)
            stack += order.needs.get(at, ())
    return frozenset(found)
