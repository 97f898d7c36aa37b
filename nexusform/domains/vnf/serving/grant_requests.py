"""Grant requests for the VNFs of a plan (ETSI GS NFV-SOL 003).

Resources to add and remove, and constraints.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from nexusform.domains.vnf.importers.vnf_records import MACHINE, RACK, SITE, Vnf
from nexusform.domains.vnf.types.vnf_documents import has_known_documents, read_documents
from nexusform.json_data.plain_data import get_mapping
from nexusform.plans.plan import Change, PlacementAction, Plan
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.resources.address import Address

_SCOPES: Final = {MACHINE: "NFVI_NODE", RACK: "ZONE", SITE: "NFVI_POP"}
_ADDING_ACTIONS: Final = (PlacementAction.PLACE, PlacementAction.MOVE)
_REMOVING_ACTIONS: Final = (PlacementAction.REMOVE, PlacementAction.MOVE)


def build_grant_requests(plan: Plan) -> dict[str, Mapping[str, Any]]:
    """Return a request for each VNF with VMs added, moved or removed by the plan."""
    requests: dict[str, Mapping[str, Any]] = {}
    actions_by_vnf: dict[Address, dict[str, PlacementAction]] = {}
    for row in plan.placements:
        if row.address.type == "tacker_vnf":
            actions_by_vnf.setdefault(row.address, {})[row.object] = row.action
    for change in plan.changes:
        actions = actions_by_vnf.get(change.address, {})
        if {*actions.values()} - {PlacementAction.KEEP}:
            requests[str(change.address)] = _build_request(change, actions)
    return requests


def _build_request(change: Change, actions: Mapping[str, PlacementAction]) -> dict[str, Any]:
    """Return the grant request for the actions on VNFCs (VMs) by name.

    A moved one is both removed and added.
    """
    planned_values = change.after or {}
    prior_values = change.before or {}
    attributes = planned_values or prior_values
    vnfcs = {**get_mapping(prior_values, "vnfcs"), **get_mapping(planned_values, "vnfcs")}
    added_names = [name for name in vnfcs if actions.get(name) in _ADDING_ACTIONS]
    removed_names = [name for name in vnfcs if actions.get(name) in _REMOVING_ACTIONS]
    operation = "HEAL" if PlacementAction.MOVE in actions.values() else "SCALE"
    if change.before is None:
        operation = "INSTANTIATE"
    elif change.after is None:
        operation = "TERMINATE"
    instance_id = str(attributes["id"])
    occurrence_id = str(
        uuid5(
            NAMESPACE_URL, f"{instance_id}/{operation}/{','.join((*added_names, *removed_names))}"
        )
    )
    optional = {
        "vnfdId": _get_vnf_or_empty(attributes).descriptor_id,
        "flavourId": attributes.get("flavour_id"),
        "instantiationLevelId": attributes.get("instantiation_level"),
    }
    # Tacker sends constraints only with new VMs, and none with a replacement of VMs.
    has_constraints = operation == "INSTANTIATE" or (operation == "SCALE" and bool(added_names))
    return {
        "vnfInstanceId": instance_id,
        "vnfLcmOpOccId": occurrence_id,
        **omit_empty(optional),
        "operation": operation,
        "isAutomaticInvocation": False,
        "addResources": [
            {
                "id": name,
                "type": "COMPUTE",
                "vduId": vnfcs[name]["vdu"],
                "resourceTemplateId": vnfcs[name]["vdu"],
            }
            for name in added_names
        ],
        "removeResources": [
            {
                # Ids are unique in a request.
                "id": f"{name}-leaves" if name in added_names else name,
                "type": "COMPUTE",
                "vduId": vnfcs[name]["vdu"],
                "resource": {"resourceId": name},
            }
            for name in removed_names
        ],
        "placementConstraints": list(_list_constraints(planned_values, set(added_names)))
        if has_constraints
        else [],
        "_links": {
            "vnfLcmOpOcc": {"href": f"/vnflcm/v2/vnf_lcm_op_occs/{occurrence_id}"},
            "vnfInstance": {"href": f"/vnflcm/v2/vnf_instances/{quote(instance_id, safe='')}"},
        },
    }


def _list_constraints(
    attributes: Mapping[str, Any], added_names: set[str]
) -> Iterator[dict[str, Any]]:
    """Yield the placement constraints of a grant request.

    There is one for each rule with several VNFCs (VMs) and a new one. As in Tacker, the first rule
    without them ends the list of its kind: later affinity rules, or later anti-affinity rules,
    yield nothing. New VNFCs (`added_names`) are listed first, by their grant; others are resources
    of the VIM.
    """
    vnfcs: Mapping[str, Mapping[str, Any]] = get_mapping(attributes, "vnfcs")
    # Values of `is_affinity`.
    ended_kinds: set[bool] = set()
    for rule in _get_vnf_or_empty(attributes).rules:
        members = [name for name, vnfc in vnfcs.items() if vnfc["vdu"] in rule.vdus]
        members.sort(key=lambda name: name not in added_names)
        if len(members) < 2 or members[0] not in added_names:
            ended_kinds.add(rule.is_affinity)
        if rule.is_affinity in ended_kinds:
            continue
        yield {
            "affinityOrAntiAffinity": "AFFINITY" if rule.is_affinity else "ANTI_AFFINITY",
            "scope": "ZONE_GROUP" if rule.label == "zone_group" else _SCOPES[rule.scope],
            "resource": [
                {"idType": "GRANT" if name in added_names else "RES_MGMT", "resourceId": name}
                for name in members
            ],
            "fallbackBestEffort": not rule.is_hard,
        }


def _get_vnf_or_empty(attributes: Mapping[str, Any]) -> Vnf:
    """Return the VNF; an empty one while its documents are unknown."""
    return read_documents(attributes).vnf if has_known_documents(attributes) else Vnf()
