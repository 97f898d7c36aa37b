"""The two passes over phase 4. Pass one, placements still unknown: what every block wants, so that
everything that leaves has left and everything homeless is placed before anything new. Pass two,
block by block: the new VMs, each seeing what was placed before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.configuration.model import ResourceBlock
from nexusform.demands import VmDemand
from nexusform.diagnostics import Diagnostic, Problem, did_you_mean
from nexusform.plain_data import unknown_paths
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.difference import planned_attributes
from nexusform.planning.instances.instance import Instance, decide, undecided, undecided_error
from nexusform.planning.instances.triggered import is_triggered
from nexusform.planning.names.evaluation import Evaluation, address_key
from nexusform.planning.names.views import ResourceView
from nexusform.planning.plan import Action
from nexusform.planning.vms.hint_targets import HintTargets
from nexusform.planning.vms.placed_note import note_placed
from nexusform.planning.vms.pool_replacement import last_system_pools
from nexusform.planning.vms.sites import occupy_outsiders
from nexusform.planning.vms.vm_phase import VmObject, VmPhase
from nexusform.ports import Kind
from nexusform.scheduling.world import Inventory


class VmWalk(Struct):
    """Phase 4 of one plan."""

    blocks: Blocks
    phase: VmPhase
    inventory: Inventory
    hints: HintTargets
    objects: dict[Address, VmObject] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    _first: dict[Address, tuple[list[Instance], list[list[Diagnostic]]]] = field(default_factory=dict)

    def run(
        self, blocks: Sequence[ResourceBlock], orphans: Iterable[Instance], evaluation: Evaluation
    ) -> Evaluation:
        """Plan the blocks; `orphans` are VM instances whose block is gone. Gives the evaluation in
        which placements are known.
        """
        first = evaluation.fork()
        early: dict[int, list[Instance]] = {}
        for index, block in enumerate(blocks):
            found = self._pass_one(block, first)
            if found is not None:
                early[index] = found
        known = [i for instances in early.values() for i in instances]
        gone = list(orphans)
        for instance in [*known, *gone, *self._late_priors(blocks, early)]:
            self.objects[instance.address] = self.phase.stand(instance)
        for site in self.phase.sites.values():
            occupy_outsiders(site)
        self._demands([*known, *gone], first)
        self._leave_and_return([*known, *gone])
        second = evaluation.fork()
        for index, block in enumerate(blocks):
            if index in early:
                self._open_views(block, first, second)
            self._pass_two(block, early.get(index), second)
        for instance in gone:
            self.blocks.keep(instance, second)
        return second

    # --- pass one ---

    def _pass_one(self, block: ResourceBlock, evaluation: Evaluation) -> list[Instance] | None:
        kept = len(self.blocks.diagnostics)
        instances = self.blocks.expanded(block, evaluation, late_allowed=True)
        if instances is None:
            del self.blocks.diagnostics[kept:]
            return None
        reports: list[Diagnostic] = []
        for instance in instances:
            if instance.block is None or instance.going:
                self._show(instance, evaluation)
                continue
            found = self.blocks.arguments(instance, evaluation)
            if undecided(instance):
                del self.blocks.diagnostics[kept:]
                return None
            reports += found
            self._show(instance, evaluation, unplaced=True)
        self.diagnostics += reports
        return instances

    def _show(self, instance: Instance, evaluation: Evaluation, *, unplaced: bool = False) -> None:
        """Let later blocks of pass one refer to it; its placements are unknown."""
        if instance.going:
            return
        if unplaced and instance.config is not None:
            instance.planned = self._unplaced(instance)
        if instance.planned is not None or instance.broken:
            evaluation.resource_view(instance.address).items[instance.address.key] = instance.view

    def _unplaced(self, instance: Instance) -> dict[str, Any]:
        assert instance.config is not None
        known = {} if instance.broken else {"id": instance.type.identify(instance.config)}
        return planned_attributes(instance.type.schema, instance.config, None, known)

    def _late_priors(
        self, blocks: Sequence[ResourceBlock], early: dict[int, list[Instance]]
    ) -> list[Instance]:
        """What stands of the blocks that wait for pass two."""
        late = [b for i, b in enumerate(blocks) if i not in early]
        return [
            self.blocks.left_alone(address)
            for block in late
            for address in self.blocks.prior.by_block.get(block.address, ())
        ]

    # --- demands ---

    def _demands(self, instances: Sequence[Instance], evaluation: Evaluation) -> None:
        """What every instance wants, replaced or not; a separate pool follows its cluster."""
        after = self.phase.after
        self.hints.refresh(self.objects.values())
        for instance in instances:
            if instance.type.kind is Kind.CLUSTER and not instance.going and not instance.broken:
                attributes = instance.config if instance.config is not None else instance.planned
                if attributes is not None:
                    after.clusters[instance.type.identify(attributes)] = attributes
        followers = []
        for instance in instances:
            wanted = self._wanted(instance)
            found = self.objects[instance.address]
            if wanted is not None and wanted.parent_id:
                followers.append((found, wanted))
                continue
            self._consider(found, wanted, evaluation)
        replaced = {
            i.type.identify(i.config): i
            for i in instances
            if i.type.kind is Kind.CLUSTER and i.replaced and i.config
        }
        for found, wanted in followers:
            instance = found.instance
            if wanted.parent_id in replaced and instance.prior is not None and instance.block is not None:
                instance.forced = "replace_by_triggers"
            self._consider(found, wanted, evaluation)
        considered = (self.objects[instance.address] for instance in instances)
        self.diagnostics += last_system_pools(considered)

    def _wanted(self, instance: Instance) -> VmDemand | None:
        if instance.going or instance.broken:
            return None
        attributes = instance.config if instance.config is not None else instance.planned
        if attributes is None or instance.type.vms is None:
            return None
        wanted, problems = instance.type.vms.demand(attributes, self.phase.after, instance.address)
        self._report(instance, problems)
        if wanted is None:
            instance.broken = True
            return None
        zones = list(self._zone_problems(wanted)) if instance.block is not None else []
        self._report(instance, zones)
        if zones:
            instance.broken = True
            return None
        return wanted

    def _report(self, instance: Instance, problems: Iterable[Problem]) -> None:
        self.diagnostics += [instance.problem(p) for p in problems]

    def _zone_problems(self, wanted: VmDemand) -> Iterable[Problem]:
        site = self.phase.sites.get(wanted.site_id)
        if site is None:
            known = sorted(self.phase.sites)
            hint = did_you_mean(wanted.site_id, known) if wanted.site_id else ""
            listed = f" Known sites: {', '.join(known)}." if known else " No nexus_site is declared."
            yield Problem(
                () if wanted.parent_id else ("site_id",),
                "unknown-site",
                f'No site has the id "{wanted.site_id}".{hint}{listed}',
            )
            return
        zones = site.zones()
        for pool in wanted.pools:
            missing = sorted((pool.zones or frozenset()) - set(zones))
            if missing:
                listed = ", ".join(f'"{z}"' for z in zones) or "none"
                names = ", ".join(f'"{z}"' for z in missing)
                yield Problem(
                    (*pool.path, "availability_zones"),
                    "unknown-availability-zone",
                    f"No rack of site {wanted.site_id} is in zone {names}. Zones of the site: {listed}. "
                    "Name one of these, or leave availability_zones out to allow all.",
                )
            if pool.pinned and pool.pinned not in site.machines:
                yield Problem(
                    ("machine",),
                    "unknown-machine",
                    f"Site {wanted.site_id} has no machine "
                    f'"{pool.pinned}".{did_you_mean(pool.pinned, site.machines)}',
                )

    def _consider(self, found: VmObject, wanted: VmDemand | None, evaluation: Evaluation) -> None:
        instance = found.instance
        if instance.block is not None and not instance.going and instance.config is not None:
            self._preview(instance, evaluation)
            self.blocks.note(instance)
        if instance.broken or (wanted is None and not instance.going):
            found.wanted = found.before
            found.placed = dict(found.standing)
            found.moves.stay = list(found.standing)
            return
        self.phase.consider(found, wanted)
        if instance.block is None and instance.action is Action.NO_OP:
            # Left out of this plan: it keeps what it has, wherever that is.
            found.moves.again.clear()
            found.placed = dict(found.standing)

    def _preview(self, instance: Instance, evaluation: Evaluation) -> None:
        """Decide replace or keep before placements are known."""
        assert instance.config is not None
        if not instance.forced and is_triggered(instance, self.blocks.decided, evaluation):
            instance.forced = "replace_by_triggers"
        requested = self.blocks.selection.replaces(instance.address)
        decide(instance, {"id": instance.type.identify(instance.config)}, requested=requested)

    # --- leaving and coming back ---

    def _leave_and_return(self, instances: Sequence[Instance]) -> None:
        for instance in instances:
            self.phase.leave(self.objects[instance.address])
        self.phase.settle()
        homeless = [self.objects[i.address] for i in instances if self.objects[i.address].moves.again]
        homeless.sort(key=lambda o: o.instance.prior.creation if o.instance.prior is not None else 0)
        for found in homeless:
            self._fresh_hints(found)
            self.phase.again(found)
            self.hints.update(found)

    def _fresh_hints(self, found: VmObject) -> None:
        """Hints point at where their targets stand by now."""
        instance = found.instance
        if found.wanted is None or instance.config is None or instance.type.vms is None:
            return
        if any(pool.hints for pool in found.wanted.pools) or "placement_hint" in instance.config:
            wanted, _ = instance.type.vms.demand(instance.config, self.phase.after, instance.address)
            found.wanted = wanted or found.wanted

    # --- pass two ---

    def _pass_two(self, block: ResourceBlock, early: list[Instance] | None, evaluation: Evaluation) -> None:
        instances = self._late(block, evaluation) if early is None else early
        for instance in instances:
            found = self.objects[instance.address]
            if early is not None and self._reevaluated(instance):
                self.blocks.arguments(instance, evaluation)
            if instance.config is not None and not instance.going and not instance.broken:
                self._fresh_hints(found)
                self.phase.arrive(found)
                self.hints.update(found)
            self._finish(found, evaluation)

    def _open_views(self, block: ResourceBlock, first: Evaluation, second: Evaluation) -> None:
        """The block has the shape that pass one found, also when it has no instance."""
        for module in second.module_instances(block.address.module):
            key = address_key(block.address, module.path)
            known = first.resources[key]
            unknown = {k: view for k, view in known.items.items() if view.attributes is None}
            second.resources[key] = ResourceView(known.shape, unknown)

    def _reevaluated(self, instance: Instance) -> bool:
        """Whether its arguments held unknown values in pass one (none that decide a placement)."""
        if instance.config is None or instance.going:
            return False
        return next(iter(unknown_paths(instance.config)), None) is not None

    def _late(self, block: ResourceBlock, evaluation: Evaluation) -> list[Instance]:
        """A block that had to wait: it removes, places anew and adds on its own, now."""
        instances = self.blocks.expanded(block, evaluation) or []
        for instance in instances:
            if instance.block is not None and not instance.going:
                self.diagnostics += self.blocks.arguments(instance, evaluation)
                waiting = undecided(instance)
                self.diagnostics += [undecided_error(instance, path) for path in waiting]
                instance.broken |= bool(waiting)
            known = self.objects.get(instance.address)
            if known is None:
                self.objects[instance.address] = VmObject(instance)
            else:
                known.instance = instance
        self._demands(instances, evaluation)
        for instance in instances:
            self.phase.leave(self.objects[instance.address])
        for instance in instances:
            self.phase.again(self.objects[instance.address])
        return instances

    def _finish(self, found: VmObject, evaluation: Evaluation) -> None:
        """Give the instance its computed placements and decide for good."""
        instance = found.instance
        if not instance.going and instance.block is not None and instance.config is not None:
            computed: dict[str, Any] = {}
            if found.untouched and instance.prior is not None and not self.inventory.skus:
                computed = {}  # what stands is taken over as it is
            elif found.wanted is not None and instance.type.vms is not None and not instance.broken:
                computed = instance.type.vms.assemble(instance.config, self.phase.after, found.placed_vms())
            if found.failed:
                instance.unsettled = frozenset(computed)
            self.blocks.conclude(instance, computed, evaluation)
            if instance.action is Action.NO_OP and found.tokens:
                # Created again in the very same place: nothing to see in the values, a step all the same.
                instance.action = Action.UPDATE
            if not found.untouched and found.wanted is not None:
                instance.private = self._placed_note(found)
        self.blocks.keep(instance, evaluation)

    def _placed_note(self, found: VmObject) -> dict[str, Any] | None:
        """What state will remember of how each VM came to its place."""
        assert found.wanted is not None
        triggers = {**found.moves.arrive, **found.moves.again}
        came = [(found.placed[key].name, triggers.get(key, "")) for key in found.tokens]
        prior = found.instance.prior.private if found.instance.prior is not None else None
        present = [vm.name for vm in found.placed_vms()]
        return note_placed(prior, came, present, self.blocks.request.state.serial + 1)
