"""Tests of a hub that cannot be reached, and of objects without usual parts."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.hub.api.hub_client import (
    ClientClock,
    HubClient,
    HubLocation,
    HubProblem,
    _is_kubernetes_object,
)

pytest.importorskip("lightkube")

KUBECONFIG = """
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{}}}}]
"""


def test_hub_without_listener_refuses_the_connection(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(url=url))
    times = iter(range(0, 1000, 100))
    hub = HubClient(
        HubLocation(str(tmp_path / "kubeconfig")),
        ClientClock(lambda _: None, lambda: float(next(times))),
    )
    with pytest.raises(HubProblem) as raised:
        hub.get("/version")
    hub.close()
    assert str(raised.value) == f"{url} cannot be reached: the connection was refused."


def test_retries_are_reported_until_end_of_step(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(url=url))
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    hub = HubClient(HubLocation(str(tmp_path / "kubeconfig")), ClientClock(sleep, lambda: now))
    hub._has_answered = True
    messages: list[str] = []
    with hub.limit_retries(20, messages.append), pytest.raises(HubProblem):
        hub.get("/version")
    hub.close()
    # It is less than the 90 s of a plan.
    assert 10 < now <= 20
    (message,) = messages
    assert message.startswith(
        f"{url} cannot be reached: the connection was refused; retried until "
    )


@pytest.mark.parametrize(
    ("item", "is_object"),
    [
        ({"kind": "Widget", "metadata": {"name": "w"}, "spec": [], "status": ""}, True),
        ({"metadata": {"labels": [], "managedFields": {}}}, True),
        ({"spec": "x"}, False),
        ({"metadata": "x"}, False),
        ([], False),
    ],
)
def test_empty_parts_of_any_type_count_as_absent(item: Any, is_object: bool) -> None:
    """Custom resources without a schema may have them; one must not reject a whole list."""
    assert _is_kubernetes_object(item) is is_object
