"""A subscription as read by the SDK azure-mgmt-networkcloud: bodies of resources in REST form.

SDK objects are converted to the JSON of the REST API and read by the importers of exports. Sign-in
uses ARM_* variables, else DefaultAzureCredential (az login, managed identity, environment).
Recorded objects missing in Azure's lists are read one by one: a list omits resources without read
permission, and those outside of the provider's resource group. Neither was removed.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

from nexusform.diagnostics.diagnostic import Problem
from nexusform.diagnostics.missing_packages import describe_missing_package
from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.azure.importers.arm_resources import extract_resource_group, normalize_id
from nexusform.domains.azure.providers.arm_changes import ArmTarget
from nexusform.domains.azure.providers.azure_changes import CLUSTER, POOL, VM
from nexusform.domains.azure.providers.azure_rate_limit import build_rate_limit_policies
from nexusform.domains.azure.providers.azure_requests import (
    ArmClient,
    PollTiming,
    extract_first_line,
    read_provisioning_state,
)
from nexusform.domains.azure.providers.machine_cordons import MACHINE, RACK
from nexusform.domains.azure.providers.observed_site import GROUP_KEY
from nexusform.files.access_record import read_variable
from nexusform.files.sandbox import declare_server
from nexusform.interfaces.plugins import ProviderProblem, ReadRequest
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.network.azure_identity import build_sign_in_transport, create_configured_identity
from nexusform.network.connection_errors import describe_request_error
from nexusform.network.deadlines import (
    DeadlineRunner,
    OperationAbandoned,
    compute_silence_limit,
    is_caller_waiting,
    read_deadline,
)
from nexusform.network.limited_session import build_limited_session
from nexusform.network.parallel_calls import call_in_parallel
from nexusform.network.read_limits import CONNECT_SECONDS, PageLimits, parse_json

# The importers are loaded where a site is read.
if TYPE_CHECKING:
    from nexusform.domains.azure.importers.az_records import AzSite

Body: TypeAlias = Mapping[str, Any]
Documents: TypeAlias = Mapping[str, list[dict[str, Any]]]
Client = TypeVar("Client", bound=ArmClient)

# Read only from the environment: configuration must not decide the recipient of tokens.
ENDPOINT_VARIABLE: Final = "NF_AZURE_ENDPOINT"
INTERVAL_VARIABLE: Final = "NF_AZURE_POLL_SECONDS"
_ADDRESS: Final = re.compile(r"https://[A-Za-z0-9.-]+(?::\d+)?/*")
PUBLIC_ENDPOINT: Final = "https://management.azure.com"
_SIGN_IN: Final = (
    "Sign in with `az login`, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET."
)
MACHINES: Final = "bare_metal_machines"
CLUSTERS: Final = "kubernetes_clusters"
RACKS: Final = "racks"
POOLS: Final = "agent_pools"
VMS: Final = "virtual_machines"
# Kinds of documents that are lists of a subscription.
_LISTED_KINDS: Final = ("clusters", RACKS, MACHINES, VMS, CLUSTERS, "rack_skus")
# Supplies besides machines; unknown if the subscription does not list them.
_SUPPLY_KINDS: Final = (
    "l3_networks",
    "l2_networks",
    "trunked_networks",
    "storage_appliances",
    "volumes",
    "kubernetes_versions",
)
# Maximum requests at a time.
MAX_PARALLEL: Final = 8
# Lists at a time: there are twelve, and each connection costs milliseconds for TLS.
_MAX_PARALLEL_LISTS: Final = 4
# The first status without success.
_FIRST_ERROR: Final = 300
_MAX_RETRIES: Final = 3
_THROTTLED: Final = 429
# Of one list: rate limits delay its pages.
_MAX_LIST_SECONDS: Final = 1800.0
# Seconds before a retry without Retry-After.
_MAX_BACKOFF: Final = 30
_WORKLOAD_KINDS: Final = frozenset({VMS, CLUSTERS})
# Operation groups of the SDK by type of an object.
_OPERATION_GROUPS: Final = {CLUSTER: CLUSTERS, POOL: POOLS, VM: VMS, MACHINE: MACHINES, RACK: RACKS}
_DELETING: Final = "Deleting"  # provisioning state
_MAX_NAMES: Final = 4


class AzureSubscription:
    """One subscription with the settings of its provider block.

    The connection opens on first use.
    """

    def __init__(self, settings: Mapping[str, Any], exit_stack: ExitStack) -> None:
        """Keep the settings; `exit_stack` closes the connection at the end of the run."""
        self.id = str(settings["subscription_id"])
        self.default_group = str(settings.get("resource_group") or "")
        self._location = str(settings.get("extended_location") or "")
        self._machine_sku_by_id = get_mapping(settings, "machine_sku_by_id")
        self._exit_stack = exit_stack
        self._client_lock = Lock()
        self._connected_client: Any = None
        # Bodies of resources by kind, once they are read.
        self.documents: Documents = {}

    @property
    def identity(self) -> dict[str, str]:
        """Subscription and custom location; "" for all locations."""
        return {
            "subscription_id": self.id.lower(),
            "custom_location": self._location.lower().rpartition("/")[2],
        }

    def make_arm_client(self, client_class: type[Client]) -> Client:
        """Create the client for changes.

        Raises ProviderProblem.
        """
        return client_class(
            self._get_client(), read_endpoint(), self.id, PollTiming(read_poll_interval())
        )

    def read_sites(self) -> tuple[tuple[AzSite, ...], list[Problem]]:
        """Read the current sites and findings about them.

        Raises ProviderProblem.
        """
        self.read_documents()
        return self.parse_sites(self.documents)

    def read_documents(self) -> dict[str, list[tuple[str, bytes]]]:
        """Read all bodies, by kind as files of an export.

        Raises ProviderProblem.
        """
        with convert_azure_errors():
            first, *others = (*_LISTED_KINDS, *_SUPPLY_KINDS)
            # Alone: it signs in for all, or fails for all.
            documents = {first: self._list_kind(first)}
            lists = call_in_parallel(self._list_permitted_kind, others, _MAX_PARALLEL_LISTS)
            documents |= {
                kind: bodies
                for kind, bodies in zip(others, lists, strict=True)
                if bodies is not None
            }
            # Group and name of each cluster: pools need one request per cluster.
            clusters = [
                (extract_resource_group(str(c.get("id"))), str(c.get("name")))
                for c in documents[CLUSTERS]
            ]
            pools = call_in_parallel(
                lambda cluster: self.list_pools(*cluster), clusters, MAX_PARALLEL
            )
            documents[POOLS] = list(chain.from_iterable(pools))
            self.documents = documents
        return _encode_documents(self.documents)

    def _list_kind(self, kind: str) -> list[dict[str, Any]]:
        """List the current bodies of a kind at the configured location.

        Raises AzureError.
        """
        operations = getattr(self._get_client(), kind)
        # All workloads are in this group.
        if self.default_group and kind in _WORKLOAD_KINDS:
            pages = _read_pages(operations.list_by_resource_group, self.default_group)
        else:
            pages = _read_pages(operations.list_by_subscription)
        return self._select_bodies_at_location(pages)

    def _list_permitted_kind(self, kind: str) -> list[dict[str, Any]] | None:
        """List the current bodies of a kind; supplies as far as permitted.

        Return None if they may not be read, or are not served. Raises AzureError.
        """
        from azure.core.exceptions import ClientAuthenticationError, HttpResponseError

        try:
            return self._list_kind(kind)
        except HttpResponseError as problem:
            # Nothing can be read without a sign-in.
            if kind in _SUPPLY_KINDS and not isinstance(problem, ClientAuthenticationError):
                return None
            raise

    def parse_sites(self, documents: Documents) -> tuple[tuple[AzSite, ...], list[Problem]]:
        """Parse the sites in documents (resource bodies by kind), and findings about them."""
        from nexusform.domains.azure.importers.az_inventory import read_sites

        sites, findings = read_sites(_encode_documents(documents), self._machine_sku_by_id)
        return sites, list(findings)

    def list_machines(self) -> list[dict[str, Any]]:
        """List the current bodies of all machines.

        Raises AzureError.
        """
        return self._select_bodies_at_location(
            _read_pages(self._get_client().bare_metal_machines.list_by_subscription)
        )

    def list_workloads(self) -> list[dict[str, Any]]:
        """List the current bodies of all clusters, with their nodes, and of all VMs.

        Raises AzureError.
        """
        return [*self._list_kind(CLUSTERS), *self._list_kind(VMS)]

    def list_pools(self, group: str, cluster: str) -> list[dict[str, Any]]:
        """List the current bodies of a cluster's agent pools.

        Raises AzureError.
        """
        list_pools = self._get_client().agent_pools.list_by_kubernetes_cluster
        return [pool.as_dict() for pool in _read_pages(list_pools, group, cluster)]

    def _get_client(self) -> Any:
        with self._client_lock:
            if self._connected_client is None:
                self._connected_client = self._exit_stack.enter_context(create_client(self.id))
            return self._connected_client

    def _select_bodies_at_location(self, items: Iterable[Any]) -> list[dict[str, Any]]:
        """Select the bodies at the configured extended location, and those without any location.

        Id or name.
        """
        bodies = [item.as_dict() for item in items]
        if not self._location:
            # None is configured: all locations are read.
            return bodies
        selected = []
        requested = normalize_id(self._location)
        for body in bodies:
            properties = get_mapping(body, "properties")
            # `extendedLocation` of a Nexus cluster is that of its manager, not of its site.
            extended_location = properties.get("clusterExtendedLocation") or body.get(
                "extendedLocation"
            )
            name = normalize_id(get_text(extended_location, "name"))
            # An id ends with the name.
            if not name or f"/{name}".endswith(f"/{requested}"):
                selected.append(body)
        return selected


def _encode_documents(documents: Documents) -> dict[str, list[tuple[str, bytes]]]:
    """Return the bodies of each kind as a JSON file of an export, named like the kind."""
    return {kind: [(kind, json.dumps(bodies).encode())] for kind, bodies in documents.items()}


def _read_pages(list_items: Callable[..., Any], *names: str) -> Iterator[Any]:
    """Yield the items of all pages.

    Raises ProviderProblem for pages of another form or without an end.
    """
    budget = PageLimits(_MAX_LIST_SECONDS)
    # Of the page last read; the SDK keeps its objects alone.
    content = b""

    def check_page(response: Any) -> None:
        nonlocal content
        content = _read_list_page(response)

    pages = list_items(*names, raw_response_hook=check_page).by_page()
    while True:
        try:
            page = list(next(pages, ()))
        except (ValueError, LookupError, RecursionError) as problem:
            # The problem is of the SDK.
            raise _build_unreadable_response_problem(problem) from None
        yield from page
        token = str(pages.continuation_token or "")
        exceeded = budget.add_page(content, token)
        if exceeded:
            raise ProviderProblem(f"Azure does not list the resources completely: {exceeded}.")
        if not token:
            # This was the last page.
            return


def _read_list_page(response: Any) -> bytes:
    """Return the text of a page.

    Raises ProviderProblem unless it is an object with a list of objects.
    """
    answer = response.http_response
    if answer.status_code >= _FIRST_ERROR:
        # The SDK raises an error.
        return b""
    content: bytes = answer.body()
    try:
        document = parse_json(content)
    except ValueError as problem:
        raise _build_unreadable_response_problem(problem) from None
    items = document.get("value") if isinstance(document, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _build_unreadable_response_problem(ValueError("it is not a list of resources"))
    return content


def _build_unreadable_response_problem(problem: Exception) -> ProviderProblem:
    reason = extract_first_line(problem)[:200]
    return ProviderProblem(f"Azure cannot be read: {reason}. A proxy may answer in its place.")


def create_client(subscription_id: str) -> Any:
    """Create the SDK client.

    Raises ProviderProblem.
    """
    try:
        from azure.identity import DefaultAzureCredential
        from azure.mgmt.networkcloud import NetworkCloudMgmtClient
    except ImportError as problem:
        package = describe_missing_package(problem)
        raise ProviderProblem(f"The provider azure needs {package}.") from None
    try:
        # By ARM_* variables, as for the backend azurerm.
        identity = create_configured_identity({})
    except BackendProblem as problem:
        raise ProviderProblem(f"Cannot sign in to Azure: {problem}") from None
    base_url = read_endpoint()
    declare_server(base_url)
    # `convert_azure_errors` reports failures; without a handler Python also prints the SDK's log.
    logging.getLogger("azure").addHandler(logging.NullHandler())
    return NetworkCloudMgmtClient(
        identity or DefaultAzureCredential(transport=build_sign_in_transport()),
        subscription_id,
        base_url,
        credential_scopes=[f"{base_url}/.default"],
        per_call_policies=[build_deadline_policy(base_url)],
        per_retry_policies=build_rate_limit_policies(subscription_id),
        transport=build_transport(base_url),
        retry_policy=_build_retry_policy(),
    )


def _build_retry_policy() -> Any:
    """Build the retry policy of the SDK.

    Throttled reads are repeated until the deadline. Raises ProviderProblem.
    """
    from azure.core.pipeline.policies import RetryPolicy

    class ThrottlingRetryPolicy(RetryPolicy[Any, Any]):
        """Retry policy without a limit for throttled reads, except the deadline."""

        def increment(
            self, settings: dict[str, Any], response: Any = None, error: Any = None
        ) -> bool:
            """Count a retry, but not after a throttled read.

            Return whether to try again.
            """
            answer = getattr(response, "http_response", None)
            if (
                answer is not None
                and answer.status_code == _THROTTLED
                and response.http_request.method == "GET"
            ):
                # Retries left; the call below counts them down.
                settings["total"] += 1
                settings["status"] += 1
            return bool(super().increment(settings, response, error))

    try:
        seconds = read_deadline()
    except BackendProblem as problem:
        raise ProviderProblem(str(problem)) from None
    return ThrottlingRetryPolicy(
        timeout=seconds, retry_total=_MAX_RETRIES, retry_backoff_max=_MAX_BACKOFF
    )


def read_endpoint() -> str:
    """Return the URL of Azure Resource Manager without a trailing slash.

    Raises ProviderProblem.
    """
    address = read_variable(ENDPOINT_VARIABLE) or PUBLIC_ENDPOINT
    if not _ADDRESS.fullmatch(address):
        raise ProviderProblem(
            f'{ENDPOINT_VARIABLE} must start with https:// and contain a host, not "{address}".'
        )
    return address.rstrip("/")


def read_poll_interval() -> float:
    """Return the polling interval in seconds.

    Raises ProviderProblem.
    """
    text = read_variable(INTERVAL_VARIABLE) or "10"
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0  # rejected below
    if not 0 <= seconds <= 3600:
        raise ProviderProblem(f'{INTERVAL_VARIABLE} must be seconds from 0 to 3600, not "{text}".')
    return seconds


@contextmanager
def convert_azure_errors() -> Iterator[None]:
    """Convert SDK errors to ProviderProblem."""
    try:
        from azure.core.exceptions import (
            AzureError,
            ClientAuthenticationError,
            ServiceRequestError,
            ServiceResponseError,
        )
    except ImportError:
        # `create_client` reports the missing packages.
        yield
        return
    try:
        yield
    except AzureError as problem:
        sign_in_hint = f" {_SIGN_IN}" if isinstance(problem, ClientAuthenticationError) else ""
        reason = describe_request_error(problem)
        host = urlsplit(read_endpoint()).hostname or ""
        # A timeout of the SDK names no server.
        if isinstance(problem, ServiceRequestError | ServiceResponseError) and host not in reason:
            reason = f"{host}: {reason}"
        raise ProviderProblem(f"Azure cannot be read: {reason}{sign_in_hint}") from None


def build_deadline_policy(endpoint: str) -> Any:
    """Build the SDK pipeline policy that raises AzureError after the time limit of a request."""
    from azure.core.exceptions import ServiceResponseError
    from azure.core.pipeline.policies import HTTPPolicy

    deadline = DeadlineRunner(lambda: endpoint)

    class DeadlinePolicy(HTTPPolicy[Any, Any]):
        """Policy with a time limit."""

        def send(self, request: Any) -> Any:
            """Send the request in a thread that may outlive the time limit."""
            try:
                return deadline.run("ask Azure", lambda: self.next.send(request))
            except OperationAbandoned as problem:
                raise ServiceResponseError(str(problem)) from None

    return DeadlinePolicy()


def build_transport(endpoint: str) -> Any:
    """Build the SDK transport.

    It has a read timeout, and skips cancelled requests. Raises ProviderProblem.
    """
    from azure.core.exceptions import ServiceRequestError
    from azure.core.pipeline.transport import RequestsTransport

    class CancellableTransport(RequestsTransport):  # type: ignore[misc]  # the SDK has no types
        """Transport that skips cancelled requests."""

        def send(self, request: Any, **options: Any) -> Any:
            """Send the request unless it was cancelled."""
            if not is_caller_waiting():
                raise ServiceRequestError("The change was cancelled before it was sent.")
            return super().send(request, **options)

    try:
        seconds = compute_silence_limit()
    except BackendProblem as problem:
        raise ProviderProblem(str(problem)) from None
    session = build_limited_session(endpoint)
    return CancellableTransport(
        session=session,
        connection_verify=session.verify,
        connection_timeout=min(CONNECT_SECONDS, seconds),
        read_timeout=seconds,
    )


def verify_absence(subscription: AzureSubscription, requests: Sequence[ReadRequest]) -> None:
    """Raise ProviderProblem if an unlisted object exists in Azure.

    One without a known group counts as removed.
    """
    arm = subscription.make_arm_client(ArmClient)

    def describe(request: ReadRequest) -> str:
        """Describe an object that may exist, with the reason; return "" for a removed one."""
        key = request.key
        group = get_text(request.private_note, GROUP_KEY) or get_text(
            request.attributes, "azure", "resource_group"
        )
        if not group or key.type not in _OPERATION_GROUPS:
            # It counts as removed.
            return ""
        # SITE/NAME, SITE/RACK/MACHINE or SITE/CLUSTER/POOL.
        names = key.id.split("/")
        own_names = tuple(names[-2:] if key.type == POOL else names[-1:])
        target = ArmTarget(_OPERATION_GROUPS[key.type], group, own_names)
        reason = _find_reason_of_omission(arm, target, subscription.default_group)
        return f"{request.key.id} in resource group {target.group}, {reason}" if reason else ""

    descriptions = [text for text in call_in_parallel(describe, requests, MAX_PARALLEL) if text]
    if descriptions:
        raise ProviderProblem(
            "Azure no longer lists "
            f"{format_first_items(descriptions, _MAX_NAMES, separator='; ')}. nexusform does not "
            "take it as removed. If it was deleted, remove it from the state: nexusform state rm."
        )


def _find_reason_of_omission(arm: ArmClient, target: ArmTarget, listed_group: str) -> str:
    """Return why an unlisted resource may exist, "" if it does not.

    `listed_group` is the only listed group, "" for all.
    """
    from azure.core.exceptions import AzureError, HttpResponseError

    try:
        body = arm.get_body(target)
    except HttpResponseError as problem:
        return (
            f"and does not allow to read it (status {problem.status_code}): a role assignment may "
            "be missing"
        )
    except AzureError as problem:
        return f"and it cannot be read: {describe_request_error(problem)}"
    if body is None or read_provisioning_state(body) == _DELETING:
        return ""
    if listed_group and listed_group.lower() != target.group.lower():
        return f"but it exists: the provider lists only resource group {listed_group}"
    return "but it exists"
