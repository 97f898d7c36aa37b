"""Re-creation of single nodes of a cluster.

Azure cannot delete a single node; after its deletion in the cluster (`kubectl delete node`) the
platform creates a new one. With a directory of kubeconfigs (NF_KUBECONFIG_DIR, one file
CLUSTER.yaml each) nexusform deletes it, otherwise it prints the commands for an operator.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_count
from nexusform.domains.azure.providers.arm_changes import ArmChange, ArmOperation, ArmTarget
from nexusform.domains.azure.providers.azure_changes import compute_max_unavailable
from nexusform.domains.azure.providers.azure_requests import ArmClient
from nexusform.files.access_record import read_variable
from nexusform.interfaces.plugins import ChangeRequest, ProviderProblem, StepPending, StepProgress
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings
from nexusform.network.api_client import ApiRequest
from nexusform.network.http_client import WebResponse
from nexusform.network.read_limits import parse_json
from nexusform.network.web_errors import WebError
from nexusform.providers.kubeconfig import (
    TRUSTED,
    ExecPluginProblem,
    KubeconfigProblem,
    KubeconfigTrust,
    build_api_client,
    read_account,
)
from nexusform.scheduling.racks.vms import CONTROL_PLANE

KUBECONFIGS_VARIABLE: Final = "NF_KUBECONFIG_DIR"
_NOT_FOUND: Final = 404
_MERGE_PATCH: Final = "application/merge-patch+json"


class NodeRecreation(Struct, frozen=True):
    """Nodes of a pool to re-create, by platform name, until `count` nodes have machines.

    They are re-created `batch_size` at a time.
    """

    pool: str
    names: tuple[str, ...]
    batch_size: int
    count: int


def plan_node_recreations(
    request: ChangeRequest, changes: Sequence[ArmChange]
) -> list[NodeRecreation]:
    """Plan the nodes to re-create in a step, by pool.

    Nodes of re-created pools or clusters are left out. A step for releasing capacity re-creates the
    nodes absent after it and present after all steps of the object. Any other step re-creates the
    nodes without a machine for which a machine is planned.
    """
    final = request.final_attributes or request.planned_attributes
    planned_nodes = get_mapping(request.planned, "nodes")
    final_nodes = get_mapping(final, "nodes")
    names_by_pool: dict[str, list[str]] = {}
    for name, node in _find_kept_nodes(request, final, changes).items():
        if name not in final_nodes:
            # The node is to be removed for good.
            continue
        if request.is_release:
            is_recreated = name not in planned_nodes
        else:
            is_recreated = not node.get("machine") and bool(
                get_mapping(planned_nodes, name).get("machine")
            )
        if is_recreated:
            names_by_pool.setdefault(node["pool"], []).append(str(node["platform_name"]))
    counts = Counter(node["pool"] for node in final_nodes.values())
    recreations = []
    for pool, names in names_by_pool.items():
        arguments = (
            final if "kubernetes_cluster_id" in final else get_mapping(final, "agent_pool", pool)
        )
        # With 0 it would never end.
        batch_size = max(compute_max_unavailable(arguments, counts[pool]), 1)
        recreations.append(NodeRecreation(pool, tuple(names), batch_size, counts[pool]))
    return recreations


def find_recreated_nodes(request: ChangeRequest, changes: Sequence[ArmChange]) -> list[str]:
    """Return the platform names of nodes to re-create.

    The plan has a new node under the same nexusform name.
    """
    planned_nodes = get_mapping(request.planned, "nodes")
    return [
        str(node["platform_name"])
        for name, node in _find_kept_nodes(request, request.planned_attributes, changes).items()
        if name in planned_nodes
        and planned_nodes[name].get("platform_name") != node["platform_name"]
    ]


def _find_kept_nodes(
    request: ChangeRequest, final: Mapping[str, Any], changes: Sequence[ArmChange]
) -> dict[str, Mapping[str, Any]]:
    """Find the existing nodes of pools kept by the changes of a step, by nexusform name.

    `final` are the attributes after all steps. Return {} for another Kubernetes version: the
    platform re-creates every node, in its own batches.
    """
    prior = request.prior_attributes
    if prior.get("kubernetes_version") != final.get("kubernetes_version"):
        return {}
    deleted_pools = {
        change.target.names[-1] for change in changes if change.verb is ArmOperation.DELETE
    }
    nodes = get_mapping(prior, "nodes").items()
    return {
        name: node
        for name, node in nodes
        if node.get("platform_name") and node["pool"] not in deleted_pools
    }


def find_nodes_to_delete(
    request: ChangeRequest, observed_nodes: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return the platform names of observed nodes to be re-created elsewhere.

    They are for a step that releases capacity: nodes absent after this step, and present after all
    steps of the object.
    """
    planned_nodes = get_mapping(request.planned, "nodes")
    final_nodes = get_mapping(request.final_attributes, "nodes")
    recreated_names = {
        str(node["platform_name"])
        for name, node in get_mapping(request.prior, "nodes").items()
        if node["platform_name"] and name in final_nodes and name not in planned_nodes
    }
    return sorted(
        recreated_names.intersection(str(node["platform_name"]) for node in observed_nodes.values())
    )


def describe_node_deletion() -> str:
    """Describe for messages how apply re-creates nodes."""
    if read_variable(KUBECONFIGS_VARIABLE):
        return f"apply cordons and deletes them without a drain ({KUBECONFIGS_VARIABLE})"
    return "apply prints the kubectl commands, including drain, and waits until they are done"


def recreate_nodes(
    arm: ArmClient,
    cluster: ArmTarget,
    recreations: Sequence[NodeRecreation],
    step: ChangeRequest,
    trust: KubeconfigTrust = TRUSTED,
) -> None:
    """Delete nodes batch by batch, and wait until Azure has re-created each batch.

    Raises ProviderProblem, and StepPending if an operator is needed and none is present.
    """
    for recreation in recreations:
        # Its nodes may still be listed after their deletion.
        last_batch: list[str] = []
        while True:
            existing = _read_pool_nodes(arm, cluster, recreation.pool)
            names = {str(node.get("name")) for node in existing}
            remaining = [name for name in recreation.names if name in names]
            if not remaining:
                break
            placed_names = {
                str(node.get("name")) for node in existing if node.get("bareMetalMachineId")
            }
            # Delete the next batch once all other nodes have machines: the kept ones, and the
            # replacements so far.
            are_others_placed = len(placed_names.difference(remaining)) >= recreation.count - len(
                remaining
            )
            batch = remaining[: recreation.batch_size]
            if are_others_placed and set(last_batch).isdisjoint(batch):
                _delete_nodes(cluster, batch, step, trust)
                last_batch = batch
            verb = "is" if len(remaining) == 1 else "are"
            arm.wait(
                step,
                f"{format_count(len(remaining), 'node')} of {cluster.title} {verb} to re-create",
            )


def _read_pool_nodes(arm: ArmClient, cluster: ArmTarget, pool: str) -> list[Mapping[str, Any]]:
    """Read the current nodes of a pool.

    Raises ProviderProblem without its cluster.
    """
    body = arm.get_body(cluster)
    if body is None:
        raise ProviderProblem(f"{cluster.title} was deleted: Azure does not show it.")
    nodes = list_mappings(body, "properties", "nodes")
    # A node of the control plane has no agentPoolId.
    return [
        node
        for node in nodes
        if (get_text(node, "agentPoolId").rpartition("/")[2] or CONTROL_PLANE) == pool
    ]


def build_unverified_server_warnings(trust: KubeconfigTrust) -> Iterator[Problem]:
    """Yield a warning for each kubeconfig (used to delete nodes) of an unverified server."""
    directory = read_variable(KUBECONFIGS_VARIABLE)
    paths = sorted(Path(directory).glob("*.yaml")) if directory else []
    for path in paths:
        try:
            detail = read_account([path], trust=trust).explain_unverified_server()
        except KubeconfigProblem:
            # The step with this kubeconfig reports it.
            continue
        if detail:
            yield Problem(
                (), "unverified-server", f"{path.name}: {detail}", Severity.WARNING, brief=path.name
            )


def _delete_nodes(
    cluster: ArmTarget, names: Sequence[str], step: ChangeRequest, trust: KubeconfigTrust
) -> None:
    """Delete nodes after a cordon, or print the commands for an operator.

    Raises StepPending and ProviderProblem.
    """
    directory = read_variable(KUBECONFIGS_VARIABLE)
    if directory:
        step.report_progress(StepProgress(message=f"Cordoning and deleting {', '.join(names)}"))
        _delete_nodes_with_kubeconfig(Path(directory) / f"{cluster.names[0]}.yaml", names, trust)
        return
    first_line = (
        f"Azure does not delete single nodes. To re-create it, delete it in {cluster.title}:"
    )
    message = "\n".join([first_line, *render_node_deletion(cluster.names[0], names)])
    if not step.has_operator:
        raise StepPending(message)
    step.report_progress(StepProgress(message=f"{message}\nWaiting for the deletion."))


def render_node_deletion(cluster: str, names: Iterable[str]) -> Iterator[str]:
    """Render the commands to delete nodes.

    The context has the name of the cluster.
    """
    kubectl = f"kubectl --context={shlex.quote(cluster)}"
    for quoted in map(shlex.quote, names):
        yield f"  {kubectl} cordon {quoted}"
        yield f"  {kubectl} drain {quoted} --ignore-daemonsets  # where its pods allow it"
        yield f"  {kubectl} delete node {quoted}"


def _delete_nodes_with_kubeconfig(
    kubeconfig: Path, names: Sequence[str], trust: KubeconfigTrust
) -> None:
    """Delete nodes, after a cordon, through the cluster's API.

    Raises ProviderProblem.
    """
    try:
        client = build_api_client(read_account([kubeconfig], trust=trust))
    except (KubeconfigProblem, BackendProblem) as problem:
        raise ProviderProblem(str(problem)) from None
    with closing(client):
        for name in names:
            path = f"/api/v1/nodes/{quote(name, safe='')}"
            # So that no new pods start there.
            cordon = json.dumps({"spec": {"unschedulable": True}}).encode()
            try:
                answer = client.send(
                    ApiRequest(
                        "PATCH", path, content=cordon, headers={"Content-Type": _MERGE_PATCH}
                    )
                )
                if _is_confirmed(answer):
                    answer = client.send(ApiRequest("DELETE", path))
            except (WebError, ExecPluginProblem) as problem:
                raise ProviderProblem(f"{name} cannot be deleted: {problem}.") from None
            # A missing node is deleted already.
            if answer.status != _NOT_FOUND and not _is_confirmed(answer):
                raise ProviderProblem(
                    f"{name} cannot be deleted ({answer.status}): {_read_api_error_message(answer)}"
                )


def _is_confirmed(answer: WebResponse) -> bool:
    """Return whether an answer is a success of the API server, and not of a proxy."""
    if not answer.is_success:
        return False
    try:
        document = parse_json(answer.content)
    except ValueError:
        return False
    # Of an answer about a node.
    return get_text(document, "kind") in ("Node", "Status")


def _read_api_error_message(answer: WebResponse) -> str:
    """Return the error message in an answer of an API server, else the reason for its absence."""
    try:
        document = parse_json(answer.content)
    except ValueError as problem:
        return (
            "it answers with a web page" if answer.is_web_page else f"unreadable answer: {problem}"
        )
    message = get_mapping(document).get("message")
    return str(message)[:200] if message else "the answer is not about a node"
