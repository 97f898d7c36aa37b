"""Where a command runs, and the configuration that stands there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from nexusform.configuration.configuration import Configuration
from nexusform.configuration.limits import Limits, limits_of
from nexusform.configuration.loader import load
from nexusform.diagnostics import Diagnostic
from nexusform.log import logged
from nexusform.regular_files import FREE, Confinement, read_regular
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile

DEFAULT_WORKSPACE: Final = "default"
NO_LIMITS: Final[Mapping[str, int]] = {}
_LONGEST_SELECTION: Final = 4096  # bytes


class Place(Struct, frozen=True):
    """Where a command runs and what it is given from outside.

    `directory` is the root module's. `environment` are the process's variables. `state_path` is
    the flag -state ("" = as configured). `variables` are ("var" | "var-file", text) as given.
    `confinement` says what configuration may name, `allow_remote` which addresses (how they begin).
    `backend_config` are the flags of that name, `limits` those of the operator (the most that
    a plan may stand for, by name). `unsaved` are
    texts that stand in an editor in place of files, by the files' real paths.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = "."
    state_path: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    confinement: Confinement = FREE
    allow_remote: tuple[str, ...] = ()
    backend_config: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    unsaved: Mapping[str, str] = field(default_factory=dict)

    def limits_over(self, configured: Mapping[str, int]) -> Limits:
        """The limits of a plan whose configuration says so much of them."""
        return limits_of(configured, self.limits, confined=bool(self.confinement.root))

    def largest_file(self, configured: Mapping[str, int] = NO_LIMITS) -> int:
        """The most bytes of a state, a journal or a plan file."""
        return self.limits_over(configured).file_bytes

    def allows(self, address: str) -> bool:
        """Whether configuration may name a remote address: in a confined run, one that is allowed."""
        return not self.confinement.root or any(_is_below(address, prefix) for prefix in self.allow_remote)

    def refusal_of(self, what: str) -> str:
        """Why a remote address of the configuration is not used."""
        return (
            f"{what} stands in the configuration, and -confine lets it name none but those that begin as "
            "-allow-remote=URL-PREFIX or NF_ALLOW_REMOTE says."
        )

    @property
    def remembers(self) -> bool:
        """Whether the data directory is the operator's: a confined run believes no work tree."""
        return not self.confinement.holds(self.data_directory)

    @property
    def data_directory(self) -> str:
        """NF_DATA_DIR, where what this machine remembers between commands is kept."""
        return str(Path(self.directory) / (self.environment.get("NF_DATA_DIR") or ".nexusform"))

    @property
    def workspace(self) -> str:
        """The workspace that NF_WORKSPACE or the last `workspace select` names."""
        named = self.environment.get("NF_WORKSPACE", "")
        if named or not self.remembers:
            return named or DEFAULT_WORKSPACE
        try:
            selected = read_regular(selection_file(self), _LONGEST_SELECTION, follow=False)
            return selected.decode().strip() or DEFAULT_WORKSPACE
        except (OSError, UnicodeDecodeError):
            return DEFAULT_WORKSPACE


def _is_below(address: str, prefix: str) -> bool:
    """Whether a URL is at a prefix or below it, part by part: `https://a/b` is not a prefix of `https://a/bc`."""
    try:
        one, other = urlsplit(address), urlsplit(prefix)
        if (one.scheme, one.hostname, one.port) != (other.scheme, other.hostname, other.port):
            return False
    except ValueError:
        return False
    path, above = unquote(one.path), other.path.rstrip("/")
    odd = "@" in one.netloc or "\\" in address or ".." in path.split("/")
    return bool(other.hostname) and not odd and (path == above or path.startswith(f"{above}/"))


def confinement_of(word: str, environment: Mapping[str, str], directory: str = ".") -> Confinement:
    """What -confine or NF_CONFINE says: "" or "false" is nothing, "true" the top of the work tree that holds
    the directory, anything else a directory. Raises ValueError, with what is wrong.
    """
    if word in ("", "0", "false"):
        return FREE
    root = _top_of_work_tree(directory) if word in ("1", "true") else os.path.realpath(word)
    if not Path(root).is_dir():
        raise ValueError(f'-confine: there is no directory "{word}".')
    data_directory = Place(environment, directory).data_directory
    try:
        hidden = Confinement(root).followed(data_directory)
    except OSError:
        raise ValueError(f'-confine: "{data_directory}" leads out of "{root}". Remove that link.') from None
    return Confinement(root, (os.path.realpath(hidden),))


def place_in(
    directory: str, environment: Mapping[str, str], unsaved: Mapping[str, str] | None = None
) -> Place:
    """A directory that an editor has open: confined as the environment says, since nobody gives it flags. A
    confinement that cannot be is the narrowest.
    """
    try:
        confinement = confinement_of(environment.get("NF_CONFINE", ""), environment, directory)
    except ValueError:
        confinement = Confinement(os.path.realpath(directory))
    return Place(
        environment=environment,
        directory=directory,
        unsaved=unsaved or {},
        confinement=confinement,
        allow_remote=tuple(environment.get("NF_ALLOW_REMOTE", "").split()),
    )


def _top_of_work_tree(directory: str) -> str:
    """The directory at or above this one with `.git` in it; this one when there is none."""
    here = Path(os.path.realpath(directory))
    return str(next((above for above in (here, *here.parents) if os.path.lexists(above / ".git")), here))


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
            confinement=place.confinement,
            unsaved=place.unsaved,
        )
