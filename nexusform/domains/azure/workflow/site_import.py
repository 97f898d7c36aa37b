"""Import of a whole site: existing objects become matching configuration and state."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.applying.events import StepListener
from nexusform.configuration.body_preparation import build_prepared_body
from nexusform.configuration.declarations.configuration import ProviderBlock
from nexusform.configuration.static_arguments import EMPTY_SCOPE
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    Position,
    Problem,
    Span,
    build_error,
    build_warning,
    convert_problem,
    has_errors,
)
from nexusform.diagnostics.phrases import format_count, format_first_items
from nexusform.domains.azure.importers.az_import import (
    ImportedSite,
    ImportedSiteObject,
    Reference,
    build_imported_sites,
    describe_other_subscription,
)
from nexusform.domains.azure.importers.az_recorded_nodes import (
    collect_recorded_nodes,
    locate_vms_on_unlisted_machines,
)
from nexusform.domains.azure.importers.az_records import AzSite
from nexusform.domains.azure.importers.site_separation import apply_recorded_site_names
from nexusform.domains.azure.providers import azure
from nexusform.domains.azure.providers.azure_export import SETTINGS, read_export
from nexusform.domains.azure.providers.observed_site import GROUP_KEY, ReadSites
from nexusform.interfaces.plugins import ProviderProblem, ReadRequest
from nexusform.json_data.plain_data import get_mapping
from nexusform.planning.plan_request import ImportedObject
from nexusform.planning.preparation.prior_state import normalize_imported_attributes
from nexusform.plans.plan import Action, InventoryRead
from nexusform.rendering.notation.hcl_text import quote_string
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import Address
from nexusform.schemas.block_schema import BlockSchema
from nexusform.state.objects import EMPTY, ObjectState, State
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.opening.project import find_backend
from nexusform.workflow.opening.provider_setup import (
    build_capture_address,
    check_provider_addresses,
)
from nexusform.workflow.opening.stored_state import read_stored_state
from nexusform.workflow.plan_files.import_execution import import_with_new_file
from nexusform.workflow.plan_files.plan_execution import PlanApplyOptions, apply_plan
from nexusform.workflow.runs.object_import import (
    CONFIGURATION_SUFFIX,
    ImportResult,
    add_computed_attributes,
    check_generated_path,
    render_resource_block,
    write_new_file,
)
from nexusform.workflow.runs.run import PlanOptions, Run, RunCallbacks, find_older_exports
from nexusform.workflow.runs.state_locking import LockOptions

PROVIDER: Final = "azure_export"
_MACHINE: Final = "nexus_bare_metal_machine"
_INVALID_LABEL_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_-]")
# Before a digit, a hyphen or nothing.
_INVALID_LABEL_START: Final = re.compile(r"^(?![A-Za-z_])")
_HEADING: Final = """\
# A running site, written by `nexusform import` from {source}.
# Review it, then edit it as you like. VM placement is in the state: this file moves no VM.

"""


class Source(Struct, frozen=True):
    """Source of sites.

    `name` is its display name. `read` returns sites and findings. `provider` is the key of the
    provider for later plans. `settings` are those of its block, None if configured already. `alias`
    is set if other blocks of its kind exist. `verify_absence` is as in ObservedSites.
    """

    name: str
    read: ReadSites
    provider: str
    settings: Mapping[str, str] | None = None
    alias: str = ""
    verify_absence: Callable[[Sequence[ReadRequest]], None] = lambda _requests: None


class SiteImportPlan(Struct, frozen=True):
    """New objects of an import, by address in planning order.

    There are also their configuration and provider, site counts and diagnostics.
    """

    objects: Mapping[Address, ImportedSiteObject] = field(default_factory=dict)
    text: str = ""
    provider: str = PROVIDER
    sites: tuple[ImportedSite, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def _read_source_site_objects(
    source: Source, state: State
) -> tuple[tuple[ImportedSite, ...], list[Diagnostic]]:
    """Read the sites of a source as objects, with names and node numbers as in state.

    The sites are () after an error.
    """
    try:
        sites, problems = source.read()
    except ProviderProblem as problem:
        return (), [build_error("refresh-failed", str(problem))]
    diagnostics = list(map(convert_problem, problems))
    if has_errors(diagnostics):
        return (), diagnostics
    recorded = list(_list_attributes(state, source.provider))
    named_sites = locate_vms_on_unlisted_machines(
        apply_recorded_site_names(sites, recorded), recorded
    )
    diagnostics += chain.from_iterable(
        _check_imported_site(site, source.name, state) for site in named_sites
    )
    imported_sites = build_imported_sites(
        named_sites, collect_recorded_nodes(_list_attributes(state))
    )
    diagnostics += map(
        convert_problem, chain.from_iterable(site.findings for site in imported_sites)
    )
    return imported_sites, diagnostics


def _check_imported_site(site: AzSite, source_name: str, state: State) -> Iterator[Diagnostic]:
    """Yield errors about sites of another subscription, and VMs on unlisted machines.

    The subscription is another than in state. The machines are not in the list of the site. The
    location of such VMs is unknown, so a later plan would move them.
    """
    for address, current in state.list_current_objects():
        if address.type != "nexus_site" or current.attributes.get("id") != site.name:
            continue  # another object
        # "" for none.
        difference = describe_other_subscription(site, current.note)
        if difference:
            yield build_error(
                "refresh-failed", f"{source_name} is of another subscription: {difference}"
            )
    unlisted = dict.fromkeys(vm.unlisted_machine for vm in site.inventory.vms_on_unlisted_machines)
    if unlisted:
        detail = (
            f"The list of machines of {site.name} lacks {format_count(len(unlisted), 'machine')} "
            f"with VMs ({format_first_items(list(unlisted), 4)}). Nothing was imported. Capture "
            "racks, machines, clusters and VMs again at the same time; their reader needs access "
            "to all of them."
        )
        yield build_error("unknown-machine", detail)


def _list_attributes(state: State, provider: str = "") -> Iterator[Mapping[str, Any]]:
    """List the attributes of the objects in state, optionally of one provider."""
    for _, current in state.list_current_objects():
        if provider in {"", current.provider}:
            yield current.attributes


def plan_site_import(source: Source, state: State) -> SiteImportPlan:
    """Plan the import of the objects of a source missing in state.

    The result has their configuration as text.
    """
    existing = _index_addresses_by_identity(state)
    sites, diagnostics = _read_source_site_objects(source, state)
    objects = [item for site in sites for item in site.objects]
    addresses = assign_import_addresses(objects, existing, state)
    new_objects = {
        addresses[item.type, item.id]: item
        for item in objects
        if (item.type, item.id) not in existing
    }
    diagnostics += _warn_about_renamed_sites(new_objects, objects, state, source.provider)
    text = _render_configuration(new_objects, addresses, source)
    return SiteImportPlan(
        objects=new_objects,
        text=text,
        provider=source.provider,
        sites=sites,
        diagnostics=tuple(diagnostics),
    )


class _UnlistedMachine(NamedTuple):
    """Machine in state but not in an export; `is_certain` if the same provider has it."""

    site: str
    address: str
    is_certain: bool


def _warn_about_renamed_sites(
    new_objects: Mapping[Address, ImportedSiteObject],
    objects: Iterable[ImportedSiteObject],
    state: State,
    provider: str,
) -> Iterator[Diagnostic]:
    """Warn about imported machines that may exist in state at another site.

    An unlisted machine in state at another site has the same rack and name. They may be of a site
    with a new name. With the same provider it is certainly the same machine.
    """
    listed_ids = {item.id for item in objects if item.type == _MACHINE}
    unlisted: dict[str, list[_UnlistedMachine]] = {}  # by RACK/NAME
    for address, current in state.list_current_objects():
        machine_id = str(current.attributes.get("id"))
        site, _, rack_and_name = machine_id.partition("/")
        if address.type == _MACHINE and machine_id not in listed_ids:
            machine = _UnlistedMachine(site, str(address), is_certain=current.provider == provider)
            unlisted.setdefault(rack_and_name, []).append(machine)
    # Addresses by site, site in state, and is_certain.
    duplicates: dict[tuple[str, str, bool], list[str]] = {}
    for site, _, rack_and_name in (
        item.id.partition("/") for item in new_objects.values() if item.type == _MACHINE
    ):
        for machine in unlisted.get(rack_and_name, ()):
            duplicates.setdefault((site, machine.site, machine.is_certain), []).append(
                machine.address
            )
    for (site, old_site, is_certain), addresses in sorted(duplicates.items()):
        yield _build_renamed_site_problem(site, old_site, addresses, is_certain=is_certain)


def _build_renamed_site_problem(
    site: str, old_site: str, addresses: Sequence[str], *, is_certain: bool
) -> Diagnostic:
    """Report machines in state at a site of another name.

    This is an error if `is_certain`, else a warning.
    """
    machines = format_count(len(addresses), "machine")
    detail = (
        f'{machines} of the site "{site}" have the rack and name of machines of the site '
        f'"{old_site}" ({format_first_items(addresses, 3)}) in the state, which that site no '
        "longer shows."
    )
    if is_certain:
        remedy = (
            "Nothing was imported: they would be in the state twice, and plans would re-create the "
            f'others. If "{site}" is right, remove those of "{old_site}" (nexusform state rm '
            "ADDRESS) and delete their blocks; then import again."
        )
        return build_error("machines-from-another-site", f"{detail} {remedy}")
    remedy = (
        f'If both sites exist, ignore this. If "{site}" is "{old_site}" under another name, it is '
        "now in the state twice. Remove the new objects (nexusform state rm ADDRESS), delete their "
        "file, and configure the export in the provider of those machines."
    )
    return build_warning("machines-from-another-site", f"{detail} {remedy}")


def _index_addresses_by_identity(state: State) -> dict[Reference, Address]:
    """Index the addresses of objects in state by type and id."""
    return {
        (address.type, str(obj.attributes.get("id"))): address
        for address, obj in state.list_current_objects()
    }


def assign_import_addresses(
    objects: Iterable[ImportedSiteObject], existing: Mapping[Reference, Address], state: State
) -> dict[Reference, Address]:
    """Assign an address to each object, by its type and id.

    The one in `existing`, else a new one from its name. If objects of its type share the name, the
    new one is from its id, starting with the site.
    """
    object_list = list(objects)
    label_counts = Counter(
        (item.type, _build_address_label(item.attributes["name"])) for item in object_list
    )
    used = {(address.type, address.name) for address in (*state.instances, *existing.values())}
    addresses: dict[Reference, Address] = {}
    for item in object_list:
        recorded_address = existing.get((item.type, item.id))
        if recorded_address is not None:
            addresses[item.type, item.id] = recorded_address
            continue
        label = _build_address_label(item.attributes["name"])
        if label_counts[item.type, label] > 1:
            label = _build_address_label(item.id.replace("/", "-"))
        unique_label = label
        number = 2
        while (item.type, unique_label) in used:
            unique_label = f"{label}_{number}"
            number = number + 1
        used.add((item.type, unique_label))
        addresses[item.type, item.id] = Address((), "managed", item.type, unique_label)
    return addresses


def _build_address_label(name: str) -> str:
    """Convert a name to a valid label of an address."""
    return _INVALID_LABEL_START.sub("_", _INVALID_LABEL_CHARACTERS.sub("_", name))


def _render_configuration(
    objects: Mapping[Address, ImportedSiteObject],
    addresses: Mapping[Reference, Address],
    source: Source,
) -> str:
    """Render the blocks of imported objects, with a provider block if the source needs one."""
    types = build_registries().resource_types
    blocks: list[str] = []
    # Else the provider is configured already.
    if source.settings is not None:
        settings = {**omit_empty({"alias": source.alias}), **source.settings}
        width = max(map(len, settings))
        lines = [f"  {name:{width}} = {quote_string(value)}\n" for name, value in settings.items()]
        # KIND or KIND.ALIAS.
        kind = source.provider.partition(".")[0]
        blocks.append(f'provider "{kind}" {{\n{"".join(lines)}}}\n')
    for address, item in objects.items():
        references = {
            path: build_reference(addresses[target]) for path, target in item.references.items()
        }
        schema = types[address.type].schema
        blocks.append(
            render_resource_block(address, schema, item.attributes, references, source.provider)
        )
    return _HEADING.format(source=source.name) + "\n".join(blocks)


def build_reference(address: Address) -> str:
    """Build the expression that refers to an object."""
    attribute = "name" if address.type == "nexus_vm_sku" else "id"
    return f"{address.type}.{address.name}.{attribute}"


def import_site(
    location: CommandContext,
    source_name: str,
    path: str,
    locking: LockOptions,
    notices: RunCallbacks,
) -> ImportResult:
    """Import the objects missing in state, of an exported directory or of Azure.

    For Azure, `source_name` is "azure". `path` is the new configuration file. Nothing is written if
    there are errors.
    """
    rejection = check_generated_path(path) or _check_target_file(path, location.directory)
    if rejection is not None:
        return ImportResult(diagnostics=(rejection,))
    backend, problems, sources = find_backend(location)
    state = EMPTY
    if backend is not None and not has_errors(problems):
        stored, read_problems = read_stored_state(backend)
        state = stored.state if stored is not None else EMPTY
        problems = [*problems, *read_problems]
    if has_errors(problems):
        return ImportResult(diagnostics=tuple(problems), sources=sources)
    try:
        site_import = plan_site_import(find_site_source(location, source_name), state)
    except DiagnosticsError as failure:
        return ImportResult(diagnostics=(*problems, *failure.diagnostics), sources=sources)
    problems += site_import.diagnostics
    lines = tuple(map(_format_site_counts, site_import.sites))
    if has_errors(problems) or not site_import.objects:
        return ImportResult(lines, imported=0, diagnostics=tuple(problems), sources=sources)
    new_problems = write_new_file(path, site_import.text)
    if has_errors(new_problems):
        return ImportResult(diagnostics=(*problems, *new_problems), sources=sources)
    new_problems, sources = import_with_new_file(
        location,
        path,
        locking,
        notices,
        lambda run: _apply_import_without_changes(run, site_import),
    )
    problems += new_problems
    return ImportResult(lines, len(site_import.objects), tuple(problems), sources)


def _format_site_counts(site: ImportedSite) -> str:
    """Format the counts of racks, machines, clusters, and VMs.

    VMs are counted as imported, without a machine, or only used capacity.
    """
    types = [item.type for item in site.objects]
    parts = [
        format_count(types.count("nexus_rack"), "rack"),
        format_count(types.count("nexus_bare_metal_machine"), "machine"),
        format_count(types.count("nexus_kubernetes_cluster"), "cluster"),
    ]
    vms = f"{format_count(site.imported, 'VM')} imported, {site.unplaced:,} without a machine"
    return f"{site.name}: {', '.join(parts)}; {vms}, {site.occupied:,} occupied"


def _apply_import_without_changes(run: Run, site_import: SiteImportPlan) -> list[Diagnostic]:
    """Write the imported objects to state by a plan without changes; return the diagnostics.

    Nothing is written after an error: an object is in state already, the plan fails, or it would
    change an object.
    """
    state = run.stored.state
    existing = _index_addresses_by_identity(state)
    if any((item.type, item.id) in existing for item in site_import.objects.values()):
        detail = "Another process imported meanwhile. Run the command again."
        return [build_error("state-changed-during-import", detail)]
    # The objects have no place in a file yet.
    start = Position(1, 1, 0)
    types = run.project.registries.resource_types
    attributes = {
        address: normalize_imported_attributes(types[address.type].schema, item.attributes, item.id)
        for address, item in site_import.objects.items()
    }
    computed = add_computed_attributes(attributes, run.project.registries)
    imports: dict[Address, ImportedObject] = {}
    # Number the objects after those in state: the creation order decides placement.
    for creation, (address, item) in enumerate(
        site_import.objects.items(), state.last_creation + 1
    ):
        group = omit_empty({GROUP_KEY: item.resource_group})
        # The private note in state.
        private = {**get_mapping(item.note), **group} or None
        current = ObjectState(
            computed[address], creation, provider=site_import.provider, private=private
        )
        imports[address] = ImportedObject(item.id, current, Span("", start, start))
    plan = run.plan(
        PlanOptions(refresh=False, samples=0, targets=tuple(map(str, imports)), imports=imports)
    ).plan
    # Targeting is no choice of the user, so its warning is left out.
    problems = [
        problem for problem in plan.diagnostics if problem.id != "resource-targeting-is-in-effect"
    ]
    if has_errors(problems):
        return problems
    differing = [
        str(c.address)
        for c in plan.changes
        if c.address in imports and c.action is not Action.NO_OP
    ]
    if differing:
        names = format_first_items(differing, 5)
        detail = (
            f"An import must not change anything, but the configuration written for {names} "
            "would. Nothing was "
            "imported. Please report this with the export."
        )
        return [*problems, build_error("import-with-changes", detail)]
    # An older export adds objects, and the newer time stays recorded.
    inventories = [
        item for item in _list_inventories(site_import) if not find_older_exports([item], state)
    ]
    plan = replace(
        plan,
        observed=replace(plan.observed, inventories=(*plan.observed.inventories, *inventories)),
    )
    return [*problems, *apply_plan(run, plan, StepListener(), PlanApplyOptions()).diagnostics]


def _list_inventories(site_import: SiteImportPlan) -> Iterator[InventoryRead]:
    """Yield the export of each site, as if the plan had read it; none for Azure itself."""
    provider = site_import.provider
    if provider.partition(".")[0] != PROVIDER:
        return
    for site in site_import.sites:
        yield InventoryRead(
            build_capture_address(provider, site.capture),
            site.capture.time,
            is_newest_change=site.capture.is_newest_change,
        )


def _check_target_file(path: str, root: str) -> Diagnostic | None:
    """Return an error unless the path is a *.nf.hcl file in the root module's directory."""
    directory = os.path.dirname(os.path.realpath(path))  # noqa: PTH120 - a link may be a loop
    if path.endswith(CONFIGURATION_SUFFIX) and directory == os.path.realpath(root):
        return None
    detail = (
        f"nexusform reads *{CONFIGURATION_SUFFIX} files of the root module's directory only, and "
        f'"{path}" is not one. Use for example site{CONFIGURATION_SUFFIX}.'
    )
    return build_error("generated-configuration-exists", detail)


def find_site_source(location: CommandContext, source_name: str) -> Source:
    """Find the source named by `-from`: an exported directory, or `azure`.

    Raises DiagnosticsError.
    """
    configuration, _ = load_project_configuration(location)
    blocks = configuration.root.providers
    if is_azure_source(source_name):
        settings = find_azure_settings(location, blocks)
        subscription = azure.resolve_subscription(settings)
        # Settings of a block to add.
        new_settings = {"subscription_id": subscription} if azure.KIND not in blocks else None
        return Source(
            name=f"subscription {subscription}",
            read=lambda: azure.read_azure(settings),
            provider=azure.KIND,
            settings=new_settings,
            verify_absence=partial(azure.verify_absence_in_azure, settings),
        )
    return _build_directory_source(location, source_name, blocks)


def _build_directory_source(
    location: CommandContext, directory: str, blocks: Mapping[str, ProviderBlock]
) -> Source:
    """Build the source of an exported directory, with the provider configured for it.

    Without one it gets a new block, with an alias if there are others. A directory more than two
    levels above is written as full path.
    """
    relative = os.path.relpath(directory, location.directory).replace(os.sep, "/")
    configured_path = (
        Path(directory).resolve().as_posix() if relative.startswith("../../..") else relative
    )

    def read_sites() -> tuple[tuple[AzSite, ...], list[Problem]]:
        return read_export(directory, {}, location.confinement.get_operator_confinement(directory))

    settings_by_key = {
        key: _read_provider_settings(block, SETTINGS)
        for key, block in blocks.items()
        if block.name == PROVIDER
    }
    for key, settings in settings_by_key.items():
        if settings.get("directory") in {relative, configured_path}:
            return Source(directory, read_sites, key)
    block = {"directory": configured_path}
    if not settings_by_key:
        return Source(directory, read_sites, PROVIDER, settings=block)
    alias = _build_address_label(Path(directory).resolve().name)
    return Source(
        name=directory, read=read_sites, provider=f"{PROVIDER}.{alias}", settings=block, alias=alias
    )


def find_azure_settings(
    location: CommandContext, blocks: Mapping[str, ProviderBlock]
) -> Mapping[str, Any]:
    """Return the settings of the provider block azure, {} without one.

    Raises DiagnosticsError for addresses that are not allowed, or without a unique subscription.
    """
    block = blocks.get(azure.KIND)
    settings: Mapping[str, Any] = {}
    errors: list[Diagnostic] = []
    try:
        if block is not None:
            settings = _read_provider_settings(block, azure.SETTINGS)
            errors = check_provider_addresses(block, settings, location)
        if not errors:
            azure.resolve_subscription(settings)
    except ProviderProblem as problem:
        errors = [
            build_error("ambiguous-subscription", f"{problem}", block.span if block else None)
        ]
    if errors:
        raise DiagnosticsError(*errors)
    return settings


def is_azure_source(source_name: str) -> bool:
    """Return whether a source is Azure itself rather than a directory."""
    return source_name == azure.KIND and not Path(source_name).is_dir()


def _read_provider_settings(block: ProviderBlock, schema: BlockSchema) -> Mapping[str, Any]:
    """Read the literal settings of a provider block."""
    body, _ = build_prepared_body(block.body, schema, block.span)
    # The plain values.
    return body.evaluate(EMPTY_SCOPE)[0]
