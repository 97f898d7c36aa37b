"""Tests of failures in Azure.

Each is reported with Azure's message, unfinished changes are pending, nothing is sent twice, and no
existing object is tainted. The terminal output for each is in `histories.txt`.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import Struct, field

pytest.importorskip("azure.mgmt.networkcloud")
from nexusform.domains.azure.providers import azure_requests, azure_site
from tests.domains.azure.providers.arm_server import ArmServer, Faults
from tests.domains.azure.providers.azure_sites import (
    NEW,
    PROVIDER_BLOCK,
    SCALED,
    CommandRunner,
    write_configuration,
)
from tests.kill_points import select_cases

GOLDEN = Path(__file__).with_name("histories.txt")
SHORT_OF_ROOM = {"code": "InsufficientResources", "message": "no machine has room"}
UPGRADE = 'resource "nexus_kubernetes_cluster" "c" {\n  kubernetes_version = "v1.30"\n}\n'
POOLS = """resource "nexus_kubernetes_cluster" "c" {
  agent_pool "np1" {
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
  }
OTHER}
"""
POOL_GOES = POOLS.replace("OTHER", "")
POOL_COMES = POOLS.replace(
    "OTHER",
    '  agent_pool "web" {\n    count       = 2\n    vm_sku_name = "NC_P22_112_v1"\n  }\n'
    '  agent_pool "more" {\n    count       = 1\n    vm_sku_name = "NC_P22_112_v1"\n  }\n',
)
CORDONED = 'resource "nexus_bare_metal_machine" "m1" {\n  cordoned = true\n}\n'
CHANGES = {
    "upgrade": UPGRADE,
    "scale-out": SCALED,
    "pool goes": POOL_GOES,
    "pool comes": POOL_COMES,
    "new": NEW,
}
NODES = {"upgrade": 5, "scale-out": 7, "pool goes": 3, "pool comes": 6, "new": 5, "cordon": 5}
BUSY = Faults(conflicts=2, polls=2)


class FailureScenario(Struct, frozen=True, kw_only=True):
    """One failure.

    `faults` are those of Azure during the first apply, `said` the expected output of this apply,
    `sent` the number of its changes accepted by Azure, `words` the error of failed operations,
    `waits` the time limit in seconds for conflicts.
    """

    change: str
    faults: Faults
    said: tuple[str, ...] = ("(Failed): InsufficientResources: no machine has room",)
    sent: int = 1
    words: Mapping[str, str] = field(default_factory=lambda: SHORT_OF_ROOM)
    waits: float | None = None
    code: int = 1
    etags: bool = True


HISTORIES: dict[str, FailureScenario] = {}
for _change in ("upgrade", "scale-out", "pool goes", "pool comes"):
    HISTORIES |= {
        f"{_change}, failed": FailureScenario(change=_change, faults=Faults(fails=1)),
        f"{_change}, failed and taken back": FailureScenario(
            change=_change, faults=Faults(fails=1, rollback=True)
        ),
        f"{_change}, canceled": FailureScenario(
            change=_change,
            faults=Faults(fails=1, outcome="Canceled"),
            words={"code": "OperationCanceled", "message": "somebody canceled it"},
            said=("(Canceled): OperationCanceled: somebody canceled it",),
        ),
        f"{_change}, operation forgotten": FailureScenario(
            change=_change,
            faults=Faults(fails=1, forgets=True, polls=2),
            said=("no machine has room",),
        ),
    }
HISTORIES |= {
    "upgrade, the operation vanishes half way": FailureScenario(
        change="upgrade", faults=Faults(fails=1, vanishes=2, polls=6), said=("no machine has room",)
    ),
    "upgrade, failed without a reason": FailureScenario(
        change="upgrade", faults=Faults(fails=1), words={}, said=("(Failed): no reason given.",)
    ),
    "upgrade, an older API that tells versions in headers alone": FailureScenario(
        change="upgrade", faults=Faults(fails=1), etags=False
    ),
    "upgrade, refused": FailureScenario(
        change="upgrade",
        faults=Faults(refusals=1),
        words={"code": "InvalidParameter", "message": "kubernetesVersion is not offered"},
        said=("Azure rejects c: InvalidParameter: kubernetesVersion is not offered",),
        sent=0,
    ),
    "upgrade, busy for longer than anybody waits": FailureScenario(
        change="upgrade",
        faults=Faults(conflicts=100_000),
        waits=0.05,
        said=("Azure rejects the change: Conflict: Another operation is in progress",),
        sent=0,
    ),
    "upgrade, busy and throttled for long": FailureScenario(
        change="upgrade",
        faults=Faults(conflicts=30, throttles=10),
        said=("Conflict: Another operation",),
        code=0,
    ),
    "upgrade, changed by somebody else just before": FailureScenario(
        change="upgrade",
        faults=Faults(others=3),
        said=("It was changed meanwhile. Trying again.",),
        code=0,
    ),
    "upgrade, the line is cut and it fails": FailureScenario(
        change="upgrade", faults=Faults(resets=1, fails=1, polls=3), said=("no machine has room",)
    ),
    "upgrade, the line is cut within the answer": FailureScenario(
        change="upgrade", faults=Faults(halves=1, polls=3), said=(), code=0
    ),
    "upgrade, the line is cut within the answer and it fails": FailureScenario(
        change="upgrade", faults=Faults(halves=1, fails=1, polls=3), said=("no machine has room",)
    ),
    "upgrade, a proxy answers for the operation and it fails": FailureScenario(
        change="upgrade",
        faults=Faults(pages=1, fails=1, polls=3),
        etags=False,
        said=("no machine has room",),
    ),
    "new, the line is cut within the answer": FailureScenario(
        change="new", faults=Faults(halves=3, polls=3), said=(), code=0, sent=3
    ),
    "upgrade, Azure is gone once it was sent": FailureScenario(
        change="upgrade", faults=Faults(leaves=True, polls=3), said=("Apply waiting",)
    ),
    "upgrade, Azure is gone": FailureScenario(
        change="upgrade", faults=Faults(gone=True), said=("Azure cannot be read",), sent=0
    ),
    "upgrade, the operation may not be looked at": FailureScenario(
        change="upgrade", faults=Faults(polls=2, errors=(403,) * 60), said=("Apply waiting",)
    ),
    "scale-out, nodes never come": FailureScenario(
        change="scale-out",
        faults=Faults(short=2),
        said=("Azure shows 5 of 7 nodes of lab/c; missing: c-np1-2, c-np1-3 (Available).",),
    ),
    "new, failed": FailureScenario(
        change="new", faults=Faults(fails=1), said=("Azure could not make d (Failed)",), sent=2
    ),
    "new, the line is cut": FailureScenario(
        change="new", faults=Faults(resets=3, polls=3), said=(), code=0, sent=3
    ),
    "cordon, failed": FailureScenario(
        change="cordon",
        faults=Faults(fails=1),
        words={"code": "CordonFailed", "message": "the node does not answer"},
        said=("Azure could not cordon m1 (Failed): CordonFailed: the node does not answer",),
    ),
}


@pytest.mark.parametrize("name", select_cases(list(HISTORIES)))
def test_failure_in_azure_is_reported_and_recovered(
    name: str, nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = HISTORIES[name]
    monkeypatch.setattr(azure_site, "VISIBILITY_TIMEOUT", 0.02)
    write_change(history)
    server.site.faults = replace(history.faults)
    server.site.words = dict(history.words)
    server.site.tells_etags = history.etags
    before = Path("state/nexusform.nfstate").read_bytes()
    with monkeypatch.context() as hurried:
        if history.waits is not None:
            hurried.setattr(azure_requests, "MAX_SECONDS", history.waits)
        if history.faults.gone or history.faults.leaves:
            hurried.setenv("NF_NET_DEADLINE", "2")
        code = nexusform("apply", "-auto-approve", "-parallelism=1")
    assert code == history.code, nexusform.text
    for words in history.said:
        assert words in nexusform.said, nexusform.said
    told = extract_azure_messages(nexusform.said)
    waits = "Apply waiting" in nexusform.said
    assert len(server.site.taken) == history.sent, nexusform.changes()
    assert_nothing_is_sent_twice(server)
    assert_no_existing_object_is_tainted()
    if history.faults.gone:
        assert Path("state/nexusform.nfstate").read_bytes() == before

    server.site.faults = replace(BUSY)
    if code and not waits:
        # The change is still pending.
        assert nexusform("plan", "-detailed-exitcode") == 2, nexusform.said
        told += f"\nThe next plan:\n{extract_azure_messages(nexusform.said)}"
    # The first broken request depends on the machine.
    if not (history.faults.gone or history.faults.leaves):
        # The number of attempts depends on the machine.
        if history.waits is not None:
            told = TRIED.sub("", told).lstrip()
        compare_with_golden(name, told)
    server.site.taken.clear()
    assert nexusform("apply", "-resume" if waits else "-auto-approve") == 0, nexusform.said
    assert_nothing_is_sent_twice(server)
    assert bool(server.site.taken) == (code == 1 and not waits)
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert len(nexusform.nodes()) == NODES[history.change]


def write_change(history: FailureScenario) -> None:
    if history.change == "cordon":
        Path("main.nf.hcl").write_text(
            PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n")
        )
        Path("machines_override.nf.hcl").write_text(CORDONED)
    else:
        write_configuration(CHANGES[history.change])


def assert_nothing_is_sent_twice(server: ArmServer) -> None:
    """Check that no change was accepted twice in one apply."""
    assert not {
        change: number for change, number in Counter(server.site.taken).items() if number > 1
    }


def assert_no_existing_object_is_tainted() -> None:
    state = json.loads(Path("state/nexusform.nfstate").read_text())
    tainted = {
        f"{one['type']}.{one['name']}"
        for one in state["resources"]
        for instance in one["instances"]
        if instance.get("status") == "tainted"
    }
    assert tainted <= {
        "nexus_kubernetes_cluster.d",
        "nexus_virtual_machine.v",
        "nexus_agent_pool.more",
    }


STEP = re.compile(r"(?:failed|waiting) nexus_\S+ \w+: .*?(?= ╷| skipped| Predict| Apply |$)")
DUE = re.compile(r"Azure (?:could|shows)[^│]*?It is pending\b")
TRIED = re.compile(r"nexus_\S+: [^:]{3,40}: [^:]*?Trying again\.")


def extract_azure_messages(said: str) -> str:
    """Return the messages about Azure in the output of a command.

    Parts that differ between runs are left out.
    """
    told = [found for each in (TRIED, STEP, DUE) for found in each.findall(said)]
    told += re.findall(r"(?<!\()Error: .*?\.", said)
    clean = re.sub(r"localhost:\d+|\d+(ms|s)\b", "…", "\n".join(dict.fromkeys(told)))
    return "\n".join(line.strip() for line in clean.splitlines())


def compare_with_golden(name: str, said: str) -> None:
    """Compare the messages with the reviewed ones."""
    known = read_golden()
    said = said.rstrip()
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        known[name] = said
        text = "".join(f"## {each}\n{known[each]}\n\n" for each in HISTORIES if each in known)
        GOLDEN.write_text(text, encoding="utf-8")
    assert known.get(name) == said


def read_golden() -> dict[str, str]:
    if not GOLDEN.exists():
        return {}
    parts = GOLDEN.read_text(encoding="utf-8").split("## ")[1:]
    heads = (part.partition("\n") for part in parts)
    return {head: body.strip() for head, _, body in heads}
