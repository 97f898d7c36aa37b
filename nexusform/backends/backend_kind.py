"""What a kind of backend says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from nexusform.backends.deadlines import Deadline
from nexusform.backends.guarded import guarded
from nexusform.backends.refusals import LARGEST
from nexusform.regular_files import FREE, Confinement
from nexusform.schema import Attribute, BlockSchema
from nexusform.state_ports import StateBackend
from nexusform.value_types import STRING, Type


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


def setting(kind: Type, description: str, *, sensitive: bool = False) -> Attribute:
    """A setting that may be left out."""
    return Attribute(kind, description, optional=True, sensitive=sensitive)


def needed(description: str) -> Attribute:
    """A text that must be there."""
    return Attribute(STRING, description, required=True)
