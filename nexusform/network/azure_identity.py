"""Identity of Azure by settings or ARM_* variables.

Names and precedence are those of OpenTofu's azurerm backend. In a GitHub job the identity is by its
own OIDC endpoint.
"""

import os
import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

from nexusform.files.access_record import read_variable
from nexusform.files.regular_files import FileTooLarge, read_regular
from nexusform.files.sandbox import declare_server
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.network.deadlines import DeadlineRunner
from nexusform.network.http_client import WebRequest, send_request
from nexusform.network.read_limits import parse_json
from nexusform.network.web_errors import WebError

_AUDIENCE: Final = "api://AzureADTokenExchange"

_MAX_TOKEN_BYTES: Final = 1 << 20  # bytes
# The second one is that of the machine's own identity.
_SIGN_IN_SERVERS: Final = ("https://login.microsoftonline.com", "http://169.254.169.254")
# Addresses of the sign-in, read by azure-identity.
_SIGN_IN_VARIABLES: Final = (
    "AZURE_AUTHORITY_HOST",
    "AZURE_POD_IDENTITY_AUTHORITY_HOST",
    "IDENTITY_ENDPOINT",
    "IMDS_ENDPOINT",
    "MSI_ENDPOINT",
    "ACTIONS_ID_TOKEN_REQUEST_URL",
    "SYSTEM_OIDCREQUESTURI",
)


def create_configured_identity(settings: Mapping[str, Any]) -> Any | None:
    """Return the identity of the settings or else of the ARM_* variables.

    Return None if neither configures one. Raises BackendProblem for missing settings, and
    ImportError without azure-identity. Its get_token raises AzureError; if the OIDC token is
    missing, the cause of this error is a BackendProblem.
    """
    declare_sign_in_servers()
    from azure.core.exceptions import ClientAuthenticationError
    from azure.identity import (
        AzureCliCredential,
        ClientAssertionCredential,
        ClientSecretCredential,
        ManagedIdentityCredential,
    )

    client = get_setting(settings, "client_id", "ARM_CLIENT_ID")
    tenant = get_setting(settings, "tenant_id", "ARM_TENANT_ID")
    secret = get_setting(settings, "client_secret", "ARM_CLIENT_SECRET")
    if _get_boolean_setting(settings, "use_oidc", "ARM_USE_OIDC"):
        _require_ids(client, tenant, "use_oidc")

        def read_token() -> str:
            try:
                return _read_oidc_token(settings)
            except BackendProblem as problem:
                raise ClientAuthenticationError(str(problem)) from problem

        return ClientAssertionCredential(
            tenant, client, read_token, transport=build_sign_in_transport()
        )
    if _get_boolean_setting(settings, "use_msi", "ARM_USE_MSI"):
        return ManagedIdentityCredential(
            client_id=client or None, transport=build_sign_in_transport()
        )
    if _get_boolean_setting(settings, "use_cli", "ARM_USE_CLI"):
        return AzureCliCredential(tenant_id=tenant)
    if secret:
        _require_ids(client, tenant, "client_secret")
        return ClientSecretCredential(tenant, client, secret, transport=build_sign_in_transport())
    return None


def build_sign_in_transport() -> Any:
    """Build the transport of a credential, without the logins of ~/.netrc.

    `requests` adds these to each request, in place of its own Authorization header.
    """
    from azure.core.pipeline.transport import RequestsTransport
    from requests import Session

    session = Session()
    # With an `auth` of its own, the session does not read ~/.netrc. Proxies still apply.
    session.auth = lambda request: request
    return RequestsTransport(session=session)


def declare_sign_in_servers() -> None:
    """Allow a sandboxed run to use the servers of the sign-in.

    They are those of Azure and of this machine, and those in the operator's variables.
    """
    for address in _SIGN_IN_SERVERS:
        declare_server(address)
    for name in _SIGN_IN_VARIABLES:
        address = os.environ.get(name, "")
        if address:
            declare_server(address if "://" in address else f"https://{address}")
    region = os.environ.get("AZURE_REGIONAL_AUTHORITY_NAME", "")
    if region:
        declare_server(f"https://{region}.login.microsoft.com")


def _require_ids(client: str, tenant: str, setting_name: str) -> None:
    """Raise BackendProblem if an id is empty, because the setting `setting_name` needs both."""
    missing = [name for name, value in (("client_id", client), ("tenant_id", tenant)) if not value]
    if missing:
        raise BackendProblem(f'The setting "{setting_name}" also needs {" and ".join(missing)}.')


def _read_oidc_token(settings: Mapping[str, Any]) -> str:
    """Return the token of this job: configured, in a file, or from the CI's own endpoint.

    Raises BackendProblem.
    """
    token = get_setting(settings, "oidc_token", "ARM_OIDC_TOKEN")
    path = get_setting(settings, "oidc_token_file_path", "ARM_OIDC_TOKEN_FILE_PATH")
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
        sources = (
            "oidc_token, oidc_token_file_path, or a GitHub job with the permission `id-token: "
            "write`"
        )
        raise BackendProblem(f"use_oidc needs {sources}.")
    return _request_token(url, bearer)


def _request_token(url: str, bearer: str) -> str:
    """Request the token from the CI's own endpoint.

    Raises BackendProblem.
    """
    address = f"{url}&audience={urllib.parse.quote(_AUDIENCE)}"
    message = f"Cannot get the OIDC token of this job from {url.partition('?')[0]}"
    headers = {"Authorization": f"Bearer {bearer}"}
    request = WebRequest("GET", address, headers=headers, max_bytes=_MAX_TOKEN_BYTES)
    try:
        answer = DeadlineRunner(lambda: url.partition("?")[0]).run(
            "get the OIDC token", lambda: send_request(request)
        )
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


def get_setting(settings: Mapping[str, Any], name: str, variable: str) -> str:
    """Return a setting, or else the value of its variable; "" without both."""
    return str(settings.get(name) or read_variable(variable))


def _get_boolean_setting(settings: Mapping[str, Any], name: str, variable: str) -> bool:
    """Return a setting, by default from a variable of the environment ("1" or "true")."""
    value = settings.get(name)
    if value is None:
        return read_variable(variable).lower() in ("1", "true")
    return value is True
