"""The kinds of backends, in the order in which they are listed. One line adds one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from nexusform.backends.deadlines import Deadline
from nexusform.backends.guarded import GuardedBackend, guarded
from nexusform.backends.local_file import LocalBackend
from nexusform.backends.memory import MemoryBackend
from nexusform.backends.refusals import LARGEST
from nexusform.ports import StateBackend
from nexusform.regular_files import FREE, Confinement
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import BOOL, STRING, Type

DEFAULT_PATH: Final = "state/nexusform.nfstate"


class Directories(Struct, frozen=True):
    """Where a run takes place.

    `directory` is the root module's; `data_directory` (NF_DATA_DIR) is for what a remote backend
    keeps on this machine. `confinement` is that of paths among the settings, `largest` the most bytes of a
    state or a journal that are read.
    """

    directory: str
    data_directory: str
    confinement: Confinement = FREE
    largest: int = LARGEST


class BackendKind(Struct, frozen=True):
    """One kind: the settings of its `backend` block, and how to make one from them.

    `make` takes the settings as plain data (absent: null) and raises BackendProblem. `addresses` are the URLs
    that settings lead to, and `naming` the settings that say no more than that: in a confined run a block
    may hold those, when all addresses are allowed, and no others. `is_remote`: a server is asked, so each
    operation has a deadline.
    """

    schema: BlockSchema
    make: Callable[[Mapping[str, Any], Directories], StateBackend]
    addresses: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _settings: ()
    naming: tuple[str, ...] = ()
    is_remote: bool = True

    def open(self, settings: Mapping[str, Any], directories: Directories) -> StateBackend:
        """The backend of these settings as all commands see it (see guarded). Raises BackendProblem."""
        if not self.is_remote:
            return guarded(self.make(settings, directories), is_remote=False)
        place = next(iter(self.addresses(settings)), "the server").split("?")[0]
        opening = Deadline(lambda: _without_login(place))
        return guarded(opening.within("sign in", lambda: self.make(settings, directories)), is_remote=True)


def _without_login(address: str) -> str:
    scheme, mark, rest = address.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


# --- settings; those of remote backends are named as in OpenTofu -----------------------------


def _setting(kind: Type, description: str, *, sensitive: bool = False) -> Attribute:
    return Attribute(kind, description, optional=True, sensitive=sensitive)


def _needed(description: str) -> Attribute:
    return Attribute(STRING, description, required=True)


_LOCAL: Final = BlockSchema(
    {
        "path": Attribute(
            STRING,
            f'The state file, relative to the root module\'s directory; "{DEFAULT_PATH}" when absent.',
            optional=True,
        ),
        "workspace_dir": Attribute(
            STRING,
            "The directory of other workspaces; the state file's path with `.d` when absent.",
            optional=True,
        ),
    },
    description="State in a file of this machine.",
)
_MEMORY: Final = BlockSchema({}, description="State in memory, gone when the command ends.")
_AZURERM: Final = BlockSchema(
    {
        "storage_account_name": _needed("The storage account."),
        "container_name": _needed("The blob container; it must exist."),
        "key": _needed("The name of the state blob."),
        "endpoint": _setting(
            STRING, "The address of the blob service; https://ACCOUNT.blob.core.windows.net when absent."
        ),
        "snapshot": _setting(BOOL, "Whether each earlier state is kept as a snapshot; true when absent."),
        "access_key": _setting(STRING, "The account's key; ARM_ACCESS_KEY when absent.", sensitive=True),
        "sas_token": _setting(STRING, "A SAS token; ARM_SAS_TOKEN when absent.", sensitive=True),
        "use_azuread_auth": _setting(
            BOOL, "Sign in to Entra ID; so it is when there is neither key nor token."
        ),
        "use_oidc": _setting(BOOL, "Sign in with the CI job's OIDC token; ARM_USE_OIDC when absent."),
        "use_msi": _setting(BOOL, "Sign in with the managed identity; ARM_USE_MSI when absent."),
        "use_cli": _setting(BOOL, "Sign in as `az login` did; ARM_USE_CLI when absent."),
        "client_id": _setting(STRING, "The application's ID; ARM_CLIENT_ID when absent."),
        "tenant_id": _setting(STRING, "The tenant's ID; ARM_TENANT_ID when absent."),
        "client_secret": _setting(
            STRING, "The application's secret; ARM_CLIENT_SECRET when absent.", sensitive=True
        ),
        "oidc_token": _setting(STRING, "An OIDC token; ARM_OIDC_TOKEN when absent.", sensitive=True),
        "oidc_token_file_path": _setting(
            STRING, "A file with an OIDC token; ARM_OIDC_TOKEN_FILE_PATH when absent."
        ),
    },
    description="State in a blob of an Azure storage account, locked by its lease.",
)
_HTTP: Final = BlockSchema(
    {
        "address": _needed(
            "Where the state is read and written; `{workspace}` stands for the workspace's name."
        ),
        "update_method": _setting(STRING, "The method that writes; POST when absent."),
        "lock_address": _setting(STRING, "Where the lock is taken; without it nothing is locked."),
        "lock_method": _setting(STRING, "The method that locks; LOCK when absent (GitLab: POST)."),
        "unlock_address": _setting(STRING, "Where the lock is given back; lock_address when absent."),
        "unlock_method": _setting(STRING, "The method that unlocks; UNLOCK when absent (GitLab: DELETE)."),
        "username": _setting(STRING, "For basic authentication; NF_HTTP_USERNAME when absent."),
        "password": _setting(
            STRING, "For basic authentication; NF_HTTP_PASSWORD when absent.", sensitive=True
        ),
        "skip_cert_verification": _setting(
            BOOL, "Whether a certificate that cannot be verified is accepted."
        ),
    },
    description="State behind Terraform's HTTP protocol, GitLab's state store for one.",
)
_S3: Final = BlockSchema(
    {
        "bucket": _needed("The bucket; it must exist."),
        "key": _needed("The name of the state object."),
        "region": _setting(STRING, "The region; AWS_REGION or the profile's when absent."),
        "endpoint": _setting(STRING, "The address of another S3 service; it must honour conditional writes."),
        "use_path_style": _setting(BOOL, "Whether the bucket stands in the path, not in the host name."),
        "workspace_key_prefix": _setting(STRING, 'The prefix of other workspaces; "env:" when absent.'),
        "profile": _setting(STRING, "A profile of the AWS configuration."),
        "access_key": _setting(STRING, "The access key; AWS_ACCESS_KEY_ID when absent."),
        "secret_key": _setting(STRING, "The secret key; AWS_SECRET_ACCESS_KEY when absent.", sensitive=True),
        "token": _setting(STRING, "A session token; AWS_SESSION_TOKEN when absent.", sensitive=True),
    },
    description="State in an object of an S3 bucket, locked by conditional writes.",
)
_POSTGRES: Final = BlockSchema(
    {
        "conn_str": _setting(
            STRING, "The connection string or URL; PG_CONN_STR when absent.", sensitive=True
        ),
        "schema_name": _setting(STRING, 'The schema of the tables; "nexusform" when absent.'),
        "skip_table_creation": _setting(BOOL, "Whether schema and tables are there already."),
    },
    description="State in a PostgreSQL database, version 14 or newer, locked by an advisory lock.",
)


# --- opening; remote backends are imported where they are used -------------------------------


def _open_local(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    root = Path(directories.directory)
    workspaces = settings.get("workspace_dir")
    return LocalBackend(
        str(root / (settings.get("path") or DEFAULT_PATH)),
        str(root / workspaces) if workspaces else "",
        confinement=directories.confinement,
        largest=directories.largest,
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


BACKENDS: Final[Mapping[str, BackendKind]] = {
    "local": BackendKind(_LOCAL, _open_local, is_remote=False),
    "memory": BackendKind(_MEMORY, lambda _settings, _directories: MemoryBackend(), is_remote=False),
    "azurerm": BackendKind(
        _AZURERM,
        _open_azurerm,
        _azurerm_addresses,
        ("storage_account_name", "container_name", "key", "endpoint", "snapshot"),
    ),
    "http": BackendKind(
        _HTTP,
        _open_http,
        _http_addresses,
        ("address", "update_method", "lock_address", "lock_method", "unlock_address", "unlock_method"),
    ),
    "s3": BackendKind(_S3, _open_s3, _s3_addresses, ("bucket", "key", "endpoint", "use_path_style")),
    "postgres": BackendKind(_POSTGRES, _open_postgres),
}


def is_local(backend: StateBackend) -> bool:
    """Whether the state is in a file of this machine."""
    return isinstance(backend, GuardedBackend) and isinstance(backend.inner, LocalBackend)
