"""A subscription as the SDK azure-mgmt-networkcloud shows it: the bodies of its resources as REST gives them.

What the SDK gives is turned into the JSON of the REST API and read by the importers of exports: one reading
for both. Signs in as DefaultAzureCredential does (az login, managed identity, environment).
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from nexusform.backends.deadlines import deadline_seconds
from nexusform.diagnostics import Problem
from nexusform.domains.azure.providers.azure_budget import sending_policies
from nexusform.domains.azure.providers.azure_deadline import wanted_transport, within_deadline
from nexusform.domains.azure.providers.azure_requests import Arm, Pace
from nexusform.ports import ProviderProblem
from nexusform.state_ports import BackendProblem

if TYPE_CHECKING:  # the importers are loaded where a site is read
    from nexusform.domains.azure.importers.az_model import AzSite

Body: TypeAlias = Mapping[str, Any]
Documents: TypeAlias = Mapping[str, list[dict[str, Any]]]

# Read from the environment alone: configuration never says where tokens are sent.
ENDPOINT_VARIABLE: Final = "NF_AZURE_ENDPOINT"
INTERVAL_VARIABLE: Final = "NF_AZURE_POLL_SECONDS"
_ADDRESS: Final = re.compile(r"https://[A-Za-z0-9.-]+(?::\d+)?/*")
PUBLIC_ENDPOINT: Final = "https://management.azure.com"
_SIGN_IN: Final = "Sign in with `az login`, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET."
MACHINES: Final = "bare_metal_machines"
CLUSTERS: Final = "kubernetes_clusters"
POOLS: Final = "agent_pools"
VMS: Final = "virtual_machines"
# Kinds of documents that are lists of a subscription.
_LISTS: Final = ("clusters", "racks", MACHINES, VMS, CLUSTERS, "rack_skus")
# What a site has beside machines: where a subscription does not show it, it is not known.
_SUPPLIES: Final = ("l3_networks", "storage_appliances", "volumes", "kubernetes_versions")
_AT_ONCE: Final = 8  # requests at a time
_MOST_RETRIES: Final = 3
_LONGEST_PAUSE: Final = 30  # seconds between a request and its repetition, where Azure does not say
_OF_TENANTS: Final = frozenset({VMS, CLUSTERS})


class Subscription:
    """One subscription, with the settings of its provider block; nothing is asked before it is needed."""

    def __init__(self, settings: Mapping[str, Any], leaving: ExitStack) -> None:
        """`leaving` closes the connection when the run ends."""
        self.id = str(settings["subscription_id"])
        self.default_group = str(settings.get("resource_group") or "")
        self._location = str(settings.get("extended_location") or "")
        self._machine_sku_by_id = settings.get("machine_sku_by_id") or {}
        self._leaving = leaving
        self._connecting = Lock()
        self._connected: Any = None
        self.shown: Documents = {}

    def arm(self) -> Arm:
        """Where changes are sent. Raises ProviderProblem."""
        return Arm(self._client(), endpoint(), self.id, Pace(interval()))

    def read(self) -> tuple[tuple[AzSite, ...], list[Problem]]:
        """The sites that it shows now, and what is wrong with them. Raises ProviderProblem."""
        with asking():
            self.shown = self._documents()
        return self.sites_in(self.shown)

    def sites_in(self, documents: Documents) -> tuple[tuple[AzSite, ...], list[Problem]]:
        """The sites that bodies show, and what is wrong with them."""
        from nexusform.domains.azure.importers.az_inventory import read_sites

        named = {kind: [(kind, json.dumps(bodies).encode())] for kind, bodies in documents.items()}
        sites, findings = read_sites(named, self._machine_sku_by_id)
        return sites, list(findings)

    def machines(self) -> list[dict[str, Any]]:
        """The bodies of all machines as they are now. Raises AzureError."""
        return self._kept(self._client().bare_metal_machines.list_by_subscription())

    def pools(self, group: str, cluster: str) -> list[dict[str, Any]]:
        """The bodies of a cluster's agent pools as they are now. Raises AzureError."""
        pools = self._client().agent_pools.list_by_kubernetes_cluster(group, cluster)
        return [pool.as_dict() for pool in pools]

    def _client(self) -> Any:
        with self._connecting:
            if self._connected is None:
                self._connected = self._leaving.enter_context(connect(self.id))
            return self._connected

    def _documents(self) -> dict[str, list[dict[str, Any]]]:
        """All resources of the subscription that we read, by kind."""
        client, documents = self._client(), {}
        for kind in _LISTS:
            listing = getattr(client, kind)
            items = (
                listing.list_by_resource_group(self.default_group)
                if self.default_group and kind in _OF_TENANTS
                else listing.list_by_subscription()
            )
            documents[kind] = self._kept(items)
        documents |= self._supplies(client)
        owners = [(group_of(str(one.get("id"))), str(one.get("name"))) for one in documents[CLUSTERS]]
        with ThreadPoolExecutor(_AT_ONCE) as asked:  # a list of pools is a request for each cluster
            pools = asked.map(lambda owner: self.pools(*owner), owners)
            documents[POOLS] = list(chain.from_iterable(pools))
        return documents

    def _supplies(self, client: Any) -> dict[str, list[dict[str, Any]]]:
        """Networks, storage and versions, as far as they may be read."""
        from azure.core.exceptions import ClientAuthenticationError, HttpResponseError

        documents = {}
        for kind in _SUPPLIES:
            try:
                documents[kind] = self._kept(getattr(client, kind).list_by_subscription())
            except ClientAuthenticationError:
                raise
            except HttpResponseError:
                continue
        return documents

    def _kept(self, items: Iterable[Any]) -> list[dict[str, Any]]:
        """The bodies at the extended location; what names none is kept."""
        bodies = [item.as_dict() for item in items]
        return [body for body in bodies if _is_at(body, self._location)] if self._location else bodies


def connect(subscription_id: str) -> Any:
    """A client of the SDK. Raises ProviderProblem."""
    try:
        from azure.identity import DefaultAzureCredential
        from azure.mgmt.networkcloud import NetworkCloudMgmtClient
    except ImportError:
        raise ProviderProblem(
            "The provider azure needs packages that are not installed: pip install 'nexusform[azure]'."
        ) from None
    at = endpoint()
    # What fails is said once, by `asking`; without a handler Python prints the SDK's own lines beside it.
    logging.getLogger("azure").addHandler(logging.NullHandler())
    return NetworkCloudMgmtClient(
        DefaultAzureCredential(),
        subscription_id,
        at,
        credential_scopes=[f"{at}/.default"],
        per_call_policies=[within_deadline(at)],
        per_retry_policies=sending_policies(subscription_id),
        transport=wanted_transport(),
        **_patience(),
    )


def _patience() -> dict[str, Any]:
    """How long it is asked again where that changes nothing: together no longer than one operation may take.
    Raises ProviderProblem.
    """
    try:
        seconds = deadline_seconds()
    except BackendProblem as problem:
        raise ProviderProblem(str(problem)) from None
    return {
        "timeout": seconds,
        "retry_total": _MOST_RETRIES,
        "retry_backoff_max": _LONGEST_PAUSE,
    }


def endpoint() -> str:
    """Where Azure Resource Manager is, without a slash at the end. Raises ProviderProblem."""
    address = os.environ.get(ENDPOINT_VARIABLE, "") or PUBLIC_ENDPOINT
    if not _ADDRESS.fullmatch(address):
        raise ProviderProblem(
            f'{ENDPOINT_VARIABLE} must begin with https:// and name a host; it is "{address}".'
        )
    return address.rstrip("/")


def interval() -> float:
    """Seconds between looks at what goes on, where Azure does not say. Raises ProviderProblem."""
    text = os.environ.get(INTERVAL_VARIABLE, "") or "10"
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise ProviderProblem(f'{INTERVAL_VARIABLE} must be seconds from 0 to 3600; it is "{text}".')
    return seconds


@contextmanager
def asking() -> Iterator[None]:
    """Errors of the SDK as problems of the provider."""
    try:
        from azure.core.exceptions import AzureError, ClientAuthenticationError
    except ImportError:
        yield  # connecting says what is missing
        return
    try:
        yield
    except AzureError as problem:
        lines = str(problem).splitlines() or [type(problem).__name__]
        signing_in = f" {_SIGN_IN}" if isinstance(problem, ClientAuthenticationError) else ""
        raise ProviderProblem(f"Azure cannot be read: {lines[0]}{signing_in}") from None


def _is_at(body: Body, location: str) -> bool:
    """Whether a resource is at an extended location, or says none."""
    from nexusform.domains.azure.importers.arm import id_key

    properties = body.get("properties") or {}
    # A Nexus cluster's own location is its manager's; that of its tenants is the other one.
    at = properties.get("clusterExtendedLocation") or body.get("extendedLocation") or {}
    name = id_key(at.get("name") or "")
    asked = id_key(location)
    return not name or name == asked or name.endswith(f"/{asked}")


def group_of(arm_id: str) -> str:
    """The resource group in an ARM id."""
    parts = arm_id.split("/")
    lowered = [part.lower() for part in parts]
    return parts[lowered.index("resourcegroups") + 1] if "resourcegroups" in lowered else ""
