"""Tests of the wall around a sandboxed process, in its own process."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from nexusform.backends.local_lock import read_process_start
from nexusform.files.regular_files import Confinement
from nexusform.files.sandbox import declare_server, use_sandbox

_PROGRAM = """
import os, tempfile
from nexusform.files.regular_files import Confinement
from nexusform.files.sandbox import use_sandbox

with use_sandbox(Confinement(os.getcwd()), ()), tempfile.TemporaryDirectory() as directory:
    print(directory)
"""


def test_temporary_directory_is_outside_of_the_work_tree(tmp_path: Path) -> None:
    """The first use of it in a process may be in a sandbox."""
    tree = tmp_path / "tree"
    temporary = tmp_path / "temporary"
    tree.mkdir()
    temporary.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=tree,
        env={**environment, "TMPDIR": str(temporary)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert Path(result.stdout.strip()).parent == temporary


def test_modules_are_found_beside_a_work_tree_in_the_python_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python lists a directory of its path again if a file was added."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "secrets").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    with use_sandbox(Confinement(str(tmp_path / "tree")), ()):
        assert importlib.util.find_spec("no_such_module") is None
        with pytest.raises(OSError, match="-confine does not allow it"):
            list((tmp_path / "secrets").iterdir())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_start_of_a_process_is_read_in_a_sandbox(tmp_path: Path) -> None:
    """A lock of an ended process is replaced, also if another one has its number since."""
    start = read_process_start(os.getpid())
    with use_sandbox(Confinement(str(tmp_path)), ()):
        assert read_process_start(os.getpid()) == start != ""
        with pytest.raises(OSError, match="-confine does not allow it"):
            Path("/proc/self/environ").read_bytes()


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [
        ("p", True),
        ("p.lock", True),
        (".p.1-0a.tmp", True),
        ("passwords", False),
        ("app.key", False),
        (".pgpass", False),
    ],
)
def test_only_files_of_a_declared_one_are_read(
    name: str, *, is_allowed: bool, tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / name).write_text("a")
    with use_sandbox(Confinement(str(tmp_path / "tree")), (str(tmp_path / "p"),)):
        try:
            text = (tmp_path / name).read_text()
        except OSError:
            text = ""
    assert (text == "a") is is_allowed


def test_only_declared_servers_are_used(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as declared,
        socket.create_server(("127.0.0.1", 0)) as other,
        use_sandbox(Confinement(str(tmp_path)), ()),
    ):
        declare_server(f"http://127.0.0.1:{declared.getsockname()[1]}")
        socket.create_connection(declared.getsockname(), 5).close()
        with pytest.raises(OSError, match=r"no client declared the server 127\.0\.0\.1"):
            socket.create_connection(other.getsockname(), 5)
        for name in ("secrets.example.com", b"secrets.example.com", "10.0.0.1"):
            with pytest.raises(OSError, match="no client declared the server"):
                socket.getaddrinfo(name, 443)
        # An address of another server on the same port.
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
            pytest.raises(OSError, match=r"no client declared the server 127\.0\.0\.2"),
        ):
            sender.sendto(b"secret", ("127.0.0.2", declared.getsockname()[1]))


def test_only_the_addresses_of_a_declared_name_are_used(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as declared,
        use_sandbox(Confinement(str(tmp_path)), ()),
    ):
        port = declared.getsockname()[1]
        declare_server(f"http://localhost:{port}")
        with (
            socket.socket() as client,
            pytest.raises(OSError, match=r"no client declared the server 127\.0\.0\.1"),
        ):
            client.connect(("127.0.0.1", port))
        socket.create_connection(("localhost", port), 5).close()
        with (
            socket.socket() as client,
            pytest.raises(OSError, match=r"no client declared the server 127\.0\.0\.2"),
        ):
            client.connect(("127.0.0.2", port))


def test_proxy_of_the_operator_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        port = proxy.getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        with use_sandbox(Confinement(str(tmp_path)), ()):
            declare_server("https://hub.example.com")
            socket.create_connection(("127.0.0.1", port), 5).close()


Connect = Callable[[], object]


def open_azure_client() -> None:
    pytest.importorskip("azure.mgmt.networkcloud")
    from nexusform.domains.azure.providers.azure_subscription import create_client

    create_client("s")


def open_blob_container() -> None:
    pytest.importorskip("azure.storage.blob")
    from nexusform.domains.remote_state.backends.azurerm import open_azurerm

    settings = {"storage_account_name": "account", "container_name": "c", "key": "k"}
    open_azurerm({**settings, "access_key": "a2V5"})


def open_bucket() -> None:
    pytest.importorskip("boto3")
    from nexusform.domains.remote_state.backends.s3 import open_s3

    keys = {"access_key": "a", "secret_key": "b"}
    open_s3({"bucket": "states", "key": "k", "region": "eu-west-1", **keys})


def open_scheduler() -> None:
    pytest.importorskip("distributed")
    from nexusform.domains.sites.engines.dask_cluster import load_cluster_library

    load_cluster_library("dask://workers.example.com:9000")


SIGN_IN = ("login.microsoftonline.com", "169.254.169.254")
VARIABLES = {
    "NF_AZURE_ENDPOINT": "https://arm.example.com:8443",
    "AZURE_AUTHORITY_HOST": "login.example.com",
    "IDENTITY_ENDPOINT": "http://127.0.0.1:4141/msi/token",
    "ARM_CLIENT_ID": "c",
    "ARM_TENANT_ID": "t",
    "ARM_CLIENT_SECRET": "s",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://credentials.example.com:81/",
    "AWS_ENDPOINT_URL_STS": "https://sts.example.com",
    "AWS_CONFIG_FILE": "",
}
# The servers of each client, and some that it never needs.
CLIENTS: dict[Connect, tuple[tuple[str, ...], tuple[str, ...]]] = {
    open_azure_client: (
        ("arm.example.com", "login.example.com", "127.0.0.1", *SIGN_IN),
        ("management.azure.com", "account.blob.core.windows.net"),
    ),
    open_blob_container: (("account.blob.core.windows.net",), ("other.blob.core.windows.net",)),
    open_bucket: (
        (
            "s3.eu-west-1.amazonaws.com",
            "states.s3.eu-west-1.amazonaws.com",
            # The bucket may be in another region.
            "states.s3.us-west-2.amazonaws.com",
            "sts.eu-west-1.amazonaws.com",
            "portal.sso.eu-west-1.amazonaws.com",
            "sts.example.com",
            "credentials.example.com",
            "169.254.169.254",
        ),
        ("other.s3.eu-west-1.amazonaws.com", "ec2.eu-west-1.amazonaws.com"),
    ),
    open_scheduler: (("workers.example.com",), ("example.com",)),
}


@pytest.mark.parametrize("connect", CLIENTS, ids=[client.__name__ for client in CLIENTS])
def test_library_with_own_connections_uses_its_servers_alone(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other names and addresses stay out of reach once the client is open."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    resolved: list[str] = []
    with use_sandbox(Confinement(str(tmp_path)), ()):
        connect()
        hosts, other_hosts = CLIENTS[connect]
        for host in (*hosts, *other_hosts, "collector.example.org", "10.0.0.1"):
            with suppress(OSError):
                sys.audit("socket.getaddrinfo", host, 443, 0, 0, 0)
                resolved.append(host)
    assert resolved == list(hosts)


def test_client_of_azure_connects_to_its_servers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of its endpoint is a number here, so the connection itself is checked."""
    with (
        socket.create_server(("127.0.0.1", 0)) as endpoint,
        socket.create_server(("127.0.0.1", 0)) as collector,
        use_sandbox(Confinement(str(tmp_path)), ()),
    ):
        address = f"https://127.0.0.1:{endpoint.getsockname()[1]}"
        monkeypatch.setenv("NF_AZURE_ENDPOINT", address)
        open_azure_client()
        socket.create_connection(endpoint.getsockname(), 5).close()
        with socket.socket() as client, pytest.raises(OSError, match="no client declared"):
            client.connect(("127.0.0.2", collector.getsockname()[1]))
