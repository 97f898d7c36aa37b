"""Fuzzer for every kind of document read by nexusform.

python -m tests.trust.fuzz SECONDS SEED

changes samples at random and runs a command on each, in its own process with 1 GiB and 10
seconds of processor time. It prints crashes, hangs and excessive memory use, and keeps the
documents in ./fuzz-SEED-NUMBER.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

SECONDS = 10
WAIT = 120
MEMORY = 1 << 30
EXAMPLES = Path(__file__).parents[2] / "examples"
SITE = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.s.id
  name          = "r${count.index}"
  machine_count = 2
}
"""
HUB_LIST = b"""{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": ""}, "items": [
{"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster", "metadata": {"name": "lon1",
 "labels": {"a": "b"}, "uid": "1"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}, "status": {}},
{"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "metadata": {"name": "web"},
 "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}],
 "policy": {"placementType": "PickN", "numberOfClusters": 1}}}]}"""  # noqa: E501
DUMP = (
    'data "fleet_hub_export" "h" {\n  files = ["hub.json"]\n}\noutput "o" {\n  value = '
    "data.fleet_hub_export.h\n}\n"
)
LIVE_HUB = 'data "fleet_hub" "h" {}\noutput "o" {\n  value = data.fleet_hub.h\n}\n'
SIGNS = "{ } [ ] ( ) \" ' ${ %{ - : & * ? => .. ... # /* null true -1 1e999 0x"
TOKENS = [token.encode() for token in SIGNS.split()]
TOKENS += [
    b"<<EOT\n",
    b"\xff",
    b"\x00",
    b"\n",
    b"&a ",
    b"*a",
    b"!!python/object ",
    b"9" * 400,
    b"\\u0000",
    b"{}",
]
TOKENS += [b"for x in ", b"if ", b"count = ", b"each.key", b"\xe2\x80\xae", b"[]", b'""', b": "]

# A kind of document: its sample, its file name, other files, and the commands reading it.
Kind = tuple[bytes, str, dict[str, str], list[list[str]]]


def build_samples() -> dict[str, Kind]:
    """Return every kind of document, with a state and a plan made here."""
    from nexusform.cli.main import run_command_line

    tosca = sorted(EXAMPLES.rglob("*.yaml"))
    hcl = max(EXAMPLES.rglob("*.nf.hcl"), key=lambda path: path.stat().st_size)
    az = sorted(EXAMPLES.rglob("*bare*machine*.json")) or sorted(EXAMPLES.rglob("*.json"))
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)
        Path("main.nf.hcl").write_text(SITE)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run_command_line(["plan", "-out=p"])
            run_command_line(["apply", "-auto-approve"])
        plan = Path("p").read_bytes()
        state = Path("state/nexusform.nfstate").read_bytes()
        os.chdir("/")
    inventory = (
        'data "nexus_inventory" "i" {\n  bare_metal_machines_file = "x.json"\n  racks_file = '
        '"x.json"\n}\n'
    )
    decoded = 'output "o" {\n  value = yamldecode(file("x.yaml"))\n}\n'
    vnf = (
        SITE
        + 'resource "tacker_vnf" "v" {\n  site_id = nexus_site.s.id\n  vnfd = file("x.yaml")\n}\n'
    )
    yaml = tosca[0].read_bytes() if tosca else b"a: {b: [1, 2, &x {c: d}], e: *x}\n"
    inventories = az[0].read_bytes() if az else b'[{"id": "/a/b", "name": "m1", "cores": 3}]'
    return {
        "hcl": (hcl.read_bytes(), "main.nf.hcl", {}, [["plan"], ["fmt", "-check", "-diff"]]),
        "json syntax": (
            b'{"resource": {"nexus_site": {"s": {"name": "${1 + 1}"}}}}',
            "x.nf.json",
            {},
            [["plan"]],
        ),
        "yaml": (yaml, "x.yaml", {"main.nf.hcl": decoded}, [["plan"]]),
        "tosca": (yaml, "x.yaml", {"main.nf.hcl": vnf}, [["plan"]]),
        "az": (inventories, "x.json", {"main.nf.hcl": inventory}, [["plan"]]),
        "state": (
            state,
            "state/nexusform.nfstate",
            {"main.nf.hcl": SITE},
            [["plan"], ["state", "verify"]],
        ),
        "hub dump": (HUB_LIST, "hub.json", {"main.nf.hcl": DUMP}, [["plan"]]),
        "hub answer": (HUB_LIST, "hub.json", {"main.nf.hcl": LIVE_HUB}, [["ask hub"], ["plan"]]),
        "plan": (plan, "p", {"main.nf.hcl": SITE}, [["show", "p"], ["apply", "p"]]),
    }


def mutate_bytes(sample: bytes, chance: random.Random) -> bytes:
    """Apply a few random changes: bytes, tokens, and pieces duplicated, removed or moved."""
    text = bytearray(sample)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((1, 4, 16, 200)))
        what = chance.randrange(6)
        if what == 0:
            text[start:start] = chance.choice(TOKENS) * chance.choice((1, 1, 2, 50, 5000))
        elif what == 1:
            del text[start:end]
        elif what == 2:
            text[start:start] = text[start:end] * chance.choice((1, 2, 300))
        elif what == 3 and start < len(text):
            text[start] ^= 1 << chance.randrange(8)
        elif what == 4:
            text[start:end] = chance.choice(TOKENS)
        else:
            piece = bytes(text[start:end])
            other = chance.randrange(len(text) + 1)
            text[other:other] = piece
    return bytes(text[: 4 << 20])


def run_commands(directory: Path, commands: list[list[str]]) -> str:
    """Run the commands in a child process; return the failure, or "" for success."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            # For a blocked process; others may keep the processor busy.
            signal.alarm(WAIT)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            os.chdir(directory)
            from nexusform.cli.main import raise_recursion_limit, run_command_line

            raise_recursion_limit()
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                if commands[0] == ["ask hub"]:
                    plan_from_hub(directory)
                    commands = []
                for command in commands:
                    run_command_line([*command, "-confine"])
            text = said.getvalue()
            code = 1 if "Internal error" in text else 2 if "Out of memory" in text else 0
            (directory / "said").write_text(text)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        is_over = os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGXCPU, signal.SIGKILL)
        return "hung" if is_over else f"killed by {os.WTERMSIG(status)}"
    return {0: "", 1: "crashed", 2: "took too much memory"}.get(os.WEXITSTATUS(status), "died")


def plan_from_hub(directory: Path) -> None:
    """Plan with a hub answering every request with the document of the case."""
    from nexusform.cli.main import run_command_line
    from tests.contracts.bad_answers import build_document, run_bad_server

    with run_bad_server(
        build_document((directory / "hub.json").read_bytes(), "Content-Type: application/json")
    ) as server:
        entries = {
            "clusters": [{"name": "c", "cluster": {"server": server.address}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }
        (directory / "kubeconfig").write_text(json.dumps({**entries, "current-context": "x"}))
        os.environ.update(NF_FLEET_KUBECONFIG=str(directory / "kubeconfig"), NF_NET_DEADLINE="2")
        run_command_line(["plan"])


def fuzz(seconds: float, seed: int, keep: Callable[[Path, str], None]) -> Counter[str]:
    """Count tried documents of each kind; call `keep` for each failure."""
    chance = random.Random(seed)
    kinds = build_samples()
    tried: Counter[str] = Counter()
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as place:
        while time.monotonic() < ends:
            name = chance.choice(list(kinds))
            sample, file, beside, commands = kinds[name]
            directory = Path(place, "case")
            (directory / "state").mkdir(parents=True)
            for other, text in beside.items():
                (directory / other).write_text(text)
            (directory / file).write_bytes(mutate_bytes(sample, chance))
            harm = run_commands(directory, commands)
            if harm:
                keep(directory, f"{name} {harm}")
            tried[name] += 1
            shutil.rmtree(directory)
    return tried


def main() -> None:
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2])
    here = Path.cwd()
    harmful: list[str] = []

    def keep_failure(directory: Path, harm: str) -> None:
        target = here / f"fuzz-{seed}-{len(harmful)}"
        shutil.copytree(directory, target)
        harmful.append(harm)
        print(target, harm, flush=True)

    print(dict(fuzz(seconds, seed, keep_failure)), "harmful:", len(harmful))
    sys.exit(1 if harmful else 0)


if __name__ == "__main__":
    main()
