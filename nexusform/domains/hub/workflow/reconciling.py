"""Comparing where placements stand on a hub with where state has them, and taking over what is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

import nexusform
from nexusform.address import Address, address_order
from nexusform.diagnostics import Diagnostic, error
from nexusform.domains.hub.providers.fleet_hub import FleetHub
from nexusform.domains.hub.providers.hub_bodies import PLACEMENTS
from nexusform.forecasts import Record, record_of
from nexusform.planning.planner import make_plan
from nexusform.plans.plan import SeparationVerdict
from nexusform.ports import ObjectKey, ProviderProblem, ReadRequest
from nexusform.source import SourceFile
from nexusform.state import codec
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.state_ports import BackendProblem
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.opening.providers import objects_of
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.run import Notices, Run, base_request, begin

NO_HUB = "no-hub-to-reconcile-with"
# What of a binding is held against a hub.
_HELD = ("state", "resource_snapshot", "affinity_score", "topology_spread_score")
Standing = Mapping[str, Mapping[str, object]]


class PlacementCheck(Struct, frozen=True):
    """One placement: its clusters as state has them and as the hub shows them; None where it is gone there.
    `record` is what became of the claims of applied plans.
    """

    address: str
    name: str
    known: Standing
    shown: Standing | None
    record: Record

    @property
    def misses(self) -> tuple[tuple[str, str, str], ...]:
        """By cluster what state has and what the hub shows, where these are not the same."""
        shown = self.shown or {}
        return tuple(
            (cluster, _words(self.known.get(cluster)), _words(shown.get(cluster)))
            for cluster in sorted({*self.known, *shown})
            if _held(self.known.get(cluster)) != _held(shown.get(cluster))
        )


class ReconciledHub(Struct, frozen=True):
    """What came of it. `rules` are the separation rules on what is; `not_through` says, by placement, what
    the hub has still to do or where a rollout stops.
    """

    checks: tuple[PlacementCheck, ...] = ()
    rules: tuple[SeparationVerdict, ...] = ()
    not_through: tuple[tuple[str, str], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)

    @property
    def broken(self) -> tuple[SeparationVerdict, ...]:
        """The separation rules that do not hold on what is."""
        return tuple(rule for rule in self.rules if rule.holds != "always")


def reconcile_hub(place: Place, locking: Locking, notices: Notices) -> ReconciledHub:
    """Compare, judge the separation rules on what is, and write what was observed into the state."""
    opened = open_project(place)
    if opened.project is None:
        return ReconciledHub(diagnostics=opened.diagnostics, sources=opened.sources)
    with begin(opened.project, "OperationTypeReconcile", locking, notices=notices) as run:
        found = _reconciled(run) if run.ready else ReconciledHub()
    problems = (*opened.diagnostics, *run.diagnostics, *found.diagnostics)
    return replace(found, diagnostics=problems, sources=opened.sources)


def _reconciled(run: Run) -> ReconciledHub:
    hubs = {key: provider for key, provider in run.providers.items() if isinstance(provider, FleetHub)}
    if not hubs:
        detail = 'No provider "fleet" is configured, so there is no hub to compare with.'
        return ReconciledHub(diagnostics=(error(NO_HUB, detail),))
    checks: list[PlacementCheck] = []
    after: dict[Address, ObjectState] = {}
    try:
        for key, provider in hubs.items():
            for address, current, seen in _read(run, key, provider):
                checks.append(_check(address, current, seen))
                if seen is not None:
                    after[address] = replace(current, attributes=seen)
    except ProviderProblem as problem:
        return ReconciledHub(diagnostics=(error("reading-what-stands-failed", str(problem)),))
    request = replace(
        base_request(run.project, run.stored), refreshed=dict(after), tie_breaks=0, lint=False, ways_out=False
    )
    rules = make_plan(request).plan.separation_rules
    left = sorted((at, words) for provider in hubs.values() for at, words in provider.not_through.items())
    return ReconciledHub(tuple(checks), rules, tuple(left), tuple(_write(run, after)))


def _read(
    run: Run, key: str, provider: FleetHub
) -> Iterator[tuple[Address, ObjectState, Mapping[str, object] | None]]:
    """The placements of a provider in state, each with its attributes as they are, None where it is gone."""
    objects = [one for one in objects_of(run.stored.state, key) if one[0].type in PLACEMENTS]
    objects.sort(key=lambda one: address_order(one[0]))
    requests = [
        ReadRequest(
            ObjectKey(address.type, str(current.attributes.get("id")), current.creation),
            current.attributes,
            str(address),
            noted=current.private or {},
        )
        for address, current in objects
    ]
    types = run.project.registries.resource_types
    for (address, current), answer in zip(objects, provider.read(requests), strict=True):
        if answer.attributes is None:
            yield address, current, None
            continue
        # What a person asked for is not touched: that it reads otherwise is drift, and a plan's matter.
        schema = types[address.type].schema.attributes
        observed = {
            name: value
            for name, value in answer.attributes.items()
            if name in schema and schema[name].computed and not schema[name].optional
        }
        yield address, current, {**current.attributes, **observed}


def _check(address: Address, current: ObjectState, seen: Mapping[str, object] | None) -> PlacementCheck:
    known = current.attributes.get("bindings") or {}
    shown = seen.get("bindings") if seen is not None else None
    name = str(current.attributes.get("id"))
    standing = shown if isinstance(shown, Mapping) else None
    return PlacementCheck(str(address), name, known, standing, record_of(current.private))


def _held(binding: Mapping[str, object] | None) -> tuple[object, ...]:
    return tuple((binding or {}).get(name) for name in _HELD)


def _words(binding: Mapping[str, object] | None) -> str:
    """`Bound, snapshot 3, scores 20 and 0`."""
    if binding is None:
        return "not there"
    state, snapshot, affinity, spread = _held(binding)
    version = "" if snapshot is None else f", snapshot {snapshot}"
    return f"{state}{version}, scores {affinity} and {spread}"


def _write(run: Run, after: Mapping[Address, ObjectState]) -> Iterator[Diagnostic]:
    """Write what was observed where it differs."""
    state = run.stored.state
    instances = dict(state.instances)
    for address, now in after.items():
        instances[address] = InstanceState(now, instances[address].deposed)
    if instances == state.instances:
        return
    changed: State = replace(
        state, instances=instances, serial=state.serial + 1, nexusform_version=nexusform.__version__
    )
    try:
        run.project.backend.compact(codec.encode(changed), run.stored.kept_lines())
    except BackendProblem as problem:
        yield error("the-state-cannot-be-written", str(problem))
