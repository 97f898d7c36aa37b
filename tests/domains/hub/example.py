"""`python -m tests.domains.hub.example`.

Run the example examples/fleet-hub against our own hub server.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from nexusform.cli.main import run_command_line
from tests.domains.hub.hub_controller import Controller, build_member
from tests.domains.hub.hub_server import HubServer

EXAMPLE = Path(__file__).parents[3] / "examples" / "fleet-hub"


def main() -> int:
    server = HubServer()
    for name in ("ams1", "fra1", "lon1", "par1"):
        server.put(build_member(name, env="prod"), "join")
    server.controller = Controller()
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory) / "fleet-hub"
        shutil.copytree(EXAMPLE, here)
        os.environ["NF_FLEET_KUBECONFIG"] = str(server.kubeconfig(Path(directory)))
        os.chdir(here)
        codes = [
            run_command_line(words.split())
            for words in ("apply -auto-approve", "plan", "destroy -auto-approve")
        ]
        os.chdir(EXAMPLE)
    server.close()
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
