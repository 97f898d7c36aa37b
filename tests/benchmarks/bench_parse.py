"""Benchmark of reading configuration: cold, from stored bytes, as JSON.

The peers are hcl2 and terraform fmt.

Run: python tests/benchmarks/bench_parse.py [blocks]

Each figure is the best of three. `terraform fmt -check` (a whole process with its start) is shown
if terraform is installed.
"""

import gc
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import hcl2

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.language.body_decoding import BodySchema, decode_body
from nexusform.language.json_syntax import parse_json_file
from nexusform.language.parser import decode_tree as decode
from nexusform.language.parser import encode_tree as encode
from nexusform.language.parser import parse_file

BLOCK = """resource "nexus_agent_pool" "p{n}" {{
  kubernetes_cluster_id = nexus_kubernetes_cluster.c{n}.id
  name                  = "np${{{n}}}-x"
  node_count            = {n} + 3 * var.factor
  vm_sku_name           = "NC_G48_224_v1"
  availability_zones    = ["1", "2", local.zone]
  labels = {{
    role = "worker"
    env  = var.env == "prod" ? "p" : "d"
  }}
  taint {{
    key    = "k"
    effect = "NoSchedule"
  }}
}}
"""


def build_native_text(blocks: int) -> str:
    return "\n".join(BLOCK.format(n=n) for n in range(blocks))


def build_json_text(blocks: int) -> str:
    pools = {
        f"p{n}": {
            "kubernetes_cluster_id": f"${{nexus_kubernetes_cluster.c{n}.id}}",
            "name": f"np{n}",
            "node_count": 3,
            "vm_sku_name": "NC_G48_224_v1",
            "availability_zones": ["1", "2", "${local.zone}"],
            "labels": {"role": "worker", "env": "p"},
            "taint": {"key": "k", "effect": "NoSchedule"},
        }
        for n in range(blocks)
    }
    return json.dumps({"resource": {"nexus_agent_pool": pools}})


def measure_best_time(work: Callable[[], Any], times: int = 3) -> float:
    taken = []
    for _ in range(times):
        gc.collect()
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def disable_garbage_collection(work: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> None:
        gc.disable()
        try:
            work()
        finally:
            gc.enable()

    return run


def read_json_contents(source: SourceFile) -> None:
    schema = BodySchema({}, {"resource": ("type", "name")})
    names = [
        "kubernetes_cluster_id",
        "name",
        "node_count",
        "vm_sku_name",
        "availability_zones",
        "labels",
    ]
    inner = BodySchema(dict.fromkeys(names, False), {"taint": ()})
    found, _ = decode_body(parse_json_file(source)[0], schema)
    for block in found.blocks:
        decode_body(block.body, inner)


def main() -> None:
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    text = build_native_text(blocks)
    source = SourceFile("bench.nf.hcl", text)
    body, diagnostics = parse_file(source)
    assert not diagnostics
    data = encode(body)
    json_source = SourceFile("bench.nf.json", build_json_text(blocks * 10))
    hcl2.parses_to_tree("a = 1\n")
    many = blocks * 10
    size = len(text)
    json_size = len(json_source.text)
    peer = disable_garbage_collection(lambda: hcl2.parses_to_tree(text))
    rows = [
        ("native, cold", blocks, size, measure_best_time(lambda: parse_file(source))),
        ("native, from stored bytes", blocks, len(data), measure_best_time(lambda: decode(data))),
        ("native, to stored bytes", blocks, len(data), measure_best_time(lambda: encode(body))),
        ("JSON, cold", many, json_size, measure_best_time(lambda: parse_json_file(json_source))),
        (
            "JSON, cold, every block by schema",
            many,
            json_size,
            measure_best_time(lambda: read_json_contents(json_source)),
        ),
        (
            "json module (no positions)",
            many,
            json_size,
            measure_best_time(lambda: json.loads(json_source.text)),
        ),
        ("hcl2, tree only", blocks, size, measure_best_time(lambda: hcl2.parses_to_tree(text), 1)),
        ("hcl2, tree only, collector off", blocks, size, measure_best_time(peer, 1)),
    ]
    terraform = shutil.which("terraform")
    if terraform:
        command = [terraform, "fmt", "-check", "-"]
        run = lambda: subprocess.run(command, input=text.encode(), capture_output=True, check=False)  # noqa: E731
        rows.append(("terraform fmt -check (process)", blocks, size, measure_best_time(run)))
    print(f"{'what':36} {'blocks':>8} {'MB':>6} {'seconds':>8} {'MB/s':>6}")
    for what, count, size, seconds in rows:
        print(f"{what:36} {count:8,} {size / 1e6:6.2f} {seconds:8.3f} {size / 1e6 / seconds:6.1f}")


if __name__ == "__main__":
    main()
