"""Taking a hub over: what people wrote there becomes configuration and state that agree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.applying.events import StepEvent
from nexusform.configuration.declared.configuration import Configuration
from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.domains.fleet.importers.fleet_export import OF_AZURE
from nexusform.domains.hub.api.hub import Asked, Hub, HubProblem, way_to_hub
from nexusform.domains.hub.api.hub_kinds import KINDS
from nexusform.domains.hub.api.hub_words import Refused
from nexusform.domains.hub.providers.fleet import NAME
from nexusform.domains.hub.providers.fleet_hub import FleetHub
from nexusform.domains.hub.providers.hub_objects import managed_by
from nexusform.domains.hub.providers.hub_reading import FORETOLD
from nexusform.domains.hub.providers.hub_terms import Terms
from nexusform.planning.preparation.prior import adopted
from nexusform.planning.request import Imported
from nexusform.plans.plan import Action, Plan
from nexusform.ports import ProviderProblem
from nexusform.resource_types.registry import registries
from nexusform.source import Position, Span
from nexusform.state.objects import EMPTY, ObjectState, State
from nexusform.words import counted, first_of
from nexusform.workflow.opening.place import Place, load_configuration
from nexusform.workflow.opening.project import find_backend, open_project
from nexusform.workflow.opening.stored import read_stored
from nexusform.workflow.plan_files.apply import ApplyOptions, apply_plan
from nexusform.workflow.runs.importing import Takeover, generated_block, refusal_to_generate, write_new
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.run import Notices, PlanOptions, Run, begin

PROVIDER: Final = "fleet"
# What people write, in the order of planning. Evictions, runs and approvals are records of what was done.
_TYPES: Final = {
    "fleet_cluster_resource_override": "ClusterResourceOverride",
    "fleet_resource_override": "ResourceOverride",
    "fleet_placement_disruption_budget": "ClusterResourcePlacementDisruptionBudget",
    "fleet_cluster_staged_update_strategy": "ClusterStagedUpdateStrategy",
    "fleet_staged_update_strategy": "StagedUpdateStrategy",
    "fleet_cluster_resource_placement": "ClusterResourcePlacement",
    "fleet_resource_placement": "ResourcePlacement",
}
_HEADING: Final = """\
# What people wrote on the hub {server}, written by `nexusform import -from=hub`.
# Look it through, then keep it as your own. Where placements stand is what the hub shows: nothing here moves
# any.

"""
_DATA: Final = 'data "fleet_hub" "hub" {}\n'
_MOST_NAMED: Final = 6
Found = dict[Address, tuple[str, Mapping[str, Any]]]


def import_hub(place: Place, _named: str, path: str, locking: Locking, notices: Notices) -> Takeover:
    """Take over what a hub shows and state does not hold; `path` is the new file for its configuration.
    Nothing is written when anything is wrong.
    """
    refusal = refusal_to_generate(path)
    if refusal is not None:
        return Takeover(diagnostics=(refusal,))
    configuration, _ = load_configuration(place)
    backend, problems, sources = find_backend(place)
    if backend is None or has_errors(problems):
        return Takeover(diagnostics=tuple(problems), sources=sources)
    stored, wrong = read_stored(backend)
    state = stored.state if stored is not None else EMPTY
    problems += wrong
    with ExitStack() as leaving:
        try:
            server, found, left = _read(place, state, leaving)
        except (HubProblem, Refused, ProviderProblem) as problem:
            problems.append(error("the-hub-cannot-be-read", str(problem)))
            return Takeover(diagnostics=tuple(problems), sources=sources)
    problems += left
    lines = [f"{server}: {_counts(found)}"]
    if has_errors(problems) or not found:
        return Takeover(tuple(lines), 0, tuple(problems), sources)
    problems += write_new(path, _text(server, found, configuration))
    if has_errors(problems):
        return Takeover(diagnostics=tuple(problems), sources=sources)
    opened = open_project(place)
    problems += opened.diagnostics
    if opened.project is not None:
        with begin(opened.project, "OperationTypeImport", locking, notices=notices) as run:
            if run.ready:
                problems += _take_over(run, found)
        problems += run.diagnostics
    if has_errors(problems):
        Path(path).unlink()
    return Takeover(tuple(lines), len(found), tuple(problems), opened.sources)


def _read(place: Place, state: State, leaving: ExitStack) -> tuple[str, Found, list[Diagnostic]]:
    """The hub's URL, what is to be taken over by address, and what is left to others."""
    asked = Asked(way_to_hub({}, confined=bool(place.confinement.root)))
    leaving.callback(asked.close)
    hub = asked.hub()
    terms = Terms("nexusform", "off", read_only=True, timeout=1.0, take_ownership=place.take_ownership)
    provider = FleetHub(NAME, asked, terms)
    standing = {
        (address.type, str(instance.current.attributes.get("id")))
        for address, instance in state.instances.items()
        if instance.current is not None
    }
    names: Counter[tuple[str, str]] = Counter((address.type, address.name) for address in state.instances)
    found: Found = {}
    others: list[str] = []
    for type_name, object_id, body in _written(hub):
        if (type_name, object_id) in standing:
            continue
        who = managed_by(body)
        if who and (who == OF_AZURE or not place.take_ownership):
            others.append(f"{object_id} ({who})")
            continue
        match = provider.find(type_name, object_id)
        if match is not None:
            found[_address(type_name, object_id, names)] = (object_id, match[1])
    return hub.server, found, list(_of_others(others))


def _written(hub: Hub) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Type, id and body of what people wrote."""
    for type_name, kind in _TYPES.items():
        for body in hub.list(KINDS[kind].collection):
            metadata = body.get("metadata") or {}
            if metadata.get("deletionTimestamp"):
                continue
            namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
            yield type_name, f"{namespace}{metadata.get('name')}", body


def _of_others(others: list[str]) -> Iterator[Diagnostic]:
    if others:
        objects = counted(len(others), "object")
        detail = (
            f"{objects} of the hub {'is' if len(others) == 1 else 'are'} applied by others and left to them: "
            f"{first_of(others, _MOST_NAMED)}. -take-ownership takes over what Flux or Argo CD applies."
        )
        yield warning("managed-by-others", detail)


def _address(type_name: str, object_id: str, names: Counter[tuple[str, str]]) -> Address:
    """An address that nothing has."""
    label = re.sub(r"[^A-Za-z0-9_-]", "_", object_id)
    label = label if label[:1].isalpha() else f"_{label}"
    names[type_name, label] += 1
    number = names[type_name, label]
    return Address((), "managed", type_name, label if number == 1 else f"{label}_{number}")


def _counts(found: Found) -> str:
    """`2 placements, 1 override`."""
    types = Counter(address.type.removeprefix("fleet_").replace("_", " ") for address in found)
    return ", ".join(counted(number, name) for name, number in types.items()) or "nothing new"


def _text(server: str, found: Found, configuration: Configuration | None) -> str:
    """The configuration of what was found, block by block."""
    types = registries().resource_types
    root = configuration.root if configuration is not None else None
    has_data = root is not None and any(b.type == "fleet_hub" for b in root.resources.values())
    blocks = [] if root is not None and PROVIDER in root.providers else ['provider "fleet" {}\n']
    blocks += [] if has_data else [_DATA]
    for address, (_, attributes) in found.items():
        schema = types[address.type].schema
        blocks.append(generated_block(address, schema, adopted(schema, attributes, ""), provider=PROVIDER))
    return _HEADING.format(server=server) + "\n".join(blocks)


def _take_over(run: Run, found: Found) -> list[Diagnostic]:
    """Write the objects into the state by a plan that changes nothing. Where configuration and objects do not
    agree it is refused.
    """
    types = run.project.registries.resource_types
    here = Span("", Position(1, 1, 0), Position(1, 1, 0))
    last = run.stored.state.last_creation
    imports: dict[Address, Imported] = {}
    for number, (address, (object_id, attributes)) in enumerate(found.items(), 1):
        values = adopted(types[address.type].schema, attributes, object_id)
        taken = ObjectState(values, last + number, provider=PROVIDER)
        imports[address] = Imported(object_id, taken, here)
    plan = _planned(run, imports)
    foretold = {c.address: c for c in plan.changes if c.address in imports and c.action is not Action.NO_OP}
    if foretold:  # a hub says of a placement that awaits its first staged run that it selects nothing
        for address, change in foretold.items():
            imports[address] = _as_foretold(imports[address], change.after or {})
        plan = _planned(run, imports)
    problems = [problem for problem in plan.diagnostics if problem.id != "resource-targeting-is-in-effect"]
    if has_errors(problems):
        return problems
    changes = [c for c in plan.changes if c.address in imports and c.action is not Action.NO_OP]
    if changes:
        named = first_of([str(change.address) for change in changes], _MOST_NAMED)
        detail = f"An import changes nothing, and what was written for {named} would. Nothing was taken over."
        return [*problems, error("import-would-change", detail)]
    return [*problems, *apply_plan(run, plan, _Silent(), ApplyOptions()).diagnostics]


def _planned(run: Run, imports: Mapping[Address, Imported]) -> Plan:
    """What a plan of these objects alone comes to."""
    targets = tuple(map(str, imports))
    return run.plan(PlanOptions(refresh=False, tie_breaks=0, targets=targets, adopting=imports)).plan


def _as_foretold(imported: Imported, planned: Mapping[str, Any]) -> Imported:
    """An object with what plans foretell of it, however it stands."""
    values = {name: planned[name] for name in FORETOLD if name in planned}
    standing = imported.object
    return replace(imported, object=replace(standing, attributes={**standing.attributes, **values}))


class _Silent:
    """Nobody is told of steps: an import has none."""

    def started(self, event: StepEvent) -> None:
        """A step begins."""

    def progressed(self, event: StepEvent) -> None:
        """Ten more seconds have passed."""

    def ended(self, event: StepEvent) -> None:
        """A step ended."""
