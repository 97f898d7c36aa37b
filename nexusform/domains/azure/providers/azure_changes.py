"""A step on a cluster, a pool or a VM -> the changes of resources in Azure that bring it about, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.azure.importers.az_bodies import (
    body_of,
    changed_part,
    cluster_properties,
    merged,
    new_pool_properties,
    ordered_pools,
    placement_hints,
    pool_properties,
    vm_properties,
)
from nexusform.domains.azure.providers.azure_requests import ArmChange, Target, Verb
from nexusform.kubernetes.quantity import amount_of
from nexusform.ports import ChangeRequest, ProviderProblem
from nexusform.values import UNKNOWN
from nexusform.words import counted

CLUSTER: Final = "nexus_kubernetes_cluster"
POOL: Final = "nexus_agent_pool"
VM: Final = "nexus_virtual_machine"
# What Azure changes of an agent pool that stands; with anything else it is made anew.
_PATCHED: Final = frozenset({"count", "upgradeSettings", "administratorConfiguration"})

Values = Mapping[str, Any]


class Surroundings(Struct, frozen=True):
    """What a step's bodies need of the site: `group_of(cluster or VM id)`, the resource group in which it
    stands ("" while it does not), `top` what bodies at the site begin with (location), and
    `arm_id_of(id)` of what a placement hint names.
    """

    group: str
    top: Values
    arm_id_of: Callable[[str], str]


def changes_of(request: ChangeRequest, around: Surroundings) -> list[ArmChange]:
    """The changes of a step. Raises ProviderProblem for what Azure cannot do."""
    kind = request.key.type
    prior, planned = request.prior, request.planned
    target = _target(kind, (planned or prior or {}), around)
    if request.releases:
        return list(_releases(request, around))
    if planned is None:
        return [ArmChange(Verb.DELETE, target)]
    if prior is None:
        return [_creation(kind, target, planned, around)]
    if kind == CLUSTER:
        changes = list(_cluster_changes(target, prior, planned, around))
    elif kind == POOL:
        changes = list(_pool_changes(target, prior, planned, around.top))
    else:
        changes = list(_vm_changes(target, prior, planned, around))
    return changes if request.unfinished is None else _with_due(changes, request.unfinished, target, planned)


def _with_due(changes: list[ArmChange], noted: Values, target: Target, planned: Values) -> list[ArmChange]:
    """The changes of a step with the one that failed before: sent with the values that are wanted now.
    Nothing of what goes, or is made anew.
    """
    name = str(noted.get("id", "")).rpartition("/")[2]
    pools = dict(ordered_pools(planned)) if target.kind == "kubernetes_clusters" else {}
    is_pool = target.kind == "kubernetes_clusters" and "/agentPools/" in str(noted.get("id"))
    if is_pool and name not in pools:
        return changes
    due = _pool_target(target, name) if is_pool else target
    if any(change.target == due and change.verb is not Verb.UPDATE for change in changes):
        return changes
    properties, values = _changeable(due, pools[name] if is_pool else planned)
    parts = [part for part in noted.get("parts", ()) if part in properties] or list(properties)[:1]
    shown = {part: properties[part] for part in parts}
    under = body_of(values) if noted.get("body") else {}
    failed = not noted.get("goes_on")  # what goes on is waited for, and sent once more if it fails
    again = ArmChange(Verb.UPDATE, due, merged(under, {"properties": shown}), shown, again=failed)
    for number, change in enumerate(changes):
        if change.target == due:
            body = merged(again.body, change.body)
            more = replace(change, body=body, shown={**shown, **(change.shown or {})}, again=failed)
            return [*changes[:number], more, *changes[number + 1 :]]
    return [*changes, again]


def _changeable(target: Target, values: Values) -> tuple[dict[str, Any], Values]:
    """What Azure changes of a resource that stands, as the arguments have it."""
    if target.kind == "kubernetes_clusters":
        properties = cluster_properties(values)
        del properties["initialAgentPoolConfigurations"]
        return properties, values
    if target.kind == "agent_pools":
        properties = pool_properties(values)
        return {name: part for name, part in properties.items() if name in _PATCHED}, values
    return {}, values


def _releases(request: ChangeRequest, around: Surroundings) -> Iterator[ArmChange]:
    """Of what brings the aim about: what removes VMs."""
    update = replace(request, planned=request.aim, releases=False)
    for change in changes_of(update, around):
        if change.verb is Verb.DELETE:
            yield change
        elif change.verb is Verb.UPDATE and change.fewer:
            yield replace(change, body={"properties": change.fewer}, shown=change.fewer)


def _target(kind: str, values: Values, around: Surroundings) -> Target:
    name = str(values["name"])
    if kind == POOL:
        cluster = str(values["kubernetes_cluster_id"]).rpartition("/")[2]
        return Target("agent_pools", around.group, (cluster, name))
    return Target("kubernetes_clusters" if kind == CLUSTER else "virtual_machines", around.group, (name,))


def _creation(kind: str, target: Target, values: Values, around: Surroundings) -> ArmChange:
    """The request that makes an object."""
    if kind != POOL:
        _refuse_without_body(target, values)
    if kind == CLUSTER:
        return _new(target, _cluster_body(values), values, around.top)
    if kind == POOL:
        return _new(target, new_pool_properties(values), values, around.top)
    return _new(target, _vm_body(values, around), values, around.top)


def _new(target: Target, properties: Values, values: Values, top: Values) -> ArmChange:
    """A resource with all of its body: that of its azure block under what nexusform says."""
    body = merged(merged(top, body_of(values)), {"properties": properties})
    return ArmChange(Verb.CREATE, target, body)


def _refuse_without_body(target: Target, values: Values) -> None:
    """Raises ProviderProblem for an object without the azure block that Azure needs."""
    body = (values.get("azure") or {}).get("body")
    if body is UNKNOWN or body:
        return
    needed = {
        "kubernetes_clusters": "networkConfiguration (CNI network, cloud services network) and keys",
        "virtual_machines": "vmImage, adminUsername, cloudServicesNetworkAttachment and keys",
    }
    raise ProviderProblem(
        f"Azure needs more of {target.title} than nexusform knows: {needed[target.kind]}. Write it in the "
        "block `azure { body = { properties = { ... } } }`."
    )


# --- clusters and pools --------------------------------------------------------------------------


def _cluster_body(values: Values) -> dict[str, Any]:
    properties = cluster_properties(values)
    extra = {name: body_of(pool).get("properties") or {} for name, pool in ordered_pools(values)}
    properties["initialAgentPoolConfigurations"] = [
        merged(extra[pool["name"]], pool) for pool in properties["initialAgentPoolConfigurations"]
    ]
    return properties


def _cluster_changes(
    target: Target, prior: Values, planned: Values, around: Surroundings
) -> Iterator[ArmChange]:
    """The cluster itself, then the pools that go, change and come."""
    before, after = cluster_properties(prior), cluster_properties(planned)
    shown = changed_part(
        {name: part for name, part in before.items() if name != "initialAgentPoolConfigurations"},
        {name: part for name, part in after.items() if name != "initialAgentPoolConfigurations"},
    )
    plane = "controlPlaneNodeConfiguration"
    fewer = {plane: shown[plane]} if after[plane]["count"] < before[plane]["count"] else None
    yield from _patch(target, shown, prior, planned, fewer)
    olds, news = _pools_that_stand(prior), dict(ordered_pools(planned))
    place = _place_of(merged(around.top, body_of(planned)))
    for name in (name for name in olds if name not in news):  # in one order: a resumed step counts on it
        yield ArmChange(Verb.DELETE, _pool_target(target, name))
    for name, pool in news.items():
        of_pool = _pool_target(target, name)
        if name in olds:
            yield from _pool_changes(of_pool, olds[name], pool, place)
        else:
            yield _new(of_pool, new_pool_properties(pool), pool, place)


def _pools_that_stand(prior: Values) -> dict[str, Values]:
    """The pools of a cluster in one order, those behind the others that were seen and never written."""
    pools = prior.get("agent_pool") or {}
    written = dict(ordered_pools(prior))
    return {**written, **{name: pools[name] for name in sorted(pools) if name not in written}}


def _place_of(body: Values) -> dict[str, Any]:
    return {name: body[name] for name in ("location", "extendedLocation") if name in body}


def _pool_target(cluster: Target, name: str) -> Target:
    return Target("agent_pools", cluster.group, (*cluster.names, name))


def _pool_changes(target: Target, prior: Values, planned: Values, top: Values) -> Iterator[ArmChange]:
    """A change of an agent pool that stands: patched where Azure can, else deleted and made anew."""
    before, after = pool_properties(prior), pool_properties(planned)
    gone = before.keys() - after.keys() - {"upgradeSettings"}
    shown = changed_part(before, after)
    if not gone and _PATCHED.issuperset(shown):
        fewer = {"count": after["count"]} if after["count"] < before["count"] else None
        yield from _patch(target, shown, prior, planned, fewer)
        return
    _refuse_beyond(target, prior, planned)
    lasting = {name: part for name, part in after.items() if name not in _PATCHED}
    yield ArmChange(Verb.DELETE, target, unless_shown=lasting)
    yield _new(target, new_pool_properties(planned), planned, top)


def _refuse_beyond(target: Target, prior: Values, planned: Values) -> None:
    """A pool that is made anew is away as a whole: never more than its max_unavailable allows."""
    count = int(pool_properties(prior)["count"])
    allowed = unavailable(planned, count)
    if count > allowed:
        raise ProviderProblem(
            f"Azure changes this only by deleting the pool {target.title} and making it anew: its "
            f"{counted(count, 'node')} would be away at once, and its max_unavailable allows {allowed}. Set "
            'max_unavailable = "100%" in its upgrade_settings, or add a pool with another name, drain this '
            "one and remove it."
        )


def unavailable(values: Values, count: int) -> int:
    """How many nodes of a pool of so many may be away at once, as its upgrade_settings say."""
    text = str((values.get("upgrade_settings") or {}).get("max_unavailable") or "0")
    # As the plan rounds it, which tells of batches: what apply does must be what was shown.
    return amount_of(text, count)


def _patch(
    target: Target, shown: Values, prior: Values, planned: Values, fewer: Values | None = None
) -> Iterator[ArmChange]:
    """What of a resource that stands is to be otherwise, the changed part of its azure block included."""
    extra = changed_part(body_of(prior), body_of(planned))
    if shown or extra:
        body = merged(extra, {"properties": shown}) if shown else extra
        yield ArmChange(Verb.UPDATE, target, body, shown, fewer=fewer)


# --- VMs -----------------------------------------------------------------------------------------


def _vm_body(values: Values, around: Surroundings) -> dict[str, Any]:
    hints = placement_hints(values, around.arm_id_of)
    return {**vm_properties(values), **({"placementHints": hints} if hints else {})}


def _vm_changes(target: Target, prior: Values, planned: Values, around: Surroundings) -> Iterator[ArmChange]:
    """A VM goes elsewhere by being made anew; a release only removes it."""
    old_machine, new_machine = prior.get("machine"), planned.get("machine")
    if old_machine == new_machine:
        yield from _patch(target, {}, prior, planned)
        return
    if new_machine:
        _refuse_without_body(target, planned)
    if old_machine:
        yield ArmChange(Verb.DELETE, target)
    if new_machine:
        yield _new(target, _vm_body(planned, around), planned, around.top)
