"""VNFs of a plan as requests for grants (ETSI GS NFV-SOL 003): what comes, what goes, and the placement
constraints that bind all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.address import Address
from nexusform.domains.vnf.importers.vnf_model import MACHINE, RACK, SITE, Rule
from nexusform.domains.vnf.types.vnf_documents import documents_known, read_documents
from nexusform.placement_kinds.kinds import VM
from nexusform.plans.plan import Change, PlacementAction, Plan

_VNF: Final = "tacker_vnf"
_SCOPES: Final = {MACHINE: "NFVI_NODE", RACK: "ZONE", SITE: "NFVI_POP"}
_ZONE_GROUP: Final = "zone_group"
_COMES: Final = (PlacementAction.PLACE, PlacementAction.MOVE)
_GOES: Final = (PlacementAction.REMOVE, PlacementAction.MOVE)


class Grants(Struct, frozen=True):
    """The requests by VNF, and rules (in words) of which they can say less than the plan obeys."""

    requests: Mapping[str, Mapping[str, Any]]
    unsaid: tuple[str, ...] = ()


def grant_requests(plan: Plan) -> Grants:
    """A request for each VNF that the plan makes, changes or removes."""
    requests: dict[str, Mapping[str, Any]] = {}
    unsaid: list[str] = []
    of_vnfs: dict[Address, dict[str, PlacementAction]] = {}
    for row in plan.placements:
        if row.address.type == _VNF and row.kind == VM:
            of_vnfs.setdefault(row.address, {})[row.object] = row.action
    for change in plan.changes:
        actions = of_vnfs.get(change.address, {})
        if any(action is not PlacementAction.KEEP for action in actions.values()):
            requests[str(change.address)] = _request(change, actions)
            unsaid += _unsaid(change)
    return Grants(requests, tuple(unsaid))


def _request(change: Change, actions: Mapping[str, PlacementAction]) -> dict[str, Any]:
    """The request for a grant of one VNF."""
    after, before = change.after or {}, change.before or {}
    attributes = after or before
    vnfcs = {**(before.get("vnfcs") or {}), **(after.get("vnfcs") or {})}
    optional = {
        "flavourId": attributes.get("flavour_id"),
        "instantiationLevelId": attributes.get("instantiation_level"),
    }
    coming = [name for name in vnfcs if actions.get(name) in _COMES]
    going = [name for name in vnfcs if actions.get(name) in _GOES]
    return {
        "vnfInstanceId": attributes["id"],
        **{name: value for name, value in optional.items() if value},
        "operation": _operation(change, actions),
        "isAutomaticInvocation": False,
        "addResources": [
            {
                "id": name,
                "type": "COMPUTE",
                "vduId": vnfcs[name]["vdu"],
                "resourceTemplateId": vnfcs[name]["vdu"],
            }
            for name in coming
        ],
        "removeResources": [
            {
                "id": f"{name}-leaves" if name in coming else name,
                "type": "COMPUTE",
                "vduId": vnfcs[name]["vdu"],
                "resource": {"resourceId": name},
            }
            for name in going
        ],
        "placementConstraints": list(_constraints(after, set(coming))),
    }


def _operation(change: Change, actions: Mapping[str, PlacementAction]) -> str:
    """The life-cycle operation that a change of a VNF is."""
    if change.before is None:
        return "INSTANTIATE"
    if change.after is None:
        return "TERMINATE"
    return "HEAL" if PlacementAction.MOVE in actions.values() else "SCALE"


def _constraints(attributes: Mapping[str, Any], coming: set[str]) -> Iterator[dict[str, Any]]:
    """One per rule of two VNFCs or more; those that stand already are named as the VIM's resources."""
    vnfcs: Mapping[str, Mapping[str, Any]] = attributes.get("vnfcs") or {}
    for rule in _rules(attributes):
        members = [name for name, vnfc in vnfcs.items() if vnfc["vdu"] in rule.vdus]
        if len(members) > 1:
            yield {
                "affinityOrAntiAffinity": "AFFINITY" if rule.affinity else "ANTI_AFFINITY",
                "scope": "ZONE_GROUP" if rule.label == _ZONE_GROUP else _SCOPES[rule.scope],
                "resource": [
                    {"idType": "GRANT" if name in coming else "RES_MGMT", "resourceId": name}
                    for name in members
                ],
                "fallbackBestEffort": not rule.hard,
            }


def _rules(attributes: Mapping[str, Any]) -> Sequence[Rule]:
    """The placement rules of a VNF; none while its documents are not known."""
    return read_documents(attributes).vnf.rules if documents_known(attributes) else ()


def _unsaid(change: Change) -> Iterator[str]:
    """Rules of a VNF that a request has no words for."""
    for rule in _rules(change.after or {}):
        if rule.most > 1:
            yield f"up to {rule.most} VMs of {rule.name} may share a machine"
