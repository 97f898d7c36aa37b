"""Check of recorded objects missing in Azure's lists: a list omits resources without read permission, and those outside
of the provider's resource group. Neither was removed.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.azure.providers.azure_changes import CLUSTER, POOL, VM
from nexusform.domains.azure.providers.azure_requests import (
    ArmClient,
    ArmTarget,
    extract_first_line,
    read_provisioning_state,
)
from nexusform.domains.azure.providers.azure_subscription import (
    CLUSTERS,
    MACHINES,
    MAX_PARALLEL,
    POOLS,
    RACKS,
    VMS,
    AzureSubscription,
)
from nexusform.domains.azure.providers.machine_cordons import MACHINE, RACK
from nexusform.domains.azure.providers.observed_site import GROUP_KEY
from nexusform.interfaces.plugins import ProviderProblem, ReadRequest
from nexusform.json_data.plain_data import get_text

# Operation groups of the SDK by type.
_OPERATION_GROUPS: Final = {CLUSTER: CLUSTERS, POOL: POOLS, VM: VMS, MACHINE: MACHINES, RACK: RACKS}
_DELETING: Final = "Deleting"  # provisioning state
_MAX_NAMES: Final = 4


def verify_absence(subscription: AzureSubscription, requests: Sequence[ReadRequest]) -> None:
    """Raise ProviderProblem if an unlisted object exists in Azure and is not in deletion. Objects without a known
    resource group count as removed.
    """
    arm = subscription.make_arm_client()

    def describe(request: ReadRequest) -> str:
        target = _find_target(request)
        if target is None:
            return ""  # it counts as removed
        reason = _find_reason_of_omission(arm, target, subscription.default_group)
        return f"{request.key.id} in resource group {target.group}, {reason}" if reason else ""

    with ThreadPoolExecutor(MAX_PARALLEL) as executor:
        descriptions = list(filter(None, executor.map(describe, requests)))
    if descriptions:
        raise ProviderProblem(
            f"Azure no longer lists {format_first_items(descriptions, _MAX_NAMES, separator='; ')}. nexusform does not "
            "take it as removed. If it was deleted, remove it from the state: nexusform state rm."
        )


def _find_target(request: ReadRequest) -> ArmTarget | None:
    """Find the Azure resource of a recorded object, None if it has none, or its resource group is unknown."""
    key = request.key
    group = get_text(request.private_note, GROUP_KEY) or get_text(request.attributes, "azure", "resource_group")
    if not group or key.type not in _OPERATION_GROUPS:
        return None
    names = key.id.split("/")
    return ArmTarget(_OPERATION_GROUPS[key.type], group, tuple(names[-2:] if key.type == POOL else names[-1:]))


def _find_reason_of_omission(arm: ArmClient, target: ArmTarget, listed_group: str) -> str:
    """Return why a resource may exist though not listed (`listed_group`: only this group was), "" if it does not."""
    from azure.core.exceptions import AzureError, HttpResponseError

    try:
        body = arm.get_body(target)
    except HttpResponseError as problem:
        return f"and does not allow to read it (status {problem.status_code}): a role assignment may be missing"
    except AzureError as problem:
        return f"and it cannot be read: {extract_first_line(problem)}"
    if body is None or read_provisioning_state(body) == _DELETING:
        return ""
    if listed_group and listed_group.lower() != target.group.lower():
        return f"but it exists: the provider lists only resource group {listed_group}"
    return "but it exists"
