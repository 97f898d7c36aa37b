"""Blocks to instances: expansion, arguments, and how an ordinary resource is planned."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import partial

from nexusform.address import Address, ConfigAddress, Key, ModulePath, address_order, key_order
from nexusform.configuration.model import ResourceBlock
from nexusform.diagnostics import Diagnostic
from nexusform.planning.instances.conditions import check_conditions
from nexusform.planning.instances.instance import (
    Instance,
    decide,
    evaluate_arguments,
    undecided,
    undecided_error,
)
from nexusform.planning.instances.triggered import is_triggered
from nexusform.planning.names.bodies import PreparedBodies
from nexusform.planning.names.evaluation import (
    Evaluation,
    ModuleInstance,
    address_key,
    unknown_repetition,
)
from nexusform.planning.names.repetition import expand
from nexusform.planning.names.views import ObjectView, ResourceView
from nexusform.planning.plan import Action, CheckResult
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.preparation.selection import Selection
from nexusform.planning.request import PlanRequest
from nexusform.ports import Kind
from nexusform.scheduling.world import Inventory


class Blocks:
    """Plans blocks one after the other; collects instances, problems and checks."""

    def __init__(
        self,
        request: PlanRequest,
        selection: Selection,
        prior: Prior,
        bodies: PreparedBodies,
        inventory: Inventory,
    ) -> None:
        self.request = request
        self.selection = selection
        self.prior = prior
        self.bodies = bodies
        self.inventory = inventory
        self.instances: dict[Address, Instance] = {}
        self.left_out: list[str] = []
        self.decided: dict[tuple[ModulePath, str, str], dict[Key, Instance]] = {}
        self.diagnostics: list[Diagnostic] = []
        self.checks: list[CheckResult] = []
        self.needs: Mapping[ConfigAddress, tuple[ConfigAddress, ...]] = {}
        self.create_first: frozenset[ConfigAddress] = frozenset()
        self._adjusted: dict[Address, list[tuple[tuple[str | int, ...], object]]] = {}
        for adjustment in request.adjustments:
            self._adjusted.setdefault(adjustment.address, []).append((adjustment.path, adjustment.value))

    def expanded(
        self, block: ResourceBlock, evaluation: Evaluation, *, late_allowed: bool = False
    ) -> list[Instance] | None:
        """The instances of a block in planning order, prior ones that go included (as DELETE).

        None: count or for_each is not known in this pass (only with `late_allowed`).
        """
        resource_type = self.request.registries.resource_types[block.type]
        prepared = self.bodies.of(block)
        found: list[Instance] = []
        for module in evaluation.module_instances(block.address.module):
            scope = evaluation.scope(module)
            expansion, problems = expand(
                block.count,
                block.for_each,
                partial(evaluation.evaluated, scope=scope),
                block.header,
            )
            self.diagnostics += problems
            if expansion is not None and expansion.unknown:
                if late_allowed:
                    return None
                self.diagnostics.append(unknown_repetition(expansion.unknown, block, block.header))
                expansion = None
            if expansion is None or prepared is None:
                evaluation.resources[address_key(block.address, module.path)] = ResourceView("")
                found += self._standing(block, module)
                continue
            evaluation.resources[address_key(block.address, module.path)] = ResourceView(expansion.shape)
            for repetition in expansion.repetitions:
                address = Address(module.path, "managed", block.type, block.name, repetition.key)
                instance = Instance(
                    address, resource_type, self.prior.object(address), block, module, repetition
                )
                if not self.selection.has(address):
                    instance.prepared = prepared
                    self._leave_out(instance, evaluation)
                    if instance.prior is None:  # what refers to it must not take it for absent
                        view = evaluation.resource_view(address)
                        view.items[address.key] = ObjectView(None, (), resource_type.schema)
                    continue
                imported = self.request.imports.get(address)
                instance.importing = imported.id if imported is not None else ""
                instance.prepared = prepared
                instance.broken = block.address in self.bodies.flawed
                instance.dependencies = tuple(sorted(str(a) for a in self.needs.get(block.address, ())))
                instance.create_first = block.address in self.create_first
                state = self.prior.instances.get(address)
                instance.deposed = state.deposed if state is not None else {}
                found.append(instance)
        paths = {module.path for module in evaluation.module_instances(block.address.module)}
        found += self._orphans(block, found, paths)
        return found

    def _leave_out(self, instance: Instance, evaluation: Evaluation) -> None:
        """Remember a rack or machine that would be new or different: its room is not seen."""
        if (
            instance.type.kind not in (Kind.RACK, Kind.MACHINE)
            or instance.address.config in self.bodies.flawed
        ):
            return
        found = len(evaluation.diagnostics)
        evaluate_arguments(instance, evaluation)
        del evaluation.diagnostics[found:]
        before = instance.before
        if before is None or any(before.get(name) != v for name, v in (instance.config or {}).items() if v):
            self.left_out.append(str(instance.address))

    def _standing(self, block: ResourceBlock, module: ModuleInstance) -> list[Instance]:
        """Prior instances of a block that cannot be expanded: they stay as they are."""
        here = self.prior.by_block.get(block.address, ())
        return [self.left_alone(address) for address in here if address.module == module.path]

    def left_alone(self, address: Address) -> Instance:
        """An instance that this plan does not touch."""
        resource_type = self.request.registries.resource_types[address.type]
        instance = Instance(address, resource_type, self.prior.object(address))
        if instance.prior is not None:
            instance.planned = dict(instance.prior.attributes)
            instance.sensitive = instance.prior.sensitive
            instance.dependencies = instance.prior.dependencies
        return instance

    def _orphans(
        self, block: ResourceBlock, wanted: Iterable[Instance], paths: Container[ModulePath]
    ) -> list[Instance]:
        known = {instance.address for instance in wanted}
        gone = [a for a in self.prior.by_block.get(block.address, ()) if a not in known]
        found = []
        for address in sorted(gone, key=lambda a: (address_order(a.resource), key_order(a.key))):
            if self.selection.has(address):
                going = self.going(address, block)
                if address.module not in paths and going.action is Action.DELETE:
                    going.reason = "delete_because_no_module"
                found.append(going)
            else:
                found.append(self.left_alone(address))
        return found

    def going(self, address: Address, block: ResourceBlock | None) -> Instance:
        """An instance that is in state and no longer wanted."""
        instance = self.left_alone(address)
        instance.planned = None
        instance.deposed = self.prior.instances[address].deposed
        instance.action = Action.DELETE
        if block is None:
            instance.reason = "delete_because_no_resource_config"
        elif block.count is not None:
            in_range = isinstance(address.key, int)
            instance.reason = "delete_because_count_index" if in_range else "delete_because_wrong_repetition"
        elif block.for_each is not None:
            by_key = isinstance(address.key, str)
            instance.reason = "delete_because_each_key" if by_key else "delete_because_wrong_repetition"
        else:
            instance.reason = "delete_because_wrong_repetition"
        if instance.prior is None:
            instance.action = Action.NO_OP
        return instance

    def arguments(self, instance: Instance, evaluation: Evaluation) -> list[Diagnostic]:
        """Evaluate an instance's arguments, with the adjustments of a tried way out."""
        problems = evaluate_arguments(instance, evaluation)
        for path, value in self._adjusted.get(instance.address, ()):
            assert instance.config is not None
            instance.config = _with(instance.config, path, value)
        return problems

    def plan_ordinary(self, block: ResourceBlock, evaluation: Evaluation) -> None:
        """Plan a block whose type places nothing."""
        for instance in self.expanded(block, evaluation) or ():
            if instance.block is not None and not instance.going:
                self.diagnostics += self.arguments(instance, evaluation)
                waiting = undecided(instance)
                self.diagnostics += [undecided_error(instance, path) for path in waiting]
                instance.broken |= bool(waiting)
                self.conclude(instance, {}, evaluation)
            self.keep(instance, evaluation)

    def conclude(self, instance: Instance, computed: Mapping[str, object], evaluation: Evaluation) -> None:
        """Decide what becomes of an instance whose arguments are known."""
        assert instance.config is not None
        resource_type = instance.type
        if not instance.forced and is_triggered(instance, self.decided, evaluation):
            instance.forced = "replace_by_triggers"
        values = {**instance.config}
        known = {"id": resource_type.identify(values)} if not instance.broken else {}
        if resource_type.derive is not None and not instance.broken:
            known |= resource_type.derive(values)
        decide(instance, {**known, **computed}, requested=self.selection.replaces(instance.address))
        if not instance.broken:
            found, checks = check_conditions(instance, evaluation)
            self.diagnostics += found
            self.checks += checks

    def note(self, instance: Instance) -> None:
        """Its action is decided: replace_triggered_by may look at it."""
        address = instance.address
        self.decided.setdefault((address.module, address.type, address.name), {})[address.key] = instance

    def keep(self, instance: Instance, evaluation: Evaluation) -> None:
        """Remember an instance: for references, for the inventory, for the plan."""
        self.instances[instance.address] = instance
        self.note(instance)
        self.request.planned()
        if instance.going or (instance.planned is None and not instance.broken):
            return
        address = instance.address
        view = evaluation.resource_view(address)
        view.items[address.key] = instance.view
        if instance.type.offer is not None and not instance.broken and instance.planned is not None:
            problems = instance.type.offer(instance.planned, str(address), self.inventory)
            self.diagnostics += [instance.problem(p) for p in problems]


def _with(config: dict[str, object], path: tuple[str | int, ...], value: object) -> dict[str, object]:
    copy = dict(config)
    head = str(path[0])
    if len(path) == 1:
        copy[head] = value
    else:
        inner = copy.get(head)
        copy[head] = _with(dict(inner) if isinstance(inner, dict) else {}, path[1:], value)
    return copy
