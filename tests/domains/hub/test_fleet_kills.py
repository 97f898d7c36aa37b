"""An apply that is ended by SIGKILL, or whose connection is cut, while the hub carries a request out."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.domains.hub.conftest import Told
from tests.domains.hub.hub_server import HubServer
from tests.domains.hub.test_fleet_provider import write, written

pytestmark = pytest.mark.slow
PLACEMENT = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements/web"


class Cut(HubServer):
    """A hub that does something once, after it carried out a request that writes."""

    armed: Any = None

    def answer(self, method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
        answered = super().answer(method, target, token, content)
        if (
            self.armed is not None
            and target.startswith(PLACEMENT)
            and method != "GET"
            and "dryRun" not in target
        ):
            act, self.armed = self.armed, None
            act()
        return answered


@pytest.mark.parametrize("command", ["apply", "destroy"])
def test_an_apply_that_was_killed_is_gone_on_with(hub: HubServer, told: Told, command: str) -> None:
    hub.__class__ = Cut
    assert isinstance(hub, Cut)
    write()
    if command == "destroy":
        told("apply", "-auto-approve")
    hub.log.clear()
    words = [sys.executable, "-m", "nexusform", command, "-auto-approve"]
    with subprocess.Popen(
        words, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        hub.armed = process.kill
        assert process.wait() == -9
    code, said = told(command, "-auto-approve")
    assert code == 0, said
    made = [path for method, path in written(hub) if (method, path) == ("PATCH", PLACEMENT)]
    stands = command == "apply"
    assert bool(hub.all("ClusterResourcePlacement")) is stands
    assert bool(hub.all("ClusterResourceBinding")) is stands
    assert len(made) <= 2
    assert told("plan", "-detailed-exitcode")[0] == (0 if stands else 2)


def test_an_answer_that_was_cut_off_is_asked_for_again(hub: HubServer, told: Told) -> None:
    hub.__class__ = Cut
    assert isinstance(hub, Cut)
    write()

    def cut() -> None:
        raise ConnectionAbortedError

    hub.armed = cut
    code, said = told("apply", "-auto-approve")
    assert code == 0, said
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    assert placement["metadata"]["generation"] == 1
