"""Comparing what stands on a site with what state has of it, and taking over what is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

import nexusform
from nexusform.address import Address, address_order
from nexusform.applying.agreement import agree
from nexusform.applying.claims import Settlement, records_of_claims, settle_open, vms_of
from nexusform.applying.open_claims import OpenClaims, open_claims
from nexusform.applying.standing import unfinished_of
from nexusform.diagnostics import Diagnostic, Severity, diagnostic_of, error
from nexusform.domains.azure.importers.az_model import AzSite
from nexusform.domains.azure.importers.az_sites import named_as_known
from nexusform.domains.azure.providers.azure import KIND
from nexusform.domains.azure.providers.azure_export import NAME
from nexusform.domains.azure.providers.observed_site import ObservedSites
from nexusform.domains.azure.questions.reconciliation import (
    ClusterCheck,
    RealMachines,
    SettledClaims,
    check_cluster,
    replay_site,
)
from nexusform.domains.azure.questions.replay import Replay
from nexusform.domains.azure.workflow.adopting import source_for
from nexusform.forecasts import Claim, Record, broken_sure, record_of
from nexusform.planning.planner import make_plan
from nexusform.planning.verdicts.fit import DOES_NOT_FIT, PINNED_DOES_NOT_FIT
from nexusform.plans.plan import PREDICTION, SeparationVerdict
from nexusform.ports import ObjectKey, ProviderProblem, ReadRequest, ResourceType
from nexusform.scheduling.racks.vms import RackSpread
from nexusform.source import SourceFile
from nexusform.state import codec
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.state_ports import BackendProblem
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.opening.providers import managed_objects
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.run import Notices, Run, base_request, begin
from nexusform.workflow.runs.what_stands import refresh

# What a site tells of the VMs of an object; what a person asked for is not touched.
_OBSERVED: Final = ("nodes", "node_count", "machine", "rack", "availability_zone", "cells", "provenance")
# A node without a machine.
_WAITING: Final = dict.fromkeys(("machine", "rack", "availability_zone", "numa_cells", "platform_name"))
# What is wrong with a plan and says nothing against what is.
_OF_FIT: Final = frozenset({DOES_NOT_FIT, PINNED_DOES_NOT_FIT})


class Reconciled(Struct, frozen=True):
    """What came of it: the objects compared, those that the export shows to be gone, those of which it says
    nothing, what applies began that is not done, the separation rules on what is, and, asked for, the
    replays; `remarks` say what was not captured. `claims` is what became of the claims of applied plans.
    """

    checks: tuple[ClusterCheck, ...] = ()
    absent: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    not_done: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    rules: tuple[SeparationVerdict, ...] = ()
    replays: tuple[Replay, ...] = ()
    claims: SettledClaims = field(default_factory=SettledClaims)
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)

    @property
    def broken(self) -> tuple[SeparationVerdict, ...]:
        """The separation rules that do not hold on what is."""
        return tuple(rule for rule in self.rules if rule.holds != "always")


def reconcile(
    place: Place, directory: str, locking: Locking, notices: Notices, *, replays: bool
) -> Reconciled:
    """Compare, judge the separation rules on what is, and write what was observed into the state."""
    seen, refused = _seen(place, directory)
    if seen is None:
        return Reconciled(diagnostics=tuple(refused))
    opened = open_project(place)
    if opened.project is None:
        return Reconciled(diagnostics=opened.diagnostics, sources=opened.sources)
    with begin(opened.project, "OperationTypeReconcile", locking, notices=notices) as run:
        if not run.ready:
            answer = Reconciled(diagnostics=(*opened.diagnostics, *run.diagnostics))
        else:
            answer = _Reconciling(run, *seen).answer(replays=replays)
    more = () if answer.diagnostics == tuple(run.diagnostics) else tuple(run.diagnostics)
    return replace(answer, diagnostics=(*answer.diagnostics, *more), sources=opened.sources)


def replay_alone(run: Run, directory: str) -> Reconciled:
    """What the rule explains of the sites that state has, on what stands. Writes nothing."""
    seen, refused = _seen(run.project.place, directory)
    if seen is None:
        return Reconciled(diagnostics=tuple(refused))
    try:
        return _Reconciling(run, *seen).played()
    except ProviderProblem as problem:
        return Reconciled(diagnostics=(error("reading-what-stands-failed", str(problem)),))


def _seen(
    place: Place, directory: str
) -> tuple[tuple[Sequence[AzSite], ObservedSites] | None, list[Diagnostic]]:
    """The sites as they stand and what tells of them; None, and why, where they cannot be read."""
    source, refused = source_for(place, directory)
    if source is None:
        return None, refused
    try:
        sites, findings = source.read()
    except ProviderProblem as problem:
        return None, [error("reading-what-stands-failed", str(problem))]
    is_captured = source.provider != KIND
    provider = ObservedSites(
        NAME,
        f"the export in {directory}" if is_captured else source.name,
        "capture the export again" if is_captured else "look again",
        lambda: (sites, list(findings)),
        captured=is_captured,
    )
    problems = [diagnostic_of(problem) for problem in findings if problem.severity is Severity.ERROR]
    return (None, problems) if problems else ((sites, provider), [])


class _Reconciling:
    def __init__(self, run: Run, sites: Sequence[AzSite], provider: ObservedSites) -> None:
        self.run = run
        self.state = run.stored.state
        known = [one.current.attributes for one in self.state.instances.values() if one.current is not None]
        self.sites = named_as_known(sites, known)
        self.provider = provider
        self.provider.remember(known, managed_objects(self.state))
        self.types = run.project.registries.resource_types

    def answer(self, *, replays: bool) -> Reconciled:
        """All that was found out; the state is written where it learns something."""
        try:
            observed, absent, unseen = self._observed()
            not_done = tuple(self._not_done())
        except ProviderProblem as problem:
            return Reconciled(diagnostics=(error("reading-what-stands-failed", str(problem)),))
        checks = tuple(self._checks(observed, absent, unseen))
        played = tuple(self._replays(checks)) if replays else ()
        rules, problems = self._rules(observed)
        settlement = self._settlement(observed)
        after = self._after(observed, played, settlement)
        if after is not self.state and not problems:
            problems += self._write(after)
        return Reconciled(
            checks=checks,
            absent=tuple(map(str, absent)),
            unseen=tuple(map(str, unseen)),
            not_done=not_done,
            remarks=tuple(remark.detail for remark in self.provider.remarks()),
            rules=rules,
            replays=played,
            claims=SettledClaims(
                _records(after),
                sum(map(len, settlement.claims.values())),
                broken_sure(chain.from_iterable(settlement.claims.values())),
            ),
            diagnostics=tuple(problems),
        )

    def played(self) -> Reconciled:
        """The replays of the sites that state has. Raises ProviderProblem."""
        observed, absent, unseen = self._observed()
        checks = tuple(self._checks(observed, absent, unseen))
        names = {
            str(each.current.attributes.get("name"))
            for address, each in self.state.instances.items()
            if address.type == "nexus_site" and each.current is not None
        }
        played = tuple(each for each in self._replays(checks) if each.site in names)
        return Reconciled(checks=checks, replays=played)

    def _vm_objects(self) -> Iterator[tuple[Address, ObjectState, ResourceType]]:
        for address in sorted(self.state.instances, key=address_order):
            current = self.state.instances[address].current
            kind = self.types.get(address.type)
            if current is not None and kind is not None and kind.vms is not None and _is_of_azure(kind):
                yield address, current, kind

    def _observed(self) -> tuple[dict[Address, ObjectState], list[Address], list[Address]]:
        """The objects with VMs as they are, those that are gone, and those that were not captured."""
        objects = list(self._vm_objects())
        requests = [
            ReadRequest(
                ObjectKey(address.type, str(current.attributes.get("id")), current.creation),
                current.attributes,
                str(address),
            )
            for address, current, _ in objects
        ]
        observed: dict[Address, ObjectState] = {}
        absent: list[Address] = []
        unseen: list[Address] = []
        for (address, current, kind), answer in zip(objects, self.provider.read(requests), strict=True):
            if answer.attributes is None:
                absent.append(address)
                continue
            if not answer.observed:
                unseen.append(address)
                continue
            places = {name: answer.attributes[name] for name in _OBSERVED if name in answer.attributes}
            seen = agree(str(address), kind.schema, current.attributes, {**current.attributes, **places}, ())
            observed[address] = replace(current, attributes=seen.attributes)
        return observed, absent, unseen

    def _not_done(self) -> Iterator[str]:
        """What applies began and is not done, as the providers of the project see it now. Raises
        ProviderProblem.
        """
        noted = {
            address: instance
            for address, instance in self.state.instances.items()
            if unfinished_of(instance.current)
        }
        if not noted:
            return
        alone = replace(self.state, instances=noted)
        now = refresh(alone, self.run.providers, self.types, lambda _address, _id: None)
        for address in sorted(noted, key=address_order):
            if unfinished := unfinished_of(now.get(address, noted[address].current)):
                yield f"{address}: {unfinished['words']}"

    def _checks(
        self, observed: Mapping[Address, ObjectState], absent: Sequence[Address], unseen: Sequence[Address]
    ) -> Iterator[ClusterCheck]:
        """Where the VMs of every object stand, beside where state has them."""
        reality = RealMachines.of(self.sites)
        gone, not_captured = frozenset(absent), frozenset(unseen)
        for address, current, kind in self._vm_objects():
            if address in not_captured:
                continue
            assert kind.vms is not None
            now = observed.get(address)
            yield check_cluster(
                str(address),
                str(current.attributes.get("id")),
                kind.vms.standing(current.attributes),
                kind.vms.standing(now.attributes) if now is not None and address not in gone else None,
                kind.vms.unplaced(now.attributes) if now is not None else (),
                reality,
            )

    def _replays(self, checks: Sequence[ClusterCheck]) -> Iterator[Replay]:
        """Every site placed again, to see which machines were drawn."""
        for site in self.sites:
            gone: dict[str, int] = {}
            for check in checks:
                lost = sum(vm.observed is None for vm in check.vms)
                if lost and check.name.startswith(f"{site.name}/"):
                    gone[check.name.rpartition("/")[2]] = lost
            yield from replay_site(site, gone, tuple(RackSpread))

    def _rules(
        self, observed: Mapping[Address, ObjectState]
    ) -> tuple[tuple[SeparationVerdict, ...], list[Diagnostic]]:
        """The separation rules on what is, or what hinders judging them. That VMs do not fit does not: nobody
        is placed for it.
        """
        request = replace(
            base_request(self.run.project, self.run.stored),
            refreshed={address: self._with_waiting(address, now) for address, now in observed.items()},
            tie_breaks=0,
            lint=False,
        )
        plan = make_plan(replace(request, ways_out=False)).plan
        if plan.separation_rules or not plan.errored:
            return plan.separation_rules, []
        errors = (problem for problem in plan.diagnostics if problem.severity is Severity.ERROR)
        return (), [problem for problem in errors if problem.id not in _OF_FIT]

    def _with_waiting(self, address: Address, now: ObjectState) -> ObjectState:
        """An object as it is; nodes that are gone wait for a machine, so that none is placed anew."""
        current = self.state.instances[address].current
        nodes, before = now.attributes.get("nodes"), current.attributes.get("nodes") if current else None
        if not isinstance(nodes, Mapping) or not isinstance(before, Mapping):
            return now
        waiting = {name: {**node, **_WAITING} for name, node in before.items() if name not in nodes}
        if not waiting:
            return now
        return replace(now, attributes={**now.attributes, "nodes": {**waiting, **nodes}})

    def _settlement(self, observed: Mapping[Address, ObjectState]) -> Settlement:
        """What became of claims of applied plans that nobody had looked at until now."""
        claims: dict[str, list[Claim]] = {}
        still_open: dict[Address, OpenClaims] = {}
        for address, now in observed.items():
            before = open_claims(now.private)
            if not before:
                continue
            owner_id = str(now.attributes.get("id"))
            settled, left = settle_open(before, vms_of(now, self.types.get(address.type)), owner_id)
            claims.setdefault(owner_id.partition("/")[0], []).extend(settled)
            if left != before:
                still_open[address] = left
        return Settlement({site: of_site for site, of_site in claims.items() if of_site}, still_open)

    def _after(
        self, observed: Mapping[Address, ObjectState], replays: Sequence[Replay], settlement: Settlement
    ) -> State:
        """The state with what was observed, what became of claims, and the scores of the sites that were
        replayed.
        """
        instances = dict(self.state.instances)
        for address, now in observed.items():
            instance = instances[address]
            if instance.current is not None and instance.current.attributes != now.attributes:
                instances[address] = InstanceState(now, instance.deposed)
        for record in records_of_claims(settlement, replace(self.state, instances=instances)):
            if record.instance is not None:
                instances[record.address] = record.instance
        for address, instance in list(instances.items()):
            current = instance.current
            if current is None or address.type != "nexus_site":
                continue
            scores = _scores(str(current.attributes.get("name")), replays)
            if scores and (current.private or {}).get(PREDICTION) != scores:
                noted = replace(current, private={**(current.private or {}), PREDICTION: scores})
                instances[address] = InstanceState(noted, instance.deposed)
        if instances == self.state.instances:
            return self.state
        return replace(
            self.state,
            instances=instances,
            lineage=self.state.lineage or str(uuid.uuid4()),
            serial=self.state.serial + 1,
            nexusform_version=nexusform.__version__,
        )

    def _write(self, after: State) -> list[Diagnostic]:
        try:
            self.run.project.backend.compact(codec.encode(after), self.run.stored.kept_lines())
        except BackendProblem as problem:
            return [error("the-state-cannot-be-written", str(problem))]
        return []


def _records(state: State) -> dict[str, Record]:
    """By the name of a site, what became of the claims that were settled there."""
    records: dict[str, Record] = {}
    for address, instance in sorted(state.instances.items(), key=lambda one: address_order(one[0])):
        current = instance.current
        if current is not None and address.type == "nexus_site" and record_of(current.private):
            records[str(current.attributes.get("name"))] = record_of(current.private)
    return records


def _is_of_azure(kind: ResourceType) -> bool:
    return kind.name.startswith("nexus_")


def _scores(site: str, replays: Sequence[Replay]) -> dict[str, dict[str, float]]:
    """The prediction score of a site by rack_spread, as state keeps it."""
    return {
        one.spread.value: {
            "hits": one.hits,
            "sure": one.sure,
            "judged": one.judged,
            "not_judged": sum(one.unjudged.values()),
            "chance": round(one.chance, 3),
        }
        for one in replays
        if one.site == site
    }
