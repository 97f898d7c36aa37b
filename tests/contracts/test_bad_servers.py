"""Tests of every client with 40 bad servers.

It ends in time, reports the reason, and uses little memory.
"""

from __future__ import annotations

import gc
import itertools
import json
import ssl
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import chdir, closing, contextmanager, redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.hub.api.api_errors import ApiError
from nexusform.domains.hub.api.hub_client import HubProblem
from nexusform.interfaces.plugins import ProviderProblem
from nexusform.interfaces.state_storage import BackendProblem
from tests.certificates import create_certificate
from tests.contracts.bad_answers import (
    CUT,
    GARBAGE,
    WRONG,
    Answer,
    BadServer,
    build_redirect,
    drip_body,
    keep_silent,
    run_bad_server,
    shorten_deadline,
)
from tests.contracts.test_bad_answers import SETTINGS
from tests.kill_points import SHARE, select_share, tries_all

pytestmark = pytest.mark.of_domains("azure", "hub", "remote_state", "vnf")
ANSWERS: dict[str, Answer] = {
    "silent": keep_silent,
    "dripping": drip_body,
    "redirecting": build_redirect(302, "http://127.0.0.1:9/x"),
    **{name: CUT[name] for name in ("no body", "half a body", "no head", "half a chunk")},
    **{
        name: GARBAGE[name]
        for name in ("another protocol", "an endless line", "control characters")
    },
    **{name: GARBAGE[name] for name in ("a length of letters", "a status of letters")},
    **WRONG,
}
# Answers that a client must not keep in memory. The others are short.
LARGE = {
    *(
        "an endless line",
        "an endless body",
        "endless chunks",
        "endless early hints",
        "a gzip bomb",
        "a huge error",
    ),
    *(
        "many brackets",
        "many closed brackets",
        "pages without end",
        "the same page again",
        "dripping",
    ),
}
# seconds; a server has a deadline of one, on a shared machine.
PATIENCE = 60.0
# bytes, with responses of at most 16 MiB.
MEMORY = 100 << 20
Call = Callable[[str, Path], object]


def write_kubeconfig(address: str, folder: Path) -> Path:
    path = folder / "kubeconfig"
    cluster = {"server": address, "certificate-authority": str(folder / "server.pem")}
    entries = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "canary"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps({**entries, "current-context": "x"}))
    return path


def build_hub_call(call: Callable[[Any], object]) -> Call:
    def call_server(address: str, folder: Path) -> object:
        from nexusform.domains.hub.api.hub_client import ClientClock, HubClient, HubLocation

        clock = itertools.count(0, 30)
        timing = ClientClock(lambda _seconds: None, lambda: float(next(clock)))
        with closing(HubClient(HubLocation(str(write_kubeconfig(address, folder))), timing)) as hub:
            return call(hub)

    return call_server


def delete_node(address: str, folder: Path) -> None:
    from nexusform.domains.azure.providers.node_recreation import _delete_nodes_with_kubeconfig
    from nexusform.providers.kubeconfig import TRUSTED

    _delete_nodes_with_kubeconfig(write_kubeconfig(address, folder), ["node"], TRUSTED)


def read_arm(_address: str, _folder: Path) -> object:
    from contextlib import ExitStack

    from nexusform.domains.azure.providers.azure_subscription import AzureSubscription

    with ExitStack() as stack:
        return AzureSubscription({"subscription_id": "s"}, stack).read_sites()


def build_state_call(kind: str) -> Call:
    """Return a call that reads the state by a command.

    The client does not decide whether a document is a state.
    """

    def verify_state(address: str, folder: Path) -> object:
        settings = SETTINGS[kind](address)
        lines = [f"    {name} = {json.dumps(value)}" for name, value in settings.items()]
        text = "\n".join(["nexusform {", f'  backend "{kind}" {{', *lines, "  }", "}", ""])
        (folder / "main.nf.hcl").write_text(text)
        said = StringIO()
        with chdir(folder), redirect_stderr(said):
            code = run_command_line(["state", "verify", "-limit=file_mib=16"])
        assert code == 1, said.getvalue()
        assert "Internal error" not in said.getvalue()
        raise BackendProblem(said.getvalue())

    return verify_state


def request_token(address: str, _folder: Path) -> object:
    from nexusform.network.azure_identity import _request_token

    return _request_token(f"{address}/token?a=b", "canary")


def build_tacker_call(call: Callable[[Any], object]) -> Call:
    def ask(address: str, _folder: Path) -> object:
        from nexusform.domains.vnf.providers.tacker_client import (
            Credentials,
            PollTiming,
            TackerClient,
        )

        with closing(TackerClient(address, Credentials(), PollTiming(outage=0.0))) as tacker:
            return call(tacker)

    return ask


def sign_in_to_keystone(address: str, _folder: Path) -> object:
    from nexusform.domains.vnf.providers.tacker_client import Credentials, fetch_token

    fields = {"auth_url": address, "username": "me", "password": "canary", "project_name": "p"}
    return fetch_token(Credentials(fields))


class FakeCredential:
    """Credential with a token."""

    def __init__(self, **_options: Any) -> None: ...

    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        from azure.core.credentials import AccessToken

        return AccessToken("canary", int(time.time()) + 3600)

    def close(self) -> None:
        pass


CLIENTS: dict[str, Call] = {
    "hub list": build_hub_call(lambda hub: hub.list_objects("/apis/x/v1/things")),
    "hub object": build_hub_call(lambda hub: hub.get("/apis/x/v1/things/a")),
    "hub apply": build_hub_call(lambda hub: hub.apply("/apis/x/v1/things/a", {}, "me")),
    "hub watch": build_hub_call(lambda hub: next(hub.watch("/apis/x/v1/things", "1"))),
    "hub kinds": build_hub_call(lambda hub: hub.get_api_kinds("x/v1")),
    "node": delete_node,
    "arm": read_arm,
    **{f"{kind} state": build_state_call(kind) for kind in SETTINGS},
    "oidc": request_token,
    "tacker list": build_tacker_call(lambda tacker: tacker.read_list("/vnf_instances", {})),
    "tacker instance": build_tacker_call(lambda tacker: tacker.read("/vnf_instances/a")),
    "tacker create": build_tacker_call(lambda tacker: tacker.create_instance({})),
    "keystone": sign_in_to_keystone,
}
# These require an https address.
ENCRYPTED = ("arm",)


@contextmanager
def run_server(answer: str, client: str, folder: Path) -> Iterator[BadServer]:
    certificate, key = create_certificate(folder)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with run_bad_server(ANSWERS[answer], tls if client in ENCRYPTED else None) as server:
        yield server


PROBLEMS = (HubProblem, ApiError, ProviderProblem, BackendProblem)
# Correct answers for a client: a watch without events, a short token, an empty list.
WELL_FORMED = {
    *(
        (name, "hub watch")
        for name in (
            "dripping",
            "an endless line",
            "an endless body",
            "endless chunks",
            "a gzip bomb",
        )
    ),
    ("metadata of letters", "oidc"),
    ("a list", "tacker list"),
}


def select_pairs() -> list[tuple[str, str]]:
    """Return pairs of an answer and a client.

    Return all of them if all cases are tried; else an eighth, with each answer and each client.
    """
    pairs = [(answer, client) for answer in ANSWERS for client in CLIENTS]
    if tries_all():
        return select_share(pairs)
    rows = list(ANSWERS)
    columns = list(CLIENTS)
    return [pair for pair in pairs if (rows.index(pair[0]) + columns.index(pair[1])) % SHARE == 0]


def test_number_of_answers_is_forty() -> None:
    assert len(ANSWERS) == 40


# Resources left open by a client library after an error are not ours.
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
@pytest.mark.parametrize(("answer", "client"), select_pairs())
def test_client_ends_in_time_with_an_error(
    answer: str, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A large answer reaches its limit of bytes before that of time.
    shorten_deadline(monkeypatch, 1 if answer in LARGE else 0.2)
    for module in ("api_client", "read_limits", "limited_session"):
        monkeypatch.setattr(f"nexusform.network.{module}.MAX_ANSWER_BYTES", 1 << 24)
    monkeypatch.setattr(
        "nexusform.domains.azure.providers.azure_subscription._MAX_LIST_SECONDS", 2.0
    )
    for name in ("_WATCH_SECONDS", "_WATCH_MARGIN"):
        monkeypatch.setattr(f"nexusform.domains.hub.api.hub_client.{name}", 1)
    monkeypatch.setattr("time.sleep", lambda _seconds, sleep=time.sleep: sleep(min(_seconds, 0.1)))
    # exclude objects of earlier tests from the collection below.
    gc.freeze()
    # Otherwise each parse of the client would count them.
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 1)
    with run_server(answer, client, tmp_path) as server:
        address = (
            server.address.replace("http://127.0.0.1", "https://localhost")
            if client in ENCRYPTED
            else server.address
        )
        monkeypatch.setenv("NF_AZURE_ENDPOINT", address)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "server.pem"))
        monkeypatch.setattr("azure.identity.DefaultAzureCredential", FakeCredential)
        # Threads abandoned by earlier tests may read the rest of their answers meanwhile, so a call
        # that takes too much memory is measured again.
        for _ in range(2):
            # tracing takes as long as the rest.
            if answer in LARGE:
                tracemalloc.start()
            begun = time.monotonic()
            try:
                with (
                    suppress(StopIteration, HubProblem)
                    if (answer, client) in WELL_FORMED
                    else pytest.raises(PROBLEMS) as raised
                ):
                    CLIENTS[client](address, tmp_path)
            finally:
                # 0 without tracing.
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                # connections left open by SDKs belong to this test.
                gc.collect()
                # Otherwise each parse of a later test would count the frozen objects.
                gc.unfreeze()
            assert time.monotonic() - begun < PATIENCE
            if peak < MEMORY:
                break
        assert peak < MEMORY
        said = str(raised.value) if raised is not None else ""
        assert "canary" not in said
        assert "<html" not in said
        assert len(said) < 2500
