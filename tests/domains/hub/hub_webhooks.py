"""The webhooks of a hub, as far as recorded: filled-in defaults and denials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.domains.hub.hub_front import Body, Front, RequestRejection

_PLACEMENT = "fleet.clusterresourceplacementv1beta1.validating"
_INVALID = "deny create/update v1beta1 CRP has invalid fields"
_LONGEST = 63
_SERVED = {"Namespace", "ConfigMap", "Secret", "Deployment", "ClusterRole"}
# Server, user, object before (None: new), object after -> (webhook, message)
Rule = Callable[[Front, str, Body | None, Body], Iterator[tuple[str, str]]]


def enable_webhooks(server: Front) -> None:
    """Let a server's webhooks check every write."""
    server.admit(partial(_validate_write, server), _set_defaults)


def _validate_write(server: Front, user: str, before: Body | None, after: Body) -> None:
    kind = after["kind"]
    for rule in (*_RULES.get(kind, ()), _reject_foreign_users):
        for webhook, words in rule(server, user, before, after):
            raise RequestRejection(
                403, f'admission webhook "{webhook}" denied the request: {words}'
            )


def _set_defaults(after: Body) -> None:
    """Set defaults without an owner."""
    if after["kind"] != "ClusterResourcePlacement":
        return
    spec = after["spec"]
    spec.setdefault("policy", {"placementType": "PickAll"})
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("applyStrategy", {"type": "ClientSideApply"})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        defaults = {"maxUnavailable": "25%", "maxSurge": "25%", "unavailablePeriodSeconds": 60}
        for name, value in defaults.items():
            rolling.setdefault(name, value)


def _validate_placement(
    _: Front, _user: str, before: Body | None, after: Body
) -> Iterator[tuple[str, str]]:
    policy = after["spec"]["policy"]
    strategy = after["spec"]["strategy"]
    names = policy.get("clusterNames") or []
    field = f"{_INVALID} the placement policy field is invalid:"
    if len(after["metadata"]["name"]) > _LONGEST:
        yield _PLACEMENT, f"{_INVALID} the name field cannot have length exceeding {_LONGEST}"
    for selector in after["spec"]["resourceSelectors"]:
        if selector["kind"] not in _SERVED:
            words = f'no matches for kind "{selector["kind"]}" in version "{selector["group"]}/v1"'
            yield _PLACEMENT, f"{_INVALID} failed to get GVR of the selector: {words}"
    if len(set(names)) < len(names):
        yield _PLACEMENT, f"{field} cluster names must be unique for policy type PickFixed"
    for name in names:
        if len(name) > _LONGEST:
            yield (
                _PLACEMENT,
                f"{field} PickFixed cluster name {name} cannot have length exceeding {_LONGEST}",
            )
    field = f"{_INVALID} the rollout Strategy field  is invalid:"
    if strategy["type"] == "External" and "rollingUpdate" in strategy:
        yield (
            _PLACEMENT,
            f"{field} rollingUpdateConifg is not valid for ExternalRollout strategy type",
        )
    least = (strategy.get("rollingUpdate") or {}).get("maxUnavailable")
    if isinstance(least, int) and least < 0:
        yield (
            _PLACEMENT,
            f"{field} maxUnavailable must be greater than or equal to 0, got `{least}`",
        )
    earlier = ((before or {}).get("spec", {}).get("policy") or {}).get("tolerations") or []
    if any(each not in (policy.get("tolerations") or []) for each in earlier):
        words = "tolerations have been updated/deleted, only additions to tolerations are allowed"
        yield _PLACEMENT, words


def _validate_member(
    _: Front, _user: str, _before: Body | None, after: Body
) -> Iterator[tuple[str, str]]:
    seen: list[Any] = []
    for taint in after["spec"].get("taints") or ():
        if taint in seen:
            said = f"Key:{taint['key']} Value:{taint['value']} Effect:{taint['effect']}"
            words = f"taint {{{said}}} already exists, taints must be unique"
            yield "fleet.membercluster.validating", words
        seen.append(taint)


def _reject_pod(
    _: Front, _user: str, _before: Body | None, after: Body
) -> Iterator[tuple[str, str]]:
    names = f"{after['metadata']['namespace']}/{after['metadata']['name']}"
    yield "fleet.pod.validating", f"Pod {names} creation is disallowed in the fleet hub cluster"


def _get_placement_type(server: Front, name: str) -> str:
    placement = server.get("ClusterResourcePlacement", name)
    return "" if placement is None else str(placement["spec"]["policy"]["placementType"])


def _validate_eviction(
    server: Front, _user: str, _: Body | None, after: Body
) -> Iterator[tuple[str, str]]:
    if _get_placement_type(server, after["spec"]["placementName"]) == "PickFixed":
        webhook = "fleet.clusterresourceplacementeviction.validating"
        yield webhook, "cluster resource placement policy type PickFixed is not supported"


def _validate_budget(
    server: Front, _user: str, _: Body | None, after: Body
) -> Iterator[tuple[str, str]]:
    most = after["spec"].get("maxUnavailable")
    if most is not None and _get_placement_type(server, after["metadata"]["name"]) == "PickAll":
        webhook = "fleet.clusterresourceplacementdisruptionbudget.validating"
        words = "cluster resource placement policy type PickAll is not supported with any specified"
        yield webhook, f"{words} max unavailable {most}"


def _validate_override(
    _: Front, _user: str, _before: Body | None, after: Body
) -> Iterator[tuple[str, str]]:
    for rule in after["spec"]["policy"]["overrideRules"]:
        for patch in rule.get("jsonPatchOverrides") or ():
            parts = patch["path"].split("/")
            if parts[1] == "metadata" and parts[2] not in ("labels", "annotations"):
                said = (
                    f"invalid JSONPatchOverride {{{patch['op']} {patch['path']} "
                    f'{{"{patch["value"]}"}}}}'
                )
                words = f"{said}: cannot override metadata fields except annotations and labels"
                yield "fleet.clusterresourceoverride.validating", words


def _reject_foreign_users(
    _: Front, user: str, before: Body | None, after: Body
) -> Iterator[tuple[str, str]]:
    """Reject writes of other users to objects of the hub."""
    metadata = after["metadata"]
    verb = "UPDATE" if before else "CREATE"
    namespace = metadata.get("namespace") or ""
    who = (
        f"user: '{user}' in 'groups: [readers system:authenticated]' is not allowed to {verb} "
        "resource"
    )
    title = f"{who} /v1, Kind={after['kind']}/: {namespace}/{metadata['name']}"
    if user != "admin" and namespace.startswith("fleet-member-"):
        yield "fleet.fleetmembernamespacedresources.guardrail.validating", title
    if user != "admin" and after["kind"] == "Namespace" and metadata["name"].startswith("fleet-"):
        yield "fleet.namespace.guardrail.validating", title


_RULES: dict[str, tuple[Rule, ...]] = {
    "ClusterResourcePlacement": (_validate_placement,),
    "MemberCluster": (_validate_member,),
    "Pod": (_reject_pod,),
    "ClusterResourcePlacementEviction": (_validate_eviction,),
    "ClusterResourcePlacementDisruptionBudget": (_validate_budget,),
    "ClusterResourceOverride": (_validate_override,),
}
