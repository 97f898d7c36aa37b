"""Where a command runs, and the configuration that stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from nexusform.configuration.configuration import Configuration
from nexusform.configuration.loader import load
from nexusform.diagnostics import Diagnostic
from nexusform.log import logged
from nexusform.regular_files import read_regular
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile

DEFAULT_WORKSPACE: Final = "default"
_LONGEST_SELECTION: Final = 4096  # bytes


class Place(Struct, frozen=True):
    """Where a command runs and what it is given from outside.

    `directory` is the root module's. `environment` are the process's variables. `state_path` is
    the flag -state ("" = as configured). `variables` are ("var" | "var-file", text) as given.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = "."
    state_path: str = ""
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def data_directory(self) -> str:
        """NF_DATA_DIR, where what this machine remembers between commands is kept."""
        return str(Path(self.directory) / (self.environment.get("NF_DATA_DIR") or ".nexusform"))

    @property
    def workspace(self) -> str:
        """The workspace that NF_WORKSPACE or the last `workspace select` names."""
        named = self.environment.get("NF_WORKSPACE", "")
        if named:
            return named
        try:
            selected = read_regular(selection_file(self), _LONGEST_SELECTION, follow=False)
            return selected.decode().strip() or DEFAULT_WORKSPACE
        except (OSError, UnicodeDecodeError):
            return DEFAULT_WORKSPACE


def cache_directory(environment: Mapping[str, str]) -> str | None:
    """Where parsed files are kept: NF_CACHE_DIR, else the user's cache directory; None in automation.

    Never in the work tree: what it holds is believed instead of the text that is under review.
    """
    if environment.get("NF_IN_AUTOMATION"):
        return None
    if environment.get("NF_CACHE_DIR"):
        return environment["NF_CACHE_DIR"]
    homes = (("XDG_CACHE_HOME", ""), ("LOCALAPPDATA", ""), ("HOME", ".cache"))
    for variable, below in homes:
        home = Path(environment.get(variable) or "")
        if home.is_absolute():
            return str(home / below / "nexusform")
    return None


def selection_file(place: Place) -> Path:
    """The file that remembers the selected workspace."""
    return Path(place.data_directory) / "environment"


def load_configuration(
    place: Place, extra: Sequence[SourceFile] = ()
) -> tuple[Configuration | None, list[Diagnostic]]:
    """Read and check the configuration of the place's directory, with further texts of its root."""
    known = registries()
    with logged("info", "configuration read", directory=place.directory):
        return load(
            place.directory,
            cache_directory=cache_directory(place.environment),
            managed=known.schemas["managed"],
            data=known.schemas["data"],
            extra=extra,
        )
