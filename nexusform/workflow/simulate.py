"""What-if questions: read the world from the state or a saved plan, and ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.planning.vms.sites import Thing
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.state import codec
from nexusform.state.objects import EMPTY, State
from nexusform.whatif.pod_view import view_pods
from nexusform.whatif.pods_down import ClusterPods
from nexusform.whatif.world_view import WorldView, things_after, things_of_state, view_world
from nexusform.workflow.place import Place, load_configuration
from nexusform.workflow.project import find_backend
from nexusform.workflow.saved_plans import other_variables, read_plan
from nexusform.workflow.stored import read_stored

if TYPE_CHECKING:  # loaded where a fleet is asked
    from nexusform.whatif.fleet import FleetWorld


class AskedWorld(Struct, frozen=True):
    """The world to ask, or None and what is wrong. `origin` says in words where it is from.

    `pods` are the pods of the clusters of which any are known, by cluster id. `things` are all objects, to
    be read with this SKU catalogue.
    """

    view: WorldView | None = None
    origin: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)
    pods: Mapping[str, ClusterPods] = field(default_factory=dict)
    things: tuple[Thing, ...] = ()
    catalogue: str = ""


def open_fleet(place: Place, plan_path: str = "") -> tuple[FleetWorld | None, AskedWorld]:
    """The fleet as the state has it, or as a saved plan will leave it; None where there is none."""
    from nexusform.whatif.fleet import fleet_world

    world = _of_plan(plan_path, place) if plan_path else _of_state(place)
    if world.view is None:
        return None, world
    fleet = fleet_world(world.things, registries(), world.catalogue)
    if not fleet.seats.members:
        detail = (
            f"There is no fleet_member_cluster in {world.origin}. Apply a configuration that has one, or ask "
            "a saved plan: `nexusform plan -out=FILE`, then this command with -plan=FILE."
        )
        problem = error("nothing-to-simulate", detail)
        return None, replace(world, diagnostics=(*world.diagnostics, problem))
    return fleet, world


def open_world(place: Place, plan_path: str = "") -> AskedWorld:
    """The world as the state has it, or as a saved plan will leave it."""
    world = _of_plan(plan_path, place) if plan_path else _of_state(place)
    if world.view is not None and not world.view.sites:
        problem = error(
            "nothing-to-simulate",
            f"There is no site in {world.origin}. Apply a configuration that has one, or ask a saved plan: "
            "`nexusform plan -out=FILE`, then this command with -plan=FILE.",
        )
        return replace(world, view=None, diagnostics=(*world.diagnostics, problem))
    return world


def _of_state(place: Place) -> AskedWorld:
    backend, problems, sources = find_backend(place)
    if backend is None:
        return AskedWorld(diagnostics=tuple(problems), sources=sources)
    stored, wrong = read_stored(backend)
    problems += wrong
    if stored is None or has_errors(problems):
        return AskedWorld(diagnostics=tuple(problems), sources=sources)
    state = stored.state
    origin = f"state serial {state.serial}" if state.lineage else "the state, which is empty"
    return _world(things_of_state(state), state.catalogue, AskedWorld(None, origin, tuple(problems), sources))


def _of_plan(path: str, place: Place) -> AskedWorld:
    saved, problems = read_plan(path, place)
    if saved is None:
        return AskedWorld(diagnostics=tuple(problems))
    prior: State | None = EMPTY
    if saved.prior_state:
        prior, wrong = codec.decode(saved.prior_state, path)
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
    return _world(things, saved.plan.catalogue, AskedWorld(None, f"after plan {path}", tuple(problems)))


def _world(things: tuple[Thing, ...], catalogue: str, origin: AskedWorld) -> AskedWorld:
    types = registries()
    view = view_world(things, types, catalogue)
    pods = view_pods(things, view, types)
    return replace(origin, view=view, pods=pods, things=things, catalogue=catalogue)
