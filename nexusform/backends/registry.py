"""The kinds of backends, in the order in which they are listed. One line adds one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from nexusform.backends import remote_settings
from nexusform.backends.local_file import LocalBackend
from nexusform.backends.memory import MemoryBackend
from nexusform.ports import StateBackend
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import STRING

DEFAULT_PATH: Final = "state/nexusform.nfstate"


class Directories(Struct, frozen=True):
    """Where a run takes place.

    `directory` is the root module's; `data_directory` (NF_DATA_DIR) is for what a remote backend
    keeps on this machine.
    """

    directory: str
    data_directory: str


class BackendKind(Struct, frozen=True):
    """One kind: the settings of its `backend` block, and how to make one from them.

    `open` takes the settings as plain data (absent: null) and raises BackendProblem.
    """

    schema: BlockSchema
    open: Callable[[Mapping[str, Any], Directories], StateBackend]


def _open_local(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    root = Path(directories.directory)
    workspaces = settings.get("workspace_dir")
    return LocalBackend(
        str(root / (settings.get("path") or DEFAULT_PATH)), str(root / workspaces) if workspaces else ""
    )


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


def _open_azurerm(settings: Mapping[str, Any], _directories: Directories) -> StateBackend:
    from nexusform.backends.azurerm import open_azurerm

    return open_azurerm(settings)


def _open_http(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    from nexusform.backends.http import open_http

    return open_http(settings, directories.data_directory)


def _open_s3(settings: Mapping[str, Any], _directories: Directories) -> StateBackend:
    from nexusform.backends.s3 import open_s3

    return open_s3(settings)


def _open_postgres(settings: Mapping[str, Any], _directories: Directories) -> StateBackend:
    from nexusform.backends.postgres import open_postgres

    return open_postgres(settings)


BACKENDS: Final[Mapping[str, BackendKind]] = {
    "local": BackendKind(_LOCAL, _open_local),
    "memory": BackendKind(_MEMORY, lambda _settings, _directories: MemoryBackend()),
    "azurerm": BackendKind(remote_settings.AZURERM, _open_azurerm),
    "http": BackendKind(remote_settings.HTTP, _open_http),
    "s3": BackendKind(remote_settings.S3, _open_s3),
    "postgres": BackendKind(remote_settings.POSTGRES, _open_postgres),
}
