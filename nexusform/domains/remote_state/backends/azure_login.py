"""How one signs in to Azure Storage: a key, a SAS token, or one of azure-identity's ways.

Names and precedence are those of OpenTofu's azurerm backend; what a setting leaves open comes from the
ARM_* variables, and in a GitHub job from its own OIDC endpoint.
"""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

from nexusform.backends.refusals import needing
from nexusform.domains.remote_state.backends.http_client import WebProblem, WebRequest, ask
from nexusform.regular_files import TooLarge, read_regular
from nexusform.state_ports import BackendProblem

_AUDIENCE: Final = "api://AzureADTokenExchange"
_SCOPE: Final = "https://storage.azure.com/.default"

NOBODY_SIGNED_IN: Final = (
    "nobody is signed in. Run `az login`, or set use_oidc, use_msi or client_secret, or give a key "
    "(ARM_ACCESS_KEY) or a SAS token (ARM_SAS_TOKEN)."
)
_MOST_TOKEN: Final = 1 << 20  # bytes


def blob_credential(settings: Mapping[str, Any], account: str) -> Any:
    """What azure-storage-blob takes as `credential`. Raises BackendProblem."""
    key = _setting(settings, "access_key", "ARM_ACCESS_KEY")
    if key:
        from azure.core.credentials import AzureNamedKeyCredential

        return AzureNamedKeyCredential(account, key)
    sas = _setting(settings, "sas_token", "ARM_SAS_TOKEN")
    if sas:
        from azure.core.credentials import AzureSasCredential

        return AzureSasCredential(sas.lstrip("?"))
    with needing("azurerm", "azure"):
        credential = _identity(settings)
    _try(credential)
    return credential


def _try(credential: Any) -> None:
    """Sign in once, so that a request is not repeated for want of it. Raises BackendProblem."""
    from azure.core.exceptions import AzureError

    try:
        credential.get_token(_SCOPE)
    except AzureError:
        raise BackendProblem(f"Azure Storage cannot be reached: {NOBODY_SIGNED_IN}") from None


def _identity(settings: Mapping[str, Any]) -> Any:
    """The identity that the settings name, else whoever is signed in."""
    from azure.identity import (
        AzureCliCredential,
        ClientAssertionCredential,
        ClientSecretCredential,
        DefaultAzureCredential,
        ManagedIdentityCredential,
    )

    client = _setting(settings, "client_id", "ARM_CLIENT_ID")
    tenant = _setting(settings, "tenant_id", "ARM_TENANT_ID")
    secret = _setting(settings, "client_secret", "ARM_CLIENT_SECRET")
    if _flag(settings, "use_oidc", "ARM_USE_OIDC"):
        _require(client, tenant, "use_oidc")
        return ClientAssertionCredential(tenant, client, lambda: _oidc_token(settings))
    if _flag(settings, "use_msi", "ARM_USE_MSI"):
        return ManagedIdentityCredential(client_id=client or None)
    if _flag(settings, "use_cli", "ARM_USE_CLI"):
        return AzureCliCredential(tenant_id=tenant)
    if secret:
        _require(client, tenant, "client_secret")
        return ClientSecretCredential(tenant, client, secret)
    # A managed identity is asked for by use_msi: looking for one where there is none takes a minute.
    return DefaultAzureCredential(
        exclude_managed_identity_credential=True, exclude_interactive_browser_credential=True
    )


def _require(client: str, tenant: str, what: str) -> None:
    missing = [name for name, value in (("client_id", client), ("tenant_id", tenant)) if not value]
    if missing:
        raise BackendProblem(f'The setting "{what}" needs {" and ".join(missing)} as well.')


def _oidc_token(settings: Mapping[str, Any]) -> str:
    """The token of this job: given, in a file, or asked for at the CI's own endpoint."""
    token = _setting(settings, "oidc_token", "ARM_OIDC_TOKEN")
    path = _setting(settings, "oidc_token_file_path", "ARM_OIDC_TOKEN_FILE_PATH")
    if token:
        return token
    if path:
        try:
            return read_regular(path, _MOST_TOKEN).decode().strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise BackendProblem(f'The OIDC token "{path}" cannot be read: {problem}.') from None
    url = os.environ.get("ACTIONS_ID_TOKEN_REQUEST_URL", "")
    bearer = os.environ.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "")
    if not url or not bearer:
        raise BackendProblem(
            "use_oidc needs oidc_token, oidc_token_file_path, or a GitHub job with the permission "
            "`id-token: write`."
        )
    return _token_from(url, bearer)


def _token_from(url: str, bearer: str) -> str:
    """The token that the CI's own endpoint gives. Raises BackendProblem."""
    address = f"{url}&audience={urllib.parse.quote(_AUDIENCE)}"
    refused = f"The OIDC token of this job could not be had from {url.partition('?')[0]}"
    headers = {"Authorization": f"Bearer {bearer}"}
    try:
        answer = ask(WebRequest("GET", address, headers=headers, largest=_MOST_TOKEN))
    except (WebProblem, TooLarge) as problem:
        raise BackendProblem(f"{refused}: {problem}.") from None
    if not answer.is_success:
        raise BackendProblem(f"{refused}: the server answered {answer.status}.")
    try:
        return str(json.loads(answer.content)["value"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise BackendProblem(f"{refused}: the answer holds no token.") from None


def _setting(settings: Mapping[str, Any], name: str, variable: str) -> str:
    return str(settings.get(name) or os.environ.get(variable, ""))


def _flag(settings: Mapping[str, Any], name: str, variable: str) -> bool:
    value = settings.get(name)
    if value is None:
        return os.environ.get(variable, "").lower() in ("1", "true")
    return value is True
