"""Servers of the backend tests, each started on a free port of this machine and stopped at the end.

If a program is missing, the tests are skipped with its name; with
NEXUSFORM_NEED_SERVERS=1 they fail.
"""

import importlib.util
import os
import pwd
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.programs import WITHOUT_PROGRAMS, find_program

NEEDED = "NEXUSFORM_NEED_SERVERS"
# seconds; a slower server is broken.
STARTS_WITHIN = 60.0


def skip_or_fail(what: str) -> None:
    """Skip the test, or fail if all servers are required."""
    if os.environ.get(NEEDED) == "1":
        pytest.fail(f"{what}, and {NEEDED}=1 says that every server is here")
    pytest.skip(what)


def find_free_port() -> int:
    """Return a port that nobody uses, below the ports that a system chooses itself.

    Those may be given to a server of another worker until the program has started. The program
    ends then, and the test takes the other server for it.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def run_program(command: list[str], port: int, where: Path, **more: object) -> Iterator[None]:
    """Run the program, from its first answer on the port to the end of the block."""
    with (where / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=where, stdout=log, stderr=log, **more)  # type: ignore[call-overload]
        try:
            wait_until(lambda: is_listening(port), process)
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


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
    except OSError:
        return False
    return True


# --- Azure: azurite from npm --------------------------------------------------------------------

AZURITE = os.environ.get("NEXUSFORM_AZURITE", "") or find_program("azurite-blob") or ""
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def run_azurite() -> Iterator[str]:
    """Run a blob service with the well-known account; yield its address."""
    if not AZURITE:
        skip_or_fail(
            "azurite is not installed (npm install azurite; NEXUSFORM_AZURITE names azurite-blob)"
        )
    port = find_free_port()
    with tempfile.TemporaryDirectory(prefix="nexusform-azurite-") as folder:
        command = [
            AZURITE,
            "--silent",
            "--skipApiVersionCheck",
            "--inMemoryPersistence",
            "--disableTelemetry",
        ]
        command += ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
        with run_program(command, port, Path(folder)):
            yield f"http://127.0.0.1:{port}/{ACCOUNT}"


# --- S3: moto's server --------------------------------------------------------------------------


@contextmanager
def run_s3_server() -> Iterator[str]:
    """Run an S3 service; yield its address."""
    if importlib.util.find_spec("moto") is None:
        skip_or_fail("moto's server is not installed (pip install 'nexusform[dev]')")
    port = find_free_port()
    with tempfile.TemporaryDirectory(prefix="nexusform-s3-") as folder:
        command = [sys.executable, str(Path(__file__).with_name("s3_service.py")), str(port)]
        with run_program(command, port, Path(folder)):
            yield f"http://127.0.0.1:{port}"


# --- PostgreSQL ---------------------------------------------------------------------------------


def find_postgres_programs() -> Path | None:
    """Return the folder with both initdb and postgres."""
    if WITHOUT_PROGRAMS:
        return None
    candidates = [
        Path(place).parent for name in ("initdb", "postgres") if (place := find_program(name))
    ]
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in candidates:
        real = (folder / "initdb").resolve().parent
        if (real / "initdb").exists() and (real / "postgres").exists():
            return real
    return None


@contextmanager
def run_postgres() -> Iterator[str]:
    """Run a database server; yield the connection string of its database."""
    programs = find_postgres_programs()
    if programs is None:
        skip_or_fail("PostgreSQL is not installed (apt-get install postgresql)")
    assert programs is not None
    port = find_free_port()
    with tempfile.TemporaryDirectory(prefix="nexusform-pg-") as folder:
        as_user = select_unprivileged_user(Path(folder))
        data = f"{folder}/data"
        make = [
            str(programs / "initdb"),
            "-D",
            data,
            "-U",
            "nexusform",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        ]
        subprocess.run(make, check=True, capture_output=True, cwd=folder, **as_user)  # type: ignore[call-overload]
        command = [str(programs / "postgres"), "-D", data, "-p", str(port), "-k", folder, "-F"]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"]
        with run_program(command, port, Path(folder), **as_user):
            address = f"host=127.0.0.1 port={port} user=nexusform dbname=postgres"
            wait_for_database(address)
            yield address


def select_unprivileged_user(folder: Path) -> dict[str, object]:
    """Return another user for PostgreSQL, if this is root: it rejects root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    skip_or_fail("PostgreSQL does not run as root, and there is no user postgres or nobody")
    return {}


def wait_for_database(address: str) -> None:
    """Wait for the database: the port accepts connections earlier."""
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
