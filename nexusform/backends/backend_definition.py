"""Definition of a kind of backend, and common checks.

Missing clients, names of workspaces, and size limits.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from nexusform.backends.guarded_backend import guard_backend
from nexusform.diagnostics.missing_packages import describe_missing_package
from nexusform.files.regular_files import UNCONFINED, Confinement, FileTooLarge
from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import STRING, Type

# Default limit for the bytes of a state or a journal.
MAXIMUM_SIZE: Final = 1 << 30
# Limit for the bytes of a lock.
MAXIMUM_LOCK_SIZE: Final = 1 << 16
DEFAULT_WORKSPACE: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,89}")


class Directories(Struct, frozen=True):
    """Directories and limits of a run.

    `directory` is the root module's; `data_directory` (NF_DATA_DIR) holds the local files of a
    remote backend. `confinement` is that of paths in settings, `maximum_size` the maximum bytes of
    a state or journal to read.
    """

    directory: str
    data_directory: str
    confinement: Confinement = UNCONFINED
    maximum_size: int = MAXIMUM_SIZE


class BackendDefinition(Struct, frozen=True):
    """Kind of backend: the settings of its `backend` block, and its factory.

    `make` takes the settings as plain data (absent: null) and raises BackendProblem.
    `list_server_urls` returns the URLs of the settings, and `address_settings` are those that only
    contain addresses: in a sandboxed run a block may have these, if all addresses are allowed, and
    no others. With `is_remote` a server is called, so each operation has a deadline.
    `unverified_setting` turns off the check of the server's certificate.
    """

    schema: BlockSchema
    make: Callable[[Mapping[str, Any], Directories], StateBackend]
    list_server_urls: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _settings: ()
    address_settings: tuple[str, ...] = ()
    is_remote: bool = True
    unverified_setting: str = ""

    def open_backend(self, settings: Mapping[str, Any], directories: Directories) -> StateBackend:
        """Return the backend of these settings for commands, guarded against overwrites.

        Raises BackendProblem.
        """
        if not self.is_remote:
            return guard_backend(self.make(settings, directories), is_remote=False)
        address = next(iter(self.list_server_urls(settings)), "the server").split("?")[
            0
        ]  # for messages
        from nexusform.network.deadlines import DeadlineRunner

        deadline = DeadlineRunner(lambda: _remove_login(address))
        return guard_backend(
            deadline.run("sign in", lambda: self.make(settings, directories)), is_remote=True
        )

    def explain_unverified_server(self, settings: Mapping[str, Any]) -> str:
        """Return a warning about servers (scheme and host) with unverified certificates.

        Return "" without any such server.
        """
        if not settings.get(self.unverified_setting):
            return ""
        servers = {
            "://".join(urlsplit(_remove_login(address))[:2])
            for address in self.list_server_urls(settings)
        }
        # http has none.
        names = ", ".join(sorted(server for server in servers if server.startswith("https:")))
        if not names:
            return ""
        return (
            f"The certificate of {names} is not verified ({self.unverified_setting}): another "
            "server could answer "
            "and receive the state and the credentials. Remove the setting, and add the server's "
            "CA to SSL_CERT_FILE."
        )


def _remove_login(address: str) -> str:
    """Return a URL without its user name and password."""
    scheme, mark, remainder = address.partition("://")
    return f"{scheme}{mark}{remainder.rpartition('@')[2]}"


def build_setting(kind: Type, description: str, *, is_sensitive: bool = False) -> AttributeSchema:
    """Build an optional setting."""
    return AttributeSchema(kind, description, optional=True, sensitive=is_sensitive)


def build_required_setting(description: str) -> AttributeSchema:
    """Build a required text setting."""
    return AttributeSchema(STRING, description, required=True)


def check_name(name: str) -> None:
    """Raise a BackendProblem unless the name is valid in a path and a URL."""
    if _NAME.fullmatch(name) is None:
        raise BackendProblem(
            f'Invalid workspace name "{name}": use up to 90 letters, digits, "-", "_", "~" and '
            '".", not starting with a dot.'
        )


def sort_workspaces(names: Iterable[str]) -> list[str]:
    """Return the default workspace, even if it is not among the names, then the others by name."""
    return [DEFAULT_WORKSPACE, *sorted({*names} - {DEFAULT_WORKSPACE})]


def check_deletable(name: str, existing: Collection[str]) -> None:
    """Raise a BackendProblem unless the workspace exists and is not the default one."""
    check_name(name)
    if name == DEFAULT_WORKSPACE:
        raise BackendProblem(f'The workspace "{DEFAULT_WORKSPACE}" cannot be deleted.')
    if name not in existing:
        raise BackendProblem(f'There is no workspace "{name}".')


def build_size_problem(description: str, location: str, problem: FileTooLarge) -> BackendProblem:
    """Build the problem of an oversized file: `description` is a phrase like "read the state"."""
    hint = "If this size is expected, raise the limit: -limit=file_mib=N or NF_LIMIT_FILE_MIB=N."
    return BackendProblem(f"Cannot {description} {location}: {problem.strerror}. {hint}")


@contextmanager
def require_backend_package(backend: str) -> Iterator[None]:
    """Convert a missing package to a BackendProblem with the installation command."""
    try:
        yield
    except ImportError as problem:
        package = describe_missing_package(problem)
        raise BackendProblem(f'The backend "{backend}" needs {package}.') from None
