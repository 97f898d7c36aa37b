"""Tests of OpenStack credentials against a running Keystone."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.vnf.providers.tacker_client import fetch_token, read_credentials
from nexusform.files.regular_files import UNCONFINED
from nexusform.interfaces.plugins import ProviderProblem
from tests.domains.vnf.tacker.tacker_bed import TACKER, find_port
from tests.kill_points import long_case

PASSWORD = {"OS_USERNAME": "admin", "OS_PASSWORD": "secret"}
PROJECT = {
    "OS_PROJECT_NAME": "admin",
    "OS_PROJECT_DOMAIN_NAME": "Default",
    "OS_USER_DOMAIN_NAME": "Default",
}


def has_keystone() -> bool:
    if TACKER is None:
        return False
    command = [
        TACKER,
        "-c",
        "import importlib.util as u, sys; sys.exit(u.find_spec('keystone') is None)",
    ]
    return subprocess.run(command, check=False, env={}).returncode == 0


pytestmark = [
    pytest.mark.skipif(
        not has_keystone(),
        reason="Keystone is not installed (pip install keystone==30.0.0 beside Tacker)",
    ),
    pytest.mark.xdist_group("keystone"),
    long_case,
]


class Keystone:
    """A running Keystone with the administrator `admin`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v3"

    def call(self, method: str, path: str, token: str, body: Any = None, subject: str = "") -> Any:
        """Send a request as the owner of a token; return the answer."""
        headers = {"Content-Type": "application/json", "X-Auth-Token": token}
        headers |= {"X-Subject-Token": subject} if subject else {}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, headers, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def describe(self, token: str) -> Any:
        """Return user, project and methods of a token from Keystone."""
        return self.call("GET", "/auth/tokens", token, subject=token)["token"]


@pytest.fixture(scope="module")
def keystone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keystone]:
    directory = tmp_path_factory.mktemp("keystone")
    port = find_port()
    script = str(Path(__file__).with_name("keystone_service.py"))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (directory / "errors.txt").open("w") as errors:
        process = subprocess.Popen(
            [str(TACKER), "-W", "ignore", script, str(directory), str(port)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready", (directory / "errors.txt").read_text()[
            -2000:
        ]
        yield Keystone(port)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def variables(keystone: Keystone, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets the OS_ variables and no others."""

    def set_variables(**values: str) -> None:
        for name in [name for name in os.environ if name.startswith("OS_")]:
            monkeypatch.delenv(name)
        for name, value in {"OS_AUTH_URL": keystone.url, **values}.items():
            monkeypatch.setenv(name, value)

    return set_variables


def get_token() -> str:
    return fetch_token(read_credentials(UNCONFINED))


def test_password_gives_token_of_project(keystone: Keystone, variables: Any) -> None:
    variables(**PASSWORD, **PROJECT)
    token = keystone.describe(get_token())
    assert (token["user"]["name"], token["project"]["name"], token["methods"]) == (
        "admin",
        "admin",
        ["password"],
    )
    variables(
        OS_AUTH_URL=keystone.url.removesuffix("/v3") + "/",
        OS_USER_ID=token["user"]["id"],
        OS_PASSWORD="secret",
        OS_PROJECT_ID=token["project"]["id"],
    )
    assert keystone.describe(get_token())["project"] == token["project"]


def test_token_is_exchanged_for_project_token(keystone: Keystone, variables: Any) -> None:
    variables(**PASSWORD)
    unscoped = get_token()
    assert "project" not in keystone.describe(unscoped)
    variables(OS_TOKEN=unscoped, **PROJECT)
    assert keystone.describe(get_token())["project"]["name"] == "admin"


def test_application_credential_needs_no_password(
    keystone: Keystone, variables: Any, tmp_path: Path
) -> None:
    variables(**PASSWORD, **PROJECT)
    token = get_token()
    user = keystone.describe(token)["user"]["id"]
    body = {
        "application_credential": {
            "name": "nexusform",
            "secret": "s3cret",
            "roles": [{"name": "admin"}],
        }
    }
    created = keystone.call("POST", f"/users/{user}/application_credentials", token, body)[
        "application_credential"
    ]
    identity = {
        "OS_APPLICATION_CREDENTIAL_ID": created["id"],
        "OS_APPLICATION_CREDENTIAL_SECRET": "s3cret",
    }
    variables(**identity)
    assert keystone.describe(get_token())["methods"] == ["application_credential"]
    cloud = {"auth_url": keystone.url} | {
        name.removeprefix("OS_").lower(): value for name, value in identity.items()
    }
    (tmp_path / "clouds.yaml").write_text(json.dumps({"clouds": {"lab": {"auth": cloud}}}))
    variables(OS_CLOUD="lab", OS_CLIENT_CONFIG_FILE=str(tmp_path / "clouds.yaml"))
    assert keystone.describe(get_token())["project"]["name"] == "admin"
    variables(
        OS_USERNAME="admin",
        OS_USER_DOMAIN_NAME="Default",
        OS_APPLICATION_CREDENTIAL_NAME="nexusform",
        OS_APPLICATION_CREDENTIAL_SECRET="s3cret",
    )
    assert keystone.describe(get_token())["methods"] == ["application_credential"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({**PASSWORD, "OS_PASSWORD": "wrong"}, "rejected the credentials (status 401)"),
        (
            {**PASSWORD, **PROJECT, "OS_PROJECT_NAME": "none"},
            "rejected the credentials (status 401)",
        ),
        ({"OS_PASSWORD": "secret"}, "needs a user and a password, a token"),
        ({"OS_USERNAME": "admin"}, "or an application credential with its secret"),
        (
            {**PASSWORD, "OS_AUTH_URL": "URL/v2.0"},
            "/v2.0/v3 is not Keystone v3, or it failed: status 404",
        ),
    ],
)
def test_rejected_credentials_are_named_without_secrets(
    keystone: Keystone, variables: Any, values: dict[str, str], message: str
) -> None:
    variables(
        **{
            name: value.replace("URL", keystone.url.removesuffix("/v3"))
            for name, value in values.items()
        }
    )
    with pytest.raises(ProviderProblem) as caught:
        get_token()
    assert message in str(caught.value)
    assert "secret" not in str(caught.value).replace("with its secret", "")
