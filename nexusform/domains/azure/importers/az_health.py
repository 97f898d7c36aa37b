"""What the platform itself says is not well: clusters, agent pools, VMs and machines that it has as Failed,
Canceled or in Error, and nodes that are missing of a count. Facts of a site: nothing is changed for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.azure.importers.arm import Item, name_of
from nexusform.domains.azure.importers.az_model import AzCluster, AzTrouble
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.words import counted, first_of, form

FAILED: Final = "platform-reports-failure"
_BROKEN: Final = frozenset({"failed", "canceled", "cancelled"})
_ERROR: Final = frozenset({"error", "failed"})
_WORDS: Final = {
    "bare_metal_machines": "machine",
    "kubernetes_clusters": "Kubernetes cluster",
    "agent_pools": "agent pool",
    "virtual_machines": "virtual machine",
}
KINDS: Final = tuple(_WORDS)
_MOST_NAMED: Final = 4


def troubles_of(kind: str, items: Iterable[Item]) -> Iterator[AzTrouble]:
    """The objects of a kind of which the platform says that they failed, and why as far as it says it."""
    for item in items:
        state, status = item.text("provisioningState") or "", item.text("detailedStatus") or ""
        if state.lower() not in _BROKEN and status.lower() not in _ERROR:
            continue
        message = item.text("detailedStatusMessage") or ""
        name = _name(kind, item)
        said = " ".join(message.split()).rstrip(".")
        reason = ": ".join(part for part in (status, said) if part)
        yield AzTrouble(kind, name, state if state.lower() in _BROKEN else status, reason)


def _name(kind: str, item: Item) -> str:
    """What an object is called: a pool by its cluster as well."""
    name = item.text("name") or name_of(item.text("id") or "")
    if kind != "agent_pools":
        return name
    owner = (item.text("id") or "").rpartition("/")[0].rpartition("/")[0]
    return f"{name_of(owner)}/{name}"


def missing_nodes(cluster: AzCluster) -> Iterator[AzTrouble]:
    """The pools of a cluster that have fewer nodes than their count, where the nodes were captured."""
    if not cluster.nodes_listed:
        return
    standing = Counter(node.pool for node in cluster.nodes)
    counts = {CONTROL_PLANE: cluster.control_plane_count}
    counts |= {pool.name: pool.count for pool in cluster.pools} if cluster.pools_listed else {}
    for pool, count in counts.items():
        if standing[pool] < count:
            name = f"{cluster.name}/{pool}"
            yield AzTrouble("agent_pools", name, "", f"{standing[pool]} of {counted(count, 'node')} there")


def trouble_findings(troubles: Sequence[AzTrouble], site: str = "") -> list[Problem]:
    """What is said of them: each state of a kind once, with names and the platform's reasons."""
    by_state: dict[tuple[str, str], list[AzTrouble]] = {}
    for trouble in troubles:
        by_state.setdefault((trouble.kind, trouble.state), []).append(trouble)
    return [
        Problem((), FAILED, _detail(kind, state, ones, site), Severity.WARNING)
        for (kind, state), ones in sorted(by_state.items(), key=lambda pair: (KINDS.index(pair[0][0]), pair))
    ]


def _detail(kind: str, state: str, ones: Sequence[AzTrouble], site: str) -> str:
    """A sentence on objects of one kind and state, and what can be done about them."""
    named = [f"{one.name} ({one.reason})" if one.reason else one.name for one in ones]
    where = f" of {site}" if site else ""
    what = counted(len(ones), _WORDS[kind])
    names = first_of(named, _MOST_NAMED)
    if not state:
        lack = form(len(ones), "lacks", "lack")
        return (
            f"{what}{where} {lack} nodes: {names}. The platform did not make them; nothing is done by itself."
        )
    are = form(len(ones), "is", "are")
    return f"{what}{where} {are} {state} by the platform's own word: {names}. {_advice(kind, ones)}"


def _advice(kind: str, ones: Sequence[AzTrouble]) -> str:
    if kind != "virtual_machines":
        return "Nothing is changed for that by itself."
    resource = f"nexus_virtual_machine.{ones[0].name}" if len(ones) == 1 else "ADDRESS"
    return f"None is made anew by itself: `nexusform apply -replace={resource}` does it."
