"""Explanation of the placement of an object, from a saved plan, a new plan or the state."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from shlex import quote
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.backends.memory import MemoryBackend
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    select_errors,
    suggest_name,
)
from nexusform.diagnostics.phrases import format_list
from nexusform.domain_table import LazyTable, collect_explainers_by_resource_type
from nexusform.json_data.plain_data import get_mapping
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import get_kind_noun
from nexusform.placements.vm_demands import PlacedVm, PoolDemand
from nexusform.planning.conclusion.plan_result import ExplainedVm, PlanResult
from nexusform.planning.modules.root_outputs import build_inventory_read
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.planner import make_plan
from nexusform.planning.verdicts.placement_fit import DOES_NOT_FIT
from nexusform.planning.vm_planning.vm_object import find_placement_origin, get_previous_machine
from nexusform.plans.plan import InventoryRead, PlacementAction, PlacementChange
from nexusform.rendering.answers.explanation_text import (
    DomainAnswer,
    PoolPlacement,
    VmCountByTrigger,
)
from nexusform.resources.address import (
    Address,
    AddressPattern,
    AddressProblem,
    compute_address_order,
    parse_pattern,
)
from nexusform.scheduling.placement_decision import PlacementCertainty
from nexusform.scheduling.racks.vms import Placement
from nexusform.snapshots.machine_alternatives import MachineAlternative, list_alternative_machines
from nexusform.snapshots.snapshot import (
    build_snapshot,
    list_planned_objects,
    list_recorded_machines,
)
from nexusform.state.objects import State, get_current_object
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.opening.stored_state import StoredState, read_stored_state
from nexusform.workflow.plan_files.saved_plans import (
    open_saved_plan,
    read_complete_plan,
    read_plan,
    read_prior_state,
)
from nexusform.workflow.runs.run import build_base_request, build_plan_request

# (request, address, object name or "") -> the answer, or None.
Explainer: TypeAlias = Callable[[PlanRequest, AddressPattern, str], DomainAnswer | None]

_EXPLAINERS: Final[Mapping[str, Explainer]] = LazyTable(collect_explainers_by_resource_type())
# With the note of its object.
_CurrentVm: TypeAlias = tuple[Address, PlacedVm, Mapping[str, Any]]
# The request (None after errors), problems, and the files read.
_RequestResult: TypeAlias = tuple[PlanRequest | None, list[Diagnostic], Mapping[str, SourceFile]]
# Attributes with VMs and bindings by name.
_OBJECT_ATTRIBUTES = ("nodes", "vnfcs", "bindings")


class VmExplanation(Struct, frozen=True):
    """One object and the reason for its placement.

    `current_placement` is that of the state (None: new in the plan) with its `provenance`;
    `explained_vm` has the results of the rules. `alternatives` are the other machines of its site
    with the changes they need; `pool_size` is the number of VMs of its pool. `last_trigger` is the
    trigger and the serial of the apply that placed it, if recorded. `previous_machine` is the
    failed or evacuated machine that it left. `remedies` are suggested if it fits nowhere.
    `uncertainty` is a clause on why its machine is uncertain, such as an unread fact of the site.
    """

    address: Address
    object: str
    explained_vm: ExplainedVm
    current_placement: Placement | None = None
    serial: int = 0
    certainty: PlacementCertainty | None = None
    samples: int = 0
    provenance: str = ""
    alternatives: tuple[MachineAlternative, ...] = ()
    pool_size: int = 1
    last_trigger: tuple[str, int] | None = None
    previous_machine: str = ""
    remedies: tuple[Mapping[str, Any], ...] = ()
    uncertainty: str = ""


class Explanations(Struct, frozen=True):
    """The answer, or its errors.

    Without an object name it has the `pools` of the resource, or else `objects`, the names to
    choose from. `removals` are the rows of removed VMs of that name, `domain_answer` that of a
    domain about its object. `inventories` are those behind the answer, `inventory` is the age of
    the oldest one, "" without one.
    """

    reasons: tuple[VmExplanation, ...] = ()
    domain_answer: DomainAnswer = field(default_factory=DomainAnswer)
    pools: tuple[PoolPlacement, ...] = ()
    removals: tuple[PlacementChange, ...] = ()
    objects: tuple[str, ...] = ()
    inventory: str = ""
    inventories: tuple[InventoryRead, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


def explain_object(
    context: CommandContext, address: str, name: str, plan_path: str = ""
) -> Explanations:
    """Explain the placement of `name` at a resource address.

    With name "", `address` may be the name of an object.
    """
    try:
        pattern = parse_pattern(address)
    except AddressProblem as problem:
        owners = [] if name else _find_owners(context, address, plan_path)
        if len(owners) == 1:  # `explain NAME`
            return explain_object(context, owners[0], address, plan_path)
        reason = f'"{address}" is an object of {format_list(owners)}.' if owners else str(problem)
        hint = (
            "Write the resource address before the object: nexusform explain ADDRESS "
            f"{quote(address)}"
        )
        return Explanations(diagnostics=(build_error("invalid-address", f"{reason} {hint}"),))
    request, problems, sources = _build_request(context, plan_path)
    if request is None:
        return Explanations(diagnostics=tuple(problems), sources=sources)
    explainer = _EXPLAINERS.get(pattern.type)
    domain_answer = explainer(request, pattern, name) if explainer is not None else None
    # Not an object with VMs: its domain explains it.
    if domain_answer is not None:
        answer = Explanations(
            domain_answer=domain_answer,
            inventories=domain_answer.inventories,
            diagnostics=tuple(domain_answer.diagnostics),
        )
    else:
        answer = _ExplanationQuery(request, pattern, name).explain()
    from nexusform.rendering.report.plan_sentences import describe_inventory_age

    # Recorded times of inventories that no data block of the plan reads: those of providers.
    recorded = {
        address: build_inventory_read(address, time, request.now)
        for address, time in request.state.exports.items()
    }
    read_now = {item.address: item for item in answer.inventories}
    inventories = tuple((recorded | read_now).values())
    return replace(
        answer,
        inventory=describe_inventory_age([read.exported_at for read in inventories], request.now),
        inventories=inventories,
        diagnostics=(*problems, *answer.diagnostics),
        sources=sources,
    )


def _find_owners(context: CommandContext, name: str, plan_path: str) -> list[str]:
    """Return the addresses of the resources with an object of this name.

    They are those of the plan, else of the state.
    """
    saved, _ = read_plan(plan_path, context) if plan_path else (None, [])
    rows = saved.plan.placements if saved is not None else ()
    owners = dict.fromkeys(
        str(row.address) for row in rows if name in {row.object, row.platform_name}
    )
    request, _, _ = _build_request(context, plan_path) if not owners else (None, [], {})
    for address, current in request.state.list_current_objects() if request is not None else ():
        # Objects by name.
        groups = [get_mapping(current.attributes, attribute) for attribute in _OBJECT_ATTRIBUTES]
        objects = [item for group in groups for item in group.items()]
        if any(name in {key, get_mapping(value).get("platform_name")} for key, value in objects):
            owners[str(address)] = None
    return list(owners)


def _build_request(context: CommandContext, plan_path: str) -> _RequestResult:
    """Build the request of a saved plan or a new one; None with errors.

    Also return the files read.
    """
    if plan_path:
        return _build_saved_plan_request(context, plan_path)
    opened = open_project(context)
    problems = list(opened.diagnostics)
    if opened.project is None:
        return None, problems, opened.sources
    stored, new_problems = read_stored_state(opened.project.backend)
    problems += new_problems
    request = build_base_request(opened.project, stored) if stored is not None else None
    return request, problems, opened.sources


def _build_saved_plan_request(context: CommandContext, plan_path: str) -> _RequestResult:
    """Build a saved plan's request, with its time and prior state; None with errors.

    Also return the files read.
    """
    saved, problems = read_complete_plan(plan_path, context)
    if saved is None:
        return None, problems, {}
    # The plan has the prior state: no backend is read.
    opened = open_saved_plan(context, saved, MemoryBackend())
    problems += opened.diagnostics
    prior, new_problems = read_prior_state(saved, plan_path)
    problems += new_problems
    if opened.project is None or prior is None:
        return None, problems, opened.sources
    plan = saved.plan
    request = build_plan_request(opened.project, StoredState(prior), plan)
    return (
        replace(request, now=plan.start.timestamp, workspace=plan.options.workspace),
        problems,
        opened.sources,
    )


class _ExplanationQuery(Struct, frozen=True):
    """A query about one object or the pools of an address."""

    request: PlanRequest
    pattern: AddressPattern
    name: str

    def explain(self) -> Explanations:
        """Explain the VM or pool with `self.name`; "" is the only VM, or else all pools.

        A VM placed or removed by the plan is explained from it. An unchanged VM is planned again,
        as if new. The name of a VM on the platform is accepted, too.
        """
        plain_request = replace(self.request, samples=0, includes_remedies=False)
        planned = make_plan(plain_request)
        return replace(
            self._explain_planned(planned), inventories=planned.plan.observed.inventories
        )

    def _explain_planned(self, planned: PlanResult) -> Explanations:
        """Explain from the plan, or plan an unchanged VM again."""
        current_vms = self._index_current_vms()
        names = self._list_vm_names(planned, current_vms)
        names_by_platform_name = {
            vm.platform_name or name: name for name, (_, vm, _) in current_vms.items()
        }
        errors = tuple(select_errors(planned.diagnostics))
        # No VM at the address.
        if not names:
            return Explanations(
                diagnostics=(*errors, self._build_nothing_to_explain_error(planned))
            )
        is_vm_name = self.name in {*names, *names_by_platform_name}
        # The name may be that of a pool; it is "" for all pools.
        if not is_vm_name and (self.name or len(names) > 1):
            pools = explain_pools(planned, self.request.state, self.pattern, self.name)
            if pools or not self.name:
                return Explanations(pools=pools, objects=names, diagnostics=errors)
        # For "" the only VM.
        name = names_by_platform_name.get(self.name, self.name) or names[0]
        if name not in names:
            suggestion = suggest_name(name, [*names, *names_by_platform_name])
            error = build_error(
                "no-such-object", f'{self.pattern} has no object "{name}".{suggestion}'
            )
            return Explanations(diagnostics=(error,))
        # Suggested fixes take long to compute, so only for a VM without capacity.
        is_unplaceable = any(name in vms.list_failed_names() for vms in planned.objects.values())
        replanned = self._plan_with_explanation(
            self.request, planned.objects, name, includes_remedies=is_unplaceable
        )
        explanations = self._explain_vm(replanned, name)
        # The plan places it.
        if explanations:
            return Explanations(tuple(explanations), diagnostics=errors)
        removals = self._list_removals(planned, name)
        if removals:
            return Explanations(removals=removals, diagnostics=errors)
        explanations = self._plan_existing_again(current_vms, name)
        if not explanations:
            detail = f'This plan does not schedule "{name}", so there is nothing to explain.'
            errors = (*errors, build_error("nothing-to-explain", detail))
        return Explanations(tuple(explanations), diagnostics=errors)

    def _list_removals(self, planned: PlanResult, name: str) -> tuple[PlacementChange, ...]:
        """Return the rows of the plan for removed VMs of this name.

        Only addresses matching the pattern count.
        """
        rows = planned.plan.placements
        vm_removals = [
            row for row in rows if row.kind == VM and row.action is PlacementAction.REMOVE
        ]
        return tuple(
            row for row in vm_removals if row.object == name and self.pattern.is_match(row.address)
        )

    def _plan_with_explanation(
        self,
        request: PlanRequest,
        addresses: Iterable[Address],
        name: str,
        *,
        includes_remedies: bool = False,
    ) -> PlanResult:
        """Plan again, and record explanations of the VM `name`.

        Each address matching the pattern gets its own explanation.
        """
        explained_vms = tuple(
            (str(address), name) for address in addresses if self.pattern.is_match(address)
        )
        return make_plan(
            replace(request, explain=explained_vms, includes_remedies=includes_remedies)
        )

    def _index_current_vms(self) -> dict[str, _CurrentVm]:
        """Index the VMs in the state at the pattern by name.

        Each has the address and the private note of its object; the last of equal names counts.
        """
        vms: dict[str, _CurrentVm] = {}
        objects = self.request.state.list_current_objects()
        for address, current in sorted(objects, key=lambda entry: compute_address_order(entry[0])):
            kind = self.request.registries.resource_types.get(address.type)
            if kind is None or kind.vms is None or not self.pattern.is_match(address):
                continue
            for vm in kind.vms.list_existing_vms(current.attributes):
                vms[vm.name] = (address, vm, current.note)
        return vms

    def _list_vm_names(
        self, planned: PlanResult, current_vms: Mapping[str, object]
    ) -> tuple[str, ...]:
        """List the VMs at the address: existing, placed and unplaceable ones."""
        # A set in order.
        names = dict.fromkeys(current_vms)
        for address, planned_object in planned.objects.items():
            if not self.pattern.is_match(address):
                continue
            # By pool and number: VMs placed by this plan, and VMs without capacity.
            planned_keys = (
                planned_object.placements.new_handles.keys()
                | planned_object.placements.failures.keys()
            )
            for pool in planned_object.pools:
                for number, name in zip(pool.numbers, pool.names, strict=True):
                    if (pool.pool, number) in planned_keys:
                        names[name] = None
        return tuple(names)

    def _explain_vm(self, planned: PlanResult, name: str) -> list[VmExplanation]:
        """Return a VM's explanations with alternatives and remedies.

        The list is empty if the plan did not place the VM.
        """
        rows = {(row.address, row.object): row for row in planned.plan.placements}
        # The plan was made with explanations of this VM only.
        if not planned.explanations:
            return []
        # As after an apply of the plan.
        objects = list_planned_objects(planned.plan, self.request.state)
        registries = self.request.registries
        snapshot = build_snapshot(
            objects,
            registries,
            planned.plan.start.catalogue,
            list_recorded_machines(self.request.state, registries),
        )
        explanations = []
        ledger = planned.plan.ledger
        for explained_vm in planned.explanations:
            planned_object = planned.objects[explained_vm.address]
            assert planned_object.request.demand is not None, (
                "the plan explains only VMs that are requested"
            )
            site = snapshot.sites.get(planned_object.request.demand.site_id)
            demand = explained_vm.explanation.demand
            placement = explained_vm.explanation.placement
            machine = placement.machine if placement is not None else ""
            row = rows.get((explained_vm.address, name))
            clauses = [
                ledger.explain_uncertain_hosts(table.placed_pool)
                for table in planned.plan.figures.placement_tables
                if row is not None and (table.address, table.pool) == (row.address, row.pool)
            ]
            explanation = VmExplanation(
                address=explained_vm.address,
                object=name,
                explained_vm=explained_vm,
                certainty=row.certainty if row is not None else None,
                samples=planned.plan.figures.samples,
                alternatives=list_alternative_machines(site, demand, machine)
                if site is not None
                else (),
                pool_size=next(
                    (len(pool.numbers) for pool in planned_object.pools if name in pool.names), 1
                ),
                # "" unless the VM had to leave it.
                previous_machine=planned_object.get_left_machines().get(name, ""),
                # Only if it fits nowhere.
                remedies=_get_capacity_remedies(planned) if placement is None else (),
                uncertainty=next(filter(None, clauses), ""),
            )
            explanations.append(explanation)
        return explanations

    def _plan_existing_again(
        self, current_vms: Mapping[str, _CurrentVm], name: str
    ) -> list[VmExplanation]:
        """Explain an existing VM by a plan without it in the state, so it is placed again.

        Return [] if the VM is new.
        """
        if name not in current_vms:
            return []
        # `note`: private data of the object, with the reasons of placements.
        address, vm, note = current_vms[name]
        state = _remove_vm(self.request.state, address, name)
        request = replace(self.request, state=state, replaces=(), targets=(), excludes=())
        explanations = self._explain_vm(self._plan_with_explanation(request, [address], name), name)
        serial = self.request.state.serial
        last_trigger = find_placement_origin(note, name)
        previous_machine = get_previous_machine(note, name)
        return [
            replace(
                explanation,
                current_placement=vm.placement,
                serial=serial,
                provenance=vm.provenance,
                last_trigger=last_trigger,
                previous_machine=previous_machine,
            )
            for explanation in explanations
        ]

    def _build_nothing_to_explain_error(self, planned: PlanResult) -> Diagnostic:
        """Build the error for an address without VMs.

        Its placements have no rules, or it has none at all.
        """
        rows = (
            row
            for row in planned.plan.placements
            if row.kind != VM and self.pattern.is_match(row.address)
        )
        nouns = sorted({get_kind_noun(row.kind) for row in rows})
        if nouns:
            return build_error(
                "nothing-to-explain",
                f"Placements at {self.pattern} ({format_list(nouns)}) have no scheduling rules to "
                "explain. To see where they are, run `nexusform plan -details`.",
            )
        known = [
            *map(str, self.request.state.instances),
            *(str(block.address) for block in self.request.configuration.root.resources.values()),
        ]
        # For a wrong address.
        suggestion = "" if str(self.pattern) in known else suggest_name(str(self.pattern), known)
        detail = f"Neither the state nor the plan has placements at {self.pattern}.{suggestion}"
        return build_error("nothing-to-explain", detail)


def _remove_vm(state: State, address: Address, name: str) -> State:
    """Return the state without a VM.

    If no attribute lists VMs by name, the object is the VM and is removed.
    """
    instance = state.instances[address]
    assert instance.current is not None, "the instance exists"
    attributes = dict(instance.current.attributes)
    for attribute, value in instance.current.attributes.items():
        if isinstance(value, Mapping) and name in value:
            attributes[attribute] = {key: vm_data for key, vm_data in value.items() if key != name}
    if attributes == instance.current.attributes:
        return state.replace_instance(address, instance=None)
    return state.replace_instance(
        address, replace(instance, current=replace(instance.current, attributes=attributes))
    )


def _get_capacity_remedies(planned: PlanResult) -> tuple[Mapping[str, Any], ...]:
    """Return the suggested fixes for VMs without capacity; () if none were computed.

    All such errors have the same.
    """
    for diagnostic in planned.diagnostics:
        if diagnostic.id == DOES_NOT_FIT:
            return tuple(diagnostic.extra["fit"].get("suggested_fixes", ()))
    return ()


def explain_pools(
    planned: PlanResult, state: State, pattern: AddressPattern, name: str
) -> tuple[PoolPlacement, ...]:
    """Return the pools at the pattern; with a `name`, only the pool of this name.

    A pool has its placement table, its zones (None: all), and the reasons (triggers) of the
    placements of its VMs.
    """
    rows = {(row.address, row.object): row for row in planned.plan.placements if row.kind == VM}
    placements: list[PoolPlacement] = []
    for table in planned.plan.figures.placement_tables:
        if not pattern.is_match(table.address) or name not in ("", table.pool):
            continue
        planned_object = planned.objects.get(table.address)
        configured_pools = planned_object.pools if planned_object is not None else ()
        pool = next((pool for pool in configured_pools if pool.pool == table.pool), None)
        # A pool of an earlier configuration.
        if pool is None:
            continue
        zones = None if pool.zones is None else tuple(sorted(pool.zones))
        origins = _collect_placement_origins(table.address, pool, rows, state)
        placements.append(PoolPlacement(table.address, table, zones, origins, pool.names))
    return tuple(placements)


def _collect_placement_origins(
    address: Address,
    pool: PoolDemand,
    rows: Mapping[tuple[Address, str], PlacementChange],
    state: State,
) -> tuple[VmCountByTrigger, ...]:
    """Count a pool's VMs by the recorded reason of placement (trigger) and serial of its apply.

    The serial is None for VMs that this plan places or moves.
    """
    current = get_current_object(state.instances.get(address))
    # Private data in state, with the origins of placements.
    note = current.note if current is not None else {}
    counts: Counter[tuple[str, int | None]] = Counter()
    for name in pool.names:
        row = rows.get((address, name))
        if row is not None and row.action in (PlacementAction.PLACE, PlacementAction.MOVE):
            counts[row.trigger, None] += 1
        elif (origin := find_placement_origin(note, name)) is not None:
            counts[origin] += 1
    return tuple(
        VmCountByTrigger(trigger, serial, count) for (trigger, serial), count in counts.items()
    )
