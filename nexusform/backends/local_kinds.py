"""The kinds of backends that ask no server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from nexusform.backends.backend_kind import BackendKind, Directories
from nexusform.backends.local_file import LocalBackend
from nexusform.schema import Attribute, BlockSchema
from nexusform.state_ports import StateBackend
from nexusform.value_types import STRING

DEFAULT_PATH: Final = "state/nexusform.nfstate"

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


def _open_local(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    root = Path(directories.directory)
    workspaces = settings.get("workspace_dir")
    return LocalBackend(
        str(root / (settings.get("path") or DEFAULT_PATH)),
        str(root / workspaces) if workspaces else "",
        confinement=directories.confinement,
        largest=directories.largest,
    )


def _open_memory(_settings: Mapping[str, Any], _directories: Directories) -> StateBackend:
    from nexusform.backends.memory import MemoryBackend

    return MemoryBackend()


LOCAL: Final = BackendKind(_LOCAL, _open_local, is_remote=False)
MEMORY: Final = BackendKind(_MEMORY, _open_memory, is_remote=False)
