"""Providers of a run: creation from `provider` blocks, and queries."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from msgspec.structs import replace

from nexusform.configuration.body_preparation import build_prepared_body
from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER, ProviderBlock
from nexusform.configuration.reference_checks import check_provider_names
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    build_error,
    build_warning,
    convert_problem,
    has_errors,
)
from nexusform.diagnostics.missing_packages import describe_missing_package
from nexusform.diagnostics.phrases import format_first_items, group_by, select_word_form
from nexusform.files.access_record import get_recorded_accesses
from nexusform.interfaces.plugins import (
    CaptureProvider,
    PermissionedProvider,
    Provider,
    ProviderProblem,
    SiteCapture,
    StateUser,
)
from nexusform.json_data.plain_data import format_path, get_text, has_unknown_part
from nexusform.planning.modules.root_outputs import build_inventory_read
from nexusform.planning.name_resolution.evaluation_settings import (
    PreparedBodyCache,
    build_evaluation_settings,
)
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.plan_request import PlanRequest
from nexusform.plans.plan import Action, Change, InventoryRead, Plan
from nexusform.providers.provider_definition import ProviderDefinition
from nexusform.providers.registry import PROVIDERS
from nexusform.resources.address import Address, compute_address_order
from nexusform.state.objects import ObjectState, State
from nexusform.workflow.opening.command_context import CommandContext

# Name prefix of inventories read by providers.
PROVIDER_PREFIX: Final = "provider."
_MAX_NAMES: Final = 5
# This type is shown inside a cluster, so a plan may create it again by mistake.
_NESTED_TYPE: Final = "nexus_agent_pool"


def create_providers(
    request: PlanRequest, context: CommandContext, exit_stack: ExitStack
) -> tuple[dict[str, Provider], list[Diagnostic]]:
    """Return the valid providers by the name used in resources, and problems.

    The name is `name` or `name.alias`. Problems are those of their blocks.

    `request` has the configuration and referenced values. `exit_stack` closes the providers
    after the run.
    """
    providers: dict[str, Provider] = {}
    blocks = request.configuration.root.providers
    problems = list(check_provider_names(request.configuration, PROVIDERS))
    if blocks:
        # Settings of providers refer to none.
        no_resource_schemas = PreparedBodyCache({"managed": {}, "data": {}})
        evaluation = Evaluation(
            build_evaluation_settings(request, no_resource_schemas, request.state)
        )
    for key, block in blocks.items():
        # `check_provider_names` reports it.
        if block.name not in PROVIDERS:
            continue
        provider, new_problems = _create_configured_provider(
            key, block, request.state, evaluation, context, exit_stack
        )
        problems += new_problems
        if provider is not None:
            providers[key] = provider
    # It works without a block.
    if DEFAULT_PROVIDER not in blocks:
        default = PROVIDERS[DEFAULT_PROVIDER]
        providers[DEFAULT_PROVIDER] = default.make(
            {}, context.directory, exit_stack, context.confinement
        )
    return providers, problems


def _create_configured_provider(
    key: str,
    block: ProviderBlock,
    state: State,
    evaluation: Evaluation,
    context: CommandContext,
    exit_stack: ExitStack,
) -> tuple[Provider | None, list[Diagnostic]]:
    """Create the provider of a block; None with errors.

    With a sensitive setting, its messages are hidden.
    """
    settings, problems, is_sensitive = _evaluate_settings(block, PROVIDERS[block.name], evaluation)
    if settings is None:
        return None, problems
    try:
        address_errors = check_provider_addresses(
            block, settings, context, is_sensitive=is_sensitive
        )
        if address_errors:
            return None, [*problems, *address_errors]
        provider = _create_provider(key, block.name, settings, state, context, exit_stack)
    except (ImportError, ProviderProblem) as problem:
        if isinstance(problem, ImportError):
            detail = f"The provider {block.name} needs {describe_missing_package(problem)}."
        elif is_sensitive:
            # The message may repeat a setting.
            from nexusform.workflow.opening.redacting_provider import HIDDEN_MESSAGE

            detail = HIDDEN_MESSAGE
        else:
            detail = str(problem)
        header = _format_block_header(block)
        error = build_error("invalid-provider-configuration", detail, block.span, block=header)
        return None, [*problems, error]
    if is_sensitive:
        from nexusform.workflow.opening.redacting_provider import redact_provider

        provider = redact_provider(provider)
    return provider, problems


def _create_provider(
    key: str,
    name: str,
    settings: Mapping[str, Any],
    state: State,
    context: CommandContext,
    exit_stack: ExitStack,
) -> Provider:
    """Create a provider, and give it the parts of the state and the permissions that it uses.

    `name` is its kind, and `key` its name in resources, with an alias if it has
    one. Raises ProviderProblem.
    """
    provider = PROVIDERS[name].make(settings, context.directory, exit_stack, context.confinement)
    if isinstance(provider, StateUser):
        own_objects = (recorded.attributes for _, recorded in list_objects(state, key))
        provider.set_state_objects(own_objects, list_managed_objects(state))
    if isinstance(provider, PermissionedProvider):
        provider.set_permissions(context.is_allowed, take_ownership=context.take_ownership)
    return provider


def check_provider_addresses(
    block: ProviderBlock,
    settings: Mapping[str, Any],
    context: CommandContext,
    *,
    is_sensitive: bool = False,
) -> list[Diagnostic]:
    """Return errors for addresses not allowed in a sandboxed run; hide sensitive ones.

    Raises ProviderProblem.
    """
    definition = PROVIDERS[block.name]
    errors: list[Diagnostic] = []
    # They receive credentials.
    for address in definition.list_server_urls(settings):
        if context.is_allowed(address):
            if not is_sensitive:
                get_recorded_accesses().addresses.add(address)
            continue
        rejection = context.explain_rejection(
            "An address" if is_sensitive else f'The address "{address}"'
        )
        # `alternative`: how to do without the address.
        detail = f"{rejection} {definition.alternative}"
        header = _format_block_header(block)
        errors.append(build_error("remote-address-not-allowed", detail, block.span, block=header))
    return errors


def check_provider_blocks(request: PlanRequest) -> list[Diagnostic]:
    """Check the names and settings of provider blocks without creating providers.

    Unset variables are unknown.
    """
    # For validate only.
    from nexusform.planning.modules.configuration_validation import mark_unset_variables_unknown

    configuration = request.configuration
    problems = list(check_provider_names(configuration, PROVIDERS))
    # Settings of providers refer to no resource.
    no_resource_schemas = PreparedBodyCache({"managed": {}, "data": {}})
    settings = build_evaluation_settings(request, no_resource_schemas, request.state)
    evaluation = Evaluation(
        mark_unset_variables_unknown(settings, configuration, request.variables)
    )
    scope = evaluation.build_scope(evaluation.root)
    for block in configuration.root.providers.values():
        # `check_provider_names` reports it.
        if block.name not in PROVIDERS:
            continue
        body, new_problems = build_prepared_body(
            block.body, PROVIDERS[block.name].settings, block.span
        )
        if not has_errors(new_problems):
            # Values are not used here: `create_providers` evaluates them again.
            _values, _sensitive_paths, evaluation_problems = body.evaluate(
                scope, allows_ephemeral=True
            )
            new_problems += evaluation_problems
        header = _format_block_header(block)
        problems += [
            problem if problem.block else replace(problem, block=header) for problem in new_problems
        ]
    return [*problems, *evaluation.diagnostics]


def _evaluate_settings(
    block: ProviderBlock, kind: ProviderDefinition, evaluation: Evaluation
) -> tuple[Mapping[str, Any] | None, list[Diagnostic], bool]:
    """Return the settings (None with errors), their problems, and whether any is sensitive."""
    body, problems = build_prepared_body(block.body, kind.settings, block.span)
    if has_errors(problems):
        return None, problems, False
    # Earlier blocks share the evaluation.
    known_count = len(evaluation.diagnostics)
    scope = evaluation.build_scope(evaluation.root)
    values, sensitive_paths, new_problems = body.evaluate(scope, allows_ephemeral=True)
    is_sensitive = bool(sensitive_paths)
    problems += [*evaluation.diagnostics[known_count:], *new_problems]
    # Displayed settings become visible attributes of objects, so no part of them may be sensitive.
    sensitive_path = next(
        (path for path in sensitive_paths if kind.displayed_settings & set(path)), None
    )
    if sensitive_path is not None:
        detail = (
            f'"{format_path(sensitive_path)}" is sensitive, but an answer of a provider becomes a '
            "visible attribute. Use a value that is not secret, or mark it with nonsensitive()."
        )
        span = body.locate(sensitive_path)
        header = _format_block_header(block)
        problems.append(build_error("invalid-provider-configuration", detail, span, block=header))
    if has_errors(problems):
        return None, problems, is_sensitive
    unknown_names = sorted(name for name, value in values.items() if has_unknown_part(value))
    if unknown_names:
        span = body.locate((unknown_names[0],))
        detail = (
            f"Provider settings must be known before the plan; {', '.join(unknown_names)} is "
            "known only later. Use "
            "variables, locals and literals."
        )
        problem = build_error(
            "provider-configuration-unknown", detail, span, block=_format_block_header(block)
        )
        return None, [*problems, problem], is_sensitive
    return values, problems, is_sensitive


def _format_block_header(block: ProviderBlock) -> str:
    return f'provider "{block.name}"'


def list_objects(state: State, provider: str) -> list[tuple[Address, ObjectState]]:
    """List the objects of a state created by a provider, sorted by address."""
    objects = {
        address: item for address, item in state.list_current_objects() if item.provider == provider
    }
    return [(address, objects[address]) for address in sorted(objects, key=compute_address_order)]


def list_managed_objects(state: State) -> Iterator[tuple[str, str]]:
    """Yield type and id of every object of a state."""
    for address, current in state.list_current_objects():
        yield address.type, str(current.attributes.get("id"))


def collect_provider_diagnostics(plan: Plan, providers: Mapping[str, Provider]) -> list[Diagnostic]:
    """Return the warnings of providers.

    Except those already in the plan, and those about objects to delete.
    """
    known_findings = {(diagnostic.id, diagnostic.brief) for diagnostic in plan.diagnostics}
    deleted = {str(change.address) for change in plan.changes if change.action is Action.DELETE}
    diagnostics: list[Diagnostic] = []
    for provider in providers.values():
        for problem in provider.list_warnings():
            is_known = (problem.id, problem.brief) in known_findings
            # "" for a problem of no single object.
            if not is_known and problem.address not in deleted:
                diagnostics.append(convert_problem(problem))
    return diagnostics


def list_captured_inventories(
    providers: Mapping[str, Provider], now: str
) -> tuple[InventoryRead, ...]:
    """Return an inventory with the capture time for each site read from a captured file.

    A provider reads it.
    """
    inventories: list[InventoryRead] = []
    for key, provider in sorted(providers.items()):
        captures = provider.list_captures() if isinstance(provider, CaptureProvider) else ()
        for capture in captures:
            inventory = build_inventory_read(build_capture_address(key, capture), capture.time, now)
            inventories.append(replace(inventory, is_newest_change=capture.is_newest_change))
    return tuple(inventories)


def build_capture_address(provider: str, capture: SiteCapture) -> str:
    """Return the address of a captured site among the inventories of a plan."""
    return f"{PROVIDER_PREFIX}{provider} ({capture.site})"


def is_capture_of_site(address: str, site: str) -> bool:
    """Return whether an address among the inventories of a plan is that of a captured site."""
    return address.startswith(PROVIDER_PREFIX) and address.endswith(f" ({site})")


CREATION_REJECTED: Final = "creation-rejected-by-azure"


def check_created_objects(plan: Plan, *, has_state: bool) -> Iterator[Diagnostic]:
    """Yield a warning for each reason why the platform of a provider will reject a new object.

    Without a state (`has_state` is false) a cluster may exist already, and an agent pool of its own
    may be its System pool.
    """
    created = [
        change
        for change in plan.changes
        if change.provider.partition(".")[0] not in ("", DEFAULT_PROVIDER)
        and change.action in (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
        and not change.importing
    ]
    clusters_with_system_pool = {
        get_text(change.after, "kubernetes_cluster_id")
        for change in created
        if get_text(change.after, "mode") == "System"
    }
    for change in created:
        kind = change.provider.partition(".")[0]
        if kind not in PROVIDERS:
            continue
        for reason in PROVIDERS[kind].list_rejection_reasons(
            change.address.type, change.after or {}
        ):
            if not has_state and "System" in reason and change.id in clusters_with_system_pool:
                continue
            detail = f"{change.id}: Azure will reject its creation: {reason}"
            yield build_warning(
                CREATION_REJECTED, detail, change.source, address=str(change.address)
            )


def check_existing_objects(plan: Plan, providers: Mapping[str, Provider]) -> list[Diagnostic]:
    """Return errors for agent pools to create that already exist on a site.

    Clusters and VMs that exist give warnings.
    """
    problems: list[Diagnostic] = []
    created = [change for change in plan.changes if change.action is Action.CREATE]
    try:
        problems += list(_check_existing_workloads(created, providers))
        for change in created:
            provider = providers.get(change.provider)
            if (
                change.address.type != _NESTED_TYPE
                or provider is None
                or not provider.observes_objects
            ):
                # No agent pool, or no site to read.
                continue
            if provider.find(change.address.type, change.id) is not None:
                detail = (
                    f"{change.id} already exists on the site, and this plan would re-create its "
                    "VMs. Import it: write "
                    f'a block import {{ to = {change.address}, id = "{change.id}" }} with one '
                    "argument per line, and "
                    "remove the agent_pool block of that name from the cluster."
                )
                problems.append(
                    build_error("object-already-exists", detail, change.source, block=change.block)
                )
    except ProviderProblem as problem:
        problems.append(build_error("refresh-failed", str(problem)))
    return problems


def _check_existing_workloads(
    created: Sequence[Change], providers: Mapping[str, Provider]
) -> Iterator[Diagnostic]:
    """Yield a warning per provider with objects to create that exist on its site.

    These objects are clusters or VMs.
    """
    by_provider = group_by(created, lambda change: change.provider)
    observing = {
        name: item
        for name, item in providers.items()
        if name in by_provider and item.observes_objects
    }
    if not observing:
        return
    from nexusform.providers.optional_provider_interfaces import WorkloadListingProvider

    for name, provider in observing.items():
        if not isinstance(provider, WorkloadListingProvider):
            continue
        existing_ids = provider.list_workload_ids()
        changes = by_provider[name]
        existing = [
            str(item.address) for item in changes if (item.address.type, item.id) in existing_ids
        ]
        if existing:
            word_forms = ("object to create already exists", "objects to create already exist")
            objects = select_word_form(len(existing), *word_forms)
            yield build_warning(
                "unrecorded-objects",
                f"{len(existing)} {objects} on the site, but not in the state: "
                f"{format_first_items(existing, _MAX_NAMES)}. Their predicted placement ignores "
                "this. Restore the "
                "state, or import the site (`nexusform import -from=...`). If another tool has "
                "just created them, "
                "apply records them as they are.",
            )
