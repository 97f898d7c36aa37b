"""The provider azure: the SDK's client against bodies as Azure Resource Manager answers them."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from nexusform.cli.main import run
from nexusform.ports import ProviderProblem
from nexusform.providers import azure, azure_subscription

CASES = Path(__file__).parents[1] / "importers" / "cases" / "azure" / "clusters-055"
pytest.importorskip("azure.mgmt.networkcloud")
from azure.core.credentials import AccessToken  # noqa: E402
from azure.core.pipeline.transport import HttpTransport  # noqa: E402
from azure.core.rest._requests_basic import RestRequestsTransportResponse  # noqa: E402
from azure.mgmt.networkcloud import NetworkCloudMgmtClient  # noqa: E402

TYPES = {
    "racks": "racks",
    "bareMetalMachines": "bare_metal_machines",
    "kubernetesClusters": "kubernetes_clusters",
}


class Arm(HttpTransport):
    """Answers lists with the bodies of a recorded site, two to a page; `status` to all."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.asked: list[str] = []

    def send(self, request: Any, **_: Any) -> Any:
        import requests
        from urllib3 import HTTPResponse

        url = urlsplit(request.url)
        self.asked.append(url.path)
        response = requests.Response()
        response.status_code = self.status
        response.headers["Content-Type"] = "application/json"
        body = json.dumps(self._body(url)).encode()
        response.raw = HTTPResponse(BytesIO(body), preload_content=False)
        return RestRequestsTransportResponse(request=request, internal_response=response)

    def _body(self, url: Any) -> dict[str, Any]:
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


class Somebody:
    def get_token(self, *_: str, **__: Any) -> AccessToken:
        return AccessToken("token", 2**40)


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> Arm:
    transport = Arm()

    def client(subscription_id: str) -> Any:
        return NetworkCloudMgmtClient(Somebody(), subscription_id, transport=transport, retry_total=0)

    monkeypatch.setattr(azure_subscription, "connect", client)
    return transport


def test_a_site_is_taken_over_from_azure_and_read_at_every_plan(
    arm: Arm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["import", "-from=azure", "-generate-config-out=site.nf.hcl"]) == 1
    assert "AZURE_SUBSCRIPTION_ID" in capsys.readouterr().err
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", "s-1")
    assert run(["import", "-from=azure", "-generate-config-out=site.nf.hcl"]) == 0
    assert "5 machines, 1 cluster; 5 VMs adopted" in capsys.readouterr().out
    assert any(path.endswith("/agentPools") for path in arm.asked)
    assert 'subscription_id = "s-1"' in Path("site.nf.hcl").read_text()
    asked = len(arm.asked)
    assert run(["plan", "-detailed-exitcode"]) == 0
    assert "No changes." in capsys.readouterr().out
    assert len(arm.asked) > asked


def test_what_azure_refuses_is_told(arm: Arm) -> None:
    arm.status = 403
    with pytest.raises(ProviderProblem, match="Azure cannot be read"):
        azure.read_azure({"subscription_id": "s-1"})


@pytest.mark.usefixtures("arm")
def test_a_location_keeps_one_site() -> None:
    sites, _ = azure.read_azure({"subscription_id": "s-1", "extended_location": "nowhere"})
    assert all(site.inventory.clusters == () for site in sites)


def test_who_is_not_signed_in_is_told_how() -> None:
    from azure.core.exceptions import ClientAuthenticationError

    with (
        pytest.raises(ProviderProblem, match="`az login`, or set AZURE_TENANT_ID"),
        azure_subscription.asking(),
    ):
        raise ClientAuthenticationError("nobody")


def test_the_sdk_prints_nothing_beside(capfd: pytest.CaptureFixture[str]) -> None:
    import subprocess
    import sys

    script = (
        "import logging; from nexusform.providers.azure_subscription import connect; "
        "connect('00000000-0000-0000-0000-000000000000'); "
        "logging.getLogger('azure.identity._credentials').warning('a raw line')"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert capfd.readouterr().err == ""
