"""The `azure` provider: reads and changes live sites through the Azure SDK."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.domains.azure.providers.azure_export import MACHINE_SKU_BY_ID
from nexusform.domains.azure.providers.observed_site import ObservedSites
from nexusform.files.access_record import read_variable
from nexusform.files.regular_files import UNCONFINED, Confinement
from nexusform.interfaces.plugins import ProviderProblem, ReadRequest
from nexusform.providers.kubeconfig import KubeconfigTrust
from nexusform.providers.provider_definition import ProviderDefinition
from nexusform.resource_types.shared_arguments import GUID_HINT, GUID_PATTERN
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import BOOL, STRING

# The importers are loaded where a site is read.
if TYPE_CHECKING:
    from nexusform.domains.azure.importers.az_records import AzSite

KIND: Final = "azure"
NAME: Final = "nexusform.dev/builtin/azure"
SUBSCRIPTION_VARIABLE: Final = "AZURE_SUBSCRIPTION_ID"
WITHOUT_ADDRESS: Final = f"Leave subscription_id out, and set {SUBSCRIPTION_VARIABLE}."

SETTINGS: Final = BlockSchema(
    {
        "subscription_id": AttributeSchema(
            STRING,
            (
                "Subscription GUID. Default: AZURE_SUBSCRIPTION_ID. In a sandboxed run others need "
                "-allow-remote."
            ),
            optional=True,
            pattern=GUID_PATTERN,
            pattern_hint=GUID_HINT,
        ),
        "resource_group": AttributeSchema(
            STRING,
            "Read only clusters and VMs of this resource group, and create new ones there. "
            "Capacity of skipped ones counts as free. Default: all.",
            optional=True,
        ),
        "extended_location": AttributeSchema(
            STRING,
            "Read only this extended location: the id or its last part. Default: all.",
            optional=True,
        ),
        "machine_sku_by_id": MACHINE_SKU_BY_ID,
        "read_only": AttributeSchema(
            BOOL,
            "Send nothing. Changes are made outside nexusform; apply checks them.",
            optional=True,
            default=False,
        ),
        "act_on_machines": AttributeSchema(
            BOOL,
            "Cordon and uncordon machines, and run nexus_bare_metal_machine_action. Needs "
            "permissions. Default: manual cordoning.",
            optional=True,
            default=False,
        ),
    },
    blocks={},
    description="Reads sites from Azure. Creates, updates and deletes clusters, agent pools and "
    "VMs. NF_AZURE_ENDPOINT sets another Azure Resource Manager than the public cloud.",
)


def make_provider(
    settings: Mapping[str, Any],
    _directory: str,
    exit_stack: ExitStack,
    confinement: Confinement = UNCONFINED,
) -> ObservedSites:
    """Create the provider for evaluated settings; no request is sent before the first read.

    Raises ProviderProblem.
    """
    # The Azure modules are loaded only if a configuration names this provider.
    from nexusform.domains.azure.providers.azure_site import AzureSiteProvider
    from nexusform.domains.azure.providers.azure_subscription import (
        AzureSubscription,
        verify_absence,
    )

    subscription = AzureSubscription(_resolve_subscription_setting(settings), exit_stack)
    source = f"subscription {subscription.id}"
    if settings.get("read_only"):
        return ObservedSites(
            name=NAME,
            source=source,
            advice="wait until it is done",
            read_sites=subscription.read_sites,
            verify_absence=partial(verify_absence, subscription),
            identity=subscription.identity,
        )
    acts_on_machines = bool(settings.get("act_on_machines"))
    trust = KubeconfigTrust(confinement)
    return AzureSiteProvider(
        NAME, source, subscription, acts_on_machines=acts_on_machines, kubeconfig_trust=trust
    )


def read_azure(settings: Mapping[str, Any]) -> tuple[tuple[AzSite, ...], list[Problem]]:
    """Read the current sites of a subscription.

    Raises ProviderProblem.
    """
    from nexusform.domains.azure.providers.azure_subscription import AzureSubscription

    with ExitStack() as exit_stack:
        return AzureSubscription(_resolve_subscription_setting(settings), exit_stack).read_sites()


def verify_absence_in_azure(settings: Mapping[str, Any], requests: Sequence[ReadRequest]) -> None:
    """Raise ProviderProblem if one of these unlisted objects exists in Azure."""
    from nexusform.domains.azure.providers.azure_subscription import (
        AzureSubscription,
        verify_absence,
    )

    with ExitStack() as exit_stack:
        verify_absence(
            AzureSubscription(_resolve_subscription_setting(settings), exit_stack), requests
        )


def read_documents(settings: Mapping[str, Any]) -> Mapping[str, Sequence[tuple[str, bytes]]]:
    """Read the resources of a subscription as files (name, content) of an export, by kind.

    Raises ProviderProblem.
    """
    from nexusform.domains.azure.providers.azure_subscription import AzureSubscription

    with ExitStack() as exit_stack:
        return AzureSubscription(
            _resolve_subscription_setting(settings), exit_stack
        ).read_documents()


def list_urls(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """List the URLs receiving the environment's credentials because of these settings.

    The URL is that of the named subscription. Return () if the environment names the same
    one. Raises ProviderProblem.
    """
    from nexusform.domains.azure.providers.azure_subscription import read_endpoint

    subscription_id = str(settings.get("subscription_id") or "")
    if subscription_id.lower() in {"", read_variable(SUBSCRIPTION_VARIABLE).lower()}:
        # Nothing beyond the environment.
        return ()
    return (f"{read_endpoint()}/subscriptions/{subscription_id}",)


def resolve_subscription(settings: Mapping[str, Any]) -> str:
    """Return the subscription id of the settings, else of the environment.

    Raises ProviderProblem.
    """
    # An unknown value is rejected below.
    configured = str(settings.get("subscription_id") or "")
    subscription = configured or read_variable(SUBSCRIPTION_VARIABLE)
    if not subscription:
        raise ProviderProblem(
            f"No subscription given: set {SUBSCRIPTION_VARIABLE}, or write subscription_id."
        )
    if not re.fullmatch(GUID_PATTERN, subscription):
        origin = "subscription_id" if configured else SUBSCRIPTION_VARIABLE
        raise ProviderProblem(f'{origin} must be {GUID_HINT}, not "{subscription}".')
    return subscription


def _resolve_subscription_setting(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**settings, "subscription_id": resolve_subscription(settings)}


def list_rejection_reasons(resource_type: str, attributes: Mapping[str, Any]) -> Sequence[str]:
    """Return the reasons why Azure will reject a new object."""
    from nexusform.domains.azure.importers.creation_rules import describe_rejections

    return tuple(describe_rejections(resource_type, attributes))


PROVIDER: Final = ProviderDefinition(
    SETTINGS,
    make_provider,
    list_server_urls=list_urls,
    alternative=WITHOUT_ADDRESS,
    list_rejection_reasons=list_rejection_reasons,
)
