"""Tests of plain-text connections: credentials go to other hosts only over TLS.

They are the credentials of a backend.
"""

from collections.abc import Mapping

import pytest

from nexusform.backends.backend_definition import Directories
from nexusform.backends.registry import BACKENDS
from nexusform.interfaces.state_storage import BackendProblem

pytestmark = pytest.mark.of_domains("remote_state")
S3 = {
    "bucket": "b",
    "key": "k",
    "region": "us-east-1",
    "access_key": "test",
    "secret_key": "canary",
}
PLAIN = {
    "s3": {**S3, "endpoint": "http://minio.example.org:9000"},
    "azurerm": {
        "storage_account_name": "a", "container_name": "c", "key": "k", "access_key": "Y2FuYXJ5",
        "endpoint": "http://azurite.example.org/a",
    },
    "postgres": {"conn_str": "postgres://me:canary@db.example.org/d?sslmode=disable"},
}  # fmt: skip
LOCAL = {
    "s3": {**S3, "endpoint": "http://127.0.0.1:9000"},
    "postgres": {"conn_str": "host=localhost user=me password=canary sslmode=disable"},
}


def open_backend(kind: str, settings: Mapping[str, object]) -> object:
    return BACKENDS[kind].open_backend(settings, Directories(".", ".nexusform"))


@pytest.mark.parametrize("kind", PLAIN)
def test_plain_connection_to_another_host_is_rejected(kind: str) -> None:
    with pytest.raises(BackendProblem, match="credentials are not sent") as rejection:
        open_backend(kind, PLAIN[kind])
    assert "canary" not in str(rejection.value)


@pytest.mark.parametrize("kind", LOCAL)
def test_plain_connection_to_localhost_is_allowed(kind: str) -> None:
    open_backend(kind, LOCAL[kind])


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("postgres://me:canary@db.example.org/d", "require"),
        ("postgres://me:canary@db.example.org/d?sslmode=verify-full", None),
        ("host=/run/postgresql user=me", None),
        ("host=localhost,db.example.org user=me", "require"),
        ("hostaddr=10.0.0.1 user=me", "require"),
        ("service=prod", None),
    ],
)
def test_remote_postgres_requires_tls(
    text: str, mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    sent: list[dict[str, object]] = []

    def fail_to_connect(*_words: object, **settings: object) -> None:
        sent.append(settings)
        raise psycopg.OperationalError("no server")

    monkeypatch.setattr(psycopg, "connect", fail_to_connect)
    backend = BACKENDS["postgres"].open_backend({"conn_str": text}, Directories(".", ".nexusform"))
    with pytest.raises(BackendProblem):
        backend.read()
    assert sent[0].get("sslmode") == mode


def test_sslmode_of_environment_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "prefer")
    with pytest.raises(BackendProblem, match="sslmode is prefer"):
        open_backend("postgres", {"conn_str": "postgres://me:canary@db.example.org/d"})
