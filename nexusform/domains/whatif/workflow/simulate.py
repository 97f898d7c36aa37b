"""What-if questions: read the world from the state or a saved plan, and ask."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declared.configuration import Configuration
from nexusform.configuration.loader import read_variables
from nexusform.diagnostics import Diagnostic, Severity, error, has_errors, warning
from nexusform.domains.pods.importers.kubernetes_nodes import Observation, observation_of
from nexusform.domains.pods.planning.elsewhere import read_by
from nexusform.domains.pods.planning.nodes import standing_clusters
from nexusform.domains.whatif.questions.pod_view import NOTHING_SEEN, Sight, sight_after, view_pods
from nexusform.domains.whatif.questions.pods_down import ClusterPods
from nexusform.planning.names.setting import standing_evaluation
from nexusform.planning.preparation.order import resource_blocks
from nexusform.planning.request import PlanRequest
from nexusform.planning.vms.sites import Thing
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.ports import Kind
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.values import Value
from nexusform.words import counted, first_of, form
from nexusform.workflow.opening.elsewhere import RemoteStates, Servers
from nexusform.workflow.opening.place import Place, load_configuration
from nexusform.workflow.opening.project import find_backend
from nexusform.workflow.opening.stored import read_stored
from nexusform.workflow.opening.surroundings import RealFiles, plan_time
from nexusform.workflow.plan_files.saved_plans import (
    configuration_of,
    other_variables,
    place_of_plan,
    planned_variables,
    prior_of,
    read_plan,
    sources_of,
)
from nexusform.worlds.world_view import WorldView, things_after, things_of_state, view_world

if TYPE_CHECKING:  # loaded where a fleet is asked
    from nexusform.domains.whatif.questions.fleet import FleetWorld


_MOST_NAMES: Final = 5
# The key of an instance in an address, which its block does not have.
_INSTANCE_KEY: Final = re.compile(r'\[(?:\d+|"(?:[^"\\]|\\.)*")\]')


class AskedWorld(Struct, frozen=True):
    """The world to ask, or None and what is wrong. `origin` says in words where it is from.

    `pods` are the pods of the clusters of which any are known, by cluster id. `things` are all objects, to
    be read with this SKU catalogue, `sight` what data blocks show of their clusters.
    """

    view: WorldView | None = None
    origin: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)
    pods: Mapping[str, ClusterPods] = field(default_factory=dict)
    things: tuple[Thing, ...] = ()
    catalogue: str = ""
    sight: Sight = NOTHING_SEEN


def open_fleet(place: Place, plan_path: str = "") -> tuple[FleetWorld | None, AskedWorld]:
    """The fleet as the state has it, or as a saved plan will leave it; None where there is none."""
    from nexusform.domains.whatif.questions.fleet import fleet_world

    world = _of_plan(plan_path, place) if plan_path else _of_state(place)
    if world.view is None:
        return None, world
    fleet = fleet_world(world.things, registries(), world.catalogue, world.sight)
    if not fleet.seats.members:
        detail = (
            f"There is no fleet_member_cluster in {world.origin}. Apply a configuration that has one, or ask "
            "a saved plan: `nexusform plan -out=FILE`, then this command with -plan=FILE."
        )
        problem = error("nothing-to-simulate", detail)
        return None, replace(world, diagnostics=(*world.diagnostics, problem))
    return fleet, world


def open_world(place: Place, plan_path: str = "", *, pods: bool = True) -> AskedWorld:
    """The world as the state has it, or as a saved plan will leave it; without `pods` of machines alone."""
    world = _of_plan(plan_path, place) if plan_path else _of_state(place)
    if world.view is not None and not world.view.sites:
        problem = error(
            "nothing-to-simulate",
            f"There is no site in {world.origin}. Apply a configuration that has one, or ask a saved plan: "
            "`nexusform plan -out=FILE`, then this command with -plan=FILE.",
        )
        return replace(world, view=None, diagnostics=(*world.diagnostics, problem))
    if world.view is not None and not pods:
        return replace(world, diagnostics=(*world.diagnostics, *_outsiders(world)))
    return world


def located_in(
    place: Place, problems: Iterable[Diagnostic]
) -> tuple[list[Diagnostic], Mapping[str, SourceFile]]:
    """What is said of an object, with the block that declares it in the configuration that stands here; as it
    is where there is none.
    """
    problems = list(problems)
    if not any(problem.address and problem.subject is None for problem in problems):
        return problems, {}
    configuration, _ = load_configuration(place)
    if configuration is None:
        return problems, {}
    blocks = {str(block.address): block for block in resource_blocks(configuration)}
    located = []
    for problem in problems:
        block = blocks.get(_INSTANCE_KEY.sub("", problem.address))
        if block is not None and problem.subject is None:
            located.append(replace(problem, subject=block.header_span, block=block.header))
            continue
        located.append(problem)
    return located, configuration.files


def _outsiders(world: AskedWorld) -> Iterator[Diagnostic]:
    """Nodes that data blocks show and that are no VM of this world: they take room that nobody counts."""
    clusters = standing_clusters(world.things, registries(), world.catalogue) if world.sight.clusters else {}
    for cluster_id in world.sight.clusters:
        bound = world.sight.bound(cluster_id, clusters.get(cluster_id), ())
        if bound is not None and bound.strangers:
            detail = (
                f'{counted(len(bound.strangers), "node")} of the cluster "{cluster_id}" '
                f"({first_of(bound.strangers, _MOST_NAMES)}) {form(len(bound.strangers), 'is', 'are')} no VM "
                "of what is asked, neither by name nor by provider id: what they take of machines is "
                "not counted."
            )
            yield warning("node-without-a-vm", detail)


def _of_state(place: Place) -> AskedWorld:
    """The world of the state, with pods as the clusters show them."""
    backend, problems, sources = find_backend(place)
    if backend is None:
        return AskedWorld(diagnostics=tuple(problems), sources=sources)
    stored, wrong = read_stored(backend)
    problems += wrong
    if stored is None or has_errors(problems):
        return AskedWorld(diagnostics=tuple(problems), sources=sources)
    state = stored.state
    origin = f"state serial {state.serial}" if state.lineage else "the state, which is empty"
    clusters, unread = _seen_now(place, state)
    world = AskedWorld(None, origin, (*problems, *unread), sources, sight=Sight(clusters))
    return _world(things_of_state(state), state.catalogue, world)


def _of_plan(path: str, place: Place) -> AskedWorld:
    """The world after a saved plan."""
    saved, problems = read_plan(path, place)
    if saved is None:
        return AskedWorld(diagnostics=tuple(problems))
    try:
        place = place_of_plan(place, saved.plan)
    except ValueError as problem:
        return AskedWorld(diagnostics=(*problems, error("the-plan-cannot-be-read", str(problem))))
    prior, wrong = prior_of(saved, path)
    problems += wrong
    if saved.plan.errored:
        detail = "A plan with errors cannot be simulated. Mend them and plan again."
        problems.append(error("saved-plan-has-errors", detail))
    if place.variables:
        configuration, _ = load_configuration(place)
        if configuration is not None:
            problems += other_variables(place, configuration, saved.plan)
    if prior is None or has_errors(problems):
        return AskedWorld(diagnostics=tuple(problems))
    things = things_after(saved.plan, prior)
    clusters, unread = _seen_by_plan(place, saved, things)
    sources = sources_of(saved)
    sight = sight_after(saved.plan, clusters)
    world = AskedWorld(None, f"after plan {path}", (*problems, *unread), sources, sight=sight)
    return _world(things, saved.plan.catalogue, world)


def _world(things: tuple[Thing, ...], catalogue: str, origin: AskedWorld) -> AskedWorld:
    types = registries()
    view = view_world(things, types, catalogue)
    pods = view_pods(things, view, types, origin.sight)
    return replace(origin, view=view, pods=pods, things=things, catalogue=catalogue)


# --- what data blocks show of clusters ---------------------------------------------------------


_Seen: TypeAlias = tuple[Mapping[str, Observation], list[Diagnostic]]


def _seen_now(place: Place, state: State) -> _Seen:
    """What the data blocks of the configuration that stands here show, read over the state."""
    configuration, _ = load_configuration(place)
    if configuration is None or not _looks_at_nodes(configuration):
        return {}, []
    variables, _ = read_variables(
        configuration,
        environment=place.environment,
        var_options=place.variables,
        directory=place.directory,
        confinement=place.confinement,
    )
    values = {name: value for name, (value, _) in variables.items()}
    return _read_nodes(place, configuration, values, state, plan_time(place.environment))


def _seen_by_plan(place: Place, saved: SavedPlan, things: Iterable[Thing]) -> _Seen:
    """What the data blocks of a saved plan's configuration show, read over what will stand after it."""
    if not saved.plan.basis.data_files:
        return {}, []
    configuration, _ = configuration_of(place, saved)
    if configuration is None or not _looks_at_nodes(configuration):
        return {}, []
    standing = {
        thing.address: InstanceState(ObjectState(thing.attributes, thing.creation)) for thing in things
    }
    state = State(catalogue=saved.plan.catalogue, instances=standing)
    values = planned_variables(saved.plan)
    seen, problems = _read_nodes(place, configuration, values, state, saved.plan.timestamp)
    # Places in the plan's own copy of its configuration, unpacked for a moment, say nothing to anybody.
    return seen, [_placed_in(problem, saved.snapshot) for problem in problems]


def _placed_in(problem: Diagnostic, files: Container[str]) -> Diagnostic:
    known = problem.subject is None or problem.subject.filename in files
    return problem if known else replace(problem, subject=None)


def _looks_at_nodes(configuration: Configuration) -> bool:
    sources = registries().data_sources
    return any(
        block.mode == "data" and block.type in sources and sources[block.type].kind is Kind.NODES
        for block in resource_blocks(configuration)
    )


def _read_nodes(
    place: Place, configuration: Configuration, variables: Mapping[str, Value], state: State, now: str
) -> _Seen:
    """Clusters by id as kubectl printed them. What cannot be read is a warning: the answer goes without."""
    request = PlanRequest(
        configuration=configuration,
        variables=variables,
        state=state,
        registries=registries(),
        files=RealFiles(place.confinement),
        now=now,
        workspace=place.workspace,
        working_directory=place.directory,
        read_state=RemoteStates(place, configuration.settings).read,
        ask=Servers(place).ask,
    )
    evaluation = standing_evaluation(request)
    seen = {
        str(attributes.get("cluster_id")): observation_of(str(attributes.get("objects")))
        for _, attributes in read_by(Kind.NODES, request, evaluation)
    }
    errors = [problem for problem in evaluation.diagnostics if problem.severity is Severity.ERROR]
    return seen, [_not_counted(problem) for problem in errors]


def _not_counted(problem: Diagnostic) -> Diagnostic:
    detail = f"{problem.detail} What runs on the nodes that it would show takes no room in this answer."
    return warning("nodes-not-counted", detail, problem.subject, address=problem.address, block=problem.block)
