"""Blocks to instances: expansion, arguments, how an ordinary resource is planned, and the instances whose
block is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address, ConfigAddress, Key, ModulePath, address_order, key_order
from nexusform.configuration.declared.configuration import ResourceBlock
from nexusform.configuration.declared.limits import beyond
from nexusform.diagnostics import Diagnostic, Problem, Severity, error, warning
from nexusform.plain_data import Path
from nexusform.planning.instances import argument_evaluation
from nexusform.planning.instances.condition_verdicts import check_conditions
from nexusform.planning.instances.difference import decide, is_triggered
from nexusform.planning.instances.instance import WITH_ITS_PLACE, Arguments, Decision, Instance
from nexusform.planning.names.evaluation import Evaluation, ResourceKey, address_key, unknown_repetition
from nexusform.planning.names.repetition import ObjectView, Repetition, ResourceView
from nexusform.planning.names.scope import ModuleInstance
from nexusform.planning.names.setting import PreparedBodies
from nexusform.planning.preparation.moves import only_forgets
from nexusform.planning.preparation.order import Order, created_first
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.preparation.selection import Selection
from nexusform.planning.request import PlanRequest, Stage
from nexusform.plans.plan import Action, CheckResult
from nexusform.plans.room.occupancy import take_note
from nexusform.ports import UNFINISHED, Kind
from nexusform.scheduling.world import Inventory
from nexusform.state.objects import ObjectState


class Expanded(Struct, frozen=True):
    """The instances of a block in planning order, prior ones that go included (as DELETE)."""

    instances: list[Instance]
    diagnostics: list[Diagnostic]


class Blocks:
    """Plans the blocks of one plan, one after the other.

    What it collects: `instances` in planning order, the `inventory` that they offer, `checks`,
    `diagnostics`, the actions that are decided (`decided`, for replace_triggered_by), and the racks and
    machines that the selection leaves out though they would be new or different (`left_out`).
    """

    def __init__(
        self,
        request: PlanRequest,
        prior: Prior,
        order: Order,
        selection: Selection,
        bodies: PreparedBodies,
    ) -> None:
        self.request = request
        self.prior = prior
        self.order = order
        self.selection = selection
        self.bodies = bodies
        self.instances: dict[Address, Instance] = {}
        self.inventory = Inventory()
        self._expanded: dict[ResourceKey, int] = {}
        self._amounts = {"instances": 0, "machines": 0}
        self._evaluated = 0
        self.checks: list[CheckResult] = []
        self.diagnostics: list[Diagnostic] = []
        self.decided: dict[tuple[ModulePath, str, str], dict[Key, Instance]] = {}
        self.left_out: list[str] = []
        self._replaced_places: set[str] = set()  # ids of sites and racks
        self._created_first = created_first(order)
        self._adjusted: dict[Address, list[tuple[Path, object]]] = {}
        for adjustment in request.adjustments:
            self._adjusted.setdefault(adjustment.address, []).append((adjustment.path, adjustment.value))

    # --- blocks to instances ---

    def expanded(
        self, block: ResourceBlock, evaluation: Evaluation, *, may_wait: bool = False
    ) -> Expanded | None:
        """The instances of a block. None: count or for_each is not known in this pass (only with
        `may_wait`; it is an error otherwise).
        """
        prepared = self.bodies.of(block)
        diagnostics: list[Diagnostic] = []
        instances: list[Instance] = []
        modules = evaluation.module_instances(block.address.module)
        for module in modules:
            expansion, problems = evaluation.expansion(block, evaluation.scope(module))
            diagnostics += problems
            if expansion is not None and expansion.unknown:
                if may_wait:
                    return None
                diagnostics.append(unknown_repetition(expansion.unknown, block))
                expansion = None
            key = address_key(block.address, module.path)
            if expansion is None or prepared is None:
                evaluation.resources[key] = ResourceView("")
                instances += self._left_alone_in(block, module)
            else:
                evaluation.resources[key] = ResourceView(expansion.shape)
                self._count("instances", len(expansion.repetitions) - self._expanded.get(key, 0))
                self._expanded[key] = len(expansion.repetitions)
                instances += self._configured(block, module, expansion.repetitions, evaluation)
        present = {instance.address for instance in instances}
        instances += self._gone(block, present, {module.path for module in modules})
        return Expanded(instances, diagnostics)

    def _configured(
        self,
        block: ResourceBlock,
        module: ModuleInstance,
        repetitions: Iterable[Repetition],
        evaluation: Evaluation,
    ) -> Iterator[Instance]:
        """The instances that the configuration asks for, without those that the selection leaves out."""
        resource_type = self.request.registries.resource_types[block.type]
        dependencies = tuple(sorted(str(need) for need in self.order.needs.get(block.address, ())))
        for repetition in repetitions:
            address = Address(module.path, "managed", block.type, block.name, repetition.key)
            imported = self.prior.imports.get(address)
            instance = Instance(
                address=address,
                type=resource_type,
                prior=self.prior.object(address),
                block=block,
                module=module,
                repetition=repetition,
                prepared=self.bodies.of(block),
                dependencies=dependencies,
                create_first=block.address in self._created_first,
                broken=block.address in self.bodies.flawed,
                importing=imported.id if imported is not None else "",
                deposed=self.prior.deposed(address),
                previous=self.prior.previous.get(address),
            )
            if self.selection.has(address):
                yield instance
            else:
                self._leave_out(instance, evaluation)

    def _leave_out(self, instance: Instance, evaluation: Evaluation) -> None:
        """An instance that the selection leaves out. What refers to a new one must not take it for absent,
        and the room of a rack or machine that would be new or different is not seen.
        """
        if instance.prior is None:
            view = evaluation.resource_view(instance.address)
            view.items[instance.address.key] = ObjectView(None, (), instance.type.schema)
        if instance.type.kind in (Kind.RACK, Kind.MACHINE) and not instance.broken:
            argument_evaluation.evaluate(instance, evaluation.reporting())
            before = instance.before
            written = (instance.config or {}).items()
            if before is None or any(value and before.get(name) != value for name, value in written):
                self.left_out.append(str(instance.address))

    def _left_alone_in(self, block: ResourceBlock, module: ModuleInstance) -> list[Instance]:
        """Prior instances of a block that cannot be expanded: they stay as they are."""
        addresses = self.prior.by_block.get(block.address, ())
        return [self.left_alone(address) for address in addresses if address.module == module.path]

    def _gone(
        self, block: ResourceBlock, present: Collection[Address], modules: Collection[ModulePath]
    ) -> Iterator[Instance]:
        """The prior instances of a block that are not among the `present` any more; `modules` are the paths
        of the instances of its module.
        """
        standing = self.prior.by_block.get(block.address, ())
        gone = [address for address in standing if address not in present]
        gone.sort(key=lambda address: (address_order(address.resource), key_order(address.key)))
        for address in gone:
            if not self.selection.has(address):
                yield self.left_alone(address)
                continue
            is_without_module = address.module not in modules and self.prior.object(address) is not None
            yield self.going(
                address, "delete_because_no_module" if is_without_module else _reason_gone(block, address.key)
            )

    def left_alone(self, address: Address, block: ResourceBlock | None = None) -> Instance:
        """An instance that this plan does not touch; `block`: what is written of it, if that counts."""
        prior = self.prior.object(address)
        planned = dict(prior.attributes) if prior is not None else None
        return self._standing(address, block, Decision(planned=planned))

    def going(self, address: Address, reason: str, block: ResourceBlock | None = None) -> Instance:
        """An instance that is in state and leaves it; of one that has only deposed objects, these go."""
        prior = self.prior.object(address)
        action = Action.NO_OP if prior is None else Action.DELETE
        return self._standing(address, block, Decision(action, reason=reason), self.prior.deposed(address))

    def forgotten(self, address: Address, reason: str) -> Instance:
        """An instance that leaves the state, and whose object runs on."""
        return self._standing(
            address, None, Decision(Action.FORGET, reason=reason), self.prior.deposed(address)
        )

    def _standing(
        self,
        address: Address,
        block: ResourceBlock | None,
        decision: Decision,
        deposed: Mapping[str, ObjectState] | None = None,
    ) -> Instance:
        """An instance that is in state, with what was decided of it."""
        prior = self.prior.object(address)
        return Instance(
            address,
            self.request.registries.resource_types[address.type],
            prior,
            block,
            dependencies=prior.dependencies if prior is not None else (),
            deposed=deposed or {},
            previous=self.prior.previous.get(address),
            arguments=Arguments(sensitive=prior.sensitive if prior is not None else ()),
            decision=decision,
        )

    # --- arguments and decisions ---

    def evaluate(self, instance: Instance, evaluation: Evaluation) -> list[Diagnostic]:
        """Evaluate an instance's arguments, with the adjustments of a tried way out."""
        problems = argument_evaluation.evaluate(instance, evaluation)
        self._evaluated += 1
        expected = self._expected()
        # Some are evaluated once more when places are known.
        self.request.progress(Stage.ARGUMENTS, min(self._evaluated, expected), expected)
        for path, value in self._adjusted.get(instance.address, ()):
            assert instance.config is not None
            config = _adjusted(instance.config, path, value)
            instance.arguments = replace(instance.arguments, config=config)
        return problems

    def evaluate_known(self, instance: Instance, evaluation: Evaluation) -> list[Diagnostic]:
        """Evaluate an instance's arguments; those that decide a placement must be known by now."""
        problems = self.evaluate(instance, evaluation)
        unknown = argument_evaluation.undecided(instance)
        problems += [argument_evaluation.undecided_error(instance, path) for path in unknown]
        instance.broken |= bool(unknown)
        return problems

    def plan_ordinary(self, block: ResourceBlock, evaluation: Evaluation) -> None:
        """Plan a block whose type places nothing."""
        expanded = self.expanded(block, evaluation)
        assert expanded is not None
        self.diagnostics += expanded.diagnostics
        for instance in expanded.instances:
            if instance.configured:
                self.diagnostics += self.evaluate_known(instance, evaluation)
                self.conclude(instance, {}, evaluation)
            self.keep(instance, evaluation)

    def preview(self, instance: Instance, evaluation: Evaluation) -> None:
        """Decide replace, update or keep before computed values are known; `conclude` decides for good."""
        self._force(instance, evaluation)
        assert instance.config is not None
        identity = {"id": instance.type.identify(instance.config)}
        requested = self.selection.replaces(instance.address)
        instance.decision = decide(instance, identity, requested=requested)

    def conclude(
        self,
        instance: Instance,
        computed: Mapping[str, object],
        evaluation: Evaluation,
        unsettled: frozenset[str] = frozenset(),
    ) -> None:
        """Decide what becomes of an instance whose arguments are known; `unsettled` are computed attributes
        that lack something.
        """
        self._force(instance, evaluation)
        assert instance.config is not None
        values = {**instance.config}
        known: dict[str, object] = {}
        if not instance.broken:
            known["id"] = instance.type.identify(values)
            if instance.type.derive is not None:
                known |= instance.type.derive(values)
        requested = self.selection.replaces(instance.address)
        decision = decide(instance, {**known, **computed}, requested=requested)
        instance.decision = replace(decision, unsettled=unsettled) if unsettled else decision
        self.diagnostics += due_again(instance)
        if not instance.broken:
            problems, checks = check_conditions(instance, evaluation)
            self.diagnostics += problems
            self.checks += checks

    def _force(self, instance: Instance, evaluation: Evaluation) -> None:
        """Replace what replace_triggered_by says, and racks and machines with the site or rack that they are
        in, although the id that they refer to stays equal.
        """
        if instance.forced:
            return
        if is_triggered(instance, self.decided, evaluation):
            instance.forced = "replace_by_triggers"
        elif self._goes_with_its_place(instance):
            instance.forced = WITH_ITS_PLACE

    def _goes_with_its_place(self, instance: Instance) -> bool:
        if not self._replaced_places or instance.prior is None:
            return False
        if instance.type.kind not in (Kind.RACK, Kind.MACHINE):
            return False
        config = instance.config or {}
        attributes = instance.type.schema.attributes.items()
        named = [config.get(name) for name, attribute in attributes if attribute.refers_to is not None]
        return not self._replaced_places.isdisjoint(each for each in named if isinstance(each, str))

    def note(self, instance: Instance) -> None:
        """Its action is decided: replace_triggered_by may look at it."""
        address = instance.address
        self.decided.setdefault((address.module, address.type, address.name), {})[address.key] = instance

    def _expected(self) -> int:
        """How many objects there will be, as far as blocks are expanded; each of the others counts once."""
        return self._amounts["instances"] + max(len(self.order.blocks) - len(self._expanded), 0)

    def keep(self, instance: Instance, evaluation: Evaluation) -> None:
        """Remember an instance: for references, for the inventory, for the plan."""
        self.instances[instance.address] = instance
        self.note(instance)
        done = len(self.instances)
        self.request.progress(Stage.OBJECTS, done, max(done, self._expected()))
        if instance.replaced and instance.type.offer is not None:
            self._replaced_places.add(str((instance.before or {}).get("id")))
        if instance.going or (instance.planned is None and not instance.broken):
            return
        show(instance, evaluation)
        if instance.type.offer is not None and not instance.broken and instance.planned is not None:
            problems = instance.type.offer(instance.planned, str(instance.address), self.inventory)
            if instance.prior is not None:
                take_note(self.inventory, instance.type, instance.planned, instance.prior.private)
            self.diagnostics += [instance.problem(problem) for problem in problems]
            self._look_at_offer(instance)

    def _look_at_offer(self, instance: Instance) -> None:
        """Count what was offered, and look at the cells of the first machine: a rack's are alike."""
        rack = self.inventory.racks.get(str(instance.address))
        machine = self.inventory.machines.get(str(instance.address))
        offered = rack.machines if rack is not None else ((machine.machine,) if machine is not None else ())
        self._count("machines", len(offered))
        limits = self.request.limits
        for each in offered[:1]:
            self._cell(instance, "cpus_per_cell", each.cpus_per_cell, limits.cpus_per_cell)
            self._cell(instance, "memory_gib_per_cell", each.memory_gib_per_cell, limits.memory_gib_per_cell)

    def _cell(self, instance: Instance, name: str, figure: int, most: int) -> None:
        if figure > most:
            detail = f'"{name}" must be between 1 and {most}, not {figure} (-limit={name}=N raises it).'
            problem = Problem(("machine", name), "invalid-value-for-argument", detail)
            self.diagnostics.append(instance.problem(problem))

    def _count(self, what: str, more: int) -> None:
        """Raises Refused when the plan has more of something than its limits say."""
        self._amounts[what] += more
        most = getattr(self.request.limits, what)
        if self._amounts[what] > most:
            raise beyond(what, what, most)


def due_again(instance: Instance) -> Iterator[Diagnostic]:
    """What is said of a change that failed and is sent once more, or that an earlier apply left under way."""
    noted = (instance.prior.private or {}).get(UNFINISHED) if instance.prior is not None else None
    if not noted or instance.action is not Action.UPDATE:
        return
    if noted.get("goes_on"):
        detail = f"{noted['words']} It is due until it is done: apply goes on with it."
        brief = str(noted.get("brief", ""))
        yield instance.problem(Problem((), "change-goes-on", detail, Severity.WARNING, brief=brief))
    else:
        detail = f"{noted['words']} It is due until it is done: apply sends it once more."
        yield instance.problem(Problem((), "change-failed-before", detail, Severity.WARNING))


def show(instance: Instance, evaluation: Evaluation) -> None:
    """Let expressions refer to an instance as it is now."""
    view = evaluation.resource_view(instance.address)
    view.items[instance.address.key] = instance.view


def _reason_gone(block: ResourceBlock, key: Key) -> str:
    """Why a block that is still there has no instance of this key (OpenTofu's action_reason)."""
    if block.count is not None and isinstance(key, int):
        return "delete_because_count_index"
    if block.for_each is not None and isinstance(key, str):
        return "delete_because_each_key"
    return "delete_because_wrong_repetition"


def _adjusted(config: dict[str, object], path: Path, value: object) -> dict[str, object]:
    """A copy of the arguments with another value at a path."""
    copy = dict(config)
    head = str(path[0])
    if len(path) == 1:
        copy[head] = value
    else:
        inner = copy.get(head)
        if isinstance(inner, list) and isinstance(path[1], int):
            blocks = list(inner)
            blocks[path[1]] = _adjusted(blocks[path[1]], path[2:], value)
            copy[head] = blocks
        else:
            copy[head] = _adjusted(dict(inner) if isinstance(inner, dict) else {}, path[1:], value)
    return copy


# --- instances whose block is gone -------------------------------------------------------------


class Orphans(Struct, frozen=True):
    """Orphans in the order of their creation: those that hold VMs, and all others."""

    with_vms: list[Instance]
    others: list[Instance]
    diagnostics: list[Diagnostic]


def orphans_of(blocks: Blocks) -> Orphans:
    """What goes because nothing in the configuration stands for it, or is left out of this plan."""
    configured = {block.address for block in blocks.order.blocks}
    types = blocks.request.registries.resource_types
    instances: list[Instance] = []
    diagnostics: list[Diagnostic] = []
    for block, addresses in blocks.prior.by_block.items():
        if block in configured or block.mode == "data":
            continue
        if block.type not in types:
            diagnostics.append(_unknown_type(block))
            continue
        for address in addresses:
            if not blocks.selection.has(address):
                instances.append(blocks.left_alone(address))
                continue
            moved = address in blocks.prior.previous
            reason = "delete_because_no_move_target" if moved else "delete_because_no_resource_config"
            forgets = only_forgets(blocks.request.configuration, address)
            if forgets and blocks.prior.object(address) is not None:
                instance = blocks.forgotten(address, reason)
                diagnostics.append(_forgets(address, instance.type.kind))
            else:
                instance = blocks.going(address, reason)
            instances.append(instance)
    instances.sort(key=_creation)
    with_vms = [instance for instance in instances if instance.type.vms is not None]
    without_vms = [instance for instance in instances if instance.type.vms is None]
    return Orphans(with_vms, without_vms, diagnostics)


def _creation(instance: Instance) -> tuple[object, ...]:
    creation = instance.prior.creation if instance.prior is not None else 0
    return creation, address_order(instance.address)


def _unknown_type(block: ConfigAddress) -> Diagnostic:
    return error(
        "unknown-resource-type-in-state",
        f"The state holds {block}, and this version of nexusform knows no type "
        f'"{block.type}". Use the version that made it, or forget the object with '
        f"`nexusform state rm {block}`.",
    )


def _forgets(address: Address, kind: Kind) -> Diagnostic:
    told = (
        "what it has on the site runs on, and nobody manages it any more. No plan gives the room of its VMs "
        "to others, until a provider or an inventory shows that it is free, or `nexusform state rm "
        "'nexus_rack.NAME:VM'` says so."
    )
    brief = ""
    if kind is Kind.MEMBER:
        told = (
            "on the hub it stays a member, and what runs there runs on. To this plan it left the fleet all "
            "the same: bindings and pods there leave the state as if they went."
        )
        brief = f"{address}: stays a member on the hub, where all runs on"
    text = f"{address} leaves the state and is not destroyed: {told}"
    return warning("object-will-be-forgotten", text, address=str(address), brief=brief)
