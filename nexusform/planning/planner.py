"""make_plan: configuration + variables + what stands -> a Plan. Start reading here.

The journey of one VM: its block takes its turn (order), its arguments get values (evaluation,
blocks), its resource type says what it wants (ports.VmFamily.demand), triggers say why it comes,
goes or stays, the site's scheduler gives it a machine (vm_walk, vm_phase, sites), the difference to what
stands becomes a Change (changes), and steps say in which order apply follows (steps).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nexusform import __version__
from nexusform.address import Address, ConfigAddress, address_order
from nexusform.diagnostics import Diagnostic, Severity, error, has_errors
from nexusform.graph import ordered
from nexusform.planning.blocks import Blocks, PreparedBodies, Prior
from nexusform.planning.certainty import measure
from nexusform.planning.changes import build_changes, find_drift
from nexusform.planning.conditions import check_variable
from nexusform.planning.evaluation import Evaluation
from nexusform.planning.fit import fit_failures
from nexusform.planning.hint_targets import HintTargets
from nexusform.planning.instances import Instance
from nexusform.planning.order import Order, modules, planning_order
from nexusform.planning.outputs import plan_outputs, variable_values
from nexusform.planning.placements import placement_changes
from nexusform.planning.plan import Action, Mode, Plan
from nexusform.planning.remedies import with_ways_out
from nexusform.planning.request import PlanRequest, PlanResult
from nexusform.planning.selection import Selection, select
from nexusform.planning.setting import catalogue_version, setting_for, surroundings_before, vm_skus
from nexusform.planning.sites import SitePlan, build_sites
from nexusform.planning.steps import build_steps
from nexusform.planning.surroundings import PlanSurroundings
from nexusform.planning.tables import placement_tables
from nexusform.planning.vm_phase import VmObject, VmPhase, Wishes
from nexusform.planning.vm_walk import VmWalk
from nexusform.scheduling.world import Inventory, MachineClash

VM_PHASE = 4


def make_plan(request: PlanRequest) -> PlanResult:
    """Plan. Never raises for what the user wrote: errors are in the plan's diagnostics, and a plan
    with errors is `errored`."""
    result = _Planner(request).run()
    if request.ways_out and result.unplaced:
        return with_ways_out(request, result, make_plan)
    return result


class _Planner:
    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        self.diagnostics: list[Diagnostic] = []
        self.inventory = Inventory()
        self.prior = Prior.of(request)
        self.sites: dict[str, SitePlan] = {}
        self.objects: dict[Address, VmObject] = {}
        self.before = PlanSurroundings({})
        self.explained_for: frozenset[tuple[str, str]] | None = (
            None if request.want_rejected else frozenset(request.explain)
        )

    def run(self) -> PlanResult:
        request = self.request
        if request.mode is Mode.REFRESH_ONLY:
            return PlanResult(self._finished(Plan(mode=request.mode, drift=find_drift(request))))
        order, problems = planning_order(request.configuration, request.registries.resource_types)
        self.diagnostics += problems
        selection, problems = select(request.targets, request.excludes, request.replaces, order)
        self.diagnostics += problems
        if has_errors(self.diagnostics):
            return PlanResult(self._finished(Plan(mode=request.mode)))
        order = self._reordered(order)
        bodies = PreparedBodies(self._schemas())
        setting = setting_for(request, bodies)
        evaluation = Evaluation(setting)
        blocks = Blocks(request, selection, self.prior, bodies, self.inventory)
        blocks.needs = order.needs
        blocks.create_first = _create_first(order)
        variable_checks = self._variables(evaluation)
        if request.mode is Mode.DESTROY:
            self._destroy(blocks, order, selection)
        else:
            evaluation = self._walk(blocks, order, evaluation)
        outputs, planned_outputs, problems = plan_outputs(request, evaluation, selection)
        found = [*blocks.diagnostics, *bodies.diagnostics, *evaluation.diagnostics, *problems]
        self.diagnostics += found
        return self._result(blocks, order, outputs, planned_outputs, variable_checks)

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
        after.targets = before.targets = hints
        heal = {str(a): blocks.selection.heals(a) for a in self.prior.instances} if blocks.selection.heal else {}
        phase = VmPhase(self.sites, before, after, Wishes(heal, self.explained_for))
        walk = VmWalk(blocks, phase, self.inventory, hints)
        vm_blocks = [b for b in order.blocks if types[b.type].phase == VM_PHASE]
        earlier = evaluation
        evaluation = walk.run(vm_blocks, [i for i in orphans if i.type.vms is not None], evaluation)
        evaluation.diagnostics += earlier.diagnostics
        self.objects = walk.objects
        self.diagnostics += walk.diagnostics
        for block in order.blocks:
            if types[block.type].phase > VM_PHASE:
                blocks.plan_ordinary(block, evaluation)
        self._read_all_data(evaluation)
        return evaluation

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
                        "Unknown resource type in state",
                        f"The state holds {config}, and this version of nexusform knows no type "
                        f'"{config.type}". Use the version that made it, or forget the object with '
                        f"`nexusform state rm {config}`.",
                    )
                )
                continue
            for address in addresses:
                in_plan = blocks.selection.has(address)
                found.append(blocks.going(address, None) if in_plan else blocks.left_alone(address))
        return sorted(found, key=lambda i: (i.prior.creation if i.prior else 0, address_order(i.address)))

    def _destroy(self, blocks: Blocks, order: Order, selection: Selection) -> None:
        """Everything selected goes, and all that depends on it."""
        by_address = {b.address: b for b in order.blocks}
        doomed = _with_dependents(order, selection, self.prior)
        for address in sorted(self.prior.instances, key=address_order):
            if address.type not in self.request.registries.resource_types:
                continue
            block = by_address.get(address.config)
            if doomed is None or address in doomed:
                instance = blocks.going(address, None)
                instance.reason = ""
            else:
                instance = blocks.left_alone(address)
            blocks.instances[address] = instance
            if block is not None:
                instance.block = block
            family = instance.type.vms
            if family is not None and instance.prior is not None:
                vms = VmObject(instance)
                vms.standing = {(v.pool, v.number): v for v in family.standing(instance.prior.attributes)}
                self.objects[address] = vms
        skus, _ = vm_skus(self.request, self.inventory)
        before = surroundings_before(self.prior, skus, self.request.registries.resource_types)
        phase = VmPhase({}, before, before, Wishes({}))
        for vms in self.objects.values():
            if vms.instance.prior is not None and vms.instance.type.vms is not None:
                vms.before, _ = vms.instance.type.vms.demand(
                    vms.instance.prior.attributes, before, vms.instance.address
                )
            if vms.going:
                phase.consider(vms, None)
            else:
                vms.places = {key: vm.placement for key, vm in vms.standing.items()}
                vms.moves.stay = list(vms.standing)

    # --- the result ---

    def _result(self, blocks, order, outputs, planned_outputs, variable_checks) -> PlanResult:  # type: ignore[no-untyped-def]
        request = self.request
        changes, problems = build_changes(request, blocks.instances, order, self.prior)
        self.diagnostics += problems
        failures = fit_failures(self.objects.values())
        self.diagnostics += failures.diagnostics
        tie_breaks, certainty = measure(self.sites, request.tie_breaks)
        rows = placement_changes(self.objects.values(), certainty, self.sites, request.want_rejected)
        steps = build_steps(changes, self.objects, self.sites, self._former_dependencies(), self.before)
        edges = [(str(block), str(need)) for block, needs in order.needs.items() for need in needs]
        plan = Plan(
            mode=request.mode,
            changes=tuple(changes),
            steps=tuple(steps),
            drift=find_drift(request),
            outputs=tuple(outputs),
            planned_outputs=planned_outputs,
            placements=tuple(rows),
            placement_tables=tuple(placement_tables(self.objects.values(), self.sites, certainty)),
            kept=sum(len(o.moves.stay) for o in self.objects.values()),
            tie_breaks=tie_breaks,
            checks=(*variable_checks, *blocks.checks),
        )
        return PlanResult(
            self._finished(plan),
            tuple(edges),
            tuple(str(b.address) for b in order.blocks),
            self._explanations(),
            failures.unplaced,
        )

    def _former_dependencies(self) -> dict[tuple[Address, str], tuple[str, ...]]:
        found = {}
        for address, state in self.prior.instances.items():
            if state.current is not None:
                found[address, ""] = state.current.dependencies
            for key, old in state.deposed.items():
                found[address, key] = old.dependencies
        return found

    def _explanations(self):  # type: ignore[no-untyped-def]
        from nexusform.planning.placements import explanations

        return explanations(self.objects.values())

    def _finished(self, plan: Plan) -> Plan:
        request = self.request
        found = _once(self.diagnostics)
        state = request.state
        return replace(
            plan,
            diagnostics=tuple(found),
            variables=variable_values(request),
            refreshed={a: o for a, o in request.refreshed.items() if _differs(a, o, request)},
            lineage=state.lineage,
            serial=state.serial,
            prior_digest=request.prior_digest,
            catalogue=catalogue_version(request),
            timestamp=request.now,
            nexusform_version=__version__,
            workspace=request.workspace,
            targets=request.targets,
            excludes=request.excludes,
            replaces=request.replaces,
            errored=has_errors(found),
        )

    # --- small things ---

    def _schemas(self):  # type: ignore[no-untyped-def]
        registries = self.request.registries
        managed = {("managed", name): t.schema for name, t in registries.resource_types.items()}
        return managed | {("data", name): t.schema for name, t in registries.data_sources.items()}

    def _variables(self, evaluation: Evaluation):  # type: ignore[no-untyped-def]
        checks = []
        for variable in self.request.configuration.root.variables.values():
            problems, results = check_variable(variable, evaluation)
            self.diagnostics += problems
            checks += results
        return checks

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
            f'The machine "{clash.name}" stands twice on site {clash.site_id}: {clash.first} and {clash.second} '
            "both describe it. A machine is known by its site and name; give one of them another name, or remove it."
            if clash.what == "name"
            else f"{clash.first} and {clash.second} describe the same slot of one rack. Give one of them another slot."
        )
        if second is not None:
            path = ("name",) if clash.what == "name" else ("slot",)
            return second.error("Duplicate machine", detail, path if second.type.name.endswith("machine") else ())
        return error("Duplicate machine", detail)


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


def _with_dependents(order: Order, selection: Selection, prior: Prior) -> set[Address] | None:
    """The instances that a targeted destroy takes: the named ones and what depends on them."""
    if not selection.partial:
        return None
    if not selection.targets:
        return {a for a in prior.instances if selection.has(a)}
    started = {a for a in prior.instances if any(p.matches(a) for p in selection.targets)}
    dependents: dict[str, set[Address]] = {}
    for address, state in prior.instances.items():
        for need in state.current.dependencies if state.current else ():
            dependents.setdefault(need, set()).add(address)
    stack, found = list(started), set(started)
    while stack:
        for address in dependents.get(str(stack.pop().config), ()):
            if address not in found:
                found.add(address)
                stack.append(address)
    return found


def _differs(address: Address, found: object, request: PlanRequest) -> bool:
    known = request.state.instances.get(address)
    return known is None or known.current != found


def _once(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Each problem once, errors first, otherwise as they came."""
    seen: set[tuple[object, ...]] = set()
    found = []
    for diagnostic in diagnostics:
        key = (diagnostic.severity, diagnostic.summary, diagnostic.detail, diagnostic.subject, diagnostic.address)
        if key not in seen:
            seen.add(key)
            found.append(diagnostic)
    return sorted(found, key=lambda d: d.severity is not Severity.ERROR)
