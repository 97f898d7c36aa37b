"""The `azure` provider: sites as Azure shows them now, read through its SDK. It sends nothing.

What the SDK gives is turned into the JSON of the REST API and read by the importers of exports: one reading
for both. Signs in as DefaultAzureCredential does (az login, managed identity, environment).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics import Problem
from nexusform.ports import ProviderProblem
from nexusform.providers.azure_export import MACHINE_SKU_BY_ID
from nexusform.providers.observed_site import ObservedSites
from nexusform.regular_files import FREE, Confinement
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import STRING

if TYPE_CHECKING:  # the importers are loaded where a site is read
    from nexusform.importers.az_model import AzSite

KIND: Final = "azure"
NAME: Final = "nexusform.dev/builtin/azure"

SETTINGS: Final = BlockSchema(
    {
        "subscription_id": Attribute(STRING, "The subscription that is read.", required=True),
        "resource_group": Attribute(
            STRING,
            "Only clusters and VMs of this resource group. The room of those left out counts as free. "
            "Default: all.",
            optional=True,
        ),
        "extended_location": Attribute(
            STRING,
            "Only what is at this extended location: the id, or the last part of it. Default: all.",
            optional=True,
        ),
        "machine_sku_by_id": MACHINE_SKU_BY_ID,
    },
    {},
    "Reads sites from Azure as they are now, and sends nothing.",
)
# Kind of document -> the operations of the SDK's client that list it.
_LISTS: Final[Mapping[str, str]] = {
    "clusters": "clusters",
    "racks": "racks",
    "bare_metal_machines": "bare_metal_machines",
    "virtual_machines": "virtual_machines",
    "kubernetes_clusters": "kubernetes_clusters",
    "rack_skus": "rack_skus",
}
_OF_TENANTS: Final = frozenset({"virtual_machines", "kubernetes_clusters"})


def make(
    settings: Mapping[str, Any], _directory: str, leaving: ExitStack, _confinement: Confinement = FREE
) -> ObservedSites:
    """The provider for evaluated settings; nothing is asked of Azure before a plan asks what stands."""
    client: list[Any] = []

    def read() -> tuple[tuple[AzSite, ...], list[Problem]]:
        if not client:
            client.append(leaving.enter_context(_client(str(settings["subscription_id"]))))
        return read_subscription(client[0], settings)

    source = f"subscription {settings['subscription_id']}"
    return ObservedSites(NAME, source, "wait until it is done", read)


def read_azure(settings: Mapping[str, Any]) -> tuple[tuple[AzSite, ...], list[Problem]]:
    """The sites that a subscription shows now. Raises ProviderProblem."""
    with _client(str(settings["subscription_id"])) as client:
        return read_subscription(client, settings)


def _client(subscription_id: str) -> Any:
    try:
        from azure.identity import DefaultAzureCredential
        from azure.mgmt.networkcloud import NetworkCloudMgmtClient
    except ImportError:
        raise ProviderProblem(
            "The provider azure needs packages that are not installed: pip install 'nexusform[azure]'."
        ) from None
    return NetworkCloudMgmtClient(DefaultAzureCredential(), subscription_id)


def read_subscription(client: Any, settings: Mapping[str, Any]) -> tuple[tuple[AzSite, ...], list[Problem]]:
    """The sites that a client of the SDK shows, and what is wrong with them. Raises ProviderProblem."""
    from azure.core.exceptions import AzureError

    from nexusform.importers.az_inventory import read_sites

    try:
        documents = _documents(client, settings)
    except AzureError as problem:
        raise ProviderProblem(f"Azure cannot be read: {str(problem).splitlines()[0]}") from None
    named = {kind: [(kind, json.dumps(bodies).encode())] for kind, bodies in documents.items()}
    sites, findings = read_sites(named, settings.get("machine_sku_by_id") or {})
    return sites, list(findings)


def _documents(client: Any, settings: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    group = settings.get("resource_group")
    documents: dict[str, list[dict[str, Any]]] = {}
    for kind, operations in _LISTS.items():
        listing = getattr(client, operations)
        items = (
            listing.list_by_resource_group(group)
            if group and kind in _OF_TENANTS
            else listing.list_by_subscription()
        )
        documents[kind] = _kept(items, str(settings.get("extended_location") or ""))
    documents["agent_pools"] = []
    for cluster in documents["kubernetes_clusters"]:
        owner, name = _group_of(str(cluster.get("id"))), str(cluster.get("name"))
        pools = client.agent_pools.list_by_kubernetes_cluster(owner, name)
        documents["agent_pools"] += [pool.as_dict() for pool in pools]
    return documents


def _kept(items: Iterable[Any], location: str) -> list[dict[str, Any]]:
    """The bodies at an extended location; what names none is kept."""
    bodies = [item.as_dict() for item in items]
    return [body for body in bodies if _is_at(body, location)] if location else bodies


def _is_at(body: Mapping[str, Any], location: str) -> bool:
    from nexusform.importers.arm import id_key

    properties = body.get("properties") or {}
    # A Nexus cluster's own location is its manager's; that of its tenants is the other one.
    at = properties.get("clusterExtendedLocation") or body.get("extendedLocation") or {}
    name = id_key(at.get("name") or "")
    asked = id_key(location)
    return not name or name == asked or name.endswith(f"/{asked}")


def _group_of(arm_id: str) -> str:
    """The resource group in an ARM id."""
    parts = arm_id.split("/")
    lowered = [part.lower() for part in parts]
    return parts[lowered.index("resourcegroups") + 1] if "resourcegroups" in lowered else ""
