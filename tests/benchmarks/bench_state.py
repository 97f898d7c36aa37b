"""Benchmark of the state of many instances.

Encoding and decoding are compared with the json module on the same document. With `--placements`, a
state of PickAll placements on 100 members is compared with its document in full.

Run: python tests/benchmarks/bench_state.py [instances]
     python tests/benchmarks/bench_state.py --placements N
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nexusform.resources.address import Address
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.state.state_codec import build_plain_document, decode_state, encode_state

PLACEMENTS = """
resource "fleet_member_cluster" "m" {
  count = 100
  name  = "member-${count.index}"
}
resource "fleet_hub_manifest" "n" {
  count     = PLACEMENTS
  yaml_body = yamlencode({
    apiVersion = "v1", kind = "Namespace", metadata = { name = "ns-${count.index}" }
  })
}
resource "fleet_cluster_resource_placement" "p" {
  count      = PLACEMENTS
  name       = "placement-${count.index}"
  depends_on = [fleet_hub_manifest.n]
  resource_selector {
    group   = ""
    version = "v1"
    kind    = "Namespace"
    name    = "ns-${count.index}"
  }
  policy {
    placement_type = "PickAll"
  }
}
"""


def build_state(count: int) -> State:
    instances = {}
    for number in range(count):
        attributes = {
            "id": f"lab/vm-{number}",
            "name": f"vm-{number}",
            "site_id": "lab",
            "cpu_cores": 8,
            "memory_size_gb": 64,
            "availability_zone": str(number % 3 + 1),
            "machine": f"rack{number % 40}-bm{number % 16:02}",
            "rack": f"rack{number % 40}",
            "numa_cells": [number % 2],
            "placement_hints": [],
            "tags": {"owner": "team", "env": "lab"},
        }
        address = Address((), "managed", "nexus_virtual_machine", "vm", number)
        made = ObjectState(attributes, number + 1, dependencies=("nexus_rack.r", "nexus_site.s"))
        instances[address] = InstanceState(made)
    return State("l", 1, "0.1.0", "c", instances, last_creation=count)


def measure_best_time(work: Any, times: int = 3) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def apply_placements(count: int) -> bytes:
    """Return the state document after an apply of placements on 100 members."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "main.nf.hcl").write_text(PLACEMENTS.replace("PLACEMENTS", str(count)))
        command = (sys.executable, "-m", "nexusform", "apply", "-auto-approve", "-input=false")
        subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, check=True)
        return (directory / "state/nexusform.nfstate").read_bytes()


def compare_placements(count: int) -> None:
    """Print the size of the state of placements and its times, beside those of the full one."""
    data = apply_placements(count)
    state, _ = decode_state(data, "s")
    assert state is not None
    full = json.dumps(build_plain_document(state), indent=2).encode()
    print(f"{count} placements on 100 members")
    for name, document in (("full", full), ("folded", data)):
        load = measure_best_time(lambda document=document: decode_state(document, "s"))
        print(f"{name:8}{len(document) / 1e6:8.2f} MB  load {load:.2f} s")
    print(f"save {measure_best_time(lambda: encode_state(state)):.2f} s")


def main() -> None:
    if sys.argv[1:2] == ["--placements"]:
        compare_placements(int(sys.argv[2]))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    state = build_state(count)
    data = encode_state(state)
    document = json.loads(data)
    rows = [
        (
            "save",
            measure_best_time(lambda: encode_state(state)),
            measure_best_time(lambda: json.dumps(document, indent=2, sort_keys=True)),
        ),
        (
            "load",
            measure_best_time(lambda: decode_state(data, "s")),
            measure_best_time(lambda: json.loads(data)),
        ),
    ]
    print(f"{count} instances, {len(data) / 1e6:.0f} MB")
    print(f"{'':6}{'nexusform':>12}{'json module':>14}")
    for name, ours, theirs in rows:
        print(f"{name:6}{ours:>10.2f} s{theirs:>12.2f} s")


if __name__ == "__main__":
    main()
