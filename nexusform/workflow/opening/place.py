"""Where a command runs, and the configuration that stands there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declared.configuration import Configuration
from nexusform.configuration.declared.limits import Limits, limits_of
from nexusform.configuration.loader import load
from nexusform.diagnostics import Diagnostic
from nexusform.log import logged
from nexusform.regular_files import FREE, Confinement, read_regular
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile

DEFAULT_WORKSPACE: Final = "default"
ENCRYPTION_VARIABLE: Final = "NF_ENCRYPTION"  # what would stand inside an `encryption` block
_OFF: Final = ("0", "false")
NO_LIMITS: Final[Mapping[str, int]] = {}
_LONGEST_SELECTION: Final = 4096  # bytes


class Confining(StrEnum):
    """Who confined a run, or that somebody said that it is free."""

    NOBODY = "nobody"
    OPERATOR = "operator"  # -confine or NF_CONFINE
    AUTOMATION = "automation"  # NF_IN_AUTOMATION, where neither says otherwise
    PLAN = "plan"  # what is evaluated comes from a plan file that nobody vouched for
    SWITCHED_OFF = "switched off"  # -confine=false or NF_CONFINE=false


_WHY: Final[Mapping[Confining, str]] = {
    Confining.AUTOMATION: "NF_IN_AUTOMATION confines a run; -confine=false or NF_CONFINE=false lifts that",
    Confining.PLAN: (
        "a plan file is evaluated confined unless `apply -verify=key:FILE` knows its signature; "
        "-confine=false or NF_CONFINE=false lifts that"
    ),
}


class Place(Struct, frozen=True):
    """Where a command runs and what it is given from outside.

    `directory` is the root module's. `environment` are the process's variables. `state_path` is
    the flag -state ("" = as configured). `variables` are ("var" | "var-file", text) as given.
    `confinement` says what configuration may name, `allow_remote` which addresses (how they begin), and
    `confining` who said so.
    `take_ownership`: what others manage may be written.
    `backend_config` are the flags of that name, `limits` those of the operator (the most that
    a plan may stand for, by name). `unsaved` are
    texts that stand in an editor in place of files, by the files' real paths. `rescue` is the file for a
    state that the backend does not take ("": one beside the configuration).
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = "."
    state_path: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    confinement: Confinement = FREE
    confining: Confining = Confining.NOBODY
    allow_remote: tuple[str, ...] = ()
    backend_config: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    unsaved: Mapping[str, str] = field(default_factory=dict)
    take_ownership: bool = False
    rescue: str = ""

    def limits_over(self, configured: Mapping[str, int]) -> Limits:
        """The limits of a plan whose configuration says so much of them."""
        return limits_of(configured, self.limits, confined=bool(self.confinement.root))

    def largest_file(self, configured: Mapping[str, int] = NO_LIMITS) -> int:
        """The most bytes of a state, a journal or a plan file."""
        return self.limits_over(configured).file_bytes

    def seconds_to_plan(self, configured: Mapping[str, int]) -> int:
        """How long planning may take; 0 in a run that is not confined, unless the operator says otherwise."""
        if not self.confinement.root and "seconds" not in self.limits:
            return 0
        return self.limits_over(configured).seconds

    def allows(self, address: str) -> bool:
        """Whether configuration may name a remote address: in a confined run, one that is allowed."""
        return not self.confinement.root or any(_is_below(address, prefix) for prefix in self.allow_remote)

    def refusal_of(self, what: str) -> str:
        """Why a remote address of the configuration is not used."""
        return (
            f"{what} stands in the configuration, and -confine lets it name none but those that begin as "
            f"-allow-remote=URL-PREFIX or NF_ALLOW_REMOTE says.{self.why_confined}"
        )

    @property
    def why_confined(self) -> str:
        """A sentence for those who asked for no confinement, "" for others."""
        why = _WHY.get(self.confining, "")
        return f" ({why[0].upper()}{why[1:]}.)" if why else ""

    @property
    def confinement_of_directory(self) -> Confinement:
        """How far the directory itself is trusted, whatever is said of a plan file."""
        return FREE if self.confining is Confining.PLAN else self.confinement

    @property
    def remembers(self) -> bool:
        """Whether the data directory is the operator's: a confined run believes no work tree, unless it is
        a plan file alone that is not trusted.
        """
        return self.confining is Confining.PLAN or not self.confinement.holds(self.data_directory)

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


def both_allow(some: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """What addresses may begin with where each of two lists must allow them: the longer of two that agree."""
    narrower = {one for one in some if any(_is_below(one, other) for other in others)}
    narrower |= {other for other in others if any(_is_below(other, one) for one in some)}
    return tuple(sorted(narrower))


def confining_of(word: str, environment: Mapping[str, str]) -> Confining:
    """Who confines a run with this -confine or NF_CONFINE ("": neither was given)."""
    if word in _OFF:
        return Confining.SWITCHED_OFF
    if word:
        return Confining.OPERATOR
    return Confining.AUTOMATION if environment.get("NF_IN_AUTOMATION") else Confining.NOBODY


def confinement_of(word: str, environment: Mapping[str, str], directory: str = ".") -> Confinement:
    """What -confine or NF_CONFINE says: "false" is nothing, "true" the top of the work tree that holds the
    directory, anything else a directory; "" is "true" under NF_IN_AUTOMATION, else nothing. Raises
    ValueError, with what is wrong.
    """
    confining = confining_of(word, environment)
    if confining in (Confining.NOBODY, Confining.SWITCHED_OFF):
        return FREE
    word = word or "true"
    confinement = _confined_to(word, environment, directory)
    return replace(confinement, why=_WHY.get(confining, ""))


def confined_to_plan(place: Place) -> Place:
    """The same place for what a plan file says, which nobody vouched for. Raises ValueError."""
    confinement = _confined_to("true", place.environment, place.directory)
    confinement = replace(confinement, why=_WHY[Confining.PLAN])
    return replace(place, confinement=confinement, confining=Confining.PLAN)


def _confined_to(word: str, environment: Mapping[str, str], directory: str) -> Confinement:
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
        confining=confining_of(environment.get("NF_CONFINE", ""), environment),
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
