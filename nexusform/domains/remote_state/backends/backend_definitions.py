"""Kinds of remote backends with their settings, named as in OpenTofu.

Implementations are loaded on use.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from nexusform.backends.backend_definition import (
    BackendDefinition,
    Directories,
    build_required_setting,
    build_setting,
)
from nexusform.files.access_record import read_variable
from nexusform.interfaces.state_storage import StateBackend
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import BOOL, STRING

_AZURERM: Final = BlockSchema(
    {
        "storage_account_name": build_required_setting("The storage account."),
        "container_name": build_required_setting("The blob container. It must exist."),
        "key": build_required_setting("The name of the state blob."),
        "endpoint": build_setting(
            STRING, "URL of the blob service. Default: https://ACCOUNT.blob.core.windows.net."
        ),
        "snapshot": build_setting(BOOL, "Keep earlier states as snapshots. Default: true."),
        "access_key": build_setting(
            STRING, "Key of the account. Default: ARM_ACCESS_KEY.", is_sensitive=True
        ),
        "sas_token": build_setting(STRING, "SAS token. Default: ARM_SAS_TOKEN.", is_sensitive=True),
        "use_azuread_auth": build_setting(
            BOOL, "Sign in to Entra ID. Default: true without key and token."
        ),
        "use_oidc": build_setting(
            BOOL, "Sign in with the CI job's OIDC token. Default: ARM_USE_OIDC."
        ),
        "use_msi": build_setting(BOOL, "Sign in with the managed identity. Default: ARM_USE_MSI."),
        "use_cli": build_setting(
            BOOL, "Sign in with the account of `az login`. Default: ARM_USE_CLI."
        ),
        "client_id": build_setting(STRING, "Application ID. Default: ARM_CLIENT_ID."),
        "tenant_id": build_setting(STRING, "Tenant ID. Default: ARM_TENANT_ID."),
        "client_secret": build_setting(
            STRING, "Application secret. Default: ARM_CLIENT_SECRET.", is_sensitive=True
        ),
        "oidc_token": build_setting(
            STRING, "OIDC token. Default: ARM_OIDC_TOKEN.", is_sensitive=True
        ),
        "oidc_token_file_path": build_setting(
            STRING, "File with an OIDC token. Default: ARM_OIDC_TOKEN_FILE_PATH."
        ),
    },
    description="State in an Azure storage blob, locked by a blob lease.",
)
_HTTP: Final = BlockSchema(
    {
        "address": build_required_setting(
            "URL of the state. `{workspace}` is replaced by the workspace name."
        ),
        "update_method": build_setting(STRING, "Method for writes. Default: POST."),
        "lock_address": build_setting(STRING, "URL to lock. Default: no locking."),
        "lock_method": build_setting(STRING, "Method to lock. Default: LOCK (GitLab: POST)."),
        "unlock_address": build_setting(STRING, "URL to unlock. Default: lock_address."),
        "unlock_method": build_setting(
            STRING, "Method to unlock. Default: UNLOCK (GitLab: DELETE)."
        ),
        "username": build_setting(
            STRING, "User for basic authentication. Default: NF_HTTP_USERNAME."
        ),
        "password": build_setting(
            STRING,
            "Password for basic authentication. Default: NF_HTTP_PASSWORD.",
            is_sensitive=True,
        ),
        "skip_cert_verification": build_setting(BOOL, "Accept unverified certificates."),
    },
    description="State behind Terraform's HTTP protocol, such as GitLab's state store.",
)
_S3: Final = BlockSchema(
    {
        "bucket": build_required_setting("The bucket. It must exist."),
        "key": build_required_setting("The name of the state object."),
        "region": build_setting(STRING, "Region. Default: AWS_REGION, else the profile's region."),
        "endpoint": build_setting(
            STRING, "URL of another S3 service. It must support conditional writes."
        ),
        "use_path_style": build_setting(
            BOOL, "Put the bucket in the path instead of the host name."
        ),
        "workspace_key_prefix": build_setting(
            STRING, 'Prefix of other workspaces. Default: "env:".'
        ),
        "profile": build_setting(STRING, "A profile of the AWS configuration."),
        "access_key": build_setting(STRING, "Access key. Default: AWS_ACCESS_KEY_ID."),
        "secret_key": build_setting(
            STRING, "Secret key. Default: AWS_SECRET_ACCESS_KEY.", is_sensitive=True
        ),
        "token": build_setting(
            STRING, "Session token. Default: AWS_SESSION_TOKEN.", is_sensitive=True
        ),
    },
    description="State in an object of an S3 bucket, locked by conditional writes.",
)
_POSTGRES: Final = BlockSchema(
    {
        "conn_str": build_setting(
            STRING, "Connection string or URL. Default: PG_CONN_STR.", is_sensitive=True
        ),
        "schema_name": build_setting(STRING, 'Schema of the tables. Default: "nexusform".'),
        "skip_table_creation": build_setting(BOOL, "Do not create schema and tables."),
    },
    description="State in a PostgreSQL database, version 14 or newer, locked by an advisory lock.",
)


def _open_azurerm(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    from nexusform.domains.remote_state.backends.azurerm import open_azurerm

    return open_azurerm(settings, directories.maximum_size)


def _open_http(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    from nexusform.domains.remote_state.backends.http import open_http

    return open_http(settings, directories.data_directory, directories.maximum_size)


def _open_s3(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    from nexusform.domains.remote_state.backends.s3 import open_s3

    return open_s3(settings, directories.maximum_size)


def _open_postgres(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    from nexusform.domains.remote_state.backends.postgres import open_postgres

    return open_postgres(settings, directories.maximum_size)


def _list_azurerm_addresses(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the URL of the blob with the state."""
    account = f"https://{settings.get('storage_account_name')}.blob.core.windows.net"
    service = str(settings.get("endpoint") or account).rstrip("/")
    return (f"{service}/{settings.get('container_name')}/{settings.get('key')}",)


def _list_http_addresses(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the configured URLs of the state and its lock."""
    names = ("address", "lock_address", "unlock_address")
    return tuple(str(settings[name]) for name in names if name in settings)


def _list_s3_urls(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the URL of the object with the state."""
    # The default gives s3://BUCKET/KEY.
    service = str(settings.get("endpoint") or "s3:/").rstrip("/")
    return (f"{service}/{settings.get('bucket')}/{settings.get('key')}",)


def _list_postgres_urls(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the server alone, () if none is named.

    The rest of a connection string may contain secrets. `postgres://user:secret@db1:5432/name` and
    `host=db1 port=5432 password=secret` both give `postgres://db1:5432`.
    """
    text = str(settings.get("conn_str") or read_variable("PG_CONN_STR") or "")
    if "://" in text:
        after_scheme = text.partition("://")[2]
        login_and_host = re.split(r"[/?]", after_scheme)[0]
        host = login_and_host.rpartition("@")[2]
    else:
        parameters = dict(re.findall(r"\b(host|port)\s*=\s*'?([^\s']+)", text))
        host = ":".join(parameters[name] for name in ("host", "port") if name in parameters)
    return (f"postgres://{host}",) if host else ()


AZURERM: Final = BackendDefinition(
    _AZURERM,
    _open_azurerm,
    _list_azurerm_addresses,
    ("storage_account_name", "container_name", "key", "endpoint", "snapshot"),
)
HTTP: Final = BackendDefinition(
    _HTTP,
    _open_http,
    _list_http_addresses,
    ("address", "update_method", "lock_address", "lock_method", "unlock_address", "unlock_method"),
    unverified_setting="skip_cert_verification",
)
S3: Final = BackendDefinition(
    _S3, _open_s3, _list_s3_urls, ("bucket", "key", "endpoint", "use_path_style")
)
POSTGRES: Final = BackendDefinition(_POSTGRES, _open_postgres, _list_postgres_urls)
