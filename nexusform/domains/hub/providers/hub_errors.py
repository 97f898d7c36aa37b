"""Options for the use of a hub, and messages about rejected requests and protected objects."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind
from nexusform.domains.hub.api.hub_client import HubProblem
from nexusform.domains.hub.providers.hub_bodies import MANIFEST_TYPE, HubObject
from nexusform.domains.hub.providers.object_access import find_tool_manager
from nexusform.interfaces.plugins import ChangeRequest, ObjectKey, ProviderProblem, StepPending
from nexusform.json_data.plain_data import get_mapping, get_part


class HubOptions(Struct, frozen=True):
    """Options of the provider block and the operator. `allows_dry_run` returns for the hub's URL whether this run may
    do more than read; a sandboxed run may not by default. `keeps_missing`: missing objects count as unchanged.
    """

    manager: str
    validate_changes: str
    is_read_only: bool
    timeout: float
    allows_dry_run: Callable[[str], bool] = lambda _server: True
    takes_ownership: bool = False
    keeps_missing: bool = False


def get_ownership_source(options: HubOptions, request: ChangeRequest) -> str:
    """Return the flag or argument that permits taking over fields; "" for none."""
    if options.takes_ownership:
        return "-take-ownership"
    return "force_conflicts" if get_part(request.planned, ("force_conflicts",)) is True else ""


def reject_tool_managed_object(options: HubOptions, body: Mapping[str, Any], command: str) -> None:
    """Raise ProviderProblem for an object managed by Flux or Argo CD, unless the operator takes it over.
    `command`: apply, destroy or import; a rejected apply can be resumed.
    """
    manager = find_tool_manager(body)
    if manager and not options.takes_ownership:
        name = get_mapping(body, "metadata").get("name")
        takeover_command = f"nexusform {'apply -resume' if command == 'apply' else command} -take-ownership"
        if command == "import":
            takeover_command += ", or an import block, planned and applied with -take-ownership"
        raise ProviderProblem(
            f"{body.get('kind')} {name} is applied by {manager}, which would change it back. Change it "
            f"there, or take it over: {takeover_command}."
        )


def describe_existing_object(hub_object: HubObject, key: ObjectKey, address: str) -> str:
    """Return why an existing object is not overwritten, and the remedy."""
    if key.type == MANIFEST_TYPE:
        return (
            f"{hub_object.title} already exists on the hub, and this plan would overwrite it. If this state has it at "
            "another address, add a moved block. Otherwise import all objects of the block "
            f'(import {{ to = {address}, id = "{key.id}" }}, with each argument on a line of its own), or remove it '
            "from the block."
        )
    return (
        f"{hub_object.title} already exists on the hub and is not in state. Import it: "
        f'import {{ to = {address}, id = "{key.id}" }} with each argument on a line of its own.'
    )


def describe_missing_member(hub_object: HubObject) -> str:
    """Return why a missing member's labels and taints are not written."""
    return (
        f"The hub has no member {hub_object.body['metadata']['name']}. A plan makes none: it joins by KubeFleet's "
        "join script (hack/membership/joinMC.sh), or by `az fleet member create`. "
        "If it left for good, take its block out of the configuration."
    )


def suggest_azure_command(hub_object: HubObject) -> str:
    """Return the Azure command to change a member's labels after a denial by an Azure hub, as the rest of a sentence;
    "" for other objects.
    """
    metadata = get_mapping(hub_object.body, "metadata")
    labels = get_mapping(metadata, "labels")
    if hub_object.body.get("kind") != "MemberCluster" or not labels:
        return ""
    group = labels.get("fleet.azure.com/resource-group", "RG")
    pairs = " ".join(
        f"{name}={value}" for name, value in sorted(labels.items()) if not name.startswith("fleet.azure.com/")
    )
    return (
        ". On Azure Kubernetes Fleet Manager labels of members belong to Azure: take them out here, and run: "
        f"az fleet member update --resource-group {group} --fleet-name FLEET --name {metadata.get('name')} "
        f'--labels "{pairs}"'
    )


def is_sensitive_object(hub_object: HubObject, request: ChangeRequest) -> bool:
    """Return True if messages must not repeat values of an object; a Secret is always sensitive."""
    return request.is_sensitive or hub_object.body.get("kind") == "Secret"


def hide_sensitive_values(api_error: ApiError, hub_object: HubObject, request: ChangeRequest) -> ApiError:
    """Return the error without values if the object is sensitive."""
    return api_error.hide_values() if is_sensitive_object(hub_object, request) else api_error


def describe_owners(api_error: ApiError) -> str:
    """Return the conflicting fields of a server-side apply with their owners, as text."""
    return "; ".join(f"{cause.field} belongs to {cause.manager}" for cause in api_error.causes if cause.manager)


def format_request_rejection(api_error: ApiError, hub_object: HubObject) -> str:
    """Format the rejection of a step's request: another owner of fields, missing permission, or any other."""
    title = hub_object.title
    if api_error.kind is ApiErrorKind.OTHER_MANAGER:
        return (
            f"{title}: {describe_owners(api_error)}. Leave the field out of the configuration, or take it over: once "
            "by nexusform apply -resume -take-ownership, for good by force_conflicts = true."
        )
    if api_error.missing_permission:
        return f"{title}: {api_error.missing_permission}."
    advice = suggest_azure_command(hub_object) if api_error.kind is ApiErrorKind.WEBHOOK else ""
    return f"{title}: the hub refuses it ({api_error.status}): {api_error.server_message}{advice}"


@contextmanager
def convert_lost_connection(address: str) -> Iterator[None]:
    """Convert a lost connection during a step: the result is unknown, so the step is neither done nor failed.
    Raises StepPending.
    """
    try:
        yield
    except HubProblem as problem:
        raise StepPending(f"{address}: {problem} `nexusform apply -resume` continues it.") from None
    except ApiError as api_error:
        if api_error.kind is not ApiErrorKind.TEMPORARY:
            raise
        reason = f"the hub does not answer ({api_error.status}: {api_error.server_message})"
        raise StepPending(f"{address}: {reason}. `nexusform apply -resume` continues it.") from None


@contextmanager
def convert_rejected_read(hub_object: HubObject) -> Iterator[None]:
    """Convert a rejected read after a write: the object exists, so the step is neither done nor failed. Raises
    StepPending.
    """
    try:
        yield
    except ApiError as api_error:
        if api_error.kind is ApiErrorKind.TEMPORARY:
            raise  # the caller converts it (convert_lost_connection)
        raise StepPending(
            f"{hub_object.title} was written, but its result cannot be read ({api_error.status}): {api_error.reason}. "
            "Allow that, and `nexusform apply -resume` continues it."
        ) from None


@contextmanager
def convert_hub_errors(*, requires_hub: bool = True) -> Iterator[None]:
    """Convert errors of a hub to ProviderProblem. Without `requires_hub`, an unusable hub and rejected credentials set
    its `is_unreachable`: a plan may start from the state.
    """
    try:
        yield
    except HubProblem as problem:
        raise ProviderProblem(str(problem), is_unreachable=not requires_hub) from None
    except ApiError as api_error:
        if api_error.kind is ApiErrorKind.UNAUTHENTICATED:
            detail = "The hub rejected the credentials (401). Sign in again."
            raise ProviderProblem(detail, is_unreachable=not requires_hub) from None
        raise ProviderProblem(f"The hub refuses ({api_error.status}): {api_error.reason}") from None
