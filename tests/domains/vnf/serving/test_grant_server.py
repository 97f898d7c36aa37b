"""Tests of the NFVO of a plan: requests are granted or rejected.

Grants are identical after a restart.
"""

from __future__ import annotations

import base64
import fcntl
import io
import json
import signal
import socket
import ssl
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.serving.grant_decisions import PlannedGrants, list_planned_grants
from nexusform.domains.vnf.serving.grant_server import (
    GrantJournal,
    GrantServer,
    VnfPackageFile,
    list_packages,
)
from nexusform.workflow.opening.system_io import ConfinedFileAccess
from tests.certificates import create_certificate
from tests.git_repositories import run_git
from tests.planning.harness import plan, require_success
from tests.trust.test_plan_confinement import create_key_pair

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


def build_planned_grants(user_data: str = "StandardUserData") -> PlannedGrants:
    text = CONFIGURATION.replace("StandardUserData", user_data)
    configuration = text.replace('file("vnfd.yaml")', f"<<EOT\n{VNFD}EOT\n")
    return list_planned_grants(require_success(plan(configuration)).plan)


def build_grant_request(occurrence: str = "o1", **changed: Any) -> dict[str, Any]:
    added = [
        {"id": f"r{number}", "type": "COMPUTE", "resourceTemplateId": "worker"}
        for number in range(2)
    ]
    body = {
        "vnfInstanceId": "i1",
        "vnfLcmOpOccId": occurrence,
        "vnfdId": DESCRIPTOR,
        "operation": "INSTANTIATE",
    }
    return {**body, "addResources": added, **changed}


class GrantClient:
    def __init__(self, server: GrantServer) -> None:
        self.port = server.server_port
        self.headers = {
            "Authorization": f"Bearer {server.token}",
            "Content-Type": "application/json",
        }

    def send(
        self, method: str, path: str, body: Any = None, token: str | None = None, **changed: str
    ) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {**self.headers, **changed}
        if token is not None:
            headers["Authorization"] = token
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.status, answer.read()
        connection.close()
        return content

    def grant(self, body: Any, token: str | None = None) -> tuple[int, dict[str, Any]]:
        status, text = self.send("POST", "/grant/v1/grants", body, token)
        return status, json.loads(text)


@contextmanager
def run_grant_server(
    where: Path, planned: PlannedGrants, token: str = "", packages: Any = None
) -> Iterator[GrantClient]:
    journal = GrantJournal(str(where / "p.nfplan"), "digest")
    with GrantServer(("127.0.0.1", 0), planned, journal, packages or {}, token) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield GrantClient(server)
        finally:
            server.shutdown()
            thread.join()


def test_planned_request_is_granted_with_a_host_for_each_vm(tmp_path: Path) -> None:
    with run_grant_server(tmp_path, build_planned_grants()) as client:
        status, answer = client.grant(build_grant_request())
    assert status == 201
    zones = {zone["id"]: zone["zoneId"] for zone in answer["zones"]}
    assert all(zone.startswith("r:r-bm") for zone in zones.values())
    assert [row["resourceDefinitionId"] for row in answer["addResources"]] == ["r0", "r1"]
    assert all(row["zoneId"] in zones for row in answer["addResources"])


def test_location_of_grant_has_the_address_of_the_client(tmp_path: Path) -> None:
    """A server may listen on all addresses, as 0.0.0.0, which no client can use."""
    with run_grant_server(tmp_path, build_planned_grants()) as client:
        host = f"localhost:{client.port}"
        connection = HTTPConnection("127.0.0.1", client.port, timeout=20)
        body = json.dumps(build_grant_request())
        connection.request("POST", "/grant/v1/grants", body, {**client.headers, "Host": host})
        answer = connection.getresponse()
        grant = json.loads(answer.read())
        connection.close()
    assert answer.headers["Location"] == f"http://{host}/grant/v1/grants/{grant['id']}"


def test_link_of_grant_has_version_of_request(tmp_path: Path) -> None:
    with run_grant_server(tmp_path, build_planned_grants()) as client:
        for version in ("v1", "v2"):
            _, text = client.send("POST", f"/grant/{version}/grants", build_grant_request())
            answer = json.loads(text)
            assert answer["_links"]["self"]["href"] == f"/grant/{version}/grants/{answer['id']}"
    (journal,) = tmp_path.glob("*.grants")
    assert journal.stat().st_mode & 0o777 == 0o600


def test_default_user_data_gets_shared_zone(tmp_path: Path) -> None:
    # Tacker would put all VMs of a VDU on the host of the first grant.
    with run_grant_server(tmp_path, build_planned_grants("Other")) as client:
        _, answer = client.grant(build_grant_request())
    assert [zone["zoneId"] for zone in answer["zones"]] == ["r"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"operation": "SCALE"}, "The plan has no SCALE of this VNF"),
        ({"vnfdId": "other"}, "The plan has no INSTANTIATE of this VNF"),
        (
            {"addResources": []},
            "adds 2 x worker and removes none at tacker_vnf.v; the request adds none",
        ),
    ],
)
def test_request_missing_from_plan_is_rejected(
    changed: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with run_grant_server(tmp_path, build_planned_grants()) as client:
        status, answer = client.grant(build_grant_request(**changed))
    assert status == 403
    assert reason in answer["detail"]


def test_failed_plan_rejects_with_its_errors(tmp_path: Path) -> None:
    failed = PlannedGrants((), "The plan failed: No NUMA cell is free.")
    with run_grant_server(tmp_path, failed) as client:
        assert (
            client.grant(build_grant_request())[1]["detail"]
            == "The plan failed: No NUMA cell is free."
        )


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"vnfInstanceId": 1},
        build_grant_request(addResources=[1]),
        build_grant_request(addResources=[{}]),
    ],
)
def test_invalid_request_is_reported(body: Any, tmp_path: Path) -> None:
    with run_grant_server(tmp_path, build_planned_grants()) as client:
        assert client.grant(body)[0] == 400


@pytest.mark.parametrize("body", ["", "{", "\xff", "[" * 100_000])
def test_request_that_is_not_json_is_reported(body: str, tmp_path: Path) -> None:
    with run_grant_server(tmp_path, build_planned_grants()) as client:
        connection = HTTPConnection("127.0.0.1", client.port, timeout=20)
        connection.request("POST", "/grant/v1/grants", body.encode("latin-1"), client.headers)
        answer = connection.getresponse()
        assert answer.status == 400
        assert json.load(answer)["detail"].startswith("The body is not JSON: ")
        connection.close()


@pytest.mark.parametrize("length", ["\u00b2", "-1", "", "9" * 5000, str(5 << 20)])
def test_invalid_length_of_a_request_is_reported(length: str, tmp_path: Path) -> None:
    with run_grant_server(tmp_path, build_planned_grants()) as client:
        connection = HTTPConnection("127.0.0.1", client.port, timeout=20)
        connection.request(
            "POST", "/grant/v1/grants", headers={**client.headers, "Content-Length": length}
        )
        assert connection.getresponse().status == (413 if length == str(5 << 20) else 411)
        connection.close()


def test_restart_gives_same_answer_and_no_second_grant(tmp_path: Path) -> None:
    with run_grant_server(tmp_path, build_planned_grants()) as client:
        first = client.grant(build_grant_request())
    with (tmp_path / "p.nfplan.grants").open("a") as journal:
        # The process was killed during the write.
        journal.write('{"plan": "digest", "rec')
    with run_grant_server(tmp_path, build_planned_grants()) as client:
        assert client.grant(build_grant_request()) == first
        status, answer = client.grant(build_grant_request("o2"))
        assert status == 403
        assert "was granted before" in answer["detail"]


def test_two_servers_of_one_plan_grant_an_operation_once(tmp_path: Path) -> None:
    planned = build_planned_grants()
    with (
        run_grant_server(tmp_path, planned) as first,
        run_grant_server(tmp_path, planned) as second,
        ThreadPoolExecutor(8) as pool,
    ):
        requests = [
            ((first, second)[number % 2], build_grant_request(f"o{number}")) for number in range(16)
        ]
        answers = list(pool.map(lambda request: request[0].grant(request[1])[0], requests))
        assert sorted(answers) == [201, *[403] * 15]
        granted = answers.index(201)
        # Either server repeats the answer.
        request = build_grant_request(f"o{granted}")
        assert first.grant(request) == second.grant(request)
        assert first.grant(request)[0] == 201


def test_server_does_not_wait_forever_for_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexusform.domains.vnf.serving.grant_server._LOCK_SECONDS", 0.1)
    with (
        run_grant_server(tmp_path, build_planned_grants()) as client,
        (tmp_path / "p.nfplan.grants").open("a") as journal,
    ):
        fcntl.flock(journal, fcntl.LOCK_EX)
        status, answer = client.grant(build_grant_request())
        assert status == 500
        assert "another server of the plan holds its lock. Nothing was granted" in answer["detail"]


def test_retry_of_failed_operation_is_granted_again(tmp_path: Path) -> None:
    with run_grant_server(tmp_path, build_planned_grants()) as client:
        first = client.grant(build_grant_request())[1]
        again = build_grant_request(
            "o2",
            additionalParams={
                "nexusform-retry-of": f"other,{build_grant_request()['vnfLcmOpOccId']}"
            },
        )
        status, answer = client.grant(again)
        assert status == 201
        assert answer["zones"] == first["zones"]
        # Only the last operation may be repeated.
        assert client.grant({**again, "vnfLcmOpOccId": "o3"})[0] == 403
        assert (
            client.grant(build_grant_request("o3", additionalParams={"nexusform-retry-of": "o2"}))[
                0
            ]
            == 201
        )
        assert (
            client.grant(build_grant_request("o4", additionalParams={"nexusform-retry-of": "o2"}))[
                0
            ]
            == 403
        )
        assert client.grant(build_grant_request("o4", additionalParams=[1]))[0] == 403


def test_unwritable_journal_grants_nothing(tmp_path: Path) -> None:
    planned = build_planned_grants()
    with run_grant_server(tmp_path, planned) as client:
        (tmp_path / "p.nfplan.grants").mkdir()
        status, answer = client.grant(build_grant_request())
        assert status == 500
        assert "Nothing was granted" in answer["detail"]
        (tmp_path / "p.nfplan.grants").rmdir()
        assert client.grant(build_grant_request())[0] == 201


def test_token_is_required_and_passed_to_tacker_client(tmp_path: Path) -> None:
    def build_basic_header(password: str) -> str:
        return "Basic " + base64.b64encode(f"tacker:{password}".encode()).decode()

    with run_grant_server(tmp_path, build_planned_grants(), token="secret") as client:
        assert client.grant(build_grant_request(), "")[0] == 401
        assert client.grant(build_grant_request(), "Bearer wrong")[0] == 401
        assert client.send("GET", "/vnfpkgm/v2/onboarded_vnf_packages", token="")[0] == 401
        assert client.send("POST", "/token", {}, build_basic_header("wrong"))[0] == 401
        status, text = client.send("POST", "/token", {}, build_basic_header("secret"))
        assert (status, json.loads(text)["access_token"]) == (200, "secret")
        assert client.grant(build_grant_request(), "Bearer secret")[0] == 201


def write_packages(directory: Path) -> dict[str, VnfPackageFile]:
    with zipfile.ZipFile(directory / "edge.csar", "w") as archive:
        archive.writestr(
            "TOSCA-Metadata/TOSCA.meta",
            "TOSCA-Meta-File-Version: 1.0\nEntry-Definitions: Definitions/v.yaml\n",
        )
        archive.writestr("Definitions/v.yaml", VNFD)
        archive.writestr("Scripts/install.sh", "true\n")
    (directory / "broken.csar").write_text("no zip")
    found, problems = list_packages(str(directory), ConfinedFileAccess())
    assert len(problems) == 1
    return dict(found)


def test_packages_are_served_by_their_descriptor_id(tmp_path: Path) -> None:
    packages = write_packages(tmp_path)
    base = f"/vnfpkgm/v2/onboarded_vnf_packages/{DESCRIPTOR}"
    with run_grant_server(tmp_path, build_planned_grants(), packages=packages) as client:
        assert json.loads(client.send("GET", base)[1])["onboardingState"] == "ONBOARDED"
        assert client.send("GET", f"{base}/package_content") == (
            200,
            (tmp_path / "edge.csar").read_bytes(),
        )
        definitions = zipfile.ZipFile(io.BytesIO(client.send("GET", f"{base}/vnfd")[1]))
        assert definitions.namelist() == ["TOSCA-Metadata/TOSCA.meta", "Definitions/v.yaml"]
        assert client.send("GET", f"{base}x")[0] == 404
        assert client.send("GET", "/etc/passwd")[0] == 404


@pytest.mark.parametrize("content", [None, b"no zip"])
def test_package_replaced_while_served_is_an_error(content: bytes | None, tmp_path: Path) -> None:
    packages = write_packages(tmp_path)
    path = tmp_path / "edge.csar"
    path.unlink() if content is None else path.write_bytes(content)
    with run_grant_server(tmp_path, build_planned_grants(), packages=packages) as client:
        status, body = client.send("GET", f"/vnfpkgm/v2/onboarded_vnf_packages/{DESCRIPTOR}/vnfd")
    assert status == 500
    assert json.loads(body)["detail"] == "The file of the package is missing, too large or damaged."


@pytest.mark.parametrize("confined", [True, False])
def test_package_symlink_outside_sandbox_is_not_served(
    confined: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    write_packages(tmp_path / "outside")
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "packages").mkdir()
    (tree / "packages" / "linked.csar").symlink_to(tmp_path / "outside" / "edge.csar")
    (tree / "main.nf.hcl").write_text(CONFIGURATION)
    (tree / "vnfd.yaml").write_text(VNFD)
    monkeypatch.chdir(tree)
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=0"]) == 0
    served: list[str] = []

    def reject_address(
        _address: object, _planned: object, _journal: object, packages: Any, *_: object
    ) -> GrantServer:
        served.extend(packages)
        raise OSError(98, "Address already in use")

    monkeypatch.setattr("nexusform.domains.vnf.serving.grant_server.GrantServer", reject_address)
    flags = ["-plan=p.nfplan", "-packages=packages", "-confine" if confined else "-confine=false"]
    assert run_command_line(["serve", "sol003", *flags]) == 1
    assert served == ([] if confined else [DESCRIPTOR])


def reject_listening(*_: object) -> GrantServer:
    raise OSError(98, "Address already in use")


@pytest.mark.parametrize("key", ["public", "other", "missing"])
@pytest.mark.parametrize("is_signed", [True, False])
def test_plan_without_the_required_signature_is_not_served(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    key: str,
    *,
    is_signed: bool,
) -> None:
    private_key, public_key = create_key_pair(tmp_path)
    (tmp_path / "more").mkdir()
    _, other_key = create_key_pair(tmp_path / "more")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    Path("vnfd.yaml").write_text(VNFD)
    sign = [f"-sign={private_key}", "-confine=false"] if is_signed else []
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=0", *sign]) == 0
    # The end of a server that verified its plan.
    monkeypatch.setattr("nexusform.domains.vnf.serving.grant_server.GrantServer", reject_listening)
    path = {"public": public_key, "other": other_key, "missing": "no.pem"}[key]
    capfd.readouterr()
    assert run_command_line(["serve", "sol003", "-plan=p.nfplan", f"-verify=key:{path}"]) == 1
    error = capfd.readouterr().err
    is_valid = is_signed and key == "public"
    assert ("Address already in use" in error) is is_valid
    assert ("Saved plan not verified" in error) is not is_valid


@pytest.mark.parametrize("age", [3600, 3 * 3600])
def test_verified_plan_over_its_age_is_not_served(
    age: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    private_key, public_key = create_key_pair(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    Path("vnfd.yaml").write_text(VNFD)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    flags = ["-out=p.nfplan", "-samples=0", "-max-age=2h", "-confine=false"]
    assert run_command_line(["plan", *flags, f"-sign={private_key}"]) == 0
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1800000000 + age))
    monkeypatch.setattr("nexusform.domains.vnf.serving.grant_server.GrantServer", reject_listening)
    capfd.readouterr()
    assert run_command_line(["serve", "sol003", "-plan=p.nfplan", f"-verify=key:{public_key}"]) == 1
    error = capfd.readouterr().err
    assert ("Its maximum age is 2h." in " ".join(error.replace("│", " ").split())) is (age > 7200)
    assert ("Address already in use" in error) is (age < 7200)


@pytest.mark.parametrize(
    ("obstacle", "message"),
    [
        ("withdrawal", "withdraws this plan."),
        ("age", "Its maximum age is 1h."),
        ("directory", 'The plan is for the directory "lab" (here it is "prod").'),
    ],
)
def test_plan_that_apply_rejects_is_not_served(
    obstacle: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    private_key, public_key = create_key_pair(tmp_path)
    run_git(tmp_path, "init", "-q", "work")
    for name in ("lab", "prod"):
        (tmp_path / "work" / name).mkdir()
        (tmp_path / "work" / name / "main.nf.hcl").write_text(CONFIGURATION)
        (tmp_path / "work" / name / "vnfd.yaml").write_text(VNFD)
    monkeypatch.chdir(tmp_path / "work" / "lab")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=0"]) == 0
    flags = ["-plan=p.nfplan"]
    if obstacle == "withdrawal":
        sign = ["sign", f"-key={private_key}", "-confine=false", "p.nfplan"]
        assert run_command_line(sign) == 0
        assert run_command_line(["sign", "-withdraw", f"-key={private_key}", "p.nfplan"]) == 0
        revocations = tmp_path / "p.revocations.json"
        Path("p.nfplan.revocations.json").rename(revocations)
        flags += [f"-verify=key:{public_key}", f"-revocations={revocations}"]
    elif obstacle == "age":
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1800000000 + 7200))
        flags.append("-max-age=1h")
    else:
        Path("p.nfplan").rename("../prod/p.nfplan")
        monkeypatch.chdir("../prod")
    monkeypatch.setattr("nexusform.domains.vnf.serving.grant_server.GrantServer", reject_listening)
    capfd.readouterr()
    assert run_command_line(["serve", "sol003", *flags]) == 1
    error = " ".join(capfd.readouterr().err.replace("│", " ").split())
    assert message in error, error
    assert "Address already in use" not in error


def test_failed_plan_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION.replace("= nexus_site.s.id", "= missing.s.id"))
    Path("vnfd.yaml").write_text(VNFD)
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=0"]) == 1
    monkeypatch.setattr("nexusform.domains.vnf.serving.grant_server.GrantServer", reject_listening)
    capfd.readouterr()
    assert run_command_line(["serve", "sol003", "-plan=p.nfplan"]) == 1
    error = " ".join(capfd.readouterr().err.replace("│", " ").split())
    assert "run `nexusform plan -out=p.nfplan` again" in error, error
    assert "Address already in use" not in error


@pytest.mark.parametrize("value", ["replan", "key:", "other"])
def test_only_keys_verify_a_served_plan(value: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["serve", "sol003", "-plan=p.nfplan", f"-verify={value}"]) == 1
    assert "Use -verify=key:FILE" in capfd.readouterr().err


@pytest.mark.parametrize("port", ["²", "9" * 5000, "65536", "-1", ""])
def test_invalid_port_is_rejected(
    port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["serve", "sol003", "-plan=p.nfplan", f"-listen=127.0.0.1:{port}"]) != 0
    assert "is not an IPv4 address and port" in " ".join(capfd.readouterr().err.split())


def test_non_loopback_address_requires_certificate_and_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["serve", "sol003", "-plan=p.nfplan", "-listen=0.0.0.0:9990"]) == 1
    assert "-listen: other than loopback addresses need" in " ".join(capfd.readouterr().err.split())


def test_sigterm_stops_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text(CONFIGURATION)
    (tmp_path / "vnfd.yaml").write_text(VNFD)
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=0"]) == 0
    command = [
        sys.executable,
        "-m",
        "nexusform",
        "serve",
        "sol003",
        "-plan=p.nfplan",
        "-listen=127.0.0.1:0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(3)]
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    assert lines[1] == "Operations in the plan: INSTANTIATE tacker_vnf.v\n"


def test_tls_with_a_self_signed_certificate(tmp_path: Path) -> None:
    certificate, key = create_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    journal = GrantJournal(str(tmp_path / "p.nfplan"), "digest")
    with GrantServer(
        ("127.0.0.1", 0), build_planned_grants(), journal, {}, "secret", context
    ) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        assert server.url.startswith("https://")
        # This client never starts its handshake.
        silent = socket.create_connection(("127.0.0.1", server.server_port))
        try:
            trusted = ssl.create_default_context(cafile=str(certificate))
            connection = HTTPSConnection(
                "127.0.0.1", server.server_port, timeout=20, context=trusted
            )
            connection.request(
                "POST",
                "/grant/v1/grants",
                json.dumps(build_grant_request()),
                {"Authorization": "Bearer secret", "Content-Type": "application/json"},
            )
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
