"""Record decisions of a running Tacker in the lives of random VNFs, for a given time.

Run: NEXUSFORM_TACKER=PYTHON python -m tests.conformance.record_tacker MINUTES FILE. Adds cases
to FILE (*.jsonl.gz).

A decision is the grant request of an operation: the VMs added and removed by Tacker, by VDU, and
their placement constraints. A separate NFVO grants every request.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import yaml

from nexusform.domains.vnf.serving import grant_server
from nexusform.domains.vnf.serving.grant_decisions import CREATED, PlannedGrants
from nexusform.domains.vnf.serving.grant_server import list_packages
from nexusform.workflow.opening.system_io import ConfinedFileAccess
from tests.conformance.case_writer import run_recorder
from tests.domains.vnf.tacker.packages import (
    STANDARD,
    PackageSpec,
    build_request,
    build_vnfd,
    write_package,
)
from tests.domains.vnf.tacker.tacker_bed import TackerBed, run_server
from tests.domains.vnf.tacker.test_tacker_stories import build_random_spec

Body = dict[str, Any]
_VERSION = "16.0.0"
# Of one VNF, between instantiation and termination.
_OPERATIONS = 8
# For one operation.
_SECONDS = 120.0


class GrantingServer(grant_server.GrantServer):
    """NFVO that grants every request in the zone az1, and keeps the last one."""

    last_request: Body

    def decide_request(self, request: Any) -> tuple[int, Body]:
        """Grant the request."""
        self.last_request = request
        zone = {"zoneId": "z"}
        return CREATED, {
            "id": request["vnfLcmOpOccId"],
            "vnfInstanceId": request["vnfInstanceId"],
            "vnfLcmOpOccId": request["vnfLcmOpOccId"],
            "zones": [{"id": "z", "zoneId": "az1"}],
            "addResources": [
                {"resourceDefinitionId": row["id"], **zone}
                for row in request.get("addResources", [])
            ],
            "removeResources": [
                {"resourceDefinitionId": row["id"]} for row in request.get("removeResources", [])
            ],
            "_links": {"self": {"href": "/grant/v1/grants/1"}, **request["_links"]},
        }


def build_decision(request: Body) -> Body:
    """Convert a grant request to a decision."""
    added, removed = (
        dict(
            Counter(
                row["resourceTemplateId"]
                for row in request.get(name, [])
                if row["type"] == "COMPUTE"
            )
        )
        for name in ("addResources", "removeResources")
    )
    constraints = [
        {
            "kind": item["affinityOrAntiAffinity"],
            "scope": item["scope"],
            "resources": dict(Counter(row["idType"] for row in item["resource"])),
        }
        for item in request.get("placementConstraints", [])
    ]
    return {
        "operation": request["operation"],
        "added": added,
        "removed": removed,
        "constraints": sorted(
            constraints,
            key=lambda item: (item["kind"], sorted(item["resources"].items()), item["scope"]),
        ),
    }


class LifeCycle:
    """Operations on one VNF through the API of Tacker, and their cases."""

    def __init__(self, bed: TackerBed, server: GrantingServer, spec: PackageSpec) -> None:
        self._bed = bed
        self._server = server
        self._spec = spec
        self._levels: dict[str, int] | None = None
        self._vnfd = yaml.safe_dump(build_vnfd(spec), sort_keys=False)
        self._id = self._bed.post("/vnf_instances", {"vnfdId": spec.descriptor_id}, _SECONDS)["id"]

    def instantiate(self) -> Body:
        """Instantiate the VNF, and return the case."""
        levels = {f"{name}_scale": 0 for name, vdu in self._spec.vdus.items() if vdu.step}
        return self._run("instantiate", json.loads(build_request(self._spec)), {}, levels)

    def scale(self, aspect: str, level: int) -> Body:
        """Scale an aspect to a level, and return the case."""
        assert self._levels is not None
        steps = level - self._levels[aspect]
        kind = "SCALE_OUT" if steps > 0 else "SCALE_IN"
        body = {"type": kind, "aspectId": aspect, "numberOfSteps": abs(steps)}
        return self._run("scale", body, body, {**self._levels, aspect: level})

    def heal(self, draw: Random) -> Body:
        """Heal some VMs, and return the case."""
        vnfcs = self._bed.get(f"/vnf_instances/{self._id}")["instantiatedVnfInfo"]["vnfcInfo"]
        healed = draw.sample(
            sorted(vnfcs, key=lambda row: str(row["id"])), draw.randint(1, min(2, len(vnfcs)))
        )
        counts = dict(Counter(row["vduId"] for row in healed))
        return self._run(
            "heal",
            {"vnfcInstanceId": [row["id"] for row in healed]},
            {"vnfcs": counts},
            self._levels,
        )

    def terminate(self) -> Body:
        """Terminate the VNF, and return the case."""
        return self._run("terminate", {"terminationType": "FORCEFUL"}, {}, None)

    def _run(
        self, operation: str, body: Body, details: Body, levels: dict[str, int] | None
    ) -> Body:
        """Run an operation, and wait for its end.

        Each one names the user data class: Tacker does not keep it.
        """
        if self._spec.is_standard and operation in ("scale", "heal"):
            body = {**body, "additionalParams": STANDARD}
        self._bed.post(f"/vnf_instances/{self._id}/{operation}", body, _SECONDS)
        end = time.monotonic() + _SECONDS
        while True:
            mine = [
                row for row in self._bed.get("/vnf_lcm_op_occs") if row["vnfInstanceId"] == self._id
            ]
            if all(row["operationState"] == "COMPLETED" for row in mine):
                break
            bad = [
                row
                for row in mine
                if row["operationState"] in ("FAILED_TEMP", "FAILED", "ROLLED_BACK")
            ]
            assert not bad, bad
            assert time.monotonic() < end, "Tacker does not finish"
            time.sleep(0.1)
        before = self._levels
        self._levels = levels
        return {
            "system": "tacker",
            "version": _VERSION,
            "snapshot": {
                "vnfd": self._vnfd,
                "flavour_id": "simple",
                "instantiation_level": "first",
                "scale_levels": before,
            },
            "request": {"operation": operation.upper(), **details},
            "decision": build_decision(self._server.last_request),
            "equivalent": [],
        }


def record_decisions(minutes: float) -> Iterator[Body]:
    """Yield the decisions in the lives of random VNFs."""
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as directory:
        bed = TackerBed(Path(directory, "tacker"))
        try:
            for seed in itertools.count(int(time.time()) % 1_000_000_000):
                folder = Path(directory, str(seed))
                write_package(build_random_spec(seed), folder)
                with serve_packages(bed, folder) as server:
                    yield from record_life(
                        LifeCycle(bed, server, build_random_spec(seed)), Random(seed)
                    )
                if time.monotonic() > end:
                    return
        finally:
            bed.close()


@contextlib.contextmanager
def serve_packages(bed: TackerBed, folder: Path) -> Iterator[GrantingServer]:
    """Provide the NFVO with the packages of a folder."""
    packages, problems = list_packages(str(folder), ConfinedFileAccess())
    assert not problems, problems
    address = ("127.0.0.1", bed.nfvo_port)
    with run_server(GrantingServer(address, PlannedGrants(()), None, packages, "secret")) as server:  # type: ignore[arg-type]
        yield server


def record_life(life: LifeCycle, draw: Random) -> Iterator[Body]:
    """Yield the decisions from instantiation to termination."""
    yield life.instantiate()
    for _ in range(_OPERATIONS):
        levels = life._levels
        assert levels is not None
        if draw.random() < 0.25:
            yield life.heal(draw)
        else:
            aspect = draw.choice(sorted(levels))
            yield life.scale(
                aspect, draw.choice([level for level in range(4) if level != levels[aspect]])
            )
    yield life.terminate()


if __name__ == "__main__":
    run_recorder(Path(sys.argv[2]), record_decisions(float(sys.argv[1])))
