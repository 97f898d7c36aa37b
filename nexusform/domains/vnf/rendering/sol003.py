"""Grant requests for the VNFs of a plan (ETSI GS NFV-SOL 003): added and removed resources, and placement
constraints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.vnf.importers.vnf_model import MACHINE, RACK, SITE, PlacementRule
from nexusform.domains.vnf.types.vnf_documents import has_known_documents, read_documents
from nexusform.placement_kinds.kinds import VM
from nexusform.plans.plan import Change, PlacementAction, Plan
from nexusform.resources.address import Address

_VNF: Final = "tacker_vnf"
_SCOPES: Final = {MACHINE: "NFVI_NODE", RACK: "ZONE", SITE: "NFVI_POP"}
_ZONE_GROUP: Final = "zone_group"
_ADDING_ACTIONS: Final = (PlacementAction.PLACE, PlacementAction.MOVE)
_REMOVING_ACTIONS: Final = (PlacementAction.REMOVE, PlacementAction.MOVE)


class GrantRequests(Struct, frozen=True):
    """Requests by VNF, and rules the requests cannot fully express."""

    requests: Mapping[str, Mapping[str, Any]]
    inexact_rules: tuple[str, ...] = ()


def build_grant_requests(plan: Plan) -> GrantRequests:
    """Return a request for each VNF created, changed or deleted by the plan."""
    requests: dict[str, Mapping[str, Any]] = {}
    inexact_rules: list[str] = []
    actions_by_vnf: dict[Address, dict[str, PlacementAction]] = {}
    for row in plan.placements:
        if row.address.type == _VNF and row.kind == VM:
            actions_by_vnf.setdefault(row.address, {})[row.object] = row.action
    for change in plan.changes:
        actions = actions_by_vnf.get(change.address, {})
        if any(action is not PlacementAction.KEEP for action in actions.values()):
            requests[str(change.address)] = _build_request(change, actions)
            inexact_rules += [
                f"up to {rule.max_per_location} VMs of {rule.name} may share a machine"
                for rule in _get_rules(change.after or {})
                if rule.max_per_location > 1
            ]
    return GrantRequests(requests, tuple(inexact_rules))


def _build_request(change: Change, actions: Mapping[str, PlacementAction]) -> dict[str, Any]:
    """Return the grant request of one VNF."""
    planned_values, prior_values = change.after or {}, change.before or {}
    attributes = planned_values or prior_values
    vnfcs = {**(prior_values.get("vnfcs") or {}), **(planned_values.get("vnfcs") or {})}
    optional = {
        "flavourId": attributes.get("flavour_id"),
        "instantiationLevelId": attributes.get("instantiation_level"),
    }
    added_names = [name for name in vnfcs if actions.get(name) in _ADDING_ACTIONS]
    removed_names = [name for name in vnfcs if actions.get(name) in _REMOVING_ACTIONS]
    return {
        "vnfInstanceId": attributes["id"],
        **{name: value for name, value in optional.items() if value},
        "operation": _get_operation(change, actions),
        "isAutomaticInvocation": False,
        "addResources": [
            {"id": name, "type": "COMPUTE", "vduId": vnfcs[name]["vdu"], "resourceTemplateId": vnfcs[name]["vdu"]}
            for name in added_names
        ],
        "removeResources": [
            {
                "id": f"{name}-leaves" if name in added_names else name,
                "type": "COMPUTE",
                "vduId": vnfcs[name]["vdu"],
                "resource": {"resourceId": name},
            }
            for name in removed_names
        ],
        "placementConstraints": list(_list_constraints(planned_values, set(added_names))),
    }


def _get_operation(change: Change, actions: Mapping[str, PlacementAction]) -> str:
    """Return the life-cycle operation of a VNF change."""
    if change.before is None:
        return "INSTANTIATE"
    if change.after is None:
        return "TERMINATE"
    return "HEAL" if PlacementAction.MOVE in actions.values() else "SCALE"


def _list_constraints(attributes: Mapping[str, Any], added_names: set[str]) -> Iterator[dict[str, Any]]:
    """Yield one constraint per rule with at least two VNFCs; existing ones are named as resources of the
    VIM.
    """
    vnfcs: Mapping[str, Mapping[str, Any]] = attributes.get("vnfcs") or {}
    for rule in _get_rules(attributes):
        members = [name for name, vnfc in vnfcs.items() if vnfc["vdu"] in rule.vdus]
        if len(members) > 1:
            yield {
                "affinityOrAntiAffinity": "AFFINITY" if rule.is_affinity else "ANTI_AFFINITY",
                "scope": "ZONE_GROUP" if rule.label == _ZONE_GROUP else _SCOPES[rule.scope],
                "resource": [
                    {"idType": "GRANT" if name in added_names else "RES_MGMT", "resourceId": name} for name in members
                ],
                "fallbackBestEffort": not rule.is_hard,
            }


def _get_rules(attributes: Mapping[str, Any]) -> Sequence[PlacementRule]:
    """Return the placement rules of a VNF; none while its documents are unknown."""
    return read_documents(attributes).vnf.rules if has_known_documents(attributes) else ()
