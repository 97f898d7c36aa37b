"""The hub's clock counts, and objects in deletion are named before anything is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler

import pytest

from tests.domains.hub.conftest import Told
from tests.domains.hub.hub_front import Body, Front
from tests.domains.hub.test_fleet_provider import write, written

pytestmark = pytest.mark.our_hub_alone


@pytest.mark.parametrize(("minutes", "words"), [(6, "s ahead of that of"), (-6, "s behind that of")])
def test_heartbeats_are_compared_with_the_clock_of_the_hub(
    hub: Front, told: Told, minutes: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = datetime.now(UTC) - timedelta(minutes=minutes)
    for each in hub.all("MemberCluster"):
        agent: Body = {**each["status"]["agentStatus"][0], "lastReceivedHeartbeat": f"{there:%Y-%m-%dT%H:%M:%SZ}"}
        hub.put({**each, "status": {**each["status"], "agentStatus": [agent]}})
    date = format_datetime(there, usegmt=True)
    monkeypatch.setattr(BaseHTTPRequestHandler, "date_time_string", lambda *_: date)
    write()
    code, said = told("plan", "-details")
    assert code == 0, said
    assert "+ 2 clusters -> lon1, par1" in said
    assert words in said


@pytest.mark.parametrize(
    ("kind", "name", "namespace"), [("ConfigMap", "settings", "web"), ("ClusterResourcePlacement", "web", "")]
)
def test_an_object_in_deletion_is_named_and_nothing_is_sent(
    hub: Front, told: Told, kind: str, name: str, namespace: str
) -> None:
    write()
    assert told("apply", "-auto-approve")[0] == 0
    body = hub.get(kind, name, namespace)
    assert body is not None
    hub.put({**body, "metadata": {**body["metadata"], "finalizers": ["example.com/held"]}})
    held = hub.get(kind, name, namespace)
    assert held is not None
    hub.hold(held)
    said = told("plan", "-details")[1]
    title = f"{kind} {namespace and namespace + '/'}{name}"
    assert f"{title} is being deleted" in said
    write(number=3, content="2")
    hub.log.clear()
    code, said = told("apply", "-auto-approve")
    assert code == 1, said
    assert f"{title} is being deleted on the hub, held by example.com/held. Plan again once it is gone." in said
    assert written(hub) == []
