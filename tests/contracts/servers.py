"""Servers that the backend tests talk to, each started on a free port of this machine and stopped at the end.

Where a program is missing the tests skip and say which; with NEXUSFORM_NEED_SERVERS=1 that is a failure.
"""

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NEEDED = "NEXUSFORM_NEED_SERVERS"
STARTS_WITHIN = 60.0  # seconds; a server that takes longer is broken


def missing(what: str) -> None:
    """Skip, or fail where servers are promised to be there."""
    if os.environ.get(NEEDED) == "1":
        pytest.fail(f"{what}, and {NEEDED}=1 says that every server is here")
    pytest.skip(what)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], port: int, where: Path, **more: object) -> Iterator[None]:
    """The program, from its first answer on the port to the end of the block."""
    with (where / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=where, stdout=log, stderr=log, **more)  # type: ignore[call-overload]
        try:
            wait_until(lambda: answers(port), process)
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


def wait_until(ready: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + STARTS_WITHIN
    while not ready():
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} ended with {process.returncode} at once")
        if time.monotonic() > end:
            raise RuntimeError(f"{process.args} did not start within {STARTS_WITHIN:.0f} s")
        time.sleep(0.05)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
    except OSError:
        return False
    return True


# --- Azure: azurite from npm --------------------------------------------------------------------

AZURITE = os.environ.get("NEXUSFORM_AZURITE", "") or shutil.which("azurite-blob") or ""
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def azurite() -> Iterator[str]:
    """The address of a blob service with the well-known account."""
    if not AZURITE:
        missing("azurite is not installed (npm install azurite; NEXUSFORM_AZURITE names azurite-blob)")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="nexusform-azurite-") as folder:
        command = [AZURITE, "--silent", "--skipApiVersionCheck", "--inMemoryPersistence", "--disableTelemetry"]
        command += ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
        with running(command, port, Path(folder)):
            yield f"http://127.0.0.1:{port}/{ACCOUNT}"


# --- S3: moto's server --------------------------------------------------------------------------


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of an S3 service."""
    if importlib.util.find_spec("moto") is None:
        missing("moto's server is not installed (pip install 'nexusform[dev]')")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="nexusform-s3-") as folder:
        command = [sys.executable, str(Path(__file__).with_name("s3_service.py")), str(port)]
        with running(command, port, Path(folder)):
            yield f"http://127.0.0.1:{port}"


# --- PostgreSQL ---------------------------------------------------------------------------------


def postgres_programs() -> Path | None:
    """Where initdb and postgres stand together."""
    candidates = [Path(place).parent for name in ("initdb", "postgres") if (place := shutil.which(name))]
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in candidates:
        real = (folder / "initdb").resolve().parent
        if (real / "initdb").exists() and (real / "postgres").exists():
            return real
    return None


@contextmanager
def postgres() -> Iterator[str]:
    """The connection string of a database of its own server."""
    programs = postgres_programs()
    if programs is None:
        missing("PostgreSQL is not installed (apt-get install postgresql)")
    assert programs is not None
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="nexusform-pg-") as folder:
        as_user = unprivileged(Path(folder))
        data = f"{folder}/data"
        make = [str(programs / "initdb"), "-D", data, "-U", "nexusform", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(make, check=True, capture_output=True, cwd=folder, **as_user)  # type: ignore[call-overload]
        command = [str(programs / "postgres"), "-D", data, "-p", str(port), "-k", folder, "-F"]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"]
        with running(command, port, Path(folder), **as_user):
            address = f"host=127.0.0.1 port={port} user=nexusform dbname=postgres"
            wait_for_database(address)
            yield address


def unprivileged(folder: Path) -> dict[str, object]:
    """PostgreSQL refuses to run as root: as whom it runs then."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    missing("PostgreSQL does not run as root, and there is no user postgres or nobody")
    return {}


def wait_for_database(address: str) -> None:
    """The port answers before the database does."""
    psycopg = pytest.importorskip("psycopg")
    end = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            psycopg.connect(address, connect_timeout=60).close()
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return
