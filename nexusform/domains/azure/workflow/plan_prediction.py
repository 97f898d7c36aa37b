"""Prediction of VM placement for another tool's plan on a captured site.

The site is imported in memory, the tool's changes replace its blocks, and the result is planned.
Nothing is written: state is in memory, and the configuration is in a temporary directory.
"""

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.backends.memory import MemoryBackend
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    Problem,
    SourceFile,
    build_error,
    convert_problem,
    has_errors,
)
from nexusform.domains.azure.importers.arm_resources import normalize_id
from nexusform.domains.azure.importers.az_changes import ResourcesAfterChanges, ToolChange
from nexusform.domains.azure.importers.az_documents import Documents
from nexusform.domains.azure.importers.az_import import (
    CLUSTER,
    VIRTUAL_MACHINE,
    ImportedSiteObject,
    Reference,
    build_imported_sites,
    build_pool_arguments,
    build_pool_object,
)
from nexusform.domains.azure.importers.az_inventory import read_changed_sites, read_sites
from nexusform.domains.azure.importers.az_records import AzSite
from nexusform.domains.azure.importers.creation_rules import check_created_objects
from nexusform.domains.azure.providers import azure
from nexusform.domains.azure.providers.azure_export import read_files
from nexusform.domains.azure.workflow.site_import import (
    assign_import_addresses,
    build_reference,
    find_azure_settings,
    is_azure_source,
)
from nexusform.doubts.findings import build_finding_doubts
from nexusform.files.regular_files import UNCONFINED, Confinement
from nexusform.interfaces.plugins import ProviderProblem
from nexusform.json_data.plain_data import get_mapping
from nexusform.language.evaluation_run import FileProblem
from nexusform.planning.modules.root_outputs import build_inventory_read
from nexusform.planning.preparation.prior_state import normalize_imported_attributes
from nexusform.plans.plan import Plan
from nexusform.resource_types.machine_facts import UNCORDONED
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import Address
from nexusform.state import state_codec
from nexusform.state.objects import EMPTY, InstanceState, ObjectState, State
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.opening.project import Project
from nexusform.workflow.opening.system_io import ConfinedFileAccess, read_file
from nexusform.workflow.runs.object_import import add_computed_attributes, render_resource_block
from nexusform.workflow.runs.run import PlanOptions, Run

ReadChanges: TypeAlias = Callable[[str, bytes], tuple[tuple[ToolChange, ...], list[Problem]]]

# Address without modules and keys.
_AZAPI_ADDRESS: Final = re.compile(r"azapi_resource\.([A-Za-z_][\w-]*)")
_CHANGING_TYPES: Final = frozenset({CLUSTER, VIRTUAL_MACHINE})
# Maximum bytes of another tool's plan.
_MAX_BYTES: Final = 512 * 1024 * 1024
# A configuration needs at least one file.
_FIRST_FILE: Final = "nexusform.nf.hcl"


class SchedulerSettings(Struct, frozen=True):
    """Settings of the platform scheduler; None means default."""

    seed: int | None = None
    rack_spread: str = ""

    @property
    def attributes(self) -> dict[str, Any] | None:
        """Attributes of the scheduler block, None without settings."""
        arguments = {"tie_break_seed": self.seed, "rack_spread": self.rack_spread or None}
        return arguments if any(value is not None for value in arguments.values()) else None


class PlanPredictionInput(Struct, frozen=True):
    """Input of a prediction: project, re-created addresses, number of the tool's changes.

    The project is None after errors. `export_times` are the exported sites with the time of their
    figures (RFC 3339, "" if unknown).
    """

    project: Project | None
    recreated_addresses: tuple[str, ...] = ()
    change_count: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    export_times: tuple[tuple[str, str], ...] = ()


class _SiteComparison(Struct, frozen=True):
    """Site before and after the changes.

    Objects by address, addresses by reference, name in messages (file and name of the other tool)
    by new address, and execution order of changes.
    """

    before: Mapping[Address, ImportedSiteObject]
    after: Mapping[Address, ImportedSiteObject]
    addresses: Mapping[Reference, Address]
    tool_names: Mapping[Address, str] = field(default_factory=dict)
    order: tuple[Address, ...] = ()


@contextmanager
def open_plan_prediction(
    location: CommandContext,
    inventory: str,
    path: str,
    read_changes: ReadChanges,
    scheduler: SchedulerSettings,
) -> Iterator[PlanPredictionInput]:
    """Yield the project for predicting another tool's plan.

    Its temporary directory exists inside the `with` block. After an error there
    are only diagnostics.
    """
    try:
        changes, problems = _read_external_plan_changes(path, read_changes, location.confinement)
        site = _read_inventory(location, inventory)
    except DiagnosticsError as rejection:
        yield PlanPredictionInput(project=None, diagnostics=tuple(rejection.diagnostics))
        return
    with tempfile.TemporaryDirectory(prefix="nexusform-") as directory:
        yield _build_predicted_project(
            replace(location, directory=directory), site, changes, problems, scheduler
        )


class _SiteInventory(Struct, frozen=True):
    """Bodies of a site by kind; `name` for messages."""

    name: str
    documents: Documents
    machine_sku_by_id: Mapping[str, str] = {}


def _read_inventory(location: CommandContext, inventory: str) -> _SiteInventory:
    """Read an exported directory, or for `azure` the subscription (block or environment).

    Raises DiagnosticsError.
    """
    if not is_azure_source(inventory):
        export = read_files(inventory, location.confinement.get_operator_confinement(inventory))
        if export.problems:
            raise DiagnosticsError(*map(convert_problem, export.problems))
        return _SiteInventory(inventory, export.documents)
    configuration, _ = load_project_configuration(location)
    settings = find_azure_settings(location, configuration.root.providers)
    try:
        documents = azure.read_documents(settings)
    except ProviderProblem as problem:
        raise DiagnosticsError(build_error("refresh-failed", str(problem))) from None
    return _SiteInventory(inventory, documents, get_mapping(settings, "machine_sku_by_id"))


def _read_stdin() -> bytes:
    """Read another tool's plan from stdin.

    Raises FileProblem.
    """
    content = sys.stdin.buffer.read(_MAX_BYTES + 1)
    if not content:
        raise FileProblem("There is no plan on stdin.")
    if len(content) > _MAX_BYTES:
        raise FileProblem(f"The plan on stdin has more than {_MAX_BYTES} bytes, the limit.")
    return content


def _read_external_plan_changes(
    path: str, read_changes: ReadChanges, confinement: Confinement
) -> tuple[tuple[ToolChange, ...], list[Diagnostic]]:
    """Read the changes of another tool's plan at a path ("-": stdin), with warnings.

    Raises DiagnosticsError.
    """
    try:
        content = (
            _read_stdin()
            if path == "-"
            else read_file(path, _MAX_BYTES, confinement.get_operator_confinement(path))
        )
    except FileProblem as problem:
        raise DiagnosticsError(build_error("unreadable-file", str(problem))) from None
    changes, findings = read_changes(path, content)
    problems = [*findings, *check_created_objects(changes)]
    diagnostics = list(map(convert_problem, problems))
    if has_errors(diagnostics):
        raise DiagnosticsError(*diagnostics)
    return changes, diagnostics


def _build_predicted_project(
    location: CommandContext,
    inventory: _SiteInventory,
    changes: Sequence[ToolChange],
    problems: list[Diagnostic],
    scheduler: SchedulerSettings,
) -> PlanPredictionInput:
    """Build the project of the site with the changes applied.

    After errors (added to `problems`) the result has only diagnostics.
    """
    machine_skus = inventory.machine_sku_by_id
    current_sites, findings = read_sites(inventory.documents, machine_skus)
    changed_sites, changed_items, change_findings = read_changed_sites(
        inventory.documents, changes, machine_skus
    )
    # Findings of both reads are reported once.
    problems += map(convert_problem, dict.fromkeys([*findings, *change_findings]))
    if has_errors(problems):
        return PlanPredictionInput(project=None, diagnostics=tuple(problems))
    # All changes are from one file.
    plan_file = changes[0].file if changes else ""
    comparison = _compare_sites(current_sites, changed_sites, changed_items, scheduler, plan_file)
    # The temporary directory is trusted; confined files were read before.
    project, project_problems = _build_project(
        replace(location, confinement=UNCONFINED), comparison, inventory.name
    )
    problems += project_problems
    by_arm_id = _index_references_by_arm_id(changed_sites)
    replaces = tuple(
        str(comparison.addresses[by_arm_id[key]])
        for key in sorted(changed_items.recreated_ids)
        if key in by_arm_id
    )
    export_times: tuple[tuple[str, str], ...] = ()
    # What was read from Azure is current.
    if not is_azure_source(inventory.name):
        export_times = tuple(
            (site.name, site.inventory.exported_at or "") for site in current_sites
        )
    return PlanPredictionInput(project, replaces, len(changes), tuple(problems), export_times)


def _select_existing_objects(
    before: Mapping[Reference, ImportedSiteObject], changed: Mapping[Reference, ImportedSiteObject]
) -> dict[Reference, ImportedSiteObject]:
    """Return the remaining objects of `before`, and the VM SKUs new in `changed`.

    Clusters and VMs have new values.
    """
    after: dict[Reference, ImportedSiteObject] = {}
    for reference, item in before.items():
        if item.type not in _CHANGING_TYPES:
            after[reference] = item
        elif reference in changed:
            after[reference] = changed[reference]
    for reference, item in changed.items():
        if reference not in after and item.type == "nexus_vm_sku":
            after[reference] = item
    return after


def _compare_sites(
    current_sites: Sequence[AzSite],
    changed_sites: Sequence[AzSite],
    changed_items: ResourcesAfterChanges,
    scheduler: SchedulerSettings,
    plan_file: str,
) -> _SiteComparison:
    """Compare the objects of the sites before and after the changes of another tool's plan.

    New objects have the names of the other tool; new pools come from `changed_items`. `plan_file`
    is the name of the plan in messages.
    """
    before = {
        (item.type, item.id): _convert_for_simulation(item, scheduler)
        for item in _list_objects(current_sites)
    }
    changed = {(item.type, item.id): item for item in _list_objects(changed_sites)}
    after = _select_existing_objects(before, changed)
    # Type and id of each object, by lower-case ARM id.
    by_arm_id = _index_references_by_arm_id(changed_sites)
    # Names of new objects in the other tool, by type and id.
    new_names = {
        by_arm_id[key]: name for key, name in changed_items.addresses.items() if key in by_arm_id
    }
    after |= {reference: changed[reference] for reference in new_names if reference in changed}
    for new_pool in changed_items.pools:
        _, cluster_id = by_arm_id[new_pool.cluster_id]
        item = build_pool_object(
            cluster_id, new_pool.pool.name, build_pool_arguments(new_pool.pool)
        )
        reference = (item.type, item.id)
        after[reference] = item
        new_names[reference] = new_pool.address
        by_arm_id[f"{new_pool.cluster_id}/agentpools/{new_pool.pool.name.lower()}"] = reference
    new_vm_addresses = _build_new_vm_addresses(new_names)
    addresses = assign_import_addresses({**before, **after}.values(), new_vm_addresses, EMPTY)
    return _SiteComparison(
        before={addresses[reference]: item for reference, item in before.items()},
        after={addresses[reference]: item for reference, item in after.items()},
        addresses=addresses,
        # The line of an error is in the HCL of the object, not in the plan.
        tool_names={
            addresses[reference]: f"{plan_file} ({name}, as HCL)"
            for reference, name in new_names.items()
        },
        order=tuple(
            addresses[by_arm_id[key]]
            for key in changed_items.affected_ids
            if by_arm_id.get(key) in after
        ),
    )


def _build_new_vm_addresses(new_names: Mapping[Reference, str]) -> dict[Reference, Address]:
    """Build the addresses of new VMs without a cluster.

    `azapi_resource.NAME` becomes `nexus_virtual_machine.NAME`. The samples (simulated draws of
    Azure) of such a VM depend on its name in the configuration. VMs in modules or with keys are
    left out: they get addresses from their own names.
    """
    addresses: dict[Reference, Address] = {}
    for (type_name, object_id), tool_name in new_names.items():
        match = _AZAPI_ADDRESS.fullmatch(tool_name)
        if type_name == VIRTUAL_MACHINE and match is not None:
            addresses[type_name, object_id] = Address((), "managed", VIRTUAL_MACHINE, match[1])
    return addresses


def _list_objects(sites: Sequence[AzSite]) -> list[ImportedSiteObject]:
    """Return the objects of sites as an import builds them."""
    return list(chain.from_iterable(site.objects for site in build_imported_sites(sites)))


def _convert_for_simulation(
    item: ImportedSiteObject, scheduler: SchedulerSettings
) -> ImportedSiteObject:
    """Return the object with scheduler settings for a site.

    An observed or unknown cordon becomes the argument `cordoned`.
    """
    if item.type == "nexus_site":
        return replace(item, attributes={**item.attributes, "scheduler": scheduler.attributes})
    if item.attributes.get("cordon_status", UNCORDONED) != UNCORDONED:
        return replace(item, attributes={**item.attributes, "cordoned": True})
    return item


def _index_references_by_arm_id(sites: Sequence[AzSite]) -> dict[str, Reference]:
    """Collect type and id of clusters and VMs by their ARM id in lower case."""
    references: dict[str, Reference] = {}
    for site in sites:
        inventory = site.inventory
        references |= {
            normalize_id(c.id): (CLUSTER, f"{site.name}/{c.name}") for c in inventory.clusters
        }
        references |= {
            normalize_id(vm.id): (VIRTUAL_MACHINE, f"{site.name}/{vm.name}")
            for vm in inventory.virtual_machines
        }
    return references


def _build_project(
    location: CommandContext, comparison: _SiteComparison, inventory: str
) -> tuple[Project | None, list[Diagnostic]]:
    """Build the project: configuration after the changes.

    State before them, as after an import, in memory.
    """
    # A configuration needs a file; the rendered ones are in memory.
    Path(location.directory, _FIRST_FILE).touch()
    configuration, problems = load_project_configuration(
        location, _render_configuration_files(comparison, inventory)
    )
    if has_errors(problems):
        return None, problems
    registries = build_registries()
    attributes = {
        address: normalize_imported_attributes(
            registries.resource_types[address.type].schema, item.attributes, item.id
        )
        for address, item in comparison.before.items()
    }
    computed = add_computed_attributes(attributes, registries)
    instances = {
        address: InstanceState(ObjectState(computed[address], number, private=item.note))
        for number, (address, item) in enumerate(comparison.before.items(), 1)
    }
    # Lineage of this comparison alone.
    lineage = "predict"
    state = State(lineage, serial=1, instances=instances, last_creation=len(instances))
    backend = MemoryBackend()
    backend.write(state_codec.encode_state(state))
    project = Project(
        context=location,
        configuration=configuration,
        variables={},
        sources=dict(configuration.files),
        registries=registries,
        files=ConfinedFileAccess(location.confinement),
        backend=backend,
    )
    return project, problems


def _render_configuration_files(comparison: _SiteComparison, inventory: str) -> list[SourceFile]:
    """Render existing objects as one file, and each new one as a file of its own.

    The former is `inventory`; the latter have the name of their object in messages. `depends_on`
    keeps the execution order.
    """
    types = build_registries().resource_types
    dependencies = _compute_dependencies(comparison)
    existing_blocks: list[str] = []
    new_files: dict[Address, SourceFile] = {}
    for address, item in comparison.after.items():
        references = {
            path: build_reference(comparison.addresses[target])
            for path, target in item.references.items()
        }
        text = render_resource_block(
            address, types[address.type].schema, item.attributes, references
        )
        if dependencies.get(address):
            address_list = ", ".join(map(str, dependencies[address]))
            text = text.rstrip().removesuffix("}") + f"\n  depends_on = [{address_list}]\n}}\n"
        if address in comparison.tool_names:
            new_files[address] = SourceFile(comparison.tool_names[address], text)
        else:
            existing_blocks.append(text)
    return [SourceFile(f"{inventory} (as HCL)", "\n".join(existing_blocks)), *new_files.values()]


def _compute_dependencies(comparison: _SiteComparison) -> dict[Address, list[Address]]:
    """Build a chain of new objects and changed clusters.

    Each needs the one before, and the first all changed VMs.
    """
    # Existing objects with other values or references after the changes.
    changing = [
        address
        for address, item in comparison.before.items()
        if address not in comparison.tool_names and comparison.after.get(address, item) != item
    ]
    clusters = {address for address in changing if address.type == CLUSTER}
    predecessors = [address for address in changing if address not in clusters]
    dependencies: dict[Address, list[Address]] = {}
    for address in comparison.order:
        if address in comparison.tool_names or address in clusters:
            dependencies[address] = predecessors
            predecessors = [address]
    return dependencies


def plan_predicted_changes(run: Run, options: PlanOptions, prediction: PlanPredictionInput) -> Plan:
    """Plan the other tool's changes.

    The plan has the diagnostics of the prediction, and the age of the export.
    """
    options = replace(
        options,
        refresh=False,
        replaces=prediction.recreated_addresses,
        doubts=build_finding_doubts(prediction.diagnostics),
    )
    plan = run.plan(options).plan
    inventories = tuple(
        build_inventory_read(site, time, plan.start.timestamp)
        for site, time in prediction.export_times
    )
    return replace(
        plan,
        diagnostics=(*prediction.diagnostics, *plan.diagnostics),
        observed=replace(plan.observed, inventories=inventories),
    )
