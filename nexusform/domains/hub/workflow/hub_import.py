"""Import of a hub: user-created objects become matching configuration and state."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final

from msgspec.structs import replace

from nexusform.applying.events import StepListener
from nexusform.configuration.declarations.configuration import Configuration, ResourceBlock
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Position,
    Span,
    build_error,
    build_warning,
    has_errors,
)
from nexusform.diagnostics.phrases import format_count, format_first_items, select_word_form
from nexusform.domains.fleet.importers.fleet_export import AZURE_MANAGER, is_deleting
from nexusform.domains.hub.api.api_errors import ApiError
from nexusform.domains.hub.api.hub_cache import get_namespaced_name
from nexusform.domains.hub.api.hub_client import (
    HubClient,
    HubConnection,
    HubProblem,
    resolve_hub_location,
)
from nexusform.domains.hub.api.hub_kinds import KINDS
from nexusform.domains.hub.providers.fleet import NAME
from nexusform.domains.hub.providers.hub_bodies import MANIFEST_TYPE
from nexusform.domains.hub.providers.hub_provider import FleetHubProvider
from nexusform.domains.hub.providers.hub_reader import PREDICTED_ATTRIBUTES
from nexusform.domains.hub.providers.object_access import HubOptions, find_tool_manager
from nexusform.interfaces.plugins import ProviderProblem
from nexusform.json_data.plain_data import get_mapping
from nexusform.planning.plan_request import ImportedObject
from nexusform.planning.preparation.prior_state import ImportTarget, normalize_imported_attributes
from nexusform.plans.plan import Action, Change, Plan
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import Address
from nexusform.state.objects import EMPTY, ObjectState, State
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.opening.project import find_backend
from nexusform.workflow.opening.stored_state import read_stored_state
from nexusform.workflow.plan_files.import_execution import import_with_new_file
from nexusform.workflow.plan_files.plan_execution import PlanApplyOptions, apply_plan
from nexusform.workflow.runs.object_import import (
    ImportResult,
    check_generated_path,
    find_imported_object,
    render_resource_block,
    write_new_file,
)
from nexusform.workflow.runs.provider_identity import check_identities
from nexusform.workflow.runs.run import PlanOptions, Run, RunCallbacks, build_base_request
from nexusform.workflow.runs.state_locking import LockOptions

PROVIDER: Final = "fleet"
# Types of user-created objects in planning order. Members, and records of past actions, are
# imported into existing blocks only.
_BLOCK_TYPES: Final = {
    "fleet_member_cluster": "MemberCluster",
    "fleet_cluster_staged_update_run": "ClusterStagedUpdateRun",
    "fleet_staged_update_run": "StagedUpdateRun",
    "fleet_cluster_approval_request": "ClusterApprovalRequest",
    "fleet_approval_request": "ApprovalRequest",
    "fleet_placement_eviction": "ClusterResourcePlacementEviction",
}
_IMPORTED_TYPES: Final = {
    "fleet_cluster_resource_override": "ClusterResourceOverride",
    "fleet_resource_override": "ResourceOverride",
    "fleet_placement_disruption_budget": "ClusterResourcePlacementDisruptionBudget",
    "fleet_cluster_staged_update_strategy": "ClusterStagedUpdateStrategy",
    "fleet_staged_update_strategy": "StagedUpdateStrategy",
    "fleet_cluster_resource_placement": "ClusterResourcePlacement",
    "fleet_resource_placement": "ResourcePlacement",
}
_HEADING: Final = """\
# Objects on the hub {server}, imported by `nexusform import -from=hub`.
# Review this file, then keep it. It changes nothing on the hub.

"""
_DATA_BLOCK: Final = 'data "fleet_hub" "hub" {}\n'
_MAX_NAMES: Final = 6
_LABELS: Final = "labels"
# Position of imports without a block.
_NO_SPAN: Final = Span("", Position(1, 1, 0), Position(1, 1, 0))
ImportedObjects = dict[Address, tuple[str, Mapping[str, Any]]]


def import_hub(
    location: CommandContext,
    _source_name: str,
    path: str,
    locking: LockOptions,
    notices: RunCallbacks,
) -> ImportResult:
    """Import the objects of a hub missing in state, and write their file `path`.

    On errors nothing is written.
    """
    rejection = check_generated_path(path)
    if rejection is not None:
        return ImportResult(diagnostics=(rejection,))
    configuration, _ = load_project_configuration(location)
    backend, problems, sources = find_backend(location)
    if backend is None or has_errors(problems):
        return ImportResult(diagnostics=tuple(problems), sources=sources)
    stored, read_problems = read_stored_state(backend)
    state = stored.state if stored is not None else EMPTY
    problems += read_problems
    with ExitStack() as exit_stack:
        try:
            server, imported, skipped = _read_hub_objects_to_import(
                location, state, configuration, exit_stack
            )
        except (HubProblem, ApiError, ProviderProblem) as problem:
            problems.append(build_error("unreadable-hub", str(problem)))
            return ImportResult(diagnostics=tuple(problems), sources=sources)
    problems += skipped
    counts = Counter(
        address.type.removeprefix("fleet_").replace("_", " ") for address in imported
    )  # by type
    imported_text = (
        ", ".join(format_count(number, name) for name, number in counts.items()) or "nothing new"
    )
    lines = (f"{server}: {imported_text}",)
    if has_errors(problems) or not imported:
        return ImportResult(lines, imported=0, diagnostics=tuple(problems), sources=sources)
    problems += write_new_file(path, _render_configuration(server, imported, configuration))
    if has_errors(problems):
        return ImportResult(diagnostics=tuple(problems), sources=sources)
    new_problems, sources = import_with_new_file(
        location, path, locking, notices, lambda run: _write_state(run, imported)
    )
    return ImportResult(lines, len(imported), (*problems, *new_problems), sources)


def _read_hub_objects_to_import(
    location: CommandContext, state: State, configuration: Configuration, exit_stack: ExitStack
) -> tuple[str, ImportedObjects, list[Diagnostic]]:
    """Return the hub's URL, the objects to import by address, and diagnostics.

    The diagnostics are about another hub, or about skipped objects.
    """
    connection = HubConnection(resolve_hub_location(settings={}, trust=location.kubeconfig_trust))
    exit_stack.callback(connection.close)
    hub = connection.connect()
    takes_ownership = location.take_ownership
    options = HubOptions(
        manager="nexusform",
        validate_changes="off",
        is_read_only=True,
        timeout=1.0,
        takes_ownership=takes_ownership,
    )
    # For reads only: no timeout or dry run matters.
    provider = FleetHubProvider(NAME, connection, options)
    check = check_identities({PROVIDER: provider}, state, state.providers, location.allow_other_hub)
    if has_errors(check.diagnostics):
        return hub.server, {}, check.diagnostics
    existing = {
        (address.type, str(instance.current.attributes.get("id")))
        for address, instance in state.instances.items()
        if instance.current is not None
    }
    label_counts: Counter[tuple[str, str]] = Counter(
        (address.type, address.name) for address in state.instances
    )
    imported: ImportedObjects = {}
    skipped: list[str] = []
    for type_name, object_id, body in _list_user_objects(hub, configuration):
        block = _find_block(configuration, type_name, object_id)
        if (type_name, object_id) in existing or (block is None and type_name in _BLOCK_TYPES):
            # In state, or no block to import it into.
            continue
        manager = find_tool_manager(body)
        # Never from Azure.
        if manager and (manager == AZURE_MANAGER or not takes_ownership):
            skipped.append(f"{object_id} ({manager})")
            continue
        found = provider.find(type_name, object_id)
        if found is None:
            # It was deleted since the list was read.
            continue
        _, attributes = found
        label = (
            block.name if block is not None else _choose_label(type_name, object_id, label_counts)
        )
        imported[Address((), "managed", type_name, label)] = (object_id, attributes)
    return hub.server, imported, list(_build_skipped_objects_warning(skipped))


def _choose_label(type_name: str, object_id: str, names: Counter[tuple[str, str]]) -> str:
    """Return a label for a new block, numbered if it was used before.

    `names` counts the uses of each label.
    """
    valid_text = re.sub(r"[^A-Za-z0-9_-]", "_", object_id)
    # "_" before anything but a letter.
    label = re.sub(r"^(?![A-Za-z])", "_", valid_text)
    names[type_name, label] += 1
    number = names[type_name, label]
    return label if number == 1 else f"{label}_{number}"


def _find_block(
    configuration: Configuration, type_name: str, object_id: str
) -> ResourceBlock | None:
    """Return the block of an object by the object's id.

    Return None without a block, or with count or for_each.
    """
    for block in configuration.root.resources.values():
        is_single = (block.mode, block.type, block.count, block.for_each) == (
            "managed",
            type_name,
            None,
            None,
        )
        if is_single and _build_object_id(block) == object_id:
            return block
    return None


def _build_object_id(block: ResourceBlock) -> str:
    """Return the id from literal arguments of a block: NAME, or NAMESPACE/NAME.

    Else the name is the block's label.
    """
    expressions = {item.name: item.expression for item in getattr(block.body, "attributes", ())}
    # Only a literal has a value.
    namespace = str(getattr(expressions.get("namespace"), "value", ""))
    name = str(getattr(expressions.get("name"), "value", block.name))
    return "/".join(filter(None, (namespace, name)))


def _list_user_objects(
    hub: HubClient, configuration: Configuration
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield type, id and body of user-created objects to import.

    A type of `_BLOCK_TYPES` counts only if a block has it.
    """
    configured_types = {block.type for block in configuration.root.resources.values()}
    further_types = {name: kind for name, kind in _BLOCK_TYPES.items() if name in configured_types}
    for type_name, kind in {**_IMPORTED_TYPES, **further_types}.items():
        for body in hub.list_objects(KINDS[kind].collection):
            if is_deleting(body):
                # It will be gone.
                continue
            # NAME, or NAMESPACE/NAME.
            object_id = "/".join(filter(None, get_namespaced_name(body)))
            yield type_name, object_id, body


def _build_skipped_objects_warning(skipped: list[str]) -> Iterator[Diagnostic]:
    """Yield one warning about objects of other managers, if any."""
    if skipped:
        objects = format_count(len(skipped), "object")
        detail = (
            f"{objects} of the hub {select_word_form(len(skipped), 'is', 'are')} applied by "
            "others and left to them: "
            f"{format_first_items(skipped, _MAX_NAMES)}. -take-ownership takes over what Flux or "
            "Argo CD applies."
        )
        yield build_warning("unmanaged-object", detail)


def _render_configuration(
    server: str, imported: ImportedObjects, configuration: Configuration
) -> str:
    """Render the blocks of imported objects, the provider and the hub.

    Each is omitted if the configuration has it.
    """
    types = build_registries().resource_types
    existing = configuration.root.resources.values()
    blocks: list[str] = []
    if PROVIDER not in configuration.root.providers:
        blocks.append('provider "fleet" {}\n')
    if not any(block.type == "fleet_hub" for block in existing):
        blocks.append(_DATA_BLOCK)
    configured = {str(block.address) for block in existing}
    for address, (_, attributes) in imported.items():
        if str(address.config_address) not in configured:
            schema = types[address.type].schema
            values = normalize_imported_attributes(schema, attributes, object_id="")
            blocks.append(render_resource_block(address, schema, values, provider=PROVIDER))
    return _HEADING.format(server=server) + "\n".join(blocks)


def _write_state(run: Run, imported: ImportedObjects) -> list[Diagnostic]:
    """Write the imported objects to state by a plan without changes; return its diagnostics.

    Nothing is written after an error: another hub than in state, or an object different from its
    configuration. If only predicted attributes differ, they are imported as predicted.
    """
    identity_problems = run.check_identities()
    if has_errors(identity_problems):
        return identity_problems
    types = run.project.registries.resource_types
    last_creation = run.stored.state.last_creation
    imports: dict[Address, ImportedObject] = {}
    for number, (address, (object_id, attributes)) in enumerate(imported.items(), 1):
        values = normalize_imported_attributes(types[address.type].schema, attributes, object_id)
        object_state = ObjectState(values, creation=last_creation + number, provider=PROVIDER)
        imports[address] = ImportedObject(object_id, object_state, _NO_SPAN)
    imports |= _find_configured_manifest_objects(run, last_creation + len(imports))
    plan = _plan_imported_objects(run, imports)
    differing = [change for change in _list_changes(plan) if change.address in imports]
    # A hub reports an empty selection before the first staged run: the predicted one is imported.
    if differing:
        for change in differing:
            imports[change.address] = _add_predicted_attributes(
                imports[change.address], get_mapping(change.after)
            )
        plan = _plan_imported_objects(run, imports)
    problems = [*identity_problems]
    # Targeting is no choice of the user, so its warning is left out.
    problems += [
        problem for problem in plan.diagnostics if problem.id != "resource-targeting-is-in-effect"
    ]
    if has_errors(problems):
        return problems
    changes = _list_changes(plan)
    if changes:
        address_list = format_first_items([str(change.address) for change in changes], _MAX_NAMES)
        detail = (
            f"An import changes nothing, but the configuration would change {address_list}. "
            "Nothing was imported. "
            "Correct the configuration, or import the other objects one by one."
        )
        return [*problems, build_error("import-with-changes", detail)]
    return [*problems, *apply_plan(run, plan, StepListener(), PlanApplyOptions()).diagnostics]


def _list_changes(plan: Plan) -> list[Change]:
    return [change for change in plan.changes if change.action is not Action.NO_OP]


def _find_configured_manifest_objects(
    run: Run, last_creation: int
) -> dict[Address, ImportedObject]:
    """Return the objects of manifests in the configuration: other objects may depend on them.

    Manifests with an object missing on the hub are left out. Creation numbers
    continue after `last_creation`.
    """
    imports: dict[Address, ImportedObject] = {}
    request = build_base_request(run.project, run.stored)
    for block in run.project.configuration.root.resources.values():
        address = Address((), "managed", block.type, block.name)
        provider = block.provider.split(".")[0]
        is_candidate = (block.type, block.count, block.for_each, provider) == (
            MANIFEST_TYPE,
            None,
            None,
            PROVIDER,
        )
        if not is_candidate or address in run.stored.state.instances:
            # Not for a hub, or in state.
            continue
        # "": the block identifies them.
        target = ImportTarget(address, "", block.provider, block.header_span, block)
        found, _ = find_imported_object(target, request, run.providers)
        if found is not None:
            numbered = replace(found, creation=last_creation + len(imports) + 1)
            imports[address] = ImportedObject(str(found.attributes["id"]), numbered, _NO_SPAN)
    return imports


def _plan_imported_objects(run: Run, imports: Mapping[Address, ImportedObject]) -> Plan:
    """Return the plan of these objects only, without the certainty of VMs (`samples`)."""
    return run.plan(
        PlanOptions(refresh=False, samples=0, targets=tuple(map(str, imports)), imports=imports)
    ).plan


def _add_predicted_attributes(
    imported: ImportedObject, planned: Mapping[str, Any]
) -> ImportedObject:
    """Return an object with its predicted attributes.

    It has the approvals of its block, and only the labels of its block. `planned` are its
    attributes in a plan with the block.
    """
    current = imported.object
    values = {
        name: planned[name] for name in (*PREDICTED_ATTRIBUTES, "approvals") if name in planned
    }
    labels = get_mapping(current.attributes, _LABELS)
    planned_labels = get_mapping(planned, _LABELS)
    if labels:
        values[_LABELS] = {name: value for name, value in labels.items() if name in planned_labels}
    return replace(imported, object=replace(current, attributes={**current.attributes, **values}))
