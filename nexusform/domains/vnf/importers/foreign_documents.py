"""Detection of documents other than VNFDs and HOT files, to name them in errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from nexusform.documents.field_validation import get_mapping

_Document = Mapping[str, Any]


def describe_foreign_kind(documents: Iterable[Any]) -> str:
    """Return the kind of the documents (plain data) with advice; "" if unknown."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        keys = {str(key).rpartition(":")[2]: value for key, value in document.items()}
        for is_kind, description in _KINDS:
            if is_kind(keys):
                return description
    return ""


def _create_key_check(*names: str) -> Callable[[_Document], bool]:
    """Return a check for all of these top-level keys, ignoring module prefixes."""
    return lambda document: all(name in document for name in names)


def _create_version_check(start: str) -> Callable[[_Document], bool]:
    return lambda document: str(document.get("tosca_definitions_version", "")).startswith(start)


def _create_node_check(start: str) -> Callable[[_Document], bool]:
    def check(document: _Document) -> bool:
        bodies = get_mapping(document, "topology_template", "node_templates").values()
        return any(str(get_mapping(body).get("type", "")).startswith(start) for body in bodies)

    return check


_SUPPORTED_TEXT: Final = "use SOL001, SOL006 or HOT"
_NOT_VNF_TEXT: Final = "not a VNF: use its VNFDs"
_KINDS: Final[tuple[tuple[Callable[[_Document], bool], str], ...]] = (
    (
        _create_key_check("vnfd-catalog"),
        ("an OSM descriptor older than SOL006 (vnfd-catalog): convert it with osm package-translate"),
    ),
    (_create_key_check("nsd-catalog"), f"an OSM network service (nsd-catalog), {_NOT_VNF_TEXT}"),
    (_create_key_check("nsd"), f"a network service descriptor (NSD), {_NOT_VNF_TEXT}"),
    (_create_node_check("tosca.nodes.nfv.NS"), f"a network service in TOSCA, {_NOT_VNF_TEXT}"),
    (_create_version_check("cloudify_dsl"), f"a blueprint of Cloudify; {_SUPPORTED_TEXT}"),
    (_create_node_check("cloudify."), f"a blueprint of Cloudify; {_SUPPORTED_TEXT}"),
    (_create_node_check("org.openecomp."), "a service model of ONAP's SDC: use its VNFD or HOT"),
    (_create_key_check("AWSTemplateFormatVersion"), f"a template of AWS CloudFormation; {_SUPPORTED_TEXT}"),
    (_create_key_check("$schema", "contentVersion"), f"a template of Azure Resource Manager; {_SUPPORTED_TEXT}"),
    (_create_key_check("apiVersion", "kind"), "a Kubernetes manifest: use a fleet_hub_manifest"),
    (_create_key_check("apiVersion", "name", "version"), "a Helm chart: render it, and use a fleet_hub_manifest"),
)
