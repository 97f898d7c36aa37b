"""The NFVO of a plan: what it grants, what it rejects, and that a restart grants the same."""

from __future__ import annotations

import base64
import io
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.serving.grant_decisions import PlannedGrants, list_planned_grants
from nexusform.domains.vnf.serving.grant_journal import GrantJournal
from nexusform.domains.vnf.serving.grant_server import GrantServer
from nexusform.domains.vnf.serving.vnf_packages import VnfPackageFile, list_packages
from nexusform.workflow.opening.system_io import ConfinedFileAccess
from tests.planning.harness import plan, require_success

VNFD = """tosca_definitions_version: tosca_simple_yaml_1_2
topology_template:
  node_templates:
    VNF:
      type: company.VNF
      properties: {descriptor_id: b1bb0ce7-ebca-4fa7-95ed-4840d70a1177}
    worker:
      type: tosca.nodes.nfv.Vdu.Compute
      properties:
        vdu_profile: {min_number_of_instances: 2, max_number_of_instances: 4}
"""
DESCRIPTOR = "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177"
CONFIGURATION = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = 4
}
resource "tacker_vnf" "v" {
  site_id = nexus_site.s.id
  vnfd    = file("vnfd.yaml")
  parameters = { lcm-operation-user-data-class = "StandardUserData" }
  vdu "worker" { vm_sku_name = "NC_G2_8_v1" }
}
"""


def planned_grants(user_data: str = "StandardUserData") -> PlannedGrants:
    text = CONFIGURATION.replace("StandardUserData", user_data)
    configuration = text.replace('file("vnfd.yaml")', f"<<EOT\n{VNFD}EOT\n")
    return list_planned_grants(require_success(plan(configuration)).plan)


def request(occurrence: str = "o1", **changed: Any) -> dict[str, Any]:
    added = [{"id": f"r{number}", "type": "COMPUTE", "resourceTemplateId": "worker"} for number in range(2)]
    body = {"vnfInstanceId": "i1", "vnfLcmOpOccId": occurrence, "vnfdId": DESCRIPTOR, "operation": "INSTANTIATE"}
    return {**body, "addResources": added, **changed}


class Client:
    def __init__(self, server: GrantServer) -> None:
        self.port = server.server_port

    def send(self, method: str, path: str, body: Any = None, token: str = "") -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {"Authorization": token} if token else {}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.status, answer.read()
        connection.close()
        return content

    def grant(self, body: Any, token: str = "") -> tuple[int, dict[str, Any]]:
        status, text = self.send("POST", "/grant/v1/grants", body, token)
        return status, json.loads(text)


@contextmanager
def serving(where: Path, planned: PlannedGrants, token: str = "", packages: Any = None) -> Iterator[Client]:
    journal = GrantJournal(str(where / "p.nfplan"), "digest")
    with GrantServer(("127.0.0.1", 0), planned, journal, packages or {}, token) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Client(server)
        finally:
            server.shutdown()
            thread.join()


def test_a_request_of_the_plan_is_granted_with_a_host_for_each_vm(tmp_path: Path) -> None:
    with serving(tmp_path, planned_grants()) as client:
        status, answer = client.grant(request())
    assert status == 201
    zones = {zone["id"]: zone["zoneId"] for zone in answer["zones"]}
    assert all(zone.startswith("r:r-bm") for zone in zones.values())
    assert [row["resourceDefinitionId"] for row in answer["addResources"]] == ["r0", "r1"]
    assert all(row["zoneId"] in zones for row in answer["addResources"])


def test_the_link_of_a_grant_has_the_version_of_the_request(tmp_path: Path) -> None:
    with serving(tmp_path, planned_grants()) as client:
        for version in ("v1", "v2"):
            _, text = client.send("POST", f"/grant/{version}/grants", request())
            answer = json.loads(text)
            assert answer["_links"]["self"]["href"] == f"/grant/{version}/grants/{answer['id']}"
    (journal,) = tmp_path.glob("*.grants")
    assert journal.stat().st_mode & 0o777 == 0o600


def test_the_default_user_data_gets_the_shared_zone(tmp_path: Path) -> None:
    # Tacker would put all VMs of a VDU on the host of the first grant.
    with serving(tmp_path, planned_grants("Other")) as client:
        _, answer = client.grant(request())
    assert [zone["zoneId"] for zone in answer["zones"]] == ["r"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"operation": "SCALE"}, "The plan has no SCALE of this VNF"),
        ({"vnfdId": "other"}, "The plan has no INSTANTIATE of this VNF"),
        ({"addResources": []}, "adds 2 x worker and removes none at tacker_vnf.v; the request adds none"),
    ],
)
def test_a_request_that_the_plan_lacks_is_rejected(changed: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with serving(tmp_path, planned_grants()) as client:
        status, answer = client.grant(request(**changed))
    assert status == 403
    assert reason in answer["detail"]


def test_a_failed_plan_rejects_with_its_errors(tmp_path: Path) -> None:
    failed = PlannedGrants((), "The plan failed: No NUMA cell is free.")
    with serving(tmp_path, failed) as client:
        assert client.grant(request())[1]["detail"] == "The plan failed: No NUMA cell is free."


@pytest.mark.parametrize("body", [[], {}, {"vnfInstanceId": 1}, request(addResources=[1]), request(addResources=[{}])])
def test_an_invalid_request_is_named(body: Any, tmp_path: Path) -> None:
    with serving(tmp_path, planned_grants()) as client:
        assert client.grant(body)[0] == 400


def test_a_restart_gives_the_same_answer_and_no_second_grant(tmp_path: Path) -> None:
    with serving(tmp_path, planned_grants()) as client:
        first = client.grant(request())
    with (tmp_path / "p.nfplan.grants").open("a") as journal:
        journal.write('{"plan": "digest", "rec')  # the process was killed while it wrote
    with serving(tmp_path, planned_grants()) as client:
        assert client.grant(request()) == first
        status, answer = client.grant(request("o2"))
        assert status == 403
        assert "was granted before" in answer["detail"]


def test_an_operation_that_names_the_failed_one_is_granted_again(tmp_path: Path) -> None:
    with serving(tmp_path, planned_grants()) as client:
        first = client.grant(request())[1]
        again = request("o2", additionalParams={"nexusform-retry-of": f"other,{request()['vnfLcmOpOccId']}"})
        status, answer = client.grant(again)
        assert status == 201
        assert answer["zones"] == first["zones"]
        # Only the last operation may be repeated.
        assert client.grant({**again, "vnfLcmOpOccId": "o3"})[0] == 403
        assert client.grant(request("o3", additionalParams={"nexusform-retry-of": "o2"}))[0] == 201
        assert client.grant(request("o4", additionalParams={"nexusform-retry-of": "o2"}))[0] == 403
        assert client.grant(request("o4", additionalParams=[1]))[0] == 403


def test_a_journal_that_cannot_be_written_grants_nothing(tmp_path: Path) -> None:
    planned = planned_grants()
    with serving(tmp_path, planned) as client:
        (tmp_path / "p.nfplan.grants").mkdir()
        status, answer = client.grant(request())
        assert status == 500
        assert "Nothing was granted" in answer["detail"]
        (tmp_path / "p.nfplan.grants").rmdir()
        assert client.grant(request())[0] == 201


def test_the_token_is_required_and_given_to_the_client_of_tacker(tmp_path: Path) -> None:
    def basic(password: str) -> str:
        return "Basic " + base64.b64encode(f"tacker:{password}".encode()).decode()

    with serving(tmp_path, planned_grants(), token="secret") as client:
        assert client.grant(request())[0] == 401
        assert client.grant(request(), "Bearer wrong")[0] == 401
        assert client.send("GET", "/vnfpkgm/v2/onboarded_vnf_packages")[0] == 401
        assert client.send("POST", "/token", {}, basic("wrong"))[0] == 401
        status, text = client.send("POST", "/token", {}, basic("secret"))
        assert (status, json.loads(text)["access_token"]) == (200, "secret")
        assert client.grant(request(), "Bearer secret")[0] == 201


def packages_in(directory: Path) -> dict[str, VnfPackageFile]:
    with zipfile.ZipFile(directory / "edge.csar", "w") as archive:
        archive.writestr(
            "TOSCA-Metadata/TOSCA.meta", "TOSCA-Meta-File-Version: 1.0\nEntry-Definitions: Definitions/v.yaml\n"
        )
        archive.writestr("Definitions/v.yaml", VNFD)
        archive.writestr("Scripts/install.sh", "true\n")
    (directory / "broken.csar").write_text("no zip")
    found, problems = list_packages(str(directory), ConfinedFileAccess())
    assert len(problems) == 1
    return dict(found)


def test_packages_are_served_by_their_descriptor(tmp_path: Path) -> None:
    packages = packages_in(tmp_path)
    base = f"/vnfpkgm/v2/onboarded_vnf_packages/{DESCRIPTOR}"
    with serving(tmp_path, planned_grants(), packages=packages) as client:
        assert json.loads(client.send("GET", base)[1])["onboardingState"] == "ONBOARDED"
        assert client.send("GET", f"{base}/package_content") == (200, (tmp_path / "edge.csar").read_bytes())
        definitions = zipfile.ZipFile(io.BytesIO(client.send("GET", f"{base}/vnfd")[1]))
        assert definitions.namelist() == ["TOSCA-Metadata/TOSCA.meta", "Definitions/v.yaml"]
        assert client.send("GET", f"{base}x")[0] == 404
        assert client.send("GET", "/etc/passwd")[0] == 404


@pytest.mark.parametrize("confined", [True, False])
def test_a_package_of_a_sandboxed_directory_is_no_link_to_the_outside(
    confined: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    packages_in(tmp_path / "outside")
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "packages").mkdir()
    (tree / "packages" / "linked.csar").symlink_to(tmp_path / "outside" / "edge.csar")
    (tree / "main.nf.hcl").write_text(CONFIGURATION)
    (tree / "vnfd.yaml").write_text(VNFD)
    monkeypatch.chdir(tree)
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=0"]) == 0
    served: list[str] = []

    def refuse(_address: object, _planned: object, _journal: object, packages: Any, *_: object) -> GrantServer:
        served.extend(packages)
        raise OSError(98, "Address already in use")

    monkeypatch.setattr("nexusform.domains.vnf.serving.grant_server.GrantServer", refuse)
    flags = ["-plan=p.nfplan", "-packages=packages", "-confine" if confined else "-confine=false"]
    assert run_command_line(["serve", "sol003", *flags]) == 1
    assert served == ([] if confined else [DESCRIPTOR])


def test_only_loopback_without_certificate_and_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["serve", "sol003", "-plan=p.nfplan", "-listen=0.0.0.0:9990"]) == 1
    assert "-listen: other than loopback addresses need" in " ".join(capfd.readouterr().err.split())


def test_sigterm_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text(CONFIGURATION)
    (tmp_path / "vnfd.yaml").write_text(VNFD)
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=0"]) == 0
    command = [sys.executable, "-m", "nexusform", "serve", "sol003", "-plan=p.nfplan", "-listen=127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(3)]
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    assert lines[1] == "Operations in the plan: INSTANTIATE tacker_vnf.v\n"


def test_tls_with_a_self_signed_certificate(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    journal = GrantJournal(str(tmp_path / "p.nfplan"), "digest")
    with GrantServer(("127.0.0.1", 0), planned_grants(), journal, {}, "secret", context) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        assert server.url.startswith("https://")
        silent = socket.create_connection(("127.0.0.1", server.server_port))  # never starts its handshake
        try:
            trusted = ssl.create_default_context(cafile=str(certificate))
            connection = HTTPSConnection("127.0.0.1", server.server_port, timeout=20, context=trusted)
            connection.request("POST", "/grant/v1/grants", json.dumps(request()), {"Authorization": "Bearer secret"})
            assert connection.getresponse().status == 201
            connection.close()
            stranger = HTTPSConnection(
                "127.0.0.1", server.server_port, timeout=20, context=ssl.create_default_context()
            )
            with pytest.raises(ssl.SSLCertVerificationError):
                stranger.request("GET", "/vnfpkgm/v2/onboarded_vnf_packages")
        finally:
            silent.close()
            server.shutdown()
            thread.join()
