"""Tests of provider azure: the client of the SDK with response bodies of Azure Resource Manager."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.azure.providers import azure, azure_subscription
from nexusform.interfaces.plugins import ProviderProblem

CASES = Path(__file__).parents[1] / "importers" / "cases" / "azure" / "clusters-055"
pytest.importorskip("azure.mgmt.networkcloud")
from azure.core.credentials import AccessToken  # noqa: E402
from azure.core.exceptions import ServiceResponseTimeoutError  # noqa: E402
from azure.core.pipeline.transport import HttpTransport  # noqa: E402
from azure.core.rest._requests_basic import RestRequestsTransportResponse  # noqa: E402
from azure.mgmt.networkcloud import NetworkCloudMgmtClient  # noqa: E402

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
ANOTHER = "ffffffff-0000-0000-0000-000000000002"
TYPES = {
    "racks": "racks",
    "bareMetalMachines": "bare_metal_machines",
    "kubernetesClusters": "kubernetes_clusters",
}


class RecordedTransport(HttpTransport):
    """Transport with lists from the bodies of a recorded site, two per page.

    `status` applies to all responses.
    """

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.asked: list[str] = []
        # types with lists forbidden for the client.
        self.refused: frozenset[str] = frozenset()
        self.supplies: dict[str, list[dict[str, Any]]] = {}

    def send(self, request: Any, **_: Any) -> Any:
        import requests
        from urllib3 import HTTPResponse

        url = urlsplit(request.url)
        self.asked.append(url.path)
        response = requests.Response()
        is_refused = url.path.rpartition("/")[2] in self.refused
        response.status_code = 403 if is_refused else self.status
        response.headers["Content-Type"] = "application/json"
        body = json.dumps(self._build_body(url)).encode()
        response.raw = HTTPResponse(BytesIO(body), preload_content=False)
        return RestRequestsTransportResponse(request=request, internal_response=response)

    def _build_body(self, url: Any) -> dict[str, Any]:
        if url.path.rpartition("/")[2] in self.supplies:
            return {"value": self.supplies[url.path.rpartition("/")[2]]}
        kind = TYPES.get(url.path.rpartition("/")[2])
        path = CASES / f"{kind}.json"
        bodies = json.loads(path.read_text())["value"] if kind else []
        first = 2 if "page=2" in url.query else 0
        page: dict[str, Any] = {"value": bodies[first : first + 2] if not first else bodies[first:]}
        if len(bodies) > 2 and not first:
            page["nextLink"] = f"https://management.azure.com{url.path}?page=2"
        return page

    def open(self) -> None: ...

    def close(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class FakeCredential:
    def get_token(self, *_: str, **__: Any) -> AccessToken:
        return AccessToken("token", 2**40)


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> RecordedTransport:
    transport = RecordedTransport()

    def client(subscription_id: str) -> Any:
        return NetworkCloudMgmtClient(
            FakeCredential(), subscription_id, transport=transport, retry_total=0
        )

    monkeypatch.setattr(azure_subscription, "create_client", client)
    return transport


def test_site_is_imported_from_azure_and_read_at_every_plan(
    arm: RecordedTransport,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["import", "-from=azure", "-generate-config-out=site.nf.hcl"]) == 1
    assert "AZURE_SUBSCRIPTION_ID" in capsys.readouterr().err
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", SUBSCRIPTION)
    assert run_command_line(["import", "-from=azure", "-generate-config-out=site.nf.hcl"]) == 0
    assert "5 machines, 1 cluster; 5 VMs imported" in capsys.readouterr().out
    assert any(path.endswith("/agentPools") for path in arm.asked)
    assert f'subscription_id = "{SUBSCRIPTION}"' in Path("site.nf.hcl").read_text()
    asked = len(arm.asked)
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0
    assert "No changes." in capsys.readouterr().out
    assert len(arm.asked) > asked


def test_networks_and_storage_are_read_as_far_as_permitted(
    arm: RecordedTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", SUBSCRIPTION)
    top = {"location": "eastus"}
    scope = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.NetworkCloud"
    arm.supplies = {
        "l3Networks": [
            {
                **top,
                "id": f"{scope}/l3Networks/n",
                "name": "n",
                "properties": {
                    "ipv4ConnectedPrefix": "10.0.0.0/28",
                    "vlan": 5,
                    "l3IsolationDomainId": "/i",
                },
            }
        ],
        "storageAppliances": [
            {
                **top,
                "id": f"{scope}/storageAppliances/s",
                "name": "s",
                "properties": {"capacity": 100, "capacityUsed": 40},
            }
        ],
    }
    arm.refused = frozenset({"volumes"})
    assert run_command_line(["import", "-from=azure", "-generate-config-out=site.nf.hcl"]) == 0
    assert run_command_line(["plan", "-detailed-exitcode", "-report=json:plan.json"]) == 0
    rows = json.loads(Path("plan.json").read_text())["capacity_other"]
    found = {(row["kind"], row["name"]): (row["total"], row["used_after"]) for row in rows}
    assert found["l3_network", "n"] == (14, None)
    assert found["storage_appliance", "s"] == (100, 40)
    assert found["volumes", None] == (100, None)


def read_output(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).replace("│", " ").split())


BLOCK = f"""
provider "azure" {{
  subscription_id = "{ANOTHER}"
}}
resource "nexus_site" "s" {{
  provider = azure
}}
"""
COMPUTED = BLOCK.replace(f'"{ANOTHER}"', f'join("-", ["{ANOTHER[:8]}", "{ANOTHER[9:]}"])')
ALIASED = BLOCK.replace("{\n", '{\n  alias = "b"\n', 1).replace("= azure", "= azure.b")
TAKEN_OVER = ["import", "-from=azure", "-generate-config-out=site.nf.hcl"]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (BLOCK, ["plan"]),
        (COMPUTED, ["plan"]),
        (ALIASED, ["plan"]),
        (BLOCK, ["apply", "-auto-approve"]),
        (BLOCK, ["import", "nexus_site.s", "lon1"]),
        (BLOCK, TAKEN_OVER),
    ],
)
def test_confined_run_accesses_no_other_subscription(
    text: str,
    command: list[str],
    arm: RecordedTransport,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A pull request cannot direct the credentials of a job to other than allowed addresses."""
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(text)
    for own in (SUBSCRIPTION, ""):
        monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", own)
        assert run_command_line([*command, "-confine"]) == 1
        told = read_output(capsys)
        address = f"https://management.azure.com/subscriptions/{ANOTHER}"
        assert f'The address "{address}" is set in the configuration' in told
        assert "Leave subscription_id out, and set AZURE_SUBSCRIPTION_ID" in told
        assert "on main.nf.hcl line 2" in told
        assert not Path("site.nf.hcl").exists()
    assert arm.asked == []
    run_command_line([*command, "-confine", f"-allow-remote={address}"])
    assert arm.asked
    assert all(path.startswith(f"/subscriptions/{ANOTHER}/") for path in arm.asked)


@pytest.mark.parametrize("written", ["", f'subscription_id = "{SUBSCRIPTION}"'])
def test_confined_run_accesses_subscription_of_environment(
    written: str, arm: RecordedTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", SUBSCRIPTION.upper())
    Path("main.nf.hcl").write_text(f'provider "azure" {{\n  {written}\n}}\n')
    assert run_command_line([*TAKEN_OVER, "-confine"]) == 0
    assert run_command_line(["plan", "-confine", "-detailed-exitcode"]) == 0
    assert all(path.lower().startswith(f"/subscriptions/{SUBSCRIPTION}/") for path in arm.asked)


@pytest.mark.parametrize("subscription", ["s-1", "..", f"{SUBSCRIPTION}/resourceGroups", "a b"])
def test_invalid_subscription_is_reported(
    subscription: str,
    arm: RecordedTransport,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", subscription)
    assert run_command_line(TAKEN_OVER) == 1
    assert "AZURE_SUBSCRIPTION_ID must be a GUID (see `az account show --query id`)" in read_output(
        capsys
    )
    Path("main.nf.hcl").write_text(BLOCK.replace(ANOTHER, subscription))
    assert run_command_line(["plan"]) == 1
    told = read_output(capsys)
    assert "on main.nf.hcl line 3" in told
    assert "a GUID" in told
    assert run_command_line(TAKEN_OVER) == 1
    assert "subscription_id must be a GUID" in read_output(capsys)
    assert arm.asked == []


def test_error_of_azure_is_reported(arm: RecordedTransport) -> None:
    arm.status = 403
    with pytest.raises(ProviderProblem, match="Azure cannot be read"):
        azure.read_azure({"subscription_id": SUBSCRIPTION})


def test_timeout_of_the_sdk_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NF_AZURE_ENDPOINT", "https://arm.example")
    with (
        pytest.raises(ProviderProblem, match=r"cannot be read: arm\.example: Response timeout"),
        azure_subscription.convert_azure_errors(),
    ):
        raise ServiceResponseTimeoutError("Response timeout")


@pytest.mark.usefixtures("arm")
def test_extended_location_selects_one_site() -> None:
    sites, _ = azure.read_azure({"subscription_id": SUBSCRIPTION, "extended_location": "nowhere"})
    assert all(site.inventory.clusters == () for site in sites)


def test_sign_in_error_suggests_az_login() -> None:
    from azure.core.exceptions import ClientAuthenticationError

    with (
        pytest.raises(ProviderProblem, match="`az login`, or set AZURE_TENANT_ID"),
        azure_subscription.convert_azure_errors(),
    ):
        raise ClientAuthenticationError("nobody")


def test_variables_of_the_state_backend_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = pytest.importorskip("azure.identity")
    subscription = "00000000-0000-0000-0000-000000000000"
    monkeypatch.setenv("ARM_USE_OIDC", "true")
    with pytest.raises(
        ProviderProblem,
        match='Cannot sign in to Azure: The setting "use_oidc" also needs client_id',
    ):
        azure_subscription.create_client(subscription)
    monkeypatch.setenv("ARM_CLIENT_ID", "c")
    monkeypatch.setenv("ARM_TENANT_ID", "t")
    credential = azure_subscription.create_client(subscription)._config.credential
    assert isinstance(credential, identity.ClientAssertionCredential)
    with (
        pytest.raises(ProviderProblem, match="use_oidc needs oidc_token"),
        azure_subscription.convert_azure_errors(),
    ):
        credential.get_token("https://management.azure.com/.default")
    monkeypatch.delenv("ARM_USE_OIDC")
    assert isinstance(
        azure_subscription.create_client(subscription)._config.credential,
        identity.DefaultAzureCredential,
    )


def test_error_without_text_is_reported_by_its_class() -> None:
    from azure.core.exceptions import AzureError

    with (
        pytest.raises(ProviderProblem, match="AzureError"),
        azure_subscription.convert_azure_errors(),
    ):
        raise AzureError("")


def test_sdk_prints_no_warnings(capfd: pytest.CaptureFixture[str]) -> None:
    import subprocess
    import sys

    script = (
        "import logging; from nexusform.domains.azure.providers.azure_subscription import "
        "create_client; create_client('00000000-0000-0000-0000-000000000000'); "
        "logging.getLogger('azure.identity._credentials').warning('a raw line')"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert capfd.readouterr().err == ""
