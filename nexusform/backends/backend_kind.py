"""Kinds of backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from nexusform.backends.backend_checks import MAXIMUM_SIZE
from nexusform.backends.guarded_backend import guard_backend
from nexusform.files.regular_files import UNCONFINED, Confinement
from nexusform.interfaces.state_storage import StateBackend
from nexusform.network.deadlines import Deadline
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import STRING, Type


class Directories(Struct, frozen=True):
    """Directories and limits of a run. `directory` is the root module's; `data_directory` (NF_DATA_DIR) holds
    the local files of a remote backend. `confinement` is that of paths in settings, `maximum_size` the
    maximum bytes of a state or journal to read.
    """

    directory: str
    data_directory: str
    confinement: Confinement = UNCONFINED
    maximum_size: int = MAXIMUM_SIZE


class BackendKind(Struct, frozen=True):
    """Kind of backend: the settings of its `backend` block, and its factory. `make` takes the settings as
    plain data (absent: null) and raises BackendProblem. `list_addresses` returns the URLs of the settings,
    and `address_settings` are those that only contain addresses: in a confined run a block may have these, if
    all addresses are allowed, and no others. `is_remote`: a server is called, so each operation has a
    deadline. `unverified_setting` turns off the check of the server's certificate.
    """

    schema: BlockSchema
    make: Callable[[Mapping[str, Any], Directories], StateBackend]
    list_addresses: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _settings: ()
    address_settings: tuple[str, ...] = ()
    is_remote: bool = True
    unverified_setting: str = ""

    def open_backend(self, settings: Mapping[str, Any], directories: Directories) -> StateBackend:
        """Return the backend of these settings for commands (see guarded_backend). Raises BackendProblem."""
        if not self.is_remote:
            return guard_backend(self.make(settings, directories), is_remote=False)
        address = next(iter(self.list_addresses(settings)), "the server").split("?")[0]
        deadline = Deadline(lambda: _strip_login(address))
        return guard_backend(deadline.run("sign in", lambda: self.make(settings, directories)), is_remote=True)

    def explain_unverified_server(self, settings: Mapping[str, Any]) -> str:
        """Return a warning about a server with an unverified certificate, or ""."""
        if not settings.get(self.unverified_setting):
            return ""
        servers = {"://".join(urlsplit(_strip_login(address))[:2]) for address in self.list_addresses(settings)}
        names = ", ".join(sorted(server for server in servers if server.startswith("https:")))
        detail = (
            f"The certificate of {names} is not verified ({self.unverified_setting}): another server could answer "
            "and receive the state and the credentials. Remove the setting, and add the server's CA to SSL_CERT_FILE."
        )
        return detail if names else ""


def _strip_login(address: str) -> str:
    scheme, mark, remainder = address.partition("://")
    return f"{scheme}{mark}{remainder.rpartition('@')[2]}"


def build_setting(kind: Type, description: str, *, is_sensitive: bool = False) -> AttributeSchema:
    """Build an optional setting."""
    return AttributeSchema(kind, description, optional=True, sensitive=is_sensitive)


def build_required_setting(description: str) -> AttributeSchema:
    """Build a required text setting."""
    return AttributeSchema(STRING, description, required=True)
