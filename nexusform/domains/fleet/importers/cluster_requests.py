"""ClusterRequest, PlacementPolicy and ClusterPlacementPolicy as YAML: what they ask of clusters.

Source: config/crd/bases/placement.kubefleet.dev_*.yaml of KubeFleet at e160c1cd (FEP-0001, alpha).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.diagnostics import Problem, did_you_mean
from nexusform.documents.shapes import Holds, Objection, Shape
from nexusform.documents.text_places import TextPlace
from nexusform.documents.yaml_text import Node, problem_at, read_yaml
from nexusform.domains.fleet.importers.fleet_documents import INVALID, FleetDocument, read_fleet_object
from nexusform.domains.fleet.importers.fleet_shapes import ALPHA, ApiKind
from nexusform.domains.fleet.scheduling.cluster_requests import (
    ALL,
    ClusterRequest,
    RequestSelector,
    RequestTerm,
)
from nexusform.kubernetes.matching import Requirement
from nexusform.schema import BlockSchema

GROUP: Final = "placement.kubefleet.dev"
_MATCHING: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_COMPARING: Final = ("Gt", "Lt", "Ge", "Le", "Eq", "Ne")
_TEXT: Final = Shape(Holds.TEXT)
_NEEDED: Final = Shape(Holds.TEXT, required=True)
_ANY: Final = Shape(Holds.ANY)


def _values_of_the_operator(expression: Mapping[str, Any]) -> Iterator[Objection]:
    """What is wrong with how many values an operator has."""
    operator, count = expression.get("operator"), len(expression.get("values") or ())
    if operator in ("In", "NotIn") and not count:
        yield Objection("values", "values must be non-empty when operator is In or NotIn.")
    if operator in ("Exists", "DoesNotExist") and count:
        yield Objection("values", "values must be empty when operator is Exists or DoesNotExist.")
    if operator in _COMPARING and count != 1:
        text = "values must contain exactly one element when operator is Gt, Lt, Ge, Le, Eq, or Ne."
        yield Objection("values", text)


def _name_or_labels(selector: Mapping[str, Any]) -> Iterator[Objection]:
    if selector.get("name") and "labelSelector" in selector:
        text = "name and labelSelector are mutually exclusive in a resource selector."
        yield Objection("labelSelector", text)


def _least_below_count(selector: Mapping[str, Any]) -> Iterator[Objection]:
    count, least = selector.get("count", 1), selector.get("minCount")
    number = int(count) if str(count).isdecimal() else None
    if "count" in selector and number is not None and isinstance(least, int) and least > number:
        yield Objection("minCount", "minCount must be less than or equal to count when count is not All.")


def _each(items: Shape, most: int, *, least: int | None = None, required: bool = False) -> Shape:
    return Shape(Holds.LIST, items=items, least=least, most=most, required=required)


_EXPRESSION: Final = Shape(
    Holds.OBJECT,
    {
        "key": _NEEDED,
        "operator": Shape(Holds.TEXT, choices=(*_MATCHING, *_COMPARING), required=True),
        "values": Shape(Holds.LIST, items=_TEXT),
    },
    rules=(_values_of_the_operator,),
)
_TERM: Final = Shape(
    Holds.OBJECT,
    {
        "matchLabels": Shape(Holds.TEXTS),
        "matchLabelExpressions": _each(_EXPRESSION, 10),
        "matchClusterPropertyExpressions": _each(_EXPRESSION, 10),
    },
)
_REFERENCE: Final = Shape(
    Holds.OBJECT,
    {"namespace": _TEXT, "name": _NEEDED, "apiGroup": _TEXT, "apiVersion": _NEEDED, "kind": _NEEDED},
    required=True,
)
_SELECTOR: Final = Shape(
    Holds.OBJECT,
    {
        "terms": _each(_TERM, 5),
        "count": Shape(Holds.AMOUNT, least=1, most=999, pattern="([1-9][0-9]{0,2}|All)", defaulted=True),
        "minCount": Shape(Holds.WHOLE, least=0, most=999),
        "whenUnfulfilled": Shape(Holds.TEXT, choices=("RequestCluster", "KeepSearching"), defaulted=True),
    },
    rules=(_least_below_count,),
)
_RESOURCE: Final = Shape(
    Holds.OBJECT,
    {
        "apiGroup": _TEXT,
        "apiVersion": _NEEDED,
        "kind": _NEEDED,
        "name": _TEXT,
        "namespace": _TEXT,
        "labelSelector": _ANY,
    },
    rules=(_name_or_labels,),
)


def _word(*choices: str) -> Shape:
    return Shape(Holds.TEXT, choices=choices, defaulted=True)


_SYNC: Final = Shape(
    Holds.OBJECT,
    {
        "applyMethod": _word("ClientSideApply", "ServerSideApply"),
        "serverSideApplyOptions": Shape(Holds.OBJECT, {"forceConflicts": Shape(Holds.FLAG)}),
        "whenOwnedByOthers": _word("ShareOwnership", "ReportError"),
        "whenDrifted": _word("ApplyAnyway", "ReportError"),
        "whenAlreadyExists": _word("AlwaysTakeOver", "TakeOverIfNoDiff", "ReportError"),
        "whenPlacementDeleted": _word("CleanUpResources", "OrphanResources"),
        "whenNamespaceDoesNotExist": _word("CreateNamespace", "ReportError"),
        "comparisonOption": _word("PartialComparison", "FullComparison"),
    },
)


def _keys_of_tolerations(toleration: Mapping[str, Any]) -> Iterator[Objection]:
    exists, value = toleration.get("operator") == "Exists", toleration.get("value")
    if not toleration.get("key") and (not exists or value):
        yield Objection("", "operator must be Exists and value must be empty when key is empty.")
    elif exists and value:
        yield Objection("value", "value must be empty when operator is Exists.")


_TOLERATION: Final = Shape(
    Holds.OBJECT,
    {"key": _TEXT, "operator": _word("Equal", "Exists"), "value": _TEXT, "effect": _word("NoSchedule")},
    rules=(_keys_of_tolerations,),
)
_POLICY: Final = Shape(
    Holds.OBJECT,
    {
        "clusterSelectors": _each(_SELECTOR, 10, least=1),
        "resourceSelectors": _each(_RESOURCE, 10, least=1, required=True),
        "resourceRevisionHistoryLimit": Shape(Holds.WHOLE, least=1, most=20, defaulted=True),
        "syncStrategy": _SYNC,
        "tolerations": _each(_TOLERATION, 10),
    },
)
_REQUEST: Final = Shape(
    Holds.OBJECT,
    {"placementPolicyRef": _REFERENCE, "clusterSelectorTerms": Shape(Holds.LIST, items=_TERM)},
)
KINDS: Final[Mapping[str, ApiKind]] = {
    kind: ApiKind(kind, "fleet_cluster_request", (ALPHA,), spec, GROUP)
    for kind, spec in (
        ("ClusterRequest", _REQUEST),
        ("PlacementPolicy", _POLICY),
        ("ClusterPlacementPolicy", _POLICY),
    )
}


def read_cluster_request(file: str, content: str) -> tuple[ClusterRequest | None, tuple[Problem, ...]]:
    """The only object of a text; None where there is none of these kinds."""
    stream = read_yaml(file, content)
    if stream.findings:
        return None, tuple(stream.findings)
    if len(stream.documents) != 1:
        at = Node.of(stream.documents[1]).place if stream.documents else TextPlace(1, 1)
        text = "one manifest holds one object; write a block for each." if stream.documents else _NOTHING
        return None, (problem_at(file, at, INVALID, text),)
    root = Node.of(stream.documents[0])
    kind = root.at("kind")
    if kind.text not in KINDS:
        near = did_you_mean(kind.text, KINDS)
        text = f'kind is "{kind.text}"; {_EXPECTED}.{near}'
        return None, (problem_at(file, kind.place, INVALID, text),)
    document = read_fleet_object(file, stream.documents[0], KINDS[kind.text], BlockSchema({}))
    return _request(kind.text, document), document.findings


_EXPECTED: Final = "a ClusterRequest, PlacementPolicy or ClusterPlacementPolicy is expected"
_NOTHING: Final = f"the text holds no object; {_EXPECTED}."


def _request(kind: str, document: FleetDocument) -> ClusterRequest:
    """A ClusterRequest, or a placement policy, as the scheduler takes it."""
    if kind == "ClusterRequest":
        policy = document.values.get("placement_policy_ref") or {}
        terms = tuple(_term(each) for each in document.values.get("cluster_selector_term") or ())
        key = _key(policy.get("namespace"), policy.get("name"))
        return ClusterRequest(kind, document.name, key, (RequestSelector(terms),))
    selectors = tuple(_selector(each) for each in document.values.get("cluster_selector") or ())
    # Without any, all clusters are taken as they are, and none is asked for.
    key = _key(document.namespace, document.name)
    return ClusterRequest(kind, key, key, selectors)


def _key(namespace: Any, name: Any) -> str:
    return f"{namespace}/{name}" if namespace else str(name or "")


def _selector(values: Mapping[str, Any]) -> RequestSelector:
    written = values.get("count") or "1"
    count = ALL if written == "All" else int(written)
    least = values.get("min_count")
    return RequestSelector(
        tuple(_term(each) for each in values.get("term") or ()),
        count,
        int(least) if least is not None else count or 1,
        values.get("when_unfulfilled") != "KeepSearching",
    )


def _term(values: Mapping[str, Any]) -> RequestTerm:
    return RequestTerm(
        values.get("match_labels") or {},
        tuple(_expression(each) for each in values.get("match_label_expression") or ()),
        tuple(_expression(each) for each in values.get("match_cluster_property_expression") or ()),
    )


def _expression(values: Mapping[str, Any]) -> Requirement:
    key, operator = values.get("key") or "", values.get("operator") or ""
    return Requirement(key, operator, tuple(values.get("values") or ()))
