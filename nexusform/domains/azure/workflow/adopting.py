"""Taking a whole site over: what stands in an export becomes configuration and state that agree."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.applying.events import StepEvent
from nexusform.configuration.body_evaluation import prepare_body
from nexusform.configuration.declared.configuration import ProviderBlock
from nexusform.configuration.declared.constants import NO_NAMES
from nexusform.diagnostics import Diagnostic, Problem, diagnostic_of, error, has_errors, warning
from nexusform.domains.azure.importers.az_adoption import AdoptedObject, AdoptedSite, Reference, adopt_sites
from nexusform.domains.azure.importers.az_known_nodes import known_nodes
from nexusform.domains.azure.importers.az_model import AzSite
from nexusform.domains.azure.importers.az_sites import named_as_known
from nexusform.domains.azure.providers import azure
from nexusform.domains.azure.providers.azure_export import SETTINGS, read_export
from nexusform.domains.azure.providers.observed_site import ReadSites
from nexusform.planning.preparation.prior import adopted
from nexusform.planning.request import Imported
from nexusform.plans.plan import Action
from nexusform.ports import ProviderProblem
from nexusform.rendering.notation.hcl_text import quoted
from nexusform.resource_types.registry import registries
from nexusform.schema import BlockSchema
from nexusform.source import Position, SourceFile, Span
from nexusform.state.objects import EMPTY, ObjectState, State
from nexusform.words import counted, first_of
from nexusform.workflow.opening.place import Place, load_configuration
from nexusform.workflow.opening.project import find_backend, open_project
from nexusform.workflow.opening.providers import strange_addresses
from nexusform.workflow.opening.stored import read_stored
from nexusform.workflow.plan_files.apply import ApplyOptions, apply_plan
from nexusform.workflow.runs.importing import (
    ENDING,
    Takeover,
    generated_block,
    refusal_to_generate,
    with_computed,
    write_new,
)
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.run import Notices, PlanOptions, Run, begin

PROVIDER: Final = "azure_export"
_MACHINE: Final = "nexus_bare_metal_machine"
_NOT_IN_LABEL: Final = re.compile(r"[^A-Za-z0-9_-]")
_HEADING: Final = """\
# A running site, written by `nexusform import` from {source}.
# Look it through, then keep it as your own. Where VMs stand is in the state: nothing here moves any.

"""


class Source(Struct, frozen=True):
    """Where sites are read: `name` in words, `read` gives them and what is wrong with them. `provider` reads
    them for plans; `settings` are those of its block, None where the configuration has that already. It gets
    an `alias` where others of its kind are there.
    """

    name: str
    read: ReadSites
    provider: str
    settings: Mapping[str, str] | None = None
    alias: str = ""


class Adoption(Struct, frozen=True):
    """What an export comes to: the objects that are new to the state under their addresses, in planning
    order, the configuration that describes them and the provider that it names, the sites as they were
    counted, and what was met.
    """

    objects: Mapping[Address, AdoptedObject] = field(default_factory=dict)
    text: str = ""
    provider: str = PROVIDER
    sites: tuple[AdoptedSite, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def _adopted(source: Source, state: State) -> tuple[tuple[AdoptedSite, ...], list[Diagnostic]]:
    """The sites of a source as objects, and everything wrong with what was read."""
    try:
        sites, problems = source.read()
    except ProviderProblem as problem:
        return (), [error("reading-what-stands-failed", str(problem))]
    diagnostics = [diagnostic_of(problem) for problem in problems]
    if has_errors(diagnostics):
        return (), diagnostics
    named = named_as_known(sites, _attributes(state, source.provider))
    adopted = adopt_sites(named, known_nodes(_attributes(state)))
    diagnostics += [diagnostic_of(finding) for site in adopted for finding in site.findings]
    return adopted, diagnostics


def _attributes(state: State, provider: str = "") -> Iterator[Mapping[str, Any]]:
    """The attributes of what state holds, or of what it holds of one provider."""
    for instance in state.instances.values():
        if instance.current is not None and provider in {"", instance.current.provider}:
            yield instance.current.attributes


def plan_adoption(source: Source, state: State) -> Adoption:
    """What of an export is to be taken over, and the configuration for it. What state holds already stays
    as it is.
    """
    standing = _by_identity(state)
    sites, diagnostics = _adopted(source, state)
    objects = [one for site in sites for one in site.objects]
    addresses = addresses_of(objects, standing, state)
    fresh = {addresses[one.type, one.id]: one for one in objects if (one.type, one.id) not in standing}
    diagnostics += _of_another_site(fresh, objects, state, source.provider)
    text = _text(fresh, addresses, source) if fresh else ""
    return Adoption(
        objects=fresh, text=text, provider=source.provider, sites=sites, diagnostics=tuple(diagnostics)
    )


class _HiddenMachine(NamedTuple):
    """A machine of the state that an export does not show; `is_certain` when the same provider has it."""

    site: str
    address: str
    is_certain: bool


def _of_another_site(
    fresh: Mapping[Address, AdoptedObject], objects: Iterable[AdoptedObject], state: State, provider: str
) -> Iterator[Diagnostic]:
    """Machines that would be taken over although state has one of that rack and name at a site of which they
    are not shown any more. At the same provider that is the same machine, at another one it may be.
    """
    shown = {one.id for one in objects if one.type == _MACHINE}
    hidden: dict[str, list[_HiddenMachine]] = {}  # by rack and name
    for address, instance in state.instances.items():
        if address.type != _MACHINE or instance.current is None:
            continue
        machine_id = str(instance.current.attributes.get("id"))
        site, _, name = machine_id.partition("/")
        if machine_id not in shown:
            machine = _HiddenMachine(site, str(address), instance.current.provider == provider)
            hidden.setdefault(name, []).append(machine)
    twice: dict[tuple[str, str, bool], list[str]] = {}
    for site, _, name in (one.id.partition("/") for one in fresh.values() if one.type == _MACHINE):
        for machine in hidden.get(name, ()):
            twice.setdefault((site, machine.site, machine.is_certain), []).append(machine.address)
    for (site, old_site, certain), addresses in sorted(twice.items()):
        yield _known_by_another_name(site, old_site, addresses, certain=certain)


def _known_by_another_name(site: str, old: str, addresses: Sequence[str], *, certain: bool) -> Diagnostic:
    """What is said of machines that the state has at a site of another name."""
    machines = counted(len(addresses), "machine")
    detail = (
        f'{machines} of the site "{site}" have the rack and name of machines that the state has at the site '
        f'"{old}" ({first_of(addresses, 3)}) and that are not shown there.'
    )
    if certain:
        way_out = (
            "Nothing was taken over: they would stand in the state twice, and plans would make the others "
            f'anew. If "{site}" is right, forget those of "{old}" (nexusform state rm ADDRESS) and delete '
            "their blocks; then import again."
        )
        return error("machines-of-another-site", f"{detail} {way_out}")
    way_out = (
        f'Where both sites are there, all is well. If "{site}" is "{old}" under another name, it stands in '
        "the state twice now: forget what was just imported (nexusform state rm ADDRESS), delete its file, "
        "and give the export to the provider that those machines have."
    )
    return warning("machines-of-another-site", f"{detail} {way_out}")


def _by_identity(state: State) -> dict[Reference, Address]:
    """The addresses of a state's objects by type and id."""
    return {
        (address.type, str(instance.current.attributes.get("id"))): address
        for address, instance in state.instances.items()
        if instance.current is not None
    }


# --- addresses ---------------------------------------------------------------------------------


def addresses_of(
    objects: Iterable[AdoptedObject], standing: Mapping[Reference, Address], state: State
) -> dict[Reference, Address]:
    """The address of each object: the one it has in `standing`, or one named as the object is. Where objects
    of one type have one name, the site comes before it.
    """
    listed = list(objects)
    shared = Counter((one.type, _label(one.attributes["name"])) for one in listed)
    taken = {(address.type, address.name) for address in (*state.instances, *standing.values())}
    addresses: dict[Reference, Address] = {}
    for one in listed:
        known = standing.get((one.type, one.id))
        if known is not None:
            addresses[one.type, one.id] = known
            continue
        label = _label(one.attributes["name"])
        if shared[one.type, label] > 1:
            label = _label(one.id.replace("/", "-"))
        free, number = label, 2
        while (one.type, free) in taken:
            free, number = f"{label}_{number}", number + 1
        taken.add((one.type, free))
        addresses[one.type, one.id] = Address((), "managed", one.type, free)
    return addresses


def _label(name: str) -> str:
    """A name as it may stand in an address."""
    label = _NOT_IN_LABEL.sub("_", name)
    return label if label[:1].isalpha() or label[:1] == "_" else f"_{label}"


# --- configuration -----------------------------------------------------------------------------


def _text(
    objects: Mapping[Address, AdoptedObject], addresses: Mapping[Reference, Address], source: Source
) -> str:
    """The configuration of adopted objects, block by block."""
    types = registries().resource_types
    blocks: list[str] = []
    for address, one in objects.items():
        references = {path: reference_to(addresses[whose]) for path, whose in one.refers.items()}
        schema = types[address.type].schema
        blocks.append(generated_block(address, schema, one.attributes, references, source.provider))
    return _HEADING.format(source=source.name) + "\n".join([*_provider_block(source), *blocks])


def _provider_block(source: Source) -> Iterator[str]:
    if source.settings is None:
        return
    settings = {**({"alias": source.alias} if source.alias else {}), **source.settings}
    widest = max(map(len, settings))
    lines = [f"  {name:{widest}} = {quoted(value)}\n" for name, value in settings.items()]
    yield f'provider "{source.provider.partition(".")[0]}" {{\n{"".join(lines)}}}\n'


def reference_to(address: Address) -> str:
    """The expression that stands for an object in what refers to it."""
    attribute = "name" if address.type == "nexus_vm_sku" else "id"
    return f"{address.type}.{address.name}.{attribute}"


# --- taking over -------------------------------------------------------------------------------


def import_site(place: Place, named: str, path: str, locking: Locking, notices: Notices) -> Takeover:
    """Take over what an exported directory shows, or Azure (`named` "azure"), and state does not hold; `path`
    is the new file for its configuration. Nothing is written when anything is wrong.
    """
    refusal = refusal_to_generate(path) or _refusal_of_place(path, place.directory)
    if refusal is not None:
        return Takeover(diagnostics=(refusal,))
    state, problems, sources = _standing(place)
    if has_errors(problems):
        return Takeover(diagnostics=tuple(problems), sources=sources)
    source, wrong = source_for(place, named)
    problems += wrong
    adoption = plan_adoption(source, state) if source is not None else Adoption()
    problems += adoption.diagnostics
    lines = tuple(map(_site_line, adoption.sites))
    if has_errors(problems) or not adoption.objects:
        return Takeover(lines, 0, tuple(problems), sources)
    wrong = write_new(path, adoption.text)
    if has_errors(wrong):
        return Takeover(diagnostics=(*problems, *wrong), sources=sources)
    wrong, sources = _into_state(place, adoption, locking, notices)
    problems += wrong
    if has_errors(wrong):
        Path(path).unlink()
    return Takeover(lines, len(adoption.objects), tuple(problems), sources)


def _site_line(site: AdoptedSite) -> str:
    """`lon1: 8 racks, 128 machines, 15 clusters; 900 VMs adopted, 2 without a machine, 0 occupied`."""
    types = [one.type for one in site.objects]
    parts = [
        counted(types.count("nexus_rack"), "rack"),
        counted(types.count("nexus_bare_metal_machine"), "machine"),
        counted(types.count("nexus_kubernetes_cluster"), "cluster"),
    ]
    vms = f"{counted(site.adopted, 'VM')} adopted, {site.unplaced:,} without a machine"
    return f"{site.name}: {', '.join(parts)}; {vms}, {site.occupied:,} occupied"


def _standing(place: Place) -> tuple[State, list[Diagnostic], Mapping[str, SourceFile]]:
    """What state holds before the import; there need not be any configuration."""
    backend, problems, sources = find_backend(place)
    if backend is None or has_errors(problems):
        return EMPTY, problems, sources
    stored, wrong = read_stored(backend)
    return (stored.state if stored is not None else EMPTY), [*problems, *wrong], sources


def _into_state(
    place: Place, adoption: Adoption, locking: Locking, notices: Notices
) -> tuple[list[Diagnostic], Mapping[str, SourceFile]]:
    """Open the configuration with what was written, and take the objects into the state under the lock."""
    opened = open_project(place)
    problems = list(opened.diagnostics)
    if opened.project is None:
        return problems, opened.sources
    with begin(opened.project, "OperationTypeImport", locking, notices=notices) as run:
        if run.ready:
            problems += _take_over(run, adoption)
    return [*problems, *run.diagnostics], opened.sources


def _take_over(run: Run, adoption: Adoption) -> list[Diagnostic]:
    """Write the objects into the state by a plan that changes nothing and moves nobody. Where configuration
    and objects do not agree it is refused.
    """
    state = run.stored.state
    standing = _by_identity(state)
    if any((one.type, one.id) in standing for one in adoption.objects.values()):
        return [error("state-changed-during-import", "Somebody else imported meanwhile. Run it again.")]
    here = Position(1, 1, 0)
    types = run.project.registries.resource_types
    attributes = {
        address: adopted(types[address.type].schema, one.attributes, one.id)
        for address, one in adoption.objects.items()
    }
    complete = with_computed(attributes, run.project.registries)
    imports = {
        address: Imported(
            one.id,
            ObjectState(
                complete[address], state.last_creation + number, provider=adoption.provider, private=one.note
            ),
            Span("", here, here),
        )
        for number, (address, one) in enumerate(adoption.objects.items(), 1)
    }
    options = PlanOptions(refresh=False, tie_breaks=0, targets=tuple(map(str, imports)), adopting=imports)
    plan = run.plan(options).plan
    problems = [problem for problem in plan.diagnostics if problem.id != "resource-targeting-is-in-effect"]
    if has_errors(problems):
        return problems
    differing = [c for c in plan.changes if c.address in imports and c.action is not Action.NO_OP]
    if differing:
        return [*problems, _refused([str(change.address) for change in differing])]
    return [*problems, *apply_plan(run, plan, _Silent(), ApplyOptions()).diagnostics]


class _Silent:
    """Nobody is told of steps: an import has none."""

    def started(self, event: StepEvent) -> None:
        """A step begins."""

    def progressed(self, event: StepEvent) -> None:
        """Ten more seconds have passed."""

    def ended(self, event: StepEvent) -> None:
        """A step ended."""


def _refused(differing: Sequence[str]) -> Diagnostic:
    return error(
        "import-would-change",
        f"An import changes nothing, and what was written for {first_of(differing, 5)} would. Nothing was "
        "taken over. Please report this with the export.",
    )


def _refusal_of_place(path: str, root: str) -> Diagnostic | None:
    """Configuration is read from *.nf.hcl files of the root module's directory only."""
    if path.endswith(ENDING) and Path(path).resolve().parent == Path(root).resolve():
        return None
    detail = (
        f'nexusform reads *{ENDING} files of the root module\'s directory only, and "{path}" is none. Name '
        f"for example site{ENDING}."
    )
    return error("generated-configuration-stands-elsewhere", detail)


def source_for(place: Place, named: str) -> tuple[Source | None, list[Diagnostic]]:
    """What `-from` names: an exported directory, or `azure`."""
    configuration, _ = load_configuration(place)
    blocks = configuration.root.providers if configuration is not None else {}
    if named == azure.KIND and not Path(named).is_dir():
        return _from_azure(place, blocks)
    return _from_directory(place, named, blocks), []


def _from_directory(place: Place, directory: str, blocks: Mapping[str, ProviderBlock]) -> Source:
    """An exported directory, by the provider that the configuration has for it already, or a new one."""
    relative = os.path.relpath(directory, place.directory).replace(os.sep, "/")
    written_as = Path(directory).resolve().as_posix() if relative.startswith("../../..") else relative

    def read() -> tuple[tuple[AzSite, ...], list[Problem]]:
        return read_export(directory, {}, place.confinement.of_operator(directory))

    taken = {key: _settings(block, SETTINGS) for key, block in blocks.items() if block.name == PROVIDER}
    for key, settings in taken.items():
        if settings.get("directory") in {relative, written_as}:
            return Source(directory, read, key)
    block = {"directory": written_as}
    if not taken:
        return Source(directory, read, PROVIDER, block)
    alias = _label(Path(directory).resolve().name)
    return Source(name=directory, read=read, provider=f"{PROVIDER}.{alias}", settings=block, alias=alias)


def _from_azure(place: Place, blocks: Mapping[str, ProviderBlock]) -> tuple[Source | None, list[Diagnostic]]:
    """Azure, as its provider block says, else the subscription that the environment names."""
    settings: Mapping[str, Any] = {}
    block = blocks.get(azure.KIND)
    if block is not None:
        settings = _settings(block, azure.SETTINGS)
    try:
        strangers = strange_addresses(block, settings, place) if block is not None else []
        if strangers:
            return None, strangers
        subscription = azure.subscription_of(settings)
    except ProviderProblem as problem:
        return None, [error("which-subscription", f"{problem}", block.span if block else None)]
    new = {"subscription_id": subscription} if block is None else None
    return Source(f"subscription {subscription}", lambda: azure.read_azure(settings), azure.KIND, new), []


def _settings(block: ProviderBlock, schema: BlockSchema) -> Mapping[str, Any]:
    """The settings of a provider block that are literals."""
    body, _ = prepare_body(block.body, schema, block.span)
    return body.evaluate(NO_NAMES)[0]
