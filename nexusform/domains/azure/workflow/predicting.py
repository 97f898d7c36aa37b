"""Where VMs would land that another tool makes: its plan over a site as it was captured.

The site is taken over in memory, what the tool changes replaces its blocks, and that is planned. Nothing is
written: the state is in memory, and the configuration stands in no directory.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.backends.memory import MemoryBackend
from nexusform.diagnostics import Diagnostic, Problem, diagnostic_of, error, has_errors
from nexusform.domains.azure.importers.arm import id_key
from nexusform.domains.azure.importers.az_adoption import (
    AdoptedObject,
    Reference,
    adopt_sites,
    pool_arguments,
)
from nexusform.domains.azure.importers.az_changes import AzChange, ChangedItems, NewPool
from nexusform.domains.azure.importers.az_inventory import read_changed_sites, read_sites
from nexusform.domains.azure.importers.az_model import AzSite
from nexusform.domains.azure.providers.azure_export import read_files
from nexusform.domains.azure.workflow.adopting import addresses_of, reference_to
from nexusform.language.evaluation import FileProblem
from nexusform.planning.preparation.prior import adopted
from nexusform.plans.plan import Plan
from nexusform.regular_files import FREE, Confinement
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.state import codec
from nexusform.state.objects import EMPTY, InstanceState, ObjectState, State
from nexusform.workflow.opening.place import Place, load_configuration
from nexusform.workflow.opening.project import Project
from nexusform.workflow.opening.surroundings import RealFiles, read_file
from nexusform.workflow.runs.importing import generated_block, with_computed
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.run import Notices, PlanOptions, Run, begin

Read: TypeAlias = Callable[[str, bytes], tuple[tuple[AzChange, ...], list[Problem]]]

_VM: Final = "nexus_virtual_machine"
_NAME: Final = re.compile(r"azapi_resource\.([A-Za-z_][\w-]*)")  # without modules and keys
_CHANGING: Final = frozenset({"nexus_kubernetes_cluster", _VM})
_LARGEST: Final = 512 * 1024 * 1024  # bytes of another tool's plan
_POOL: Final = "nexus_agent_pool"
_CLUSTER: Final = "nexus_kubernetes_cluster"
_FIRST_FILE: Final = "nexusform.nf.hcl"  # a directory without configuration is none


class Scheduler(Struct, frozen=True):
    """How the sites are taken to place VMs; None: as by default."""

    seed: int | None = None
    rack_spread: str = ""

    @property
    def attributes(self) -> dict[str, Any] | None:
        """The block of a site that says so; None without any."""
        arguments = {"tie_break_seed": self.seed, "rack_spread": self.rack_spread or None}
        return arguments if any(value is not None for value in arguments.values()) else None


class Prediction(Struct, frozen=True):
    """What there is to foretell: the project, in memory, and the objects that are made anew; None where
    something is wrong. `changes` is how many objects the other tool touches.
    """

    project: Project | None
    replaces: tuple[str, ...] = ()
    changes: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()


class _World(Struct, frozen=True):
    """A site before and after: objects by address, what stands for references, and what comes and changes
    in the order in which that is done.
    """

    before: Mapping[Address, AdoptedObject]
    after: Mapping[Address, AdoptedObject]
    addresses: Mapping[Reference, Address]
    places: Mapping[Address, str] = field(default_factory=dict)
    order: tuple[Address, ...] = ()


@contextmanager
def predicted(
    place: Place, inventory: str, path: str, read: Read, scheduler: Scheduler
) -> Iterator[Prediction]:
    """What another tool's plan comes to on an inventory; usable inside the block."""
    changes, problems = _changes(path, read, place.confinement)
    if has_errors(problems):
        yield Prediction(None, diagnostics=tuple(problems))
        return
    with tempfile.TemporaryDirectory(prefix="nexusform-") as directory:
        yield _prediction(replace(place, directory=directory), inventory, changes, problems, scheduler)


def _changes(
    path: str, read: Read, confinement: Confinement
) -> tuple[tuple[AzChange, ...], list[Diagnostic]]:
    """The changes of another tool's plan, and what is wrong with it."""
    try:
        content = read_file(path, _LARGEST, confinement.of_operator(path))
    except FileProblem as problem:
        return (), [error("unreadable-file", str(problem))]
    changes, findings = read(path, content)
    return changes, [diagnostic_of(finding) for finding in findings]


def _prediction(
    place: Place,
    inventory: str,
    changes: Sequence[AzChange],
    problems: list[Diagnostic],
    scheduler: Scheduler,
) -> Prediction:
    """The project that stands for the site, and what the changes make of it."""
    export = read_files(inventory, place.confinement.of_operator(inventory))
    if export.problems:
        return Prediction(None, diagnostics=(*problems, *map(diagnostic_of, export.problems)))
    standing, findings = read_sites(export.documents)
    sites, changed, more = read_changed_sites(export.documents, changes)
    problems += [diagnostic_of(finding) for finding in dict.fromkeys([*findings, *more])]
    if has_errors(problems):
        return Prediction(None, diagnostics=tuple(problems))
    world = _world(standing, sites, changed, scheduler)
    # What is written there is our own; what may be read was read.
    project, wrong = _project(replace(place, confinement=FREE), world, inventory)
    problems += wrong
    by_key = _references_by_key(sites)
    replaces = tuple(str(world.addresses[by_key[key]]) for key in sorted(changed.replaced) if key in by_key)
    return Prediction(project, replaces, len(changes), tuple(problems))


# --- before and after --------------------------------------------------------------------------


def _world(
    standing: Sequence[AzSite],
    sites: Sequence[AzSite],
    laid: ChangedItems,
    scheduler: Scheduler,
) -> _World:
    """Objects that change are those of the changed site; of all others what stands counts."""
    before = {(one.type, one.id): _scheduled(one, scheduler) for one in _objects(standing)}
    changed = {(one.type, one.id): one for one in _objects(sites)}
    after: dict[Reference, AdoptedObject] = {}
    for reference, one in before.items():
        if reference[0] not in _CHANGING:
            after[reference] = one
        elif reference in changed:
            after[reference] = changed[reference]
    by_key = _references_by_key(sites)
    after |= {ref: one for ref, one in changed.items() if ref not in after and ref[0] == "nexus_vm_sku"}
    new = {by_key[key]: place for key, place in laid.places.items() if key in by_key}
    after |= {reference: changed[reference] for reference in new if reference in changed}
    for pool in laid.pools:
        one = _pool_object(pool, by_key[pool.cluster_id])
        after[one.type, one.id] = one
        new[one.type, one.id] = pool.place
        by_key[f"{pool.cluster_id}/agentpools/{pool.pool.name.lower()}"] = (one.type, one.id)
    addresses = addresses_of({**before, **after}.values(), _named(new), EMPTY)
    return _World(
        before={addresses[reference]: one for reference, one in before.items()},
        after={addresses[reference]: one for reference, one in after.items()},
        addresses=addresses,
        places={addresses[reference]: place for reference, place in new.items()},
        order=tuple(addresses[by_key[key]] for key in laid.touched if by_key.get(key) in after),
    )


def _named(new: Mapping[Reference, str]) -> dict[Reference, Address]:
    """The addresses of new VMs that the other tool has a name for: tie-breaks of plain VMs go by it."""
    names = {reference: _NAME.fullmatch(place) for reference, place in new.items() if reference[0] == _VM}
    return {ref: Address((), "managed", _VM, match[1]) for ref, match in names.items() if match is not None}


def _objects(sites: Sequence[AzSite]) -> Iterator[AdoptedObject]:
    for site in adopt_sites(sites):
        yield from site.objects


def _scheduled(one: AdoptedObject, scheduler: Scheduler) -> AdoptedObject:
    if one.type != "nexus_site":
        return one
    return replace(one, attributes={**one.attributes, "scheduler": scheduler.attributes})


def _references_by_key(sites: Sequence[AzSite]) -> dict[str, Reference]:
    """The type and id of clusters and VMs by the key of their ARM id."""
    references: dict[str, Reference] = {}
    for site in sites:
        inventory = site.inventory
        references |= {id_key(c.id): (_CLUSTER, f"{site.name}/{c.name}") for c in inventory.clusters}
        references |= {id_key(vm.id): (_VM, f"{site.name}/{vm.name}") for vm in inventory.virtual_machines}
    return references


def _pool_object(pool: NewPool, cluster: Reference) -> AdoptedObject:
    arguments = pool_arguments(pool.pool)
    attributes = {
        "id": f"{cluster[1]}/{pool.pool.name}",
        "kubernetes_cluster_id": cluster[1],
        "name": pool.pool.name,
        "node_count": arguments.pop("count"),
        **arguments,
    }
    return AdoptedObject(_POOL, str(attributes["id"]), attributes, {("kubernetes_cluster_id",): cluster})


# --- the project -------------------------------------------------------------------------------


def _project(place: Place, world: _World, inventory: str) -> tuple[Project | None, list[Diagnostic]]:
    """The configuration after the changes, and in memory the state before them."""
    Path(place.directory, _FIRST_FILE).touch()
    configuration, problems = load_configuration(place, _sources(world, inventory))
    if configuration is None or has_errors(problems):
        return None, problems
    backend = MemoryBackend()
    backend.write(codec.encode(_state(world.before)))
    project = Project(
        place=place,
        configuration=configuration,
        variables={},
        sources=dict(configuration.files),
        registries=registries(),
        files=RealFiles(place.confinement),
        backend=backend,
    )
    return project, problems


def _sources(world: _World, inventory: str) -> list[SourceFile]:
    """What stands as one text, and each new object as one of its own under the name that the other tool has
    for it. What is done comes one after the other; VMs that stand and change come first.
    """
    types = registries().resource_types
    changing = [
        address
        for address, one in world.before.items()
        if address not in world.places and world.after.get(address, one) != one
    ]
    clusters = {address for address in changing if address.type == _CLUSTER}
    previous = [address for address in changing if address not in clusters]
    needs: dict[Address, list[Address]] = {}
    for address in world.order:
        if address in world.places or address in clusters:
            needs[address] = previous
            previous = [address]
    standing: list[str] = []
    new: dict[Address, SourceFile] = {}
    for address, one in world.after.items():
        references = {path: reference_to(world.addresses[whose]) for path, whose in one.refers.items()}
        text = generated_block(address, types[address.type].schema, one.attributes, references)
        if needs.get(address):
            after = ", ".join(map(str, needs[address]))
            text = text.rstrip().removesuffix("}") + f"\n  depends_on = [{after}]\n}}\n"
        if address in world.places:
            new[address] = SourceFile(world.places[address], text)
        else:
            standing.append(text)
    return [SourceFile(inventory, "\n".join(standing)), *new.values()]


def _state(objects: Mapping[Address, AdoptedObject]) -> State:
    """The state that an import of these objects leaves."""
    known = registries()
    attributes = {
        address: adopted(known.resource_types[address.type].schema, one.attributes, one.id)
        for address, one in objects.items()
    }
    complete = with_computed(attributes, known)
    instances = {
        address: InstanceState(ObjectState(complete[address], number))
        for number, address in enumerate(objects, 1)
    }
    return State(lineage="", serial=1, instances=instances, last_creation=len(instances))


# --- the plan ----------------------------------------------------------------------------------


@contextmanager
def prediction_run(project: Project, notices: Notices) -> Iterator[Run]:
    """A run on the project; it locks nothing and asks nobody."""
    with begin(
        project, "OperationTypePlan", Locking(enabled=False, alone=True), notices=notices, settles=False
    ) as run:
        yield run


def foretell(run: Run, options: PlanOptions, prediction: Prediction) -> Plan:
    """Plan what the other tool does; what was met while reading is said with the plan."""
    plan = run.plan(replace(options, refresh=False, replaces=prediction.replaces)).plan
    return replace(plan, diagnostics=(*prediction.diagnostics, *plan.diagnostics))
