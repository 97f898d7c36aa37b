"""Names as machine-readable documents show them."""

from __future__ import annotations

from typing import Any, Final

from nexusform.address import Address, module_text
from nexusform.planning.plan import Action

# What readers of plan documents check before they go on.
TERRAFORM_VERSION: Final = "1.11.0"

ACTIONS: Final = {
    Action.NO_OP: ["no-op"],
    Action.CREATE: ["create"],
    Action.READ: ["read"],
    Action.UPDATE: ["update"],
    Action.DELETE: ["delete"],
    Action.REPLACE: ["delete", "create"],
    Action.REPLACE_CREATE_FIRST: ["create", "delete"],
    Action.FORGET: ["forget"],
}


def provider_name(key: str) -> str:
    """The full name of a provider: of `simulated` or `simulated.lab` `nexusform.dev/builtin/simulated`."""
    return key if "/" in key else f"nexusform.dev/builtin/{key.partition('.')[0] or 'simulated'}"


def address_keys(address: Address) -> dict[str, Any]:
    """mode, type, name and, where there is one, index."""
    keys: dict[str, Any] = {"mode": address.mode, "type": address.type, "name": address.name}
    if address.key is not None:
        keys["index"] = address.key
    return keys


def resource_keys(address: Address) -> dict[str, Any]:
    """An address as the event stream names it."""
    module = module_text(address.module)
    whole = str(address)
    return {
        "addr": whole,
        "module": module,
        "resource": whole[len(module) + 1 :] if module else whole,
        "implied_provider": address.type.partition("_")[0],
        "resource_type": address.type,
        "resource_name": address.name,
        "resource_key": address.key,
    }
