"""Azure Storage credentials: a key, a SAS token, or an identity of azure-identity. Names and precedence are those of
OpenTofu's azurerm backend. Defaults are the ARM_* variables, and in a GitHub job its own OIDC endpoint.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

from nexusform.backends.registry import require_backend_package
from nexusform.files.access_record import read_variable
from nexusform.files.regular_files import FileTooLarge, read_regular
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.network.deadlines import DeadlineRunner
from nexusform.network.http_client import WebRequest, send_request
from nexusform.network.read_limits import parse_json
from nexusform.network.web_errors import WebError

_AUDIENCE: Final = "api://AzureADTokenExchange"
_SCOPE: Final = "https://storage.azure.com/.default"

NOT_SIGNED_IN: Final = (
    "not signed in. Run `az login`, or set use_oidc, use_msi, client_secret, a key (ARM_ACCESS_KEY) or a "
    "SAS token (ARM_SAS_TOKEN)."
)
_MAX_TOKEN_BYTES: Final = 1 << 20  # bytes


def create_blob_credential(settings: Mapping[str, Any], account: str) -> Any:
    """Return the credential: a key, else a SAS token, else an identity. Raises BackendProblem."""
    key = _get_setting(settings, "access_key", "ARM_ACCESS_KEY")
    if key:
        from azure.core.credentials import AzureNamedKeyCredential

        return AzureNamedKeyCredential(account, key)
    sas = _get_setting(settings, "sas_token", "ARM_SAS_TOKEN")
    if sas:
        from azure.core.credentials import AzureSasCredential

        return AzureSasCredential(sas.lstrip("?"))
    with require_backend_package("azurerm", "azure"):
        credential = _create_identity(settings)
    # Request a token once, so that later requests do not fail for lack of a login.
    from azure.core.exceptions import AzureError

    try:
        credential.get_token(_SCOPE)
    except AzureError:
        raise BackendProblem(f"Cannot connect to Azure Storage: {NOT_SIGNED_IN}") from None
    return credential


def _create_identity(settings: Mapping[str, Any]) -> Any:
    """Return the identity of the settings, else the signed-in one."""
    from azure.identity import (
        AzureCliCredential,
        ClientAssertionCredential,
        ClientSecretCredential,
        DefaultAzureCredential,
        ManagedIdentityCredential,
    )

    client = _get_setting(settings, "client_id", "ARM_CLIENT_ID")
    tenant = _get_setting(settings, "tenant_id", "ARM_TENANT_ID")
    secret = _get_setting(settings, "client_secret", "ARM_CLIENT_SECRET")
    if _get_boolean_setting(settings, "use_oidc", "ARM_USE_OIDC"):
        _require_ids(client, tenant, "use_oidc")
        return ClientAssertionCredential(tenant, client, lambda: _read_oidc_token(settings))
    if _get_boolean_setting(settings, "use_msi", "ARM_USE_MSI"):
        return ManagedIdentityCredential(client_id=client or None)
    if _get_boolean_setting(settings, "use_cli", "ARM_USE_CLI"):
        return AzureCliCredential(tenant_id=tenant)
    if secret:
        _require_ids(client, tenant, "client_secret")
        return ClientSecretCredential(tenant, client, secret)
    # Managed identities need use_msi: the search for a missing one takes a minute.
    return DefaultAzureCredential(exclude_managed_identity_credential=True, exclude_interactive_browser_credential=True)


def _require_ids(client: str, tenant: str, setting_name: str) -> None:
    missing = [name for name, value in (("client_id", client), ("tenant_id", tenant)) if not value]
    if missing:
        raise BackendProblem(f'The setting "{setting_name}" also needs {" and ".join(missing)}.')


def _read_oidc_token(settings: Mapping[str, Any]) -> str:
    """Return the token of this job: configured, in a file, or from the CI's own endpoint. Raises BackendProblem."""
    token = _get_setting(settings, "oidc_token", "ARM_OIDC_TOKEN")
    path = _get_setting(settings, "oidc_token_file_path", "ARM_OIDC_TOKEN_FILE_PATH")
    if token:
        return token
    if path:
        try:
            return read_regular(path, _MAX_TOKEN_BYTES).decode().strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise BackendProblem(f'The OIDC token "{path}" cannot be read: {problem}.') from None
    url = read_variable("ACTIONS_ID_TOKEN_REQUEST_URL")
    bearer = read_variable("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
    if not url or not bearer:
        raise BackendProblem(
            "use_oidc needs oidc_token, oidc_token_file_path, or a GitHub job with the permission `id-token: write`."
        )
    return _request_token(url, bearer)


def _request_token(url: str, bearer: str) -> str:
    """Request the token from the CI's own endpoint. Raises BackendProblem."""
    address = f"{url}&audience={urllib.parse.quote(_AUDIENCE)}"
    message = f"Cannot get the OIDC token of this job from {url.partition('?')[0]}"
    headers = {"Authorization": f"Bearer {bearer}"}
    request = WebRequest("GET", address, headers=headers, max_bytes=_MAX_TOKEN_BYTES)
    try:
        answer = DeadlineRunner(lambda: url.partition("?")[0]).run("get the OIDC token", lambda: send_request(request))
    except (WebError, FileTooLarge) as problem:
        raise BackendProblem(f"{message}: {problem}.") from None
    if not answer.is_success:
        raise BackendProblem(f"{message}: the server answered {answer.status}.")
    try:
        token = parse_json(answer.content)["value"]
    except (ValueError, LookupError, TypeError):
        token = None  # reported below
    if not token or not isinstance(token, str):
        raise BackendProblem(f"{message}: the answer has no token.")
    return token


def _get_setting(settings: Mapping[str, Any], name: str, variable: str) -> str:
    return str(settings.get(name) or read_variable(variable))


def _get_boolean_setting(settings: Mapping[str, Any], name: str, variable: str) -> bool:
    """Return a setting, by default from a variable of the environment ("1" or "true")."""
    value = settings.get(name)
    if value is None:
        return read_variable(variable).lower() in ("1", "true")
    return value is True
