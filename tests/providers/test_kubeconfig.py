"""Tests of kubeconfigs: they are read like in kubectl, and unusable ones give clear errors."""

from __future__ import annotations

import base64
import gc
import json
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from nexusform.files.regular_files import UNCONFINED, Confinement
from nexusform.network.api_client import ApiRequest
from nexusform.providers.kubeconfig import (
    ExecPluginProblem,
    KubeconfigProblem,
    KubeconfigTrust,
    build_api_client,
    read_account,
)
from tests.certificates import create_certificate

pytest.importorskip("lightkube")
KUBECONFIG: dict[str, Any] = {
    "current-context": "hub",
    "contexts": [{"name": "hub", "context": {"cluster": "c", "user": "ann"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "ann", "user": {"token": "t"}}],
}


def write_kubeconfig(tmp_path: Path, name: str = "config", **changed: Any) -> Path:
    path = tmp_path / name
    path.write_text(json.dumps({**KUBECONFIG, **changed}))
    return path


def get_problem(path: Path, context: str = "") -> str:
    with pytest.raises(KubeconfigProblem) as raised:
        build_api_client(read_account([path], context))
    return str(raised.value).replace(str(path), "FILE")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "FILE cannot be used: it is empty."),
        ("a: [\n", "FILE cannot be used: line 2: did not find expected node content."),
        ("hello", "FILE cannot be used: it is not a kubeconfig with clusters, contexts and users."),
        (
            "kind: Pod",
            "FILE cannot be used: it is not a kubeconfig with clusters, contexts and users.",
        ),
        ("clusters: [1]", "FILE cannot be used: clusters[0] must have a name and a cluster."),
        ("users: {a: 1}", "FILE cannot be used: users[0] must have a name and a user."),
        (
            "users: [{name: a, user: token}]",
            "FILE cannot be used: users[0] must have a name and a user.",
        ),
        ("contexts: [{name: a}]", "FILE has no current context. Set one: a."),
    ],
)
def test_invalid_kubeconfig_is_reported(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config").write_text(text)
    assert get_problem(tmp_path / "config") == said


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"current-context": "x"}, 'no context "x". Existing: hub.'),
        ({"clusters": []}, 'no cluster "c" of the context hub. Existing: none.'),
        ({"users": [{"name": "bob"}]}, 'no user "ann" of the context hub. Existing: bob.'),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "the cluster c has no server."),
    ],
)
def test_missing_entries_of_a_context_are_reported(tmp_path: Path, changed: Any, said: str) -> None:
    assert get_problem(write_kubeconfig(tmp_path, **changed)) == f"FILE cannot be used: {said}"


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"token": 7}, "token must be a string or null, not a whole number."),
        (
            {"auth-provider": {"name": "gcp"}},
            "the user ann uses an auth-provider, removed in Kubernetes 1.26. Use an exec plug-in.",
        ),
        (
            {"client-certificate": "gone.crt", "client-key": "gone.key"},
            "missing HERE/gone.crt and HERE/gone.key.",
        ),
        ({"exec": {"apiVersion": "v1"}}, "Object missing required field `command`."),
        (
            {
                "exec": {
                    "apiVersion": "v1",
                    "command": "kubelogin-of-nobody",
                    "installHint": "Get it.",
                }
            },
            'the sign-in program "kubelogin-of-nobody" of the user ann is not found. Get it.',
        ),
    ],
)
def test_invalid_credentials_are_reported(tmp_path: Path, user: Any, said: str) -> None:
    path = write_kubeconfig(tmp_path, users=[{"name": "ann", "user": user}])
    assert get_problem(path).replace(str(tmp_path), "HERE") == f"FILE cannot be used: {said}"


# caused by lightkube's temporary file.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_invalid_certificates_are_reported(tmp_path: Path) -> None:
    junk = base64.b64encode(b"junk").decode()
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": junk}
    path = write_kubeconfig(tmp_path, clusters=[{"name": "c", "cluster": cluster}])
    assert get_problem(path).startswith("FILE cannot be used: its certificates: ")
    # The file is a young object; a collection of all objects of earlier tests takes a second.
    gc.collect(1)


def test_several_files_are_merged(tmp_path: Path) -> None:
    contexts = [{"name": "b", "context": {"cluster": "c", "user": "bob"}}]
    first = write_kubeconfig(
        tmp_path, "first", users=[], clusters=[], contexts=contexts, **{"current-context": "b"}
    )
    (tmp_path / "further").mkdir()
    users = [{"name": "bob", "user": {"tokenFile": "token", "exec": {"command": "bin/plug-in"}}}]
    second = write_kubeconfig(tmp_path / "further", "second", users=users)
    account = read_account([first, second])
    assert (account.server, account.user_name) == ("http://127.0.0.1:1", "bob")
    assert account.user["tokenFile"] == str(tmp_path / "further" / "token")
    assert account.user["exec"]["command"] == str(tmp_path / "further" / "bin/plug-in")
    assert get_problem(first) == (
        'FILE cannot be used: no cluster "c" of the context b. Existing: none.'
    )


class RecordingHandler(BaseHTTPRequestHandler):
    """Records request headers and accepts only the second token."""

    headers_seen: list[dict[str, str]]

    def do_GET(self) -> None:
        self.headers_seen.append(dict(self.headers.items()))
        refused = self.headers.get("Authorization") == "Bearer first"
        self.send_response(401 if refused else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, str]]]]:
    seen: list[dict[str, str]] = []
    api = HTTPServer(("127.0.0.1", 0), type("Api", (RecordingHandler,), {"headers_seen": seen}))
    Thread(target=api.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{api.server_address[1]}", seen
    api.shutdown()
    api.server_close()


def write_kubeconfig_for_server(tmp_path: Path, server: str, user: Any) -> Path:
    clusters = [{"name": "c", "cluster": {"server": server}}]
    return write_kubeconfig(tmp_path, clusters=clusters, users=[{"name": "ann", "user": user}])


def test_impersonation_headers_are_sent(tmp_path: Path, server: Any) -> None:
    address, seen = server
    user = {"token": "t", "as": "bob", "as-groups": ["a", "b"], "as-user-extra": {"scope": ["x"]}}
    with closing(
        build_api_client(read_account([write_kubeconfig_for_server(tmp_path, address, user)]))
    ) as client:
        assert client.send(ApiRequest("GET", "/")).is_success
    headers = seen[0]
    assert headers["Authorization"] == "Bearer t"
    assert (headers["Impersonate-User"], headers["Impersonate-Extra-scope"]) == ("bob", "x")


@pytest.mark.parametrize(
    "part", [{"as-groups": "admins"}, {"as-user-extra": {"scope": 1}}, {"as-user-extra": ["x"]}]
)
def test_impersonation_of_another_form_is_an_error(tmp_path: Path, part: dict[str, Any]) -> None:
    path = write_kubeconfig_for_server(
        tmp_path, "http://localhost:1", {"token": "t", "as": "bob", **part}
    )
    with pytest.raises(KubeconfigProblem, match=r"cannot be used: .* must be"):
        build_api_client(read_account([path]))


def write_plug_in(tmp_path: Path, script: str) -> dict[str, Any]:
    path = tmp_path / "plug-in"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plug-in"}}


def test_rejected_token_is_requested_again(tmp_path: Path, server: Any) -> None:
    address, seen = server
    script = (
        f"cd {tmp_path}; token=first; [ -f asked ] && token=second; touch asked\n"
        'echo "{\\"status\\": {\\"token\\": \\"$token\\"}}"'
    )
    path = write_kubeconfig_for_server(tmp_path, address, write_plug_in(tmp_path, script))
    with closing(build_api_client(read_account([path]))) as client:
        assert [client.send(ApiRequest("GET", "/")).status for _ in range(3)] == [401, 200, 200]
    assert [each["Authorization"].removeprefix("Bearer ") for each in seen] == [
        "first", "first", "second", "second"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo not signed in >&2; exit 3", "The sign-in program plug-in failed (3): not signed in"),
        ("exit 4", "The sign-in program plug-in failed (4): no error output"),
        ("echo hello", "The sign-in program plug-in printed no ExecCredential with a token."),
        (
            "echo '{\"status\": {}}'",
            "The sign-in program plug-in printed no ExecCredential with a token.",
        ),
    ],
)
def test_plug_in_without_a_token_is_reported(
    tmp_path: Path, server: Any, script: str, said: str
) -> None:
    path = write_kubeconfig_for_server(tmp_path, server[0], write_plug_in(tmp_path, script))
    with (
        closing(build_api_client(read_account([path]))) as client,
        pytest.raises(ExecPluginProblem) as raised,
    ):
        client.send(ApiRequest("GET", "/"))
    assert str(raised.value) == said


def test_interactive_plug_in_times_out(
    tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexusform.providers.kubeconfig._SECONDS", 1)
    path = write_kubeconfig_for_server(
        tmp_path, server[0], write_plug_in(tmp_path, "exec sleep 30")
    )
    with (
        closing(build_api_client(read_account([path]))) as client,
        pytest.raises(ExecPluginProblem) as raised,
    ):
        client.send(ApiRequest("GET", "/"))
    assert str(raised.value).startswith("The sign-in program plug-in did not finish within 1 s.")


def test_tls_server_name_is_respected(tmp_path: Path) -> None:
    import ssl

    certificate, key = create_certificate(tmp_path, "hub.example")
    api = HTTPServer(("127.0.0.1", 0), type("Api", (RecordingHandler,), {"headers_seen": []}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    api.socket = context.wrap_socket(api.socket, server_side=True)
    Thread(target=api.serve_forever, args=(0.02,), daemon=True).start()
    cluster = {
        "server": f"https://127.0.0.1:{api.server_address[1]}",
        "certificate-authority": certificate.name,
        "tls-server-name": "hub.example",
    }
    path = write_kubeconfig(tmp_path, clusters=[{"name": "c", "cluster": cluster}])
    try:
        with closing(build_api_client(read_account([path]))) as client:
            assert client.send(ApiRequest("GET", "/")).is_success
    finally:
        api.shutdown()
        api.server_close()


ALLOWED = KubeconfigTrust(is_url_allowed=lambda url: url == "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("users", {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}}),
        ("users", {"auth-provider": {"name": "gcp"}}),
        ("users", {"tokenFile": "/etc/hostname"}),
        ("users", {"client-key": "key.pem"}),
        ("users", {"client-certificate": "../outside.pem"}),
        ("clusters", {"server": "http://127.0.0.1:1", "certificate-authority": "/etc/ssl/ca.pem"}),
        ("clusters", {"server": "http://127.0.0.1:1", "proxy-url": "http://127.0.0.1:2"}),
        ("clusters", {"server": "http://127.0.0.1:1", "insecure-skip-tls-verify": True}),
    ],
)
def test_untrusted_kubeconfig_must_not_use_programs_or_credentials(
    tmp_path: Path, section: str, entry: dict[str, Any]
) -> None:
    kind, name = ("user", "ann") if section == "users" else ("cluster", "c")
    path = write_kubeconfig(tmp_path, **{section: [{"name": name, kind: entry}]})
    trust = KubeconfigTrust(Confinement(str(tmp_path)), ALLOWED.is_url_allowed)
    with pytest.raises(KubeconfigProblem, match="is in the work tree of a sandboxed run") as raised:
        read_account([path], trust=trust)
    assert next(field for field in entry if field != "server") in str(raised.value)
    outside = KubeconfigTrust(Confinement(str(tmp_path / "tree")), ALLOWED.is_url_allowed)
    assert read_account([path], trust=outside).server == "http://127.0.0.1:1" or section == "users"


@pytest.mark.parametrize("trust", [KubeconfigTrust(), ALLOWED])
@pytest.mark.parametrize(
    "field", ["certificate-authority", "client-certificate", "tokenFile", "command"]
)
@pytest.mark.parametrize("value", [5, ["/ca.pem"], {"a": "/b"}])
def test_a_path_that_is_no_text_is_rejected(
    tmp_path: Path, trust: KubeconfigTrust, field: str, value: Any
) -> None:
    entry = {"exec": {field: value}} if field == "command" else {field: value}
    path = write_kubeconfig(tmp_path, users=[{"name": "ann", "user": entry}])
    inside = KubeconfigTrust(
        Confinement(str(tmp_path)) if trust is ALLOWED else UNCONFINED, trust.is_url_allowed
    )
    with pytest.raises(
        KubeconfigProblem, match=rf"cannot be used: users\[0\]: {field} must be a text\."
    ):
        read_account([path], trust=inside)


def test_an_empty_certificate_authority_is_none(tmp_path: Path) -> None:
    cluster = {"server": "http://127.0.0.1:1", "certificate-authority": None}
    path = write_kubeconfig(tmp_path, clusters=[{"name": "c", "cluster": cluster}])
    trust = KubeconfigTrust(Confinement(str(tmp_path)), ALLOWED.is_url_allowed)
    assert read_account([path], trust=trust).server == "http://127.0.0.1:1"


def test_untrusted_kubeconfig_needs_an_allowed_server(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path)
    with pytest.raises(KubeconfigProblem, match=r"-allow-remote=http://127\.0\.0\.1:1"):
        read_account([path], trust=KubeconfigTrust(Confinement(str(tmp_path))))
    trust = KubeconfigTrust(Confinement(str(tmp_path)), ALLOWED.is_url_allowed)
    assert read_account([path], trust=trust).server == "http://127.0.0.1:1"
