"""Azure Storage credentials: a key, a SAS token, or an identity (network/azure_identity.py)."""

from collections.abc import Mapping
from typing import Any, Final

from nexusform.backends.backend_definition import require_backend_package
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.network.azure_identity import (
    build_sign_in_transport,
    create_configured_identity,
    get_setting,
)

_SCOPE: Final = "https://storage.azure.com/.default"

NOT_SIGNED_IN: Final = (
    "not signed in. Run `az login`, or set use_oidc, use_msi, client_secret, a key "
    "(ARM_ACCESS_KEY) or a "
    "SAS token (ARM_SAS_TOKEN)."
)


def create_blob_credential(settings: Mapping[str, Any], account: str) -> Any:
    """Return the credential: a key, else a SAS token, else an identity.

    Raises BackendProblem.
    """
    key = get_setting(settings, "access_key", "ARM_ACCESS_KEY")
    if key:
        from azure.core.credentials import AzureNamedKeyCredential

        return AzureNamedKeyCredential(account, key)
    sas = get_setting(settings, "sas_token", "ARM_SAS_TOKEN")
    if sas:
        from azure.core.credentials import AzureSasCredential

        return AzureSasCredential(sas.lstrip("?"))
    with require_backend_package("azurerm"):
        from azure.identity import DefaultAzureCredential

        # Managed identities need use_msi: the search for a missing one takes a minute.
        credential = create_configured_identity(settings) or DefaultAzureCredential(
            exclude_managed_identity_credential=True,
            exclude_interactive_browser_credential=True,
            transport=build_sign_in_transport(),
        )
    # Request a token once, so that later requests do not fail for lack of a login.
    from azure.core.exceptions import AzureError

    try:
        credential.get_token(_SCOPE)
    except AzureError as problem:
        # No OIDC token.
        if isinstance(problem.__cause__, BackendProblem):
            raise problem.__cause__ from None
        raise BackendProblem(f"Cannot connect to Azure Storage: {NOT_SIGNED_IN}") from None
    return credential
