"""Run Keystone, as installed from PyPI, in a directory.

Run: python keystone_service.py DIRECTORY PORT.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from wsgiref.simple_server import make_server

from cryptography.fernet import Fernet
from keystone.cmd import manage
from keystone.server.wsgi import initialize_public_application

CONFIGURATION = """
[DEFAULT]
log_file = {directory}/keystone.log
[database]
connection = sqlite:///{directory}/keystone.db
[fernet_tokens]
key_repository = {directory}/keys
[fernet_receipts]
key_repository = {directory}/keys
[credential]
key_repository = {directory}/keys
"""


def run_command(path: Path, *words: str) -> None:
    """Run a command of keystone-manage in its own process.

    Each command reads the configuration once.
    """
    sys.argv = ["keystone-manage", "--config-file", str(path), *words]
    process = multiprocessing.get_context("fork").Process(target=manage.main)
    process.start()
    process.join()


def main() -> None:
    """Create keys, database and administrator, and serve until the process ends.

    The password is `secret`.
    """
    directory = Path(sys.argv[1])
    port = int(sys.argv[2])
    path = directory / "keystone.conf"
    keys = directory / "keys"
    path.write_text(CONFIGURATION.format(directory=directory))
    keys.mkdir(mode=0o700)
    for number in "01":
        (keys / number).write_bytes(Fernet.generate_key())
        (keys / number).chmod(0o600)
    run_command(path, "db_sync")
    run_command(
        path,
        "bootstrap",
        "--bootstrap-password",
        "secret",
        "--bootstrap-public-url",
        f"http://127.0.0.1:{port}/v3",
    )
    sys.argv = ["keystone"]
    os.environ["OS_KEYSTONE_CONFIG_DIR"] = str(directory)
    server = make_server("127.0.0.1", port, initialize_public_application())
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
