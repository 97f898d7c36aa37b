"""Records decisions of Nova's filters and weighers, and of Placement, on random sites, for a given time.

Run: NEXUSFORM_NOVA=PYTHON python -m tests.conformance.record_nova MINUTES FILE. Adds cases to FILE (*.jsonl.gz).
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.record_scheduler import add_cases
from tests.domains.openstack.test_nova_decisions import add_hosts, ask_nova, build_site, predict

Body = dict[str, Any]
_VERSION = "34.0.0"
_SITES = 20  # of one start of Nova


def record_decisions(minutes: float, first: int) -> Iterator[Body]:
    """Yield the decisions on random sites."""
    end = time.monotonic() + 60 * minutes
    for start in itertools.count(first, _SITES):
        sites = [build_site(seed) for seed in range(start, start + _SITES)]
        documents = [add_hosts(site, predict(site)) for site in sites]
        for document, answers in zip(documents, ask_nova(documents), strict=True):
            yield from build_cases(document, answers)
        if time.monotonic() > end:
            return


def build_cases(site: Body, answers: list[list[str]]) -> Iterator[Body]:
    """Yield a case per request of a site. `answers` are the tied hosts of each."""
    servers = {name: {**server, "group": None} for name, server in site["servers"].items()}
    for number, (request, hosts) in enumerate(zip(site["requests"], answers, strict=True)):
        flavor, group = request["flavor"], request["group"]
        yield {
            "system": "nova",
            "version": _VERSION,
            "snapshot": {"hosts": site["hosts"], "servers": dict(servers), "settings": site["settings"]},
            "request": {"flavor": flavor, "group": group, "image": request.get("image") or {}},
            "decision": {"host": hosts[0] if hosts else None},
            "equivalent": [{"host": host} for host in hosts[1:]],
        }
        if request["host"]:
            size = {name: flavor[name] for name in ("vcpus", "memory_mib", "disk_gib", "properties")}
            servers[f"r{number}"] = {
                "host": request["host"],
                **size,
                "group": group and group["name"],
                "is_building": True,
            }


if __name__ == "__main__":
    begun = time.monotonic()
    first_seed = int(time.time()) % 1_000_000_000
    number = add_cases(Path(sys.argv[2]), record_decisions(float(sys.argv[1]), first_seed))
    print(f"{number} decisions, {60 * number / (time.monotonic() - begun):.0f} a minute")
