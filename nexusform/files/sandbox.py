"""The wall around a sandboxed process: files, programs and servers declared by its command.

Readers check paths first, with better messages. A reader that forgets it is stopped here: an audit
hook of Python rejects what no argument, variable or reader declared.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from nexusform.files.directories import is_opening_relative_name
from nexusform.files.external_files import (
    EXTERNAL_FILES,
    PathValueForm,
    is_untrusted_path,
    list_command_files,
    list_entry_paths,
)
from nexusform.files.regular_files import Confinement, OutsideConfinement, is_path_below


class UndeclaredAccess(OutsideConfinement):
    """An access of a sandboxed run that no argument, variable or reader declared."""

    def __init__(self, root: str, access: str) -> None:
        super().__init__(root)
        self.strerror = f"-confine does not allow it ({access})"


class Sandbox(Struct):
    """Declared accesses of a sandboxed run, besides those to its work tree.

    `paths` are files and directories, `programs` real paths, `servers` hosts with their ports
    (0: any). `addresses` are those that the names of declared servers were resolved to.
    """

    confinement: Confinement
    paths: set[str]
    programs: set[str]
    trusted_directories: tuple[str, ...]
    # Directories around the work tree that this Python imports from.
    code_paths: tuple[str, ...]
    servers: set[tuple[str, int]]
    addresses: set[str]


class _SandboxState(Struct):
    """The sandbox of the running command, if it has one.

    `later_sandbox` has the declared accesses of a command that may be sandboxed later.
    """

    sandbox: Sandbox | None = None
    later_sandbox: Sandbox | None = None
    is_watching: bool = False


_STATE: Final = _SandboxState()
# Read by libraries: certificates, time zones, types of files, and facts of this machine.
_SYSTEM_PATHS: Final = (
    "/dev/fd",
    "/dev/null",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/tty",
    "/dev/urandom",
    "/etc/dask",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/openstack",
    "/etc/os-release",
    "/etc/pki",
    "/etc/ssl",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/random/boot_id",
    "/usr/lib/ssl",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/share/zoneinfo",
)
# The start of a process: it tells whether the holder of a lock still runs.
_PROCESS_FACTS: Final = re.compile(r"/proc/[0-9]+/stat")
_CODE_SUFFIXES: Final = (".py", ".pyc", ".so", ".pyd")
_PATH_EVENTS: Final = frozenset({"open", "os.listdir", "os.scandir"})
_TEMPORARY_EVENTS: Final = frozenset({"tempfile.mkstemp", "tempfile.mkdtemp"})
# Position of the program in the details of an audit event.
_PROGRAM_POSITIONS: Final = {"os.exec": 0, "os.posix_spawn": 0, "os.spawn": 1}
_SERVER_EVENTS: Final = frozenset({"socket.bind", "socket.connect", "socket.sendto"})
_PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


@contextmanager
def use_sandbox(confinement: Confinement, paths: Iterable[str]) -> Iterator[None]:
    """Reject undeclared accesses of this process until the end of the confined command.

    `paths` are those of its arguments. Without a confinement, a command only records what it
    declares, so that it may enter a sandbox later.
    """
    earlier = (_STATE.sandbox, _STATE.later_sandbox)
    if confinement.root:
        _start_sandbox(_create_sandbox(confinement, paths))
    else:
        declared_paths = {form for path in paths for form in _list_path_forms(path)}
        _STATE.later_sandbox = Sandbox(confinement, declared_paths, set(), (), (), set(), set())
    try:
        yield
    finally:
        _STATE.sandbox, _STATE.later_sandbox = earlier


def enter_sandbox(confinement: Confinement) -> None:
    """Reject undeclared accesses from now on until the end of the command in `use_sandbox`."""
    declared = _STATE.later_sandbox
    if declared is None or _STATE.sandbox is not None:
        return
    sandbox = _create_sandbox(confinement, declared.paths)
    sandbox.programs |= declared.programs
    sandbox.servers |= declared.servers
    _start_sandbox(sandbox)


def _start_sandbox(sandbox: Sandbox) -> None:
    """Reject accesses of this process that a sandbox does not declare."""
    _choose_temporary_directory()
    _STATE.sandbox = sandbox
    if not _STATE.is_watching:
        _STATE.is_watching = True
        _record_resolved_addresses()
        sys.addaudithook(_check_audit_event)


def _record_resolved_addresses() -> None:
    """Let each sandbox know the addresses of its servers: no audit event has them."""
    import socket

    resolve = socket.getaddrinfo

    def resolve_and_record(*arguments: Any, **options: Any) -> list[Any]:
        rows = resolve(*arguments, **options)
        if _STATE.sandbox is not None:
            _STATE.sandbox.addresses.update(str(row[4][0]) for row in rows)
        return rows

    socket.getaddrinfo = resolve_and_record


def _get_declared_accesses() -> Sandbox | None:
    return _STATE.sandbox or _STATE.later_sandbox


def declare_path(path: str | Path) -> None:
    """Allow a sandboxed run to use a file, or a directory with its files."""
    sandbox = _get_declared_accesses()
    if sandbox is not None:
        sandbox.paths.update(_list_path_forms(path))


def declare_program(words: Sequence[str]) -> None:
    """Allow a sandboxed run to start a program of the operator.

    Raises OutsideConfinement if the program or a file of its arguments is in the work tree.
    """
    sandbox = _get_declared_accesses()
    if sandbox is None:
        return
    for path in list_command_files(words, os.environ) if sandbox.confinement.root else ():
        if is_untrusted_path(path, sandbox.confinement):
            raise UndeclaredAccess(
                sandbox.confinement.root, f'"{path}" is in the work tree of a sandboxed run'
            )
    program = shutil.which(words[0]) if words else None
    if program is not None:
        sandbox.programs.add(os.path.realpath(program))


def declare_server(address: str) -> None:
    """Allow a sandboxed run to use the server of an address, such as https://host:6443."""
    sandbox = _get_declared_accesses()
    if sandbox is not None:
        sandbox.servers.update(_parse_servers(address))


def _create_sandbox(confinement: Confinement, paths: Iterable[str]) -> Sandbox:
    """Create the sandbox of a command, with the paths and programs of the variables."""
    environment = os.environ
    home = Path(environment.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111
    declared_paths: set[str] = set()
    # The current directory is chosen by the operator, also outside of the work tree.
    for path in (*paths, os.getcwd()):  # noqa: PTH109
        declared_paths.update(_list_path_forms(path))
    declared_programs = {os.path.realpath(sys.executable)}
    names: list[str] = []
    for entry in EXTERNAL_FILES:
        if entry.form is PathValueForm.HOME:
            declared_paths.update(_list_path_forms(home / entry.name.removeprefix("~/")))
        elif entry.form is PathValueForm.PROGRAM:
            names.append(entry.name)
        else:
            values = list_entry_paths(entry, environment)
            if entry.form is PathValueForm.COMMAND:
                names += values
            else:
                for path in values:
                    declared_paths.update(_list_path_forms(path))
    for name in names:
        program = shutil.which(name)
        if program is not None and not is_untrusted_path(program, confinement):
            declared_programs.add(os.path.realpath(program))
    # The operator sets PYTHONPATH; "" and the work tree are no part of it.
    python_paths = [path for path in sys.path if path and not confinement.is_inside(path)]
    code_paths = {path for path in python_paths if is_path_below(confinement.root, path)}
    return Sandbox(
        confinement=confinement,
        paths=declared_paths,
        programs=declared_programs,
        trusted_directories=_list_trusted_directories(
            [path for path in python_paths if path not in code_paths]
        ),
        code_paths=(*code_paths,),
        servers=set(),
        addresses=set(),
    )


def _parse_servers(address: str) -> Iterator[tuple[str, int]]:
    """Yield the host and port of an address, and those of the operator's proxies."""
    proxies = [
        os.environ.get(name, "")
        for variable in _PROXY_VARIABLES
        for name in (variable, variable.lower())
    ]
    for text in (address, *proxies):
        # The client reports an invalid address.
        with suppress(ValueError):
            parts = urlsplit(text if "://" in text else f"http://{text}")
            if parts.hostname:
                yield parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)


def _choose_temporary_directory() -> None:
    """Set the directory of temporary files, if none is set.

    Python would write a file into each candidate, which a sandbox rejects.
    """
    import tempfile

    if tempfile.tempdir is not None:
        return
    candidates = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    for path in filter(os.path.isdir, (*candidates, "/tmp", "/var/tmp")):  # noqa: S108
        if os.access(path, os.W_OK | os.X_OK):
            tempfile.tempdir = os.path.abspath(path)  # noqa: PTH100 - links stay
            return


def _list_path_forms(path: str | Path) -> Iterator[str]:
    """Yield the absolute path, and its target."""
    # A name that no file has.
    with suppress(ValueError):
        yield os.path.abspath(path)  # noqa: PTH100 - links stay
        yield os.path.realpath(path)


def _list_trusted_directories(python_paths: Sequence[str]) -> tuple[str, ...]:
    """List the directories of this Python, its packages and the system."""
    package = str(Path(__file__).parents[1])
    directories = [sys.prefix, sys.base_prefix, sys.exec_prefix, package, *python_paths]
    real_paths = [os.path.realpath(directory) for directory in directories]
    return (*directories, *real_paths, *_SYSTEM_PATHS)


def _check_audit_event(
    event: str, details: tuple[Any, ...], is_finalizing: Callable[[], bool] = sys.is_finalizing
) -> None:
    """Raise UndeclaredAccess for an audit event of Python that nothing declared.

    Python ends with events, too, when this module has lost its names.
    """
    if is_finalizing():
        return
    sandbox = _STATE.sandbox
    if sandbox is None:
        return
    if event in _PATH_EVENTS:
        _check_path(sandbox, event, details[0])
    elif event in _TEMPORARY_EVENTS:
        sandbox.paths.update(_list_path_forms(details[0]))
    elif event == "subprocess.Popen":
        executable, command_line = details[:2]
        is_single_word = isinstance(command_line, str | bytes | os.PathLike)
        _check_program(sandbox, executable or (command_line if is_single_word else command_line[0]))
    elif event in _PROGRAM_POSITIONS:
        _check_program(sandbox, details[_PROGRAM_POSITIONS[event]])
    elif event == "os.system":
        raise UndeclaredAccess(sandbox.confinement.root, "no argument declares a shell")
    elif event in _SERVER_EVENTS:
        _check_address(sandbox, details[1])
    elif event == "socket.getaddrinfo":
        _check_host(sandbox, details[0])


def _check_path(sandbox: Sandbox, event: str, path: object) -> None:
    """Raise UndeclaredAccess for a path outside of the work tree that nothing declared.

    A path in the work tree must stay there, even if it is a link to a declared file.
    """
    # An open descriptor or an entry of one, or the current directory.
    if is_opening_relative_name() or not isinstance(path, str | bytes | os.PathLike):
        return
    absolute_path = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links stay
    if (
        _is_below_any(absolute_path, sandbox.trusted_directories)
        or _PROCESS_FACTS.fullmatch(absolute_path)
        or (
            absolute_path.endswith(_CODE_SUFFIXES)
            and _is_below_any(absolute_path, sandbox.code_paths)
        )
        # Python lists them again to find a module if they changed.
        or (event == "os.listdir" and path in sandbox.code_paths)
    ):
        return
    confinement = sandbox.confinement
    allowed_directories = (*sandbox.trusted_directories, *confinement.revealed)
    real_path = os.path.realpath(absolute_path)
    if is_path_below(real_path, confinement.root) or _is_below_any(real_path, allowed_directories):
        return
    is_inside = is_path_below(absolute_path, confinement.root)
    if not is_inside and any(
        _is_part_of(path, declared_path)
        for path in (absolute_path, real_path)
        for declared_path in sandbox.paths
    ):
        return
    problem = OutsideConfinement(confinement.root, confinement.reason)
    problem.filename = os.fsdecode(path)
    raise problem


def _is_part_of(path: str, declared_path: str) -> bool:
    """Return whether a path is a declared one, below it or beside it with its name.

    Lock, journal, backup and temporary file of a state are beside it, and their directory is
    synced to disk. Their names are `NAME.SUFFIX`, `.NAME.SUFFIX` or `NAME-SUFFIX`.
    """
    if is_path_below(path, declared_path):
        return True
    directory, name = os.path.split(declared_path)
    if path == directory:
        return True
    own_directory, own_name = os.path.split(path)
    own_name = own_name.removeprefix(".")
    name = name.removeprefix(".")
    return (
        own_directory == directory
        and own_name.startswith(name)
        and own_name[len(name) : len(name) + 1] in ("", ".", "-")
    )


def _is_below_any(path: str, directories: Iterable[str]) -> bool:
    return any(is_path_below(path, directory) for directory in directories)


def _check_program(sandbox: Sandbox, program: str | bytes | os.PathLike[str]) -> None:
    """Raise UndeclaredAccess for a program that nothing declared."""
    name = os.fsdecode(program)
    path = os.path.realpath(shutil.which(name) or name)
    if path not in sandbox.programs:
        raise UndeclaredAccess(
            sandbox.confinement.root, f'no argument or variable declares the program "{name}"'
        )


def _check_host(sandbox: Sandbox, host: object) -> None:
    """Raise UndeclaredAccess for the name or address of a server that no client declared."""
    # None: this machine.
    if host is None:
        return
    name = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
    if name.lower() not in {server for server, _ in sandbox.servers}:
        raise UndeclaredAccess(sandbox.confinement.root, f"no client declared the server {name}")


def _check_address(sandbox: Sandbox, address: object) -> None:
    """Raise UndeclaredAccess for a network address that belongs to no declared server.

    It is declared itself, or a declared name was resolved to it: `_check_host` saw the name.
    """
    # Sockets of this machine have a path.
    if not isinstance(address, tuple):
        return
    host, port = str(address[0]), address[1]
    for server, declared_port in sandbox.servers:
        if declared_port in (0, port) and (server == host or host in sandbox.addresses):
            return
    raise UndeclaredAccess(sandbox.confinement.root, f"no client declared the server {host}")
