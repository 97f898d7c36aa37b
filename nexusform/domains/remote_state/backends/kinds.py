"""The kinds of remote backends, their settings named as in OpenTofu; what opens one is loaded then."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from nexusform.backends.backend_kind import BackendKind, Directories, needed, setting
from nexusform.schema import BlockSchema
from nexusform.state_ports import StateBackend
from nexusform.value_types import BOOL, STRING

_AZURERM: Final = BlockSchema(
    {
        "storage_account_name": needed("The storage account."),
        "container_name": needed("The blob container. It must exist."),
        "key": needed("The name of the state blob."),
        "endpoint": setting(
            STRING, "URL of the blob service. Default: https://ACCOUNT.blob.core.windows.net."
        ),
        "snapshot": setting(BOOL, "Keep earlier states as snapshots. Default: true."),
        "access_key": setting(STRING, "Key of the account. Default: ARM_ACCESS_KEY.", sensitive=True),
        "sas_token": setting(STRING, "SAS token. Default: ARM_SAS_TOKEN.", sensitive=True),
        "use_azuread_auth": setting(BOOL, "Sign in to Entra ID. Default: true without key and token."),
        "use_oidc": setting(BOOL, "Sign in with the CI job's OIDC token. Default: ARM_USE_OIDC."),
        "use_msi": setting(BOOL, "Sign in with the managed identity. Default: ARM_USE_MSI."),
        "use_cli": setting(BOOL, "Sign in with the account of `az login`. Default: ARM_USE_CLI."),
        "client_id": setting(STRING, "Application ID. Default: ARM_CLIENT_ID."),
        "tenant_id": setting(STRING, "Tenant ID. Default: ARM_TENANT_ID."),
        "client_secret": setting(STRING, "Application secret. Default: ARM_CLIENT_SECRET.", sensitive=True),
        "oidc_token": setting(STRING, "OIDC token. Default: ARM_OIDC_TOKEN.", sensitive=True),
        "oidc_token_file_path": setting(
            STRING, "File with an OIDC token. Default: ARM_OIDC_TOKEN_FILE_PATH."
        ),
    },
    description="State in an Azure storage blob, locked by a blob lease.",
)
_HTTP: Final = BlockSchema(
    {
        "address": needed("URL of the state. `{workspace}` is replaced by the workspace name."),
        "update_method": setting(STRING, "Method for writes. Default: POST."),
        "lock_address": setting(STRING, "URL to lock. Default: no locking."),
        "lock_method": setting(STRING, "Method to lock. Default: LOCK (GitLab: POST)."),
        "unlock_address": setting(STRING, "URL to unlock. Default: lock_address."),
        "unlock_method": setting(STRING, "Method to unlock. Default: UNLOCK (GitLab: DELETE)."),
        "username": setting(STRING, "User for basic authentication. Default: NF_HTTP_USERNAME."),
        "password": setting(
            STRING, "Password for basic authentication. Default: NF_HTTP_PASSWORD.", sensitive=True
        ),
        "skip_cert_verification": setting(BOOL, "Accept unverified certificates."),
    },
    description="State behind Terraform's HTTP protocol, such as GitLab's state store.",
)
_S3: Final = BlockSchema(
    {
        "bucket": needed("The bucket. It must exist."),
        "key": needed("The name of the state object."),
        "region": setting(STRING, "Region. Default: AWS_REGION, else the profile's region."),
        "endpoint": setting(STRING, "URL of another S3 service. It must support conditional writes."),
        "use_path_style": setting(BOOL, "Put the bucket in the path instead of the host name."),
        "workspace_key_prefix": setting(STRING, 'Prefix of other workspaces. Default: "env:".'),
        "profile": setting(STRING, "A profile of the AWS configuration."),
        "access_key": setting(STRING, "Access key. Default: AWS_ACCESS_KEY_ID."),
        "secret_key": setting(STRING, "Secret key. Default: AWS_SECRET_ACCESS_KEY.", sensitive=True),
        "token": setting(STRING, "Session token. Default: AWS_SESSION_TOKEN.", sensitive=True),
    },
    description="State in an object of an S3 bucket, locked by conditional writes.",
)
_POSTGRES: Final = BlockSchema(
    {
        "conn_str": setting(STRING, "Connection string or URL. Default: PG_CONN_STR.", sensitive=True),
        "schema_name": setting(STRING, 'Schema of the tables. Default: "nexusform".'),
        "skip_table_creation": setting(BOOL, "Do not create schema and tables."),
    },
    description="State in a PostgreSQL database, version 14 or newer, locked by an advisory lock.",
)


def _open_azurerm(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    from nexusform.domains.remote_state.backends.azurerm import open_azurerm

    return open_azurerm(settings, directories.largest)


def _open_http(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    from nexusform.domains.remote_state.backends.http import open_http

    return open_http(settings, directories.data_directory, directories.largest)


def _open_s3(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    from nexusform.domains.remote_state.backends.s3 import open_s3

    return open_s3(settings, directories.largest)


def _open_postgres(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    from nexusform.domains.remote_state.backends.postgres import open_postgres

    return open_postgres(settings, directories.largest)


def _azurerm_addresses(settings: Mapping[str, Any]) -> tuple[str, ...]:
    account = f"https://{settings.get('storage_account_name')}.blob.core.windows.net"
    service = str(settings.get("endpoint") or account).rstrip("/")
    return (f"{service}/{settings.get('container_name')}/{settings.get('key')}",)


def _http_addresses(settings: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("address", "lock_address", "unlock_address")
    return tuple(str(settings[name]) for name in names if name in settings)


def _s3_addresses(settings: Mapping[str, Any]) -> tuple[str, ...]:
    service = str(settings.get("endpoint") or "s3:/").rstrip("/")
    return (f"{service}/{settings.get('bucket')}/{settings.get('key')}",)


def _postgres_addresses(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The server alone: the rest of a connection string may be secrets."""
    text = str(settings.get("conn_str") or os.environ.get("PG_CONN_STR") or "")
    if "://" in text:
        host = re.split(r"[/?]", text.partition("://")[2])[0].rpartition("@")[2]
    else:
        said = dict(re.findall(r"\b(host|port)\s*=\s*'?([^\s']+)", text))
        host = ":".join(said[name] for name in ("host", "port") if name in said)
    return (f"postgres://{host}",) if host else ()


AZURERM: Final = BackendKind(
    _AZURERM,
    _open_azurerm,
    _azurerm_addresses,
    ("storage_account_name", "container_name", "key", "endpoint", "snapshot"),
)
HTTP: Final = BackendKind(
    _HTTP,
    _open_http,
    _http_addresses,
    ("address", "update_method", "lock_address", "lock_method", "unlock_address", "unlock_method"),
)
S3: Final = BackendKind(_S3, _open_s3, _s3_addresses, ("bucket", "key", "endpoint", "use_path_style"))
POSTGRES: Final = BackendKind(_POSTGRES, _open_postgres, _postgres_addresses)
