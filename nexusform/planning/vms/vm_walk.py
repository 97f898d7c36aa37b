"""The two passes over phase 4. Pass one, placements still unknown: what every block asks for, so that
everything that leaves has left and everything homeless is placed before anything new. Pass two,
block by block: the new VMs, each seeing what was placed before it. At the end the walk of a destroy plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address, ConfigAddress, address_order
from nexusform.configuration.declared.configuration import ResourceBlock
from nexusform.configuration.declared.limits import beyond
from nexusform.demands import VmDemand
from nexusform.diagnostics import Diagnostic
from nexusform.graph import reached
from nexusform.plain_data import has_unknown
from nexusform.planning.instances.argument_evaluation import undecided
from nexusform.planning.instances.blocks import Blocks, show
from nexusform.planning.instances.difference import planned_attributes, same
from nexusform.planning.instances.instance import WITH_ITS_PLACE, Decision, Instance
from nexusform.planning.names.evaluation import Evaluation, address_key
from nexusform.planning.names.repetition import ResourceView
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.preparation.selection import Selection
from nexusform.planning.request import Stage
from nexusform.planning.vms import vm_phase
from nexusform.planning.vms.sites import (
    PlanSurroundings,
    SitePlan,
    build_sites,
    inventory_of,
    occupy_outsiders,
)
from nexusform.planning.vms.vm_object import VmObject, note_left, note_placed
from nexusform.planning.vms.vm_world import VmWorld, demand_of, emptied_world, last_system_pools
from nexusform.plans.plan import Action
from nexusform.ports import Kind


class PlannedVms(Struct, frozen=True):
    """The VMs of a plan by the address of their object, and the evaluation in which placements are known."""

    objects: Mapping[Address, VmObject]
    evaluation: Evaluation
    diagnostics: list[Diagnostic]


def plan_vms(
    vm_blocks: Sequence[ResourceBlock],
    orphans: Sequence[Instance],
    world: VmWorld,
    blocks: Blocks,
    evaluation: Evaluation,
) -> PlannedVms:
    """Plan the blocks of phase 4; `orphans` are VM instances whose block is gone."""
    walk = _Walk(blocks, world)
    first = evaluation.fork()
    instances_of = walk.pass_one(vm_blocks, first)  # the others, whose blocks wait, are not known yet
    early = [*chain.from_iterable(instances_of.values()), *orphans]
    waiting = [block for block in vm_blocks if block.address not in instances_of]
    walk.stand([*early, *walk.standing_of(waiting)])
    walk.consider(early, first)
    walk.leave_and_return(early)
    second = evaluation.fork()
    for block in vm_blocks:
        if block.address in instances_of:
            _open_views(block, first, second)
            walk.pass_two(instances_of[block.address], second, again=True)
        else:
            walk.pass_two(walk.caught_up(block, second), second)
    for instance in orphans:
        blocks.keep(instance, second)
    if any(vms.asked.moves.forgotten for vms in walk.objects.values()):
        from nexusform.planning.vms.forgotten_vms import note_forgotten

        note_forgotten(walk.objects.values(), blocks, world)
    placed = second.reporting([*second.diagnostics, *evaluation.diagnostics])
    return PlannedVms(walk.objects, placed, walk.diagnostics)


def _open_views(block: ResourceBlock, first: Evaluation, second: Evaluation) -> None:
    """The block has the shape that it had in pass one, also when it has no instance."""
    for module in second.module_instances(block.address.module):
        block_key = address_key(block.address, module.path)
        view = first.resources[block_key]
        unknown = {key: item for key, item in view.items.items() if item.attributes is None}
        second.resources[block_key] = ResourceView(view.shape, unknown)


class _Walk:
    """Phase 4 while it goes on: the objects so far, and what was found wrong."""

    def __init__(self, blocks: Blocks, world: VmWorld) -> None:
        self.blocks = blocks
        self.world = world
        self.objects: dict[Address, VmObject] = {}
        self.diagnostics: list[Diagnostic] = []
        self._demanded = 0
        self._arriving = self._arrived = 0  # new VMs, and those of them that were looked at

    def _of(self, instances: Sequence[Instance]) -> list[VmObject]:
        return [self.objects[instance.address] for instance in instances]

    # --- pass one: what every block asks for ---

    def pass_one(
        self, vm_blocks: Sequence[ResourceBlock], evaluation: Evaluation
    ) -> dict[ConfigAddress, list[Instance]]:
        """The instances of the blocks that need no placement of another to be known. The others wait for
        pass two, and what is wrong with them now may be right by then: it is not told.
        """
        early: dict[ConfigAddress, list[Instance]] = {}
        for block in vm_blocks:
            if not evaluation.knows_modules(block.address.module):
                continue
            # Of what evaluation reports in this pass only what is wrong with count and for_each is told:
            # these are not evaluated again, as modules are.
            expanding = evaluation.reporting()
            expanded = self.blocks.expanded(block, expanding, may_wait=True)
            if expanded is None:
                continue
            problems = self._evaluate_arguments(expanded.instances, evaluation)
            if problems is not None:
                early[block.address] = expanded.instances
                self.blocks.diagnostics += expanded.diagnostics
                self.diagnostics += [*expanding.diagnostics, *problems]
        return early

    def _evaluate_arguments(
        self, instances: Sequence[Instance], evaluation: Evaluation
    ) -> list[Diagnostic] | None:
        """What is wrong with the arguments; None: one that decides a placement is not known yet. Later
        blocks may refer to the instances, whose placements are unknown to them.
        """
        diagnostics: list[Diagnostic] = []
        for instance in instances:
            if instance.configured:
                diagnostics += self.blocks.evaluate(instance, evaluation)
                if undecided(instance):
                    return None
                instance.decision = Decision(planned=_unplaced(instance))
            if not instance.going and (instance.planned is not None or instance.broken):
                show(instance, evaluation)
        return diagnostics

    # --- who stands where, and what becomes of each ---

    def standing_of(self, waiting: Iterable[ResourceBlock]) -> Iterator[Instance]:
        """What stands of the blocks that wait for pass two."""
        for block in waiting:
            for address in self.blocks.prior.by_block.get(block.address, ()):
                yield self.blocks.left_alone(address)

    def stand(self, instances: Iterable[Instance]) -> None:
        """All prior VMs, then those that nexusform does not manage, take their room."""
        for instance in instances:
            recorded = self.blocks.prior.state.instances.get(instance.address)
            current = recorded.current if recorded is not None else None
            attributes = current.attributes if current is not None else None
            self.objects[instance.address] = vm_phase.stand(instance, self.world, attributes)
        names = set(chain.from_iterable(vms.standing_names for vms in self.objects.values()))
        for site in self.world.sites.values():
            occupy_outsiders(site, names)

    def consider(self, instances: Sequence[Instance], evaluation: Evaluation) -> None:
        """What every instance asks for, and so who leaves and who comes; a separate pool follows its
        cluster, also into a replacement.
        """
        self.world.hints.take_in(self.objects.values())
        clusters = [
            instance for instance in instances if instance.type.kind is Kind.CLUSTER and not instance.going
        ]
        for cluster in clusters:
            attributes = cluster.config if cluster.config is not None else cluster.planned
            if attributes is not None and not cluster.broken:
                self.world.after.clusters[cluster.type.identify(attributes)] = attributes
        followers: list[tuple[VmObject, VmDemand]] = []
        for vms in self._of(instances):
            demand = self._demand(vms)
            if demand is not None and demand.parent_id:
                followers.append((vms, demand))
            else:
                self._consider(vms, demand, evaluation)
        replaced_ids = {
            cluster.type.identify(cluster.config)
            for cluster in clusters
            if cluster.replaced and cluster.config
        }
        for vms, demand in followers:
            instance = vms.instance
            if demand.parent_id in replaced_ids and instance.prior is not None and instance.block is not None:
                instance.forced = WITH_ITS_PLACE
            self._consider(vms, demand, evaluation)
        self.diagnostics += last_system_pools(self._of(instances))

    def _demand(self, vms: VmObject) -> VmDemand | None:
        """What an instance asks for. Raises Refused when all together ask for more VMs than may be."""
        demand, problems = demand_of(vms, self.world)
        if demand is not None:
            self._demanded += sum(len(pool.numbers) for pool in demand.pools)
        most = self.blocks.request.limits.vms
        if self._demanded > most:
            raise beyond("VMs", "vms", most)
        self.diagnostics += problems
        return demand

    def _consider(self, vms: VmObject, demand: VmDemand | None, evaluation: Evaluation) -> None:
        """Decide which VMs of an instance stay, leave, come, or come again."""
        instance = vms.instance
        if instance.configured and instance.config is not None:
            self.blocks.preview(instance, evaluation)
            self.blocks.note(instance)
        if instance.broken or (demand is None and not instance.going):
            # What it asks for cannot be told: it keeps what it has, so that others do not take its room.
            vms.stay_as_they_are(vms.before.demand)
            return
        vm_phase.consider(vms, demand, self.world)
        self._arriving += len(vms.asked.moves.arrive)
        if instance.block is None and instance.action is Action.NO_OP:
            # Left out of this plan: it keeps what it has, wherever that is.
            vms.be_left_behind(vm_phase.machine_trigger(self.world, vms))

    def leave_and_return(self, instances: Sequence[Instance]) -> None:
        """Everything that leaves leaves; then those that lost their place get a new one, oldest first."""
        objects = self._of(instances)
        for vms in objects:
            vm_phase.leave(vms)
        self.world.settle()
        homeless = [vms for vms in objects if vms.asked.moves.again]
        homeless.sort(key=lambda vms: vms.instance.prior.creation if vms.instance.prior is not None else 0)
        for vms in homeless:
            vm_phase.put_back(vms)
        for vms in homeless:
            self._look_at_hints_again(vms)
            vm_phase.place_again(vms, self.world)
            self.world.hints.take_in([vms])

    def _look_at_hints_again(self, vms: VmObject) -> None:
        """Hints point at where their targets stand by now."""
        instance, family = vms.instance, vms.instance.type.vms
        if vms.asked.demand is None or instance.config is None or family is None:
            return
        hinted = any(pool.hints for pool in vms.asked.demand.pools)
        if hinted or "placement_hint" in instance.config:
            demand, _ = family.demand(instance.config, self.world.after, instance.address)
            vms.asked = replace(vms.asked, demand=demand or vms.asked.demand)

    # --- pass two: new VMs ---

    def caught_up(self, block: ResourceBlock, evaluation: Evaluation) -> Sequence[Instance]:
        """The instances of a block that had to wait: what leaves has left and what lost its place has one,
        on its own, now.
        """
        expanded = self.blocks.expanded(block, evaluation)
        assert expanded is not None
        self.blocks.diagnostics += expanded.diagnostics
        instances = expanded.instances
        for instance in instances:
            if instance.configured:
                self.diagnostics += self.blocks.evaluate_known(instance, evaluation)
            self.objects.setdefault(instance.address, VmObject(instance)).instance = instance
        self.consider(instances, evaluation)
        objects = self._of(instances)
        for vms in objects:
            vm_phase.leave(vms)
        for vms in objects:
            vm_phase.put_back(vms)
        for vms in objects:
            vm_phase.place_again(vms, self.world)
        return instances

    def pass_two(self, instances: Sequence[Instance], evaluation: Evaluation, *, again: bool = False) -> None:
        """Place the new VMs of a block and decide for good. With `again`, arguments that referred to
        placements are evaluated once more: they are known now (none of these decides a placement).
        """
        for vms in self._of(instances):
            instance = vms.instance
            if again and instance.config is not None and not instance.going and has_unknown(instance.config):
                self.blocks.evaluate(instance, evaluation)
            if instance.config is not None and not instance.going and not instance.broken:
                self._look_at_hints_again(vms)
                vm_phase.place_new(vms, self.world)
                self.world.hints.take_in([vms])
                self._arrived += len(vms.asked.moves.arrive)
                self.blocks.request.progress(Stage.VMS, self._arrived, self._arriving)
            if instance.configured and instance.config is not None:
                self._conclude(vms, evaluation)
            self.blocks.keep(instance, evaluation)

    def _conclude(self, vms: VmObject, evaluation: Evaluation) -> None:
        """Settle the values of an instance, its VMs being placed."""
        instance = vms.instance
        computed = self._computed(vms)
        unsettled = frozenset(computed) if vms.housing.failed else frozenset()
        self.blocks.conclude(instance, computed, evaluation, unsettled)
        if instance.action is Action.NO_OP and vms.housing.tokens:
            # Created again in the very same place: nothing to see in the values, a step all the same.
            instance.decision = replace(instance.decision, action=Action.UPDATE)
        if not vms.untouched and vms.asked.demand is not None:
            instance.private = _placed_note(vms, self.blocks.request.state.serial + 1)

    def _computed(self, vms: VmObject) -> dict[str, Any]:
        """The computed attributes that show the placements; none where what stands is taken over as it is."""
        instance, family = vms.instance, vms.instance.type.vms
        if instance.broken or vms.asked.demand is None or family is None or instance.config is None:
            return {}
        stands = instance.prior is not None and not _argument_changed(instance)
        if stands and vms.untouched and not self.blocks.inventory.skus:
            return {}
        arguments = {**_computed_before(instance), **instance.config}
        return family.assemble(arguments, self.world.after, vms.placed_vms(), vms.waiting)


def _argument_changed(instance: Instance) -> bool:
    """Whether the user asks for anything else than what stands; what nexusform fills in does not count."""
    schema = instance.type.schema
    filled_in = {name for name, attribute in schema.attributes.items() if attribute.computed}
    config = instance.config or {}
    arguments = {name: value for name, value in config.items() if value is not None or name not in filled_in}
    return not same(schema, arguments, instance.before or {})


def _computed_before(instance: Instance) -> Mapping[str, Any]:
    """What was computed of the object that stands; nothing of one that is new or replaced."""
    before = instance.before
    if before is None or instance.replaced:
        return {}
    attributes = instance.type.schema.attributes.items()
    computed = [name for name, attribute in attributes if not attribute.configurable]
    return {name: before[name] for name in computed if name in before}


def _unplaced(instance: Instance) -> dict[str, Any]:
    """The planned attributes while placements are unknown: of what is computed only the id is known."""
    assert instance.config is not None
    computed = {} if instance.broken else {"id": instance.type.identify(instance.config)}
    return planned_attributes(instance.type.schema, instance.config, None, computed)


def _placed_note(vms: VmObject, serial: int) -> dict[str, Any] | None:
    """What state will remember of how each VM came to its place."""
    prior = vms.instance.prior.private if vms.instance.prior is not None else None
    came, present = vms.names_placed(), vms.names_after()
    note = note_placed(prior, came, present, serial)
    return note_left(note, vms.machines_left(), {name for name, _ in came}, present)


# --- a destroy plan ----------------------------------------------------------------------------


def destroy(blocks: Blocks) -> tuple[dict[Address, VmObject], PlanSurroundings]:
    """Everything selected goes, and all that depends on it. Gives the VMs of what stands, and what prior
    arguments meant.
    """
    _decide(blocks)
    world = emptied_world(blocks)
    left = replace(world, sites=_sites_left(blocks)) if blocks.selection.partial else world
    objects: dict[Address, VmObject] = {}
    for address, instance in blocks.instances.items():
        if instance.type.vms is None or instance.prior is None:
            continue
        vms = objects[address] = vm_phase.stand(instance, world)
        if vms.going:
            vm_phase.consider(vms, None, world)
        else:
            vms.be_left_behind(vm_phase.machine_trigger(left, vms))
    return objects, world.before


def _sites_left(blocks: Blocks) -> Mapping[str, SitePlan]:
    """The sites with the machines that a destroy plan leaves."""
    left = [
        (instance.address, instance.before) for instance in blocks.instances.values() if not instance.going
    ]
    standing = [(address, attributes) for address, attributes in left if attributes is not None]
    return build_sites(inventory_of(standing, blocks.request.registries.resource_types))[0]


def _decide(blocks: Blocks) -> None:
    """Every instance that stands goes or is left alone."""
    configured = {block.address: block for block in blocks.order.blocks}
    doomed = _doomed(blocks.selection, blocks.prior)
    for address in sorted(blocks.prior.instances, key=address_order):
        if address.type not in blocks.request.registries.resource_types:
            continue
        block = configured.get(address.config)
        is_doomed = address in doomed
        blocks.instances[address] = (
            blocks.going(address, "", block) if is_doomed else blocks.left_alone(address, block)
        )


def _doomed(selection: Selection, prior: Prior) -> AbstractSet[Address]:
    """The instances that go: the selected ones and what depends on them."""
    if not selection.partial:
        return prior.instances.keys()
    if selection.targets:
        named = [address for address in prior.instances if selection.targets_itself(address)]
        return _with_dependents(named, prior)
    kept = [address for address in prior.instances if not selection.has(address)]
    return prior.instances.keys() - _with_needs(kept, prior)


def _with_dependents(named: Iterable[Address], prior: Prior) -> set[Address]:
    """The named objects and all that depend on them, near or far."""
    dependents: dict[str, list[Address]] = {}
    for address in prior.instances:
        for need in prior.dependencies(address, "", ()):
            dependents.setdefault(need, []).append(address)

    def next_to(address: Address) -> Iterator[Address]:
        for dependent in dependents.get(str(address.config), ()):
            if _may_depend(address, dependent):
                yield dependent

    return reached(named, next_to)


def _with_needs(kept: Iterable[Address], prior: Prior) -> set[Address]:
    """The kept objects and all that they depend on, near or far."""
    by_text = {str(block): addresses for block, addresses in prior.by_block.items()}

    def next_to(address: Address) -> Iterator[Address]:
        for need in prior.dependencies(address, "", ()):
            for needed in by_text.get(need, ()):
                if _may_depend(address, needed):
                    yield needed

    return reached(kept, next_to)


def _may_depend(address: Address, other: Address) -> bool:
    """Whether one may depend on the other. State records dependencies without instance keys, and
    instances of one module know nothing of each other.
    """
    for step, other_step in zip(address.module, other.module, strict=False):
        if step.name != other_step.name:
            return True
        if step.key != other_step.key:
            return False
    return True
