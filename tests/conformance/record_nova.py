"""Record decisions of Nova's filters and weighers, and of Placement, on random sites.

The run takes a given time.

Run: NEXUSFORM_NOVA=PYTHON python -m tests.conformance.record_nova MINUTES FILE. Adds cases
to FILE (*.jsonl.gz).

A process per processor decides on many servers of a site, one after the other. Each runs on the
first of the best hosts.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.pool import ThreadPool
from pathlib import Path
from random import Random
from typing import Any

from nexusform.domains.program_checks.workflow import nova_check
from tests.conformance.case_writer import run_recorder
from tests.domains.openstack.test_nova_decisions import NOVA, build_site

Body = dict[str, Any]
_DRIVER = Path(nova_check.__file__).with_name("nova_driver.py")
# Of one site.
_REQUESTS = 120
# Of one host, on average; older ones are deleted.
_SERVERS = 3


def build_server_name(number: int) -> str:
    """Return the name of a new server.

    Sorted by name, as in files, servers are in the order of their creation.
    """
    return f"t{number:03}"


def build_document(seed: int) -> Body:
    """Build a random site with many requests.

    Their servers are deleted later.
    """
    site = build_site(seed)
    draw = Random(seed)
    limit = _SERVERS * len(site["hosts"])
    names = sorted(site["servers"])
    requests = []
    for number in range(_REQUESTS):
        released = [
            names.pop(draw.randrange(len(names))) for _ in range(2 if len(names) >= limit else 0)
        ]
        request = draw.choice(site["requests"])
        name = build_server_name(number)
        flavor = site["flavors"][request["flavor"]]
        requests.append({**request, "name": name, "flavor": flavor, "released": released})
        names.append(name)
    servers = {name: {**server, "group": None} for name, server in site["servers"].items()}
    return {**site, "servers": servers, "requests": requests}


def build_cases(site: Body, answers: list[list[str]], version: str) -> Iterator[Body]:
    """Yield a case per request of a site.

    `answers` are the best hosts of each request.
    """
    servers = dict(site["servers"])
    for request, hosts in zip(site["requests"], answers, strict=True):
        flavor = request["flavor"]
        group = request["group"]
        for name in request["released"]:
            servers.pop(name, None)
        yield {
            "system": nova_check.PROGRAM,
            "version": version,
            "snapshot": {
                "hosts": site["hosts"],
                "servers": dict(servers),
                "settings": site["settings"],
            },
            "request": {
                name: value for name, value in request.items() if name not in ("name", "released")
            },
            "decision": {"host": hosts[0] if hosts else None},
            "equivalent": [{"host": host} for host in hosts[1:]],
        }
        if hosts:
            size = {
                name: flavor[name] for name in ("vcpus", "memory_mib", "disk_gib", "properties")
            }
            new = {"host": hosts[0], **size, "group": group and group["name"], "is_building": True}
            servers[request["name"]] = new | (
                {"image": request["image"]} if request.get("image") else {}
            )


class NovaProcess:
    """Running driver, and the version of its Nova."""

    def __init__(self) -> None:
        assert NOVA is not None, "NEXUSFORM_NOVA is no interpreter"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [NOVA, "-W", "ignore", str(_DRIVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout
        self.version = json.loads(self._output.readline())["nova"]

    def decide(self, document: Body) -> list[list[str]]:
        """Return the best hosts of each request."""
        self._input.write(json.dumps(document) + "\n")
        self._input.flush()
        return [json.loads(self._output.readline()) for _ in document["requests"]]

    def close(self) -> None:
        """End the process."""
        self._input.close()
        self._process.wait()
        self._output.close()


def record_decisions(minutes: float) -> Iterator[Body]:
    """Yield the decisions on random sites."""
    end = time.monotonic() + 60 * minutes
    processes = [NovaProcess() for _ in range(os.cpu_count() or 1)]
    seeds = itertools.count(int(time.time()) % 1_000_000_000)

    def decide_site(process: NovaProcess) -> tuple[Body, list[list[str]]]:
        document = build_document(next(seeds))
        return document, process.decide(document)

    with ThreadPool(len(processes)) as threads:
        while time.monotonic() < end:
            for document, answers in threads.map(decide_site, processes):
                yield from build_cases(document, answers, processes[0].version)
    for process in processes:
        process.close()


if __name__ == "__main__":
    run_recorder(Path(sys.argv[2]), record_decisions(float(sys.argv[1])))
