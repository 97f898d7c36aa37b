"""data fleet_cluster_request: a cluster that a fleet asks for (FEP-0001, alpha), and which sites hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.diagnostics import Problem
from nexusform.domains.fleet.importers.cluster_requests import read_cluster_request
from nexusform.domains.fleet.scheduling.cluster_requests import ClusterRequest
from nexusform.domains.fleet.types.fleet_schemas import argument, number, one, text
from nexusform.ports import DataAnswer, Kind, ReadContext, ResourceType
from nexusform.resource_types.nks_pools import MOST_NODES
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import BOOL, NUMBER, STRING, ListType, MapType, ObjectType, SetType
from nexusform.values import UNKNOWN

_TEXTS: Final = ListType(STRING)
_SITE: Final = ObjectType.of(
    {"fits": BOOL, "vms_at_least": NUMBER, "vms_at_most": NUMBER, "racks": _TEXTS, "reason": STRING}
)
_SELECTOR: Final = ObjectType.of(
    {
        "members": _TEXTS,
        "missing": NUMBER,
        "asks": BOOL,
        "meets_terms": BOOL,
        "unmet": _TEXTS,
    }
)


def _computed(of: Any, description: str) -> Attribute:
    return Attribute(of, description, computed=True)


# What planning answers once everything else has its place.
ANSWERS: Final = ("labels", "properties", "selectors", "meets_terms", "unmet", "sites")
_SCHEMA: Final = BlockSchema(
    {
        "id": _computed(STRING, "`<kind> <name>` of the object."),
        "manifest": text(
            "A ClusterRequest, PlacementPolicy or ClusterPlacementPolicy of placement.kubefleet.dev/v1alpha1 "
            "as real YAML; it is only read.",
            required=True,
        ),
        "kind": _computed(STRING, "Its kind."),
        "policy": _computed(STRING, "The policy that asks: `<name>`, or `<namespace>/<name>`."),
        "labels": _computed(MapType(STRING), "The labels that the cluster would have."),
        "properties": _computed(
            MapType(STRING), "Its properties, resources too, as they follow from the template."
        ),
        "selectors": _computed(
            ListType(_SELECTOR),
            "Each cluster selector (of a ClusterRequest the only one): the members that meet it, how many it "
            "lacks, whether it asks for clusters, and whether the template's cluster would meet it.",
        ),
        "meets_terms": _computed(BOOL, "Whether the cluster meets every selector that lacks one."),
        "unmet": _computed(_TEXTS, "What it lacks, term by term."),
        "sites": _computed(
            MapType(_SITE),
            "By id of the site: whether it holds the cluster after this plan, how many of its VMs fit at "
            "least and at most, on which racks, and why not.",
        ),
    },
    {
        "template": one(
            "The cluster that would be made.",
            BlockSchema(
                {
                    "sku": text("VM SKU of its nodes.", required=True),
                    "count": number("How many nodes.", required=True),
                    "zones": argument(SetType(STRING), "Availability zones; default all."),
                    "labels": argument(MapType(STRING), "Labels of the member cluster."),
                }
            ),
            min_items=1,
        )
    },
    "A cluster that a fleet asks for (FEP-0001, alpha; experimental): which sites hold it, and whether it"
    " meets the terms.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """Kind and name."""
    request = fleet(attributes)
    return f"{request.kind} {request.name}"


def fleet(attributes: Mapping[str, Any]) -> ClusterRequest:
    """The request that was read."""
    request, _ = read_cluster_request("manifest", str(attributes.get("manifest") or ""))
    return request or ClusterRequest("", "", "", ())


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """What the manifest's schema refuses, and a count that is none."""
    problems = []
    manifest = attributes.get("manifest")
    if isinstance(manifest, str):
        for each in read_cluster_request("manifest", manifest)[1]:
            place = f"manifest:{each.line}: " if each.line else ""
            detail = f"{place}{each.detail}"
            problems.append(Problem(("manifest",), each.id, detail, each.severity, line=each.line))
    count = (attributes.get("template") or {}).get("count")
    if isinstance(count, int | float) and (not 1 <= count <= MOST_NODES or count != int(count)):
        detail = f"A cluster has 1 to {MOST_NODES:,} nodes, and a whole number of them."
        problems.append(Problem(("template", "count"), "invalid-value-for-argument", detail))
    return problems


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataAnswer:
    """The document; what depends on sites and members is answered when these are planned."""
    del context
    request = fleet(attributes)
    values: dict[str, Any] = dict.fromkeys(ANSWERS, UNKNOWN)
    values["id"] = f"{request.kind} {request.name}"
    return DataAnswer({"kind": request.kind, "policy": request.policy, **values})


FLEET_CLUSTER_REQUEST: Final = ResourceType(
    "fleet_cluster_request",
    0,
    _SCHEMA,
    identify,
    mode="data",
    check=check,
    read=read,
    fleet=fleet,
    kind=Kind.CLUSTER_REQUEST,
)
