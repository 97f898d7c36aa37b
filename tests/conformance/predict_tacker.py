"""Prediction of one recorded decision of Tacker: the grant request of a life-cycle operation.

The module is pure.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from nexusform.domains.vnf.importers.vnf_records import compute_vdu_counts
from nexusform.domains.vnf.serving.grant_decisions import list_planned_grants
from nexusform.domains.vnf.serving.grant_requests import build_grant_requests
from nexusform.domains.vnf.types.vnf_documents import read_documents
from nexusform.json_data.plain_data import get_mapping
from nexusform.placement_kinds.placement_kind import VM
from nexusform.plans.plan import Action, Change, PlacementAction, PlacementChange, Plan
from nexusform.resources.address import parse_address

Body = dict[str, Any]


def decide_operation(snapshot: Mapping[str, Any], request: Mapping[str, Any]) -> Body:
    """Return the parts of the grant request of a plan with this operation alone.

    They are `{operation, added, removed, constraints}`. `added` and `removed` are numbers of VMs by
    VDU, `constraints` its rules. `snapshot` has the text `vnfd`, `flavour_id`,
    `instantiation_level`, and the `scale_levels` (null before instantiation). `request` has the
    `operation` (INSTANTIATE, SCALE, HEAL or TERMINATE). SCALE has `type`, `aspectId` and
    `numberOfSteps`, HEAL the number of `vnfcs` by VDU. Raises KeyError, TypeError, ValueError and
    StopIteration if a case is incomplete.
    """
    operation = request["operation"]
    levels = snapshot["scale_levels"]
    before = None if operation == "INSTANTIATE" else _build_attributes(snapshot, levels)
    levels_after = dict(levels or {})
    if operation == "SCALE":
        sign = 1 if request["type"] == "SCALE_OUT" else -1
        levels_after[request["aspectId"]] += sign * request["numberOfSteps"]
    after = None if operation == "TERMINATE" else _build_attributes(snapshot, levels_after)
    address = parse_address("tacker_vnf.v")
    healed = {
        f"{vdu}-{number}"
        for vdu, count in get_mapping(request, "vnfcs").items()
        for number in range(count)
    }
    vnfcs_before, vnfcs_after = (get_mapping(side, "vnfcs") for side in (before, after))
    actions = {
        name: PlacementAction.MOVE if name in healed else PlacementAction.KEEP
        for name in vnfcs_before
    }
    actions |= dict.fromkeys(vnfcs_before.keys() - vnfcs_after.keys(), PlacementAction.REMOVE)
    actions |= dict.fromkeys(vnfcs_after.keys() - vnfcs_before.keys(), PlacementAction.PLACE)
    change = Change(
        address, Action.UPDATE, before, after, provider="", creation=1, prior_creation=1
    )
    placements = tuple(
        PlacementChange(address, VM, name, actions[name], None, None, trigger="")
        for name in actions
    )
    plan = Plan(changes=(change,), placements=placements)
    grant = next(item for item in list_planned_grants(plan).grants if item.operation == operation)
    constraints: list[dict[str, Any]] = []
    for item in build_grant_requests(plan)[str(address)]["placementConstraints"]:
        id_types = Counter(row["idType"] for row in item["resource"])
        constraint = {
            "kind": item["affinityOrAntiAffinity"],
            "scope": item["scope"],
            "resources": dict(id_types),
        }
        constraints.append(constraint)
    constraints.sort(
        key=lambda item: (item["kind"], sorted(item["resources"].items()), item["scope"])
    )
    return {
        "operation": grant.operation,
        "added": {vdu: len(names) for vdu, names in grant.added.items()},
        "removed": dict(grant.removed),
        "constraints": constraints,
    }


def _build_attributes(snapshot: Mapping[str, Any], levels: Mapping[str, int]) -> Body:
    """Build the attributes of a VNF at these scale levels.

    Its name and locations are placeholders.
    """
    names = ("vnfd", "flavour_id", "instantiation_level")
    attributes = {
        "id": "s/v",
        "name": "v",
        "scale_levels": dict(levels),
        **{name: snapshot[name] for name in names},
    }
    numbers = compute_vdu_counts(
        read_documents(attributes).vnf, snapshot["instantiation_level"], levels
    ).numbers
    vnfcs = {
        f"{vdu}-{number}": {"vdu": vdu, "number": number, "availability_zone": "z", "machine": "m"}
        for vdu, count in numbers.items()
        for number in range(count)
    }
    return {**attributes, "vnfcs": vnfcs}
