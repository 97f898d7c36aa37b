"""Whether the rows of bindings and pods are what the changes of a plan say of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.address import Address
from nexusform.domains.fleet.planning.contents import read_bindings
from nexusform.domains.fleet.planning.rows import KIND as BINDING
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.pods.pod_kind import PodPlace
from nexusform.plain_data import has_unknown
from nexusform.planning.plan import Action, Change, PlacementAction, PlacementChange, Plan

POD: Final = "pod"
_WITHOUT_TARGET: Final = (PlacementAction.REMOVE, PlacementAction.LOSE)

# (what it belongs to, its name) -> what is remembered of a pod
Pods = Mapping[tuple[str, str], Mapping[str, Any]]


def fleet_row_problems(plan: Plan) -> Iterator[str]:
    """What is wrong with the rows of bindings and pods, a sentence each."""
    changes = {change.address: change for change in plan.changes if not change.deposed}
    rows: dict[Address, list[PlacementChange]] = {}
    for row in plan.placements:
        if row.kind not in (BINDING, POD):
            continue
        if row.address not in changes:
            yield f'"{row.object}" is shown at {row.address}, which has none.'
            return
        rows.setdefault(row.address, []).append(row)
    for address, change in changes.items():
        if change.action is Action.FORGET:
            continue
        if has_unknown([(change.after or {}).get(name) for name in ("bindings", "workloads")]):
            yield f"The places of what {address} brings are not known."
            continue
        own_rows = rows.get(address, [])
        # Where a hub shows the placement, the plan begins with what it shows.
        before = _bindings(plan.shown.get(address, change.before))
        yield from _binding_problems(change, before, [row for row in own_rows if row.kind == BINDING])
        yield from _pod_problems(change, [row for row in own_rows if row.kind == POD])


def _binding_problems(
    change: Change, before: Mapping[str, Binding], rows: list[PlacementChange]
) -> Iterator[str]:
    """What is wrong with the rows of the bindings that one placement changes; `before` it had these."""
    after = _bindings(change.after)
    for row in rows:
        where = f'the cluster "{row.object}" of {row.address}'
        if row.source is not None and row.source != before.get(row.object):
            yield f"It says of {where} that it was bound otherwise."
        if row.target is not None and row.target != after.get(row.object):
            yield f"It shows {where} bound otherwise than it is planned."
        has_target, is_dismissed = row.target is not None, row.action in _WITHOUT_TARGET
        if has_target is is_dismissed:
            yield f"What happens to {where} is not what is shown of it."
    shown_bound = {row.object for row in rows if row.target is not None}
    shown_leaving = {row.object for row in rows if row.target is None}
    for cluster, binding in after.items():
        if before.get(cluster) != binding and cluster not in shown_bound:
            yield f'It does not show that {change.address} binds the cluster "{cluster}".'
    for cluster in before:
        if cluster not in after and cluster not in shown_leaving:
            yield f'It does not show that {change.address} leaves the cluster "{cluster}".'


def _bindings(values: Mapping[str, Any] | None) -> dict[str, Binding]:
    """The bindings among the values of a placement, by cluster."""
    return {binding.cluster: binding for binding in read_bindings(values or {})}


def _pod_problems(change: Change, rows: list[PlacementChange]) -> Iterator[str]:
    """What is wrong with the rows of the pods that one object brings."""
    pods = dict(_pods((change.after or {}).get("workloads"), ()))
    for row in rows:
        if not isinstance(row.target, PodPlace):
            continue
        workload = row.pool.partition("/")[2]
        # Placements keep pods by cluster and workload; objects of one cluster by workload alone.
        pod = pods.get((row.pool, row.object), pods.get((workload, row.object)))
        place = (row.target.node or "", row.target.machine)
        if pod is None or place != (pod.get("node") or "", pod.get("machine")):
            yield f'It shows the pod "{row.object}" of {row.address} elsewhere than it is planned.'


def _pods(values: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """The pods among the `workloads` of an object, by the names that lead to them."""
    if not isinstance(values, Mapping):
        return
    if "node" in values and "machine" in values:
        yield ("/".join(path[:-1]), path[-1]), values
        return
    for name, inner_values in values.items():
        yield from _pods(inner_values, (*path, name))
