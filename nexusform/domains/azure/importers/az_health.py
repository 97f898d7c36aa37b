"""Failures reported by the platform: objects in state Failed, Canceled or Error, and pools with missing
nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_count, format_first_items, select_word_form
from nexusform.domains.azure.importers.arm_resources import ArmItem, extract_name
from nexusform.domains.azure.importers.az_records import AzCluster, AzFailure
from nexusform.scheduling.racks.vms import CONTROL_PLANE

FAILED: Final = "platform-reports-failure"
_BROKEN: Final = frozenset({"failed", "canceled", "cancelled"})
_ERROR: Final = frozenset({"error", "failed"})
_KIND_NAMES: Final = {
    "bare_metal_machines": "machine",
    "kubernetes_clusters": "Kubernetes cluster",
    "agent_pools": "agent pool",
    "virtual_machines": "virtual machine",
}
KINDS: Final = tuple(_KIND_NAMES)
_MAX_NAMES: Final = 4


def find_failures(kind: str, items: Iterable[ArmItem]) -> Iterator[AzFailure]:
    """Find the failed objects of a kind, with the platform's reason if reported."""
    for item in items:
        state, status = item.read_text("provisioningState") or "", item.read_text("detailedStatus") or ""
        if state.lower() not in _BROKEN and status.lower() not in _ERROR:
            continue
        message = item.read_text("detailedStatusMessage") or ""
        name = _build_object_name(kind, item)
        text = " ".join(message.split()).rstrip(".")
        reason = ": ".join(part for part in (status, text) if part)
        yield AzFailure(kind, name, state if state.lower() in _BROKEN else status, reason)


def _build_object_name(kind: str, item: ArmItem) -> str:
    """Build the name of an object; a pool's includes its cluster."""
    name = item.read_text("name") or extract_name(item.read_text("id") or "")
    if kind != "agent_pools":
        return name
    owner = (item.read_text("id") or "").rpartition("/")[0].rpartition("/")[0]
    return f"{extract_name(owner)}/{name}"


def find_missing_nodes(cluster: AzCluster) -> Iterator[AzFailure]:
    """Find pools with fewer nodes than their count, if the nodes were captured."""
    if not cluster.has_node_list:
        return
    node_counts = Counter(node.pool for node in cluster.nodes)
    counts = {CONTROL_PLANE: cluster.control_plane_count}
    counts |= {pool.name: pool.count for pool in cluster.pools} if cluster.has_pool_list else {}
    for pool, count in counts.items():
        if node_counts[pool] < count:
            name = f"{cluster.name}/{pool}"
            yield AzFailure("agent_pools", name, "", f"{node_counts[pool]} of {format_count(count, 'node')} there")


def build_failure_findings(failures: Sequence[AzFailure], site: str = "") -> list[Problem]:
    """Build one warning per kind and state, with names and reasons."""
    by_state: dict[tuple[str, str], list[AzFailure]] = {}
    for failure in failures:
        by_state.setdefault((failure.kind, failure.state), []).append(failure)
    return [
        Problem((), FAILED, _build_failed_objects_message(kind, state, group, site), Severity.WARNING)
        for (kind, state), group in sorted(by_state.items(), key=lambda pair: (KINDS.index(pair[0][0]), pair))
    ]


def _build_failed_objects_message(kind: str, state: str, failures: Sequence[AzFailure], site: str) -> str:
    """Build the message about objects of one kind and state, with the remedy."""
    labels = [f"{failure.name} ({failure.reason})" if failure.reason else failure.name for failure in failures]
    location = f" of {site}" if site else ""
    subject = format_count(len(failures), _KIND_NAMES[kind])
    names = format_first_items(labels, _MAX_NAMES)
    if not state:
        verb = select_word_form(len(failures), "lacks", "lack")
        return (
            f"{subject}{location} {verb} nodes: {names}. Azure did not create them. They are not changed automatically."
        )
    verb_be = select_word_form(len(failures), "is", "are")
    return f"{subject}{location} {verb_be} {state} (reported by Azure): {names}. {_build_advice(kind, failures)}"


def _build_advice(kind: str, failures: Sequence[AzFailure]) -> str:
    if kind != "virtual_machines":
        return "Nothing is changed automatically."
    resource = f"nexus_virtual_machine.{failures[0].name}" if len(failures) == 1 else "ADDRESS"
    return f"None is re-created automatically. Use `nexusform apply -replace={resource}`."
