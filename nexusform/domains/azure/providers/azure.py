"""The `azure` provider: sites as Azure shows them now, read and changed through its SDK."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics import Problem
from nexusform.domains.azure.providers.azure_export import MACHINE_SKU_BY_ID
from nexusform.domains.azure.providers.observed_site import ObservedSites
from nexusform.ports import ProviderProblem
from nexusform.providers.registry import ProviderKind
from nexusform.regular_files import FREE, Confinement
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import BOOL, STRING

if TYPE_CHECKING:  # the importers are loaded where a site is read
    from nexusform.domains.azure.importers.az_model import AzSite

KIND: Final = "azure"
NAME: Final = "nexusform.dev/builtin/azure"
SUBSCRIPTION_VARIABLE: Final = "AZURE_SUBSCRIPTION_ID"
WITHOUT_ADDRESS: Final = f"Leave subscription_id out, and set {SUBSCRIPTION_VARIABLE}."
GUID_PATTERN: Final = r"(?i:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"

SETTINGS: Final = BlockSchema(
    {
        "subscription_id": Attribute(
            STRING,
            "Subscription GUID. Default: AZURE_SUBSCRIPTION_ID. A confined run accepts no other without "
            "-allow-remote.",
            optional=True,
            pattern=GUID_PATTERN,
            pattern_hint="a GUID, as `az account show --query id` prints it",
        ),
        "resource_group": Attribute(
            STRING,
            "Read only clusters and VMs of this resource group, and create new ones there. Capacity of "
            "skipped ones counts as free. Default: all.",
            optional=True,
        ),
        "extended_location": Attribute(
            STRING,
            "Read only this extended location: the id or its last part. Default: all.",
            optional=True,
        ),
        "machine_sku_by_id": MACHINE_SKU_BY_ID,
        "read_only": Attribute(
            BOOL,
            "Send nothing. Changes are made outside nexusform; apply checks them.",
            optional=True,
            default=False,
        ),
        "act_on_machines": Attribute(
            BOOL,
            "Cordon and uncordon machines (evacuate, cordon_status). Needs permissions for these actions. "
            "Default: manual cordoning.",
            optional=True,
            default=False,
        ),
    },
    {},
    "Reads sites from Azure. Creates, updates and deletes clusters, agent pools and VMs. NF_AZURE_ENDPOINT"
    " sets another Azure Resource Manager than the public cloud.",
)


def make(
    settings: Mapping[str, Any], _directory: str, leaving: ExitStack, _confinement: Confinement = FREE
) -> ObservedSites:
    """The provider for evaluated settings; nothing is asked of Azure before a plan asks what stands. Raises
    ProviderProblem.
    """
    # What talks to Azure is loaded where a configuration names this provider.
    from nexusform.domains.azure.providers.azure_site import AzureSites
    from nexusform.domains.azure.providers.azure_subscription import Subscription

    subscription = Subscription(_with_subscription(settings), leaving)
    source = f"subscription {subscription.id}"
    if settings.get("read_only"):
        return ObservedSites(NAME, source, "wait until it is done", subscription.read)
    acts_on_machines = bool(settings.get("act_on_machines"))
    return AzureSites(NAME, source, subscription, acts_on_machines=acts_on_machines)


def read_azure(settings: Mapping[str, Any]) -> tuple[tuple[AzSite, ...], list[Problem]]:
    """The sites that a subscription shows now. Raises ProviderProblem."""
    from nexusform.domains.azure.providers.azure_subscription import Subscription

    with ExitStack() as leaving:
        return Subscription(_with_subscription(settings), leaving).read()


def addresses(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Where settings lead the credentials of the environment: to the subscription that they name, unless the
    environment names the same. Raises ProviderProblem.
    """
    from nexusform.domains.azure.providers.azure_subscription import endpoint

    named = str(settings.get("subscription_id") or "")
    if named.lower() in {"", _subscription_of_environment().lower()}:
        return ()
    return (f"{endpoint()}/subscriptions/{named}",)


def subscription_of(settings: Mapping[str, Any]) -> str:
    """The subscription that settings name, else the one of the environment. Raises ProviderProblem."""
    named = str(settings.get("subscription_id") or "")
    subscription = named or _subscription_of_environment()
    if not subscription:
        raise ProviderProblem(
            f"Which subscription is meant is not said: set {SUBSCRIPTION_VARIABLE}, or write subscription_id."
        )
    if not re.fullmatch(GUID_PATTERN, subscription):
        origin = "subscription_id" if named else SUBSCRIPTION_VARIABLE
        raise ProviderProblem(
            f'{origin} must be a GUID, as `az account show --query id` prints it; it is "{subscription}".'
        )
    return subscription


def _with_subscription(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**settings, "subscription_id": subscription_of(settings)}


def _subscription_of_environment() -> str:
    return os.environ.get(SUBSCRIPTION_VARIABLE, "")


PROVIDER: Final = ProviderKind(SETTINGS, make, addresses=addresses, instead=WITHOUT_ADDRESS)
