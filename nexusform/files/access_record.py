"""Files, servers, programs and variables used by this process, for the provenance of a plan."""

import os
import sys
from hashlib import sha256
from pathlib import PurePath
from typing import Any, Final

from msgspec import Struct, field


class ExternalAccessRecord(Struct):
    """Digests of settings files, origins of servers, and names of programs and set variables.

    The files are given by absolute path. `addresses` are those of the configuration that a
    sandboxed run needs `-allow-remote` for.
    """

    files: dict[str, str] = field(default_factory=dict)
    origins: set[str] = field(default_factory=set)
    addresses: set[str] = field(default_factory=set)
    programs: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    is_watching: bool = False


_ACCESSES: Final = ExternalAccessRecord()
_HTTPS_PORT: Final = 443
# Position of the program in the details of an audit event.
_PROGRAM_POSITIONS: Final = {"os.exec": 0, "os.posix_spawn": 0, "os.spawn": 1}


def get_recorded_accesses() -> ExternalAccessRecord:
    """Return the accesses since `start_access_record`."""
    return _ACCESSES


def start_access_record() -> None:
    """Start a new record for a command or a site."""
    record = _ACCESSES
    sets = (record.origins, record.addresses, record.programs, record.variables)
    for names in (record.files, *sets):
        names.clear()
    if not _ACCESSES.is_watching:
        _ACCESSES.is_watching = True
        # Also sees the programs and servers of SDKs.
        sys.addaudithook(_record_audit_event)


def record_file_access(path: str, text: str) -> None:
    """Record the path and the digest of a file with values or settings."""
    _ACCESSES.files[os.path.abspath(path)] = sha256(text.encode()).hexdigest()  # noqa: PTH100 - keeps links


def record_server_access(origin: str) -> None:
    """Record the origin of a server, and allow a sandboxed run to use this server."""
    # Loaded on first use.
    from nexusform.files.sandbox import declare_server

    declare_server(origin)
    _ACCESSES.origins.add(origin)


def read_variable(name: str) -> str:
    """Return a variable of the environment and record its name; return "" without one."""
    value = os.environ.get(name, "")
    if value:
        _ACCESSES.variables.add(name)
    return value


def _record_audit_event(event: str, details: tuple[Any, ...]) -> None:
    """Record an audit event of Python.

    An event is a started program, or a connection of http.client or urllib3; others are ignored.
    """
    if event == "subprocess.Popen":
        executable, command_line = details[:2]
        is_single_word = isinstance(command_line, str | bytes | os.PathLike)
        _record_started_program(executable or (command_line if is_single_word else command_line[0]))
    elif event in _PROGRAM_POSITIONS:
        _record_started_program(details[_PROGRAM_POSITIONS[event]])
    elif event == "os.system":
        # The command may contain secrets.
        _record_started_program("sh")
    elif event == "http.client.connect":
        connection, host, port = details
        scheme = "https" if connection.default_port == _HTTPS_PORT else "http"
        # The server behind a proxy has no other name.
        tunnel = connection._tunnel_host  # noqa: SLF001
        if tunnel:
            host = tunnel
            port = connection._tunnel_port  # noqa: SLF001
        # A library connects: it declares nothing.
        _ACCESSES.origins.add(f"{scheme}://{host}:{port}")


def _record_started_program(program: str | bytes | os.PathLike[str]) -> None:
    """Record the name of a program, without its directory."""
    _ACCESSES.programs.add(PurePath(os.fsdecode(program)).name)
