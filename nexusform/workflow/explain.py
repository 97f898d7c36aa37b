"""Why something is where it is: asked of a saved plan, of what is planned now, or of the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from shlex import quote
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address, AddressPattern, AddressProblem, address_order, parse_pattern
from nexusform.backends.memory import MemoryBackend
from nexusform.demands import PlacedVm, VmDemand
from nexusform.diagnostics import Diagnostic, Severity, did_you_mean, error
from nexusform.domain_table import Loaded, explainers_of_domains
from nexusform.placement_kinds.kinds import VM, noun_of
from nexusform.planning.conclusion.result import ExplainedVm, PlanResult
from nexusform.planning.planner import make_plan
from nexusform.planning.pool_reasons import explain_pools
from nexusform.planning.request import PlanRequest
from nexusform.planning.verdicts.fit import DOES_NOT_FIT
from nexusform.planning.vms.vm_object import left_by, placed_by
from nexusform.plans.impact.pool_reason import PoolReason
from nexusform.plans.plan import PlacementAction, PlacementChange
from nexusform.ports import Registries
from nexusform.rendering.answers.domain_answer import DomainAnswer
from nexusform.scheduling.decision import Certainty
from nexusform.scheduling.racks.vms import Placement
from nexusform.source import SourceFile
from nexusform.state.objects import State
from nexusform.words import listed
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.project import Opened, Project, open_project
from nexusform.workflow.opening.stored import Stored, read_stored
from nexusform.workflow.plan_files.saved_plans import open_saved, prior_of, read_plan
from nexusform.workflow.runs.run import base_request
from nexusform.worlds.other_places import Way, find_ways
from nexusform.worlds.world_view import things_after, view_world

# (request, address, name of an object or "") -> the answer; None where the domain has none.
Explainer: TypeAlias = Callable[[PlanRequest, AddressPattern, str], DomainAnswer | None]

_EXPLAINERS: Final[Mapping[str, Explainer]] = Loaded(explainers_of_domains())
# The attributes that hold VMs and bindings by name.
_HOLD_OBJECTS = ("nodes", "vnfcs", "bindings")


class Reason(Struct, frozen=True):
    """One object and why it is where it is.

    `stands` is where state has it (None: it is new in the plan) and `provenance` how that is known;
    `explained` what the rules say. `ways` are the other machines of its site and what would have to
    change there; `pool_size` how many VMs its pool has. `came` is the trigger and the serial of the apply
    that placed it there, as far as state remembers, `left` the machine that it left then, or leaves now,
    because that failed or is emptied. `ways_out` is what the plan offers where it fits nowhere.
    """

    address: Address
    object: str
    explained: ExplainedVm
    stands: Placement | None = None
    serial: int = 0
    certainty: Certainty | None = None
    tie_breaks: int = 0
    provenance: str = ""
    ways: tuple[Way, ...] = ()
    pool_size: int = 1
    came: tuple[str, int] | None = None
    left: str = ""
    ways_out: tuple[Mapping[str, Any], ...] = ()


class Explanations(Struct, frozen=True):
    """The answer, or what is wrong. Without the name of an object: the `pools` of what has some, else
    `objects`, the names to choose from. `leaving` are the rows of VMs of the name that the plan removes,
    `of_domain` what a domain answers of an object of its own.
    """

    reasons: tuple[Reason, ...] = ()
    of_domain: DomainAnswer | None = None
    pools: tuple[PoolReason, ...] = ()
    leaving: tuple[PlacementChange, ...] = ()
    objects: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


def explain(place: Place, address: str, name: str, plan_path: str = "") -> Explanations:
    """Explain one object of a resource."""
    try:
        pattern = parse_pattern(address)
    except AddressProblem as problem:
        return Explanations(diagnostics=(error("invalid-address", f"{problem}{_holder(place, address)}"),))
    opened, request, problems = _asked_of(place, plan_path)
    if opened.project is None or request is None:
        return Explanations(diagnostics=tuple(problems), sources=opened.sources)
    explainer = _EXPLAINERS.get(pattern.type)
    told = explainer(request, pattern, name) if explainer is not None else None
    if told is not None:
        return Explanations(
            of_domain=told, diagnostics=(*problems, *told.diagnostics), sources=opened.sources
        )
    answer = _Question(opened.project, request, pattern, name).answer()
    return replace(answer, diagnostics=(*problems, *answer.diagnostics), sources=opened.sources)


def _holder(place: Place, name: str) -> str:
    """What to type where somebody has named an object in place of an address."""
    opened, request, _ = _asked_of(place, "")
    instances = request.state.instances if opened.project is not None and request is not None else {}
    for address, instance in instances.items():
        attributes = instance.current.attributes if instance.current is not None else {}
        if any(name in (attributes.get(held) or ()) for held in _HOLD_OBJECTS):
            return f" That is an object of {address}: nexusform explain {quote(str(address))} {name}"
    return f" An object stands after the address of its resource: nexusform explain ADDRESS {quote(name)}"


def _asked_of(place: Place, plan_path: str) -> tuple[Opened, PlanRequest | None, list[Diagnostic]]:
    """What is asked: a saved plan is made again from what it holds; otherwise a plan is made now."""
    if not plan_path:
        opened = open_project(place)
        problems = list(opened.diagnostics)
        if opened.project is None:
            return opened, None, problems
        stored, wrong = read_stored(opened.project.backend)
        problems += wrong
        return opened, base_request(opened.project, stored) if stored else None, problems
    saved, problems = read_plan(plan_path, place)
    if saved is None:
        return Opened(None, (), {}), None, problems
    # What stands is in the plan: the backend that it names is not asked.
    opened = open_saved(place, saved, MemoryBackend())
    problems += opened.diagnostics
    prior, wrong = prior_of(saved, plan_path)
    problems += wrong
    if opened.project is None or prior is None:
        return opened, None, problems
    plan = saved.plan
    request = replace(
        base_request(opened.project, Stored(prior)),
        now=plan.timestamp,
        mode=plan.mode,
        targets=plan.targets,
        excludes=plan.excludes,
        replaces=plan.replaces,
        refreshed=plan.refreshed,
        workspace=plan.workspace,
    )
    return opened, request, problems


class _Question(Struct, frozen=True):
    project: Project
    request: PlanRequest
    pattern: AddressPattern
    name: str

    def answer(self) -> Explanations:
        """First what the plan places; for what stands, what the rules say of every place today."""
        standing = self._standing()
        quiet = replace(self.request, tie_breaks=0, ways_out=False, lint=False)
        planned = make_plan(quiet)
        names = self._names(planned, standing)
        names_of_platform = {vm.platform_name or name: name for name, (_, vm) in standing.items()}
        if not names:
            return Explanations(diagnostics=(*_errors(planned), self._nothing(planned)))
        if self.name not in {*names, *names_of_platform} and (self.name or len(names) > 1):
            pools = explain_pools(planned, self.request.state, self.pattern, self.name)
            if pools or not self.name:
                return Explanations(pools=pools, objects=names, diagnostics=tuple(_errors(planned)))
        name = names_of_platform.get(self.name, self.name) or names[0]
        if name not in names:
            near = did_you_mean(name, [*names, *names_of_platform])
            return Explanations(
                diagnostics=(error("no-such-object", f'{self.pattern} has no object "{name}".{near}'),)
            )
        failed = any(name in vms.names_failed() for vms in planned.objects.values())
        reasons = self._reasons(self._explaining(self.request, planned.objects, name, ways_out=failed), name)
        leaving = self._leaving(planned, name) if not reasons else ()
        if leaving:
            return Explanations(leaving=leaving, diagnostics=tuple(_errors(planned)))
        if not reasons:
            reasons = self._today(standing, name)
        silent = () if reasons else (_silent(name),)
        return Explanations(tuple(reasons), diagnostics=(*_errors(planned), *silent))

    def _explaining(
        self, request: PlanRequest, addresses: Iterable[Address], name: str, *, ways_out: bool = False
    ) -> PlanResult:
        """Plan again, noting why this object goes where it goes."""
        objects = tuple((str(a), name) for a in addresses if self.pattern.matches(a))
        return make_plan(replace(request, explain=objects, ways_out=ways_out, lint=False))

    def _standing(self) -> dict[str, tuple[Address, PlacedVm]]:
        """The VMs that stand at the address, by name."""
        vms: dict[str, tuple[Address, PlacedVm]] = {}
        registries: Registries = self.request.registries
        for address in sorted(self.request.state.instances, key=address_order):
            if not self.pattern.matches(address):
                continue
            kind = registries.resource_types.get(address.type)
            current = self.request.state.instances[address].current
            if kind is None or kind.vms is None or current is None:
                continue
            for vm in kind.vms.standing(current.attributes):
                vms[vm.name] = (address, vm)
        return vms

    def _names(self, planned: PlanResult, standing: Mapping[str, object]) -> tuple[str, ...]:
        """The VMs at the address: those that stand, and those that the plan places or cannot place."""
        names = dict.fromkeys(standing)
        for address, planned_object in planned.objects.items():
            if not self.pattern.matches(address) or planned_object.asked.demand is None:
                continue
            for pool in planned_object.asked.demand.pools:
                for number, name in zip(pool.numbers, pool.names, strict=True):
                    asked_for = (pool.pool, number)
                    if (
                        asked_for in planned_object.housing.tokens
                        or asked_for in planned_object.housing.failed
                    ):
                        names[name] = None
        return tuple(names)

    def _reasons(self, planned: PlanResult, name: str) -> list[Reason]:
        """Why the VM of a name is where the plan puts it."""
        rows = {(row.address, row.object): row for row in planned.plan.placements}
        explained = [e for e in planned.explained if e.object == name and self.pattern.matches(e.address)]
        if not explained:
            return []
        things = things_after(planned.plan, self.request.state)
        world = view_world(things, self.request.registries, planned.plan.catalogue)
        reasons = []
        for each in explained:
            owner = planned.objects[each.address].asked.demand
            site = world.sites.get(owner.site_id) if owner is not None else None
            vm, place = each.explanation.demand, each.explanation.placement
            ways = find_ways(site, vm, place.machine if place is not None else "") if site else ()
            reason = Reason(
                each.address,
                name,
                each,
                certainty=_certainty(rows.get((each.address, name))),
                tie_breaks=planned.plan.tie_breaks,
                ways=ways,
                pool_size=_pool_size(owner, name),
                left=planned.objects[each.address].machines_left().get(name, ""),
                ways_out=_ways_out(planned) if place is None else (),
            )
            reasons.append(reason)
        return reasons

    def _today(self, standing: Mapping[str, tuple[Address, PlacedVm]], name: str) -> list[Reason]:
        """Place the object again, with everything else where it is."""
        if name not in standing:
            return []
        address, vm = standing[name]
        state = _without(self.request.state, address, name)
        request = replace(self.request, state=state, replaces=(), targets=(), excludes=())
        reasons = self._reasons(self._explaining(request, [address], name), name)
        serial = self.request.state.serial
        recorded = self.request.state.instances[address].current
        private = recorded.private if recorded is not None else None
        came, left = placed_by(private, name), left_by(private, name)
        return [
            replace(
                reason, stands=vm.placement, serial=serial, provenance=vm.provenance, came=came, left=left
            )
            for reason in reasons
        ]

    def _leaving(self, planned: PlanResult, name: str) -> tuple[PlacementChange, ...]:
        """What the plan says of the VMs of a name that go."""
        removed = (row for row in planned.plan.placements if row.action is PlacementAction.REMOVE)
        return tuple(
            row
            for row in removed
            if row.kind == VM and row.object == name and self.pattern.matches(row.address)
        )

    def _nothing(self, planned: PlanResult) -> Diagnostic:
        """Nothing is placed there, or what is placed belongs to a domain that explains nothing."""
        rows = (row for row in planned.plan.placements if self.pattern.matches(row.address))
        nouns = sorted({noun_of(row.kind) for row in rows if row.kind != VM})
        if nouns:
            return error(
                "nothing-to-explain",
                f"What the plan places at {self.pattern} ({listed(nouns)}) follows no rule that could be "
                "explained. `nexusform plan -details` shows where it is.",
            )
        known = self._known()
        near = "" if str(self.pattern) in known else did_you_mean(str(self.pattern), known)
        return error(
            "nothing-to-explain",
            f"Neither the state nor the plan has anything placed at {self.pattern}.{near}",
        )

    def _known(self) -> Sequence[str]:
        return [
            *(str(a) for a in self.request.state.instances),
            *(str(b.address) for b in self.project.configuration.root.resources.values()),
        ]


def _without(state: State, address: Address, name: str) -> State:
    """The state as if one VM had never been placed."""
    instance = state.instances[address]
    assert instance.current is not None, "only what stands is asked for"
    attributes = dict(instance.current.attributes)
    maps = [n for n, value in attributes.items() if isinstance(value, Mapping) and name in value]
    for each in maps:
        attributes[each] = {key: value for key, value in attributes[each].items() if key != name}
    if not maps:
        return state.with_instance(address, None)
    return state.with_instance(
        address, replace(instance, current=replace(instance.current, attributes=attributes))
    )


def _pool_size(owner: VmDemand | None, name: str) -> int:
    pools = owner.pools if owner is not None else ()
    return next((len(pool.numbers) for pool in pools if name in pool.names), 1)


def _ways_out(planned: PlanResult) -> tuple[Mapping[str, Any], ...]:
    """What the plan offers where VMs do not fit; every error about room holds the same."""
    misfits = (diagnostic for diagnostic in planned.diagnostics if diagnostic.id == DOES_NOT_FIT)
    return next((tuple(misfit.extra["fit"].get("ways_out", ())) for misfit in misfits), ())


def _certainty(row: PlacementChange | None) -> Certainty | None:
    return row.certainty if row else None


def _errors(planned: PlanResult) -> list[Diagnostic]:
    return [d for d in planned.diagnostics if d.severity is Severity.ERROR]


def _silent(name: str) -> Diagnostic:
    return error("nothing-to-explain", f'The rules were not asked about "{name}" in this plan.')
