"""A running hub behind a proxy: requests are logged, delayed and failed as configured.

The decisions are those of the hub agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.domains.hub.api_programs import CRDS, PROGRAMS
from tests.domains.hub.api_server import ApiServer
from tests.domains.hub.hub_front import Body
from tests.domains.hub.real_hub import RealHub

PROGRAMS_OF_A_HUB = ("etcd", "kube-apiserver", "kube-controller-manager", "hubagent")
MEMBERS = {name: {"env": "prod"} for name in ("ams1", "lon1", "par1")} | {"fra1": {"env": "canary"}}


class RunningHub(ApiServer):
    """Proxy of a real hub, with its objects."""

    def __init__(self, hub: RealHub) -> None:
        super().__init__(hub)
        self.hub = hub

    def all(self, kind: str, namespace: str = "") -> list[Body]:
        # The hub agent writes at any time.
        self._listed.clear()
        return super().all(kind, namespace)

    def act(self) -> None:
        """Leave the decisions to the hub agent."""


@contextmanager
def start_running_hub(
    directory: Path, members: Mapping[str, Mapping[str, str]] = MEMBERS
) -> Iterator[RunningHub]:
    """Start a hub with members in a directory, and end it."""
    programs = RealHub(PROGRAMS, CRDS, directory)
    try:
        programs.join(members)
        hub = RunningHub(programs)
        yield hub
        hub.close()
    finally:
        programs.close()
