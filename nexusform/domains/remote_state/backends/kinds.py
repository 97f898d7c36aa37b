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
        "container_name": needed("The blob container; it must exist."),
        "key": needed("The name of the state blob."),
        "endpoint": setting(
            STRING, "The address of the blob service; https://ACCOUNT.blob.core.windows.net when absent."
        ),
        "snapshot": setting(BOOL, "Whether each earlier state is kept as a snapshot; true when absent."),
        "access_key": setting(STRING, "The account's key; ARM_ACCESS_KEY when absent.", sensitive=True),
        "sas_token": setting(STRING, "A SAS token; ARM_SAS_TOKEN when absent.", sensitive=True),
        "use_azuread_auth": setting(
            BOOL, "Sign in to Entra ID; so it is when there is neither key nor token."
        ),
        "use_oidc": setting(BOOL, "Sign in with the CI job's OIDC token; ARM_USE_OIDC when absent."),
        "use_msi": setting(BOOL, "Sign in with the managed identity; ARM_USE_MSI when absent."),
        "use_cli": setting(BOOL, "Sign in as `az login` did; ARM_USE_CLI when absent."),
        "client_id": setting(STRING, "The application's ID; ARM_CLIENT_ID when absent."),
        "tenant_id": setting(STRING, "The tenant's ID; ARM_TENANT_ID when absent."),
        "client_secret": setting(
            STRING, "The application's secret; ARM_CLIENT_SECRET when absent.", sensitive=True
        ),
        "oidc_token": setting(STRING, "An OIDC token; ARM_OIDC_TOKEN when absent.", sensitive=True),
        "oidc_token_file_path": setting(
            STRING, "A file with an OIDC token; ARM_OIDC_TOKEN_FILE_PATH when absent."
        ),
    },
    description="State in a blob of an Azure storage account, locked by its lease.",
)
_HTTP: Final = BlockSchema(
    {
        "address": needed(
            "Where the state is read and written; `{workspace}` stands for the workspace's name."
        ),
        "update_method": setting(STRING, "The method that writes; POST when absent."),
        "lock_address": setting(STRING, "Where the lock is taken; without it nothing is locked."),
        "lock_method": setting(STRING, "The method that locks; LOCK when absent (GitLab: POST)."),
        "unlock_address": setting(STRING, "Where the lock is given back; lock_address when absent."),
        "unlock_method": setting(STRING, "The method that unlocks; UNLOCK when absent (GitLab: DELETE)."),
        "username": setting(STRING, "For basic authentication; NF_HTTP_USERNAME when absent."),
        "password": setting(
            STRING, "For basic authentication; NF_HTTP_PASSWORD when absent.", sensitive=True
        ),
        "skip_cert_verification": setting(BOOL, "Whether a certificate that cannot be verified is accepted."),
    },
    description="State behind Terraform's HTTP protocol, GitLab's state store for one.",
)
_S3: Final = BlockSchema(
    {
        "bucket": needed("The bucket; it must exist."),
        "key": needed("The name of the state object."),
        "region": setting(STRING, "The region; AWS_REGION or the profile's when absent."),
        "endpoint": setting(STRING, "The address of another S3 service; it must honour conditional writes."),
        "use_path_style": setting(BOOL, "Whether the bucket stands in the path, not in the host name."),
        "workspace_key_prefix": setting(STRING, 'The prefix of other workspaces; "env:" when absent.'),
        "profile": setting(STRING, "A profile of the AWS configuration."),
        "access_key": setting(STRING, "The access key; AWS_ACCESS_KEY_ID when absent."),
        "secret_key": setting(STRING, "The secret key; AWS_SECRET_ACCESS_KEY when absent.", sensitive=True),
        "token": setting(STRING, "A session token; AWS_SESSION_TOKEN when absent.", sensitive=True),
    },
    description="State in an object of an S3 bucket, locked by conditional writes.",
)
_POSTGRES: Final = BlockSchema(
    {
        "conn_str": setting(STRING, "The connection string or URL; PG_CONN_STR when absent.", sensitive=True),
        "schema_name": setting(STRING, 'The schema of the tables; "nexusform" when absent.'),
        "skip_table_creation": setting(BOOL, "Whether schema and tables are there already."),
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
