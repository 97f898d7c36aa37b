"""One node of a cluster is made anew. Azure offers no deletion of a single node: whoever deletes it in the
cluster (`kubectl delete node`) makes the platform make another one.

Where a directory of kubeconfigs is given (NF_KUBECONFIG_DIR, a file CLUSTER.yaml each) nexusform does that
itself; elsewhere it prints the commands, and a person does it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from msgspec import Struct

from nexusform.domains.azure.providers.azure_changes import unavailable
from nexusform.domains.azure.providers.azure_requests import Arm, ArmChange, Target, Verb
from nexusform.ports import ChangeRequest, ProviderProblem, StepNews, StepWaits
from nexusform.providers.kubeconfig import KubeconfigProblem, http_client, read_account
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.words import counted

if TYPE_CHECKING:
    from httpx2 import Client, Response

KUBECONFIGS_VARIABLE: Final = "NF_KUBECONFIG_DIR"
_NOT_FOUND: Final = 404
_MERGE: Final = "application/merge-patch+json"
_SECONDS: Final = 30.0  # of one request


class Doomed(Struct, frozen=True):
    """Nodes of one pool to be made anew, by the platform's names: at most `at_once` at a time, and then until
    the pool has `count` nodes with a machine again.
    """

    pool: str
    names: tuple[str, ...]
    at_once: int
    count: int


def doomed_nodes(request: ChangeRequest, changes: Sequence[ArmChange]) -> list[Doomed]:
    """The nodes that a step makes anew, beside those that the changes of their pool or cluster take along."""
    prior, aim = request.prior or {}, request.aim or request.planned or {}
    made_anew = {change.target.names[-1] for change in changes if change.verb is Verb.DELETE}
    if prior.get("kubernetes_version") != aim.get("kubernetes_version"):
        return []  # the platform makes every node anew, in its own batches
    standing, kept = prior.get("nodes") or {}, (request.planned or {}).get("nodes") or {}
    stays = aim.get("nodes") or {}
    by_pool: dict[str, list[str]] = {}
    for name, node in standing.items():
        if node["pool"] in made_anew or not node.get("platform_name") or name not in stays:
            continue
        leaves = name not in kept if request.releases else _is_placed_anew(node, kept.get(name))
        if leaves:
            by_pool.setdefault(node["pool"], []).append(str(node["platform_name"]))
    return [_of_pool(pool, names, aim) for pool, names in by_pool.items()]


def nodes_to_make_anew(request: ChangeRequest, changes: Sequence[ArmChange]) -> list[str]:
    """The nodes, by the platform's names, that stand and are planned to stand as others."""
    prior, planned = request.prior or {}, request.planned or {}
    made_anew = {change.target.names[-1] for change in changes if change.verb is Verb.DELETE}
    if prior.get("kubernetes_version") != planned.get("kubernetes_version"):
        return []
    after = planned.get("nodes") or {}
    return [
        str(node["platform_name"])
        for name, node in (prior.get("nodes") or {}).items()
        if node.get("platform_name") and name in after and node["pool"] not in made_anew
        if after[name].get("platform_name") != node["platform_name"]
    ]


def way_of_deleting() -> str:
    """How apply has nodes made anew, in words."""
    if os.environ.get(KUBECONFIGS_VARIABLE):
        return f"apply cordons and deletes them ({KUBECONFIGS_VARIABLE}), and does not drain them"
    return "apply prints the commands for kubectl, drain among them, and waits until that is done"


def _is_placed_anew(node: Mapping[str, Any], planned: Mapping[str, Any] | None) -> bool:
    """Whether a node that had no machine is to get one."""
    return bool(not node.get("machine") and planned and planned.get("machine"))


def _of_pool(pool: str, names: Sequence[str], aim: Mapping[str, Any]) -> Doomed:
    nodes = [node for node in (aim.get("nodes") or {}).values() if node["pool"] == pool]
    values = aim if "kubernetes_cluster_id" in aim else (aim.get("agent_pool") or {}).get(pool, {})
    return Doomed(pool, tuple(names), max(unavailable(values, len(nodes)), 1), len(nodes))


def make_anew(arm: Arm, cluster: Target, doomed: Sequence[Doomed], step: ChangeRequest) -> None:
    """Have nodes made anew, batch by batch, and wait for each. Raises ProviderProblem, and StepWaits where
    nobody is there who could do it.
    """
    for pool in doomed:
        asked: frozenset[str] = frozenset()
        while left := _left(pool, standing := _standing(arm, cluster, pool.pool)):
            others = sum(bool(node.get("bareMetalMachineId")) for node in standing if _name(node) not in left)
            batch = left[: pool.at_once]
            if others >= pool.count - len(left) and asked.isdisjoint(batch):
                _delete(cluster, batch, step)
                asked = frozenset(batch)
            arm.wait(None, step, _waiting(cluster, left))


def _left(pool: Doomed, standing: Sequence[Mapping[str, Any]]) -> list[str]:
    names = {_name(node) for node in standing}
    return [name for name in pool.names if name in names]


def _standing(arm: Arm, cluster: Target, pool: str) -> list[Mapping[str, Any]]:
    """The nodes of a pool as Azure shows them now."""
    body = arm.get(cluster)
    if body is None:
        raise ProviderProblem(f"{cluster.title} is gone: Azure does not show it.")
    nodes = (body.get("properties") or {}).get("nodes") or ()
    return [node for node in nodes if _pool_of(node) == pool]


def _name(node: Mapping[str, Any]) -> str:
    return str(node.get("name"))


def _pool_of(node: Mapping[str, Any]) -> str:
    pool_id = str(node.get("agentPoolId") or "")
    return pool_id.rpartition("/")[2] if pool_id else CONTROL_PLANE


def _waiting(cluster: Target, left: Sequence[str]) -> str:
    are = "is" if len(left) == 1 else "are"
    return f"{counted(len(left), 'node')} of {cluster.title} {are} to be made anew"


# --- deleting a node -----------------------------------------------------------------------------


def _delete(cluster: Target, names: Sequence[str], step: ChangeRequest) -> None:
    """Cordon nodes and delete them in the cluster, or have it done. Raises StepWaits and ProviderProblem."""
    directory = os.environ.get(KUBECONFIGS_VARIABLE)
    if directory:
        step.tell(StepNews(words=f"Cordoning and deleting {', '.join(names)}"))
        _delete_by_client(Path(directory) / f"{cluster.names[0]}.yaml", names)
        return
    words = (
        f"Azure deletes no single node. It is made anew once it is deleted in {cluster.title}:\n"
        + "\n".join(_commands(names))
    )
    if not step.waits_for_people:
        raise StepWaits(words)
    step.tell(StepNews(words=f"{words}\nWaiting until that is done."))


def _commands(names: Sequence[str]) -> list[str]:
    """The commands by which a person deletes nodes."""
    commands: list[str] = []
    for name in names:
        quoted = shlex.quote(name)
        commands.append(f"  kubectl cordon {quoted}")
        commands.append(f"  kubectl drain {quoted} --ignore-daemonsets  # where its pods allow it")
        commands.append(f"  kubectl delete node {quoted}")
    return commands


def _delete_by_client(kubeconfig: Path, names: Sequence[str]) -> None:
    """Cordon and delete nodes of a cluster. Raises ProviderProblem."""
    try:
        client = http_client(read_account([kubeconfig]), _SECONDS)
    except KubeconfigProblem as problem:
        raise ProviderProblem(str(problem)) from None
    with client:
        for name in names:
            _delete_node(client, name)


def _delete_node(client: Client, name: str) -> None:
    """Raises ProviderProblem."""
    path = f"/api/v1/nodes/{quote(name, safe='')}"
    try:
        cordon = {"spec": {"unschedulable": True}}
        answer = client.patch(path, json=cordon, headers={"Content-Type": _MERGE})
        if answer.is_success:
            answer = client.delete(path)
    except Exception as problem:  # noqa: BLE001 - of httpx, of sockets, of a plug-in
        raise ProviderProblem(f"{name} cannot be deleted: {problem}") from None
    if not answer.is_success and answer.status_code != _NOT_FOUND:
        raise ProviderProblem(f"{name} cannot be deleted ({answer.status_code}): {_message(answer)}")


def _message(answer: Response) -> str:
    """What an API server says, in its words."""
    try:
        document = answer.json()
    except ValueError:
        return answer.text[:200]
    return str(document.get("message")) if isinstance(document, dict) else answer.text[:200]
