"""Running sshd on loopback for the user of the tests, with keys of its own."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from tests.contracts.servers import find_free_port, run_program
from tests.programs import find_program

# Debian and others keep it out of the PATH of users.
_SBIN = "/usr/sbin:/usr/local/sbin"


class SshServer(Struct, frozen=True):
    """Address of the server, and the command of git that reaches it with the client's key."""

    address: str
    command: str


@contextmanager
def run_sshd(directory: Path) -> Iterator[SshServer]:
    """Run sshd with one accepted key; skip the test if it is not installed."""
    program = find_program("sshd", path=f"{os.environ['PATH']}:{_SBIN}")
    if program is None or find_program("ssh") is None:
        pytest.skip("no sshd (openssh-server) and ssh")
    directory.mkdir(mode=0o700)
    for name in ("host", "client"):
        key = directory / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    if os.getuid() == 0:
        # sshd of root does not start without the directory of its unprivileged process.
        Path("/run/sshd").mkdir(exist_ok=True)
    port = find_free_port()
    settings = directory / "sshd_config"
    settings.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nUsePAM no\n"
        f"AuthorizedKeysFile {directory}/client.pub\nStrictModes no\nPidFile none\n"
        "PasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    known_hosts = directory / "known_hosts"
    host_key = (directory / "host.pub").read_text()
    known_hosts.write_text(f"[127.0.0.1]:{port} {host_key}")
    client = (
        f"ssh -F none -i {directory}/client -o IdentitiesOnly=yes "
        f"-o UserKnownHostsFile={known_hosts} -o StrictHostKeyChecking=yes"
    )
    with run_program([program, "-D", "-e", "-f", str(settings)], port, directory):
        yield SshServer(f"{getpass.getuser()}@127.0.0.1:{port}", client)
