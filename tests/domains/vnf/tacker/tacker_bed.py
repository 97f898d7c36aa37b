"""Test bed of a running Tacker with Keystone, Heat and an NFVO serving saved plans."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from nexusform.cli.main import run_command_line
from nexusform.cli.shared_flags import create_context
from nexusform.domains.vnf.serving.grant_decisions import list_planned_grants
from nexusform.domains.vnf.serving.grant_server import GrantJournal, GrantServer, list_packages
from nexusform.workflow.opening.system_io import ConfinedFileAccess
from nexusform.workflow.plan_files.saved_plans import read_plan
from tests.domains.vnf.tacker.heat_stand_in import OpenStackStandIn
from tests.domains.vnf.tacker.packages import PackageSpec, build_request, write_package

TACKER = shutil.which(os.environ.get("NEXUSFORM_TACKER", ""))
Server = TypeVar("Server", bound=GrantServer)
MISSING = (
    "Tacker is not installed (pip install tacker==16.0.0 into an environment of its own, "
    "NEXUSFORM_TACKER=its python)"
)


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def run_server(server: Server) -> Iterator[Server]:
    """Run a server in a thread, and close it at the end."""
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class TackerBed:
    """Tacker, the services around it, and the project of one scenario."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.directory = directory
        self.heat = OpenStackStandIn()
        self.port = find_port()
        self.nfvo_port = find_port()
        self.settings = ("default_graceful_termination_timeout=0", *settings)
        self.process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        assert TACKER is not None
        self.directory.mkdir(parents=True, exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        script = str(Path(__file__).with_name("tacker_service.py"))
        nfvo = f"http://127.0.0.1:{self.nfvo_port}"
        with (self.directory / "errors.txt").open("a") as errors:
            self.process = subprocess.Popen(
                [
                    TACKER,
                    "-W",
                    "ignore",
                    script,
                    str(self.directory),
                    str(self.port),
                    nfvo,
                    f"{self.heat.url}/v3",
                    *self.settings,
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "ready", (
            self.directory / "errors.txt"
        ).read_text()[-2000:]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def close(self) -> None:
        self.kill()
        self.heat.shutdown()
        self.heat.server_close()

    def get(self, path: str) -> Any:
        request = urllib.request.Request(
            f"{self.url}/vnflcm/v2{path}", headers={"Version": "2.0.0"}
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def post(self, path: str, body: Any, seconds: float = 0) -> Any:
        """Send a request and return its content.

        Retry for `seconds` while the lock of the last operation is held.
        """
        headers = {"Version": "2.0.0", "Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self.url}/vnflcm/v2{path}", json.dumps(body).encode(), headers
        )
        end = time.monotonic() + seconds
        while True:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    content = answer.read()
                return json.loads(content) if content else {}
            except urllib.error.HTTPError as problem:
                if problem.code != HTTPStatus.CONFLICT or time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def wait_for_failure(self) -> str:
        """Return the error of the newest operation after its failure."""
        for _ in range(300):
            newest = max(self.get("/vnf_lcm_op_occs"), key=lambda row: str(row["startTime"]))
            if newest["operationState"] in ("FAILED_TEMP", "FAILED", "ROLLED_BACK"):
                return str(self.get(f"/vnf_lcm_op_occs/{newest['id']}")["error"]["detail"])
            time.sleep(0.1)
        raise AssertionError("the newest operation did not fail")

    def wait_for_operations(self) -> None:
        """Return when no operation is in progress."""
        for _ in range(300):
            states = {row["operationState"] for row in self.get("/vnf_lcm_op_occs")}
            if not states & {"STARTING", "PROCESSING", "ROLLING_BACK"}:
                return
            time.sleep(0.1)
        raise AssertionError("an operation did not end")

    def list_instances(self) -> list[Any]:
        return [self.get(f"/vnf_instances/{row['id']}") for row in self.get("/vnf_instances")]


CONFIGURATION = """
provider "tacker" {{
  endpoint = "{url}"
  auth     = "none"
  {provider}
}}
resource "nexus_site" "s" {{}}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.s.id
  machine_count = {machines}
}}
resource "tacker_vnf" "v" {{
  provider            = tacker
  name                = "{name}"
  site_id             = nexus_site.s.id
  csar                = "packages/{name}.csar"
  flavour_id          = "simple"
  instantiate_request = file("request.json")
  scale_levels        = {levels}
}}
"""


class Scenario:
    """One VNF in the current directory."""

    def __init__(
        self, bed: TackerBed, spec: PackageSpec, machines: int = 6, provider: str = ""
    ) -> None:
        self.bed = bed
        self.spec = spec
        self.machines = machines
        self.provider = provider
        write_package(spec, Path("packages"))
        Path("request.json").write_text(build_request(spec))
        self.number = 0

    def configure(self, **levels: int) -> None:
        values = "{ " + ", ".join(f"{name} = {level}" for name, level in levels.items()) + " }"
        text = CONFIGURATION.format(
            url=self.bed.url,
            machines=self.machines,
            name=self.spec.name,
            levels=values,
            provider=self.provider,
        )
        Path("main.nf.hcl").write_text(text)

    def plan(self, *flags: str) -> str:
        self.number += 1
        path = f"p{self.number}.nfplan"
        assert run_command_line(["plan", f"-out={path}", "-samples=5", *flags]) == 0
        return path

    @contextmanager
    def serve(self, path: str) -> Iterator[GrantServer]:
        """Run the NFVO with a saved plan."""
        saved, _ = read_plan(path, create_context())
        assert saved is not None
        planned = list_planned_grants(saved.plan)
        packages, problems = list_packages("packages", ConfinedFileAccess())
        assert problems == []
        journal = GrantJournal(path, saved.digest)
        address = ("127.0.0.1", self.bed.nfvo_port)
        with run_server(GrantServer(address, planned, journal, packages, "secret")) as server:
            yield server

    def apply(self, path: str, *flags: str) -> int:
        with self.serve(path):
            return run_command_line(["apply", *flags, path])

    def run(self, *flags: str, **levels: int) -> int:
        self.configure(**levels)
        return self.apply(self.plan(*flags))

    def read_vnf(self, capfd: Any) -> dict[str, Any]:
        """Return the VNF in the state."""
        capfd.readouterr()
        assert run_command_line(["show", "-json"]) == 0
        state = json.loads(capfd.readouterr().out)
        return next(
            row["values"] for row in _list_resources(state) if row["address"] == "tacker_vnf.v"
        )


def _list_resources(state: Any) -> list[Any]:
    root = state["values"]["root_module"] if "values" in state else state
    return list(root["resources"])
